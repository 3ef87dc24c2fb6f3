//! A collective that runs beside the caller and owns its buffer until it has ended.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::calls::Calls;
use crate::collective::Called;
use crate::engine::Command;
use crate::error::Error;
use crate::reduce::CollectiveReport;
use crate::runtime::Runtime;

/// A collective in the background, made by [`start_all_reduce`](crate::Communicator::start_all_reduce) and the other
/// calls that begin with `start_`. `B` is its buffer, or several, and `R` what the blocking call returns.
///
/// It is a future. [`wait`](Self::wait) blocks until the collective has ended, [`wait_timeout`](Self::wait_timeout)
/// blocks for a limited time, and [`try_wait`](Self::try_wait) does not block. Each returns the buffer, with the
/// result or as the blocking call leaves it after a failure.
///
/// Dropping the handle drops the buffer and gives the collective up. If it has started, it is aborted on every peer,
/// unless this peer has done its part: then it may be committed. If it has not started, this peer's vote to start is
/// withdrawn: the other peers wait until it makes the same call again, or the master ends the wait.
#[must_use = "dropping the handle gives the collective up"]
pub struct CollectiveHandle<B, R = CollectiveReport> {
    /// `None`: it was delivered.
    outcome: Option<oneshot::Receiver<Outcome<B, R>>>,
    /// Its end is what tells the collective that nobody waits for it.
    _waiting: oneshot::Sender<()>,
    /// What tells the engine at once, so that the tag is free for the next call.
    give_up: Option<(mpsc::WeakUnboundedSender<Command>, Command)>,
    runtime: Runtime,
}

type Outcome<B, R> = Result<Completed<B, R>, CollectiveFailed<B>>;

/// What carries out a collective that was called.
pub(crate) type Concluding<'a, R> = Pin<Box<dyn Future<Output = Result<R, Error>> + Send + 'a>>;

/// The buffer with the result, and what the blocking call returns.
#[derive(Clone, PartialEq)]
pub struct Completed<B, R = CollectiveReport> {
    /// The buffer that was handed over. It holds the result.
    pub buffer: B,
    /// What the blocking call returns: the [`Scattered`](crate::Scattered) of a reduce-scatter, the
    /// [`GatheredV`](crate::GatheredV) of an all-gather of different lengths, and the report of all others.
    pub returned: R,
}

/// A buffer for which there is no result, and why.
#[derive(Clone, PartialEq)]
pub struct CollectiveFailed<B> {
    /// The buffer as it was when it was handed over, unless it was to have no backup.
    pub buffer: B,
    /// Why.
    pub error: Error,
}

impl<B: Send + 'static, R: Send + 'static> CollectiveHandle<B, R> {
    /// Of a collective that was `called`. A task of the runtime carries it out.
    pub(crate) fn start<F>(
        calls: &Calls,
        runtime: &Runtime,
        buffer: B,
        called: Result<Called, Error>,
        conclude: F,
    ) -> Self
    where
        F: for<'a> FnOnce(Called, &'a Calls, &'a mut B) -> Concluding<'a, R> + Send + 'static,
    {
        let (deliver, outcome) = oneshot::channel();
        let (waiting, waited_for) = oneshot::channel();
        let parcel = Parcel(Some((buffer, deliver)));
        let mut give_up = None;
        match called {
            Err(error) => parcel.send(Err(error)),
            Ok(called) => {
                give_up = Some((calls.commands.downgrade(), called.give_up()));
                let running = carry_out((called, calls.clone()), parcel, conclude, waited_for);
                runtime.handle().spawn(running);
            }
        }
        Self {
            outcome: Some(outcome),
            _waiting: waiting,
            give_up,
            runtime: runtime.clone(),
        }
    }

    /// Waits for the end of the collective.
    ///
    /// Blocks the thread until the collective has ended. There is no time limit here: the master ends a collective that
    /// makes no progress.
    ///
    /// # Errors
    /// As the blocking call; the buffer comes back as that leaves it.
    ///
    /// # Panics
    /// Inside an async task, as every blocking call: await the handle there.
    #[track_caller]
    pub fn wait(self) -> Result<Completed<B, R>, CollectiveFailed<B>> {
        let runtime = self.runtime.clone();
        runtime.block_on("the handle", self)
    }

