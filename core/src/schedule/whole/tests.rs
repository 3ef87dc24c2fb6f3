//! Whole contributions, simulated: what is added is not numbers but the order in which they were added.

use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::element::{CollectiveSpec, ElementType, Quantization, ReduceOp};
use crate::schedule::{Schedule, steps};
use crate::wire::{FRAME_PAYLOAD_MAX, WHOLE_BUFFER_MAX};

/// Takes all ranks through the schedule, step by step, each knowing whose contribution a frame is only
/// from its own schedule. Fails where sender and receiver of a step disagree, where a rank sends what
/// it has not got, or where one arrives twice. Returns for each rank whose contributions it added, in
/// the order in which it did.
fn simulate(world: u32) -> Result<Vec<Vec<u32>>, TestCaseError> {
    let ranks: Vec<Whole> = (0..world).map(|rank| Whole::new(world, rank)).collect();
    let mut held: Vec<Vec<Option<u32>>> = vec![vec![None; world as usize]; world as usize];
    for ((rank, schedule), held) in (0..).zip(&ranks).zip(&mut held) {
        held[schedule.turn(rank).unwrap() as usize] = Some(rank);
    }
    for number in 0..world.saturating_sub(1) {
        let sent: Vec<Option<u32>> = ranks
            .iter()
            .zip(&held)
            .map(|(rank, held)| held[rank.turn(rank.step(number).unwrap().send).unwrap() as usize])
            .collect();
        for (at, rank) in ranks.iter().enumerate() {
            let previous = (at + ranks.len() - 1) % ranks.len();
            let receive = rank.step(number).unwrap().receive;
            prop_assert_eq!(sent[previous], Some(receive));
            let place = &mut held[at][rank.turn(receive).unwrap() as usize];
            prop_assert_eq!(*place, None, "arrived twice");
            *place = sent[previous];
        }
    }
    let whole = |held: Vec<Option<u32>>| held.into_iter().collect::<Option<Vec<u32>>>();
    let added: Option<Vec<Vec<u32>>> = held.into_iter().map(whole).collect();
    added.ok_or_else(|| TestCaseError::fail("a contribution never arrived"))
}

fn spec(element: ElementType, count: u64) -> CollectiveSpec {
    CollectiveSpec {
        op: ReduceOp::Sum,
        element,
        count,
        quantization: Quantization::None,
    }
}

#[test]
fn in_every_small_world_everybody_adds_every_contribution_once_in_the_order_of_the_ranks() {
    for world in 0..=9 {
        let order: Vec<u32> = (0..world).collect();

        let added = simulate(world).unwrap();

        assert_eq!(added, vec![order; world as usize]);
    }
}

#[test]
fn the_schedule_of_four_ranks_is_an_all_gather() {
    let sent_and_received: Vec<_> = Whole::new(4, 1)
        .steps()
        .map(|step| (step.step, step.send, step.receive))
        .collect();

    assert_eq!(sent_and_received, [(0, 1, 0), (1, 0, 3), (2, 3, 2)]);
}

#[test]
fn a_peer_alone_adds_its_own_and_who_does_not_exist_nothing() {
    let alone = Whole::new(1, 0);

    assert_eq!((alone.steps().count(), alone.turn(0)), (0, Some(0)));
    for nobody in [Whole::new(0, 0), Whole::new(3, 3)] {
        assert_eq!((nobody.steps().count(), nobody.turn(0)), (0, None));
    }
    assert_eq!(Whole::new(3, 0).turn(3), None);
    assert_eq!(Whole::new(3, 0).step(2), None);
}

#[test]
fn the_largest_world_overflows_nothing() {
    let last = Whole::new(u32::MAX, u32::MAX - 1);

    let step = last.step(u32::MAX - 2).unwrap();

    assert_eq!((step.send, step.receive), (1, 0));
    assert_eq!(last.turn(u32::MAX - 1), Some(u32::MAX - 1));
}

#[test]
fn small_buffers_travel_whole_and_no_others() {
    let of = |count, world| Schedule::of(&spec(ElementType::F32, count), world, WHOLE_BUFFER_MAX);
    let limit = WHOLE_BUFFER_MAX / 4;

    assert_eq!(of(0, 2), Schedule::Whole);
    assert_eq!(of(limit, 8), Schedule::Whole);
    assert_eq!(of(limit + 1, 2), Schedule::Ring);
    assert_eq!(of(u64::MAX, u32::MAX), Schedule::Ring);
}

#[test]
fn what_all_ranks_contribute_fits_into_one_frame_or_does_not_travel_whole() {
    let of = |count, world| Schedule::of(&spec(ElementType::U8, count), world, u64::MAX);
    let payload = FRAME_PAYLOAD_MAX as u64;

    assert_eq!(of(payload / 16, 16), Schedule::Whole);
    assert_eq!(of(payload / 16, 17), Schedule::Ring);
    assert_eq!(of(payload, 1), Schedule::Whole);
}

#[test]
fn quantized_buffers_never_travel_whole() {
    let quantized = CollectiveSpec {
        quantization: Quantization::Blockwise4,
        ..spec(ElementType::F32, 1)
    };

    assert_eq!(Schedule::of(&quantized, 2, u64::MAX), Schedule::Ring);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn every_rank_gets_every_contribution_once_and_all_add_in_one_order(world in 1..=64_u32) {
        let order: Vec<u32> = (0..world).collect();

        for added in simulate(world)? {
            prop_assert_eq!(&added, &order);
        }
    }

    #[test]
    fn what_a_step_sends_is_what_the_step_before_received(world in 1..=300_u32, rank in 0..300_u32) {
        let rank = rank % world;
        let own = Whole::new(world, rank).steps();

        prop_assert_eq!(own.clone().count() as u32, world - 1);
        prop_assert!(own.clone().next().is_none_or(|first| first.send == rank));
        for (at, step) in own.clone().enumerate() {
            prop_assert_eq!(step.step as usize, at);
            prop_assert_eq!(Whole::new(world, rank).step(step.step), Some(step));
        }
        for (before, after) in own.clone().zip(own.skip(1)) {
            prop_assert_eq!(before.receive, after.send);
        }
    }

    #[test]
    fn it_takes_half_as_many_steps_as_the_ring(world in 1..=300_u32, rank in 0..300_u32) {
        let rank = rank % world;

        let whole = Whole::new(world, rank).steps().count();

        prop_assert_eq!(2 * whole, steps(world, rank, 0..1).count());
    }

    #[test]
    fn a_buffer_that_travels_whole_still_does_where_it_is_shorter_or_the_world_smaller(
        count in 0..20_000_u64, less in 0..20_000_u64, world in 1..=64_u32, fewer in 0..64_u32,
        element in prop::sample::select(&ElementType::ALL[..])
    ) {
        let of = |count, world| Schedule::of(&spec(element, count), world, WHOLE_BUFFER_MAX);

        if of(count, world) == Schedule::Whole {
            let smaller = of(count.saturating_sub(less), world.saturating_sub(fewer).max(1));
            prop_assert_eq!(smaller, Schedule::Whole);
            prop_assert!(count * element.size() as u64 <= WHOLE_BUFFER_MAX);
        }
    }
}
