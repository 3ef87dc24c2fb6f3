//! Lanes over QUIC: each lane is a bidirectional stream, and the lanes to one peer share connections.
//!
//! ```no_run
//! # use std::time::Duration;
//! # async fn example(master: pccl_core::id::Identity) -> Result<(), pccl_core::transport::LaneError> {
//! use pccl_core::transport::{Endpoint, Transport, send_all};
//! use pccl_transport_quic::Quic;
//!
//! let quic = Quic::new().lanes(8).connections(2).connect_timeout(Duration::from_secs(3));
//! let mut lane = quic.open(&Endpoint::Name("trainer-7:4100".into()), Some(master)).await?;
//! send_all(&mut *lane.tx, b"head", b"body").await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees beyond those of the port
//!
//! * A lane is always encrypted, and both ends have proved their identities.
//! * The other end learns of a lane when the first bytes are sent on it.
//! * The lanes of one connection share its congestion window. A lost packet, or a reader that stalls, delays only its
//!   own lane.
//! * Lanes that share a connection have the same channel binding.
//! * A host that dies without notice is detected after [`Quic::idle_timeout`]; all its lanes end with
//!   [`LaneError::TimedOut`]. A process that is killed is detected within half a second of the next packet to it,
//!   with [`LaneError::Reset`], if its host answers with an ICMP error. If that error does not arrive (firewalls,
//!   NAT), it is detected like a dead host.
//! * If another process listens at the address already, with the same key pair, the connections of the one before end
//!   as soon as the other end sends a packet, with [`LaneError::Reset`] as well (a stateless reset).
//! * A lane that is opened while nothing is answered on the connections that there are gets another connection.
//! * [`LaneTx::give_up_after`](pccl_core::transport::LaneTx::give_up_after) ends a connection, with all its lanes, if
//!   no acknowledgement arrives for that long. A receiver that stalls still acknowledges. If packets are lost in this
//!   direction only, and the other end keeps sending, its packets repeat old acknowledgements. The connection then
//!   ends when the other end's idle timeout runs out.
//! * [`LaneTx::poll_close`](pccl_core::transport::LaneTx::poll_close) waits until all bytes have arrived. Bytes sent
//!   on a half that is then dropped arrive as well, as long as the runtime runs. QUIC lives in this process, so bytes
//!   that have not arrived when the process ends are lost.
//! * Dropping the receiving half is signalled to the other end, whose sends then fail.
//! * After its listener is dropped, a port stays in use as long as lanes live that were accepted there, and for three
//!   round trips longer. New connections to it are refused meanwhile.
//!
//! All methods need a tokio runtime of either flavour, with I/O and time enabled. None of them blocks a thread. Name
//! lookups use tokio's blocking pool.
//!
//! | file | what it is for |
//! |---|---|
//! | `settings`, `keys` | the configuration of connections |
//! | `socket`, `intake` | UDP sockets, and how quinn receives from them |
//! | `locality` | whether a connection leaves this machine |
//! | `dial`, `peers` | making connections, and finding existing ones |
//! | `listener`, `door` | incoming connections |
//! | `shared`, `proof` | a connection: its lanes, and what its handshake proves |
//! | `patience`, `absence` | giving up a connection: no acknowledgements, no process at the other end |
//! | `resets` | ending the connections of the process that has listened here before |
//! | `lane` | the two halves of a lane |
//! | `error` | mapping of failures to lane errors |

#![forbid(unsafe_code)]

mod absence;
mod congestion;
mod dial;
mod door;
mod error;
mod intake;
mod keys;
mod lane;
mod listener;
mod locality;
mod patience;
mod peers;
mod proof;
mod resets;
mod settings;
mod shared;
mod socket;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::time::Duration;

pub use congestion::{Congestion, UnknownCongestion};
use pccl_core::id::Identity;
use pccl_core::transport::{
    BoxFuture, Endpoint, Lane, LaneError, Listener, Protocol, Security, Transport,
};
pub use pccl_trust::KeyPair;
use tokio::net::lookup_host;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

use dial::dial;
use keys::{Configs, Keys};
use lane::split;
use listener::{QuicLanes, open_endpoint};
use peers::{Peers, RemotePeer};
use settings::Settings;
use socket::{Left, canonical};

/// Default of [`Quic::lanes`].
const DEFAULT_LANES: u16 = 4;

/// Default of [`Quic::connect_timeout`].
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Opens and accepts lanes over QUIC. Clones share the connections that they have opened.
#[derive(Clone, Debug)]
pub struct Quic {
    lanes: u16,
    connections: u16,
    connect_timeout: Duration,
    settings: Settings,
    keys: Keys,
    peers: Peers,
    left: Left,
}

