//! One direction of a lane in memory: a bounded queue of bytes with a writer and a reader.
//!
//! A pipe knows its path and the faults that it is under. Its two ends are in `ends`.

mod ends;
mod state;
mod transit;

use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use pccl_core::transport::Lane;

use crate::path::{Path, Wire};
use ends::{PipeRx, PipeTx};
use state::State;

/// The bytes under way and what has become of the two ends.
pub(crate) struct Pipe {
    state: Mutex<State>,
}

impl Pipe {
    /// A pipe of this path, which sends by `wire`. The number is the lane's, for what is drawn by lot.
    pub(crate) fn new(path: Path, wire: &Arc<Wire>, number: u64) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State::new(path, Arc::clone(wire), number)),
        })
    }

    /// The path is another one from here on. What is under way arrives when it would have.
    pub(crate) fn set_path(&self, path: Path) {
        self.disturb(|state| state.set_path(path));
    }

    /// Loses what is under way; both ends get [`LaneError::Reset`](pccl_core::transport::LaneError::Reset).
    pub(crate) fn reset(&self) {
        self.disturb(State::reset);
    }

    /// Resets the writer's end alone.
    pub(crate) fn reset_writer(&self) {
        self.disturb(|state| state.faults.writer_reset = true);
    }

    /// Resets the reader's end alone.
    pub(crate) fn reset_reader(&self) {
        self.disturb(|state| state.faults.reader_reset = true);
    }

    /// The writer's process is dead: what it has sent arrives, and then the end of the stream.
    pub(crate) fn kill_writer(&self) {
        self.disturb(|state| {
            state.finish();
            state.faults.writer_reset = true;
        });
    }

    /// The reader's process is dead: the writer is told, as far as it can be told.
    pub(crate) fn kill_reader(&self) {
        self.disturb(|state| {
            state.lose_reader();
            state.faults.reader_reset = true;
        });
    }

    /// Loses all that is sent from here on, the end of the stream included.
    pub(crate) fn lose(&self) {
        self.disturb(|state| state.faults.hole = true);
    }

    /// The writer is not told any more that the reader is gone.
    pub(crate) fn mute(&self) {
        self.disturb(|state| state.faults.mute = true);
    }

    /// Holds back what is under way and what follows, the end of the stream included; or lets it go.
    pub(crate) fn stall(&self, is_stalled: bool) {
        self.disturb(|state| match is_stalled {
            true => state.stall(),
            false => state.resume(),
        });
    }

    /// Holds back from the writer that the reader is gone; or tells.
    pub(crate) fn deafen(&self, is_deaf: bool) {
        self.disturb(|state| state.faults.deaf = is_deaf);
    }

    /// The writer does nothing more; or goes on.
    pub(crate) fn freeze_writer(&self, is_frozen: bool) {
        self.disturb(|state| state.faults.writer_frozen = is_frozen);
    }

    /// The reader does nothing more; or goes on.
    pub(crate) fn freeze_reader(&self, is_frozen: bool) {
        self.disturb(|state| state.faults.reader_frozen = is_frozen);
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

    fn wake_reader(&self) {
        let reader = self.with(|state| state.reader.take());
        reader.into_iter().for_each(Waker::wake);
    }

    fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The two ends of a lane: the first one sends by `forth`, the second one by `back`.
pub(crate) fn lanes(forth: &Arc<Pipe>, back: &Arc<Pipe>) -> (Lane, Lane) {
    let end = |tx, rx| Lane::new(Box::new(PipeTx::new(tx, rx)), Box::new(PipeRx::new(rx, tx)));
    (end(forth, back), end(back, forth))
}

/// A lane without a network: its two ends, of which the first one sends along `there` and the second one
/// along `back`.
#[must_use]
pub fn pair(there: Path, back: Path) -> (Lane, Lane) {
    let pipe = |path| Pipe::new(path, &Arc::default(), 0);
    lanes(&pipe(there), &pipe(back))
}
