//! Turning connections away for which there is no room: with the reason, within bounds, and with a line
//! in the log now and then.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pccl_core::transport::Incoming;
use pccl_core::wire::Reply;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::gate::Full;
use crate::greeting::say_and_close;

/// How many may be told at once. More are cut off without a word.
const APOLOGIES_MAX: usize = 64;

/// Least time between two lines in the log.
const SILENCE: Duration = Duration::from_secs(10);

/// Turns connections away. Clones share all bounds.
#[derive(Clone, Debug)]
pub(crate) struct Apologies {
    limit: Duration,
    at_once: Arc<Semaphore>,
    unsaid: Arc<Mutex<Unsaid>>,
}

/// What the log does not know yet.
#[derive(Debug, Default)]
struct Unsaid {
    since: Option<Instant>,
    connections: u64,
}

impl Unsaid {
    /// Another one was turned away; how many the line in the log is to stand for, if one is due.
    fn another(&mut self, now: Instant) -> Option<u64> {
        self.connections += 1;
        if self.since.is_some_and(|since| now < since + SILENCE) {
            return None;
        }
        self.since = Some(now);
        Some(std::mem::take(&mut self.connections))
    }
}

impl Apologies {
    /// Each may take so long.
    pub(crate) fn within(limit: Duration) -> Self {
        Self {
            limit,
            at_once: Arc::new(Semaphore::new(APOLOGIES_MAX)),
            unsaid: Arc::default(),
        }
    }

    /// Tells whoever dialled, and the log, why.
    pub(crate) async fn turn_away(&self, incoming: Incoming, full: Full) {
        self.log(incoming.from, full);
        let Ok(_one) = self.at_once.try_acquire() else {
            return;
        };
        let reply = Reply::NotYet(full.to_string()).encode();
        say_and_close(incoming.lane, &reply, self.limit).await;
    }

    fn log(&self, from: SocketAddr, full: Full) {
        let now = Instant::now();
        let mut unsaid = self.unsaid.lock().unwrap_or_else(PoisonError::into_inner);
        match unsaid.another(now) {
            Some(1) => tracing::warn!("a connection from {from} is turned away: {full}"),
            Some(connections) => tracing::warn!(
                "{connections} connections have been turned away, the latest from {from}: {full}"
            ),
            None => tracing::debug!("a connection from {from} is turned away: {full}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_that_is_turned_away_takes_one_line_of_the_log_at_a_time() {
        let begin = Instant::now();
        let mut unsaid = Unsaid::default();

        let first: Vec<Option<u64>> = (0..5).map(|_| unsaid.another(begin)).collect();
        let later = unsaid.another(begin + SILENCE);

        assert_eq!(first, [Some(1), None, None, None, None]);
        assert_eq!(later, Some(5));
    }
}