impl Default for Quic {
    fn default() -> Self {
        Self::new()
    }
}

impl Quic {
    /// A transport with defaults: 4 lanes per ring edge on one connection, 5 s to connect, 11 s until a silent host
    /// is given up, and a window for 1 Gbit/s over 100 ms.
    #[must_use]
    pub fn new() -> Self {
        Self {
            lanes: DEFAULT_LANES,
            connections: 1,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            settings: Settings::default(),
            keys: Keys::default(),
            peers: Peers::default(),
            left: Left::default(),
        }
    }

    /// Sets the key of this process. Default: a key pair that is made on first use, is shared by all transports of
    /// the process, and ends with it.
    #[must_use]
    pub fn key_pair(mut self, pair: &KeyPair) -> Self {
        self.keys = Keys::of(pair);
        // Those that stand have proved another key.
        self.peers = Peers::default();
        self
    }

    /// Sets the number of lanes that a ring edge should have, at least one (0 counts as 1). Default: 4.
    #[must_use]
    pub fn lanes(mut self, lanes: u16) -> Self {
        self.lanes = lanes.max(1);
        self
    }

    /// Sets the number of connections over which the lanes to one peer are distributed, each with its own UDP socket.
    /// At least one (0 counts as 1). Default: 1.
    ///
    /// One task does the work of a connection, so a connection carries as much as one core can encrypt. On a lossy
    /// path each connection recovers by itself, as TCP connections do.
    #[must_use]
    pub fn connections(mut self, connections: u16) -> Self {
        self.connections = connections.max(1);
        // Places are dealt anew.
        self.peers = Peers::default();
        self
    }

    /// Sets how long opening a lane may take in all, name lookup and handshake included. Default: 5 s.
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// Sets the number of bytes that may be in flight: unread on a lane, and unacknowledged on a connection. To fill
    /// a path takes its rate times its round-trip time, and twice that if packets are lost. This much memory is used
    /// only if a receiver stalls. Default: 24 MiB, for 1 Gbit/s over 100 ms.
    #[must_use]
    pub fn window(mut self, bytes: u32) -> Self {
        self.settings.window = bytes.max(settings::UNREAD_BYTES);
        self
    }

    /// Sets how long the other end of a connection may be silent. This end sends keep-alive packets meanwhile.
    /// Default: 11 s.
    #[must_use]
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.settings.idle_timeout = limit;
        self
    }

    /// Sets the congestion control of connections that this end opens or accepts. Default: [`Congestion::Cubic`].
    #[must_use]
    pub fn congestion(mut self, congestion: Congestion) -> Self {
        self.settings.congestion = congestion;
        self
    }

    /// Sets the largest datagram that this end tries on a path, from 1200 to 65 527 bytes. Larger datagrams cost less
    /// per byte, if the whole path carries them. A connection within a machine starts with this size. Any other
    /// starts with 1200 bytes, and tries larger ones when it has nothing else to send. If large ones are lost,
    /// smaller ones are used. Default: 1452, and on Linux 32 KiB within a machine.
    #[must_use]
    pub fn max_datagram(mut self, bytes: u16) -> Self {
        self.settings.datagram = Some(bytes.clamp(1200, 65_527));
        self
    }
}

impl Quic {
    /// Opens a lane at the first address of `to` that answers.
    async fn open_anywhere(
        &self,
        to: &Endpoint,
        expect: Identity,
        configs: &Configs,
    ) -> Result<Lane, LaneError> {
        let limit = self.connect_timeout;
        match to {
            Endpoint::Address(address) => self.open_at(*address, expect, configs, limit).await,
            Endpoint::Name(name) => {
                let started = Instant::now();
                let found = timeout(limit, lookup_host(name)).await;
                let found = found.map_err(|_elapsed| LaneError::TimedOut)?;
                let found = found.map_err(|error| {
                    tracing::debug!(name, %error, "the name could not be resolved");
                    LaneError::NameNotResolved
                })?;
                let addresses: Vec<SocketAddr> = found.collect();
                let left = limit.saturating_sub(started.elapsed());
                self.open_at_any(&addresses, expect, configs, left).await
            }
        }
    }

