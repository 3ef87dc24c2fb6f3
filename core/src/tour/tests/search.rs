//! The search beyond what dynamic programs can do.

use alloc::vec::Vec;

use proptest::prelude::*;

use super::super::random::Random;
use super::super::{Costs, EdgeCost, Found, Node, Objective, Search, SearchResult, TourProblem};
use super::exact::{costs, key, least, problems};
use super::{complete, peers};

const OBJECTIVES: [Objective; 2] = [Objective::Sum, Objective::Bottleneck];

fn random_costs(count: usize, seed: u64) -> Costs {
    let mut random = Random::new(seed);
    let terms: Vec<u64> = (0..count * count)
        .map(|_| 1 + random.below(1000) as u64)
        .collect();
    costs(count, |at| {
        let (bottleneck, sum) = (terms[at], terms[at]);
        Some(EdgeCost { bottleneck, sum })
    })
}

/// Sites with fast insides and slow links between them; which site a node belongs to is its number
/// modulo their count.
fn sites(count: usize, sites: u16, seed: u64) -> Costs {
    let mut random = Random::new(seed);
    let noise: Vec<u64> = (0..count * count)
        .map(|_| random.below(100) as u64)
        .collect();
    Costs::new(count, |from, to| {
        let is_inside = from.0 % sites == to.0 % sites;
        let noise = noise[from.index() * count + to.index()];
        let (bottleneck, sum) = match is_inside {
            true => (10 + noise / 10, 1 + noise / 50),
            false => (1000 + noise, 200 + noise),
        };
        Some(EdgeCost { bottleneck, sum })
    })
    .unwrap()
}

fn found(search: &Search) -> Found {
    match search.result() {
        SearchResult::Found(found) => found,
        other @ (SearchResult::NotFound | SearchResult::Impossible) => panic!("{other:?}"),
    }
}

fn searched(costs: &Costs, objective: Objective, steps: u64) -> Search {
    let mut search = Search::new(costs.clone(), objective, 7);
    search.run(steps);
    search
}

fn check(costs: &Costs, objective: Objective, found: &Found) {
    let mut sorted = found.ring.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, Node::all(costs.count()).collect::<Vec<_>>());
    assert_eq!(Some(found.cost), costs.ring(&found.ring));
    assert!(found.bound.bottleneck <= found.cost.bottleneck);
    assert!(found.bound.sum <= found.cost.sum);
    let is_met = key(objective, found.cost) == key(objective, found.bound);
    assert!(is_met || !found.is_optimal);
}

#[test]
fn a_ring_visits_everybody_and_costs_no_less_than_the_bound() {
    for objective in OBJECTIVES {
        for costs in [random_costs(40, 1), sites(40, 5, 2), random_costs(19, 3)] {
            for steps in [1, 100_000, 3_000_000] {
                check(
                    &costs,
                    objective,
                    &found(&searched(&costs, objective, steps)),
                );
            }
        }
    }
}

#[test]
fn a_search_in_two_parts_finds_what_one_in_one_part_does() {
    for objective in OBJECTIVES {
        let costs = random_costs(30, 4);
        let whole = searched(&costs, objective, 2_000_000);
        for part in [1, 77_777, 1_999_999] {
            let mut parts = searched(&costs, objective, part);
            parts.run(2_000_000 - part);

            assert_eq!(parts.result(), whole.result());
            assert_eq!(parts.steps(), whole.steps());
        }
        assert_eq!(
            searched(&costs, objective, 2_000_000).result(),
            whole.result()
        );
    }
}

#[test]
fn more_steps_never_make_it_worse() {
    for objective in OBJECTIVES {
        let mut search = Search::new(sites(48, 6, 5), objective, 1);
        let mut before = (u64::MAX, u64::MAX);
        for _ in 0..50 {
            search.run(100_000);
            let now = key(objective, found(&search).cost);
            assert!(now <= before);
            before = now;
        }
    }
}

#[test]
fn each_site_is_entered_once() {
    for objective in OBJECTIVES {
        let search = searched(&sites(60, 5, 6), objective, 10_000_000);

        let ring = found(&search).ring;
        let edges = ring.iter().zip(ring.iter().cycle().skip(1));
        assert_eq!(edges.filter(|(from, to)| from.0 % 5 != to.0 % 5).count(), 5);
    }
}

