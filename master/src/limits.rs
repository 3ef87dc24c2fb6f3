//! What a connection may cost the master.

use std::time::Duration;

/// What a connection may cost the master, in time and memory. The limits of the protocol itself are in
/// [`MasterConfig`](crate::MasterConfig).
///
/// A *stranger* is a connection that has been let in and has not said a valid hello yet. A *newcomer*
/// has, and is registered, but not admitted to the run yet. Connections for which there is no place
/// among the strangers wait outside: nothing is read from them, and the addresses that hold the fewest
/// places go first. Where the master encrypts, a connection comes so far once its TLS handshake has ended;
/// before, it is the transport's, which bounds handshakes in number and time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long a stranger may take from being let in to the end of its hello. Default: 5 s.
    pub handshake: Duration,
    /// Most strangers at once. Default: 64.
    pub strangers_max: usize,
    /// Most strangers at once from one address; an IPv6 address counts by its first 64 bits.
    /// Default: 16.
    pub strangers_per_address_max: usize,
    /// How long a stranger may be silent while others wait outside: then the one of the address with
    /// the most places that has been silent for the longest gives way. Default: 1 s.
    pub grace: Duration,
    /// Most newcomers at once from one address; while it has as many, its further connections are
    /// refused. Default: 128.
    pub newcomers_per_address_max: usize,
    /// Most connections that wait outside. Beyond it the address of which most wait loses its latest.
    /// Default: 4096.
    pub waiting_max: usize,
    /// Most connections of one address that wait outside. Further ones are turned away. Default: 256.
    pub waiting_per_address_max: usize,
    /// How long a connection waits outside before it is turned away, and tries again later. To be less
    /// than a peer's limit for an answer, which is 5 s by default. Default: 3 s.
    pub waiting: Duration,
    /// Most bytes of long messages, those of more than 64 KiB, that are being received from all peers
    /// or wait to be dealt with. A peer's long message is read once there is room for it, in the order
    /// of asking; one that then brings less than 64 KiB in 10 s ends the connection. At least one
    /// message of the greatest length has room. Default: 256 MiB.
    pub long_messages_bytes_max: usize,
    /// Most bytes that may wait to be sent to one peer. A peer that lets more pile up is kicked.
    /// Default: 8 MiB.
    pub outbox_bytes_max: usize,
    /// How long the last words to a peer may take to reach it before the connection is cut. Stopping
    /// takes at most this long. Default: 1 s.
    pub farewell: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(5),
            strangers_max: 64,
            strangers_per_address_max: 16,
            grace: Duration::from_secs(1),
            newcomers_per_address_max: 128,
            waiting_max: 4096,
            waiting_per_address_max: 256,
            waiting: Duration::from_secs(3),
            long_messages_bytes_max: 256 * 1024 * 1024,
            outbox_bytes_max: 8 * 1024 * 1024,
            farewell: Duration::from_secs(1),
        }
    }
}
