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
use pccl_core::transport::{
    BoxFuture, Endpoint, Incoming, Lane, LaneError, LaneRx, LaneTx, Listener, Security, Transport,
};
use tokio::time::{Instant, Sleep, sleep_until};

/// Timers are no finer than this, so a link lets so much pass at once.
const BURST: Duration = Duration::from_millis(4);

/// Bytes for which a waiting lane is woken: fewer cost more in wake-ups than they bring.
const WORTH_WAKING: u64 = 32 * 1024;

const NANOS: u128 = 1_000_000_000;

/// Lanes of another transport, all of them over one link in either direction.
#[derive(Clone, Debug)]
pub struct Throttled<T> {
    inner: T,
    out: Arc<Bucket>,
    into: Arc<Bucket>,
}

impl<T: Transport> Throttled<T> {
    /// The link of one peer: so many bytes per second out, and as many in. At least one.
    pub fn new(inner: T, bytes_per_second: u64) -> Self {
        Self {
            inner,
            out: Arc::new(Bucket::new(bytes_per_second)),
            into: Arc::new(Bucket::new(bytes_per_second)),
        }
    }
}

/// Lets a lane wait for its share of a link.
fn throttle(out: &Arc<Bucket>, into: &Arc<Bucket>, lane: Lane) -> Lane {
    Lane {
        tx: Box::new(ThrottledTx {
            inner: lane.tx,
            turn: Turn::new(out),
        }),
        rx: Box::new(ThrottledRx {
            inner: lane.rx,
            turn: Turn::new(into),
        }),
        ..lane
    }
}

impl<T: Transport> Transport for Throttled<T> {
    fn listen(
        &self,
        on: SocketAddr,
        security: Security,
    ) -> BoxFuture<'_, Result<Box<dyn Listener>, LaneError>> {
        Box::pin(async move {
            let inner = self.inner.listen(on, security).await?;
            let (out, into) = (Arc::clone(&self.out), Arc::clone(&self.into));
            let listener = ThrottledListener { inner, out, into };
            Ok(Box::new(listener) as Box<dyn Listener>)
        })
    }

    fn open<'a>(
        &'a self,
        to: &'a Endpoint,
        expect: Option<Identity>,
    ) -> BoxFuture<'a, Result<Lane, LaneError>> {
        Box::pin(async move {
            let lane = self.inner.open(to, expect).await?;
            Ok(throttle(&self.out, &self.into, lane))
        })
    }

    fn lanes_per_edge(&self) -> u16 {
        self.inner.lanes_per_edge()
    }
}

struct ThrottledListener {
    inner: Box<dyn Listener>,
    out: Arc<Bucket>,
    into: Arc<Bucket>,
}

impl Listener for ThrottledListener {
    fn local_addr(&self) -> SocketAddr {
        self.inner.local_addr()
    }

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<Incoming, LaneError>> {
        let Incoming { lane, from } = ready!(self.inner.poll_accept(cx))?;
        let lane = throttle(&self.out, &self.into, lane);
        Poll::Ready(Ok(Incoming { lane, from }))
    }
}

struct ThrottledTx {
    inner: Box<dyn LaneTx>,
    turn: Turn,
}

impl LaneTx for ThrottledTx {
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[&[u8]],
    ) -> Poll<Result<usize, LaneError>> {
        let wanted = parts.iter().map(|part| part.len()).sum();
        let mut left = ready!(self.turn.poll_allowed(cx, wanted));
        let mut allowed = Vec::with_capacity(parts.len());
        for part in parts {
            let fits = part.len().min(left);
            left -= fits;
            allowed.push(part.get(..fits).unwrap_or_default());
        }
        let sent = ready!(self.inner.poll_send(cx, &allowed))?;
        self.turn.bucket.take(sent);
        Poll::Ready(Ok(sent))
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LaneError>> {
        self.inner.poll_close(cx)
    }
}

struct ThrottledRx {
    inner: Box<dyn LaneRx>,
    turn: Turn,
}