    /// Whether the collective has ended. If so, no wait blocks.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        let outcome = self.outcome.as_ref();
        outcome.is_none_or(|outcome| !outcome.is_empty())
    }

    /// The buffer, if the collective has ended. `None`: the collective still runs; call again later. Does not block.
    ///
    /// # Panics
    /// If the buffer was given back before.
    #[track_caller]
    pub fn try_wait(&mut self) -> Option<Result<Completed<B, R>, CollectiveFailed<B>>> {
        let received = match self.undelivered().try_recv() {
            Ok(outcome) => Some(outcome),
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Closed) => None,
        };
        Some(self.deliver(received))
    }

    /// As [`wait`](Self::wait), for this long at most. `None`: the collective runs, and the handle may be waited for
    /// again. Dropping it gives the collective up.
    ///
    /// # Panics
    /// Inside an async task, as every blocking call: use a time limit of the task's runtime there. If the buffer was
    /// given back before.
    #[track_caller]
    pub fn wait_timeout(
        &mut self,
        limit: Duration,
    ) -> Option<Result<Completed<B, R>, CollectiveFailed<B>>> {
        let runtime = self.runtime.clone();
        let waiting = async { timeout(limit, self).await.ok() };
        runtime.block_on("the handle", waiting)
    }
}

impl<B, R> CollectiveHandle<B, R> {
    #[track_caller]
    fn undelivered(&mut self) -> &mut oneshot::Receiver<Outcome<B, R>> {
        let outcome = self.outcome.as_mut();
        outcome.expect("a CollectiveHandle was polled after it had given its buffer back")
    }

    /// What the caller gets. A parcel is delivered even when it is dropped.
    fn deliver(&mut self, received: Option<Outcome<B, R>>) -> Outcome<B, R> {
        (self.outcome, self.give_up) = (None, None);
        received.expect("a parcel is delivered even when it is dropped")
    }
}

impl<B, R> Future for CollectiveHandle<B, R> {
    type Output = Result<Completed<B, R>, CollectiveFailed<B>>;

    /// # Panics
    /// If it is polled after it has ended, like every future of an `async fn`.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let received = std::task::ready!(Pin::new(self.undelivered()).poll(cx));
        Poll::Ready(self.deliver(received.ok()))
    }
}

impl<B, R> Drop for CollectiveHandle<B, R> {
    fn drop(&mut self) {
        if let Some((commands, give_up)) = self.give_up.take()
            && let Some(commands) = commands.upgrade()
        {
            // Where the engine is gone there is nobody left to tell.
            let _ = commands.send(give_up);
        }
    }
}

/// Carries a collective out in a task of its own, until it has ended or nobody waits for it.
async fn carry_out<B, R, F>(
    (called, calls): (Called, Calls),
    mut parcel: Parcel<B, R>,
    conclude: F,
    waited_for: oneshot::Receiver<()>,
) where
    F: for<'a> FnOnce(Called, &'a Calls, &'a mut B) -> Concluding<'a, R>,
{
    let Some((buffer, _)) = &mut parcel.0 else {
        return;
    };
    let result = tokio::select! {
        biased;
        result = conclude(called, &calls, buffer) => result,
        _ = waited_for => return,
    };
    parcel.send(result);
}

/// A buffer on its way, and where to. It reaches whoever waits even where the runtime is torn down under it.
struct Parcel<B, R>(Option<(B, oneshot::Sender<Outcome<B, R>>)>);

impl<B, R> Parcel<B, R> {
    fn send(mut self, result: Result<R, Error>) {
        self.deliver(result);
    }

    fn deliver(&mut self, result: Result<R, Error>) {
        let Some((buffer, deliver)) = self.0.take() else {
            return;
        };
        let outcome = match result {
            Ok(returned) => Ok(Completed { buffer, returned }),
            Err(error) => Err(CollectiveFailed { buffer, error }),
        };
        // If the handle was dropped, nobody wants the buffer.
        let _ = deliver.send(outcome);
    }
}

impl<B, R> Drop for Parcel<B, R> {
    fn drop(&mut self) {
        self.deliver(Err(Error::RuntimeEnded));
    }
}

impl<B, R> fmt::Debug for CollectiveHandle<B, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CollectiveHandle").finish_non_exhaustive()
    }
}

impl<B, R: fmt::Debug> fmt::Debug for Completed<B, R> {
    /// Without the buffer, which may be long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completed")
            .field("returned", &self.returned)
            .finish_non_exhaustive()
    }
}

impl<B> fmt::Debug for CollectiveFailed<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CollectiveFailed")
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

impl<B> fmt::Display for CollectiveFailed<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<B> std::error::Error for CollectiveFailed<B> {}

impl<B> From<CollectiveFailed<B>> for Error {
    fn from(failed: CollectiveFailed<B>) -> Self {
        failed.error
    }
}
