//! One round as the step of a training loop sees it, and how it ends.

use std::fmt;
use std::ops::Deref;

use crate::communicator::Communicator;
use crate::error::Error;
use crate::next::Next;

/// A round of [`Rounds`](crate::Rounds): the synchronized state, and the communicator for the step's
/// collectives. It ends by [`commit`](Self::commit), [`wait`](Self::wait) or [`end`](Self::end).
pub struct Round<'a, S> {
    pub(super) comm: &'a Communicator,
    pub(super) state: &'a mut S,
    pub(super) revision: &'a mut u64,
}

/// How a round ended.
#[derive(Debug)]
#[must_use = "return it from the step"]
pub struct Outcome(pub(super) End);

/// Each way in which a round ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Committed,
    Waits,
    Last,
}

impl<S> Round<'_, S> {
    /// The state, as all peers of the group have it.
    #[must_use]
    pub const fn state(&self) -> &S {
        self.state
    }

    /// The revision of the state: how many rounds were committed, in the whole run.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        *self.revision
    }

    /// Makes a call until it succeeds, or fails with an error for which [calling again](Next::CallAgain) is not
    /// enough. The buffers of a call that failed are as they were, so what was computed is not lost.
    ///
    /// There is no limit on repetitions, because each of them follows the loss of a peer or of a lane. Blocks
    /// meanwhile.
    ///
    /// # Errors
    /// Those of the call, for the step to pass on with `?`.
    pub fn retry<T>(&self, mut call: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
        loop {
            match call() {
                Err(error) if error.next() == Next::CallAgain => note(&error),
                result => return result,
            }
        }
    }

    /// As [`retry`](Self::retry), without blocking.
    ///
    /// # Errors
    /// As [`retry`](Self::retry).
    pub async fn retry_async<T>(
        &self,
        mut call: impl AsyncFnMut() -> Result<T, Error>,
    ) -> Result<T, Error> {
        loop {
            match call().await {
                Err(error) if error.next() == Next::CallAgain => note(&error),
                result => return result,
            }
        }
    }

    /// Changes the state, which then has the next revision. All peers make the same change: by what they have
    /// combined, not by what only one of them knows.
    pub fn commit(self, change: impl FnOnce(&mut S)) -> Outcome {
        change(self.state);
        *self.revision += 1;
        Outcome(End::Committed)
    }

    /// Ends the round without a change. The next one begins 50 ms later: for a step that waits for more peers,
    /// say.
    pub fn wait(self) -> Outcome {
        Outcome(End::Waits)
    }

    /// Ends the loop.
    pub fn end(self) -> Outcome {
        Outcome(End::Last)
    }
}

fn note(error: &Error) {
    tracing::debug!(%error, "a call of a step is made again");
}

/// The step's collectives, and what a communicator tells. Calls that change the topology or the state are the
/// loop's own.
impl<S> Deref for Round<'_, S> {
    type Target = Communicator;

    fn deref(&self) -> &Communicator {
        self.comm
    }
}

impl<S> fmt::Debug for Round<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Round")
            .field("comm", self.comm)
            .field("revision", self.revision)
            .finish_non_exhaustive()
    }
}
