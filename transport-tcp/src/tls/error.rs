//! Errors in the bytes of the other end: the alert that it is sent, and the error of the lane.

use pccl_core::transport::LaneError;
use rustls::{AlertDescription, Error};

/// Why a session cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TlsError {
    /// A record was changed, repeated, left out or made by a third party.
    Forged,
    /// A record is longer than TLS allows.
    TooLong,
    /// A record or message that is not permitted at this point.
    Unexpected,
    /// A message that cannot be decoded.
    Unreadable,
    /// A message with an invalid value.
    Illegal,
    /// The other end has sent this alert.
    Told(AlertDescription),
    /// An internal error of this end.
    Internal,
}

impl TlsError {
    /// The alert for the other end. `None` if the other end has sent one.
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

    /// The error of the lane.
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
