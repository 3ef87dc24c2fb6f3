//! What holds of plans in two levels.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

/// Sites of five, eight and three ranks, which the ring mixes.
fn uneven() -> Sites {
    Sites::of([0, 1, 1, 0, 2, 1, 0, 1, 1, 2, 0, 1, 1, 2, 0, 1])
}

fn operation<'a>(kind: CollectiveKind<u32>, sites: &'a Sites, stripe: Stripe<'a>) -> Operation<'a> {
    Operation {
        kind,
        algorithm: Algorithm::TwoLevel,
        sites,
        stripe,
        turns: None,
    }
}

/// The same around a ring of the sites.
fn around<'a>(kind: CollectiveKind<u32>, sites: &'a Sites, stripe: Stripe<'a>) -> Operation<'a> {
    Operation {
        algorithm: Algorithm::TwoLevelRing,
        ..operation(kind, sites, stripe)
    }
}

/// The same with all sums at all sites.
fn everywhere<'a>(sites: &'a Sites, stripe: Stripe<'a>) -> Operation<'a> {
    Operation {
        algorithm: Algorithm::TwoLevelWhole,
        ..operation(CollectiveKind::AllReduce, sites, stripe)
    }
}

/// Asserts that all ranks end with sums of five elements that were added in these orders.
fn assert_added_in(orders: [[u32; 5]; 5], operation: Operation<'_>) {
    let sums = orders.map(Sum::from).into_iter();
    let expected: BTreeMap<u64, Sum> = (0..).zip(sums).collect();
    let results = simulate(operation, false).unwrap();
    assert_eq!(results, vec![expected; 5]);
}

/// How many elements leave each rank for other sites, and how many enter each site.
fn crossings(operation: Operation<'_>) -> (Vec<u64>, BTreeMap<u32, u64>) {
    let sites = operation.sites;
    let (mut leave, mut enter) = (Vec::new(), BTreeMap::new());
    for rank in 0..sites.world() {
        let mut left = 0;
        for (to, range) in sends(operation, rank) {
            let site = sites.of_rank(to.rank).unwrap();
            if Some(site) != sites.of_rank(rank) {
                left += range.end - range.start;
                *enter.entry(site).or_default() += range.end - range.start;
            }
        }
        leave.push(left);
    }
    (leave, enter)
}

#[test]
fn each_byte_enters_a_site_once_and_all_its_members_share_the_way_out() {
    let sites = uneven();
    let shards = Shards::of_ranks(16_000, 16);
    let stripe = shards.stripe(1, 0);

    let (leave, enter) = crossings(operation(GATHER, &sites, stripe));
    // What others have to tell: all but the own shards.
    assert_eq!(
        enter,
        BTreeMap::from([(0, 11_000), (1, 8_000), (2, 13_000)])
    );
    assert_eq!(leave, [2_000; 16]);

    let ring = around(GATHER, &sites, stripe);
    assert_eq!(crossings(ring).1, enter);

    let (leave, _) = crossings(operation(CollectiveKind::ReduceScatter, &sites, stripe));
    for (site, all) in (0..).zip([11_000, 8_000, 13_000]) {
        assert_shared(&leave, sites.members(site), all, 1000);
    }
}

/// Asserts that so many elements leave the members of a site together, and at most so many more one than another.
fn assert_shared(leave: &[u64], members: &[u32], all: u64, apart: u64) {
    let each: Vec<u64> = members.iter().map(|rank| leave[*rank as usize]).collect();
    assert_eq!(each.iter().sum::<u64>(), all);
    let (least, most) = (each.iter().min().unwrap(), each.iter().max().unwrap());
    assert!(most - least <= apart, "{members:?}: {least} and {most}");
}

#[test]
fn the_members_of_the_home_are_added_first_and_then_the_sums_of_the_other_sites() {
    let sites = Sites::of([0, 1, 0, 2, 1]);
    let shards = Shards::of_ranks(5, 5);
    let orders = [
        [0, 2, 1, 4, 3],
        [1, 4, 0, 2, 3],
        [0, 2, 1, 4, 3],
        [3, 0, 2, 1, 4],
        [1, 4, 0, 2, 3],
    ];
    let kind = CollectiveKind::AllReduce;
    assert_added_in(orders, operation(kind, &sites, shards.stripe(1, 0)));
    assert_added_in(orders, everywhere(&sites, shards.stripe(1, 0)));
}

