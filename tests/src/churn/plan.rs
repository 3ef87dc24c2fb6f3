//! The schedule of faults: who is killed, stopped, cut off or added, and when. Drawn from the seed alone.

use std::collections::BTreeSet;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IteratorRandom;
use rand::{RngExt, SeedableRng};

/// Peers that live from the first to the last step: the first ones. They are stopped for short, and nothing else.
pub const VETERANS: u64 = 2;

/// The number of a peer's process, in the order of their starts. Not its id in the run.
pub type Number = u64;

/// What happens to the peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// A process is started.
    Add(Number),
    /// Its process gets SIGKILL.
    Kill(Number),
    /// Its process gets SIGSTOP, and SIGCONT after this time.
    Stop(Number, Duration),
    /// It leaves between two steps, and connects again.
    Leave(Number),
    /// It leaves while reduces are in flight, and connects again.
    LeaveMidway(Number),
    /// Its connections to other peers are reset.
    CutLanes(Number),
    /// All its connections are reset, also the one to the master.
    CutAll(Number),
}

/// When an act is due, counted from the one before: so many steps of the run later, and then after this time. A run
/// that has told of a step is at the beginning of the next one; the time is what leads into its reduces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct After {
    /// Steps to wait for. 0: whether or not the run has recovered.
    pub steps: u64,
    /// Time to wait after them.
    pub time: Duration,
}

/// The schedule. It has no end; who is alive follows from what it has said.
#[derive(Debug)]
pub struct Plan {
    random: StdRng,
    living: BTreeSet<Number>,
    next: Number,
    max_peers: usize,
}

impl Plan {
    /// The schedule of a run that begins with the veterans. There are never more than so many peers, and never less than
    /// the veterans.
    #[must_use]
    pub fn new(seed: u64, max_peers: usize) -> Self {
        Self {
            random: StdRng::seed_from_u64(seed),
            living: (0..VETERANS).collect(),
            next: VETERANS,
            max_peers,
        }
    }

    /// Who lives after all acts so far. One that is stopped lives.
    #[must_use]
    pub const fn living(&self) -> &BTreeSet<Number> {
        &self.living
    }

    /// The next fault and when it is due.
    pub fn next_fault(&mut self) -> (After, Act) {
        (self.after(), self.act())
    }

    /// What brings the run to so many peers.
    pub fn resize(&mut self, peers: usize) -> Vec<Act> {
        let mut acts = Vec::new();
        while self.living.len() < peers {
            acts.push(self.add());
        }
        while self.living.len() > peers.max(VETERANS as usize) {
            acts.extend(self.victim().map(|victim| self.kill(victim)));
        }
        acts
    }

    fn after(&mut self) -> After {
        let (steps, time) = match self.random.random_range(0..6) {
            0 => (0, Duration::ZERO),
            1 => (0, self.milliseconds(0..300)),
            _ => (self.random.random_range(1..=12), self.milliseconds(0..60)),
        };
        After { steps, time }
    }

    fn act(&mut self) -> Act {
        let may_add = self.living.len() < self.max_peers;
        let Some(victim) = self.victim() else {
            return match may_add {
                true => self.add(),
                false => self.stop_for_short(),
            };
        };
        match self.random.random_range(0..30) {
            0..9 if may_add => self.add(),
            0..17 => self.kill(victim),
            17..21 => self.stop_for_short(),
            21 => Act::Stop(victim, self.milliseconds(6000..8000)),
            22..24 => Act::Leave(victim),
            24..26 => Act::LeaveMidway(victim),
            26..28 => Act::CutLanes(victim),
            _ => Act::CutAll(victim),
        }
    }

    fn add(&mut self) -> Act {
        let number = self.next;
        self.next += 1;
        self.living.insert(number);
        Act::Add(number)
    }

    fn kill(&mut self, victim: Number) -> Act {
        self.living.remove(&victim);
        Act::Kill(victim)
    }

    /// Anybody, and for less time than it takes to be evicted for silence.
    fn stop_for_short(&mut self) -> Act {
        let number = self.living.iter().choose(&mut self.random);
        let number = number.copied().unwrap_or_default();
        Act::Stop(number, self.milliseconds(50..1200))
    }

    fn milliseconds(&mut self, range: std::ops::Range<u64>) -> Duration {
        Duration::from_millis(self.random.random_range(range))
    }

    /// Anybody but the veterans.
    fn victim(&mut self) -> Option<Number> {
        let others = self.living.range(VETERANS..);
        others.choose(&mut self.random).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acts(seed: u64, count: usize) -> Vec<(After, Act)> {
        let mut plan = Plan::new(seed, 6);
        (0..count).map(|_| plan.next_fault()).collect()
    }

    #[test]
    fn a_seed_has_one_schedule() {
        assert_eq!(acts(3, 200), acts(3, 200));
        assert_ne!(acts(3, 200), acts(4, 200));
    }

    #[test]
    fn veterans_are_stopped_for_short_only_and_the_dead_are_left_alone() {
        let mut living: BTreeSet<Number> = (0..VETERANS).collect();
        for (_, act) in acts(5, 2000) {
            let (number, spares_veterans) = match act {
                Act::Add(number) => {
                    assert!(living.insert(number));
                    continue;
                }
                Act::Stop(number, time) => (number, time >= Duration::from_secs(2)),
                Act::Kill(number)
                | Act::Leave(number)
                | Act::LeaveMidway(number)
                | Act::CutLanes(number)
                | Act::CutAll(number) => (number, true),
            };
            assert!(living.contains(&number), "{act:?}");
            assert!(number >= VETERANS || !spares_veterans, "{act:?}");
            if let Act::Kill(number) = act {
                living.remove(&number);
            }
            assert!((2..=6).contains(&living.len()));
        }
    }

    #[test]
    fn every_fault_is_drawn_and_a_run_is_brought_to_the_size_that_is_asked_for() {
        let mut plan = Plan::new(6, 6);
        let kinds = |act: &Act| std::mem::discriminant(act);
        let drawn: Vec<Act> = (0..500).map(|_| plan.next_fault().1).collect();
        let mut different: Vec<_> = Vec::new();
        for act in &drawn {
            if !different.contains(&kinds(act)) {
                different.push(kinds(act));
            }
        }
        assert_eq!(different.len(), 7);
        for size in [4, 2, 6] {
            plan.resize(size);
            assert_eq!(plan.living().len(), size);
        }
    }
}
