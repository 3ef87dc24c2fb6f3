//! Several futures in one task, without a task for each: they may borrow.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use pccl_core::transport::BoxFuture;

/// Runs futures side by side. A wake-up polls those that were woken.
pub(crate) struct Together<'a, T> {
    running: Vec<Running<'a, T>>,
    task: Arc<Task>,
}

struct Running<'a, T> {
    future: BoxFuture<'a, T>,
    bell: Arc<Bell>,
    waker: Waker,
}

/// The task that polls them all.
type Task = Mutex<Option<Waker>>;

/// Wakes the task for one of the futures.
struct Bell {
    rung: AtomicBool,
    task: Arc<Task>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            let task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
            let waker = task.clone();
            drop(task);
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

impl<'a, T> Together<'a, T> {
    pub(crate) fn new() -> Self {
        Self {
            running: Vec::new(),
            task: Arc::default(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.running.len()
    }

    pub(crate) fn push(&mut self, future: impl Future<Output = T> + Send + 'a) {
        let bell = Arc::new(Bell {
            rung: AtomicBool::new(true),
            task: Arc::clone(&self.task),
        });
        self.running.push(Running {
            future: Box::pin(future),
            waker: Waker::from(Arc::clone(&bell)),
            bell,
        });
    }

    /// The next result; `None` where nothing runs. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<T> {
        if self.running.is_empty() {
            return None;
        }
        let (index, result) = poll_fn(|cx| self.poll_next(cx)).await;
        drop(self.running.swap_remove(index));
        Some(result)
    }

    fn poll_next(&mut self, cx: &Context<'_>) -> Poll<(usize, T)> {
        // Before any bell is looked at, so that one that rings meanwhile wakes this task.
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if !task
            .as_ref()
            .is_some_and(|known| known.will_wake(cx.waker()))
        {
            *task = Some(cx.waker().clone());
        }
        drop(task);
        for (index, running) in self.running.iter_mut().enumerate() {
            if running.bell.rung.swap(false, Ordering::AcqRel) {
                let mut cx = Context::from_waker(&running.waker);
                if let Poll::Ready(result) = running.future.as_mut().poll(&mut cx) {
                    return Poll::Ready((index, result));
                }
            }
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn who_is_not_woken_is_not_polled_again() {
        let (mut senders, polls) = (Vec::new(), AtomicUsize::new(0));
        let mut together = Together::new();
        for number in 0..100 {
            let (sender, mut receiver) = oneshot::channel();
            senders.push(sender);
            let polls = &polls;
            together.push(async move {
                poll_fn(|cx| {
                    polls.fetch_add(1, Ordering::Relaxed);
                    std::pin::Pin::new(&mut receiver).poll(cx)
                })
                .await
                .map(|()| number)
            });
        }

        let mut ended = Vec::new();
        while let Some(sender) = senders.pop() {
            let next = together.next();
            let tell = async {
                tokio::task::yield_now().await;
                sender.send(())
            };
            let (next, told) = tokio::join!(next, tell);
            told.unwrap();
            ended.push(next.unwrap().unwrap());
        }

        assert_eq!(ended, (0..100).rev().collect::<Vec<_>>());
        assert!(together.next().await.is_none());
        assert_eq!(polls.load(Ordering::Relaxed), 200);
    }
}
