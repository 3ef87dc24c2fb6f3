//! The transport port: the traits that a transport implements, and functions that send and receive whole pieces.
//!
//! A transport opens *lanes*: ordered, reliable byte streams. Everything above a lane (preambles, framing, striping,
//! tickets, flow control) is written once, elsewhere. The methods are `poll_*`, because such methods work behind
//! `dyn` without an allocation per frame.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::future::{Future, poll_fn};
use core::net::SocketAddr;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use crate::id::Identity;
use crate::topology::LaneFailure;

/// A boxed future. Only opening and listening use it, never a frame.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The destination of a lane.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Endpoint {
    /// A known address.
    Address(SocketAddr),
    /// `host:port`, which the transport resolves.
    Name(String),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "{address}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// Why a lane could not be opened, or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum LaneError {
    /// No process listens at the address.
    #[error("the connection was refused")]
    Refused,
    /// There was no answer, or no progress, in time.
    #[error("there was no answer in time")]
    TimedOut,
    /// There is no route to the address.
    #[error("there is no route to the address")]
    Unreachable,
    /// The other end is gone, without closing.
    #[error("the connection was reset")]
    Reset,
    /// The stream ended within a message.
    #[error("the connection was closed")]
    Closed,
    /// The address to listen on is in use.
    #[error("the address is already in use")]
    AddressInUse,
    /// The address to listen on is not an address of this machine, or not permitted.
    #[error("the address cannot be used on this machine")]
    AddressNotAvailable,
    /// The host name cannot be resolved.
    #[error("the host name could not be resolved")]
    NameNotResolved,
    /// The other end has not proved the expected identity, or no identity at all.
    #[error("the other end has not proved the expected identity")]
    Untrusted,
    /// The other end does not encrypt, and this one does.
    #[error("the other end speaks plain TCP, and this one speaks TLS")]
    NotEncrypted,
    /// The other end encrypts, and this one does not.
    #[error("the other end speaks TLS, and this one speaks plain TCP")]
    Encrypted,
    /// This process, or its machine, has reached its limit of open files and sockets.
    #[error("too many files and sockets are open here: raise the limit of the process (ulimit -n)")]
    NoDescriptors,
    /// Another error of the operating system, with its number.
    #[error("operating system error {0}")]
    Os(i32),
    /// An error without a number.
    #[error("the lane failed")]
    Failed,
}

impl From<LaneError> for LaneFailure {
    fn from(error: LaneError) -> Self {
        match error {
            LaneError::Refused => Self::Refused,
            LaneError::TimedOut => Self::TimedOut,
            LaneError::Unreachable | LaneError::NameNotResolved => Self::Unreachable,
            LaneError::Reset | LaneError::Closed | LaneError::Failed => Self::Closed,
            LaneError::Untrusted => Self::Untrusted,
            LaneError::NotEncrypted | LaneError::Encrypted => Self::BadHandshake,
            LaneError::AddressInUse
            | LaneError::AddressNotAvailable
            | LaneError::NoDescriptors
            | LaneError::Os(_) => Self::Local,
        }
    }
}

impl LaneError {
    /// The error for an error number of the operating system that no other variant covers.
    #[must_use]
    pub const fn of_system(number: i32) -> Self {
        /// `EMFILE` and `ENFILE`, which have these numbers on every Unix.
        const NO_DESCRIPTORS: [i32; 2] = [24, 23];
        let [of_process, of_machine] = NO_DESCRIPTORS;
        if cfg!(unix) && (number == of_process || number == of_machine) {
            return Self::NoDescriptors;
        }
        Self::Os(number)
    }
}

/// Whether lanes are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Security {
    /// They are not, and no end proves its identity.
    Plain,
    /// They are, and both ends prove their identities.
    Proven,
}

/// The protocol of a transport on encrypted lanes. Two ends with different protocols cannot connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// None: the transport has only plain lanes.
    Plain,
    /// TLS 1.3 over TCP.
    Tls,
    /// QUIC, over UDP.
    Quic,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain lanes alone",
            Self::Tls => "TLS over TCP",
            Self::Quic => "QUIC",
        })
    }
}

