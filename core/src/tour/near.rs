//! For each node, the targets of its edges that a good ring probably has.

use alloc::vec::Vec;

use super::matrix::Matrix;
use super::node::Node;

/// How many there are for each node.
pub(super) const NEAR_MAX: usize = 12;

/// For each node the ends of its cheapest edges, the cheapest first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Near {
    width: usize,
    nodes: Vec<Node>,
}

impl Near {
    /// By reduced costs, which say how much more than a bound a ring with the edge costs.
    pub(super) fn new(reduced: &Matrix) -> Self {
        let count = reduced.count();
        let width = NEAR_MAX.min(count.saturating_sub(1));
        let mut nodes = Vec::with_capacity(count * width);
        for from in Node::all(count) {
            let row = reduced.row(from).iter().zip(Node::all(count));
            let mut ends: Vec<(i64, Node)> = row
                .filter(|(_, to)| *to != from)
                .map(|(cost, to)| (*cost, to))
                .collect();
            if ends.len() > width {
                ends.select_nth_unstable(width);
                ends.truncate(width);
            }
            ends.sort_unstable();
            nodes.extend(ends.into_iter().map(|(_, to)| to));
        }
        Self { width, nodes }
    }

    pub(super) fn of(&self, node: Node) -> &[Node] {
        let start = node.index() * self.width;
        self.nodes
            .get(start..start + self.width)
            .unwrap_or_default()
    }
}
