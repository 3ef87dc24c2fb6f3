//! A lower bound on the sum, from relaxed rings and multipliers.
//!
//! Held and Karp, "The traveling-salesman problem and minimum spanning trees" (1970 and 1971), on
//! the directed graph: a ring without its first node is a path, and a path is a spanning tree. So no
//! ring costs less than the smallest spanning tree of the other nodes, in which the cheaper direction
//! of each edge counts, plus the cheapest edge out of the first node and the cheapest into it. Duals
//! of the two constraints that the tree ignores, one edge out of and one into each node, change what
//! all rings cost by the same amount. They start as those of the assignment, so that the bound is at
//! least as good as that of the assignment, and then follow the subgradient: an edge out of a node
//! that the tree uses too often becomes dearer. Step lengths: Held, Wolfe and Crowder, "Validation of
//! subgradient optimization" (1974).

use alloc::vec::Vec;

use super::matrix::{Duals, Matrix};
use super::node::{Node, PerNode};

/// Costs are multiplied by this where numbers are small enough, for duals between integers.
const FACTOR_MAX: i64 = 1 << 10;

/// Bound on everything that is added up here.
const SUM_MAX: i64 = 1 << 61;

/// The first step is this part of what would close the gap, if the subgradient led straight there.
const STRIDE_FIRST: f64 = 1.0;

/// It is over when steps have become this short.
const STRIDE_LAST: f64 = 0.0001;

/// Steps without progress after which they become shorter, and by how much.
const PATIENCE: u32 = 50;
const SHORTER: f64 = 0.85;

/// Lower bounds that improve step by step.
#[derive(Clone, Debug)]
pub(super) struct Ascent {
    factor: i64,
    /// Scaled costs, by the edge's start and by its end.
    out: Matrix,
    into: Matrix,
    duals: Duals,
    /// The duals of the best bound, and that bound, scaled.
    best: Duals,
    bound: i64,
    stride: f64,
    without_progress: u32,
    /// The direction of the last step, per node, for edges out of it and into it.
    last: PerNode<(i64, i64)>,
}

/// A relaxed ring.
struct Relaxed {
    cost: i64,
    /// How many edges leave and enter each node.
    degrees: PerNode<(i64, i64)>,
}

impl Ascent {
    /// Begins with the bound of the cheapest assignment, whose duals these are, and goes on from the
    /// duals that make the best bound: those, or others.
    pub(super) fn new(costs: &Matrix, assigned: &Duals, others: &[Duals]) -> Self {
        let room = SUM_MAX / costs.forbidden().max(1) / costs.count().max(1) as i64;
        let factor = room.clamp(1, FACTOR_MAX);
        let out = costs.scaled(factor);
        let duals = assigned.scaled(factor);
        let mut ascent = Self {
            factor,
            into: out.transposed(),
            out,
            bound: duals.sum(),
            best: duals.clone(),
            duals,
            stride: STRIDE_FIRST,
            without_progress: 0,
            last: PerNode::new(costs.count()),
        };
        ascent.weigh();
        for duals in others {
            ascent.duals = duals.scaled(factor);
            ascent.weigh();
        }
        ascent.duals.clone_from(&ascent.best);
        ascent
    }

    /// What the present duals prove.
    fn weigh(&mut self) -> (Relaxed, i64) {
        let relaxed = self.relax();
        let bound = relaxed.cost + self.duals.sum();
        if bound > self.bound {
            (self.bound, self.without_progress) = (bound, 0);
            self.best.clone_from(&self.duals);
        } else {
            self.without_progress += 1;
        }
        (relaxed, bound)
    }

    /// No ring costs less.
    pub(super) fn bound(&self) -> i64 {
        self.bound.div_euclid(self.factor) + i64::from(self.bound.rem_euclid(self.factor) > 0)
    }

    /// The duals of the best bound, rounded.
    pub(super) fn duals(&self) -> Duals {
        self.best.divided(self.factor)
    }

    /// Whether steps have become too short to be worth it.
    pub(super) fn is_over(&self) -> bool {
        self.stride < STRIDE_LAST
    }

    /// The costs by the duals of the best bound: how much more a ring with the edge costs.
    pub(super) fn reduced(&self) -> (Matrix, i64, i64) {
        (self.out.reduced(&self.best), self.best.sum(), self.factor)
    }

    /// How many edges a step looks at.
    pub(super) fn looks(&self) -> u64 {
        (self.out.count() * self.out.count()) as u64
    }

    /// One step. `goal` is the cost of a ring, or a guess of it.
    pub(super) fn step(&mut self, goal: i64) {
        let (relaxed, bound) = self.weigh();
        if self.without_progress >= PATIENCE {
            self.stride *= SHORTER;
            self.without_progress = 0;
        }
        let gap = goal.saturating_mul(self.factor) - bound;
        self.follow(&relaxed.degrees, gap.max(self.factor));
    }

