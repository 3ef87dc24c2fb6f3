//! What is wrong with the bytes of the other end: what it is told, and what the lane says.

use pccl_core::transport::LaneError;
use rustls::{AlertDescription, Error};

/// Why a session cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TlsError {
    /// A record was changed, repeated, left out or made by somebody else.
    Forged,
    /// A record is longer than TLS allows.
    TooLong,
    /// A record or message that has no place here.
    Unexpected,
    /// A message that cannot be read.
    Unreadable,
    /// A message with a value that means nothing.
    Illegal,
    /// The other end has said why it cannot go on.
    Told(AlertDescription),
    /// The fault is on this side.
    Internal,
}

impl TlsError {
    /// What to tell the other end, where it is not the one that has spoken.
    pub(super) const fn alert(self) -> Option<AlertDescription> {
        match self {
            Self::Forged => Some(AlertDescription::BadRecordMac),
            Self::TooLong => Some(AlertDescription::RecordOverflow),
            Self::Unexpected => Some(AlertDescription::UnexpectedMessage),
            Self::Unreadable => Some(AlertDescription::DecodeError),
            Self::Illegal => Some(AlertDescription::IllegalParameter),
            Self::Internal => Some(AlertDescription::InternalError),
            Self::Told(_) => None,
        }
    }

    /// What the lane says.
    pub(super) fn lane_error(self) -> LaneError {
        match self {
            Self::Told(why) => super::handshake::lane_error(&Error::AlertReceived(why)),
            Self::Forged
            | Self::TooLong
            | Self::Unexpected
            | Self::Unreadable
            | Self::Illegal
            | Self::Internal => LaneError::Failed,
        }
    }
}
