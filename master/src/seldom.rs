//! Rate limiting of log lines that remote peers can cause, for several tasks: [`pccl_core::seldom`], shared.

use std::sync::{Arc, Mutex, PoisonError};

use pccl_core::seldom;
use tokio::time::Instant;

/// Decides which lines to log, by cause. Clones share their state.
#[derive(Clone, Debug)]
pub(crate) struct Seldom<Cause>(Arc<Mutex<seldom::Seldom<Cause, Instant>>>);

impl<Cause> Default for Seldom<Cause> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<Cause: Ord> Seldom<Cause> {
    /// Counts an event. If a line is due, returns the number of events for which it stands.
    pub(crate) fn another(&self, cause: Cause) -> Option<u64> {
        let mut causes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        causes.another(cause, Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use pccl_core::seldom::SILENCE;
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