#[test]
fn the_bottleneck_is_proven_or_nearly_so() {
    for costs in [random_costs(64, 8), sites(64, 4, 9), random_costs(200, 10)] {
        let found = found(&searched(&costs, Objective::Bottleneck, 20_000_000));

        let (bottleneck, bound) = (found.cost.bottleneck, found.bound.bottleneck);
        assert!(
            bottleneck * 100 <= bound * 102,
            "{bottleneck} above {bound}"
        );
    }
}

#[test]
fn the_only_ring_is_found_and_proven() {
    let count = 40;
    let costs = Costs::new(count, |from, to| {
        let is_next = to.index() == (from.index() + 7) % count;
        let (bottleneck, sum) = (u64::from(from.0) + 1, 1);
        is_next.then_some(EdgeCost { bottleneck, sum })
    });
    for objective in OBJECTIVES {
        let found = found(&searched(costs.as_ref().unwrap(), objective, 1_000_000));

        assert!(found.is_optimal);
        assert_eq!(found.ring[1], Node(7));
    }
}

#[test]
fn without_a_ring_that_is_said() {
    let one = EdgeCost {
        bottleneck: 1,
        sum: 1,
    };
    // Nobody reaches node 5; two halves; only even numbers lead to odd ones, of which there are fewer.
    let hermit = Costs::new(20, |_, to| (to.0 != 5).then_some(one));
    let halves = Costs::new(20, |from, to| ((from.0 < 10) == (to.0 < 10)).then_some(one));
    let lopsided = Costs::new(21, |from, to| {
        (from.0 % 2 == 1 || to.0 % 2 == 1).then_some(one)
    });
    for costs in [hermit, halves, lopsided] {
        for objective in OBJECTIVES {
            let search = searched(costs.as_ref().unwrap(), objective, 1_000_000);

            assert_eq!(search.result(), SearchResult::Impossible);
            assert!(search.is_over());
        }
    }
}

#[test]
fn a_search_that_has_not_begun_knows_the_present_order_at_most() {
    let costs = random_costs(30, 11);
    let present: Vec<Node> = Node::all(30).collect();
    let broken = Costs::new(30, |from, to| {
        costs.edge(from, to).filter(|_| to.0 != from.0 + 1)
    });

    let known = found(&Search::new(costs, Objective::Sum, 0));
    assert_eq!((known.ring, known.is_optimal), (present, false));
    let unknown = Search::new(broken.unwrap(), Objective::Sum, 0);
    assert_eq!(unknown.result(), SearchResult::NotFound);
}

proptest! {
    #![proptest_config(crate::cases::cases(150))]

    #[test]
    fn the_heuristic_finds_what_the_programs_find(costs in problems(8..=11)) {
        for objective in OBJECTIVES {
            let mut search = Search::new(costs.clone(), objective, 1);
            search.exact_max = 0;
            search.run(2_000_000);

            let best = least(&costs, objective);
            match search.result() {
                SearchResult::Found(found) => {
                    check(&costs, objective, &found);
                    prop_assert_eq!(Some(key(objective, found.cost)), best);
                }
                SearchResult::NotFound | SearchResult::Impossible => prop_assert_eq!(best, None),
            }
        }
    }
}

#[test]
fn slow_edges_do_not_make_fast_ones_equal() {
    let mut problem = complete(7, &[25_000_000; 49]);
    let ends = |from, to| (super::PeerId(from), super::PeerId(to));
    problem.edges.insert(ends(0, 1), super::edge(25_000_001));
    problem.edges.insert(ends(3, 4), super::edge(1));

    let costs = problem.costs().unwrap();

    let sum = |from, to| costs.edge(Node(from), Node(to)).unwrap().sum;
    assert!(sum(0, 1) < sum(1, 2));
    assert!(sum(1, 2) < sum(3, 4));
}

#[test]
fn a_thousand_members_with_the_slowest_edges_do_not_overflow() {
    let problem = TourProblem {
        members: peers(0..1024),
        edges: [((super::PeerId(0), super::PeerId(1)), super::edge(1))].into(),
        estimated_but: None,
    };

    let costs = problem.costs().unwrap();

    assert!(costs.edge(Node(0), Node(1)).unwrap().sum <= Costs::sum_limit(1024));
    assert_eq!(super::solve(&problem), None);
}
