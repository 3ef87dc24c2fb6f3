//! Choosing the order of a ring: the fastest ring that the measurements permit, or a ring around pairs that cannot be
//! connected.
//!
//! Every directed edge of a ring carries the same number of bytes in any order, and a long transfer is as fast as its
//! slowest edge. So a ring is better if its slowest edge, the bottleneck, is faster; among rings with the same
//! bottleneck, if the sum over its edges is smaller: [`Objective::Bottleneck`]. [`Objective::Sum`] is the asymmetric
//! travelling salesman problem, for comparison with published results.
//!
//! | step | source |
//! |---|---|
//! | up to [`EXACT_MAX`] nodes: dynamic programs over sets | Held and Karp 1962 |
//! | bound on the bottleneck: cycle cover, strong connectivity, no cut node | `tour/graph.rs` |
//! | bound on the sum: assignment | Jonker and Volgenant 1987 |
//! | bound on the sum: spanning trees with multipliers | Held and Karp 1970, 1971 |
//! | initial duals: assignments of contracted cycles | Frieze, Galbiati and Maffioli 1982 |
//! | start: the assignment, patched | Karp 1979 |
//! | descent: 3-opt without reversal, neighbour lists, don't-look bits | Kanellakis and Papadimitriou 1980, Bentley 1992 |
//! | kicks: local double bridges | Martin, Otto and Felten 1991 |
//!
//! A [`Search`] has bounds: its result is optimal, or within a known distance of the optimum. It never reads a clock:
//! the same problem, seed and number of steps give the same answer on every machine. A [`Quest`] is a search over
//! peers, [`solve`] is one of a fixed length, and [`avoid`] finds a ring around forbidden pairs.

mod ascent;
mod assignment;
mod avoid;
mod contract;
mod costs;
mod descent;
mod exact;
mod graph;
mod improver;
mod matrix;
mod near;
mod node;
mod order;
mod patch;
mod problem;
mod random;
mod search;
#[cfg(test)]
mod tests;

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

pub use avoid::avoid;
pub use costs::{Costs, CostsError, EdgeCost, NODES_MAX, Objective};
pub use exact::EXACT_MAX;
pub use node::Node;
pub use problem::TourProblem;
pub use search::{Found, Search, SearchResult};

use crate::id::PeerId;
use crate::topology::Ring;
use problem::time_of;

/// A ring of all members of a problem, the first member first, and a bound on the optimum.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Solved {
    /// The ring.
    pub ring: Ring,
    /// Upper bound of the bottleneck of all rings, in bytes per second.
    pub bound: u64,
    /// Whether it is proved that no ring is better.
    pub is_optimal: bool,
}

/// A problem, and the search for its best ring. It is a value, and can be continued at any time.
#[derive(Clone, Debug)]
pub struct Quest {
    members: Vec<PeerId>,
    search: Search,
}

impl Quest {
    /// A search that has not begun. `None` if a member is listed twice, or if there are more than [`NODES_MAX`].
    #[must_use]
    pub fn new(problem: &TourProblem) -> Option<Self> {
        let members = problem.members.clone();
        let distinct: BTreeSet<PeerId> = members.iter().copied().collect();
        if distinct.len() != members.len() {
            return None;
        }
        let seed = members.len() as u64;
        let search = Search::new(problem.costs().ok()?, Objective::Bottleneck, seed);
        Some(Self { members, search })
    }

    /// Takes `steps` more steps, or fewer if the answer is proved before.
    pub fn run(&mut self, steps: u64) {
        self.search.run(steps);
    }

    /// Takes the steps of an immediate answer. For dozens of members it takes a fraction of a second, for a thousand
    /// some seconds.
    pub fn run_first(&mut self) {
        let count = self.members.len() as u64;
        self.run(STEPS_PER_EDGE * count * count + STEPS_PER_NODE * count);
    }

    /// Whether no better ring can be found.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.search.is_over()
    }

    /// The best ring so far. `None` if no ring of usable edges was found.
    #[must_use]
    pub fn solved(&self) -> Option<Solved> {
        match self.search.result() {
            SearchResult::Found(found) => {
                let ring = found.ring.iter();
                let ring = ring.flat_map(|node| self.members.get(node.index()));
                Some(Solved {
                    ring: Ring(ring.copied().collect()),
                    bound: time_of(found.bound.bottleneck).unwrap_or(u64::MAX),
                    is_optimal: found.is_optimal,
                })
            }
            SearchResult::NotFound | SearchResult::Impossible => None,
        }
    }
}

/// Number of steps of [`solve`]: some per edge, and some per node.
const STEPS_PER_EDGE: u64 = 100;
const STEPS_PER_NODE: u64 = 200_000;

/// A good ring of the problem's members, the first member first; see the [module](self) for what is good. Up to
/// [`EXACT_MAX`] members it is the best ring; of several best ones, the first in the current order.
///
/// If no better ring is found, the result is the current order. A single member is a ring; two members need both
/// directions. Dozens of members take a fraction of a second, a thousand some seconds, so do not call it on a thread
/// that serves others.
///
/// Returns `None` if there are no members or more than [`NODES_MAX`], if a member is listed twice, or if no ring of
/// usable edges was found. Keep the current ring then.
#[must_use]
pub fn solve(problem: &TourProblem) -> Option<Solved> {
    let mut quest = Quest::new(problem)?;
    quest.run_first();
    quest.solved()
}
