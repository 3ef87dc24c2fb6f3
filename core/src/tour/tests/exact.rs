//! The dynamic programs against all orders, and against an independent program.

use alloc::vec::Vec;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::super::{Costs, EXACT_MAX, EdgeCost, Found, Node, Objective, Search, SearchResult};

/// A problem of so many nodes: both terms from few values, so that ties are common, and one edge in
/// eight unreachable.
pub(super) fn problems(count: core::ops::RangeInclusive<usize>) -> impl Strategy<Value = Costs> {
    let terms: &[u64] = &[0, 1, 2, 3, 5, 8, 13, 21, 1000];
    let edge = (0..8, select(terms), select(terms));
    (count, 2..40_u64).prop_flat_map(move |(count, scale)| {
        vec(edge.clone(), count * count).prop_map(move |edges| {
            costs(count, |at| {
                let (chance, bottleneck, sum) = edges[at];
                let sum = sum * scale % 97;
                (chance > 0).then_some(EdgeCost { bottleneck, sum })
            })
        })
    })
}

/// Edges by their position row by row.
pub(super) fn costs(count: usize, edge: impl Fn(usize) -> Option<EdgeCost>) -> Costs {
    Costs::new(count, |from, to| edge(from.index() * count + to.index())).unwrap()
}

pub(super) fn key(objective: Objective, cost: EdgeCost) -> (u64, u64) {
    match objective {
        Objective::Sum => (0, cost.sum),
        Objective::Bottleneck => (cost.bottleneck, cost.sum),
    }
}

/// The first of the best rings among all orders.
fn best_of_all(costs: &Costs, objective: Objective) -> Option<Vec<Node>> {
    let mut best: Option<((u64, u64), Vec<Node>)> = None;
    let mut path = alloc::vec![Node(0)];
    try_orders(costs, &mut path, &mut |ring| {
        let Some(cost) = costs.ring(ring) else { return };
        let cost = key(objective, cost);
        if best.as_ref().is_none_or(|(known, _)| cost < *known) {
            best = Some((cost, ring.to_vec()));
        }
    });
    best.map(|(_, ring)| ring)
}

fn try_orders(costs: &Costs, path: &mut Vec<Node>, judge: &mut impl FnMut(&[Node])) {
    if path.len() == costs.count() {
        return judge(path);
    }
    for next in Node::all(costs.count()) {
        if !path.contains(&next) {
            path.push(next);
            try_orders(costs, path, judge);
            path.pop();
        }
    }
}

/// What the best ring costs, by one forward program that keeps for every set and last node all pairs
/// of bottleneck and sum of which none is worse in both.
pub(super) fn least(costs: &Costs, objective: Objective) -> Option<(u64, u64)> {
    let count = costs.count();
    let mut paths = alloc::vec![Vec::<(u64, u64)>::new(); count << count];
    paths[count].push((0, 0));
    for set in 1..1_usize << count {
        for (last, next) in (0..count).flat_map(|last| (0..count).map(move |next| (last, next))) {
            let is_step = set >> last & 1 == 1 && set >> next & 1 == 0;
            let edge = costs.edge(Node::at(last), Node::at(next));
            if let Some(edge) = edge.filter(|_| is_step) {
                for (bottleneck, sum) in paths[set * count + last].clone() {
                    let pair = (bottleneck.max(edge.bottleneck), sum + edge.sum);
                    keep(&mut paths[(set | 1 << next) * count + next], pair);
                }
            }
        }
    }
    let all = (1 << count) - 1;
    let rings = (1..count).flat_map(|last| {
        let back = costs.edge(Node::at(last), Node(0));
        let pairs = paths[all * count + last].clone().into_iter();
        pairs.filter_map(move |(bottleneck, sum)| {
            let bottleneck = bottleneck.max(back?.bottleneck);
            let sum = sum + back?.sum;
            Some(key(objective, EdgeCost { bottleneck, sum }))
        })
    });
    rings.min()
}

fn keep(pairs: &mut Vec<(u64, u64)>, pair: (u64, u64)) {
    if !pairs
        .iter()
        .any(|known| known.0 <= pair.0 && known.1 <= pair.1)
    {
        pairs.retain(|known| known.0 < pair.0 || known.1 < pair.1);
        pairs.push(pair);
    }
}

fn result(costs: &Costs, objective: Objective) -> SearchResult {
    let mut search = Search::new(costs.clone(), objective, 1);
    search.run(1);
    search.result()
}

fn ring(result: SearchResult) -> Option<Vec<Node>> {
    match result {
        SearchResult::Found(Found {
            ring, is_optimal, ..
        }) => {
            assert!(is_optimal);
            Some(ring)
        }
        SearchResult::NotFound => panic!("neither a ring nor a proof"),
        SearchResult::Impossible => None,
    }
}

proptest! {
    #![proptest_config(crate::cases::cases(9_000))]

    #[test]
    fn the_first_of_the_best_rings_is_found(costs in problems(1..=7)) {
        for objective in [Objective::Sum, Objective::Bottleneck] {
            prop_assert_eq!(ring(result(&costs, objective)), best_of_all(&costs, objective));
        }
    }
}

proptest! {
    #![proptest_config(crate::cases::cases(700))]

    #[test]
    fn with_eight_nodes_too(costs in problems(8..=8)) {
        for objective in [Objective::Sum, Objective::Bottleneck] {
            prop_assert_eq!(ring(result(&costs, objective)), best_of_all(&costs, objective));
        }
    }
}

proptest! {
    #![proptest_config(crate::cases::cases(300))]

    #[test]
    fn up_to_twelve_nodes_no_ring_is_cheaper(costs in problems(9..=12)) {
        for objective in [Objective::Sum, Objective::Bottleneck] {
            let found = ring(result(&costs, objective)).and_then(|ring| costs.ring(&ring));
            prop_assert_eq!(found.map(|cost| key(objective, cost)), least(&costs, objective));
        }
    }
}

/// A single program over pairs would keep the path with the smaller maximum, although the edges that
/// complete it make that meaningless.
#[test]
fn a_path_with_the_smaller_sum_wins_if_its_larger_bottleneck_does_not_matter() {
    let edges = [
        (0, 1, 1, 9),
        (1, 2, 1, 9),
        (0, 2, 5, 1),
        (2, 1, 5, 1),
        (2, 3, 7, 1),
        (1, 3, 7, 1),
        (3, 0, 7, 1),
    ];
    let costs = Costs::new(4, |from, to| {
        let mut edges = edges.iter();
        let edge = edges.find(|edge| (edge.0, edge.1) == (from.0, to.0))?;
        let (bottleneck, sum) = (edge.2, edge.3);
        Some(EdgeCost { bottleneck, sum })
    });

    let ring = ring(result(&costs.unwrap(), Objective::Bottleneck));

    assert_eq!(ring, Some([0, 2, 1, 3].map(Node).to_vec()));
}

#[test]
fn the_largest_terms_are_still_edges() {
    let limit = Costs::sum_limit(EXACT_MAX);
    let largest = EdgeCost {
        bottleneck: u64::MAX,
        sum: limit,
    };
    let costs = costs(EXACT_MAX, |_| Some(largest));

    for objective in [Objective::Sum, Objective::Bottleneck] {
        let ring = ring(result(&costs, objective)).unwrap();

        assert_eq!(costs.ring(&ring).unwrap().sum, limit * EXACT_MAX as u64);
    }
}
