//! Why a master could not be started.

use std::net::SocketAddr;

use pccl_core::transport::LaneError;

/// Why a master could not be started. Nothing of it is left running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address is taken, not this machine's, or not allowed: choose another one.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// Where the master was to listen.
        address: SocketAddr,
        /// What the transport said.
        error: LaneError,
    },
    /// The address makes no sense, or its host name is unknown: correct it.
    #[error("cannot listen on {address}: no such address ({error})")]
    Address {
        /// What was given.
        address: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// The operating system gave no randomness for the ticket key: hand in a seed.
    #[error("the operating system gave no random numbers: {0}")]
    Randomness(rand::rngs::SysError),
    /// The operating system refused a thread or a runtime.
    #[error("the master's thread could not be started: {0}")]
    Thread(std::io::Error),
    /// The master's thread ended before it listened: a defect of this crate.
    #[error("the master's thread ended before it listened")]
    ThreadEnded,
}
