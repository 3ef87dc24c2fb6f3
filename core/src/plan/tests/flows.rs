//! What holds of the flows of every plan, and of some.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::ops::Range;

use proptest::prelude::*;

use super::*;
use crate::lengths::Lengths;

/// So many ranks, at up to six sites.
fn sites(world: core::ops::RangeInclusive<usize>) -> impl Strategy<Value = Sites> {
    prop::collection::vec(0..6_u8, world).prop_map(Sites::of)
}

/// What each of up to 64 ranks has: nothing, a little or much.
fn lengths() -> impl Strategy<Value = Vec<u64>> {
    let length = prop_oneof![2 => Just(0_u64), 3 => 0..5_u64, 1 => 0..200_u64];
    prop::collection::vec(length, 1..=64)
}

/// Turns in an order that has nothing to do with that of the ranks.
fn shuffled(world: u32, shuffle: u64) -> Turns {
    // Odd factors lead to different numbers.
    let peer = |rank: u32| PeerId((u64::from(rank) + 1).wrapping_mul(shuffle | 1));
    Turns::of_peers(&(0..world).map(peer).collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(crate::cases::cases(200))]

    #[test]
    fn every_plan_keeps_the_promise_of_its_kind(
        pick in any::<usize>(), root in any::<u32>(), sites in sites(1..=64), count in 0..300_u64,
        stripes in 1..=9_u16, stripe in any::<u16>(), hurry in any::<bool>(), shuffle in any::<u64>()
    ) {
        let world = sites.world();
        let turns = shuffled(world, shuffle);
        let shards = Shards::of_ranks(count, world);
        let stripe = shards.stripe(stripes, stripe % stripes);
        let plans = plans(root % world);
        let (kind, algorithm) = plans[pick % plans.len()];
        keeps_its_promise(Operation { kind, algorithm, sites: &sites, stripe, turns: Some(&turns) }, hurry)?;
    }

    /// However much each rank has, each has all of it in the end.
    #[test]
    fn shards_of_any_lengths_are_gathered_by_every_plan_that_gathers(
        pick in any::<usize>(), lengths in lengths(), by_rank in prop::collection::vec(0..6_u8, 64),
        stripes in 1..=9_u16, stripe in any::<u16>(), hurry in any::<bool>()
    ) {
        let sites = Sites::of(by_rank.into_iter().take(lengths.len()));
        let shards = Shards::of_lengths(&Lengths(lengths)).unwrap();
        let plans: Vec<_> = plans(0).into_iter().filter(|(kind, _)| *kind == GATHER_V).collect();
        let (kind, algorithm) = plans[pick % plans.len()];
        let stripe = shards.stripe(stripes, stripe % stripes);
        keeps_its_promise(Operation { kind, algorithm, sites: &sites, stripe, turns: None }, hurry)?;
    }

    /// Another rank may have less: what it has would not tell how far the own contribution has come.
    #[test]
    fn nothing_comes_back_of_what_each_rank_has_as_much_of_as_it_likes(
        pick in any::<usize>(), lengths in lengths(), rank in any::<u32>()
    ) {
        let sites = Sites::one(lengths.len() as u32);
        let shards = Shards::of_lengths(&Lengths(lengths)).unwrap();
        let plans: Vec<_> = plans(0).into_iter().filter(|(kind, _)| *kind == GATHER_V).collect();
        let (kind, algorithm) = plans[pick % plans.len()];
        let plan = Plan::among(kind, algorithm, &sites, rank % sites.world()).unwrap();
        prop_assert!(plan.arrivals(shards.stripe(1, 0)).all(|flow| !flow.comes_back));
    }

    #[test]
    fn nothing_is_overwritten_before_it_was_contributed(
        world in 2..=64_u32, rank in 0..64_u32, count in 64..10_000_u64
    ) {
        let plan = all_reduce(Algorithm::Ring, world, rank % world).unwrap();
        let shards = Shards::of_ranks(count, world);
        let own = only_contribution(plan, shards.stripe(1, 0)).range;
        let flows: Vec<Arrival<'_>> = plan.arrivals(shards.stripe(1, 0)).collect();

        for flow in flows.iter().filter(|flow| flow.action == Action::Copy) {
            if flow.range == own {
                prop_assert_eq!(flow.after, After::Contribution(0));
                prop_assert!(flow.comes_back);
            } else {
                let combined = flows
                    .iter()
                    .find(|known| known.range == flow.range && known.action.adds());
                let step = combined.map(|known| known.step);
                prop_assert_eq!(Some(flow.after), step.map(After::Arrival));
            }
        }
    }

    #[test]
    fn steps_have_no_gaps_and_what_goes_around_a_ring_bears_the_next_number(
        algorithm in prop::sample::select(&ALGORITHMS[..]), world in 2..=300_u32, rank in 0..300_u32
    ) {
        let plan = all_reduce(algorithm, world, rank % world).unwrap();
        let last = plan.steps() - 1;
        let shards = Shards::of_ranks(1000, world);
        let stripe = shards.stripe(1, 0);

        for (at, mut flow) in (0..).zip(plan.arrivals(stripe)) {
            prop_assert_eq!(flow.step, at);
            prop_assert_eq!(plan.arrival(stripe, at), Some(flow.clone()));
            if algorithm.reach() == Reach::Ring {
                let step = (at < last).then_some(at + 1);
                prop_assert_eq!(flow.onward.next().map(|to| to.step), step);
                prop_assert_eq!(flow.onward.next(), None);
            }
        }
    }

    /// Who sends what a rank expects means that rank by it.
    #[test]
    fn each_flow_has_one_counterpart(
        pick in any::<usize>(), root in any::<u32>(), sites in sites(2..=32), rank in 0..32_u32,
        count in 0..10_000_u64, shuffle in any::<u64>()
    ) {
        let world = sites.world();
        let rank = rank % world;
        let shards = Shards::of_ranks(count, world);
        let plans = plans(root % world);
        let (kind, algorithm) = plans[pick % plans.len()];
        let turns = shuffled(world, shuffle);
        let operation = Operation {
            kind, algorithm, sites: &sites, stripe: shards.stripe(1, 0), turns: Some(&turns),
        };
        let sent: Vec<Vec<_>> = (0..world).map(|rank| sends(operation, rank)).collect();
        let plan = operation.plan(rank);

        for flow in plan.arrivals(operation.stripe) {
            let to = Target { rank, step: flow.step };
            let meant = sent[flow.from as usize].iter().filter(|(known, _)| *known == to);
            let meant: Vec<_> = meant.map(|(_, range)| range.clone()).collect();
            prop_assert_eq!(meant, [flow.range]);
        }
        let to_rank = sent.iter().flatten().filter(|(to, _)| to.rank == rank);
        prop_assert_eq!(to_rank.count(), plan.steps() as usize);
    }

    /// What leaves together leaves once all of it is there.
    #[test]
    fn what_is_sent_at_once_are_contributions_that_leave_with_nothing_but_contributions(
        pick in any::<usize>(), root in any::<u32>(), sites in sites(2..=32), rank in 0..32_u32,
        shuffle in any::<u64>()
    ) {
        let world = sites.world();
        let rank = rank % world;
        let shards = Shards::of_ranks(1000, world);
        let plans = plans(root % world);
        let (kind, algorithm) = plans[pick % plans.len()];
        let turns = shuffled(world, shuffle);
        let operation = Operation {
            kind, algorithm, sites: &sites, stripe: shards.stripe(1, 0), turns: Some(&turns),
        };
        for flow in operation.plan(rank).arrivals(operation.stripe) {
            let sender = operation.plan(flow.from);
            let own: Vec<Target> = sender.contributions(operation.stripe).map(|own| own.to).collect();
            let with = sender.leaves_with(flow.step);
            let leaves_with_it = |to: &Target| {
                to.rank == rank && (to.step == flow.step || with.is_some() && sender.leaves_with(to.step) == with)
            };
            let sent = sends(operation, flow.from);
            let mut message = sent.iter().map(|(to, _)| to).filter(|to| leaves_with_it(to));
            prop_assert_eq!(flow.sent_at_once, message.all(|to| own.contains(to)));
        }
    }

    /// Each message of the rounds is one of 2·⌈log₂ N⌉, or of half as many where contributions are gathered.
    #[test]
    fn in_rounds_a_rank_sends_as_few_messages_as_there_are_rounds_and_no_byte_more_than_a_ring(
        world in 2..=300_u32, rank in 0..300_u32, count in 0..10_000_u64
    ) {
        let rank = rank % world;
        let shards = Shards::of_ranks(count, world);
        let sites = Sites::one(world);
        let rounds = world.next_power_of_two().ilog2() as usize;
        let operation = |algorithm| Operation {
            kind: CollectiveKind::AllReduce,
            algorithm,
            sites: &sites,
            stripe: shards.stripe(1, 0),
            turns: None,
        };
        let messages = |algorithm| {
            let plan = operation(algorithm).plan(rank);
            let sent = sends(operation(algorithm), rank);
            let message = |(to, _): &(Target, _)| (to.rank, plan.leaves_with(to.step).unwrap());
            sent.iter().map(message).collect::<BTreeSet<_>>().len()
        };
        prop_assert_eq!(messages(GATHERED), rounds);
        prop_assert_eq!(messages(Algorithm::Circulant), 2 * rounds);

        let flows = |algorithm| sends(operation(algorithm), rank).len();
        prop_assert_eq!(flows(Algorithm::Circulant), flows(Algorithm::Ring));
        prop_assert_eq!(flows(GATHERED), flows(WHOLE));
    }

    #[test]
    fn a_direct_exchange_sends_what_a_ring_sends_and_each_result_after_its_contribution(
        world in 2..=64_u32, rank in 0..64_u32, count in 0..10_000_u64
    ) {
        let shards = Shards::of_ranks(count, world);
        let stripe = shards.stripe(1, 0);
        let plan = all_reduce(Algorithm::Direct, world, rank % world).unwrap();
        let own: Vec<Range<u64>> = plan.contributions(stripe).map(|own| own.range).collect();
        let kept = plan.kept(stripe).next().unwrap().range;

        let parts = own.iter().cloned().chain([kept.clone()]);
        let mut parts: Vec<Range<u64>> = parts.collect();
        parts.sort_by_key(|range| (range.start, range.end));
        cut::tiles(0..count, parts.into_iter())?;
        for flow in plan.arrivals(stripe).filter(|flow| flow.action == Action::Copy) {
            prop_assert!(flow.comes_back);
            prop_assert!(matches!(flow.after, After::Contribution(nth) if own[nth as usize] == flow.range));
        }
    }

    #[test]
    fn in_every_step_of_a_ring_the_ranks_together_receive_each_element_once(
        world in 2..=64_u32, step in any::<u32>(), count in 0..1_000_000_u64
    ) {
        let shards = Shards::of_ranks(count, world);
        let stripe = shards.stripe(1, 0);
        let step = step % (2 * (world - 1));
        let plan = |rank| all_reduce(Algorithm::Ring, world, rank).unwrap();
        let received = |rank| plan(rank).arrival(stripe, step).unwrap().range;
        let mut together: Vec<Range<u64>> = (0..world).map(received).collect();
        together.sort_by_key(|range| (range.start, range.end));

        cut::tiles(0..count, together.into_iter())?;
    }

    #[test]
    fn whole_buffers_take_half_as_many_steps_as_the_ring(
        world in 1..=300_u32, rank in 0..300_u32
    ) {
        let steps = |algorithm| all_reduce(algorithm, world, rank % world).unwrap().steps();

        prop_assert_eq!(2 * steps(WHOLE), steps(Algorithm::Ring));
    }
}
