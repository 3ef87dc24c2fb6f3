//! Necessary conditions for a ring in a graph, for the bound on the bottleneck.
//!
//! Whether a ring exists cannot be decided quickly, but often it can be excluded. Every node of a ring reaches every
//! other one. Without any one node the rest is still connected. And a ring is a cycle cover, which is a perfect
//! matching of nodes with outgoing edges and nodes with incoming edges.

use alloc::vec::Vec;

use super::costs::Costs;
use super::node::{Node, PerNode};

/// A directed graph. For each node the set of those that its edges lead to, a bit for each.
pub(super) struct Graph {
    count: usize,
    out: Rows,
    into: Rows,
    either: Rows,
}

impl Graph {
    /// The edges whose bottleneck term is at most `allowed`.
    pub(super) fn new(costs: &Costs, allowed: u64) -> Self {
        let count = costs.count();
        let (mut out, mut into) = (Rows::new(count), Rows::new(count));
        let pairs = Node::all(count).flat_map(|from| Node::all(count).map(move |to| (from, to)));
        for ((from, to), edge) in pairs.zip(costs.edges()) {
            if edge.is_some_and(|edge| edge.bottleneck <= allowed) {
                out.insert(from, to);
                into.insert(to, from);
            }
        }
        let words = out.words.iter().zip(&into.words);
        let either = Rows {
            words: words.map(|(out, into)| out | into).collect(),
            ..out
        };
        Self {
            count,
            out,
            into,
            either,
        }
    }

    /// False only if there is no ring.
    pub(super) fn may_have_ring(&self) -> bool {
        self.is_strongly_connected() && self.has_cycle_cover() && self.has_no_cut_node()
    }

    fn is_strongly_connected(&self) -> bool {
        let all = |rows: &Rows| rows.reached(Node(0), None) == self.count;
        all(&self.out) && all(&self.into)
    }

    /// Whether whatever node is taken away, undirected edges still join the rest.
    fn has_no_cut_node(&self) -> bool {
        Node::all(self.count).all(|without| {
            let start = Node::at(usize::from(without == Node(0)));
            self.count < 3 || self.either.reached(start, Some(without)) == self.count - 1
        })
    }

    /// Kuhn's algorithm: augmenting paths, found breadth first.
    fn has_cycle_cover(&self) -> bool {
        let mut previous = PerNode::new(self.count);
        Node::all(self.count).all(|from| self.augment(from, &mut previous))
    }

    fn augment(&self, start: Node, previous: &mut PerNode<Option<Node>>) -> bool {
        let mut unseen = Unseen::new(self.count);
        let mut entered: PerNode<Node> = PerNode::new(self.count);
        let mut next: PerNode<Option<Node>> = PerNode::new(self.count);
        let mut queue = alloc::vec![start];
        let mut found = Vec::new();
        while let Some(from) = queue.pop() {
            unseen.take(self.out.of(from), &mut found);
            for to in found.drain(..) {
                entered.set(to, from);
                let Some(owner) = previous.get(to) else {
                    trade(to, &entered, &next, previous);
                    return true;
                };
                next.set(owner, Some(to));
                queue.push(owner);
            }
        }
        false
    }
}

/// The edges of an augmenting path that ends at `to` change places with those of the matching.
fn trade(
    mut to: Node,
    entered: &PerNode<Node>,
    next: &PerNode<Option<Node>>,
    previous: &mut PerNode<Option<Node>>,
) {
    loop {
        let from = entered.get(to);
        previous.set(to, Some(from));
        match next.get(from) {
            Some(old) => to = old,
            None => return,
        }
    }
}

/// A set of nodes per node.
struct Rows {
    width: usize,
    words: Vec<u64>,
}

impl Rows {
    fn new(count: usize) -> Self {
        let width = count.div_ceil(64);
        Self {
            width,
            words: alloc::vec![0; count * width],
        }
    }

    fn insert(&mut self, row: Node, node: Node) {
        let at = row.index() * self.width + node.index() / 64;
        if let Some(word) = self.words.get_mut(at) {
            *word |= 1 << (node.index() % 64);
        }
    }

    fn of(&self, row: Node) -> &[u64] {
        let start = row.index() * self.width;
        self.words
            .get(start..start + self.width)
            .unwrap_or_default()
    }

    /// How many nodes can be reached, the start included, without going through one of them.
    fn reached(&self, start: Node, without: Option<Node>) -> usize {
        let mut unseen = Unseen::new(self.width * 64);
        [Some(start), without]
            .into_iter()
            .flatten()
            .for_each(|node| unseen.remove(node));
        let mut found = alloc::vec![start];
        let mut reached = 0;
        while let Some(node) = found.pop() {
            reached += 1;
            unseen.take(self.of(node), &mut found);
        }
        reached
    }
}

/// Nodes that a search has not come to.
struct Unseen(Vec<u64>);

impl Unseen {
    fn new(count: usize) -> Self {
        Self(alloc::vec![u64::MAX; count.div_ceil(64)])
    }

    fn remove(&mut self, node: Node) {
        if let Some(word) = self.0.get_mut(node.index() / 64) {
            *word &= !(1 << (node.index() % 64));
        }
    }

    /// Moves the members of the row that were not seen to `found`.
    fn take(&mut self, row: &[u64], found: &mut Vec<Node>) {
        for (at, (word, row)) in self.0.iter_mut().zip(row).enumerate() {
            let mut hits = *word & row;
            *word &= !hits;
            while hits != 0 {
                found.push(Node::at(at * 64 + hits.trailing_zeros() as usize));
                hits &= hits - 1;
            }
        }
    }
}

/// The smallest bottleneck that no condition rules out; `None` if there is no ring at all.
pub(super) fn smallest_bottleneck(costs: &Costs) -> Option<u64> {
    let terms = costs.bottlenecks();
    let at = terms.partition_point(|term| !Graph::new(costs, *term).may_have_ring());
    terms.get(at).copied()
}
