//! Stories and properties of the choice of a ring.

mod exact;
mod parts;
mod search;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::{TourProblem, avoid};
use crate::id::PeerId;
use crate::paths::Measurement;
use crate::topology::Ring;

fn peers(ids: impl IntoIterator<Item = u64>) -> Vec<PeerId> {
    ids.into_iter().map(PeerId).collect()
}

fn solve(problem: &TourProblem) -> Option<Ring> {
    super::solve(problem).map(|solved| solved.ring)
}

/// An edge without latency.
fn edge(bytes_per_s: u64) -> Measurement {
    Measurement {
        bytes_per_s,
        round_trip_us: 0,
    }
}

fn problem(count: u64, edges: impl IntoIterator<Item = (u64, u64, u64)>) -> TourProblem {
    TourProblem {
        members: peers(0..count),
        edges: edges
            .into_iter()
            .map(|(from, to, speed)| ((PeerId(from), PeerId(to)), edge(speed)))
            .collect(),
        estimated_but: None,
    }
}

/// Every edge measured; `speeds` row by row, the diagonal ignored.
fn complete(count: u64, speeds: &[u64]) -> TourProblem {
    let pairs = (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
    let edges = pairs.zip(speeds).filter(|((from, to), _)| from != to);
    problem(count, edges.map(|((from, to), speed)| (from, to, *speed)))
}

/// A problem of so many members, with speeds from few values so that ties and gaps are common.
fn problems(count: core::ops::Range<u64>) -> impl Strategy<Value = TourProblem> {
    let speeds: &[u64] = &[0, 10, 11, 30, 33, 100];
    (count, 2..=speeds.len()).prop_flat_map(move |(count, distinct)| {
        vec(select(&speeds[..distinct]), (count * count) as usize)
            .prop_map(move |speeds| complete(count, &speeds))
    })
}

fn slowest(problem: &TourProblem, ring: &Ring) -> u64 {
    let known = ring.edges().map(|ends| problem.edges.get(&ends));
    let speeds = known.map(|known| known.map_or(0, |known| known.bytes_per_s));
    speeds.min().unwrap()
}

fn time(problem: &TourProblem, ring: &Ring) -> f64 {
    let speeds = ring.edges().map(|ends| problem.edges[&ends].bytes_per_s);
    speeds.map(|speed| 1.0 / speed as f64).sum()
}

/// All orders with the first member in front.
fn all_rings(members: &[PeerId]) -> Vec<Ring> {
    let mut orders = alloc::vec![members[..1].to_vec()];
    for _ in 1..members.len() {
        orders = orders
            .iter()
            .flat_map(|order| {
                let rest = members.iter().filter(|peer| !order.contains(peer));
                rest.map(|peer| [order.as_slice(), &[*peer]].concat())
                    .collect::<Vec<_>>()
            })
            .collect();
    }
    orders.into_iter().map(Ring).collect()
}

fn is_permutation(ring: &Ring, members: &[PeerId]) -> bool {
    let distinct: BTreeSet<_> = ring.0.iter().collect();
    distinct.len() == ring.0.len() && distinct == members.iter().collect()
}

#[test]
fn a_peer_alone_is_a_ring() {
    assert_eq!(solve(&problem(1, [])), Some(Ring(peers([0]))));
}

#[test]
fn nobody_is_no_ring_and_nobody_is_on_it_twice() {
    let mut twice = complete(3, &[1; 9]);
    twice.members.push(PeerId(0));

    assert_eq!(solve(&problem(0, [])), None);
    assert_eq!(solve(&twice), None);
}

#[test]
fn two_peers_need_both_directions() {
    let both = problem(2, [(0, 1, 5), (1, 0, 5)]);
    let one = problem(2, [(0, 1, 5)]);
    let zero = problem(2, [(0, 1, 5), (1, 0, 0)]);

    assert_eq!(solve(&both), Some(Ring(peers([0, 1]))));
    assert_eq!(solve(&one), None);
    assert_eq!(solve(&zero), None);
}

#[test]
fn the_slowest_edge_counts_before_the_sum() {
    // In terms of the sum of 1/bandwidth the first is the better: 0.130 against 0.133.
    let with_a_slow_edge = [(0, 1, 100), (1, 2, 10), (2, 3, 100), (3, 0, 100)];
    let balanced = [(0, 3, 30), (3, 2, 30), (2, 1, 30), (1, 0, 30)];

    let ring = solve(&problem(4, with_a_slow_edge.into_iter().chain(balanced)));

    assert_eq!(ring, Some(Ring(peers([0, 3, 2, 1]))));
}

#[test]
fn of_rings_with_one_bottleneck_the_one_with_the_shorter_latencies_is_taken() {
    let mut problem = complete(4, &[100; 16]);
    for (ends, known) in &mut problem.edges {
        let is_short = (ends.0.0 + 3) % 4 == ends.1.0;
        known.round_trip_us = if is_short { 10 } else { 1000 };
    }

    assert_eq!(solve(&problem), Some(Ring(peers([0, 3, 2, 1]))));
}

#[test]
fn an_answer_says_how_fast_a_ring_could_be() {
    let small = super::solve(&complete(5, &[9; 25])).unwrap();
    let large = super::solve(&complete(30, &[9; 900])).unwrap();

    assert!(small.is_optimal);
    assert!(small.bound >= 9 && large.bound >= 9);
    assert!(small.bound < 10, "{small:?}");
}

#[test]
fn a_quest_that_is_continued_never_finds_worse() {
    let speeds: Vec<u64> = (0..40 * 40).map(|edge| 1 + edge * 7919 % 1000).collect();
    let problem = complete(40, &speeds);
    let mut quest = super::Quest::new(&problem).unwrap();
    quest.run_first();
    let first = quest.solved().unwrap();

    quest.run(1_000_000);

    let later = quest.solved().unwrap();
    assert!(slowest(&problem, &later.ring) >= slowest(&problem, &first.ring));
    assert!(later.bound <= first.bound);
}

#[test]
fn the_present_order_stays_where_nothing_is_better() {
    let small = complete(6, &[9; 36]);
    let large = complete(20, &[9; 400]);

    assert_eq!(solve(&small), Some(Ring(small.members.clone())));
    assert_eq!(solve(&large), Some(Ring(large.members.clone())));
}

#[test]
fn a_fast_ring_hidden_among_slow_edges_is_found() {
    let count = 24;
    let pairs = (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
    let edges = pairs
        .filter(|(from, to)| from != to)
        .map(|(from, to)| (from, to, if to == (from + 7) % count { 100 } else { 3 }));
    let problem = problem(count, edges);

    let ring = solve(&problem).unwrap();

    assert_eq!(slowest(&problem, &ring), 100);
}

proptest! {
    #![proptest_config(crate::cases::cases(256))]

    #[test]
    fn up_to_seven_peers_get_the_best_ring(problem in problems(2..8)) {
        let found = solve(&problem);

        let possible: Vec<Ring> = all_rings(&problem.members)
            .into_iter()
            .filter(|ring| slowest(&problem, ring) > 0)
            .collect();
        match found {
            None => prop_assert!(possible.is_empty()),
            Some(found) => {
                prop_assert!(possible.contains(&found));
                for ring in possible {
                    let (best, other) = (slowest(&problem, &found), slowest(&problem, &ring));
                    prop_assert!(best >= other);
                    prop_assert!(
                        best > other || time(&problem, &found) <= time(&problem, &ring) + 1e-9
                    );
                }
            }
        }
    }

    #[test]
    fn beyond_seven_a_ring_uses_measured_edges_and_is_no_worse_than_the_present_one(
        problem in problems(8..20)
    ) {
        let present = Ring(problem.members.clone());
        let found = solve(&problem);

        prop_assert_eq!(&found, &solve(&problem));
        match found {
            None => prop_assert_eq!(slowest(&problem, &present), 0),
            Some(found) => {
                prop_assert!(is_permutation(&found, &problem.members));
                prop_assert!(slowest(&problem, &found) >= slowest(&problem, &present).max(1));
            }
        }
    }

    #[test]
    fn where_every_edge_is_usable_there_is_a_ring(
        speeds in vec(1..1000_u64, 18 * 18), count in 1..18_u64
    ) {
        let found = solve(&complete(count, &speeds));

        prop_assert!(found.is_some_and(|ring| is_permutation(&ring, &peers(0..count))));
    }
}

fn touches_forbidden(ring: &Ring, forbidden: &BTreeSet<(PeerId, PeerId)>) -> bool {
    ring.edges()
        .any(|(a, b)| forbidden.contains(&(a, b)) || forbidden.contains(&(b, a)))
}

fn pairs(pairs: impl IntoIterator<Item = (u64, u64)>) -> BTreeSet<(PeerId, PeerId)> {
    let pairs = pairs.into_iter();
    pairs.map(|(a, b)| (PeerId(a), PeerId(b))).collect()
}

#[test]
fn an_order_that_offends_nobody_is_kept() {
    let preferred = peers([4, 2, 9, 1]);

    let ring = avoid(&preferred, &pairs([(4, 9), (2, 1)]));

    assert_eq!(ring, Some(Ring(preferred)));
}

#[test]
fn two_that_cannot_reach_each_other_are_parted() {
    let ring = avoid(&peers([0, 1, 2, 3]), &pairs([(2, 1)]));

    assert_eq!(ring, Some(Ring(peers([0, 1, 3, 2]))));
}

#[test]
fn three_cannot_be_parted_and_neither_can_two() {
    assert_eq!(avoid(&peers([0, 1, 2]), &pairs([(0, 1)])), None);
    assert_eq!(avoid(&peers([0, 1]), &pairs([(1, 0)])), None);
    assert_eq!(avoid(&[], &pairs([])), None);
    assert_eq!(avoid(&peers([3]), &pairs([])), Some(Ring(peers([3]))));
}

#[test]
fn a_search_without_a_solution_gives_up() {
    let count = 60;
    let hermit = (1..count).map(|other| (0, other));

    assert_eq!(avoid(&peers(0..count), &pairs(hermit)), None);
}

#[test]
fn what_takes_too_long_to_search_is_repaired() {
    // The search finds out at the very end that the last must get on with the first, and would try
    // 19! orders of those who don't before it moves anybody else.
    let forbidden = pairs((21..40).map(|enemy| (0, enemy)));

    let ring = avoid(&peers(0..40), &forbidden).unwrap();

    assert!(is_permutation(&ring, &peers(0..40)));
    assert!(!touches_forbidden(&ring, &forbidden));
}

proptest! {
    #![proptest_config(crate::cases::cases(256))]

    #[test]
    fn up_to_six_peers_are_parted_wherever_that_is_possible(
        count in 1..7_u64, unwanted in vec((0..6_u64, 0..6_u64), 0..10)
    ) {
        let members = peers(0..count);
        let forbidden = pairs(unwanted);

        let found = avoid(&members, &forbidden);

        let mut possible = all_rings(&members).into_iter();
        prop_assert_eq!(found, possible.find(|ring| !touches_forbidden(ring, &forbidden)));
    }

    #[test]
    fn many_peers_with_few_enemies_are_always_parted(
        count in 8..64_u64, unwanted in vec((0..64_u64, 0..64_u64), 0..200)
    ) {
        let mut enemies: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for (a, b) in unwanted {
            let few = |peer| enemies.get(peer).is_none_or(|all| (all.len() as u64) < count / 2 - 1);
            if a < count && b < count && a != b && few(&a) && few(&b) {
                enemies.entry(a).or_default().insert(b);
                enemies.entry(b).or_default().insert(a);
            }
        }
        let forbidden = pairs(enemies.iter().flat_map(|(a, all)| all.iter().map(|b| (*a, *b))));
        let members = peers(0..count);

        let ring = avoid(&members, &forbidden);

        let ring = ring.unwrap_or_default();
        prop_assert!(is_permutation(&ring, &members));
        prop_assert!(!touches_forbidden(&ring, &forbidden));
    }
}
