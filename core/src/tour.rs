//! Choosing the order of a ring: the fastest that measurements allow, or one that goes around what
//! cannot be connected.
//!
//! Every directed edge of a ring carries the same number of bytes whatever the order, and a long
//! transfer is as fast as its slowest edge. A ring is therefore better if its slowest edge, the
//! bottleneck, is faster; among rings with the same bottleneck, if the sum over its edges is smaller:
//! [`Objective::Bottleneck`]. [`Objective::Sum`] is the asymmetric travelling salesman problem, to
//! compare with what is published about it.
//!
//! | step | where it comes from |
//! |---|---|
//! | up to [`EXACT_MAX`] nodes: dynamic programs over sets | Held and Karp 1962 |
//! | bound on the bottleneck: cycle cover, strong connectivity, no cut node | `tour/graph.rs` |
//! | bound on the sum: assignment | Jonker and Volgenant 1987 |
//! | bound on the sum: spanning trees with multipliers | Held and Karp 1970, 1971 |
//! | where they begin: assignments of contracted cycles | Frieze, Galbiati and Maffioli 1982 |
//! | start: the assignment, patched | Karp 1979 |
//! | descent: 3-opt without reversal, neighbour lists, don't-look bits | Kanellakis and Papadimitriou 1980, Bentley 1992 |
//! | kicks: local double bridges | Martin, Otto and Felten 1991 |
//!
//! A [`Search`] carries its bounds with it: what it found is optimal, or at most so far from it. It
//! never reads a clock: the same problem, seed and number of steps give the same answer everywhere.
//! A [`Quest`] is a search among peers, [`solve`] one of a fixed length, and [`avoid`] finds a ring around forbidden pairs.

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

/// A ring of all members of a problem, the first of them first, and how good it is at least.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Solved {
    /// The ring.
    pub ring: Ring,
    /// No ring has a faster slowest edge, in bytes per second.
    pub bound: u64,
    /// It is proven that no ring is better.
    pub is_optimal: bool,
}

/// A problem, and the search for its best ring: a value that is continued for as long as somebody likes.
#[derive(Clone, Debug)]
pub struct Quest {
    members: Vec<PeerId>,
    search: Search,
}

impl Quest {
    /// A search that has not begun. `None`: a member is named twice, or there are more than [`NODES_MAX`].
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

    /// Takes so many more steps, or fewer if the answer is proven before.
    pub fn run(&mut self, steps: u64) {
        self.search.run(steps);
    }

    /// Takes the steps of an immediate answer: dozens of members take a fraction of a second, a thousand some
    /// seconds.
    pub fn run_first(&mut self) {
        let count = self.members.len() as u64;
        self.run(STEPS_PER_EDGE * count * count + STEPS_PER_NODE * count);
    }

    /// Whether nothing better will be found.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.search.is_over()
    }

    /// The best ring so far. `None`: no ring of usable edges was found.
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

/// How many steps [`solve`] takes: some of them for every edge, some for every node.
const STEPS_PER_EDGE: u64 = 100;
const STEPS_PER_NODE: u64 = 200_000;

/// A good ring of the problem's members, the first of them first; see the module for what is good. Up
/// to [`EXACT_MAX`] members it is the best one, and of several such the one that is first in the
/// present order.
///
/// The present order is kept if nothing better is found. One member is a ring by itself; two need both
/// directions. Dozens of members take a fraction of a second, a thousand some seconds: then call it
/// where nobody waits.
///
/// Returns `None` if there are no members or more than [`NODES_MAX`], if a member is named twice, and
/// if no ring of usable edges was found. Keep the present ring then.
#[must_use]
pub fn solve(problem: &TourProblem) -> Option<Solved> {
    let mut quest = Quest::new(problem)?;
    quest.run_first();
    quest.solved()
}
