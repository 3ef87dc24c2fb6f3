//! What a run goes over, for the examples that start one.

use std::fmt;
use std::path::Path;

use pccl_master::{MasterBuilder, MasterServer, RunningMaster, Security, Trust, TrustError, Via};

/// What all lanes of a run are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Over {
    /// Plain TCP.
    Tcp,
    /// TLS 1.3 over TCP.
    Tls,
    /// QUIC; needs the cargo feature `quic`.
    Quic,
}

impl Over {
    /// Does the run encrypt?
    pub(crate) fn is_proven(self) -> bool {
        match self {
            Self::Tcp => false,
            Self::Tls | Self::Quic => true,
        }
    }

    /// A master of such a run. If it is to have a journal, it keeps it in this directory, and its key as well.
    pub(crate) fn master(self, journal: Option<&Path>) -> Result<MasterBuilder, TrustError> {
        let trust = || journal.map_or_else(Trust::ephemeral, Trust::of_directory);
        let security = match self {
            Self::Tcp => Security::Plain,
            Self::Tls => Security::Proven(trust()?),
            Self::Quic => Security::Proven(trust()?.over(Via::Quic)),
        };
        let builder = MasterServer::builder().security(security);
        Ok(match journal {
            Some(directory) => builder.journal(directory),
            None => builder,
        })
    }
}

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::Quic => "quic",
        })
    }
}

/// What the environment variable `PCCL_JOIN` of a peer has to be: the join string of a master that encrypts, else
/// its address.
pub(crate) fn join_of(master: &RunningMaster) -> Result<String, TrustError> {
    let invited = master.join_string(&[])?;
    Ok(match invited {
        Some(invited) => invited.to_word().to_string(),
        None => master.local_addr().to_string(),
    })
}
