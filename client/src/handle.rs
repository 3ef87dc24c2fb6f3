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
pub struct AllReduceHandle<T> {
    /// `None`: it was delivered.
    outcome: Option<oneshot::Receiver<Outcome<T>>>,
    /// Its end is what tells the reduce that nobody waits for it.
    _waiting: oneshot::Sender<()>,
    /// What tells the engine at once, so that the tag is free for the next call.
    give_up: Option<(mpsc::WeakUnboundedSender<Command>, Command)>,
    runtime: Runtime,
}

type Outcome<T> = Result<Reduced<T>, ReduceFailed<T>>;

/// A buffer with the result, and what it took.
#[derive(Clone, Debug, PartialEq)]
pub struct Reduced<T> {
    /// The result.
    pub buffer: Vec<T>,
    /// What the reduce did.
    pub report: CollectiveReport,
}

/// A buffer as it was before the reduce, and why there is no result.
#[derive(Clone, PartialEq)]
pub struct ReduceFailed<T> {
    /// The contribution, unchanged.
    pub buffer: Vec<T>,
    /// Why.
    pub error: Error,
}

impl<T: Element> AllReduceHandle<T> {
    pub(crate) fn start(calls: &Calls, runtime: &Runtime, buffer: Vec<T>, reduce: Reduce) -> Self {
        let (deliver, outcome) = oneshot::channel();
        let (waiting, waited_for) = oneshot::channel();
        let mut parcel = Parcel {
            buffer,
            deliver: Some(deliver),
        };
        let mut give_up = None;
        match Called::new(calls, reduce, T::TYPE, parcel.buffer.len()) {
            Err(error) => parcel.send(Err(error)),
            Ok(called) => {
                give_up = Some((calls.commands.downgrade(), called.give_up()));
                let calls = calls.clone();
                runtime.handle().spawn(async move {
                    let result = tokio::select! {
                        biased;
                        result = called.conclude(parcel.memory(&calls)) => result,
                        _ = waited_for => return,
                    };
                    parcel.send(result);
                });
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
    pub fn wait(self) -> Result<Reduced<T>, ReduceFailed<T>> {
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
    pub fn try_wait(&mut self) -> Option<Result<Reduced<T>, ReduceFailed<T>>> {
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
    pub fn wait_timeout(&mut self, limit: Duration) -> Option<Result<Reduced<T>, ReduceFailed<T>>> {
        let runtime = self.runtime.clone();
        let waiting = async { timeout(limit, self).await.ok() };
        runtime.block_on("the handle", waiting)
    }
}

impl<T> AllReduceHandle<T> {
    fn undelivered(&mut self) -> &mut oneshot::Receiver<Outcome<T>> {
        let outcome = self.outcome.as_mut();
        outcome.expect("an AllReduceHandle was polled after it had given its buffer back")
    }

    /// What the caller gets. A parcel is delivered even when it is dropped.
    fn deliver(&mut self, received: Option<Outcome<T>>) -> Outcome<T> {
        (self.outcome, self.give_up) = (None, None);
        received.unwrap_or_else(|| {
            Err(ReduceFailed {
                buffer: Vec::new(),
                error: Error::RuntimeEnded,
            })
        })
    }
}

impl<T> Future for AllReduceHandle<T> {
    type Output = Result<Reduced<T>, ReduceFailed<T>>;

    /// # Panics
    /// If it is polled after it has ended, like every future of an `async fn`.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let received = std::task::ready!(Pin::new(self.undelivered()).poll(cx));
        Poll::Ready(self.deliver(received.ok()))
    }
}

impl<T> Drop for AllReduceHandle<T> {
    fn drop(&mut self) {
        if let Some((commands, give_up)) = self.give_up.take()
            && let Some(commands) = commands.upgrade()
        {
            // Where the engine is gone there is nobody left to tell.
            let _ = commands.send(give_up);
        }
    }
}

/// A buffer on its way. It reaches whoever waits even where the runtime is torn down under it.
struct Parcel<T> {
    buffer: Vec<T>,
    deliver: Option<oneshot::Sender<Outcome<T>>>,
}

impl<T: Element> Parcel<T> {
    fn memory<'a>(&'a mut self, calls: &Calls) -> Memory<'a> {
        Memory::in_place(calls, bytes_of_mut(&mut self.buffer))
    }
}

impl<T> Parcel<T> {
    fn send(&mut self, result: Result<CollectiveReport, Error>) {
        let buffer = std::mem::take(&mut self.buffer);
        let outcome = match result {
            Ok(report) => Ok(Reduced { buffer, report }),
            Err(error) => Err(ReduceFailed { buffer, error }),
        };
        if let Some(deliver) = self.deliver.take() {
            // The handle was dropped: nobody wants the buffer.
            let _ = deliver.send(outcome);
        }
    }
}

impl<T> Drop for Parcel<T> {
    fn drop(&mut self) {
        if self.deliver.is_some() {
            self.send(Err(Error::RuntimeEnded));
        }
    }
}

impl<T> fmt::Debug for AllReduceHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AllReduceHandle").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for ReduceFailed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReduceFailed")
            .field("elements", &self.buffer.len())
            .field("error", &self.error)
            .finish()
    }
}

impl<T> fmt::Display for ReduceFailed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T> std::error::Error for ReduceFailed<T> {}

impl<T> From<ReduceFailed<T>> for Error {
    fn from(failed: ReduceFailed<T>) -> Self {
        failed.error
    }
}
