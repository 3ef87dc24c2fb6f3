//! What holds of broadcasts down a tree, and in two levels.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use super::*;

fn broadcast<'a>(
    root: u32,
    algorithm: Algorithm,
    sites: &'a Sites,
    stripe: Stripe<'a>,
) -> Operation<'a> {
    Operation {
        kind: CollectiveKind::Broadcast { root },
        algorithm,
        sites,
        stripe,
        turns: None,
    }
}

/// By rank: to which ranks it sends, one after the other.
fn edges(root: u32, algorithm: Algorithm, sites: &Sites) -> Vec<Vec<u32>> {
    let shards = Shards::of_ranks(u64::from(sites.world()), sites.world());
    let operation = broadcast(root, algorithm, sites, shards.stripe(1, 0));
    let of_rank = |rank| {
        let sent = sends(operation, rank).into_iter();
        sent.map(|(to, _)| to.rank).collect()
    };
    (0..sites.world()).map(of_rank).collect()
}

/// How many sends one after the other lead to the rank that is the farthest from the root.
fn depth(edges: &[Vec<u32>], from: u32) -> u32 {
    let below = edges[from as usize].iter();
    below.map(|rank| 1 + depth(edges, *rank)).max().unwrap_or(0)
}

/// Sites in which ranks are mixed, and whose sizes differ.
fn layouts(world: u32) -> [Sites; 4] {
    [
        Sites::one(world),
        Sites::of(0..world),
        Sites::of((0..world).map(|rank| rank * 5 % 11 % 3)),
        Sites::of((0..world).map(|rank| rank / 4)),
    ]
}

#[test]
fn from_every_root_everybody_has_the_buffer_in_the_end() {
    for world in 1..=64 {
        let shards = Shards::of_ranks(3, world);
        let sites = layouts(world);
        for root in 0..world {
            for (at, sites) in sites.iter().enumerate() {
                let stripe = shards.stripe(2, (root % 2) as u16);
                let hurry = (root + at as u32).is_multiple_of(2);
                let levels = broadcast(root, Algorithm::TwoLevel, sites, stripe);
                keeps_its_promise(levels, hurry).unwrap();
            }
            let tree = broadcast(root, Algorithm::Tree, &sites[0], shards.stripe(1, 0));
            keeps_its_promise(tree, root % 2 == 0).unwrap();
        }
    }
}

#[test]
fn the_tree_of_eight_is_the_binomial_one_behind_its_root() {
    let edges = edges(6, Algorithm::Tree, &Sites::one(8));

    // 6 is number 0, 2 is number 4.
    let expected = [
        vec![1],
        vec![],
        vec![4, 3],
        vec![],
        vec![5],
        vec![],
        vec![2, 0, 7],
        vec![],
    ];
    assert_eq!(edges, expected);
}

#[test]
fn in_two_levels_gateways_send_to_other_sites_first_and_then_inside() {
    // The root is at the second site, between two others; the site of rank 1 is the next one.
    let sites = Sites::of([0, 2, 1, 1, 1, 2, 0]);
    let edges = edges(3, Algorithm::TwoLevel, &sites);

    // The sites are numbered by their first ranks: of rank 0, 1 and 2.
    assert_eq!(sites.of_rank(3), Some(2));
    let expected = [
        vec![6],
        vec![5],
        vec![],
        vec![1, 0, 2, 4],
        vec![],
        vec![],
        vec![],
    ];
    assert_eq!(edges, expected);
}

#[test]
fn a_tree_is_as_deep_and_as_broad_at_its_root_as_its_size_has_binary_digits() {
    for world in 1..=64_u32 {
        let edges = edges(world / 3, Algorithm::Tree, &Sites::one(world));
        let root = world / 3;

        assert_eq!(depth(&edges, root), world.ilog2(), "{world} ranks");
        let broadest = edges.iter().map(Vec::len).max();
        let of_root = world.next_power_of_two().ilog2() as usize;
        assert_eq!(edges[root as usize].len(), of_root, "{world} ranks");
        assert_eq!(broadest, Some(of_root));
    }
}