    /// Each address may use the remaining time divided by the number of remaining addresses, so that one that drops
    /// packets leaves time for the others.
    async fn open_at_any(
        &self,
        addresses: &[SocketAddr],
        expect: Identity,
        configs: &Configs,
        limit: Duration,
    ) -> Result<Lane, LaneError> {
        let started = Instant::now();
        let mut failure = LaneError::NameNotResolved;
        for (remaining, address) in (1..=addresses.len()).rev().zip(addresses) {
            let time_left = limit.saturating_sub(started.elapsed());
            let share = time_left / u32::try_from(remaining).unwrap_or(u32::MAX);
            match self.open_at(*address, expect, configs, share).await {
                Ok(lane) => return Ok(lane),
                Err(error) => {
                    tracing::debug!(%address, %error, "an address of the name did not answer");
                    failure = more_telling(failure, error);
                }
            }
        }
        Err(failure)
    }

    async fn open_at(
        &self,
        at: SocketAddr,
        expect: Identity,
        configs: &Configs,
        limit: Duration,
    ) -> Result<Lane, LaneError> {
        let opening = self.open_on_a_connection(canonical(at), expect, configs);
        let opened = timeout(limit, opening).await;
        opened.unwrap_or(Err(LaneError::TimedOut))
    }

    /// Opens a lane on the next connection to the peer in turn. Makes that connection if there is none, or if nothing
    /// is answered on it: who opens a lane because another one is silent would not get further on the same connection.
    async fn open_on_a_connection(
        &self,
        at: SocketAddr,
        expect: Identity,
        configs: &Configs,
    ) -> Result<Lane, LaneError> {
        let runtime = Handle::current().id();
        let peer = RemotePeer {
            at,
            expect,
            runtime,
        };
        let places = self.peers.places(peer, self.connections);
        let mut place = places.next().ok_or(LaneError::Failed)?.lock().await;
        if let Some(shared) = place.upgrade()
            && shared.answers()
            && let Ok((tx, rx)) = shared.connection.open_bi().await
        {
            return Ok(split(&shared, tx, rx));
        }
        let shared = dial(at, expect, &self.settings, configs).await?;
        *place = std::sync::Arc::downgrade(&shared);
        let streams = shared.connection.open_bi().await;
        let (tx, rx) = streams.map_err(|error| shared.why(&error))?;
        Ok(split(&shared, tx, rx))
    }
}

/// The error to report of two: the error of a host that was reached, or should have been, before that of an address
/// family that this machine does not have.
fn more_telling(earlier: LaneError, later: LaneError) -> LaneError {
    match earlier {
        LaneError::Untrusted | LaneError::Refused | LaneError::TimedOut | LaneError::Reset => {
            earlier
        }
        _ => later,
    }
}

impl Transport for Quic {
    /// Binds and listens. An IPv6 wildcard address accepts IPv4 as well, and the addresses of IPv4 peers are reported
    /// as IPv4. Lanes prove their identities with either [`Security`].
    ///
    /// At most 256 handshakes run at the same time, for 5 s each. If there are more, the oldest handshake of the
    /// address with the most is dropped. If many run, a new connection first has to validate its address (a QUIC
    /// Retry).
    ///
    /// If this transport, or a clone of it, has stopped listening on the port less than a second ago, binding is
    /// retried, because connections that were just closed still hold the port.
    fn listen(
        &self,
        on: SocketAddr,
        _security: Security,
    ) -> BoxFuture<'_, Result<Box<dyn Listener>, LaneError>> {
        Box::pin(async move {
            let configs = self.keys.configs()?;
            let endpoint = open_endpoint(on, &self.left, &self.settings, configs).await?;
            let listener = QuicLanes::new(endpoint, &self.left, &self.settings, configs)?;
            Ok(Box::new(listener) as Box<dyn Listener>)
        })
    }

    /// Opens a lane. If `to` is a name, its addresses are tried in turn, each with an equal share of the remaining
    /// time.
    ///
    /// # Errors
    /// [`LaneError::Untrusted`] also if `expect` is `None`: no lane is plain, and without an expected identity the
    /// other end has nothing to prove.
    fn open<'a>(
        &'a self,
        to: &'a Endpoint,
        expect: Option<Identity>,
    ) -> BoxFuture<'a, Result<Lane, LaneError>> {
        Box::pin(async move {
            let expect = expect.ok_or(LaneError::Untrusted)?;
            self.open_anywhere(to, expect, self.keys.configs()?).await
        })
    }

    fn lanes_per_edge(&self) -> u16 {
        self.lanes
    }

    fn security(&self) -> Security {
        Security::Proven
    }

    fn has_plain_lanes(&self) -> bool {
        false
    }

    fn protocol(&self) -> Option<Protocol> {
        Some(Protocol::Quic)
    }
}
