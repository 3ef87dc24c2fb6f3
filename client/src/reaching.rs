//! Reaching the master: attempts that follow one another while it starts, is busy, or cannot be reached.

use std::time::Duration;

use pccl_core::transport::{LaneError, Transport};
use pccl_core::wire::HandshakeError;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::time::{Instant, sleep};

use crate::backoff::Backoff;
use crate::destination::{Destination, Reached};
use crate::error::Error;
use crate::patience;

/// How long a master may be out of reach before a warning says so, and between two warnings.
const WARN_EVERY: Duration = Duration::from_secs(5);

/// How long to try.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reaching {
    /// How long one attempt may take.
    pub(crate) answer: Duration,
    /// No attempt begins later.
    pub(crate) patience: Duration,
}

impl Reaching {
    /// Opens the control lane. Tries again after failures that a later attempt may not meet.
    pub(crate) async fn reach(
        self,
        destination: &Destination,
        transport: &dyn Transport,
        seed: u64,
    ) -> Result<Reached, Error> {
        let since = Instant::now();
        let mut random = StdRng::seed_from_u64(seed);
        let mut backoff = Backoff::new();
        let mut told = Told::default();
        for attempt in 0.. {
            let reaching = destination.reach(transport, attempt);
            let reason = match patience::within(self.answer, reaching).await {
                Some(Ok(reached)) => return Ok(reached),
                Some(Err(reason)) => reason,
                None => LaneError::TimedOut.into(),
            };
            let pause = backoff.uneven_pause(&mut random);
            let elapsed = since.elapsed();
            if !may_pass(&reason) || elapsed.saturating_add(pause) > self.patience {
                let master = destination.to_string();
                return Err(Error::MasterUnreachable { master, reason });
            }
            told.failed(destination, &reason, elapsed, self.patience);
            sleep(pause).await;
        }
        // The attempts are not counted to the end in any lifetime.
        Err(Error::RuntimeEnded)
    }
}

/// Whether a later attempt may succeed. A connection that fails may find a master that has just started; an
/// answer that was understood stays the same, except *not yet*.
pub(crate) fn may_pass(reason: &HandshakeError) -> bool {
    match reason {
        HandshakeError::NotYet(_) => true,
        HandshakeError::Preamble(_) | HandshakeError::Reply(_) | HandshakeError::Refused(_) => {
            false
        }
        HandshakeError::Lane(error) => matches!(
            error,
            LaneError::Refused
                | LaneError::TimedOut
                | LaneError::Unreachable
                | LaneError::Reset
                | LaneError::Closed
                | LaneError::NameNotResolved
        ),
    }
}

/// What the log says of failures: a line at the first one, and warnings now and then.
#[derive(Debug, Default)]
struct Told {
    /// When the last line was written, counted from the first attempt.
    last: Option<Duration>,
}

impl Told {
    fn failed(
        &mut self,
        master: &Destination,
        reason: &HandshakeError,
        elapsed: Duration,
        patience: Duration,
    ) {
        match self.last {
            None => tracing::info!(
                "the master at {master} cannot be reached yet: {reason}; trying again for up to {patience:?}"
            ),
            Some(last) if elapsed >= last + WARN_EVERY => tracing::warn!(
                "the master at {master} could not be reached for {} s: {reason}; trying again for up to {patience:?} in all",
                elapsed.as_secs()
            ),
            Some(_) => {
                tracing::debug!("the master at {master} cannot be reached yet: {reason}");
                return;
            }
        }
        self.last = Some(elapsed);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use pccl_core::timers::PAUSE;

    use crate::simulated::{Late, begin_and_stand_still};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_master_that_does_not_answer_is_given_up_in_time() {
        let answer = Duration::from_secs(5);
        let begun = Instant::now();
        let reaching = Reaching {
            answer,
            patience: Duration::ZERO,
        };
        let master = Destination::of("master.example:48148");
        let transport = Late::at(begun + 100 * answer);

        let heard = reaching.reach(&master, &transport, 1).await.err();

        let master = "master.example:48148".to_owned();
        let reason = LaneError::TimedOut.into();
        assert_eq!(heard, Some(Error::MasterUnreachable { master, reason }));
        assert_eq!(begun.elapsed(), answer);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_stood_still_while_it_connects_hears_the_masters_answer() {
        let answer = Duration::from_secs(5);
        let resumed = Instant::now() + 2 * answer;
        let reaching = Reaching {
            answer,
            patience: Duration::ZERO,
        };
        let master = Destination::of("master.example:48148");
        let transport = Late::at(resumed + PAUSE / 2);
        let mut reached = pin!(reaching.reach(&master, &transport, 1));

        begin_and_stand_still(&mut reached, 2 * answer).await;

        let heard = reached.await.err();
        let master = "master.example:48148".to_owned();
        let reason = LaneError::Refused.into();
        assert_eq!(heard, Some(Error::MasterUnreachable { master, reason }));
    }
}