#[test]
fn one_more_rank_waits_before_a_rank_than_before_the_one_that_sends_to_it() {
    for world in 1..=20 {
        for sites in layouts(world) {
            for algorithm in [Algorithm::Chain, Algorithm::Tree, Algorithm::TwoLevel] {
                let root = world / 2;
                let kind = CollectiveKind::Broadcast { root };
                let waits = |rank| Plan::among(kind, algorithm, &sites, rank).unwrap().waits(0);
                assert_eq!(waits(root), 0);
                for (rank, children) in (0..).zip(edges(root, algorithm, &sites)) {
                    let expected = match rank == root {
                        true => 0,
                        false => waits(rank) + 1,
                    };
                    assert!(children.iter().all(|child| waits(*child) == expected));
                }
            }
        }
    }
}

#[test]
fn in_two_levels_the_buffer_enters_each_other_site_once_and_that_of_the_root_never() {
    for world in 2..=64 {
        for sites in layouts(world) {
            for root in [0, world / 2, world - 1] {
                let mut entered: BTreeMap<u32, u32> = BTreeMap::new();
                let edges = edges(root, Algorithm::TwoLevel, &sites);
                for (rank, children) in (0..).zip(&edges) {
                    let site = |rank| sites.of_rank(rank).unwrap();
                    for child in children.iter().filter(|child| site(**child) != site(rank)) {
                        *entered.entry(site(*child)).or_default() += 1;
                    }
                }
                let others = (0..sites.count()).filter(|site| Some(*site) != sites.of_rank(root));
                assert_eq!(entered, others.map(|site| (site, 1)).collect());
            }
        }
    }
}

#[test]
fn at_one_site_and_with_one_rank_at_each_two_levels_are_a_tree() {
    for world in [3, 6, 8, 13] {
        for root in 0..world {
            let tree = edges(root, Algorithm::Tree, &Sites::one(world));
            for sites in [Sites::one(world), Sites::of(0..world)] {
                assert_eq!(edges(root, Algorithm::TwoLevel, &sites), tree);
            }
        }
    }
}

#[test]
fn only_what_the_root_sends_is_sent_at_once_and_two_levels_know_their_sites() {
    let sites = Sites::of([0, 0, 1, 1, 1, 0, 2, 2]);
    let shards = Shards::of_ranks(8, 8);
    let kind = CollectiveKind::Broadcast { root: 4 };
    for algorithm in [Algorithm::Tree, Algorithm::TwoLevel] {
        let in_levels = algorithm == Algorithm::TwoLevel;
        let mut from = BTreeSet::new();
        for rank in 0..8 {
            let plan = Plan::among(kind, algorithm, &sites, rank).unwrap();
            assert_eq!(plan.algorithm(), algorithm);
            assert_eq!(plan.sites(), in_levels.then_some(&sites));
            for flow in plan.arrivals(shards.stripe(1, 0)) {
                assert_eq!(flow.sent_at_once, flow.from == 4);
                assert_eq!((flow.step, flow.after), (0, After::Nothing));
                from.insert(flow.from);
            }
        }
        assert!(from.len() > 1, "others than the root send as well");
        let nobody = CollectiveKind::Broadcast { root: 8 };
        assert_eq!(Plan::among(nobody, algorithm, &sites, 0), None);
    }
}

#[test]
fn the_tree_of_the_largest_world_overflows_nothing() {
    let shards = Shards::of_ranks(u64::MAX, 0);
    let stripe = shards.stripe(1, 0);
    for (root, rank) in [(0, u32::MAX - 1), (u32::MAX - 1, 0), (7, 7), (7, 8)] {
        let kind = CollectiveKind::Broadcast { root };
        let plan = Plan::new(kind, Algorithm::Tree, u32::MAX, rank).unwrap();
        let sent = plan.contributions(stripe).map(|own| own.to.rank);
        let onward = plan.arrivals(stripe).flat_map(|flow| flow.onward);
        let all: BTreeSet<u32> = sent.chain(onward.map(|to| to.rank)).collect();
        assert!(all.iter().all(|child| *child < u32::MAX));
        assert_eq!(all.len(), if rank == root { 32 } else { 0 });
    }
}
