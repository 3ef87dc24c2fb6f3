//! An all-reduce that runs beside the caller and owns its buffer until it has ended.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::{mpsc, oneshot};

use crate::calls::Calls;
use crate::collective::{Called, Memory};
use crate::element::{Element, bytes_of_mut};
use crate::engine::Command;
use crate::error::Error;
use crate::reduce::{CollectiveReport, Reduce};
use crate::runtime::Runtime;

/// An all-reduce that runs on its own, made by
/// [`start_all_reduce`](crate::Communicator::start_all_reduce).
///
/// It is a future; [`wait`](Self::wait) is its blocking twin. Either gives the buffer back, with the
/// result or as it was. Dropping the handle gives the reduce up: it is aborted on every peer, unless
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
    /// Blocks the thread. Only what the operating system may take is unbounded: a reduce ends with
    /// its verdict, and the master ends what makes no progress.
    ///
    /// # Errors
    /// As [`all_reduce`](crate::Communicator::all_reduce); the buffer comes back unchanged.
    ///
    /// # Panics
    /// Inside an async task, as every blocking call: await the handle there.
    pub fn wait(self) -> Result<Reduced<T>, ReduceFailed<T>> {
        let runtime = self.runtime.clone();
        runtime.block_on(self)
    }
}

impl<T> Future for AllReduceHandle<T> {
    type Output = Result<Reduced<T>, ReduceFailed<T>>;

    /// # Panics
    /// If it is polled after it has ended, like every future of an `async fn`.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = self.outcome.as_mut();
        let outcome =
            outcome.expect("an AllReduceHandle was polled after it had given its buffer back");
        let outcome = std::task::ready!(Pin::new(outcome).poll(cx));
        (self.outcome, self.give_up) = (None, None);
        // A parcel is delivered even when it is dropped.
        Poll::Ready(outcome.unwrap_or_else(|_| {
            Err(ReduceFailed {
                buffer: Vec::new(),
                error: Error::RuntimeEnded,
            })
        }))
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
