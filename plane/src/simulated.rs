//! Lanes for tests under tokio's paused clock: what is under way takes its time, a window bounds it, and
//! from some byte on nothing may arrive any more.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pccl_core::transport::{Lane, LaneError, LaneRx, LaneTx};
use tokio::time::{Instant, Sleep, sleep_until};

/// What one direction of a lane is like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    /// From one end to the other.
    pub(crate) delay: Duration,
    /// Bytes that are sent and whose arrival is not known yet.
    pub(crate) window: usize,
    /// Bytes that arrive; what is sent behind them is lost, and nobody is told.
    pub(crate) carries: u64,
    /// Whether the sender's system tells that bytes do not arrive.
    pub(crate) tells: bool,
}

impl Path {
    /// A short way.
    pub(crate) const NEAR: Self = Self {
        delay: Duration::from_millis(1),
        window: 64 * 1024,
        carries: u64::MAX,
        tells: true,
    };
}

/// One direction.
#[derive(Debug)]
struct Way {
    path: Path,
    arriving: VecDeque<(Instant, Vec<u8>)>,
    /// Bytes that fill the window.
    under_way: usize,
    /// When the sender learns of how many bytes that they have arrived.
    acknowledged: VecDeque<(Instant, usize)>,
    sent: u64,
    lost_since: Option<Instant>,
    give_up_after: Option<Duration>,
    closed: Option<Instant>,
    is_read: bool,
    sender: Option<Waker>,
    receiver: Option<Waker>,
}

impl Way {
    fn new(path: Path) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self {
            path,
            arriving: VecDeque::new(),
            under_way: 0,
            acknowledged: VecDeque::new(),
            sent: 0,
            lost_since: None,
            give_up_after: None,
            closed: None,
            is_read: true,
            sender: None,
            receiver: None,
        }))
    }

    /// When the sender's end ends, because bytes are lost.
    fn given_up_at(&self) -> Option<Instant> {
        let limit = self.give_up_after.filter(|_| self.path.tells)?;
        Some(self.lost_since? + limit)
    }

    fn send(&mut self, bytes: &[u8]) {
        let now = Instant::now();
        let carried = (self.path.carries.saturating_sub(self.sent) as usize).min(bytes.len());
        self.sent += bytes.len() as u64;
        self.under_way += bytes.len();
        if carried > 0 {
            let due = now + self.path.delay;
            self.arriving.push_back((due, bytes[..carried].to_vec()));
        }
        if carried < bytes.len() {
            self.lost_since.get_or_insert(now);
        }
    }

    fn take(&mut self, into: &mut [u8]) -> Option<usize> {
        let now = Instant::now();
        let (due, bytes) = self.arriving.front_mut()?;
        if now < *due {
            return None;
        }
        let taken = bytes.len().min(into.len());
        into[..taken].copy_from_slice(&bytes[..taken]);
        bytes.drain(..taken);
        if bytes.is_empty() {
            self.arriving.pop_front();
        }
        let learnt = now + self.path.delay;
        self.acknowledged.push_back((learnt, taken));
        Some(taken)
    }

    fn acknowledge(&mut self) {
        while let Some((at, bytes)) = self.acknowledged.front()
            && *at <= Instant::now()
        {
            self.under_way -= bytes;
            self.acknowledged.pop_front();
        }
    }
}

fn lock(way: &Mutex<Way>) -> MutexGuard<'_, Way> {
    way.lock().unwrap()
}

fn wake(waker: Option<Waker>) {
    waker.into_iter().for_each(Waker::wake);
}

/// One half of an end: where it sends, where it receives, and its alarm clock.
struct Half {
    out: Arc<Mutex<Way>>,
    back: Arc<Mutex<Way>>,
    alarm: Pin<Box<Sleep>>,
}

struct Tx(Half);

struct Rx(Half);

impl Half {
    fn new(out: &Arc<Mutex<Way>>, back: &Arc<Mutex<Way>>) -> Self {
        Self {
            out: Arc::clone(out),
            back: Arc::clone(back),
            alarm: Box::pin(sleep_until(Instant::now())),
        }
    }

    fn is_given_up(&self) -> bool {
        let at = lock(&self.out).given_up_at();
        at.is_some_and(|at| at <= Instant::now())
    }

    /// Pending, until one of the moments or somebody wakes.
    fn wait<T>(&mut self, cx: &mut Context<'_>, moments: [Option<Instant>; 2]) -> Poll<T> {
        if let Some(at) = moments.into_iter().flatten().min() {
            self.alarm.as_mut().reset(at);
            if self.alarm.as_mut().poll(cx).is_ready() {
                cx.waker().wake_by_ref();
            }
        }
        Poll::Pending
    }
}

impl LaneTx for Tx {
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[&[u8]],
    ) -> Poll<Result<usize, LaneError>> {
        if self.0.is_given_up() {
            return Poll::Ready(Err(LaneError::TimedOut));
        }
        let mut out = lock(&self.0.out);
        if !out.is_read {
            return Poll::Ready(Err(LaneError::Reset));
        }
        out.acknowledge();
        let room = out.path.window.saturating_sub(out.under_way);
        if room == 0 {
            out.sender = Some(cx.waker().clone());
            let moments = [
                out.acknowledged.front().map(|(at, _)| *at),
                out.given_up_at(),
            ];
            drop(out);
            return self.0.wait(cx, moments);
        }
        let part = parts.iter().find(|part| !part.is_empty());
        let part = part.copied().unwrap_or_default();
        let part = &part[..part.len().min(room)];
        out.send(part);
        let receiver = out.receiver.take();
        drop(out);
        wake(receiver);
        wake(lock(&self.0.back).receiver.take());
        Poll::Ready(Ok(part.len()))
    }

    fn give_up_after(&mut self, limit: Duration) {
        lock(&self.0.out).give_up_after = Some(limit);
    }

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<Result<(), LaneError>> {
        let mut out = lock(&self.0.out);
        let due = Instant::now() + out.path.delay;
        if out.lost_since.is_none() {
            out.closed.get_or_insert(due);
        }
        wake(out.receiver.take());
        Poll::Ready(Ok(()))
    }
}

impl LaneRx for Rx {
    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<Result<usize, LaneError>> {
        if self.0.is_given_up() {
            return Poll::Ready(Err(LaneError::TimedOut));
        }
        let given_up = lock(&self.0.out).given_up_at();
        let mut back = lock(&self.0.back);
        if let Some(taken) = back.take(into) {
            wake(back.sender.take());
            return Poll::Ready(Ok(taken));
        }
        let nothing_left = back.arriving.is_empty();
        if nothing_left && back.closed.is_some_and(|at| at <= Instant::now()) {
            return Poll::Ready(Ok(0));
        }
        back.receiver = Some(cx.waker().clone());
        let next = back.arriving.front().map(|(due, _)| *due).or(back.closed);
        drop(back);
        self.0.wait(cx, [next, given_up])
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        let _ = self.poll_close(&mut Context::from_waker(Waker::noop()));
    }
}

impl Drop for Rx {
    fn drop(&mut self) {
        let mut back = lock(&self.0.back);
        back.is_read = false;
        wake(back.sender.take());
    }
}

/// Both ends of a lane with these two directions: from the first to the second, and back.
pub(crate) fn lane(there: Path, back: Path) -> (Lane, Lane) {
    let (there, back) = (Way::new(there), Way::new(back));
    let end = |out, back| {
        let (tx, rx) = (Tx(Half::new(out, back)), Rx(Half::new(out, back)));
        Lane::new(Box::new(tx), Box::new(rx))
    };
    (end(&there, &back), end(&back, &there))
}
