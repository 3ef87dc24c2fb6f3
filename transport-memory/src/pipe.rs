//! One direction of a lane in memory: a bounded queue of bytes with a writer and a reader.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use pccl_core::transport::{LaneError, LaneRx, LaneTx};

/// The bytes under way and what has become of the two ends.
pub(crate) struct Pipe {
    state: Mutex<State>,
}

struct State {
    bytes: VecDeque<u8>,
    capacity: usize,
    ended: bool,
    reader_gone: bool,
    reset: bool,
    stalled: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Pipe {
    /// A pipe that holds at most `capacity` bytes, at least one.
    pub(crate) fn new(capacity: usize) -> Arc<Self> {
        let state = State {
            bytes: VecDeque::new(),
            capacity: capacity.max(1),
            ended: false,
            reader_gone: false,
            reset: false,
            stalled: false,
            reader: None,
            writer: None,
        };
        Arc::new(Self {
            state: Mutex::new(state),
        })
    }

    /// Loses what is under way; both ends get [`LaneError::Reset`].
    pub(crate) fn reset(&self) {
        self.disturb(|state| {
            state.reset = true;
            state.bytes.clear();
        });
    }

    /// Holds back what is under way and what follows, the end of the stream included.
    pub(crate) fn stall(&self) {
        self.disturb(|state| state.stalled = true);
    }

    /// Lets go what was held back.
    pub(crate) fn resume(&self) {
        self.disturb(|state| state.stalled = false);
    }

    fn end(&self) {
        self.disturb(|state| state.ended = true);
    }

    fn lose_reader(&self) {
        self.disturb(|state| {
            state.reader_gone = true;
            state.bytes.clear();
        });
    }

    /// A change that concerns both ends.
    fn disturb(&self, change: impl FnOnce(&mut State)) {
        let wakers = self.with(|state| {
            change(state);
            [state.reader.take(), state.writer.take()]
        });
        // Outside the lock, because a waker may run what it wakes.
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    /// Takes what fits of `parts`; `Pending` where nothing does.
    fn put(&mut self, parts: &[&[u8]]) -> Poll<Result<usize, LaneError>> {
        if self.reset || self.reader_gone {
            return Poll::Ready(Err(LaneError::Reset));
        }
        if self.ended {
            return Poll::Ready(Err(LaneError::Closed));
        }
        if parts.iter().all(|part| part.is_empty()) {
            return Poll::Ready(Ok(0));
        }
        let before = self.bytes.len();
        for part in parts {
            let room = self.capacity - self.bytes.len();
            let (fits, _) = part.split_at(room.min(part.len()));
            self.bytes.extend(fits);
        }
        match self.bytes.len() - before {
            0 => Poll::Pending,
            taken => Poll::Ready(Ok(taken)),
        }
    }

    /// Moves what is there to the front of `into`; `Pending` where nothing is.
    fn take(&mut self, into: &mut [u8]) -> Poll<Result<usize, LaneError>> {
        if self.reset {
            return Poll::Ready(Err(LaneError::Reset));
        }
        if self.stalled || (self.bytes.is_empty() && !self.ended) {
            return Poll::Pending;
        }
        let (first, second) = self.bytes.as_slices();
        let of_first = first.len().min(into.len());
        let (front, back) = into.split_at_mut(of_first);
        front.copy_from_slice(&first[..of_first]);
        let of_second = second.len().min(back.len());
        back[..of_second].copy_from_slice(&second[..of_second]);
        self.bytes.drain(..of_first + of_second);
        Poll::Ready(Ok(of_first + of_second))
    }
}

/// The sending end. Dropping it ends the stream after what was sent.
pub(crate) struct PipeTx(pub(crate) Arc<Pipe>);

impl LaneTx for PipeTx {
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[&[u8]],
    ) -> Poll<Result<usize, LaneError>> {
        let (outcome, reader) = self.0.with(|state| {
            let outcome = state.put(parts);
            if outcome.is_pending() {
                state.writer = Some(cx.waker().clone());
                return (outcome, None);
            }
            (outcome, state.reader.take())
        });
        reader.into_iter().for_each(Waker::wake);
        outcome
    }

    fn poll_close(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), LaneError>> {
        if self.0.with(|state| state.reset) {
            return Poll::Ready(Err(LaneError::Reset));
        }
        self.0.end();
        Poll::Ready(Ok(()))
    }
}

impl Drop for PipeTx {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The receiving end. Dropping it loses what is under way and fails what the writer sends after.
pub(crate) struct PipeRx(pub(crate) Arc<Pipe>);

impl LaneRx for PipeRx {
    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<Result<usize, LaneError>> {
        let (outcome, writer) = self.0.with(|state| {
            let outcome = state.take(into);
            if outcome.is_pending() {
                state.reader = Some(cx.waker().clone());
                return (outcome, None);
            }
            (outcome, state.writer.take())
        });
        writer.into_iter().for_each(Waker::wake);
        outcome
    }
}

impl Drop for PipeRx {
    fn drop(&mut self) {
        self.0.lose_reader();
    }
}
