//! Lanes over TCP: each lane is one connection.
//!
//! ```no_run
//! # use std::time::Duration;
//! # async fn example() -> Result<(), pccl_core::transport::LaneError> {
//! use pccl_core::transport::{Endpoint, Transport, send_all};
//! use pccl_transport_tcp::Tcp;
//!
//! let tcp = Tcp::new().lanes(16).connect_timeout(Duration::from_secs(3));
//! let mut lane = tcp.open(&Endpoint::Name("trainer-7:4100".into()), None).await?;
//! send_all(&mut *lane.tx, b"head", b"body").await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees beyond those of the port
//!
//! * A host that dies without notice is detected: on an idle lane by [`Keepalive`], on a lane with bytes in flight by
//!   [`Tcp::user_timeout`]. Both end the lane with [`LaneError::TimedOut`].
//! * The user timeout also ends a lane whose receiver stalls: if the other end reads nothing for that long while
//!   bytes wait for it, Linux closes the connection. A user of a lane must therefore keep reading.
//! * [`LaneTx::give_up_after`](pccl_core::transport::LaneTx::give_up_after) shortens the user timeout of one lane. A
//!   communicator calls it with its stall time on lanes that carry data. If a path drops all packets, the sender then
//!   detects it first, even if all sent bytes fit in the socket buffer.
//! * Dropping both halves closes the connection. If received bytes were left unread, the other end may get
//!   [`LaneError::Reset`] and may lose bytes that it had not read yet. To make sure that the last bytes arrive, close
//!   the sending half, and read to the end before dropping the lane.
//! * Dropping only the receiving half is not signalled to the other end.
//!
//! All methods need a tokio runtime of either flavour, with I/O and time enabled. None of them blocks a thread. Name
//! lookups use tokio's blocking pool.

#![forbid(unsafe_code)]

mod error;
mod lane;
mod listener;
mod open;
mod options;
#[cfg(test)]
mod tests;
mod tls;

#[cfg(feature = "fuzzing")]
pub use tls::fuzzing;

use std::net::SocketAddr;
use std::time::Duration;

use pccl_core::id::Identity;
use pccl_core::transport::{
    BoxFuture, Endpoint, Lane, LaneError, Listener, Protocol, Security, Transport,
};
pub use pccl_trust::KeyPair;

pub use options::Keepalive;
use options::Options;
use tls::{Acceptor, Keys};
use tokio::time::timeout;

/// Default number of lanes per ring edge with a congestion control that fills a lossy path with one lane.
const FEW_LANES: u16 = 4;

/// The default number with any other one, which takes each loss for a full queue. So many lanes get that many times
/// the rate of one.
const MANY_LANES: u16 = 16;

/// Default of [`Tcp::connect_timeout`].
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Opens and accepts lanes over TCP, with the same socket options for both.
///
/// `TCP_NODELAY` is always on. The sizes of the socket buffers are left to the system: to set them would end their
/// automatic growth.
#[derive(Clone, Debug)]
pub struct Tcp {
    /// `None`: the number depends on the congestion control.
    lanes: Option<u16>,
    connect_timeout: Duration,
    options: Options,
    /// `None`: all lanes are plain.
    keys: Option<Keys>,
}

impl Default for Tcp {
    fn default() -> Self {
        Self::new()
    }
}

impl Tcp {
    /// A transport with defaults: 5 s to connect, and 11 s until a silent host is given up. Between machines lanes begin
    /// with the congestion control `bbr`, because a long path that loses packets needs it, and a ring edge has 4 lanes.
    /// A peer changes its lanes to `cubic` if trials show that collectives take less time. If the system does not
    /// have `bbr`, or does not permit it to this process, nothing is changed, and an edge has 16 lanes. Within a machine
    /// the congestion control is `reno`, because pacing only delays bytes there.
    #[must_use]
    pub fn new() -> Self {
        Self {
            lanes: None,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            options: Options::default(),
            keys: Some(Keys::default()),
        }
    }

    /// As [`new`](Self::new), but all lanes are plain: no end proves its key, and everybody on the network path can
    /// read and change the traffic. Encrypted lanes can be neither opened nor accepted.
    #[must_use]
    pub fn plain() -> Self {
        Self {
            keys: None,
            ..Self::new()
        }
    }

    /// Sets the key of this process. Default: a key pair that is made on first use, is shared by all transports of
    /// the process, and ends with it.
    #[must_use]
    pub fn key_pair(mut self, pair: &KeyPair) -> Self {
        self.keys = Some(Keys::of(pair));
        self
    }

