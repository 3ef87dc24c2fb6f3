//! What was seen of a run.

use std::collections::{BTreeMap, BTreeSet};

use pccl_core::id::{Round, Seq};

use super::machines::{Down, round_of_wiring, started_by};
use super::network::SeatNo;
use super::time::Micros;

/// Commits, rings, and what should not be.
#[derive(Debug, Default)]
pub struct Log {
    /// Executions that were committed.
    pub commits: BTreeMap<Seq, Commit>,
    /// When the first order of each attempt to connect rings was given.
    pub rings: BTreeMap<Round, Micros>,
    /// Contradictions that the master has found in itself.
    pub contradictions: Vec<String>,
    begun: BTreeMap<Seq, Micros>,
    told: u64,
}

/// One execution of a reduce that is committed.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// When the master started it.
    pub begun: Micros,
    /// When the last one so far was told.
    pub told: Micros,
    /// Who was told.
    pub by: BTreeSet<SeatNo>,
}

impl Log {
    /// The master has sent something.
    pub(super) fn sent(&mut self, now: Micros, message: &Down) {
        if let Some(round) = round_of_wiring(message) {
            self.rings.entry(round).or_insert(now);
        }
        if let Some(seq) = started_by(message) {
            self.begun.entry(seq).or_insert(now);
        }
    }

    /// A user was told that this is committed.
    pub(super) fn committed(&mut self, now: Micros, seq: Seq, seat: SeatNo) {
        let begun = self.begun.get(&seq).copied().unwrap_or(now);
        let commit = self.commits.entry(seq).or_default();
        (commit.begun, commit.told) = (begun, now);
        commit.by.insert(seat);
        self.told += 1;
    }

    /// How many users were told of a commit so far.
    #[must_use]
    pub fn told(&self) -> u64 {
        self.told
    }

    /// Attempts to connect rings from an instant on.
    #[must_use]
    pub fn rings_since(&self, since: Micros) -> usize {
        self.rings.values().filter(|at| **at >= since).count()
    }
}
