//! Iterated local search for the smallest sum, with a rising lower bound.
//!
//! The outline is that of Martin, Otto and Felten, "Large-step Markov chains for the traveling salesman problem"
//! (1991): a random change that the local search cannot undo by a single move, a descent from there, and a step back
//! if the ring became more expensive. One of two changes is their double bridge, which reverses nothing, of three
//! short adjacent stretches, so that the descent has little to check; it suits costs that resemble distances. The
//! other is a chain of two moves along edges to near nodes, which resembles a step of Lin and Kernighan; it suits
//! other costs. Starts are the current ring, a patched assignment (see [`super::patch`]) and, after many changes
//! without an improvement, rings of random near neighbours and disturbed copies of the best ring.

use alloc::vec::Vec;

use super::ascent::Ascent;
use super::assignment::assign;
use super::contract::contracted_duals;
use super::descent::{Descent, Stretches};
use super::matrix::Matrix;
use super::node::{Node, PerNode};
use super::patch::patch;
use super::random::Random;

/// Longest stretch of a random change.
const STRETCH_MAX: usize = 30;

/// Moves along near nodes that make a random change, and how often each is drawn in vain.
const CHAIN: usize = 2;
const DRAWS_MAX: usize = 5;

/// Changes in vain after which another start is tried, per node.
const VAIN_MAX: u64 = 100;

/// Steps of the bound after which the search takes over its duals for the first time.
const REPRICE_FIRST: u64 = 50;

/// A search among the rings of a matrix of at least eight nodes.
#[derive(Clone, Debug)]
pub(super) struct Improver {
    costs: Matrix,
    ascent: Ascent,
    descent: Descent,
    /// The costs of the descent are reduced: they differ by these.
    scale: Scale,
    random: Random,
    best: Vec<Node>,
    total: i64,
    /// Random changes since one helped, and the best total of the present start.
    in_vain: u64,
    start_total: i64,
    starts: u64,
    climbs: u64,
    /// The next time that duals are taken over.
    reprice_at: u64,
    climbed: u64,
    walked: u64,
}

/// What the descent's costs were multiplied by, and what was taken from every ring.
#[derive(Clone, Copy, Debug)]
struct Scale {
    factor: i64,
    taken: i64,
}

impl Improver {
    /// Begins with a ring and with a patched assignment.
    pub(super) fn new(costs: Matrix, ring: &[Node], random: Random) -> Self {
        let assignment = assign(&costs);
        let (duals, contracted) = contracted_duals(&costs, &assignment);
        let ascent = Ascent::new(&costs, &assignment.duals, &duals);
        let (patched, looks) = patch(&costs, assignment.next);
        let (reduced, taken, factor) = ascent.reduced();
        let mut improver = Self {
            descent: Descent::new(reduced, ring.to_vec()),
            ascent,
            scale: Scale { factor, taken },
            random,
            total: costs.ring(ring),
            best: ring.to_vec(),
            in_vain: 0,
            start_total: i64::MAX,
            starts: 0,
            climbs: 0,
            reprice_at: REPRICE_FIRST,
            climbed: 0,
            walked: assignment.looks + contracted + looks,
            costs,
        };
        improver.settle();
        improver.begin(patched);
        improver
    }

    /// The best ring, and its total. A forbidden edge counts more than any ring without one.
    pub(super) fn best(&self) -> (&[Node], i64) {
        (&self.best, self.total)
    }

    /// No ring costs less.
    pub(super) fn bound(&self) -> i64 {
        self.ascent.bound().min(self.total)
    }

    /// Whether the best ring has none.
    pub(super) fn is_allowed(&self) -> bool {
        self.total < self.costs.forbidden()
    }

    pub(super) fn is_over(&self) -> bool {
        self.ascent.bound() >= self.total
    }

    /// How many edges were looked at.
    pub(super) fn spent(&self) -> u64 {
        self.climbed + self.walked
    }

    /// A piece of work: a step of the bound, or a random change and what comes of it.
    pub(super) fn work(&mut self) {
        if !self.ascent.is_over() && 2 * self.climbed <= self.walked {
            self.climb();
        } else if self.in_vain > VAIN_MAX * self.costs.count() as u64 {
            self.start_elsewhere();
        } else {
            self.change();
        }
    }

    fn climb(&mut self) {
        // A ring with a forbidden edge is no goal: it says nothing about those without.
        let goal = match self.is_allowed() {
            true => self.total,
            false => self.ascent.bound() + self.ascent.bound().abs() / 20,
        };
        self.ascent.step(goal);
        self.climbs += 1;
        self.climbed += self.ascent.looks();
        if self.climbs == self.reprice_at || self.ascent.is_over() {
            self.reprice_at *= 3;
            self.reprice();
        }
    }

    /// Goes on with the duals of the best bound: they tell good edges from bad ones.
    fn reprice(&mut self) {
        let (reduced, taken, factor) = self.ascent.reduced();
        self.scale = Scale { factor, taken };
        self.descent.reprice(reduced);
        self.settle();
    }

