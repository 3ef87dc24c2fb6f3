//! An all-reduce that runs beside the caller and owns its buffer until it has ended.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::calls::Calls;
use crate::collective::{Called, Memory};
use crate::element::{Element, bytes_of_mut};
use crate::engine::Command;
use crate::error::Error;
use crate::reduce::{CollectiveReport, Reduce};
use crate::runtime::Runtime;

/// An all-reduce in the background, made by
/// [`start_all_reduce`](crate::Communicator::start_all_reduce).
///
/// It is a future. [`wait`](Self::wait) blocks until the reduce has ended, [`wait_timeout`](Self::wait_timeout) blocks
/// for a limited time, and [`try_wait`](Self::try_wait) does not block. Each returns the buffer, with the
/// result or unchanged. Dropping the handle gives the reduce up: the reduce is aborted on every peer, unless
/// it was committed already, and the buffer is dropped.
#[must_use = "dropping the handle gives the reduce up"]
pub struct AllReduceHandle<B> {
    /// `None`: it was delivered.
    outcome: Option<oneshot::Receiver<Outcome<B>>>,
    /// Its end is what tells the reduce that nobody waits for it.
    _waiting: oneshot::Sender<()>,
    /// What tells the engine at once, so that the tag is free for the next call.
    give_up: Option<(mpsc::WeakUnboundedSender<Command>, Command)>,
    runtime: Runtime,
}

type Outcome<B> = Result<Reduced<B>, ReduceFailed<B>>;

/// A buffer with the result, and what it took.
#[derive(Clone, Debug, PartialEq)]
pub struct Reduced<B> {
    /// The result.
    pub buffer: B,
    /// What the reduce did.
    pub report: CollectiveReport,
}

/// A buffer as it was before the reduce, and why there is no result.
#[derive(Clone, PartialEq)]
pub struct ReduceFailed<B> {
    /// The contribution, unchanged.
    pub buffer: B,
    /// Why.
    pub error: Error,
}

impl<B: Send + 'static> AllReduceHandle<B> {
    pub(crate) fn start<T: Element>(
        calls: &Calls,
        runtime: &Runtime,
        mut buffer: B,
        reduce: Reduce,
    ) -> Self
    where
        B: AsMut<[T]>,
    {
        let (deliver, outcome) = oneshot::channel();
        let (waiting, waited_for) = oneshot::channel();
        let called = Called::new(calls, reduce, T::TYPE, buffer.as_mut().len());
        let parcel = Parcel(Some((buffer, deliver)));
        let mut give_up = None;
        match called {
            Err(error) => parcel.send(Err(error)),
            Ok(called) => {
                give_up = Some((calls.commands.downgrade(), called.give_up()));
                let running = carry_out(called, calls.clone(), reduce, parcel, waited_for);
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

    /// Waits for the end of the reduce.
    ///
    /// Blocks the thread until the reduce has ended. There is no time limit here: the master ends a reduce that makes
    /// no progress.
    ///
    /// # Errors
    /// As [`all_reduce`](crate::Communicator::all_reduce); the buffer comes back unchanged.
    ///
    /// # Panics
    /// Inside an async task, as every blocking call: await the handle there.
    #[track_caller]
    pub fn wait(self) -> Result<Reduced<B>, ReduceFailed<B>> {
        let runtime = self.runtime.clone();
        runtime.block_on("the handle", self)
    }

    /// Whether the reduce has ended. If so, no wait blocks.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        let outcome = self.outcome.as_ref();
        outcome.is_none_or(|outcome| !outcome.is_empty())
    }

    /// The buffer, if the reduce has ended. `None`: the reduce still runs; call again later. Does not block.
    ///
    /// # Panics
    /// If the buffer was given back before.
    pub fn try_wait(&mut self) -> Option<Result<Reduced<B>, ReduceFailed<B>>> {
        let received = match self.undelivered().try_recv() {
            Ok(outcome) => Some(outcome),
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Closed) => None,
        };
        Some(self.deliver(received))
    }

    /// As [`wait`](Self::wait), for this long at most. `None`: the reduce runs, and the handle may be waited for again.
    /// Dropping it gives the reduce up.
    ///
    /// # Panics
    /// Inside an async task, as every blocking call: use a time limit of the task's runtime there. If the buffer was
    /// given back before.
    #[track_caller]
    pub fn wait_timeout(&mut self, limit: Duration) -> Option<Result<Reduced<B>, ReduceFailed<B>>> {
        let runtime = self.runtime.clone();
        let waiting = async { timeout(limit, self).await.ok() };
        runtime.block_on("the handle", waiting)
    }
}

