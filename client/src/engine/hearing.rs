//! When the master was heard, and so how long a silence of it means that it is gone.
//!
//! The peer machine counts the master as silent if none of its messages has come for a while. A long message on a slow
//! link, or a network that loses packets, would look the same; what arrives here tells them apart.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use pccl_core::rhythm::Rhythm;
use pccl_core::transport::{Lane, LaneError, LaneRx};
use tokio::time::Instant;

/// Longer than any run.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// When the master was heard. Clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Hearing(Arc<Mutex<Heard>>);

#[derive(Debug)]
struct Heard {
    rhythm: Rhythm<Instant>,
    /// When this peer spoke first, until the answer.
    spoke: Option<Instant>,
}

impl Hearing {
    /// Of a master that is spoken to at this moment for the first time.
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self(Arc::new(Mutex::new(Heard {
            rhythm: Rhythm::new(now),
            spoke: Some(now),
        })))
    }

    /// The same lane, on which every arrival is noted.
    pub(super) fn note(&self, lane: Lane) -> Lane {
        let rx = Box::new(Noted {
            rx: lane.rx,
            hearing: self.clone(),
        });
        Lane { rx, ..lane }
    }

    /// When the master is given up, if nothing arrives until then and the limit of the run is `silence`.
    pub(super) fn patience_until(&self, silence: Duration) -> Instant {
        let heard = self.lock();
        heard.rhythm.last() + heard.rhythm.limit(silence).min(FOREVER)
    }

    /// When another connection is looked for, if nothing arrives until then: at half of the time after which the master
    /// is given up, because by then it may have given this peer up. `silence` is enough, however irregularly it was
    /// heard.
    pub(super) fn doubted_from(&self, silence: Duration) -> Instant {
        let heard = self.lock();
        let doubted = heard.rhythm.limit(silence) / 2;
        heard.rhythm.last() + doubted.min(silence).min(FOREVER)
    }

    fn beat(&self) {
        let now = Instant::now();
        let mut heard = self.lock();
        heard.rhythm.heard(now);
        if let Some(spoke) = heard.spoke.take() {
            heard.rhythm.answered_after(now - spoke);
        }
    }

    /// Nothing that holds the lock can panic.
    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Noted {
    rx: Box<dyn LaneRx>,
    hearing: Hearing,
}

impl LaneRx for Noted {
    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<Result<usize, LaneError>> {
        let received = self.rx.poll_recv(cx, into);
        if matches!(received, Poll::Ready(Ok(1..))) {
            self.hearing.beat();
        }
        received
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const SILENCE: Duration = Duration::from_secs(2);

    #[tokio::test(start_paused = true)]
    async fn a_master_that_is_heard_regularly_is_given_up_at_the_limit_of_the_run() {
        let hearing = Hearing::new();
        hearing.beat();
        for _ in 0..10 {
            advance(SILENCE / 5).await;
            hearing.beat();
        }

        assert_eq!(hearing.patience_until(SILENCE), Instant::now() + SILENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn another_connection_is_looked_for_long_before_the_master_is_given_up() {
        let hearing = Hearing::new();
        hearing.beat();
        assert_eq!(hearing.doubted_from(SILENCE), Instant::now() + SILENCE / 2);

        advance(SILENCE / 2).await;
        hearing.beat();
        let late = SILENCE * 3 / 4;
        assert_eq!(hearing.doubted_from(SILENCE), Instant::now() + late);

        advance(2 * SILENCE).await;
        hearing.beat();
        assert_eq!(hearing.doubted_from(SILENCE), Instant::now() + SILENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_master_that_is_heard_irregularly_or_from_far_is_given_more_time() {
        let hearing = Hearing::new();
        advance(SILENCE / 10).await;
        hearing.beat();
        let far = SILENCE + 4 * SILENCE / 10;
        assert_eq!(hearing.patience_until(SILENCE), Instant::now() + far);

        advance(SILENCE).await;
        hearing.beat();

        assert_eq!(
            hearing.patience_until(SILENCE),
            Instant::now() + 3 * SILENCE
        );
    }
}
