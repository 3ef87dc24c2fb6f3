//! A square matrix of costs for the heuristics, in which a forbidden edge has a price.

use alloc::vec::Vec;

use super::costs::{Costs, EdgeCost};
use super::node::{Node, PerNode};

/// Costs of all edges, row by row. A forbidden edge costs more than any ring without one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Matrix {
    count: usize,
    cells: Vec<i64>,
    forbidden: i64,
}

impl Matrix {
    /// The sum terms of the edges whose bottleneck term is at most `allowed`.
    pub(super) fn of(costs: &Costs, allowed: u64) -> Self {
        let count = costs.count();
        let term = |edge: &Option<EdgeCost>| {
            let edge = edge.filter(|edge| edge.bottleneck <= allowed)?;
            i64::try_from(edge.sum).ok()
        };
        let terms: Vec<Option<i64>> = costs.edges().iter().map(term).collect();
        let largest = terms.iter().flatten().max().copied().unwrap_or(0);
        let forbidden = (largest + 1) * count as i64;
        let cells = terms.into_iter().map(|term| term.unwrap_or(forbidden));
        Self {
            count,
            cells: cells.collect(),
            forbidden,
        }
    }

    /// Costs row by row.
    pub(super) fn new(count: usize, cells: Vec<i64>, forbidden: i64) -> Self {
        Self {
            count,
            cells,
            forbidden,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The price of a forbidden edge.
    pub(super) fn forbidden(&self) -> i64 {
        self.forbidden
    }

    pub(super) fn get(&self, from: Node, to: Node) -> i64 {
        let at = from.index() * self.count + to.index();
        self.cells.get(at).copied().unwrap_or(self.forbidden)
    }

    pub(super) fn row(&self, from: Node) -> &[i64] {
        let start = from.index() * self.count;
        self.cells
            .get(start..start + self.count)
            .unwrap_or_default()
    }

    pub(super) fn ring(&self, ring: &[Node]) -> i64 {
        let edges = ring.iter().zip(ring.iter().cycle().skip(1));
        edges.map(|(from, to)| self.get(*from, *to)).sum()
    }

    /// The length of the shortest path in place of each edge, by Floyd and Warshall's algorithm. The
    /// diagonal stays forbidden.
    pub(super) fn with_shortest_paths(&self) -> Self {
        let mut paths = self.clone();
        for middle in Node::all(self.count) {
            let onward = paths.row(middle).to_vec();
            for row in paths.cells.chunks_mut(self.count) {
                let there = row.get(middle.index()).copied().unwrap_or(self.forbidden);
                for (cell, onward) in row.iter_mut().zip(&onward) {
                    *cell = (*cell).min(there + onward);
                }
            }
        }
        for node in Node::all(self.count) {
            let diagonal = paths.cells.get_mut(node.index() * (self.count + 1));
            diagonal.into_iter().for_each(|cell| *cell = self.forbidden);
        }
        paths
    }

    /// Rows become columns.
    pub(super) fn transposed(&self) -> Self {
        let nodes = || Node::all(self.count);
        let cells = nodes().flat_map(|to| nodes().map(move |from| self.get(from, to)));
        Self {
            count: self.count,
            cells: cells.collect(),
            forbidden: self.forbidden,
        }
    }

    /// Every cost times `factor`.
    pub(super) fn scaled(&self, factor: i64) -> Self {
        Self {
            count: self.count,
            cells: self.cells.iter().map(|cell| cell * factor).collect(),
            forbidden: self.forbidden * factor,
        }
    }

    /// Every cost less the duals of its ends. All rings become cheaper by the same amount, the sum of
    /// the duals, and the edges of a good ring are those that cost next to nothing.
    pub(super) fn reduced(&self, duals: &Duals) -> Self {
        let mut reduced = self.clone();
        let rows = reduced.cells.chunks_mut(self.count.max(1));
        for (row, out) in rows.zip(duals.out.as_slice()) {
            for (cell, into) in row.iter_mut().zip(duals.into.as_slice()) {
                *cell -= out + into;
            }
        }
        reduced
    }
}

/// Multipliers of the two constraints of each node: that one edge leaves it, and that one enters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Duals {
    pub(super) out: PerNode<i64>,
    pub(super) into: PerNode<i64>,
}

impl Duals {
    pub(super) fn new(count: usize) -> Self {
        Self {
            out: PerNode::new(count),
            into: PerNode::new(count),
        }
    }

    pub(super) fn sum(&self) -> i64 {
        let both = [&self.out, &self.into];
        both.iter().flat_map(|side| side.as_slice()).sum()
    }

    pub(super) fn scaled(&self, factor: i64) -> Self {
        self.mapped(|dual| dual * factor)
    }

    pub(super) fn divided(&self, factor: i64) -> Self {
        self.mapped(|dual| dual.div_euclid(factor))
    }

    fn mapped(&self, change: impl Fn(i64) -> i64) -> Self {
        let side = |side: &PerNode<i64>| side.as_slice().iter().map(|dual| change(*dual)).collect();
        Self {
            out: side(&self.out),
            into: side(&self.into),
        }
    }
}
