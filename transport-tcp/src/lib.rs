//! Lanes over TCP: one connection is one lane.
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
//! # What a lane over TCP promises beyond the port
//!
//! * A host that dies without a word is noticed: an idle lane by [`Keepalive`], one with bytes under
//!   way by [`Tcp::user_timeout`]. Both end the lane with [`LaneError::TimedOut`].
//! * The user timeout also counts a receiver that stands still: where the other end reads nothing
//!   for that long while bytes wait for it, Linux ends the lane. Whoever holds a lane keeps reading.
//! * [`LaneTx::give_up_after`](pccl_core::transport::LaneTx::give_up_after) shortens the user timeout of
//!   one lane. Communicators call it with their stall time for lanes that carry data, so that of a path
//!   that swallows packets the sender learns first, though all it sent fits the socket's buffer.
//! * Dropping both halves closes the connection. Where received bytes were left unread the other end
//!   may see [`LaneError::Reset`], and may lose bytes that it had not read yet: whoever wants the last
//!   bytes to arrive closes, then reads to the end before dropping.
//! * Dropping only the receiving half is not told to the other end.
//!
//! Every method needs a tokio runtime with I/O and time enabled, of either flavour; none blocks a
//! thread. Looking up a name uses tokio's blocking pool.

#![forbid(unsafe_code)]

mod error;
mod lane;
mod listener;
mod open;
mod options;
#[cfg(test)]
mod tests;
mod tls;

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

/// Lanes of a ring edge with a congestion control of which one lane fills a path that loses packets, unless
/// [`Tcp::lanes`] says otherwise.
const FEW_LANES: u16 = 4;

/// The same with one that takes each loss for a full queue: so many lanes get so many times as much.
const MANY_LANES: u16 = 16;

/// How long opening a lane may take, unless [`Tcp::connect_timeout`] says otherwise.
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Opens and accepts lanes over TCP, with the same socket options on both.
///
/// `TCP_NODELAY` is always on. The sizes of the socket buffers are the system's business: setting them
/// would end their automatic growth.
#[derive(Clone, Debug)]
pub struct Tcp {
    /// `None`: as many as the congestion control wants.
    lanes: Option<u16>,
    connect_timeout: Duration,
    options: Options,
    /// `None`: every lane is plain.
    keys: Option<Keys>,
}

impl Default for Tcp {
    fn default() -> Self {
        Self::new()
    }
}

impl Tcp {
    /// Four lanes per ring edge, five seconds to connect, eleven seconds until a silent host is given
    /// up, and as congestion control `bbr` if the system has it, which a long path that loses packets needs;
    /// between processes of one machine the plain one (`reno`), because pacing only holds bytes back there.
    /// If the system does not have `bbr`, or does not lend it, sixteen lanes.
    #[must_use]
    pub fn new() -> Self {
        Self {
            lanes: None,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            options: Options::default(),
            keys: Some(Keys::default()),
        }
    }

    /// As [`new`](Self::new), and every lane is plain: nobody proves anything, and whoever is on the way
    /// reads and changes what is sent. An encrypted lane can be neither opened nor accepted.
    #[must_use]
    pub fn plain() -> Self {
        Self {
            keys: None,
            ..Self::new()
        }
    }

    /// Who this process is. Default: a key pair that is made when it is first needed, is the same for all
    /// of a process, and ends with it.
    #[must_use]
    pub fn key_pair(mut self, pair: &KeyPair) -> Self {
        self.keys = Some(Keys::of(pair));
        self
    }

    /// How many lanes a ring edge should have. Zero is taken as one. An edge has as many as the end that wants
    /// fewer. Default: 4 with a congestion control of the name `bbr…`, else 16.
    ///
    /// It is the most that a reduce takes: the sender tries which number carries most over a path, and takes no
    /// more than that. More are of use if the path gives each connection little: a connection has at most its
    /// socket buffer in flight (4 MiB by default on Linux), and each recovers from a loss by itself.
    ///
    /// Between two peers on one machine the lanes are opened, but collectives use one of them, however
    /// many there are: several would only keep the bytes from staying in the caches. A run over
    /// loopback therefore does not show what their number does between machines.
    #[must_use]
    pub fn lanes(mut self, lanes: u16) -> Self {
        self.lanes = Some(lanes.max(1));
        self
    }

    /// How long opening a lane may take in all, looking up the name included.
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// When a silent idle lane is given up; `None`: never.
    #[must_use]
    pub fn keepalive(mut self, keepalive: impl Into<Option<Keepalive>>) -> Self {
        self.options.keepalive = keepalive.into();
        self
    }

    /// How long sent bytes may stay unacknowledged, or the other end may leave no room for more, before
    /// the lane ends; `None`: the system's choice, which is many minutes. Only Linux has this. Lanes of
    /// collectives and of shared state get the communicator's stall time where that is shorter.
    /// Default: 11 s.
    #[must_use]
    pub fn user_timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.options.user_timeout = limit.into();
        self
    }

    /// Asks for a congestion control by its Linux name, for example `cubic`. If the system does not
    /// offer it, the lane goes on with the system's own and a debug event says so. Default: `bbr`, and `reno`
    /// within a machine.
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
    /// An IPv6 wildcard address accepts IPv4 as well. Addresses of IPv4 openers are reported as IPv4.
    ///
    /// With [`Security::Proven`], handshakes run side by side, at most 256 of them and for five seconds each;
    /// of more the oldest of the address with the most gives way. What does not begin as TLS does is
    /// accepted as a plain lane.
    ///
    /// # Errors
    /// [`LaneError::NotEncrypted`]: lanes have to be proven, and this is [`plain`](Self::plain).
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

    /// Tries all addresses of a name in turn, each with its fair share of the time left. The TLS handshake
    /// has as much time again.
    ///
    /// # Errors
    /// [`LaneError::NotEncrypted`]: the lane has to be proven, and this is [`plain`](Self::plain), or the other
    /// end is.
    fn open<'a>(
        &'a self,
        to: &'a Endpoint,
        expect: Option<Identity>,
    ) -> BoxFuture<'a, Result<Lane, LaneError>> {
        Box::pin(async move {
            let keys = expect.map(|expect| Ok::<_, LaneError>((self.keys()?.configs()?, expect)));
            let keys = keys.transpose()?;
            let stream = open::connect(to, self.connect_timeout).await?;
            self.options.apply(&stream)?;
            match keys {
                None => Ok(lane::split(stream)),
                Some((configs, expect)) => {
                    let shaking = tls::dial(stream, configs, expect);
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

    /// [`Security::Proven`], except of [`plain`](Self::plain).
    fn security(&self) -> Security {
        match self.keys {
            Some(_) => Security::Proven,
            None => Security::Plain,
        }
    }

    /// [`Protocol::Tls`], except of [`plain`](Self::plain).
    fn protocol(&self) -> Option<Protocol> {
        Some(match self.keys {
            Some(_) => Protocol::Tls,
            None => Protocol::Plain,
        })
    }
}
