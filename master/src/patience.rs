//! Time limits that exclude the time in which the process stood still.

use std::time::Duration;

use pccl_core::timers::{PAUSE, prolonged};
use tokio::time::{Instant, timeout_at};

/// The deadline of a wait. The rule is that of [`pccl_core::timers`]: if the deadline passed long ago, the process
/// stood still, and gets a pause to read what has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience(Instant);

impl Patience {
    /// Ends this long after the current moment.
    pub(crate) fn of(limit: Duration) -> Self {
        Self(Instant::now() + limit)
    }

    /// Waits for the future. `None` if the deadline passed first.
    pub(crate) async fn wait<F: Future>(&mut self, future: F) -> Option<F::Output> {
        let mut future = std::pin::pin!(future);
        loop {
            if let Ok(output) = timeout_at(self.0, &mut future).await {
                return Some(output);
            }
            self.0 = prolonged(self.0, Instant::now(), PAUSE)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, sleep, sleep_until};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(5);

    #[tokio::test(start_paused = true)]
    async fn patience_ends_at_its_limit() {
        let begin = Instant::now();
        let mut patience = Patience::of(LIMIT);

        assert_eq!(patience.wait(sleep(2 * LIMIT)).await, None);

        assert_eq!(begin.elapsed(), LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn patience_that_ended_while_the_process_stood_still_lasts_for_a_pause() {
        let mut patience = Patience::of(LIMIT);
        advance(10 * LIMIT).await;
        let resumed = Instant::now();

        let answer = patience.wait(sleep_until(resumed + PAUSE / 2)).await;
        assert_eq!(answer, Some(()));

        assert_eq!(patience.wait(sleep(LIMIT)).await, None);
        assert_eq!(resumed.elapsed(), PAUSE);
    }
}