impl LaneRx for ThrottledRx {
    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<Result<usize, LaneError>> {
        let allowed = ready!(self.turn.poll_allowed(cx, into.len()));
        let into = into.get_mut(..allowed).unwrap_or_default();
        let received = ready!(self.inner.poll_recv(cx, into))?;
        self.turn.bucket.take(received);
        Poll::Ready(Ok(received))
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

/// One direction of a link: fills at the link's rate, up to what passes in [`BURST`].
#[derive(Debug)]
struct Bucket {
    bytes_per_second: u64,
    /// When it was, or would be, empty.
    empty_at: Mutex<Instant>,
}

impl Bucket {
    fn new(bytes_per_second: u64) -> Self {
        Self {
            bytes_per_second: bytes_per_second.max(1),
            empty_at: Mutex::new(Instant::now()),
        }
    }

    /// How many of the wanted bytes may pass, or until when to wait.
    fn allowed(&self, now: Instant, wanted: usize) -> Result<usize, Instant> {
        let mut empty_at = self.empty_at.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(full) = now.checked_sub(BURST).filter(|full| full > &*empty_at) {
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
        let bytes = BURST.as_nanos() * u128::from(self.bytes_per_second) / NANOS;
        u64::try_from(bytes).unwrap_or(u64::MAX).max(1)
    }

    /// How long it takes to fill by so many bytes.
    fn time_of(&self, bytes: u64) -> Duration {
        let nanos = (u128::from(bytes) * NANOS).div_ceil(self.bytes_per_second.into());
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use pccl_core::transport::{recv_exact, send_all};

    use super::*;

    /// A gigabit per second: a byte takes 8 ns.
    const RATE: u64 = 125_000_000;

    const MEGABYTE: usize = 1_000_000;

    /// Takes everything at once.
    struct Sink;

    impl LaneTx for Sink {
        fn poll_send(
            &mut self,
            _: &mut Context<'_>,
            parts: &[&[u8]],
        ) -> Poll<Result<usize, LaneError>> {
            Poll::Ready(Ok(parts.iter().map(|part| part.len()).sum()))
        }

        fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<Result<(), LaneError>> {
            Poll::Ready(Ok(()))
        }
    }

    /// Gives as much as is asked for.
    struct Spring;

    impl LaneRx for Spring {
        fn poll_recv(
            &mut self,
            _: &mut Context<'_>,
            into: &mut [u8],
        ) -> Poll<Result<usize, LaneError>> {
            Poll::Ready(Ok(into.len()))
        }
    }

    /// Lanes over one link.
    fn lanes(count: usize) -> Vec<Lane> {
        let (out, into) = (Arc::new(Bucket::new(RATE)), Arc::new(Bucket::new(RATE)));
        let lane = |_| Lane::new(Box::new(Sink), Box::new(Spring));
        let lanes = (0..count).map(lane);
        lanes.map(|lane| throttle(&out, &into, lane)).collect()
    }

    /// How long it took, to the next millisecond: timers of tokio are no finer.
    fn since(start: Instant) -> u128 {
        start.elapsed().as_millis()
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_pass_at_the_rate_of_the_link() {
        let mut lane = lanes(1).remove(0);
        let start = Instant::now();

        send_all(&mut *lane.tx, &[], &vec![0; 100 * MEGABYTE])
            .await
            .unwrap();

        // 800 ms, less what the last wake-up lets pass at once.
        assert!((796..=800).contains(&since(start)), "{}", since(start));
    }

    #[tokio::test(start_paused = true)]
    async fn all_lanes_share_the_link_and_its_directions_do_not() {
        let start = Instant::now();
        let mut tasks = Vec::new();
        for lane in lanes(4) {
            let Lane { mut tx, mut rx, .. } = lane;
            tasks.push(tokio::spawn(async move {
                send_all(&mut *tx, &[0; 24], &vec![0; 25 * MEGABYTE])
                    .await
                    .unwrap();
            }));
            tasks.push(tokio::spawn(async move {
                let mut into = vec![0; 25 * MEGABYTE];
                recv_exact(&mut *rx, &mut into).await.unwrap();
            }));
        }

        for task in tasks {
            task.await.unwrap();
        }

        assert!((796..=801).contains(&since(start)), "{}", since(start));
    }

    #[tokio::test(start_paused = true)]
    async fn a_link_at_rest_saves_up_no_more_than_a_burst() {
        let mut lane = lanes(1).remove(0);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let start = Instant::now();

        send_all(&mut *lane.tx, &[], &vec![0; 10 * MEGABYTE])
            .await
            .unwrap();

        assert!((72..=80).contains(&since(start)), "{}", since(start));
    }

    #[test]
    fn a_bucket_holds_what_the_rate_says_to_the_byte() {
        let bucket = Bucket::new(RATE);
        let start = *bucket.empty_at.lock().unwrap();
        let at = |micros| start + Duration::from_micros(micros);

        assert_eq!(
            bucket.allowed(at(0), 1),
            Err(start + Duration::from_nanos(8))
        );
        assert_eq!(bucket.allowed(at(1000), MEGABYTE), Ok(125_000));
        bucket.take(125_000);
        assert_eq!(bucket.allowed(at(1001), 100), Ok(100));
        assert_eq!(
            bucket.allowed(at(1001), MEGABYTE),
            Err(start + Duration::from_nanos(1_262_144))
        );
        assert_eq!(bucket.allowed(at(60_000_000), MEGABYTE), Ok(500_000));
    }
}
