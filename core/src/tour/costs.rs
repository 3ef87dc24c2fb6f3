//! The costs of a ring problem: two numbers per directed edge, and the cost of a ring.

use alloc::vec::Vec;

use thiserror::Error;

use super::exact::EXACT_MAX;
use super::node::Node;

/// Maximum number of nodes of a problem.
pub const NODES_MAX: usize = 1024;

/// The cost of a directed edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EdgeCost {
    /// The time of the edge per byte. The cost of a ring has the largest one of its edges. `u64::MAX` stands for no
    /// edge, so that value is taken as the one below it.
    pub bottleneck: u64,
    /// The latency of the edge. The cost of a ring has the sum over its edges.
    pub sum: u64,
}

/// What makes a ring better than another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Objective {
    /// The smallest sum: the asymmetric travelling salesman problem.
    Sum,
    /// The smallest bottleneck; among the rings with that bottleneck, the smallest sum.
    Bottleneck,
}

/// Why there is no such problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum CostsError {
    /// The matrix would be too large for this many nodes.
    #[error("{0} nodes, of at most {NODES_MAX}")]
    TooManyNodes(usize),
    /// Sums of costs could overflow.
    #[error("an edge adds {cost} to the sum, of at most {limit} with so many nodes")]
    TooLarge {
        /// The largest cost of an edge.
        cost: u64,
        /// See [`Costs::sum_limit`].
        limit: u64,
    },
}

/// The costs of all directed edges between a number of nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Costs {
    count: usize,
    /// Row by row, sender first. `None` for an unreachable edge.
    edges: Vec<Option<EdgeCost>>,
}

impl Costs {
    /// A problem of `count` nodes. `edge` returns the cost of the edge from its first to its second node, or `None`
    /// if the second cannot be reached from the first.
    pub fn new(
        count: usize,
        mut edge: impl FnMut(Node, Node) -> Option<EdgeCost>,
    ) -> Result<Self, CostsError> {
        if count > NODES_MAX {
            return Err(CostsError::TooManyNodes(count));
        }
        let mut edges = Vec::with_capacity(count * count);
        let mut known = |from, to| {
            let mut cost = edge(from, to)?;
            cost.bottleneck = cost.bottleneck.min(u64::MAX - 1);
            Some(cost)
        };
        for from in Node::all(count) {
            let row = Node::all(count).map(|to| (from != to).then(|| known(from, to)).flatten());
            edges.extend(row);
        }
        let largest = edges.iter().flatten().map(|edge| edge.sum).max();
        let (cost, limit) = (largest.unwrap_or(0), Self::sum_limit(count));
        if cost > limit {
            return Err(CostsError::TooLarge { cost, limit });
        }
        Ok(Self { count, edges })
    }

    /// Maximum sum term of an edge in a problem of `count` nodes: no total overflows, even with a penalty per
    /// forbidden edge that is larger than any sum.
    #[must_use]
    pub fn sum_limit(count: usize) -> u64 {
        let count = count.max(1) as u64;
        match count <= EXACT_MAX as u64 {
            true => (u64::MAX - 1) / count,
            false => (1 << 56) / (count * count),
        }
    }

    /// Number of nodes.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The cost of the edge. `None` if it is unreachable, or not an edge between two nodes.
    #[must_use]
    pub fn edge(&self, from: Node, to: Node) -> Option<EdgeCost> {
        let is_inside = from.index() < self.count && to.index() < self.count;
        let at = is_inside.then(|| from.index() * self.count + to.index())?;
        self.edges.get(at).copied().flatten()
    }

    /// The cost of the ring. `None` if one of its edges is unreachable. A ring of one node has no edges.
    #[must_use]
    pub fn ring(&self, ring: &[Node]) -> Option<EdgeCost> {
        if ring.len() < 2 {
            return Some(EdgeCost::default());
        }
        let mut total = EdgeCost::default();
        for (from, to) in ring.iter().zip(ring.iter().cycle().skip(1)) {
            let edge = self.edge(*from, *to)?;
            total.bottleneck = total.bottleneck.max(edge.bottleneck);
            total.sum = total.sum.saturating_add(edge.sum);
        }
        Some(total)
    }

    /// The edges row by row, sender first.
    pub(super) fn edges(&self) -> &[Option<EdgeCost>] {
        &self.edges
    }

    /// The different bottleneck terms, the smallest first.
    pub(super) fn bottlenecks(&self) -> Vec<u64> {
        let reachable = self.edges.iter().flatten();
        let mut terms: Vec<u64> = reachable.map(|edge| edge.bottleneck).collect();
        terms.sort_unstable();
        terms.dedup();
        terms
    }
}
