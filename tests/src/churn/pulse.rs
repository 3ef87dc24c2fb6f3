//! How long a run stands still, and how long it takes to go on without somebody.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What the steps of all peers say about time.
#[derive(Debug)]
pub struct Pulse {
    last_step: Instant,
    /// Nobody is asked to do a step.
    is_resting: bool,
    /// The longest time without a step of anybody.
    longest_stall: Duration,
    /// Peers that were killed and that the last step still had.
    missing: BTreeMap<u64, Missing>,
    stopped: usize,
    worst: [Duration; 2],
    recoveries: u64,
}

#[derive(Clone, Copy, Debug)]
struct Missing {
    since: Instant,
    /// Whether another peer was stopped meanwhile, which holds all others up.
    beside_a_stop: bool,
}

impl Pulse {
    /// The run begins.
    #[must_use]
    pub fn begin(now: Instant) -> Self {
        Self {
            last_step: now,
            is_resting: false,
            longest_stall: Duration::ZERO,
            missing: BTreeMap::new(),
            stopped: 0,
            worst: [Duration::ZERO; 2],
            recoveries: 0,
        }
    }

    /// A peer has told of a step of these.
    pub fn stepped(&mut self, contributors: &[u64], now: Instant) {
        self.end_stall(now);
        let (worst, recoveries) = (&mut self.worst, &mut self.recoveries);
        self.missing.retain(|peer, missing| {
            if contributors.contains(peer) {
                return true;
            }
            let [alone, beside] = &mut *worst;
            let worst = if missing.beside_a_stop { beside } else { alone };
            *worst = (*worst).max(now - missing.since);
            *recoveries += 1;
            false
        });
    }

    /// Peers are told to rest: no stall counts.
    pub const fn rest(&mut self) {
        self.is_resting = true;
    }

    /// Peers have rested.
    pub fn wake(&mut self, now: Instant) {
        self.end_stall(now);
        self.is_resting = false;
    }

    fn end_stall(&mut self, now: Instant) {
        if !self.is_resting {
            self.longest_stall = self.longest_stall.max(now - self.last_step);
        }
        self.last_step = now;
    }

    /// A peer of the run was killed.
    pub fn killed(&mut self, peer: u64, now: Instant) {
        let missing = Missing {
            since: now,
            beside_a_stop: self.stopped > 0,
        };
        self.missing.insert(peer, missing);
    }

    /// A process was stopped.
    pub fn stopped(&mut self) {
        self.stopped += 1;
        for missing in self.missing.values_mut() {
            missing.beside_a_stop = true;
        }
    }

    /// A stopped process goes on, or was killed.
    pub const fn continued(&mut self) {
        self.stopped = self.stopped.saturating_sub(1);
    }

    /// Whether a process is stopped.
    #[must_use]
    pub const fn is_beside_a_stop(&self) -> bool {
        self.stopped > 0
    }

    /// The time since the last step of anybody.
    #[must_use]
    pub fn stall(&self, now: Instant) -> Duration {
        now - self.last_step
    }

    /// The longest time without a step of anybody.
    #[must_use]
    pub const fn longest_stall(&self) -> Duration {
        self.longest_stall
    }

    /// Kills after which others have done a step without the peer.
    #[must_use]
    pub const fn recoveries(&self) -> u64 {
        self.recoveries
    }

    /// The longest time from a kill to a step without that peer: while nobody was stopped, and while somebody was.
    #[must_use]
    pub const fn worst(&self) -> [Duration; 2] {
        self.worst
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recovery_lasts_from_the_kill_to_a_step_without_the_peer() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let mut pulse = Pulse::begin(begin);

        pulse.stepped(&[0, 1, 2, 3], at(10));
        pulse.killed(2, at(20));
        pulse.stepped(&[0, 1, 2, 3], at(25));
        pulse.stepped(&[0, 1, 3], at(60));
        pulse.stopped();
        pulse.killed(3, at(70));
        pulse.continued();
        pulse.stepped(&[0, 1], at(570));

        let worst = [40, 500].map(Duration::from_millis);
        assert_eq!((pulse.worst(), pulse.recoveries()), (worst, 2));
        assert_eq!(pulse.longest_stall(), Duration::from_millis(510));
    }

    #[test]
    fn a_rest_is_no_stall() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let mut pulse = Pulse::begin(begin);

        pulse.stepped(&[0, 1], at(10));
        pulse.rest();
        pulse.stepped(&[0, 1], at(900));
        pulse.wake(at(2000));
        pulse.stepped(&[0, 1], at(2020));

        assert_eq!(pulse.longest_stall(), Duration::from_millis(20));
    }
}
