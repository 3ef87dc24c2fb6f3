//! Lanes over QUIC: a lane is a bidirectional stream, and lanes to one peer share connections.
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
//! # What a lane over QUIC promises beyond the port
//!
//! * It is always encrypted, and both ends have always proved who they are.
//! * A lane is silent until something is sent on it: the listener sees it then.
//! * Lanes of one connection share its congestion window, but a packet that is lost holds up one lane
//!   alone, and so does a reader that stands still.
//! * The channel binding belongs to a connection, so lanes that share one have the same.
//! * A host that dies without a word is noticed after [`Quic::idle_timeout`], which ends all its lanes with
//!   [`LaneError::TimedOut`]. A process that is killed is noticed within half a second of the next packet to
//!   it, with [`LaneError::Reset`], where the system of its host says that nobody listens there; where it is
//!   not heard (firewalls, network address translation), as a host.
//! * [`LaneTx::give_up_after`](pccl_core::transport::LaneTx::give_up_after) ends a connection, with all its
//!   lanes, where no acknowledgement comes for so long. A receiver that stands still acknowledges all the
//!   same. Where only this end's packets get lost and the other end goes on sending, old acknowledgements
//!   keep coming with its packets, until it gives up after its own idle time-out.
//! * [`LaneTx::poll_close`](pccl_core::transport::LaneTx::poll_close) waits until everything has arrived.
//!   What was sent on a half that is dropped arrives as well, as long as the runtime runs: QUIC lives in
//!   this process, and what has not arrived at its end is lost.
//! * Dropping the receiving half is told to the other end, whose sending fails.
//! * After its listener is gone a port stays taken as long as there are lanes that were accepted there, and
//!   for three round trips longer. Who dials it meanwhile is refused.
//!
//! Every method needs a tokio runtime with I/O and time enabled, of either flavour; none blocks a
//! thread. Looking up a name uses tokio's blocking pool.
//!
//! | file | what it is for |
//! |---|---|
//! | `settings`, `keys` | what connections are configured with |
//! | `socket`, `intake` | UDP sockets, and how quinn receives from them |
//! | `locality` | whether a connection leaves this machine |
//! | `dial`, `peers` | making connections, and finding those that stand |
//! | `listener`, `door` | those who dial |
//! | `shared`, `proof` | a connection: its lanes, and what it proves |
//! | `patience`, `absence` | when a connection is given up: nothing is acknowledged, nobody is there |
//! | `lane` | the two halves of a lane |
//! | `error` | what failures mean for a lane |

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

/// Lanes of a ring edge, unless [`Quic::lanes`] says otherwise.
const DEFAULT_LANES: u16 = 4;

/// How long opening a lane may take, unless [`Quic::connect_timeout`] says otherwise.
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
    /// Four lanes per ring edge on one connection, five seconds to connect, eleven seconds until a silent
    /// host is given up, and windows for 1 Gbit/s over 100 ms.
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

    /// Who this process is. Default: a key pair that is made when it is first needed, is the same for all
    /// of a process, and ends with it.
    #[must_use]
    pub fn key_pair(mut self, pair: &KeyPair) -> Self {
        self.keys = Keys::of(pair);
        // Those that stand have proved another key.
        self.peers = Peers::default();
        self
    }

    /// How many lanes a ring edge should have. Zero is taken as one. Default: 4.
    #[must_use]
    pub fn lanes(mut self, lanes: u16) -> Self {
        self.lanes = lanes.max(1);
        self
    }

    /// Over how many connections, each from a UDP socket of its own, the lanes to one peer are dealt. Zero is
    /// taken as one. Default: 1.
    ///
    /// The work of a connection is done in one task, so one connection carries what one core can encrypt.
    /// On a lossy path each connection recovers by itself, as connections of TCP do.
    #[must_use]
    pub fn connections(mut self, connections: u16) -> Self {
        self.connections = connections.max(1);
        // Places are dealt anew.
        self.peers = Peers::default();
        self
    }

    /// How long opening a lane may take in all, looking up the name included. Default: 5 s.
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// Bytes that a lane may have under way unread, and a connection unacknowledged. A path is filled by
    /// its rate times its round trip, and by twice of that where packets get lost. This much memory is used
    /// only where a receiver stands still. Default: 24 MiB, for 1 Gbit/s over 100 ms.
    #[must_use]
    pub fn window(mut self, bytes: u32) -> Self {
        self.settings.window = bytes.max(settings::UNREAD_BYTES);
        self
    }

    /// How long the other end of a connection may be silent; it is asked for a sign of life meanwhile.
    /// Default: 11 s.
    #[must_use]
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.settings.idle_timeout = limit;
        self
    }

    /// How fast connections that this end opens or accepts send. Default: [`Congestion::Cubic`].
    #[must_use]
    pub fn congestion(mut self, congestion: Congestion) -> Self {
        self.settings.congestion = congestion;
        self
    }

    /// The largest datagram that this end tries on a path, from 1200 to 65 527 bytes. Larger ones cost less
    /// per byte, where the whole path carries them. A connection within a machine begins with it; others
    /// begin with 1200 bytes and try larger ones when they have nothing else to send. Where it does not get
    /// through, smaller ones are sent. Default: 1452, and on Linux 32 KiB within a machine.
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

    /// Each address may use the time left divided by the addresses left, so that one that swallows
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

    /// On the connection whose turn it is, which is made if it does not stand.
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

/// A host that was reached, or should have been, says more than an address family that this machine
/// does not have.
fn more_telling(earlier: LaneError, later: LaneError) -> LaneError {
    match earlier {
        LaneError::Untrusted | LaneError::Refused | LaneError::TimedOut | LaneError::Reset => {
            earlier
        }
        _ => later,
    }
}

impl Transport for Quic {
    /// An IPv6 wildcard address accepts IPv4 as well. Addresses of IPv4 openers are reported as IPv4. Lanes are
    /// proven with either [`Security`].
    ///
    /// Handshakes run side by side, at most 256 of them and for five seconds each; of more the oldest of the
    /// address with the most gives way. Where many run, who comes is asked first to show that it is where it
    /// says it is.
    ///
    /// A port that this transport, or a clone of it, has left less than a second ago is asked for again, because
    /// connections that have just been closed still hold it.
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

    /// Tries all addresses of a name in turn, each with its fair share of the time left.
    ///
    /// # Errors
    /// [`LaneError::Untrusted`] also where nobody is expected: there is nothing that the other end could
    /// prove then, and no lane is plain.
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
