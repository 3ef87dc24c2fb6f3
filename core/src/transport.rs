//! The transport port: what a transport has to do, and reading and writing whole pieces over it.
//!
//! A transport opens *lanes*: ordered, reliable byte streams. Everything above a lane (preambles,
//! framing, striping, tickets, flow) is written once, elsewhere. The methods are `poll_*` because
//! those stay usable behind `dyn` without an allocation per frame.

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

/// A future that owns its type. Only opening and listening use it, never a frame.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Where a lane leads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Endpoint {
    /// A known address.
    Address(SocketAddr),
    /// `host:port`, for the transport to look up.
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
    /// Nobody listens there.
    #[error("the connection was refused")]
    Refused,
    /// No answer, or no progress, in time.
    #[error("there was no answer in time")]
    TimedOut,
    /// No route to the address.
    #[error("there is no route to the address")]
    Unreachable,
    /// The other end is gone without having closed.
    #[error("the connection was reset")]
    Reset,
    /// The stream ended in the middle of something.
    #[error("the connection was closed")]
    Closed,
    /// The address to listen on is taken.
    #[error("the address is already in use")]
    AddressInUse,
    /// The address to listen on is not this machine's, or not allowed.
    #[error("the address cannot be used on this machine")]
    AddressNotAvailable,
    /// The host name is unknown.
    #[error("the host name could not be resolved")]
    NameNotResolved,
    /// The other end has not proved the identity that was expected, or none at all.
    #[error("the other end has not proved the expected identity")]
    Untrusted,
    /// The other end does not encrypt, and this one does.
    #[error("the other end speaks plain TCP, and this one speaks TLS")]
    NotEncrypted,
    /// The other end encrypts, and this one does not.
    #[error("the other end speaks TLS, and this one speaks plain TCP")]
    Encrypted,
    /// This process, or its machine, has as many files and sockets open as it may have.
    #[error("too many files and sockets are open here: raise the limit of the process (ulimit -n)")]
    NoDescriptors,
    /// The operating system said no in another way.
    #[error("operating system error {0}")]
    Os(i32),
    /// An error that carries no number.
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
    /// Of an error number of the operating system that says nothing that any other variant says.
    #[must_use]
    pub const fn of_system(number: i32) -> Self {
        /// `EMFILE` and `ENFILE`, which are these numbers on every Unix.
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
    /// They are not, and nobody proves anything.
    Plain,
    /// They are, and both ends prove who they are.
    Proven,
}

/// What a transport speaks on lanes that have to be proven. Two ends that differ in it never meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// Nothing: it has plain lanes alone.
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
    /// Takes the address and accepts lanes there. Port zero: any free port.
    ///
    /// Binding and listening are one step: where it fails nothing stays bound. Where lanes have to be
    /// [`Proven`](Security::Proven) a plain one may be accepted all the same, as one that proves nothing, so
    /// that whoever dials can be told why it is not welcome: it is for the caller to refuse it.
    fn listen(
        &self,
        on: SocketAddr,
        security: Security,
    ) -> BoxFuture<'_, Result<Box<dyn Listener>, LaneError>>;

    /// Opens a lane, in the transport's own time limit. `expect` is who has to answer: the lane is encrypted,
    /// both ends prove who they are, and it fails with [`LaneError::Untrusted`] if anybody else is there.
    /// `None`: a plain lane.
    fn open<'a>(
        &'a self,
        to: &'a Endpoint,
        expect: Option<Identity>,
    ) -> BoxFuture<'a, Result<Lane, LaneError>>;

    /// How many lanes a ring edge should have, at least one.
    fn lanes_per_edge(&self) -> u16;

    /// What lanes beyond this machine have to be, if nobody has said that plain ones will do.
    fn security(&self) -> Security {
        Security::Plain
    }

    /// Whether it opens and accepts plain lanes at all, on this machine as well.
    fn has_plain_lanes(&self) -> bool {
        true
    }

    /// What it speaks on proven lanes. Where that is said, a program whose run speaks something else is told
    /// before anything is sent. Default: it is not said.
    fn protocol(&self) -> Option<Protocol> {
        None
    }
}

