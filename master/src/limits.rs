//! Limits on the time and memory of a connection.

use std::time::Duration;

/// Limits on the time and memory that a connection may cost the master. The limits of the protocol are in
/// [`MasterConfig`](crate::MasterConfig).
///
/// A *stranger* is an accepted connection that has not sent a valid hello yet. A *newcomer* is a peer that is
/// registered, but not admitted to the run yet. If no place for a stranger is free, a connection waits *outside*: the
/// master does not read from it. When a place becomes free, it goes to the address that holds the fewest places. If
/// the master encrypts, a connection counts only after its TLS handshake; until then the transport bounds the number
/// and the time of handshakes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long a stranger may take from its acceptance to the end of its hello. Default: 5 s.
    pub handshake: Duration,
    /// Maximum number of strangers. Default: 64.
    pub strangers_max: usize,
    /// Maximum number of strangers from one address. IPv6 addresses with the same first 64 bits count as one.
    /// Default: 16.
    pub strangers_per_address_max: usize,
    /// How long a stranger may be silent while others wait outside. After that it may lose its place: among these
    /// strangers, the longest silent one of the address with the most places loses it first. Default: 1 s.
    pub grace: Duration,
    /// Maximum number of newcomers from one address. Further connections from it are refused. Default: 128.
    pub newcomers_per_address_max: usize,
    /// Maximum number of connections that wait outside. Beyond it, the address with the most waiting connections
    /// loses its latest one. Default: 4096.
    pub waiting_max: usize,
    /// Maximum number of connections from one address that wait outside. Further ones are refused. Default: 256.
    pub waiting_per_address_max: usize,
    /// How long a connection waits outside before it is refused and has to try again later. Set it below the time
    /// that a peer waits for an answer (5 s by default). Default: 3 s.
    pub waiting: Duration,
    /// Maximum number of bytes of long messages (more than 64 KiB) that are being received or wait to be processed,
    /// over all peers. The master reads a long message once there is room for it, in the order of requests. If the
    /// message then brings less than 64 KiB in 10 s, the connection ends. There is always room for one message of the
    /// maximum length. Default: 256 MiB.
    pub long_messages_bytes_max: usize,
    /// Maximum number of bytes that wait to be sent to one peer. A peer that exceeds it is evicted. Default: 8 MiB.
    pub outbox_bytes_max: usize,
    /// How long a peer whose connection has ended may stay away before it counts as lost, if it does not fall
    /// [silent](crate::MasterConfig::silence) before. It comes back by itself, and goes on where it was. Zero: the peer
    /// is lost at once, unless the network has failed. A process that dies is then noticed at once. Default: zero.
    pub reconnect: Duration,
    /// How long peers wait for a master that keeps a [journal](crate::MasterBuilder::journal) and is gone, before they
    /// lose it. At most 49 days. Default: 60 s.
    pub restart: Duration,
    /// How long the last message to a peer may take before the connection is closed. Stopping the master takes at
    /// most this long. Default: 1 s.
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
            reconnect: Duration::ZERO,
            restart: Duration::from_secs(60),
            farewell: Duration::from_secs(1),
        }
    }
}