/// What a rank sends, and how many ranks wait before that: its own contributions, what it forwards, and its sums.
fn sent_behind(operation: Operation<'_>, rank: u32) -> Vec<(Target, u32)> {
    let (plan, stripe) = (operation.plan(rank), operation.stripe);
    let own = plan.contributions(stripe).map(|own| (own.to, 0));
    let mut sent: Vec<(Target, u32)> = own.collect();
    let sums: Vec<_> = plan.kept(stripe).collect();
    let mut behind = vec![0; sums.len()];
    for flow in plan.arrivals(stripe) {
        let waits = plan.waits(flow.step) + 1;
        sent.extend(flow.onward.map(|to| (to, waits)));
        if let Action::Keep { sum, .. } = flow.action {
            behind[sum as usize] = waits.max(behind[sum as usize]);
        }
    }
    for (sum, kept) in sums.iter().enumerate() {
        sent.extend(kept.told.map(|to| (to, behind[sum])));
        if let Some(onto) = kept.onto {
            behind[onto.sum as usize] = behind[sum].max(behind[onto.sum as usize]);
        }
    }
    sent
}

#[test]
fn one_more_rank_waits_before_a_step_than_before_what_its_sender_makes_it_of() {
    let nobody_alone = [
        uneven(),
        Sites::of([0, 0, 1, 1]),
        Sites::of([0, 1, 1, 0, 2, 2, 3, 3, 2]),
    ];
    let some_alone = [Sites::of([0, 1, 0, 2, 1]), Sites::of([0, 1, 2, 2])];
    let all = nobody_alone.iter().map(|sites| (sites, true));
    let all = all.chain(some_alone.iter().map(|sites| (sites, false)));
    for (sites, is_exact) in all {
        let world = sites.world();
        let shards = Shards::of_ranks(1000, world);
        let stripe = shards.stripe(1, 0);
        let kinds = [
            CollectiveKind::AllReduce,
            CollectiveKind::ReduceScatter,
            GATHER,
        ];
        let operations = kinds
            .into_iter()
            .flat_map(|kind| [operation(kind, sites, stripe), around(kind, sites, stripe)]);
        for operation in operations.chain([everywhere(sites, stripe)]) {
            for rank in 0..world {
                for (to, behind) in sent_behind(operation, rank) {
                    let waits = operation.plan(to.rank).waits(to.step);
                    let is_right = waits == behind || !is_exact && waits > behind;
                    let Operation {
                        kind, algorithm, ..
                    } = operation;
                    assert!(
                        is_right,
                        "{kind:?}, {algorithm}: {rank} to {to:?}: {waits}, {behind}"
                    );
                }
            }
        }
    }
}

#[test]
fn with_all_sums_at_all_sites_each_byte_leaves_a_site_once_for_each_other_one() {
    let sites = uneven();
    let shards = Shards::of_ranks(16_000, 16);
    let (leave, enter) = crossings(everywhere(&sites, shards.stripe(1, 0)));

    let from_two_others = 2 * 16_000;
    assert_eq!(enter, (0..3).map(|site| (site, from_two_others)).collect());
    for site in 0..3 {
        // One shard to each of both.
        assert_shared(&leave, sites.members(site), from_two_others, 2000);
    }
}

#[test]
fn between_two_sites_all_sums_at_both_send_as_many_bytes_as_sums_and_results() {
    let sites = Sites::of([0, 1, 1, 0, 1, 0, 1]);
    let shards = Shards::of_ranks(70, 7);
    let kind = CollectiveKind::AllReduce;
    let (_, levels) = crossings(operation(kind, &sites, shards.stripe(1, 0)));
    let (_, whole) = crossings(everywhere(&sites, shards.stripe(1, 0)));

    assert_eq!(levels, whole);
}

/// So the ways into the sites are not all taken by the same sums at the same time.
#[test]
fn gateways_of_different_sites_send_their_sums_to_different_sites_first() {
    let sites = Sites::of((0..12).map(|rank| rank / 3));
    let shards = Shards::of_ranks(12, 12);
    let stripe = shards.stripe(1, 0);
    for rank in 0..12 {
        let plan = everywhere(&sites, stripe).plan(rank);
        let sum = plan.kept(stripe).next().unwrap();
        let told: Vec<u32> = sum.told.map(|to| to.rank / 3).collect();
        let behind = |by| (rank / 3 + by) % 4;
        assert_eq!(told, [1, 2, 3].map(behind));
    }
}