/// Opens lanes: ordered, reliable byte streams between two peers.
pub trait Transport: Send + Sync + 'static {
    /// Listens on the address. Port 0 chooses a free port.
    ///
    /// Binding and listening are one step: if it fails, nothing stays bound. With [`Proven`](Security::Proven) the
    /// listener may still accept a plain lane, as one without an identity, so that the caller can tell the other end
    /// why it is refused. The caller must refuse it.
    fn listen(
        &self,
        on: SocketAddr,
        security: Security,
    ) -> BoxFuture<'_, Result<Box<dyn Listener>, LaneError>>;

    /// Opens a lane, within the transport's own time limit. With `expect`, the lane is encrypted and both ends prove
    /// their identities; if the other end is not the expected one, the call fails with [`LaneError::Untrusted`].
    /// `None`: a plain lane.
    fn open<'a>(
        &'a self,
        to: &'a Endpoint,
        expect: Option<Identity>,
    ) -> BoxFuture<'a, Result<Lane, LaneError>>;

    /// Number of lanes that a ring edge should have, at least one.
    fn lanes_per_edge(&self) -> u16;

    /// The security of lanes to other machines, unless the user permits plain ones.
    fn security(&self) -> Security {
        Security::Plain
    }

    /// Whether it can open and accept plain lanes at all, even within a machine.
    fn has_plain_lanes(&self) -> bool {
        true
    }

    /// The protocol of encrypted lanes. If it is known, a program whose run uses another one gets an error before
    /// anything is sent. Default: `None`, not known.
    fn protocol(&self) -> Option<Protocol> {
        None
    }
}

/// A transport with several owners.
impl<T: Transport + ?Sized> Transport for Arc<T> {
    fn listen(
        &self,
        on: SocketAddr,
        security: Security,
    ) -> BoxFuture<'_, Result<Box<dyn Listener>, LaneError>> {
        (**self).listen(on, security)
    }

    fn open<'a>(
        &'a self,
        to: &'a Endpoint,
        expect: Option<Identity>,
    ) -> BoxFuture<'a, Result<Lane, LaneError>> {
        (**self).open(to, expect)
    }

    fn lanes_per_edge(&self) -> u16 {
        (**self).lanes_per_edge()
    }

    fn security(&self) -> Security {
        (**self).security()
    }

    fn has_plain_lanes(&self) -> bool {
        (**self).has_plain_lanes()
    }

    fn protocol(&self) -> Option<Protocol> {
        (**self).protocol()
    }
}

/// Accepts lanes. Dropping it stops listening; accepted lanes stay open.
pub trait Listener: Send {
    /// The address, with the port that was chosen.
    fn local_addr(&self) -> SocketAddr;

    /// The next lane. An error concerns one attempt, and the listener continues, unless the error is
    /// [`LaneError::Closed`].
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<Incoming, LaneError>>;
}

/// An accepted lane.
pub struct Incoming {
    /// The lane.
    pub lane: Lane,
    /// The address of the other end.
    pub from: SocketAddr,
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming")
            .field("from", &self.from)
            .finish_non_exhaustive()
    }
}

/// A lane. Its two directions are independent: sending never waits for receiving.
pub struct Lane {
    /// The sending half.
    pub tx: Box<dyn LaneTx>,
    /// The receiving half.
    pub rx: Box<dyn LaneRx>,
    /// The proved identity of the other end. `None`: the transport proves nothing.
    pub proven: Option<Proven>,
}

impl Lane {
    /// A lane whose other end has proved nothing.
    #[must_use]
    pub fn new(tx: Box<dyn LaneTx>, rx: Box<dyn LaneRx>) -> Self {
        Self {
            tx,
            rx,
            proven: None,
        }
    }

    /// The same lane, with the proved identity of the other end.
    #[must_use]
    pub fn with_proof(mut self, proven: Option<Proven>) -> Self {
        self.proven = proven;
        self
    }

    /// The identity of the other end, if it is proved.
    #[must_use]
    pub fn identity(&self) -> Option<Identity> {
        self.proven.as_ref().map(|proven| proven.identity)
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane")
            .field("proven", &self.proven)
            .finish_non_exhaustive()
    }
}

/// The result of the handshake of an encrypted lane.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Proven {
    /// The identity of this end.
    pub own: Identity,
    /// The identity of the other end: its private key signed the handshake of this very lane.
    pub identity: Identity,
    /// Bytes that only the two ends of this lane can compute: keying material of TLS (RFC 8446, section 7.5), with a
    /// label of this library. A proof over them holds on this lane only.
    pub binding: [u8; 32],
}

