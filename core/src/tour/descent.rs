//! Local search: moves of stretches of a ring, as long as they reduce its cost.
//!
//! The move is the pure 3-opt move, the only exchange of three edges that reverses nothing: two consecutive stretches
//! are swapped. Or-opt is the case of a short stretch. The choice of moves is that of Kanellakis and Papadimitriou,
//! "Local search for the asymmetric traveling salesman problem" (1980): each further edge comes from a list of
//! neighbours, and the gain so far is positive. For every move that helps, this holds from one of its edges on, so
//! starting from all nodes finds every such move. A node is not checked again until one of its edges has changed
//! (Bentley's don't-look bits), implemented as a queue of the other nodes; few moves are missed by that.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::matrix::Matrix;
use super::near::Near;
use super::node::{Node, PerNode};
use super::order::Order;
use super::random::Random;

/// A ring and what it takes to improve it.
#[derive(Clone, Debug)]
pub(super) struct Descent {
    costs: Matrix,
    near: Near,
    order: Order,
    total: i64,
    queue: VecDeque<Node>,
    is_queued: PerNode<bool>,
    /// How many edges were looked at or moved.
    looks: u64,
}

/// Two stretches that follow each other, by the place where the first begins and their lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretches {
    pub(super) start: usize,
    pub(super) first: usize,
    pub(super) second: usize,
}

/// A move that helps, and how much.
#[derive(Clone, Copy)]
struct Move {
    gain: i64,
    stretches: Stretches,
}

impl Descent {
    /// Costs are reduced costs; see [`Near`].
    pub(super) fn new(costs: Matrix, ring: Vec<Node>) -> Self {
        let near = Near::new(&costs);
        let mut descent = Self {
            near,
            total: 0,
            order: Order::new(Vec::new()),
            queue: VecDeque::new(),
            is_queued: PerNode::new(costs.count()),
            looks: (costs.count() * costs.count()) as u64,
            costs,
        };
        descent.start(ring);
        descent
    }

    /// Goes on with other costs, from the same ring.
    pub(super) fn reprice(&mut self, costs: Matrix) {
        let ring = self.order.nodes().to_vec();
        let looks = self.looks;
        *self = Self::new(costs, ring);
        self.looks += looks;
    }

    /// Goes on from another ring.
    pub(super) fn start(&mut self, ring: Vec<Node>) {
        self.total = self.costs.ring(&ring);
        self.looks += ring.len() as u64;
        ring.iter().for_each(|node| self.enqueue(*node));
        self.order = Order::new(ring);
    }

    pub(super) fn costs(&self) -> &Matrix {
        &self.costs
    }

    pub(super) fn near(&self, node: Node) -> &[Node] {
        self.near.of(node)
    }

    pub(super) fn order(&self) -> &Order {
        &self.order
    }

    pub(super) fn total(&self) -> i64 {
        self.total
    }

    /// How many edges were looked at since the last time that this was asked.
    pub(super) fn take_looks(&mut self) -> u64 {
        core::mem::take(&mut self.looks)
    }

    /// Keeps what was done up to here.
    pub(super) fn confirm(&mut self) {
        self.order.confirm();
    }

    /// Back to the ring of the last confirmation, which cost this.
    pub(super) fn take_back(&mut self, total: i64) {
        self.order.take_back();
        self.total = total;
    }

    /// Moves stretches until none of the moves that are looked at helps.
    pub(super) fn run(&mut self) {
        while let Some(node) = self.queue.pop_front() {
            self.is_queued.set(node, false);
            while let Some(found) = self.best_move(node) {
                self.apply(found.stretches);
            }
        }
    }

    fn enqueue(&mut self, node: Node) {
        if !self.is_queued.get(node) {
            self.is_queued.set(node, true);
            self.queue.push_back(node);
        }
    }

    /// The best move that replaces the edge out of the node.
    fn best_move(&mut self, node: Node) -> Option<Move> {
        let start = self.place_after(node);
        let old = self.costs.get(node, self.order.at(start));
        let mut best = None;
        let mut looks = 1;
        for to in self.near.of(node) {
            let gain = old - self.costs.get(node, *to);
            looks += 1;
            if gain <= 0 {
                break;
            }
            let second = self.order.steps(start, *to);
            if second > 0 {
                self.close(start, second, gain, &mut best, &mut looks);
            }
        }
        self.looks += looks;
        best
    }

    /// The best ways to complete a move whose second stretch begins so many steps after its first.
    fn close(
        &self,
        start: usize,
        second: usize,
        gain: i64,
        best: &mut Option<Move>,
        looks: &mut u64,
    ) {
        let last = self.order.at(start + second - 1);
        let gain = gain + self.costs.get(last, self.order.at(start + second));
        let head = self.order.at(start);
        for to in self.near.of(last) {
            let gain = gain - self.costs.get(last, *to);
            *looks += 1;
            if gain <= 0 {
                break;
            }
            let end = self.order.steps(start, *to);
            if end > second {
                let cut = self.order.before(*to);
                let gain = gain + self.costs.get(cut, *to) - self.costs.get(cut, head);
                if gain > best.map_or(0, |known| known.gain) {
                    let (first, second) = (second, end - second);
                    let stretches = Stretches {
                        start,
                        first,
                        second,
                    };
                    *best = Some(Move { gain, stretches });
                }
            }
        }
    }

    /// The place of the node behind this one.
    fn place_after(&self, node: Node) -> usize {
        match self.order.place(node) + 1 {
            place if place == self.order.len() => 0,
            place => place,
        }
    }

    /// A move with two edges to near nodes, one of them in place of the edge out of this node, whether
    /// it helps or not. The third edge, which closes the ring, is what it happens to be. `None` if the
    /// nodes that were drawn do not make a move.
    pub(super) fn random_move(&self, node: Node, random: &mut Random) -> Option<Stretches> {
        let start = self.place_after(node);
        let mut pick = |near: &[Node]| near.get(random.below(near.len())).copied();
        let first = self.order.steps(start, pick(self.near.of(node))?);
        let last = self.order.at(start + first.checked_sub(1)?);
        let end = self.order.steps(start, pick(self.near.of(last))?);
        let second = end.checked_sub(first).filter(|len| *len > 0)?;
        Some(Stretches {
            start,
            first,
            second,
        })
    }

    /// Two stretches change places, whether that helps or not. Returns the node behind which the ring
    /// is closed: the last of the second stretch.
    pub(super) fn apply(&mut self, stretches: Stretches) -> Node {
        let Stretches {
            start,
            first,
            second,
        } = stretches;
        let len = self.order.len();
        let ends = [len - 1, first - 1, first + second - 1];
        let mut change = 0;
        let mut touched = [Node::default(); 6];
        for (end, pair) in ends.into_iter().zip(touched.chunks_exact_mut(2)) {
            if let [tail, head] = pair {
                *tail = self.order.at((start + end) % len);
                *head = self.order.after(*tail);
                change -= self.costs.get(*tail, *head);
            }
        }
        self.looks += self.order.swap(start, first, second) as u64 / 4;
        for tail in touched.iter().step_by(2) {
            change += self.costs.get(*tail, self.order.after(*tail));
        }
        self.total += change;
        touched.into_iter().for_each(|node| self.enqueue(node));
        let [.., closing, _] = touched;
        closing
    }
}
