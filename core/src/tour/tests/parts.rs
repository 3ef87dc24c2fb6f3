//! The parts of the heuristic, each against something simpler.

use alloc::vec::Vec;

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::ascent::Ascent;
use super::super::assignment::assign;
use super::super::contract::contracted_duals;
use super::super::descent::{Descent, Stretches};
use super::super::graph::Graph;
use super::super::matrix::{Duals, Matrix};
use super::super::order::Order;
use super::super::patch::patch;
use super::super::{Costs, EdgeCost, Node, Objective};
use super::exact::{least, problems};

fn matrices(count: core::ops::RangeInclusive<usize>) -> impl Strategy<Value = Matrix> {
    problems(count).prop_map(|costs| Matrix::of(&costs, u64::MAX))
}

/// The cheapest cycle cover of all, an edge after the other.
fn cheapest_cover(costs: &Matrix, from: usize, free: &mut Vec<Node>) -> i64 {
    if free.is_empty() {
        return 0;
    }
    let tries = (0..free.len()).map(|at| {
        let to = free.swap_remove(at);
        let rest = cheapest_cover(costs, from + 1, free);
        free.push(to);
        let last = free.len() - 1;
        free.swap(at, last);
        costs.get(Node::at(from), to) + rest
    });
    tries.min().unwrap()
}

fn is_ring(ring: &[Node], count: usize) -> bool {
    let mut sorted = ring.to_vec();
    sorted.sort_unstable();
    sorted == Node::all(count).collect::<Vec<_>>()
}

proptest! {
    #![proptest_config(crate::cases::cases(256))]

    #[test]
    fn no_cycle_cover_is_cheaper_than_the_assignment(costs in matrices(1..=7)) {
        let assignment = assign(&costs);

        let mut free: Vec<Node> = Node::all(costs.count()).collect();
        let cover = Node::all(costs.count()).map(|from| costs.get(from, assignment.next.get(from)));
        let cover: i64 = cover.sum();
        prop_assert_eq!(cover, cheapest_cover(&costs, 0, &mut free));
        prop_assert_eq!(assignment.duals.sum(), cover);
        let reduced = costs.reduced(&assignment.duals);
        for from in Node::all(costs.count()) {
            prop_assert!(reduced.row(from).iter().all(|cost| *cost >= 0));
        }
    }

    #[test]
    fn patching_makes_one_ring(costs in matrices(1..=20)) {
        let (ring, _) = patch(&costs, assign(&costs).next);

        prop_assert!(is_ring(&ring, costs.count()));
        prop_assert_eq!(ring[0], Node(0));
    }

    #[test]
    fn no_ring_is_below_the_bound(costs in problems(4..=9), first in 0..1000_i64) {
        let matrix = Matrix::of(&costs, u64::MAX);
        let least = least(&costs, Objective::Sum).map(|(_, sum)| i64::try_from(sum).unwrap());

        let assigned = assign(&matrix);
        let (contracted, _) = contracted_duals(&matrix, &assigned);
        for others in [alloc::vec![], contracted, alloc::vec![Duals::new(costs.count())]] {
            let mut ascent = Ascent::new(&matrix, &assigned.duals, &others);
            let mut before = ascent.bound();
            for _ in 0..200 {
                ascent.step(least.unwrap_or(first));
                prop_assert!(ascent.bound() <= least.unwrap_or(i64::MAX));
                prop_assert!(ascent.bound() >= before);
                before = ascent.bound();
            }
        }
    }

    #[test]
    fn a_graph_with_a_ring_meets_all_conditions(costs in problems(2..=7), allowed in 0..30_u64) {
        let within = Costs::new(costs.count(), |from, to| {
            costs.edge(from, to).filter(|edge| edge.bottleneck <= allowed)
        });
        let has_ring = least(&within.unwrap(), Objective::Sum).is_some();

        let may_have_ring = Graph::new(&costs, allowed).may_have_ring();

        prop_assert!(may_have_ring || !has_ring);
    }

    #[test]
    fn stretches_change_places_and_back(
        count in 3..40_usize, moves in vec((0..40_usize, 0..40_usize, 0..40_usize), 1..10)
    ) {
        let start: Vec<Node> = Node::all(count).collect();
        let mut order = Order::new(start.clone());
        let mut expected = start.clone();

        for (place, first, second) in moves {
            let first = 1 + first % (count - 2);
            let second = 1 + second % (count - first - 1).max(1);
            let at = expected.iter().position(|node| *node == order.at(place % count)).unwrap();
            expected.rotate_left(at);
            expected[..first + second].rotate_left(first);
            order.swap(place % count, first, second);

            prop_assert_eq!(from_first(order.nodes()), from_first(&expected));
            for node in Node::all(count) {
                prop_assert_eq!(order.at(order.place(node)), node);
                prop_assert_eq!(order.before(order.after(node)), node);
            }
        }
        order.take_back();
        prop_assert_eq!(from_first(order.nodes()), start);
    }

    #[test]
    fn a_descent_keeps_count_and_ends_where_no_move_helps(costs in matrices(8..=12)) {
        let duals = assign(&costs).duals;
        let reduced = costs.reduced(&duals);
        let mut descent = Descent::new(reduced.clone(), Node::all(costs.count()).collect());

        // Afresh until nothing changes: nodes that were looked at are left alone otherwise.
        let mut before = i64::MAX;
        while descent.total() < before {
            before = descent.total();
            descent.start(descent.order().nodes().to_vec());
            descent.run();
            descent.confirm();
            prop_assert!(descent.total() <= before);
        }

        let ring = descent.order().nodes().to_vec();
        prop_assert!(is_ring(&ring, costs.count()));
        prop_assert_eq!(descent.total(), reduced.ring(&ring));
        prop_assert_eq!(descent.total() + duals.sum(), costs.ring(&ring));
        // With so few nodes all of them are neighbours.
        for stretches in all_moves(costs.count()) {
            descent.apply(stretches);
            prop_assert_eq!(descent.total(), reduced.ring(descent.order().nodes()));
            prop_assert!(descent.total() >= reduced.ring(&ring));
            descent.take_back(reduced.ring(&ring));
        }
    }
}

fn from_first(ring: &[Node]) -> Vec<Node> {
    let mut ring = ring.to_vec();
    let first = ring.iter().position(|node| *node == Node(0)).unwrap();
    ring.rotate_left(first);
    ring
}

fn all_moves(count: usize) -> impl Iterator<Item = Stretches> {
    let stretches = move |start| {
        (1..count - 1).flat_map(move |first| {
            (1..count - first).map(move |second| Stretches {
                start,
                first,
                second,
            })
        })
    };
    (0..count).flat_map(stretches)
}

#[test]
fn a_node_that_joins_two_halves_rules_out_a_ring() {
    // Two rings of five nodes that share the first one.
    let costs = Costs::new(9, |from, to| {
        let half = |node: Node| node.0.div_ceil(4);
        let is_inside = from.0 == 0 || to.0 == 0 || half(from) == half(to);
        is_inside.then_some(EdgeCost::default())
    });
    let graph = Graph::new(&costs.unwrap(), u64::MAX);

    assert!(!graph.may_have_ring());
}
