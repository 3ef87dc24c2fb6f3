//! Time limits in which the time does not count in which the process stood still.

use std::pin::pin;
use std::time::Duration;

use pccl_core::timers::{PAUSE, prolonged};
use tokio::time::{Instant, timeout_at};

/// Parts of a limit, after each of which is looked whether the process stood still.
const PARTS: u32 = 4;

/// Waits for the future so long; `None`: it took longer. The rule is that of [`pccl_core::timers`]: if a part of the
/// limit is found to have passed long ago, the process stood still, and whoever is to answer may have stood still with
/// it. It gets a pause, and the other parts. So a standstill takes a part and a pause at most. If there were only one
/// part, a standstill that is little longer than the limit could not be told from a limit that has passed.
pub(crate) async fn within<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut end = Instant::now();
    if end.checked_add(limit).is_none() {
        return Some(future.await);
    }
    // Half of a part: limits may be short.
    let pause = PAUSE.min(limit / PARTS / 2);
    for _ in 0..PARTS {
        let mut next = Some(end + limit / PARTS);
        while let Some(limit) = next {
            end = limit;
            if let Ok(output) = timeout_at(end, &mut future).await {
                return Some(output);
            }
            next = prolonged(end, Instant::now(), pause);
        }
    }
    None
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
    async fn a_standstill_takes_less_than_half_of_a_wait_however_long_both_are() {
        for limit in [LIMIT / 10, LIMIT, 10 * LIMIT] {
            for eighths in [2, 3, 4, 9, 80] {
                let standstill = limit / 8 * eighths;
                let resumed = Instant::now() + standstill;
                let mut answered = pin!(within(limit, sleep_until(resumed + limit / 2)));
                let mut unanswered = pin!(within(limit, sleep_until(resumed + 2 * limit)));
                begin_and_stand_still(&mut answered, Duration::ZERO).await;
                begin_and_stand_still(&mut unanswered, standstill).await;

                let ended = tokio::join!(answered, unanswered);
                assert_eq!(ended, (Some(()), None), "{standstill:?} of {limit:?}");
                assert!(resumed.elapsed() <= limit + PAUSE);
            }
        }
    }
}