impl fmt::Debug for Proven {
    /// Hides the binding, which is a secret of the two ends.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proven")
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

/// How a lane finds out how fast it may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionControl {
    /// By a model of the path: it estimates the rate and paces by it, as BBR does. It fills a path that loses packets
    /// at random.
    ModelBased,
    /// It takes each lost packet for a full queue, as CUBIC does. It sends a short burst sooner over a path that
    /// loses none, and next to nothing over one that does.
    LossBased,
}

/// The sending half of a lane. Dropping it ends the direction, without waiting.
pub trait LaneTx: Send {
    /// Takes as many bytes of `parts`, in order, as fit at the moment. `Ready(Ok(n))` with n > 0, unless all parts
    /// are empty.
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[&[u8]],
    ) -> Poll<Result<usize, LaneError>>;

    /// Whether both ends are on one machine. If so, bytes in flight do not fill a pipe but leave the caches, so a
    /// sender should keep few in flight. `false` if it is not known.
    fn is_local(&self) -> bool {
        false
    }

    /// Asks the transport to end the lane, with [`LaneError::TimedOut`] in both directions of this end, if sent bytes
    /// have not arrived at the other machine after `limit`. This includes small sends, which the socket buffer takes
    /// without error. If called with several limits, the shortest applies. A transport that cannot detect it does
    /// nothing.
    fn give_up_after(&mut self, limit: Duration) {
        let _ = limit;
    }

    /// The congestion control of the lane, if a caller may change it. Default: `None`, there is no choice.
    fn congestion_control(&self) -> Option<CongestionControl> {
        None
    }

    /// Changes the congestion control, also for bytes that have been sent and have not arrived. If there is no choice,
    /// or the system refuses, the lane stays as it is.
    fn set_congestion_control(&mut self, control: CongestionControl) {
        let _ = control;
    }

    /// Ends the direction. All bytes sent before arrive, and then the other end reads zero.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LaneError>>;
}

/// The receiving half of a lane.
pub trait LaneRx: Send {
    /// Fills the front of `into`, which must not be empty. `Ready(Ok(n))`; n = 0 if the other end has closed its
    /// sending direction.
    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<Result<usize, LaneError>>;
}

/// Sends all bytes of `head`, then of `body`. Not cancel-safe: a dropped future may leave the lane within a piece.
///
/// # Errors
/// The error of the lane.
pub async fn send_all(tx: &mut dyn LaneTx, head: &[u8], body: &[u8]) -> Result<(), LaneError> {
    let (mut head, mut body) = (head, body);
    while !head.is_empty() || !body.is_empty() {
        let sent = poll_fn(|cx| tx.poll_send(cx, &[head, body])).await?;
        if sent == 0 {
            return Err(LaneError::Closed);
        }
        let of_head = sent.min(head.len());
        head = head.get(of_head..).unwrap_or_default();
        body = body.get(sent - of_head..).unwrap_or_default();
    }
    Ok(())
}

/// Fills `into` completely. Not cancel-safe: a dropped future may leave the lane within a piece.
///
/// # Errors
/// [`LaneError::Closed`] if the stream ends before; otherwise the error of the lane.
pub async fn recv_exact(rx: &mut dyn LaneRx, into: &mut [u8]) -> Result<(), LaneError> {
    let mut filled = 0;
    while let Some(rest) = into.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match poll_fn(|cx| rx.poll_recv(cx, rest)).await? {
            0 => return Err(LaneError::Closed),
            n => filled += n,
        }
    }
    Ok(())
}

/// Receives the available bytes, up to the length of `into`. Zero at the end of the stream.
///
/// # Errors
/// The error of the lane.
pub async fn recv_some(rx: &mut dyn LaneRx, into: &mut [u8]) -> Result<usize, LaneError> {
    poll_fn(|cx| rx.poll_recv(cx, into)).await
}

/// Ends the sending direction after all sent bytes.
///
/// # Errors
/// The error of the lane.
pub async fn close(tx: &mut dyn LaneTx) -> Result<(), LaneError> {
    poll_fn(|cx| tx.poll_close(cx)).await
}
