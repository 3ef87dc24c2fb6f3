//! A few futures in one task, without a task for each: they may borrow.

use std::future::poll_fn;
use std::task::Poll;

use pccl_core::transport::BoxFuture;

/// Runs futures side by side. Meant for a handful: each wake-up polls all of them.
pub(crate) struct Together<'a, T> {
    running: Vec<BoxFuture<'a, T>>,
}

impl<'a, T> Together<'a, T> {
    pub(crate) const fn new() -> Self {
        Self {
            running: Vec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.running.len()
    }

    pub(crate) fn push(&mut self, future: impl Future<Output = T> + Send + 'a) {
        self.running.push(Box::pin(future));
    }

    /// The next result; `None` where nothing runs. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<T> {
        if self.running.is_empty() {
            return None;
        }
        let (index, result) = poll_fn(|cx| {
            let finished = self.running.iter_mut().enumerate();
            for (index, future) in finished {
                if let Poll::Ready(result) = future.as_mut().poll(cx) {
                    return Poll::Ready((index, result));
                }
            }
            Poll::Pending
        })
        .await;
        drop(self.running.swap_remove(index));
        Some(result)
    }
}
