//! How many bytes a measurement may have sent in all.
//!
//! tokio's `watch` tells this as well, but wakes its receivers in a random order. Lanes that go on in the order in which
//! they wait make a simulated measurement the same each time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The allowance of all lanes of a measurement.
#[derive(Debug)]
pub(super) struct Allowance {
    /// `None`: no more is to be sent.
    bytes: Mutex<Option<u64>>,
    /// There is another one.
    changed: Notify,
}

impl Allowance {
    /// So many bytes to begin with.
    pub(super) fn new(bytes: u64) -> Self {
        Self {
            bytes: Mutex::new(Some(bytes)),
            changed: Notify::new(),
        }
    }

    /// So many bytes in all, from this moment on.
    pub(super) fn raise(&self, bytes: u64) {
        *self.lock() = Some(bytes);
        self.changed.notify_waiters();
    }

    /// Nothing more is to be sent.
    pub(super) fn end(&self) {
        *self.lock() = None;
        self.changed.notify_waiters();
    }

    /// Waits until more is allowed than was sent; `false`: nothing more is to be sent. Cancel-safe.
    pub(super) async fn beyond(&self, sent: &AtomicU64) -> bool {
        loop {
            // Made before the look, so that no change is missed in between.
            let changed = self.changed.notified();
            match *self.lock() {
                None => return false,
                Some(bytes) if sent.load(Ordering::Relaxed) < bytes => return true,
                Some(_) => {}
            }
            changed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<u64>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::task::JoinSet;
    use tokio::task::yield_now;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn lanes_go_on_in_the_order_in_which_they_wait() {
        const LANES: u64 = 32;
        let (allowance, sent) = (Arc::new(Allowance::new(0)), Arc::new(AtomicU64::new(0)));
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut lanes = JoinSet::new();
        for lane in 0..LANES {
            let (allowance, sent, order) = (
                Arc::clone(&allowance),
                Arc::clone(&sent),
                Arc::clone(&order),
            );
            lanes.spawn(async move {
                if allowance.beyond(&sent).await {
                    order.lock().unwrap().push(lane);
                }
            });
        }
        yield_now().await;
        assert!(order.lock().unwrap().is_empty());

        allowance.raise(1);
        lanes.join_all().await;

        assert!(order.lock().unwrap().iter().copied().eq(0..LANES));
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_when_it_ends_is_told() {
        let (allowance, sent) = (Arc::new(Allowance::new(5)), Arc::new(AtomicU64::new(5)));
        let waiting = tokio::spawn({
            let (allowance, sent) = (Arc::clone(&allowance), Arc::clone(&sent));
            async move { allowance.beyond(&sent).await }
        });
        yield_now().await;

        allowance.end();

        assert!(!waiting.await.unwrap());
        assert!(!allowance.beyond(&AtomicU64::new(0)).await);
    }
}