/// What a rank that is alone at its site contributes is all that this site adds.
#[test]
fn with_one_rank_at_each_site_all_sums_at_all_sites_are_an_exchange_of_whole_buffers() {
    let sites = Sites::of(0..5);
    let shards = Shards::of_ranks(50, 5);
    for rank in 0..5 {
        let plan = everywhere(&sites, shards.stripe(1, 0)).plan(rank);
        let contributions = plan.contributions(shards.stripe(1, 0));
        let bytes: u64 = contributions
            .map(|own| own.range.end - own.range.start)
            .sum();
        assert_eq!(bytes, 4 * 50);
        let arrivals = plan.arrivals(shards.stripe(1, 0));
        let mut arrivals = arrivals.map(|flow| (flow.action, flow.sent_at_once));
        assert!(arrivals.all(|(action, at_once)| matches!(action, Action::Keep { .. }) && at_once));
    }
}

#[test]
fn in_a_ring_of_sites_each_adds_its_members_and_then_the_sum_of_the_sites_before() {
    let sites = Sites::of([0, 1, 0, 2, 1]);
    let shards = Shards::of_ranks(5, 5);
    let orders = [
        [0, 2, 3, 1, 4],
        [1, 4, 0, 2, 3],
        [0, 2, 3, 1, 4],
        [3, 1, 4, 0, 2],
        [1, 4, 0, 2, 3],
    ];
    let kind = CollectiveKind::AllReduce;
    assert_added_in(orders, around(kind, &sites, shards.stripe(1, 0)));
}

/// So one connection fills the way out of a rank.
#[test]
fn among_equal_sites_a_rank_sends_to_one_other_site_only() {
    let sites = Sites::of((0..12).map(|rank| rank / 3));
    let shards = Shards::of_ranks(12, 12);
    for kind in [
        CollectiveKind::AllReduce,
        CollectiveKind::ReduceScatter,
        GATHER,
    ] {
        let ring = around(kind, &sites, shards.stripe(1, 0));
        for rank in 0..12 {
            let sent = sends(ring, rank).into_iter();
            let far = sent.filter(|(to, _)| to.rank / 3 != rank / 3);
            let far: BTreeSet<u32> = far.map(|(to, _)| to.rank).collect();
            assert_eq!(far, BTreeSet::from([(rank + 3) % 12]));
        }
    }
}

#[test]
fn a_ring_of_two_sites_is_the_same_exchange_as_a_mesh_of_them() {
    let sites = Sites::of([0, 1, 1, 0, 1, 0, 1]);
    let shards = Shards::of_ranks(70, 7);
    for kind in [
        CollectiveKind::AllReduce,
        CollectiveKind::ReduceScatter,
        GATHER,
    ] {
        let mesh = operation(kind, &sites, shards.stripe(1, 0));
        let ring = around(kind, &sites, shards.stripe(1, 0));
        for rank in 0..7 {
            let what = |operation| {
                let sent = sends(operation, rank).into_iter();
                sent.map(|(to, range)| (to.rank, to.step, range.start))
                    .collect::<BTreeSet<_>>()
            };
            assert_eq!(what(ring), what(mesh));
        }
    }
}

#[test]
fn at_one_site_and_with_one_rank_at_each_it_is_the_direct_exchange() {
    let shards = Shards::of_ranks(70, 7);
    let stripe = shards.stripe(1, 0);
    for kind in [
        CollectiveKind::AllReduce,
        CollectiveKind::ReduceScatter,
        GATHER,
    ] {
        for sites in [Sites::one(7), Sites::of(0..7)] {
            let direct = Operation {
                algorithm: Algorithm::Direct,
                ..operation(kind, &sites, stripe)
            };
            for rank in 0..7 {
                let what = |operation| {
                    let sent = sends(operation, rank).into_iter();
                    sent.map(|(to, range)| (to.rank, range.start))
                        .collect::<BTreeSet<_>>()
                };
                assert_eq!(what(operation(kind, &sites, stripe)), what(direct));
            }
        }
    }
}

proptest! {
    #![proptest_config(crate::cases::cases(200))]

    /// No member of a site carries more than one shard more than another.
    #[test]
    fn the_gateways_of_a_site_have_as_many_shards_each(
        by_rank in prop::collection::vec(0..6_u8, 2..=64)
    ) {
        let sites = Sites::of(by_rank);
        let world = sites.world();
        let sums = |rank| {
            let plan = Plan::among(CollectiveKind::ReduceScatter, Algorithm::TwoLevel, &sites, rank);
            plan.unwrap().kept(Shards::of_ranks(0, world).stripe(1, 0)).count()
        };
        for site in 0..sites.count() {
            let all = sites.members(site).iter().map(|rank| sums(*rank));
            let (least, most) = (all.clone().min().unwrap(), all.clone().max().unwrap());
            prop_assert!(most - least <= 1);
            if sites.members(site).len() > 1 {
                // Each shard has one gateway.
                prop_assert_eq!(all.sum::<usize>(), world as usize);
            }
        }
    }
}