/// A transport that several own.
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

/// Accepts lanes. Dropping it stops listening; accepted lanes live on.
pub trait Listener: Send {
    /// The address with the port that was taken.
    fn local_addr(&self) -> SocketAddr;

    /// The next lane. An error concerns one attempt; the listener goes on, unless it says
    /// [`LaneError::Closed`].
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<Incoming, LaneError>>;
}

/// A lane that somebody opened to us.
pub struct Incoming {
    /// The lane.
    pub lane: Lane,
    /// Where it came from.
    pub from: SocketAddr,
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming")
            .field("from", &self.from)
            .finish_non_exhaustive()
    }
}

/// A lane's two directions are independent: sending never waits for receiving.
pub struct Lane {
    /// Sends.
    pub tx: Box<dyn LaneTx>,
    /// Receives.
    pub rx: Box<dyn LaneRx>,
    /// Who is at the other end. `None`: the transport proves nothing.
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

    /// The same lane, with what the other end has proved.
    #[must_use]
    pub fn with_proof(mut self, proven: Option<Proven>) -> Self {
        self.proven = proven;
        self
    }

    /// Who is at the other end, if that is proved.
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

/// What a transport knows of the other end of an encrypted lane.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Proven {
    /// Who this end is.
    pub own: Identity,
    /// Whose private key signed the handshake of this very lane.
    pub identity: Identity,
    /// Bytes that both ends of this lane compute, and nobody else, with a label of this library: keying
    /// material of TLS (RFC 8446, section 7.5). What is proved with them is proved on this lane alone.
    pub binding: [u8; 32],
}

impl fmt::Debug for Proven {
    /// The binding is a secret of the two ends.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proven")
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

/// The sending direction of a lane. Dropping it ends the direction, without waiting.
pub trait LaneTx: Send {
    /// Takes as many bytes of `parts`, in order, as fit now: `Ready(Ok(n))`, n > 0 unless all parts
    /// are empty.
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[&[u8]],
    ) -> Poll<Result<usize, LaneError>>;

    /// Are both ends on one machine? Then bytes under way fill no pipe, they only leave the caches:
    /// whoever sends much keeps little of it under way. Where that is not known: no.
    fn is_local(&self) -> bool {
        false
    }

    /// Asks the transport to end the lane, with [`LaneError::TimedOut`] in both directions of this end,
    /// where what was sent has not arrived at the other machine after so long: also a few bytes, of
    /// which the sender sees nothing but that they were taken. A transport that was told a shorter time
    /// keeps to it; one that cannot tell does nothing.
    fn give_up_after(&mut self, limit: Duration) {
        let _ = limit;
    }

    /// Ends the direction: what was sent before arrives, then the other end reads zero.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LaneError>>;
}

/// The receiving direction of a lane.
pub trait LaneRx: Send {
    /// Fills the front of `into`, which must not be empty: `Ready(Ok(n))`; n = 0: the other end has
    /// closed its sending direction.
    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<Result<usize, LaneError>>;
}

/// Sends all bytes of `head`, then of `body`. Cancelling leaves the lane in the middle of a piece.
///
/// # Errors
/// What the lane says.
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

/// Fills `into` completely. Cancelling leaves the lane in the middle of a piece.
///
/// # Errors
/// [`LaneError::Closed`] where the stream ends before; else what the lane says.
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

/// Receives what is there, up to the length of `into`; zero at the end of the stream.
///
/// # Errors
/// What the lane says.
pub async fn recv_some(rx: &mut dyn LaneRx, into: &mut [u8]) -> Result<usize, LaneError> {
    poll_fn(|cx| rx.poll_recv(cx, into)).await
}

/// Ends the sending direction after what was sent.
///
/// # Errors
/// What the lane says.
pub async fn close(tx: &mut dyn LaneTx) -> Result<(), LaneError> {
    poll_fn(|cx| tx.poll_close(cx)).await
}
