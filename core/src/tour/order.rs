//! A ring as an array of nodes, in which stretches can be swapped.

use alloc::vec::Vec;

use super::node::{Node, PerNode};

/// A ring of nodes. Moves can be taken back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Order {
    nodes: Vec<Node>,
    place: PerNode<u16>,
    /// What has been done since the last time that it was confirmed.
    done: Vec<Swap>,
    /// Memory for a swap.
    stretch: Vec<Node>,
}

/// Two neighbouring stretches changed places: the first began at this place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Swap {
    start: usize,
    first: usize,
    second: usize,
}

impl Order {
    pub(super) fn new(nodes: Vec<Node>) -> Self {
        let mut place = PerNode::new(nodes.len());
        for (at, node) in nodes.iter().enumerate() {
            place.set(*node, Node::at(at).0);
        }
        Self {
            nodes,
            place,
            done: Vec::new(),
            stretch: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub(super) fn place(&self, node: Node) -> usize {
        usize::from(self.place.get(node))
    }

    /// The node at a place, which may be past the end by less than a round.
    pub(super) fn at(&self, place: usize) -> Node {
        let wrapped = self.wrapped(place);
        self.nodes.get(wrapped).copied().unwrap_or_default()
    }

    pub(super) fn after(&self, node: Node) -> Node {
        self.at(self.place(node) + 1)
    }

    pub(super) fn before(&self, node: Node) -> Node {
        self.at(self.place(node) + self.len() - 1)
    }

    /// How many steps lead from a place to the node.
    pub(super) fn steps(&self, from: usize, to: Node) -> usize {
        let place = self.place(to);
        match place.checked_sub(from) {
            Some(steps) => steps,
            None => place + self.len() - from,
        }
    }

    /// Two stretches that follow each other change places: `first` nodes from `start` on, and
    /// `second` nodes after them. Returns how many nodes were moved.
    pub(super) fn swap(&mut self, start: usize, first: usize, second: usize) -> usize {
        let rest = self.len() - first - second;
        // Of three stretches that make up the ring any two may change places.
        let (start, first, second) = if first >= second.max(rest) {
            (start + first, second, rest)
        } else if second >= rest {
            (start + first + second, rest, first)
        } else {
            (start, first, second)
        };
        let swap = Swap {
            start: self.wrapped(self.wrapped(start)),
            first,
            second,
        };
        self.carry_out(swap);
        self.done.push(swap);
        first + second
    }

    fn wrapped(&self, place: usize) -> usize {
        match place.checked_sub(self.len()) {
            Some(wrapped) => wrapped,
            None => place,
        }
    }

    fn carry_out(&mut self, swap: Swap) {
        let (start, len) = (swap.start, swap.first + swap.second);
        let mut stretch = core::mem::take(&mut self.stretch);
        stretch.clear();
        let head = self.nodes.iter().skip(start).chain(&self.nodes);
        stretch.extend(head.take(len));
        stretch.rotate_left(swap.first);
        let (front, back) = self.nodes.split_at_mut(start);
        let slots = back.iter_mut().chain(front);
        let mut place = start;
        for (slot, node) in slots.zip(&stretch) {
            *slot = *node;
            self.place.set(*node, Node::at(place).0);
            place = match place + 1 == self.place.as_slice().len() {
                true => 0,
                false => place + 1,
            };
        }
        self.stretch = stretch;
    }

    /// What was done up to here is not taken back.
    pub(super) fn confirm(&mut self) {
        self.done.clear();
    }

    /// Takes back what was done since the last confirmation.
    pub(super) fn take_back(&mut self) {
        while let Some(swap) = self.done.pop() {
            self.carry_out(Swap {
                start: swap.start,
                first: swap.second,
                second: swap.first,
            });
        }
    }
}
