//! Where the time of a collective goes.

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

/// The time of a collective, by what it was spent on. Displayed: start, transfer and commit, as `105.2ms + 104.8ms +
/// 100.1ms`.
///
/// A long `start` or `commit` with a short `transfer` means that peers wait for each other or for the master; a long
/// `transfer` means that the paths are slow, or a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Phases {
    /// From the call until the collective started here. It starts when the last peer has made the call, after a round
    /// trip to the master, or at once if it is a small one that is called again.
    pub start: Duration,
    /// From then until this peer's part was complete: it had sent and received everything. If it started at once, this
    /// includes the time until others made the call.
    pub transfer: Duration,
    /// From then until the verdict. It is made when all peers have made the call and the last peer's part is complete,
    /// and known here after a round trip to the master.
    pub commit: Duration,
}

impl Phases {
    /// The sum: of an attempt, the time from its call to its end.
    #[must_use]
    pub const fn total(&self) -> Duration {
        let until_complete = self.start.saturating_add(self.transfer);
        until_complete.saturating_add(self.commit)
    }
}

impl fmt::Display for Phases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            start,
            transfer,
            commit,
        } = self;
        write!(f, "{start:.1?} + {transfer:.1?} + {commit:.1?}")
    }
}

/// The moments of an attempt between its call and its end.
#[derive(Clone, Copy)]
pub(crate) struct Moments {
    pub(crate) called: Instant,
    /// The call, until it has started.
    pub(crate) started: Instant,
    /// The start, until this peer's part is complete.
    pub(crate) complete: Instant,
}

impl Moments {
    pub(crate) fn of_call() -> Self {
        let called = Instant::now();
        Self {
            called,
            started: called,
            complete: called,
        }
    }

    pub(crate) fn start(&mut self) {
        self.started = Instant::now();
        self.complete = self.started;
    }

    pub(crate) fn complete(&mut self) {
        self.complete = Instant::now();
    }

    /// The phases of an attempt that ends.
    pub(crate) fn end(&self) -> Phases {
        Phases {
            start: self.started.duration_since(self.called),
            transfer: self.complete.duration_since(self.started),
            commit: self.complete.elapsed(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_phases_of_a_call_begin_where_the_one_before_ends() {
        let ms = Duration::from_millis;
        let mut moments = Moments::of_call();
        tokio::time::advance(ms(3)).await;
        moments.start();
        tokio::time::advance(ms(50)).await;
        moments.complete();
        tokio::time::advance(ms(700)).await;
        let phases = moments.end();

        assert_eq!(phases.start, ms(3));
        assert_eq!(phases.transfer, ms(50));
        assert_eq!(phases.commit, ms(700));
        assert_eq!(phases.total(), ms(753));
        assert_eq!(phases.to_string(), "3.0ms + 50.0ms + 700.0ms");
    }
}
