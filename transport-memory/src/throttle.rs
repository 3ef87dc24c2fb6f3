//! A transport whose lanes share a link of limited rate, as those of a machine in a data centre or at
//! home do: one token bucket for everything that leaves a peer, one for everything that arrives.
//!
//! It holds bytes back on their way to and from another transport, whose lanes should be much faster
//! than the limit.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pccl_core::id::Identity;
use pccl_core::transport::{Endpoint, Lane, LaneError, LaneRx, LaneTx, Transport};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::{Intercepted, Interceptor, claim_local, on_recv, on_send};

#[cfg(test)]
mod tests;

/// Timers are no finer than this, so a link lets so much pass at once, unless it is told otherwise.
const BURST: Duration = Duration::from_millis(4);

/// Bytes for which a waiting lane is woken: fewer cost more in wake-ups than they bring.
const WORTH_WAKING: u64 = 32 * 1024;

const NANOS: u128 = 1_000_000_000;

/// A transport whose lanes go over one link in either direction. They deny that they lead to this machine.
pub type Throttled = Intercepted<Throttle>;

impl Throttled {
    /// The link of one peer: so many bytes per second out, and as many in. At least one.
    pub fn new(below: impl Transport, bytes_per_second: u64) -> Self {
        Self::over(Arc::new(below), Throttle::new(bytes_per_second))
    }

    /// As [`new`](Self::new), but after a pause, bytes of this time pass at once. Where processes share cores, this is
    /// the queue of a link, which empties while its process waits for a core.
    pub fn with_burst(below: impl Transport, bytes_per_second: u64, burst: Duration) -> Self {
        Self::over(
            Arc::new(below),
            Throttle::with_burst(bytes_per_second, burst),
        )
    }
}

/// A link of limited rate: an [`Interceptor`] that lets each lane wait for its share.
#[derive(Debug)]
pub struct Throttle {
    out: Arc<Bucket>,
    into: Arc<Bucket>,
}

impl Throttle {
    /// So many bytes per second out, and as many in. At least one.
    #[must_use]
    pub fn new(bytes_per_second: u64) -> Self {
        Self::with_burst(bytes_per_second, BURST)
    }

    /// As [`new`](Self::new), but after a pause, bytes of this time pass at once.
    #[must_use]
    pub fn with_burst(bytes_per_second: u64, burst: Duration) -> Self {
        Self {
            out: Arc::new(Bucket::new(bytes_per_second, burst)),
            into: Arc::new(Bucket::new(bytes_per_second, burst)),
        }
    }

    /// The lane, over this link.
    #[must_use]
    pub fn on(&self, lane: Lane) -> Lane {
        let (mut out, mut into) = (Turn::new(&self.out), Turn::new(&self.into));
        let tx = claim_local(lane.tx, false);
        Lane {
            tx: on_send(tx, move |tx, cx, parts| out.poll_send(tx, cx, parts)),
            rx: on_recv(lane.rx, move |rx, cx, room| into.poll_recv(rx, cx, room)),
            ..lane
        }
    }
}

impl Interceptor for Throttle {
    fn opened(&self, lane: Lane, _: &Endpoint, _: Option<Identity>) -> Lane {
        self.on(lane)
    }

    fn accepted(&self, lane: Lane, _: SocketAddr) -> Lane {
        self.on(lane)
    }
}

/// One lane's waiting for one direction of the link.
struct Turn {
    bucket: Arc<Bucket>,
    sleep: Pin<Box<Sleep>>,
}

impl Turn {
    fn new(bucket: &Arc<Bucket>) -> Self {
        Self {
            bucket: Arc::clone(bucket),
            sleep: Box::pin(sleep_until(Instant::now())),
        }
    }

    fn poll_send(
        &mut self,
        tx: &mut dyn LaneTx,
        cx: &mut Context<'_>,
        parts: &[&[u8]],
    ) -> Poll<Result<usize, LaneError>> {
        let wanted = parts.iter().map(|part| part.len()).sum();
        let mut left = ready!(self.poll_allowed(cx, wanted));
        let mut allowed = Vec::with_capacity(parts.len());
        for part in parts {
            let fits = part.len().min(left);
            left -= fits;
            allowed.push(part.get(..fits).unwrap_or_default());
        }
        let sent = ready!(tx.poll_send(cx, &allowed))?;
        self.bucket.take(sent);
        Poll::Ready(Ok(sent))
    }

    fn poll_recv(
        &mut self,
        rx: &mut dyn LaneRx,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<Result<usize, LaneError>> {
        let allowed = ready!(self.poll_allowed(cx, into.len()));
        let into = into.get_mut(..allowed).unwrap_or_default();
        let received = ready!(rx.poll_recv(cx, into))?;
        self.bucket.take(received);
        Poll::Ready(Ok(received))
    }

    /// How many of the wanted bytes may pass.
    fn poll_allowed(&mut self, cx: &mut Context<'_>, wanted: usize) -> Poll<usize> {
        loop {
            match self.bucket.allowed(Instant::now(), wanted) {
                Ok(bytes) => return Poll::Ready(bytes),
                Err(until) => self.sleep.as_mut().reset(until),
            }
            ready!(self.sleep.as_mut().poll(cx));
        }
    }
}

/// One direction of a link: fills at the link's rate, up to what passes in the time of a burst.
#[derive(Debug)]
struct Bucket {
    bytes_per_second: u64,
    burst: Duration,
    /// When it was, or would be, empty.
    empty_at: Mutex<Instant>,
}

impl Bucket {
    fn new(bytes_per_second: u64, burst: Duration) -> Self {
        let mut bucket = Self {
            bytes_per_second: bytes_per_second.max(1),
            burst,
            empty_at: Mutex::new(Instant::now()),
        };
        // One that held less than a byte would let nothing pass.
        bucket.burst = burst.max(bucket.time_of(1));
        bucket
    }

    /// How many of the wanted bytes may pass, or until when to wait.
    fn allowed(&self, now: Instant, wanted: usize) -> Result<usize, Instant> {
        let mut empty_at = self.empty_at.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(full) = now.checked_sub(self.burst).filter(|full| full > &*empty_at) {
            *empty_at = full;
        }
        let filled = now.saturating_duration_since(*empty_at);
        let bytes = filled.as_nanos() * u128::from(self.bytes_per_second) / NANOS;
        let needed = WORTH_WAKING.min(wanted as u64).min(self.most());
        if bytes >= u128::from(needed) {
            Ok(usize::try_from(bytes).unwrap_or(usize::MAX).min(wanted))
        } else {
            Err(*empty_at + self.time_of(needed))
        }
    }

    /// So many bytes have passed.
    fn take(&self, bytes: usize) {
        let mut empty_at = self.empty_at.lock().unwrap_or_else(PoisonError::into_inner);
        *empty_at += self.time_of(bytes as u64);
    }

    /// Bytes that it holds when it is full, at least one.
    fn most(&self) -> u64 {
        let bytes = self.burst.as_nanos() * u128::from(self.bytes_per_second) / NANOS;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// How long it takes to fill by so many bytes.
    fn time_of(&self, bytes: u64) -> Duration {
        let nanos = (u128::from(bytes) * NANOS).div_ceil(self.bytes_per_second.into());
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}
