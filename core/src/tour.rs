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
//! [`solve`] is a search of a fixed length, and [`avoid`] finds a ring around forbidden pairs.

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
mod random;
mod search;
#[cfg(test)]
mod tests;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

pub use avoid::avoid;
pub use costs::{Costs, CostsError, EdgeCost, NODES_MAX, Objective};
pub use exact::EXACT_MAX;
pub use node::Node;
pub use search::{Found, Search, SearchResult};

use crate::id::PeerId;
use crate::topology::Ring;

/// What [`solve`] is asked: who has to be on a ring, and how fast its edges may be.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct TourProblem {
    /// Who must be on the ring, in its present order.
    pub members: Vec<PeerId>,
    /// What was measured, sender first, in kbit/s. An edge that is missing cannot be used.
    pub kbit_per_s: BTreeMap<(PeerId, PeerId), u64>,
}

impl TourProblem {
    /// The problem as costs, with a node for each member in their order: both terms of an edge are
    /// 1/bandwidth. An edge of zero kbit/s cannot be used, like one that is missing.
    ///
    /// Terms of the sum lose their last bits if a sum could overflow otherwise: a unit is then still
    /// less than a part in 2³⁵ of what the slowest edge takes, and less than a part in 2⁵⁸ up to
    /// [`EXACT_MAX`] members.
    pub fn costs(&self) -> Result<Costs, CostsError> {
        let time = |kbit: &u64| u64::MAX.checked_div(*kbit);
        let slowest = self.kbit_per_s.values().filter_map(time).max();
        let limit = Costs::sum_limit(self.members.len());
        let excess = slowest.unwrap_or(0) / limit;
        let shift = u64::BITS - excess.leading_zeros();
        Costs::new(self.members.len(), |from, to| {
            let member = |node: Node| self.members.get(node.index()).copied();
            let kbit = self.kbit_per_s.get(&(member(from)?, member(to)?))?;
            let bottleneck = time(kbit)?;
            let sum = bottleneck >> shift;
            Some(EdgeCost { bottleneck, sum })
        })
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
pub fn solve(problem: &TourProblem) -> Option<Ring> {
    let members = &problem.members;
    let distinct: BTreeSet<PeerId> = members.iter().copied().collect();
    if distinct.len() != members.len() {
        return None;
    }
    let count = members.len() as u64;
    let mut search = Search::new(problem.costs().ok()?, Objective::Bottleneck, count);
    search.run(STEPS_PER_EDGE * count * count + STEPS_PER_NODE * count);
    match search.result() {
        SearchResult::Found(found) => {
            let ring = found.ring.iter().map(|node| members.get(node.index()));
            Some(Ring(ring.flatten().copied().collect()))
        }
        SearchResult::NotFound | SearchResult::Impossible => None,
    }
}
