//! Who drives a runtime of its own: its thread, or whoever is in a blocking call.
//!
//! Changing places costs two switches of threads, which is more than a small reduce costs otherwise. So
//! the thread does not take over as soon as a blocking call ends. While no further call begins it drives for
//! a moment only, after [`PAUSE`] and then after pauses of twice the length each, and takes over once one of
//! them was as long as [`PAUSE_MAX`]: a program that computes between its calls finds the runtime free.
//! Between those moments nobody drives. That keeps nobody waiting: whatever was asked of the engine and has
//! no answer counts as *open*, and if anything is open, the thread takes over at once.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

#[cfg(test)]
mod tests;

/// How long after a blocking call the thread drives for the first time. Far more than a training loop needs
/// between two small reduces.
const PAUSE: Duration = Duration::from_millis(2);

/// The longest pause between two moments in which the thread drives. Far less than any time limit of the
/// protocol. All pauses together are twice as long: beside what such a program computes, two switches of
/// threads are nothing.
const PAUSE_MAX: Duration = Duration::from_millis(64);

/// Sees to it that the runtime is driven.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    state: Mutex<State>,
    /// The thread is to look again.
    changed: Condvar,
    /// Somebody is in a blocking call: the thread is to let go of the runtime.
    wanted: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// How many are in blocking calls.
    callers: usize,
    /// Blocking calls that have ever begun.
    calls: u64,
    /// What waits for the engine.
    open: usize,
    thread: Thread,
}

/// What the thread does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Thread {
    /// It drives, or is about to.
    #[default]
    Drives,
    /// It was told to let go.
    Yields,
    /// It looks whether calls go on.
    Watches,
    /// It looks whether calls begin again, after a longer pause.
    Rests,
    /// It waits for the end of a long call.
    Sleeps,
}

/// What the thread has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    /// Drive until it is to let go.
    Drive,
    /// Drive for a moment, and [`stand_by`](Turns::stand_by) again.
    DriveOnce,
}

/// What the thread has seen since it let go of the runtime.
#[derive(Debug)]
pub(crate) struct Standby {
    /// How many calls had begun when it looked last. `None`: it has not looked since a call has ended.
    seen: Option<u64>,
    /// How long it waits for the next one.
    pause: Duration,
}

impl Standby {
    /// It has let go just now.
    pub(crate) const fn new() -> Self {
        Self {
            seen: None,
            pause: PAUSE,
        }
    }
}

impl Turns {
    /// Ends when the thread is to let go of the runtime; then it has to [`stand_by`](Self::stand_by).
    pub(crate) async fn yielded(&self) {
        self.wanted.notified().await;
    }

    /// Blocks the thread until it has to drive again.
    pub(crate) fn stand_by(&self, standby: &mut Standby) -> Duty {
        let mut state = self.state();
        let mut has_waited = false;
        loop {
            let nothing_begun = has_waited && standby.seen == Some(state.calls);
            if state.callers == 0 && (state.open > 0 || nothing_begun) {
                let pause = standby.pause;
                standby.pause = pause * 2;
                if state.open == 0 && pause < PAUSE_MAX {
                    return Duty::DriveOnce;
                }
                state.thread = Thread::Drives;
                return Duty::Drive;
            }
            if standby.seen != Some(state.calls) {
                standby.pause = PAUSE;
            }
            standby.seen = Some(state.calls);
            if state.callers > 0 && nothing_begun {
                state.thread = Thread::Sleeps;
                state = wait(self.changed.wait(state));
                // A pause begins.
                standby.seen = None;
            } else {
                state.thread = match standby.pause > PAUSE {
                    true => Thread::Rests,
                    false => Thread::Watches,
                };
                state = wait(self.changed.wait_timeout(state, standby.pause)).0;
            }
            has_waited = true;
        }
    }

    /// Takes the runtime from the thread for a blocking call.
    pub(crate) fn enter(&self) -> BlockingCaller<'_> {
        let mut state = self.state();
        state.callers += 1;
        state.calls += 1;
        if state.thread == Thread::Drives {
            state.thread = Thread::Yields;
            self.wanted.notify_one();
        }
        BlockingCaller(self)
    }

    fn leave(&self) {
        let mut state = self.state();
        state.callers -= 1;
        let waits_for_this = matches!(state.thread, Thread::Sleeps | Thread::Rests);
        let is_due = state.open > 0 || waits_for_this;
        if state.callers == 0 && is_due {
            self.changed.notify_one();
        }
    }

    fn open(&self) {
        let mut state = self.state();
        state.open += 1;
        if state.callers == 0 && state.thread != Thread::Drives {
            self.changed.notify_one();
        }
    }

    fn close(&self) {
        self.state().open -= 1;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        wait(self.state.lock())
    }
}

/// Nothing that holds the lock can panic.
fn wait<T>(locked: Result<T, PoisonError<T>>) -> T {
    locked.unwrap_or_else(PoisonError::into_inner)
}

/// Somebody in a blocking call.
#[derive(Debug)]
pub(crate) struct BlockingCaller<'a>(&'a Turns);

impl Drop for BlockingCaller<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// Something that waits for the engine, so that the runtime has to be driven.
#[derive(Debug)]
pub(crate) struct Open(Option<Arc<Turns>>);

impl Open {
    /// `None`: on a runtime that is always driven.
    pub(crate) fn new(turns: Option<&Arc<Turns>>) -> Self {
        let turns = turns.cloned();
        if let Some(turns) = &turns {
            turns.open();
        }
        Self(turns)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(turns) = &self.0 {
            turns.close();
        }
    }
}
