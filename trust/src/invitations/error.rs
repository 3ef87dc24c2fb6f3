//! Why a peer is not admitted, and errors of the file of invitations.

use std::path::PathBuf;

use crate::private_file::FileError;
use crate::provider::NoRandomness;

use super::InvitationId;

/// Why a peer is not admitted. The text is for the peer's user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Denial {
    /// Its proof fits no secret of this master.
    #[error(
        "the master does not know the secret of this join string: it belongs to another run, or the \
         master has forgotten it. Ask for another one (`pccl-master invite`)"
    )]
    Unknown,
    /// It has proved the secret of an invitation whose time is over.
    #[error("the invitation {0} has expired: ask for another one (`pccl-master invite`)")]
    Expired(InvitationId),
    /// It has proved the secret of an invitation that is used up.
    #[error(
        "the invitation {0} is used up: ask for another one (`pccl-master invite`), and keep keys in \
         files, so that a restart takes no further use"
    )]
    UsedUp(InvitationId),
    /// It has proved the secret of an invitation that was revoked.
    #[error("the invitation {0} was revoked: ask for another one (`pccl-master invite`)")]
    Revoked(InvitationId),
    /// Its key is banned.
    #[error("the master has banned this peer's key: its operator must lift the ban")]
    Banned,
}

/// What can go wrong with invitations.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvitationError {
    /// The operating system gave no randomness.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    /// The file cannot be read or written, or other users could have read it.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file is not as it was written.
    #[error(
        "{} is damaged, or of another version of pccl: restore it, or delete it, which ends all \
         invitations and memberships",
        .file.display()
    )]
    Damaged {
        /// The file.
        file: PathBuf,
    },
    /// There is no such invitation.
    #[error("there is no invitation {0}")]
    NotThere(InvitationId),
    /// The limit on the number of these is reached.
    #[error("there is no room for more {0}: end some first")]
    Full(&'static str),
}

/// Why a peer was not admitted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdmitError {
    /// It may not be admitted. Tell it the reason.
    #[error(transparent)]
    Refused(#[from] Denial),
    /// The master cannot use its invitations. The reason is for the operator, not for the peer.
    #[error(transparent)]
    Store(#[from] InvitationError),
}
