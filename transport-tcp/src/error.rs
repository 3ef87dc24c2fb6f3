//! Mapping of operating system errors to lane errors.

use std::io::{Error, ErrorKind};

use pccl_core::transport::LaneError;

/// The lane error for an error of a socket call.
pub(crate) fn lane_error(error: &Error) -> LaneError {
    match error.kind() {
        ErrorKind::ConnectionRefused => LaneError::Refused,
        ErrorKind::TimedOut => LaneError::TimedOut,
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::NetworkDown => {
            LaneError::Unreachable
        }
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => {
            LaneError::Reset
        }
        // What a socket call says about a connection that was reset before the call.
        ErrorKind::NotConnected => LaneError::Reset,
        ErrorKind::AddrInUse => LaneError::AddressInUse,
        ErrorKind::AddrNotAvailable | ErrorKind::PermissionDenied => LaneError::AddressNotAvailable,
        _ => error
            .raw_os_error()
            .map_or(LaneError::Failed, LaneError::of_system),
    }
}