    /// Sets the number of lanes that a ring edge should have, at least one (0 counts as 1). If the two ends want
    /// different numbers, the smaller one applies. Default: 4 if the congestion control is called `bbr…`, else 16.
    ///
    /// A reduce uses at most this many lanes: the sender tries which number carries most over the path. More lanes
    /// help if the path limits each connection: a connection has at most its socket buffer in flight (4 MiB by
    /// default on Linux), and each recovers from a loss by itself.
    ///
    /// Between two peers on one machine all lanes are opened, but a collective uses one of them: several would only
    /// evict the bytes from the CPU caches. So a run over loopback does not show what the number does between
    /// machines.
    #[must_use]
    pub fn lanes(mut self, lanes: u16) -> Self {
        self.lanes = Some(lanes.max(1));
        self
    }

    /// Sets how long connecting may take in all, name lookup included. The TLS handshake gets the same time again.
    /// Default: 5 s.
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// Sets when a silent idle lane is given up. `None`: never. Default: 11 s, see [`Keepalive`].
    #[must_use]
    pub fn keepalive(mut self, keepalive: impl Into<Option<Keepalive>>) -> Self {
        self.options.keepalive = keepalive.into();
        self
    }

    /// Sets how long sent bytes may stay unacknowledged, or the other end may leave its receive window closed, before
    /// the lane ends. `None`: the system's limit, which is many minutes. Linux only. Lanes of collectives and of
    /// shared state use the communicator's stall time if it is shorter. Default: 11 s.
    #[must_use]
    pub fn user_timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.options.user_timeout = limit.into();
        self
    }

    /// Sets the congestion control by its Linux name, for example `cubic`. All lanes keep it. If the system does not
    /// offer it, the lane uses the system's default, and a debug event says so. Default: between machines `bbr`, or
    /// `cubic` if trials show that collectives take less time; `reno` within a machine.
    #[must_use]
    pub fn congestion(mut self, name: impl Into<String>) -> Self {
        self.options.congestion = Some(name.into());
        self
    }
}

impl Tcp {
    fn keys(&self) -> Result<&Keys, LaneError> {
        self.keys.as_ref().ok_or(LaneError::NotEncrypted)
    }
}

impl Transport for Tcp {
    /// Binds and listens. An IPv6 wildcard address accepts IPv4 as well, and the addresses of IPv4 peers are reported
    /// as IPv4.
    ///
    /// With [`Security::Proven`], at most 256 handshakes run at the same time, for 5 s each. If there are more, the
    /// oldest handshake of the address with the most is dropped. A connection that does not start with a TLS record
    /// is accepted as a plain lane.
    ///
    /// # Errors
    /// [`LaneError::NotEncrypted`] if `security` is [`Security::Proven`] and this transport is
    /// [`plain`](Self::plain).
    fn listen(
        &self,
        on: SocketAddr,
        security: Security,
    ) -> BoxFuture<'_, Result<Box<dyn Listener>, LaneError>> {
        Box::pin(async move {
            let acceptor = match security {
                Security::Plain => None,
                Security::Proven => Some(Acceptor::new(self.keys()?.configs()?.clone())),
            };
            let listener = listener::TcpLanes::bind(on, self.options.clone(), acceptor)?;
            Ok(Box::new(listener) as Box<dyn Listener>)
        })
    }

    /// Opens a lane. If `to` is a name, its addresses are tried in turn, each with an equal share of the remaining
    /// time. The TLS handshake gets [`connect_timeout`](Self::connect_timeout) again.
    ///
    /// # Errors
    /// [`LaneError::NotEncrypted`] if the other end has to prove its identity, and this transport is
    /// [`plain`](Self::plain) or the other end is.
    fn open<'a>(
        &'a self,
        to: &'a Endpoint,
        expect: Option<Identity>,
    ) -> BoxFuture<'a, Result<Lane, LaneError>> {
        Box::pin(async move {
            let keys = expect.map(|expect| Ok::<_, LaneError>((self.keys()?.configs()?, expect)));
            let keys = keys.transpose()?;
            let stream = open::connect(to, self.connect_timeout).await?;
            let connected = self.options.apply(stream)?;
            match keys {
                None => Ok(lane::split(connected)),
                Some((configs, expect)) => {
                    let shaking = tls::dial(connected, configs, expect);
                    let shaken = timeout(self.connect_timeout, shaking).await;
                    shaken.unwrap_or(Err(LaneError::TimedOut))
                }
            }
        })
    }

    fn lanes_per_edge(&self) -> u16 {
        let default = || {
            if self.options.fills_with_one() {
                FEW_LANES
            } else {
                MANY_LANES
            }
        };
        self.lanes.unwrap_or_else(default)
    }

    /// [`Security::Proven`], or [`Security::Plain`] if this transport is [`plain`](Self::plain).
    fn security(&self) -> Security {
        match self.keys {
            Some(_) => Security::Proven,
            None => Security::Plain,
        }
    }

    /// [`Protocol::Tls`], or [`Protocol::Plain`] if this transport is [`plain`](Self::plain).
    fn protocol(&self) -> Option<Protocol> {
        Some(match self.keys {
            Some(_) => Protocol::Tls,
            None => Protocol::Plain,
        })
    }
}
