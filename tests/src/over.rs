//! What the lanes of a test's run are: plain TCP, TLS over TCP, or QUIC.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use pccl::{Quic, Tcp, Transport};
use pccl_core::id::Identity;
use pccl_master::{
    JoinString, MasterBuilder, MasterServer, RunningMaster, Security, Trust, TrustError, Via,
};
use serde::{Deserialize, Serialize};

/// The environment variable that chooses for tests which do not.
const VARIABLE: &str = "PCCL_TEST_TRANSPORT";

/// What all lanes of a run are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Serialize)]
pub enum Over {
    /// Plain TCP.
    #[default]
    Tcp,
    /// TLS over TCP.
    Tls,
    /// QUIC.
    Quic,
}

impl Over {
    /// What `PCCL_TEST_TRANSPORT` says: `tcp`, `tls` or `quic`. Unset: plain TCP.
    ///
    /// # Panics
    /// It says anything else.
    #[must_use]
    pub fn of_environment() -> Self {
        match std::env::var(VARIABLE) {
            Ok(name) => clap::ValueEnum::from_str(&name, true).expect(VARIABLE),
            Err(_) => Self::Tcp,
        }
    }

    /// As it stands on a command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::Quic => "quic",
        }
    }

    /// A master of such a run.
    ///
    /// # Errors
    /// There is no randomness.
    pub fn master(self) -> Result<MasterBuilder, TrustError> {
        self.master_of(Trust::ephemeral)
    }

    /// A master of such a run that keeps its journal, and its key where it has one, in this directory: when it is
    /// killed, another one goes on.
    ///
    /// # Errors
    /// The files of the directory cannot be used.
    pub fn master_that_may_die(self, directory: &Path) -> Result<MasterBuilder, TrustError> {
        let builder = self.master_of(|| Trust::of_directory(directory))?;
        Ok(builder.journal(directory))
    }

    fn master_of(
        self,
        trust: impl FnOnce() -> Result<Trust, TrustError>,
    ) -> Result<MasterBuilder, TrustError> {
        let security = match self {
            Self::Tcp => Security::Plain,
            Self::Tls => Security::Proven(trust()?.over(Via::Tls)),
            Self::Quic => Security::Proven(trust()?.over(Via::Quic)),
        };
        Ok(MasterServer::builder().security(security))
    }

    /// What peers come by to a run that is joined with this: a join string, or an address.
    #[must_use]
    pub fn to(join: &str) -> Self {
        match join.parse().as_ref().map(JoinString::via) {
            Ok(Via::Quic) => Self::Quic,
            Ok(_) => Self::Tls,
            Err(_) => Self::Tcp,
        }
    }

    /// With its defaults.
    #[must_use]
    pub fn transport(self) -> Arc<dyn Transport> {
        match self {
            Self::Tcp => Arc::new(Tcp::plain()),
            Self::Tls => Arc::new(Tcp::new()),
            Self::Quic => Arc::new(Quic::new()),
        }
    }
}

/// Where a master is, and what its peers are given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MasterAt {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its join string, or the address of one that is plain.
    pub join: String,
}

impl MasterAt {
    /// Who it is, unless it is plain.
    #[must_use]
    pub fn identity(&self) -> Option<Identity> {
        let join: JoinString = self.join.parse().ok()?;
        Some(Identity(join.master().into()))
    }
}

impl From<SocketAddr> for MasterAt {
    /// Of one that is plain.
    fn from(address: SocketAddr) -> Self {
        Self {
            address,
            join: address.to_string(),
        }
    }
}

impl From<&Self> for MasterAt {
    fn from(master: &Self) -> Self {
        master.clone()
    }
}

impl From<&RunningMaster> for MasterAt {
    /// # Panics
    /// It encrypts, and cannot invite anybody.
    fn from(master: &RunningMaster) -> Self {
        let invited = master.join_string(&[]).expect("an invitation in memory");
        let join = invited.map(|invited| invited.to_word().to_string());
        let address = master.local_addr();
        let join = join.unwrap_or_else(|| address.to_string());
        Self { address, join }
    }
}
