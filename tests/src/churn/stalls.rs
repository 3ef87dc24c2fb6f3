//! How long a run waits for its next master: from the kill of one to what peers hear of the next.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use super::finding::Finding;
use super::plan::Number;
use crate::talk::Nanos;
use crate::times::quantile;

/// The longest stall that 99 of 100 may have, beyond the time in which there is no master.
pub const BEYOND_RESTART_MAX_MS: f64 = 2000.0;

/// What is done to a peer may hold the others up for this time and more: what comes so soon after it is not the
/// master's alone.
const AFTERMATH: Nanos = 1_000_000_000;

/// Peers that wait for a commit after a kill of their master.
#[derive(Clone, Debug, Default)]
pub struct Stalls {
    open: Vec<Gone>,
    kills: u64,
    restarts: Vec<Nanos>,
    stalls: Vec<Stall>,
    /// When something was done to a peer the last time.
    disturbed: Option<Nanos>,
}

/// A master that was killed.
#[derive(Clone, Debug)]
struct Gone {
    since: Nanos,
    /// When the next one listened.
    until: Option<Nanos>,
    /// Peers that have heard of no commit since.
    waiting: BTreeSet<Number>,
    /// Whether something was done to a peer as well.
    is_disturbed: bool,
}

/// How long one peer waited.
#[derive(Clone, Copy, Debug)]
struct Stall {
    total: Nanos,
    /// Without the time in which there was no master.
    beyond: Nanos,
    is_disturbed: bool,
}

/// Times of one kind, in milliseconds. Zero if there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Times {
    /// How many.
    pub count: usize,
    /// Half of them are not longer.
    pub median: f64,
    /// 99 of 100 are not longer.
    pub p99: f64,
    /// The longest.
    pub worst: f64,
}

/// What became of a run whose masters were killed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct MasterKills {
    /// Masters that were killed.
    pub kills: u64,
    /// From a kill to the next master that listens.
    pub restart_ms: Times,
    /// From a kill to the first commit that a peer hears of the next master: one time per kill and peer.
    pub stall_ms: Times,
    /// The same, without the time in which there was no master.
    pub beyond_restart_ms: Times,
    /// Like `stall_ms`, if something was done to a peer shortly before or meanwhile. The others do not have these.
    pub stall_beside_a_fault_ms: Times,
}

impl MasterKills {
    /// The failure that this is, if it is one. Only where nothing was done to the peers.
    #[must_use]
    pub fn finding(&self) -> Option<Finding> {
        let p99_ms = self.beyond_restart_ms.p99;
        (p99_ms > BEYOND_RESTART_MAX_MS).then_some(Finding::SlowReturn { p99_ms })
    }
}

impl fmt::Display for MasterKills {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "masters: {} killed; back after {}",
            self.kills, self.restart_ms
        )?;
        writeln!(
            f,
            "stalls of peers: {}, {}; beyond the restart {}",
            self.stall_ms.count, self.stall_ms, self.beyond_restart_ms
        )?;
        write!(
            f,
            "stalls beside a fault of a peer: {}, {}",
            self.stall_beside_a_fault_ms.count, self.stall_beside_a_fault_ms
        )
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "median {:.0} ms, p99 {:.0} ms, worst {:.0} ms",
            self.median, self.p99, self.worst
        )
    }
}

impl Stalls {
    /// Something is done to a peer that may hold others up.
    pub fn disturbed(&mut self, at: Nanos) {
        self.disturbed = Some(at);
        for gone in &mut self.open {
            gone.is_disturbed = true;
        }
    }

    /// The master was killed while these peers were in the run.
    pub fn killed(&mut self, at: Nanos, peers: impl IntoIterator<Item = Number>) {
        self.kills += 1;
        let is_recent = |disturbed| at.saturating_sub(disturbed) < AFTERMATH;
        self.open.push(Gone {
            since: at,
            until: None,
            is_disturbed: self.disturbed.is_some_and(is_recent),
            waiting: peers.into_iter().collect(),
        });
    }

    /// The next master listens.
    pub fn listens(&mut self, at: Nanos) {
        for gone in self.open.iter_mut().filter(|gone| gone.until.is_none()) {
            gone.until = Some(at);
            self.restarts.push(at.saturating_sub(gone.since));
        }
    }

