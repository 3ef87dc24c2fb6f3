//! Standing between a transport and its user: what its lanes carry is observed, held back or changed.
//!
//! [`Intercepted`] is any transport whose lanes go through an [`Interceptor`] when they are made. That one
//! replaces what it wants of a lane, mostly by [`on_send`] and [`on_recv`]: each takes half a lane and a
//! closure that is called in the place of that half's `poll_send` or `poll_recv`, and has the half to go on with.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use pccl_core::id::Identity;
use pccl_core::transport::{
    BoxFuture, CongestionControl, Endpoint, Incoming, Lane, LaneError, LaneRx, LaneTx, Listener,
    Protocol, Security, Transport,
};

/// Sees, and may replace, what a transport makes. Each method does nothing by default.
///
/// A closure `Fn(Lane) -> Lane` is an interceptor of every lane, whoever has opened it.
pub trait Interceptor: Send + Sync + 'static {
    /// A listener listens here.
    fn listening(&self, at: SocketAddr) {
        let _ = at;
    }

    /// Where a lane to `to` is to lead.
    fn destination(&self, to: &Endpoint) -> Endpoint {
        to.clone()
    }

    /// This end has opened a lane to `to`, which had to prove `expect`.
    fn opened(&self, lane: Lane, to: &Endpoint, expect: Option<Identity>) -> Lane {
        let _ = (to, expect);
        lane
    }

    /// This end has accepted a lane.
    fn accepted(&self, lane: Lane, from: SocketAddr) -> Lane {
        let _ = from;
        lane
    }
}

impl<F: Fn(Lane) -> Lane + Send + Sync + 'static> Interceptor for F {
    fn opened(&self, lane: Lane, _: &Endpoint, _: Option<Identity>) -> Lane {
        self(lane)
    }

    fn accepted(&self, lane: Lane, _: SocketAddr) -> Lane {
        self(lane)
    }
}

/// A transport with an interceptor. In all else it is the one below. Clones share the interceptor.
pub struct Intercepted<I> {
    below: Arc<dyn Transport>,
    by: Arc<I>,
}

impl<I: Interceptor> Intercepted<I> {
    /// The transport `below`, whose lanes `by` gets before its user does.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use pccl_core::transport::Lane;
    /// use pccl_transport_memory::{Intercepted, MemoryNet, Meter};
    ///
    /// let net = MemoryNet::new();
    /// let meter = Arc::new(Meter::default());
    /// let counts = Arc::clone(&meter);
    /// let counted = Intercepted::over(Arc::new(net.transport()), move |lane: Lane| counts.on(lane));
    /// assert_eq!(meter.sent(), 0);
    /// # drop(counted);
    /// ```
    #[must_use]
    pub fn over(below: Arc<dyn Transport>, by: I) -> Self {
        let by = Arc::new(by);
        Self { below, by }
    }
}

impl<I> Clone for Intercepted<I> {
    fn clone(&self) -> Self {
        let (below, by) = (Arc::clone(&self.below), Arc::clone(&self.by));
        Self { below, by }
    }
}

impl<I: fmt::Debug> fmt::Debug for Intercepted<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Intercepted")
            .field("by", &self.by)
            .finish_non_exhaustive()
    }
}

impl<I: Interceptor> Transport for Intercepted<I> {
    fn listen(
        &self,
        on: SocketAddr,
        security: Security,
    ) -> BoxFuture<'_, Result<Box<dyn Listener>, LaneError>> {
        Box::pin(async move {
            let below = self.below.listen(on, security).await?;
            self.by.listening(below.local_addr());
            let by = Arc::clone(&self.by);
            Ok(Box::new(InterceptedListener { below, by }) as Box<dyn Listener>)
        })
    }

    fn open<'a>(
        &'a self,
        to: &'a Endpoint,
        expect: Option<Identity>,
    ) -> BoxFuture<'a, Result<Lane, LaneError>> {
        Box::pin(async move {
            let destination = self.by.destination(to);
            let lane = self.below.open(&destination, expect).await?;
            Ok(self.by.opened(lane, to, expect))
        })
    }

    fn lanes_per_edge(&self) -> u16 {
        self.below.lanes_per_edge()
    }

    fn security(&self) -> Security {
        self.below.security()
    }

    fn has_plain_lanes(&self) -> bool {
        self.below.has_plain_lanes()
    }

    fn protocol(&self) -> Option<Protocol> {
        self.below.protocol()
    }
}

struct InterceptedListener<I> {
    below: Box<dyn Listener>,
    by: Arc<I>,
}