impl<B> AllReduceHandle<B> {
    fn undelivered(&mut self) -> &mut oneshot::Receiver<Outcome<B>> {
        let outcome = self.outcome.as_mut();
        outcome.expect("an AllReduceHandle was polled after it had given its buffer back")
    }

    /// What the caller gets. A parcel is delivered even when it is dropped.
    fn deliver(&mut self, received: Option<Outcome<B>>) -> Outcome<B> {
        (self.outcome, self.give_up) = (None, None);
        received.expect("a parcel is delivered even when it is dropped")
    }
}

impl<B> Future for AllReduceHandle<B> {
    type Output = Result<Reduced<B>, ReduceFailed<B>>;

    /// # Panics
    /// If it is polled after it has ended, like every future of an `async fn`.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let received = std::task::ready!(Pin::new(self.undelivered()).poll(cx));
        Poll::Ready(self.deliver(received.ok()))
    }
}

impl<B> Drop for AllReduceHandle<B> {
    fn drop(&mut self) {
        if let Some((commands, give_up)) = self.give_up.take()
            && let Some(commands) = commands.upgrade()
        {
            // Where the engine is gone there is nobody left to tell.
            let _ = commands.send(give_up);
        }
    }
}

/// Runs a reduce in a task of its own, until it has ended or nobody waits for it.
async fn carry_out<T: Element, B: AsMut<[T]>>(
    called: Called,
    calls: Calls,
    reduce: Reduce,
    mut parcel: Parcel<B>,
    waited_for: oneshot::Receiver<()>,
) {
    let Some((buffer, _)) = &mut parcel.0 else {
        return;
    };
    let memory = Memory::of_reduce(&calls, bytes_of_mut(buffer.as_mut()), &reduce);
    let result = tokio::select! {
        biased;
        result = called.conclude(memory) => result,
        _ = waited_for => return,
    };
    parcel.send(result);
}

/// A buffer on its way, and where to. It reaches whoever waits even where the runtime is torn down under it.
struct Parcel<B>(Option<(B, oneshot::Sender<Outcome<B>>)>);

impl<B> Parcel<B> {
    fn send(mut self, result: Result<CollectiveReport, Error>) {
        self.deliver(result);
    }

    fn deliver(&mut self, result: Result<CollectiveReport, Error>) {
        let Some((buffer, deliver)) = self.0.take() else {
            return;
        };
        let outcome = match result {
            Ok(report) => Ok(Reduced { buffer, report }),
            Err(error) => Err(ReduceFailed { buffer, error }),
        };
        // If the handle was dropped, nobody wants the buffer.
        let _ = deliver.send(outcome);
    }
}

impl<B> Drop for Parcel<B> {
    fn drop(&mut self) {
        self.deliver(Err(Error::RuntimeEnded));
    }
}

impl<B> fmt::Debug for AllReduceHandle<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AllReduceHandle").finish_non_exhaustive()
    }
}

impl<B> fmt::Debug for ReduceFailed<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReduceFailed")
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

impl<B> fmt::Display for ReduceFailed<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<B> std::error::Error for ReduceFailed<B> {}

impl<B> From<ReduceFailed<B>> for Error {
    fn from(failed: ReduceFailed<B>) -> Self {
        failed.error
    }
}
