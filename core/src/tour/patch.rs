//! From a cycle cover to a ring: Karp's patching algorithm ("A patching algorithm for the
//! nonsymmetric traveling-salesman problem", 1979).
//!
//! Two cycles become one if an edge of each is replaced so that they lead into each other. The
//! largest cycle takes in the others, larger ones first, each at the place where that costs least.

use alloc::vec::Vec;
use core::cmp::Reverse;

use super::matrix::Matrix;
use super::node::{Node, PerNode};

/// A ring, and how many places were looked at to make it. The first node comes first.
pub(super) fn patch(costs: &Matrix, mut next: PerNode<Node>) -> (Vec<Node>, u64) {
    let mut cycles = cycles(costs.count(), &next);
    cycles.sort_by_key(|cycle| Reverse(cycle.len()));
    let mut looks = costs.count() as u64;
    let mut cycles = cycles.into_iter();
    let mut joined = cycles.next().unwrap_or_default();
    for cycle in cycles {
        looks += (joined.len() * cycle.len()) as u64;
        let places = cycle
            .iter()
            .flat_map(|two| joined.iter().map(|one| (*one, *two)));
        let cheapest = places.min_by_key(|(one, two)| price(costs, &next, *one, *two));
        if let Some((one, two)) = cheapest {
            let after = next.get(one);
            next.set(one, next.get(two));
            next.set(two, after);
        }
        joined.extend(cycle);
    }
    (cycle_from(Node(0), &next), looks)
}

/// What it costs to join the cycles of two nodes at the edges out of these nodes.
fn price(costs: &Matrix, next: &PerNode<Node>, one: Node, two: Node) -> i64 {
    let (after_one, after_two) = (next.get(one), next.get(two));
    costs.get(one, after_two) + costs.get(two, after_one)
        - costs.get(one, after_one)
        - costs.get(two, after_two)
}

/// The cycles of a cover, each as its nodes in their order.
pub(super) fn cycles(count: usize, next: &PerNode<Node>) -> Vec<Vec<Node>> {
    let mut is_seen: PerNode<bool> = PerNode::new(count);
    let mut cycles = Vec::new();
    for start in Node::all(count) {
        if !is_seen.get(start) {
            let cycle = cycle_from(start, next);
            cycle.iter().for_each(|node| is_seen.set(*node, true));
            cycles.push(cycle);
        }
    }
    cycles
}

fn cycle_from(start: Node, next: &PerNode<Node>) -> Vec<Node> {
    let follow = |node: &Node| Some(next.get(*node)).filter(|node| *node != start);
    core::iter::successors(Some(start), follow).collect()
}
