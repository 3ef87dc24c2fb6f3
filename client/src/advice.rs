//! What to look at if the master cannot be reached: the end of the text of an error.

use pccl_core::transport::LaneError;
use pccl_core::wire::HandshakeError;

/// Follows the reason. Empty if that says everything.
pub(crate) const fn advice(reason: &HandshakeError) -> &'static str {
    match reason {
        HandshakeError::Lane(error) => about(*error),
        HandshakeError::Preamble(_)
        | HandshakeError::Reply(_)
        | HandshakeError::Refused(_)
        | HandshakeError::NotYet(_) => "",
    }
}

const fn about(error: LaneError) -> &'static str {
    match error {
        LaneError::Refused => "; nothing listens there: start the master, or correct the address",
        LaneError::TimedOut => {
            "; the machine is off, or a firewall drops what is sent there: open the master's port"
        }
        LaneError::Unreachable => "; correct the address, or look at the network of this machine",
        LaneError::NameNotResolved => "; correct the name, or give the master's IP address",
        LaneError::Reset | LaneError::Closed => {
            "; something listens there and hangs up: is it the master?"
        }
        LaneError::Untrusted => {
            "; the join string is of another master: copy the one that this master has printed at its last start, and \
             look whether the port is the master's and not a peer's"
        }
        LaneError::NotEncrypted => {
            "; the master is plain, or something else listens there: give its address in place of the join string, if \
             everybody on the way may read and change what is sent"
        }
        // The reason says it, or nobody knows more.
        _ => "",
    }
}