    /// Goes on from another ring.
    fn begin(&mut self, ring: Vec<Node>) {
        self.descent.start(ring);
        self.starts += 1;
        self.settle();
    }

    /// Descends, and notes what has come of it.
    fn settle(&mut self) {
        self.descent.run();
        self.descent.confirm();
        self.walked += self.descent.take_looks();
        self.start_total = self.descent.total();
        self.in_vain = 0;
        self.note();
    }

    /// Keeps the ring if it is the best so far.
    fn note(&mut self) {
        let total = (self.descent.total() + self.scale.taken) / self.scale.factor;
        if total < self.total {
            self.total = total;
            self.best.clear();
            self.best.extend(self.descent.order().nodes());
            self.walked += self.best.len() as u64;
        }
    }

    /// A random change and a descent; back again if that made the ring dearer.
    fn change(&mut self) {
        let before = self.descent.total();
        let place = self.place_of_change();
        if self.random.below(2) == 0 || !self.chain(place) {
            self.double_bridge(place);
        }
        self.descent.run();
        self.walked += self.descent.take_looks();
        let after = self.descent.total();
        if after > before {
            self.descent.take_back(before);
        } else {
            self.descent.confirm();
        }
        self.in_vain += 1;
        if after < self.start_total {
            (self.start_total, self.in_vain) = (after, 0);
            self.note();
        }
    }

    /// Anywhere; but in a ring with forbidden edges every other time just before one of those.
    fn place_of_change(&mut self) -> usize {
        let order = self.descent.order();
        let place = self.random.below(order.len());
        if self.is_allowed() || self.random.below(2) == 0 {
            return place;
        }
        self.walked += order.len() as u64 / 8;
        let is_forbidden = |at: &usize| {
            let edge = (
                order.at(place + at),
                order.at((place + at + 1) % order.len()),
            );
            self.costs.get(edge.0, edge.1) >= self.costs.forbidden()
        };
        let ahead = (0..order.len() - 1).find(is_forbidden).unwrap_or(0);
        let back = self.random.below(STRETCH_MAX.min(order.len() / 2));
        (place + ahead + order.len() - back) % order.len()
    }

    /// Random moves along near nodes, the next one where the last one closed the ring at any price.
    /// False if no such move was found.
    fn chain(&mut self, place: usize) -> bool {
        let mut node = self.descent.order().at(place);
        for link in 0..CHAIN {
            let draw = |_| self.descent.random_move(node, &mut self.random);
            match (0..DRAWS_MAX).find_map(draw) {
                Some(stretches) => node = self.descent.apply(stretches),
                None => return link > 0,
            }
        }
        true
    }

    /// Three stretches that follow each other come to stand in the opposite order.
    fn double_bridge(&mut self, start: usize) {
        let len = self.descent.order().len();
        let longest = STRETCH_MAX.min((len - 1) / 3);
        let [one, two, three] = [(); 3].map(|()| 1 + self.random.below(longest));
        let middle = self.descent.order().at((start + one) % len);
        self.descent.apply(Stretches {
            start,
            first: one,
            second: two + three,
        });
        self.descent.apply(Stretches {
            start: self.descent.order().place(middle),
            first: two,
            second: three,
        });
    }

    fn start_elsewhere(&mut self) {
        if self.starts.is_multiple_of(2) {
            let ring = self.random_neighbours();
            self.begin(ring);
        } else {
            let changes = 2 + self.best.len() / 10;
            let ring = self.best.clone();
            self.descent.start(ring);
            for _ in 0..changes {
                let place = self.random.below(self.best.len());
                self.double_bridge(place);
            }
            self.starts += 1;
            self.settle();
        }
    }

    /// From a random node on, the nearest node or the one after that, among those that are left.
    fn random_neighbours(&mut self) -> Vec<Node> {
        let count = self.costs.count();
        let mut is_free: PerNode<bool> = Node::all(count).map(|_| true).collect();
        let mut ring = Vec::with_capacity(count);
        let mut next = Some(Node::at(self.random.below(count)));
        while let Some(node) = next {
            is_free.set(node, false);
            ring.push(node);
            let skip = self.random.below(3) / 2;
            let near = self.descent.near(node).iter().copied();
            let mut free = near.filter(|to| is_free.get(*to));
            let first = free.next();
            let chosen = if skip == 1 {
                free.next().or(first)
            } else {
                first
            };
            next = chosen.or_else(|| self.nearest(node, &is_free));
        }
        ring
    }

    fn nearest(&self, node: Node, is_free: &PerNode<bool>) -> Option<Node> {
        let row = self
            .descent
            .costs()
            .row(node)
            .iter()
            .zip(Node::all(self.costs.count()));
        let free = row.filter(|(_, to)| is_free.get(*to));
        free.min().map(|(_, to)| to)
    }
}
