//! Why somebody is not let in, and what can be wrong with the file of invitations.

use std::path::PathBuf;

use crate::private_file::FileError;
use crate::provider::NoRandomness;

use super::InvitationId;

/// Why somebody is not let in. Meant for who is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Denial {
    /// It has proven no secret of this master.
    #[error(
        "the master does not know the secret of this join string: it belongs to another run, or the \
         master has forgotten it. Ask for another one (`pccl-master invite`)"
    )]
    Unknown,
    /// It has proven the secret of an invitation whose time is over.
    #[error("the invitation {0} has expired: ask for another one (`pccl-master invite`)")]
    Expired(InvitationId),
    /// It has proven the secret of an invitation that has let in as many as it may.
    #[error(
        "the invitation {0} is used up: ask for another one (`pccl-master invite`), and keep keys in \
         files, so that a restart takes no further use"
    )]
    UsedUp(InvitationId),
    /// It has proven the secret of an invitation that was revoked.
    #[error("the invitation {0} was revoked: ask for another one (`pccl-master invite`)")]
    Revoked(InvitationId),
    /// Its key is kept out.
    #[error("the master has banned this peer's key: its operator must lift the ban")]
    Banned,
}

/// What can go wrong with invitations.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvitationError {
    /// See there.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    /// The file cannot be read or written, or others could have read it.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file is not what was written.
    #[error(
        "{} is damaged, or of another version of pccl: restore it, or delete it, which ends all \
         invitations and memberships",
        .file.display()
    )]
    Damaged {
        /// Which.
        file: PathBuf,
    },
    /// No such invitation is kept.
    #[error("there is no invitation {0}")]
    NotThere(InvitationId),
    /// There are as many of these as are kept.
    #[error("there is no room for more {0}: end some first")]
    Full(&'static str),
}

/// Why nobody was let in.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdmitError {
    /// For a reason of its own.
    #[error(transparent)]
    Refused(#[from] Denial),
    /// Because the master cannot keep its invitations.
    #[error(transparent)]
    Store(#[from] InvitationError),
}
