//! The cheapest cycle cover: one edge out of every node and one into every node.
//!
//! A ring is such a cover with a single cycle, so no ring costs less. Kuhn's Hungarian method with
//! shortest augmenting paths, after Jonker and Volgenant, "A shortest augmenting path algorithm for
//! dense and sparse linear assignment problems" (1987).

use alloc::vec::Vec;

use super::matrix::{Duals, Matrix};
use super::node::{Node, PerNode};

/// The cheapest cycle cover. The duals prove that none is cheaper: no reduced cost is negative, and
/// those of the cover's edges are zero.
#[derive(Clone, Debug)]
pub(super) struct Assignment {
    /// Where the edge out of each node leads.
    pub(super) next: PerNode<Node>,
    pub(super) duals: Duals,
    /// How many edges were looked at.
    pub(super) looks: u64,
}

pub(super) fn assign(costs: &Matrix) -> Assignment {
    let mut matching = Matching::new(costs);
    for from in Node::all(costs.count()) {
        if matching.next.get(from).is_none() {
            matching.augment(from);
        }
    }
    let next = matching.next.as_slice().iter();
    Assignment {
        next: next.map(|to| to.unwrap_or_default()).collect(),
        duals: matching.duals,
        looks: matching.looks,
    }
}

/// A cover in the making.
struct Matching<'a> {
    costs: &'a Matrix,
    next: PerNode<Option<Node>>,
    previous: PerNode<Option<Node>>,
    duals: Duals,
    looks: u64,
}

/// What a search for a shortest augmenting path knows of a node that an edge may lead into.
#[derive(Clone, Copy, Default)]
struct Reached {
    distance: i64,
    /// The last edge of the shortest path comes from here.
    from: Node,
    is_done: bool,
}

impl<'a> Matching<'a> {
    /// Duals from the smallest cost of each row and column, and the edges that fit them.
    fn new(costs: &'a Matrix) -> Self {
        let count = costs.count();
        let mut duals = Duals::new(count);
        let mut lowest: Vec<i64> = alloc::vec![i64::MAX; count];
        for from in Node::all(count) {
            let row = costs.row(from);
            let least = row.iter().min().copied().unwrap_or(0);
            duals.out.set(from, least);
            for (low, cost) in lowest.iter_mut().zip(row) {
                *low = (*low).min(cost - least);
            }
        }
        duals.into = lowest.into_iter().collect();
        let mut matching = Self {
            costs,
            next: PerNode::new(count),
            previous: PerNode::new(count),
            duals,
            looks: 2 * (count * count) as u64,
        };
        Node::all(count).for_each(|from| matching.take_free(from));
        matching
    }

    fn reduced(&self, from: Node) -> impl Iterator<Item = i64> {
        let (out, into) = (self.duals.out.get(from), self.duals.into.as_slice());
        let row = self.costs.row(from).iter().zip(into);
        row.map(move |(cost, into)| cost - out - into)
    }

    /// Takes the first edge out of the node that costs nothing and leads where none leads yet.
    fn take_free(&mut self, from: Node) {
        let mut edges = self.reduced(from).zip(self.previous.as_slice());
        let free = edges.position(|(cost, taken)| cost == 0 && taken.is_none());
        drop(edges);
        if let Some(to) = free.map(Node::at) {
            self.next.set(from, Some(to));
            self.previous.set(to, Some(from));
        }
    }

    /// Dijkstra's algorithm over reduced costs, from a node without an edge to one that no edge leads
    /// into; then the edges along the path change places.
    fn augment(&mut self, from: Node) {
        let mut reached: Vec<Reached> = self
            .reduced(from)
            .map(|distance| Reached {
                distance,
                from,
                is_done: false,
            })
            .collect();
        while let Some((nearest, distance)) = nearest(&reached) {
            self.looks += 2 * reached.len() as u64;
            let Some(owner) = self.previous.get(nearest) else {
                self.adjust(from, &reached, distance);
                self.trade(from, nearest, &reached);
                return;
            };
            if let Some(entry) = reached.get_mut(nearest.index()) {
                entry.is_done = true;
            }
            let base = distance - self.duals.out.get(owner);
            let row = self.costs.row(owner).iter();
            let row = row.zip(self.duals.into.as_slice());
            for (entry, (cost, into)) in reached.iter_mut().zip(row) {
                let through = base + cost - into;
                if !entry.is_done && through < entry.distance {
                    (entry.distance, entry.from) = (through, owner);
                }
            }
        }
    }

    /// Keeps reduced costs from becoming negative when the path of this length is used.
    fn adjust(&mut self, start: Node, reached: &[Reached], length: i64) {
        self.duals.out.update(start, |dual| dual + length);
        let done = reached
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.is_done);
        for (to, entry) in done.map(|(to, entry)| (Node::at(to), entry)) {
            let slack = length - entry.distance;
            self.duals.into.update(to, |dual| dual - slack);
            if let Some(owner) = self.previous.get(to) {
                self.duals.out.update(owner, |dual| dual + slack);
            }
        }
    }

    fn trade(&mut self, start: Node, end: Node, reached: &[Reached]) {
        let mut to = end;
        while let Some(entry) = reached.get(to.index()) {
            let old = self.next.get(entry.from);
            self.next.set(entry.from, Some(to));
            self.previous.set(to, Some(entry.from));
            match old {
                Some(old) if entry.from != start => to = old,
                Some(_) | None => return,
            }
        }
    }
}

fn nearest(reached: &[Reached]) -> Option<(Node, i64)> {
    let open = reached
        .iter()
        .enumerate()
        .filter(|(_, entry)| !entry.is_done);
    let (at, entry) = open.min_by_key(|(_, entry)| entry.distance)?;
    Some((Node::at(at), entry.distance))
}
