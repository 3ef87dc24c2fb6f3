//! Why a master could not be started.

use std::net::SocketAddr;

use pccl_core::transport::{LaneError, Protocol};
use pccl_trust::{InvitationError, JoinError, KeyError, Via};

/// What is wrong with a master's key, its invitations or the addresses of a join string.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// There is no key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The invitations cannot be used.
    #[error(transparent)]
    Invitations(#[from] InvitationError),
    /// No join string can be made.
    #[error(transparent)]
    Join(#[from] JoinError),
}

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
    /// There is no address to listen on: give one.
    #[error("there is no address to listen on")]
    NoAddress,
    /// The transport does not encrypt, and the master is to: hand in another one, or say
    /// [`Security::Plain`](crate::Security::Plain).
    #[error(
        "the transport does not encrypt, and the master has to: `Security::Plain` says otherwise"
    )]
    CannotEncrypt,
    /// The transport always encrypts, and the master is to be plain: say
    /// [`Security::Proven`](crate::Security::Proven).
    #[error("the transport always encrypts, and the master is to be plain")]
    CannotBePlain,
    /// This program was built without the transport: build it with the cargo feature of that name.
    #[error(
        "this program was built without {0}: build it with the cargo feature `{0}` of the package \
         pccl-master (`cargo run -p pccl-master --features {0}`)"
    )]
    NoSuchTransport(Via),
    /// The transport speaks something else than the join strings would ask for: hand in another one, or say
    /// [`Trust::over`](crate::Trust::over).
    #[error(
        "the transport that was handed in speaks {given}, and the join strings of this master ask for `{asked}`: \
         hand in the transport of that name, or say Trust::over"
    )]
    WrongTransport {
        /// What the join strings ask for.
        asked: Via,
        /// What the transport speaks.
        given: Protocol,
    },
    /// Beyond loopback, with a transport that was handed in, somebody has to say whether the master encrypts,
    /// and with the key pair of that transport: [`MasterBuilder::security`](crate::MasterBuilder::security).
    #[error("whether the master encrypts has to be said where a transport is handed in")]
    SecurityUnsaid,
    /// The master has no key, or cannot use its invitations.
    #[error(transparent)]
    Trust(#[from] TrustError),
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
