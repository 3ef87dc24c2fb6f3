//! What a connection may cost the master.

use std::time::Duration;

/// What a connection may cost the master, in time and memory. The limits of the protocol itself are in
/// [`MasterConfig`](crate::MasterConfig).
///
/// A *stranger* is a connection that has not said a valid hello yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long a stranger may take from its arrival to the end of its hello.
    pub handshake: Duration,
    /// Most strangers at once. Further connections are turned away.
    pub strangers_max: usize,
    /// Most strangers at once from one address; an IPv6 address counts by its first 64 bits. Raise it
    /// where many peers share an address and start at the same moment.
    pub strangers_per_address_max: usize,
    /// Most bytes that may wait to be sent to one peer. A peer that lets more pile up is kicked.
    pub outbox_bytes_max: usize,
    /// How long the last words to a peer may take to reach it before the connection is cut. Stopping
    /// takes at most this long.
    pub farewell: Duration,
}

impl Default for Limits {
    /// Five seconds for a handshake, 64 strangers, 16 per address, 8 MiB per outbox, one second for a
    /// farewell.
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(5),
            strangers_max: 64,
            strangers_per_address_max: 16,
            outbox_bytes_max: 8 * 1024 * 1024,
            farewell: Duration::from_secs(1),
        }
    }
}