    /// A peer has heard of a commit. What it heard before the next master listened was said by the one before.
    pub fn committed(&mut self, number: Number, at: Nanos) {
        for gone in &mut self.open {
            if let Some(until) = gone.until
                && at > until
                && gone.waiting.remove(&number)
            {
                self.stalls.push(Stall {
                    total: at.saturating_sub(gone.since),
                    beyond: at - until,
                    is_disturbed: gone.is_disturbed,
                });
            }
        }
        self.close();
    }

    /// A peer is in the run no longer.
    pub fn gone(&mut self, number: Number) {
        for gone in &mut self.open {
            gone.waiting.remove(&number);
        }
        self.close();
    }

    /// Whether a master listens, and nobody waits for its first commit.
    #[must_use]
    pub const fn are_over(&self) -> bool {
        self.open.is_empty()
    }

    /// Masters that were killed.
    #[must_use]
    pub const fn kills(&self) -> u64 {
        self.kills
    }

    /// What there is to tell.
    #[must_use]
    pub fn report(&self) -> MasterKills {
        let alone = self.stalls.iter().filter(|stall| !stall.is_disturbed);
        let beside = self.stalls.iter().filter(|stall| stall.is_disturbed);
        MasterKills {
            kills: self.kills,
            restart_ms: times(self.restarts.iter().copied()),
            stall_ms: times(alone.clone().map(|stall| stall.total)),
            beyond_restart_ms: times(alone.map(|stall| stall.beyond)),
            stall_beside_a_fault_ms: times(beside.map(|stall| stall.total)),
        }
    }

    fn close(&mut self) {
        self.open
            .retain(|gone| gone.until.is_none() || !gone.waiting.is_empty());
    }
}

fn times(all: impl Iterator<Item = Nanos> + Clone) -> Times {
    let at = |share| quantile(all.clone(), share) as f64 / 1e6;
    Times {
        count: all.clone().count(),
        median: at(0.5),
        p99: at(0.99),
        worst: at(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    #[test]
    fn a_stall_lasts_from_the_kill_to_a_commit_of_the_next_master() {
        let mut stalls = Stalls::default();
        stalls.killed(100 * MS, [0, 1]);
        stalls.committed(0, 101 * MS);
        stalls.listens(150 * MS);
        stalls.committed(0, 149 * MS);
        stalls.committed(0, 180 * MS);
        assert!(!stalls.are_over());
        stalls.committed(1, 250 * MS);
        stalls.committed(1, 900 * MS);

        assert!(stalls.are_over());
        let report = stalls.report();
        assert_eq!((report.kills, report.stall_ms.count), (1, 2));
        assert!((report.restart_ms.worst - 50.0).abs() < 1e-9);
        assert!((report.stall_ms.worst - 150.0).abs() < 1e-9);
        assert!((report.beyond_restart_ms.worst - 100.0).abs() < 1e-9);
    }

    #[test]
    fn a_peer_that_waits_through_two_masters_counts_for_both_kills() {
        let mut stalls = Stalls::default();
        stalls.killed(100 * MS, [0]);
        stalls.listens(110 * MS);
        stalls.killed(200 * MS, [0]);
        stalls.listens(210 * MS);
        stalls.committed(0, 300 * MS);

        let times = stalls.report().stall_ms;
        assert_eq!(times.count, 2);
        assert!((times.worst - 200.0).abs() < 1e-9);
    }

    #[test]
    fn a_stall_beside_a_fault_of_a_peer_is_counted_apart() {
        let (mut before, mut meanwhile, mut long_ago) =
            (Stalls::default(), Stalls::default(), Stalls::default());
        before.disturbed(9500 * MS);
        long_ago.disturbed(8000 * MS);
        for (stalls, alone) in [(&mut before, 0), (&mut meanwhile, 0), (&mut long_ago, 1)] {
            let is_meanwhile = stalls.disturbed.is_none();
            stalls.killed(10_000 * MS, [0]);
            if is_meanwhile {
                stalls.disturbed(10_005 * MS);
            }
            stalls.listens(10_010 * MS);
            stalls.committed(0, 10_020 * MS);
            let report = stalls.report();
            assert_eq!(report.stall_ms.count, alone);
            assert_eq!(report.stall_beside_a_fault_ms.count, 1 - alone);
        }
    }

    #[test]
    fn nobody_waits_for_a_peer_that_is_gone_but_a_master_is_waited_for() {
        let mut stalls = Stalls::default();
        stalls.killed(100 * MS, [0]);
        stalls.gone(0);
        assert!(!stalls.are_over());
        stalls.listens(110 * MS);
        stalls.gone(0);
        assert!(stalls.are_over());
        assert_eq!(stalls.report().stall_ms, Times::default());
    }
}
