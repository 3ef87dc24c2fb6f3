//! Why a master could not be started.

use std::net::SocketAddr;

use crate::journal::JournalError;
use pccl_core::transport::{LaneError, Protocol};
use pccl_trust::{InvitationError, JoinError, KeyError, Via};

/// A problem with a master's key, its invitations or the addresses of a join string.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// The key cannot be made or read.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The invitations cannot be used.
    #[error(transparent)]
    Invitations(#[from] InvitationError),
    /// The join string cannot be made.
    #[error(transparent)]
    Join(#[from] JoinError),
}

/// Why a master could not be started. Nothing is left running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address is in use, not an address of this machine, or not permitted. Choose another one.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address on which the master was to listen.
        address: SocketAddr,
        /// The error of the transport.
        error: LaneError,
    },
    /// The address cannot be parsed, or its host name is unknown. Correct it.
    #[error("cannot listen on {address}: no such address ({error})")]
    Address {
        /// The address as it was given.
        address: String,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// There is no address to listen on. Pass at least one.
    #[error("there is no address to listen on")]
    NoAddress,
    /// The master is to encrypt, and the transport does not. Pass another transport, or set
    /// [`Security::Plain`](crate::Security::Plain).
    #[error(
        "the transport does not encrypt, and the master has to: `Security::Plain` says otherwise"
    )]
    CannotEncrypt,
    /// The master is to be plain, and the transport always encrypts. Set
    /// [`Security::Proven`](crate::Security::Proven).
    #[error("the transport always encrypts, and the master is to be plain")]
    CannotBePlain,
    /// This program was built without the transport. Build it with the cargo feature of that name.
    #[error(
        "this program was built without {0}: build it with the cargo feature `{0}` of the package \
         pccl-master (`cargo run -p pccl-master --features {0}`)"
    )]
    NoSuchTransport(Via),
    /// The transport speaks another protocol than the join strings name. Pass another transport, or set
    /// [`Trust::over`](crate::Trust::over).
    #[error(
        "the transport that was handed in speaks {given}, and the join strings of this master ask for `{asked}`: \
         hand in the transport of that name, or say Trust::over"
    )]
    WrongTransport {
        /// The protocol that the join strings name.
        asked: Via,
        /// The protocol of the transport.
        given: Protocol,
    },
    /// A transport was set, the address is not a loopback address, and no security was set. Set
    /// [`MasterBuilder::security`](crate::MasterBuilder::security), with the key pair of the transport if it
    /// encrypts.
    #[error("whether the master encrypts has to be said where a transport is handed in")]
    SecurityUnsaid,
    /// The master has no key, or cannot use its invitations.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The operating system gave no randomness for the ticket key. Set
    /// [`MasterBuilder::seed`](crate::MasterBuilder::seed).
    #[error("the operating system gave no random numbers: {0}")]
    Randomness(rand::rngs::SysError),
    /// The journal cannot be used, or the run in it cannot be resumed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The operating system could not create a thread or a runtime.
    #[error("the master's thread could not be started: {0}")]
    Thread(std::io::Error),
    /// The master's thread ended before it listened. This is a defect of this crate.
    #[error("the master's thread ended before it listened")]
    ThreadEnded,
}
