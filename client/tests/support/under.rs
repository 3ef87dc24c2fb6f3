//! The transport under test. Which one it is a run's master decides, and the environment variable
//! `PCCL_TEST_TRANSPORT` for the masters of tests that do not care: `tls`, `quic`, or unset for plain TCP.

use std::net::SocketAddr;

#[cfg(feature = "quic")]
use pccl::Quic;
use pccl::{LaneError, Tcp};
use pccl_core::id::Identity;
use pccl_core::transport::{BoxFuture, Endpoint, Lane, Listener, Protocol, Security, Transport};
use pccl_master::{
    JoinString, KeyPair, Limits, MasterBuilder, MasterServer, RunningMaster,
    Security as Encryption, Trust, Via,
};

/// Makes tests of stories: each over TLS, and over QUIC where that is built in.
#[allow(unused_macros, reason = "each test file uses a part of this module")]
macro_rules! over_each_transport {
    ($($story:ident,)*) => {
        mod over_tls {
            $(#[test]
            fn $story() {
                super::$story(pccl_master::Via::Tls);
            })*
        }

        #[cfg(feature = "quic")]
        mod over_quic {
            $(#[test]
            fn $story() {
                super::$story(pccl_master::Via::Quic);
            })*
        }
    };
}

#[allow(unused_imports, reason = "each test file uses a part of this module")]
pub(crate) use over_each_transport;

/// One of those that there are.
#[derive(Clone, Debug)]
pub(crate) enum Under {
    Tcp(Tcp),
    #[cfg(feature = "quic")]
    Quic(Quic),
}

impl Under {
    /// What leads to the master of a join string or an address.
    pub(crate) fn to(master: &str) -> Self {
        match master.parse().as_ref().map(JoinString::via) {
            #[cfg(feature = "quic")]
            Ok(Via::Quic) => Self::Quic(Quic::new()),
            Ok(_) | Err(_) => Self::Tcp(Tcp::new()),
        }
    }

    /// What proves this key.
    pub(crate) fn proving(via: Via, pair: &KeyPair) -> Self {
        match via {
            #[cfg(feature = "quic")]
            Via::Quic => Self::Quic(Quic::new().key_pair(pair)),
            _ => Self::Tcp(Tcp::new().key_pair(pair)),
        }
    }

    pub(crate) fn lanes(self, lanes: u16) -> Self {
        match self {
            Self::Tcp(tcp) => Self::Tcp(tcp.lanes(lanes)),
            #[cfg(feature = "quic")]
            Self::Quic(quic) => Self::Quic(quic.lanes(lanes)),
        }
    }

    fn inner(&self) -> &dyn Transport {
        match self {
            Self::Tcp(tcp) => tcp,
            #[cfg(feature = "quic")]
            Self::Quic(quic) => quic,
        }
    }
}

impl Transport for Under {
    fn listen(
        &self,
        on: SocketAddr,
        security: Security,
    ) -> BoxFuture<'_, Result<Box<dyn Listener>, LaneError>> {
        self.inner().listen(on, security)
    }

    fn open<'a>(
        &'a self,
        to: &'a Endpoint,
        expect: Option<Identity>,
    ) -> BoxFuture<'a, Result<Lane, LaneError>> {
        self.inner().open(to, expect)
    }

    fn lanes_per_edge(&self) -> u16 {
        self.inner().lanes_per_edge()
    }

    fn security(&self) -> Security {
        self.inner().security()
    }

    fn has_plain_lanes(&self) -> bool {
        self.inner().has_plain_lanes()
    }

    fn protocol(&self) -> Option<Protocol> {
        self.inner().protocol()
    }
}

/// A master over what the environment says.
pub(crate) fn spawn_master() -> RunningMaster {
    let via = match std::env::var("PCCL_TEST_TRANSPORT").as_deref() {
        Err(_) => return pccl_master::spawn("127.0.0.1:0").unwrap(),
        Ok(name) => name.parse::<Via>().expect("PCCL_TEST_TRANSPORT"),
    };
    spawn_invited(Trust::ephemeral().unwrap().over(via))
}

/// The same with other limits.
pub(crate) fn spawn_master_with(limits: Limits) -> RunningMaster {
    spawn_master_of(MasterServer::builder().limits(limits))
}

/// The same with other settings.
pub(crate) fn spawn_master_of(master: MasterBuilder) -> RunningMaster {
    let master = match std::env::var("PCCL_TEST_TRANSPORT").as_deref() {
        Err(_) => master,
        Ok(name) => {
            let via = name.parse::<Via>().expect("PCCL_TEST_TRANSPORT");
            let trust = Trust::ephemeral().unwrap().over(via);
            master.security(Encryption::Proven(trust))
        }
    };
    master.spawn("127.0.0.1:0").unwrap()
}

/// A master that encrypts, and lets in who is invited.
pub(crate) fn spawn_invited(trust: Trust) -> RunningMaster {
    let master = MasterServer::builder().security(Encryption::Proven(trust));
    master.spawn("127.0.0.1:0").unwrap()
}
