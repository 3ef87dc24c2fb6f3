//! The best ring of few nodes, by dynamic programs over sets of nodes.
//!
//! Held and Karp, "A dynamic programming approach to sequencing problems" (1962): the cost of a path from a node
//! through all of a set and back to the first node depends on nothing else. The programs run backwards, so that the
//! ring can be read forwards, and of equally good rings the first one in the order of its nodes is found.
//!
//! The lexicographic objective takes two programs: one with the maximum for the smallest bottleneck, and one with the
//! sum over the edges that it permits. A single program over pairs would be wrong: a path with the smaller maximum
//! may need an edge that makes the difference meaningless, and then the path with the smaller sum was the better one.

use alloc::vec::Vec;

use super::costs::{Costs, EdgeCost, Objective};
use super::node::Node;

/// Up to this many nodes the best ring is found by dynamic programs.
pub const EXACT_MAX: usize = 18;

/// No ring, or no edge.
const INFINITE: u64 = u64::MAX;

/// The best of all rings, first node first; `None` if every ring has an unreachable edge.
pub(super) fn best(costs: &Costs, objective: Objective) -> Option<Vec<Node>> {
    match costs.count() {
        0 => None,
        1 => Some(alloc::vec![Node(0)]),
        _ => smallest_sum(costs, allowed(costs, objective)?),
    }
}

/// The largest bottleneck term that the best ring may have.
fn allowed(costs: &Costs, objective: Objective) -> Option<u64> {
    let smallest = match objective {
        Objective::Sum => return Some(INFINITE),
        Objective::Bottleneck => Program::run(costs, |edge| edge.bottleneck, u64::max).best(),
    };
    (smallest != INFINITE).then_some(smallest)
}

/// Of the rings with the smallest sum over edges whose bottleneck term is allowed, the first.
fn smallest_sum(costs: &Costs, allowed: u64) -> Option<Vec<Node>> {
    let term = |edge: EdgeCost| match edge.bottleneck <= allowed {
        true => edge.sum,
        false => INFINITE,
    };
    let program = Program::run(costs, term, u64::saturating_add);
    let mut left = program.best();
    if left == INFINITE {
        return None;
    }
    let mut ring = alloc::vec![Node(0)];
    let (mut row, mut rest) = (program.first.as_slice(), program.all());
    while rest != 0 {
        let mut steps = members(rest).zip(program.after(rest)).zip(row);
        let (next, after) = steps.find_map(|((next, after), edge)| {
            let fits = edge.saturating_add(after) == left;
            Some((next.filter(|_| fits)?, after))
        })?;
        ring.push(Node::at(next + 1));
        left = after;
        rest &= !(1 << next);
        row = program.row(next);
    }
    Some(ring)
}

/// A dynamic program. Nodes but the first are known by their bit in a set, and node 1 by bit 0.
struct Program<Join> {
    /// Number of nodes but the first.
    others: usize,
    /// Edges from the first node.
    first: Vec<u64>,
    /// Edges among the others, row by row.
    edges: Vec<u64>,
    /// Edges to the first node.
    back: Vec<u64>,
    /// By set and then by node: the least for a path from the node through the set to the first node.
    paths: Vec<u64>,
    join: Join,
}

/// For each bit its number if it is in the set.
fn members(set: usize) -> impl Iterator<Item = Option<usize>> {
    (0..EXACT_MAX).map(move |bit| (set >> bit & 1 == 1).then_some(bit))
}

impl<Join: Fn(u64, u64) -> u64> Program<Join> {
    fn run(costs: &Costs, term: impl Fn(EdgeCost) -> u64, join: Join) -> Self {
        let others = costs.count() - 1;
        let cost = |from, to| costs.edge(from, to).map_or(INFINITE, &term);
        let rest = || Node::all(costs.count()).skip(1);
        let edges = rest().flat_map(|from| rest().map(move |to| (from, to)));
        let mut program = Self {
            others,
            first: rest().map(|to| cost(Node(0), to)).collect(),
            edges: edges.map(|(from, to)| cost(from, to)).collect(),
            back: rest().map(|from| cost(from, Node(0))).collect(),
            paths: Vec::with_capacity(others << others),
            join,
        };
        program.paths.extend(&program.back);
        for set in 1..=program.all() {
            program.extend(set);
        }
        program
    }

    /// The set of all nodes but the first.
    fn all(&self) -> usize {
        (1 << self.others) - 1
    }

    fn row(&self, from: usize) -> &[u64] {
        let row = from * self.others..(from + 1) * self.others;
        self.edges.get(row).unwrap_or_default()
    }

    /// The least from each node of the set on, through the rest of it; infinite for other nodes.
    fn after(&self, set: usize) -> impl Iterator<Item = u64> {
        members(set).take(self.others).map(move |member| {
            let at = member.map(|bit| (set & !(1 << bit)) * self.others + bit);
            at.and_then(|at| self.paths.get(at).copied())
                .unwrap_or(INFINITE)
        })
    }

    /// The least from every node through the set.
    fn extend(&mut self, set: usize) {
        let mut after = [INFINITE; EXACT_MAX];
        for (slot, least) in after.iter_mut().zip(self.after(set)) {
            *slot = least;
        }
        for from in 0..self.others {
            let is_inside = set >> from & 1 == 1;
            let least = (!is_inside).then(|| self.least(self.row(from), &after));
            self.paths.push(least.unwrap_or(INFINITE));
        }
    }

    fn least(&self, row: &[u64], after: &[u64]) -> u64 {
        let ways = row.iter().zip(after);
        let joined = ways.map(|(edge, after)| (self.join)(*edge, *after));
        joined.min().unwrap_or(INFINITE)
    }

    fn best(&self) -> u64 {
        let after: Vec<u64> = self.after(self.all()).collect();
        self.least(&self.first, &after)
    }
}