impl<I: Interceptor> Listener for InterceptedListener<I> {
    fn local_addr(&self) -> SocketAddr {
        self.below.local_addr()
    }

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<Incoming, LaneError>> {
        let accepted = self.below.poll_accept(cx);
        accepted.map_ok(|Incoming { lane, from }| Incoming {
            lane: self.by.accepted(lane, from),
            from,
        })
    }
}

/// A sending half whose `poll_send` is `between`, which gets the half that was there before. All else
/// goes straight to that one.
///
/// ```
/// # use std::task::{Context, Poll, Waker};
/// # use pccl_core::transport::LaneError;
/// use pccl_transport_memory::{Path, on_send, pair};
///
/// // A lane that breaks after three sends.
/// let (mut lane, _other_end) = pair(Path::DIRECT, Path::DIRECT);
/// let mut left = 3;
/// lane.tx = on_send(lane.tx, move |tx, cx, parts| match left {
///     0 => Poll::Ready(Err(LaneError::Reset)),
///     _ => {
///         left -= 1;
///         tx.poll_send(cx, parts)
///     }
/// });
/// # let mut cx = Context::from_waker(Waker::noop());
/// # for _ in 0..3 {
/// #     assert_eq!(lane.tx.poll_send(&mut cx, &[b"x"]), Poll::Ready(Ok(1)));
/// # }
/// # assert_eq!(lane.tx.poll_send(&mut cx, &[b"x"]), Poll::Ready(Err(LaneError::Reset)));
/// ```
#[must_use]
pub fn on_send<F>(tx: Box<dyn LaneTx>, between: F) -> Box<dyn LaneTx>
where
    F: FnMut(&mut dyn LaneTx, &mut Context<'_>, &[&[u8]]) -> Poll<Result<usize, LaneError>>
        + Send
        + 'static,
{
    Box::new(OnSend { tx, between })
}

/// A receiving half whose `poll_recv` is `between`, which gets the half that was there before.
#[must_use]
pub fn on_recv<F>(rx: Box<dyn LaneRx>, between: F) -> Box<dyn LaneRx>
where
    F: FnMut(&mut dyn LaneRx, &mut Context<'_>, &mut [u8]) -> Poll<Result<usize, LaneError>>
        + Send
        + 'static,
{
    Box::new(OnRecv { rx, between })
}

/// A sending half that says of itself whether it leads to this machine ([`LaneTx::is_local`]).
#[must_use]
pub fn claim_local(tx: Box<dyn LaneTx>, is_local: bool) -> Box<dyn LaneTx> {
    Box::new(Claiming { tx, is_local })
}

struct OnSend<F> {
    tx: Box<dyn LaneTx>,
    between: F,
}

impl<F> LaneTx for OnSend<F>
where
    F: FnMut(&mut dyn LaneTx, &mut Context<'_>, &[&[u8]]) -> Poll<Result<usize, LaneError>> + Send,
{
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[&[u8]],
    ) -> Poll<Result<usize, LaneError>> {
        (self.between)(&mut *self.tx, cx, parts)
    }

    fn is_local(&self) -> bool {
        self.tx.is_local()
    }

    fn give_up_after(&mut self, limit: Duration) {
        self.tx.give_up_after(limit);
    }

    fn congestion_control(&self) -> Option<CongestionControl> {
        self.tx.congestion_control()
    }

    fn set_congestion_control(&mut self, control: CongestionControl) {
        self.tx.set_congestion_control(control);
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LaneError>> {
        self.tx.poll_close(cx)
    }
}

struct OnRecv<F> {
    rx: Box<dyn LaneRx>,
    between: F,
}

impl<F> LaneRx for OnRecv<F>
where
    F: FnMut(&mut dyn LaneRx, &mut Context<'_>, &mut [u8]) -> Poll<Result<usize, LaneError>> + Send,
{
    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<Result<usize, LaneError>> {
        (self.between)(&mut *self.rx, cx, into)
    }
}

struct Claiming {
    tx: Box<dyn LaneTx>,
    is_local: bool,
}

impl LaneTx for Claiming {
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[&[u8]],
    ) -> Poll<Result<usize, LaneError>> {
        self.tx.poll_send(cx, parts)
    }

    fn is_local(&self) -> bool {
        self.is_local
    }

    fn give_up_after(&mut self, limit: Duration) {
        self.tx.give_up_after(limit);
    }

    fn congestion_control(&self) -> Option<CongestionControl> {
        self.tx.congestion_control()
    }

    fn set_congestion_control(&mut self, control: CongestionControl) {
        self.tx.set_congestion_control(control);
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LaneError>> {
        self.tx.poll_close(cx)
    }
}
