//! What failures of sockets, connections and streams mean for a lane.

use std::io::{Error, ErrorKind};

use pccl_core::transport::LaneError;
use quinn::{ConnectError, ConnectionError, ReadError, TransportErrorCode, WriteError};

/// Translates an error of a socket call.
pub(crate) fn of_socket(error: &Error) -> LaneError {
    match error.kind() {
        ErrorKind::ConnectionRefused => LaneError::Refused,
        ErrorKind::TimedOut => LaneError::TimedOut,
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::NetworkDown => {
            LaneError::Unreachable
        }
        ErrorKind::AddrInUse => LaneError::AddressInUse,
        ErrorKind::AddrNotAvailable | ErrorKind::PermissionDenied => LaneError::AddressNotAvailable,
        _ => error
            .raw_os_error()
            .map_or(LaneError::Failed, LaneError::of_system),
    }
}

/// Why a connection was not even begun.
pub(crate) fn of_connecting(error: &ConnectError) -> LaneError {
    match error {
        ConnectError::InvalidRemoteAddress(_) => LaneError::Unreachable,
        ConnectError::InvalidServerName(_) => LaneError::Untrusted,
        ConnectError::EndpointStopping
        | ConnectError::CidsExhausted
        | ConnectError::NoDefaultClientConfig
        | ConnectError::UnsupportedVersion => LaneError::Failed,
    }
}

/// Why a connection was not made, or has ended.
pub(crate) fn of_connection(error: &ConnectionError) -> LaneError {
    match error {
        ConnectionError::TimedOut => LaneError::TimedOut,
        ConnectionError::Reset => LaneError::Reset,
        ConnectionError::ApplicationClosed(_) | ConnectionError::LocallyClosed => LaneError::Closed,
        ConnectionError::ConnectionClosed(close) => of_code(close.error_code),
        ConnectionError::TransportError(error) => of_code(error.code),
        ConnectionError::VersionMismatch | ConnectionError::CidsExhausted => LaneError::Failed,
    }
}

fn of_code(code: TransportErrorCode) -> LaneError {
    /// Where the alerts of TLS begin and end among the codes (RFC 9001, section 4.8).
    const ALERTS: std::ops::Range<u64> = 0x100..0x200;
    match code {
        TransportErrorCode::NO_ERROR => LaneError::Closed,
        TransportErrorCode::CONNECTION_REFUSED => LaneError::Refused,
        // Nothing but proving who one is goes on in TLS here.
        other if ALERTS.contains(&u64::from(other)) => LaneError::Untrusted,
        _ => LaneError::Failed,
    }
}

/// Why nothing can be sent. The connection's own error is for the caller to judge.
pub(crate) fn of_writing(error: WriteError) -> Result<LaneError, ConnectionError> {
    match error {
        WriteError::ConnectionLost(error) => Err(error),
        // The other end reads no more.
        WriteError::Stopped(_) => Ok(LaneError::Reset),
        WriteError::ClosedStream => Ok(LaneError::Closed),
        WriteError::ZeroRttRejected => Ok(LaneError::Failed),
    }
}

/// Why nothing can be received. The connection's own error is for the caller to judge.
pub(crate) fn of_reading(error: ReadError) -> Result<LaneError, ConnectionError> {
    match error {
        ReadError::ConnectionLost(error) => Err(error),
        ReadError::Reset(_) => Ok(LaneError::Reset),
        ReadError::ClosedStream => Ok(LaneError::Closed),
        ReadError::IllegalOrderedRead | ReadError::ZeroRttRejected => Ok(LaneError::Failed),
    }
}