    /// Moves the duals along the subgradient and, in part, along the last step.
    fn follow(&mut self, degrees: &PerNode<(i64, i64)>, gap: i64) {
        let square = |(out, into): &(i64, i64)| (1 - out).pow(2) + (1 - into).pow(2);
        let norm: i64 = degrees.as_slice().iter().map(square).sum();
        let length = self.stride * gap as f64 / norm.max(1) as f64 / 10.0;
        // Duals this small cannot make a sum overflow.
        let limit = SUM_MAX / 8 / self.out.count().max(1) as i64;
        let moved = |dual: i64, direction: i64| {
            (dual + (length * direction as f64) as i64).clamp(-limit, limit)
        };
        let last = self.last.as_mut_slice().iter_mut();
        let duals = self.duals.out.as_mut_slice().iter_mut();
        let duals = duals.zip(self.duals.into.as_mut_slice());
        for (((out, into), last), degrees) in duals.zip(last).zip(degrees.as_slice()) {
            let now = (1 - degrees.0, 1 - degrees.1);
            *out = moved(*out, 7 * now.0 + 3 * last.0);
            *into = moved(*into, 7 * now.1 + 3 * last.1);
            *last = now;
        }
    }

    /// The cheapest relaxed ring by the present duals.
    fn relax(&self) -> Relaxed {
        let mut relaxed = self.tree();
        let first = Node(0);
        let ends = |cells: &[i64], near: i64, far: &PerNode<i64>| {
            let far = far.as_slice().iter();
            let edges = cells.iter().zip(far).map(|(cost, far)| cost - near - far);
            let cheapest = edges.enumerate().skip(1).min_by_key(|(_, cost)| *cost);
            cheapest.map_or((first, 0), |(node, cost)| (Node::at(node), cost))
        };
        let (out, into) = (&self.duals.out, &self.duals.into);
        let (to, leaving) = ends(self.out.row(first), out.get(first), into);
        let (from, entering) = ends(self.into.row(first), into.get(first), out);
        relaxed.cost += leaving + entering;
        relaxed.degrees.set(first, (1, 1));
        relaxed.degrees.update(to, |(out, into)| (out, into + 1));
        relaxed.degrees.update(from, |(out, into)| (out + 1, into));
        relaxed
    }

    /// The smallest spanning tree of all nodes but the first, by Prim's algorithm.
    fn tree(&self) -> Relaxed {
        let count = self.out.count();
        let mut relaxed = Relaxed {
            cost: 0,
            degrees: PerNode::new(count),
        };
        let mut open: Vec<Open> = Node::all(count).skip(2).map(Open::new).collect();
        let mut joined = Node(1);
        while let Some(at) = self.reach(joined, &mut open) {
            let nearest = open.swap_remove(at);
            relaxed.cost += nearest.cost;
            let (from, to) = match nearest.leads_out {
                true => (nearest.node, nearest.inside),
                false => (nearest.inside, nearest.node),
            };
            relaxed.degrees.update(from, |(out, into)| (out + 1, into));
            relaxed.degrees.update(to, |(out, into)| (out, into + 1));
            joined = nearest.node;
        }
        relaxed
    }

    /// Takes the edges of a node that has joined the tree into account. Returns the position of the
    /// open node that is nearest to the tree.
    fn reach(&self, joined: Node, open: &mut [Open]) -> Option<usize> {
        let (away, back) = (self.out.row(joined), self.into.row(joined));
        let (out, into) = (self.duals.out.get(joined), self.duals.into.get(joined));
        let (outs, intos) = (self.duals.out.as_slice(), self.duals.into.as_slice());
        let mut nearest = (i64::MAX, None);
        for (at, node) in open.iter_mut().enumerate() {
            let index = node.node.index();
            let known = (away.get(index), back.get(index));
            let duals = (outs.get(index), intos.get(index));
            if let ((Some(away), Some(back)), (Some(far_out), Some(far_into))) = (known, duals) {
                let away = away - out - far_into;
                let back = back - into - far_out;
                let cost = away.min(back);
                if cost < node.cost {
                    (node.cost, node.inside, node.leads_out) = (cost, joined, back < away);
                }
            }
            if node.cost < nearest.0 {
                nearest = (node.cost, Some(at));
            }
        }
        nearest.1
    }
}

/// A node that the tree does not reach yet, and its cheapest edge to or from the tree.
struct Open {
    node: Node,
    cost: i64,
    inside: Node,
    /// The edge leads from the node into the tree.
    leads_out: bool,
}

impl Open {
    fn new(node: Node) -> Self {
        Self {
            node,
            cost: i64::MAX,
            inside: Node(0),
            leads_out: false,
        }
    }
}
