//! Time limits in which the time does not count in which the process stood still.

use std::pin::pin;
use std::time::Duration;

use pccl_core::timers::{PAUSE, prolonged};
use tokio::time::{Instant, timeout_at};

/// Waits for the future so long; `None`: it took longer. The rule is that of [`pccl_core::timers`]: where
/// the limit is found to have passed long ago, the process stood still, and whoever is to answer may have
/// stood still with it. It gets a pause.
pub(crate) async fn within<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let Some(mut end) = Instant::now().checked_add(limit) else {
        return Some(future.await);
    };
    loop {
        if let Ok(output) = timeout_at(end, &mut future).await {
            return Some(output);
        }
        end = prolonged(end, Instant::now(), PAUSE)?;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{sleep, sleep_until};

    use crate::simulated::begin_and_stand_still;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(5);

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_at_its_limit() {
        let begin = Instant::now();

        assert_eq!(within(LIMIT, sleep(2 * LIMIT)).await, None);

        assert_eq!(begin.elapsed(), LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_whose_limit_passed_while_the_process_stood_still_lasts_for_a_pause() {
        let resumed = Instant::now() + 10 * LIMIT;
        let mut answered = pin!(within(LIMIT, sleep_until(resumed + PAUSE / 2)));
        let mut unanswered = pin!(within(LIMIT, sleep_until(resumed + LIMIT)));
        begin_and_stand_still(&mut answered, Duration::ZERO).await;
        begin_and_stand_still(&mut unanswered, 10 * LIMIT).await;

        let ended = tokio::join!(answered, unanswered);
        assert_eq!(ended, (Some(()), None));
        assert_eq!(resumed.elapsed(), PAUSE);
    }
}
