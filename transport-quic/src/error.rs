//! Mapping of failures of sockets, connections and streams to lane errors.

use std::io::{Error, ErrorKind};

use pccl_core::transport::LaneError;
use quinn::{ConnectError, ConnectionError, ReadError, TransportErrorCode, WriteError};

/// The lane error for an error of a socket call.
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

/// The lane error if a connection could not be started.
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

/// The lane error if a connection was not established, or has ended.
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
    /// The range of TLS alerts among the error codes (RFC 9001, section 4.8).
    const ALERTS: std::ops::Range<u64> = 0x100..0x200;
    match code {
        TransportErrorCode::NO_ERROR => LaneError::Closed,
        TransportErrorCode::CONNECTION_REFUSED => LaneError::Refused,
        // Nothing but proving who one is goes on in TLS here.
        other if ALERTS.contains(&u64::from(other)) => LaneError::Untrusted,
        _ => LaneError::Failed,
    }
}

/// The lane error if sending failed. `Err` has the error of the connection, which the caller maps.
pub(crate) fn of_writing(error: WriteError) -> Result<LaneError, ConnectionError> {
    match error {
        WriteError::ConnectionLost(error) => Err(error),
        // The other end reads no more.
        WriteError::Stopped(_) => Ok(LaneError::Reset),
        WriteError::ClosedStream => Ok(LaneError::Closed),
        WriteError::ZeroRttRejected => Ok(LaneError::Failed),
    }
}

/// The lane error if receiving failed. `Err` has the error of the connection, which the caller maps.
pub(crate) fn of_reading(error: ReadError) -> Result<LaneError, ConnectionError> {
    match error {
        ReadError::ConnectionLost(error) => Err(error),
        ReadError::Reset(_) => Ok(LaneError::Reset),
        ReadError::ClosedStream => Ok(LaneError::Closed),
        ReadError::IllegalOrderedRead | ReadError::ZeroRttRejected => Ok(LaneError::Failed),
    }
}
