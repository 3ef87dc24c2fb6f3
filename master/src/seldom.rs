//! Lines of the log that anybody can cause: one now and then for each cause, which stands for the others.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Least time between two lines of one cause.
pub(crate) const SILENCE: Duration = Duration::from_secs(10);

/// Who may write a line, by cause. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Seldom<Cause>(Arc<Mutex<BTreeMap<Cause, Unsaid>>>);

impl<Cause> Default for Seldom<Cause> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

/// What the log does not know yet.
#[derive(Debug, Default)]
struct Unsaid {
    since: Option<Instant>,
    times: u64,
}

impl<Cause: Ord> Seldom<Cause> {
    /// It has happened again; how many times the line in the log is to stand for, if one is due.
    pub(crate) fn another(&self, cause: Cause) -> Option<u64> {
        let now = Instant::now();
        let mut causes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let unsaid = causes.entry(cause).or_default();
        unsaid.times += 1;
        if unsaid.since.is_some_and(|since| now < since + SILENCE) {
            return None;
        }
        unsaid.since = Some(now);
        Some(std::mem::take(&mut unsaid.times))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_happens_all_the_time_takes_one_line_of_the_log_at_a_time() {
        let seldom = Seldom::default();

        let first: Vec<Option<u64>> = (0..5).map(|_| seldom.another("rain")).collect();
        let other = seldom.another("snow");
        advance(SILENCE).await;
        let later = seldom.another("rain");

        assert_eq!(first, [Some(1), None, None, None, None]);
        assert_eq!(other, Some(1));
        assert_eq!(later, Some(5));
    }
}
