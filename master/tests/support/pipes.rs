//! A master's network in memory: bounded pipes within the process, for tests under paused time and for tests
//! that must fill a connection.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use pccl_core::id::Identity;
use pccl_core::transport::{Endpoint, Lane, Transport};
use pccl_transport_memory::{MemoryHost, MemoryNet};

/// Where the master listens.
pub(crate) const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);

/// Who it is, where it proves that.
const MASTER: Identity = Identity([1; 32]);

/// Opens pipes to the master.
#[derive(Clone)]
pub(crate) struct Pipes {
    net: MemoryNet,
    /// What whoever dials proves.
    proves: Option<Identity>,
}

impl Pipes {
    /// Pipes that hold so many bytes in each direction.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            net: MemoryNet::with_capacity(bytes_max),
            proves: None,
        }
    }

    /// The same, as after a handshake in which whoever dials has proved this.
    pub(crate) fn proving(self, identity: Identity) -> Self {
        let proves = Some(identity);
        Self { proves, ..self }
    }

    /// What the master listens by.
    pub(crate) fn transport(&self) -> Arc<MemoryHost> {
        Arc::new(self.net.host(ADDRESS.ip()).proving(MASTER))
    }

    /// A lane to the master.
    pub(crate) fn dial(&self) -> Lane {
        self.dial_from(ADDRESS.ip())
    }

    /// A lane to the master, which takes it to come from there.
    pub(crate) fn dial_from(&self, ip: IpAddr) -> Lane {
        let host = self.net.host(ip);
        let (host, expect) = match self.proves {
            Some(identity) => (host.proving(identity), Some(MASTER)),
            None => (host, None),
        };
        let master = Endpoint::Address(ADDRESS);
        let dialling = pin!(host.open(&master, expect));
        match dialling.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(lane) => lane.expect("a listener"),
            Poll::Pending => panic!("a lane in memory is opened at once"),
        }
    }
}
