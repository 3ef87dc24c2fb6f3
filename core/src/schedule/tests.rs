//! The ring, simulated: what is computed is not numbers but sets of contributors.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use proptest::prelude::*;

use super::*;

/// For each element of a rank's buffer, one bit per rank whose contribution it holds.
type Contributors = Vec<u64>;

fn indices(range: &Range<u64>) -> Range<usize> {
    range.start as usize..range.end as usize
}

/// Runs all ranks through the schedule, step by step. Fails where a contribution is added twice,
/// where sender and receiver of a step disagree, or where an element is incomplete at the end.
fn simulate(world: u32, count: u64, stripes: u16) -> Result<(), TestCaseError> {
    let mut buffers: Vec<Contributors> = (0..world)
        .map(|rank| vec![1 << rank; count as usize])
        .collect();
    for stripe in 0..stripes {
        simulate_stripe(&mut buffers, stripe_range(count, stripes, stripe))?;
    }
    let everybody = u64::MAX >> (64 - world);
    for buffer in &buffers {
        prop_assert!(buffer.iter().all(|held| *held == everybody));
    }
    Ok(())
}

fn simulate_stripe(buffers: &mut [Contributors], stripe: Range<u64>) -> Result<(), TestCaseError> {
    let world = buffers.len() as u32;
    let mut ranks: Vec<_> = (0..world)
        .map(|rank| steps(world, rank, stripe.clone()))
        .collect();
    loop {
        let together: Vec<Option<Step>> = ranks.iter_mut().map(Iterator::next).collect();
        if together.iter().all(Option::is_none) {
            return Ok(());
        }
        let sent: Vec<Contributors> = together
            .iter()
            .zip(&*buffers)
            .map(|(step, buffer)| buffer[indices(&step.as_ref().unwrap().send)].to_vec())
            .collect();
        for (rank, step) in together.iter().flatten().enumerate() {
            let previous = (rank + buffers.len() - 1) % buffers.len();
            prop_assert_eq!(&step.receive, &together[previous].as_ref().unwrap().send);
            let elements = &mut buffers[rank][indices(&step.receive)];
            for (here, arrived) in elements.iter_mut().zip(&sent[previous]) {
                if step.phase == Phase::Reduce {
                    prop_assert_eq!(*here & arrived, 0, "added twice");
                    *here |= arrived;
                } else {
                    *here = *arrived;
                }
            }
        }
    }
}

#[test]
fn in_every_small_world_everybody_ends_with_every_contribution_once() {
    for world in 1..=9 {
        for count in 0..=20 {
            for stripes in 1..=5 {
                simulate(world, count, stripes).unwrap();
            }
        }
    }
}

#[test]
fn more_peers_than_elements_still_reduce() {
    for count in 0..4 {
        simulate(64, count, 1).unwrap();
        simulate(64, count, 3).unwrap();
    }
}

#[test]
fn a_peer_alone_has_nothing_to_do() {
    assert_eq!(steps(1, 0, 0..10).count(), 0);
    assert_eq!(steps(0, 0, 0..10).count(), 0);
    assert_eq!(steps(3, 3, 0..10).count(), 0);
}

#[test]
fn the_schedule_of_three_ranks_is_the_published_one() {
    let ranges: Vec<_> = steps(3, 1, 0..7)
        .map(|step| (step.step, step.phase, step.send, step.receive))
        .collect();

    assert_eq!(
        ranges,
        [
            (0, Phase::Reduce, 3..5, 0..3),
            (1, Phase::Reduce, 0..3, 5..7),
            (2, Phase::Gather, 5..7, 3..5),
            (3, Phase::Gather, 3..5, 0..3),
        ]
    );
}

#[test]
fn the_first_elements_of_a_chunk_are_frames_of_full_length() {
    let cut: Vec<_> = frames(10..21, frame_elements(8, 39)).collect();

    assert_eq!(cut, [10..14, 14..18, 18..21]);
}

#[test]
fn a_frame_holds_at_least_one_element_and_an_empty_chunk_has_no_frame() {
    assert_eq!(frame_elements(8, 1), 1);
    assert_eq!(frame_elements(0, 64), 1);
    assert_eq!(frames(5..7, 0).collect::<Vec<_>>(), [5..6, 6..7]);
    assert_eq!(frames(5..5, 8).count(), 0);
}

#[test]
fn small_buffers_use_few_lanes_and_large_ones_all() {
    let stripes = |bytes| stripes_for(bytes, ElementType::U8, 16, STRIPE_BYTES_MIN);

    assert_eq!(stripes(0), 1);
    assert_eq!(stripes(1024 * 1024 - 1), 1);
    assert_eq!(stripes(1024 * 1024), 2);
    assert_eq!(stripes(1 << 30), 16);
    assert_eq!(
        stripes_for(u64::MAX, ElementType::F64, u16::MAX, 1),
        u16::MAX
    );
    assert_eq!(stripes_for(u64::MAX, ElementType::F64, 0, 0), 1);
    assert_eq!(
        stripes_for(256 * 1024, ElementType::F32, 16, STRIPE_BYTES_MIN),
        2
    );
}

#[test]
fn the_longest_buffer_and_nonsensical_numbers_overflow_nothing() {
    let end = stripe_range(u64::MAX, u16::MAX, u16::MAX - 1).end;
    let whole = chunk_range(&(0..u64::MAX), u32::MAX, u32::MAX - 1).end;

    assert_eq!((end, whole), (u64::MAX, u64::MAX));
    assert!(stripe_range(100, 0, 0).is_empty());
    assert!(stripe_range(100, 4, 4).is_empty());
    assert!(chunk_range(&(5..100), 3, u32::MAX).is_empty());
    assert!(steps(u32::MAX, u32::MAX - 1, 0..u64::MAX).next().is_some());
    assert_eq!(frames(u64::MAX - 3..u64::MAX, 2).count(), 2);
}

/// Checks that the parts follow each other without a gap and are balanced.
fn tiles(whole: Range<u64>, parts: impl Iterator<Item = Range<u64>>) -> Result<(), TestCaseError> {
    let parts: Vec<_> = parts.collect();
    let lengths = parts.iter().map(|part| part.end - part.start);
    let (longest, shortest) = (lengths.clone().max(), lengths.min());
    let mut at = whole.start;
    for part in parts {
        prop_assert_eq!(part.start, at);
        at = part.end;
    }
    prop_assert_eq!(at, whole.end);
    prop_assert!(longest.unwrap_or(0) - shortest.unwrap_or(0) <= 1);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_element_is_reduced_exactly_once_per_contributor(
        world in 1..=64_u32, count in 0..600_u64, stripes in 1..=9_u16
    ) {
        simulate(world, count, stripes)?;
    }

    #[test]
    fn what_a_step_sends_is_what_the_step_before_received(
        world in 1..=64_u32, rank in 0..64_u32, start in 0..1000_u64, length in 0..1_000_000_u64
    ) {
        let rank = rank % world;
        let own = steps(world, rank, start..start + length);

        prop_assert_eq!(own.clone().count() as u32, 2 * (world - 1));
        for (at, step) in own.clone().enumerate() {
            prop_assert_eq!(step.step as usize, at);
        }
        for (before, after) in own.clone().zip(own.skip(1)) {
            prop_assert_eq!(before.receive, after.send);
        }
    }

    #[test]
    fn in_every_step_the_ranks_together_send_each_element_once(
        world in 2..=64_u32, step in any::<u32>(), start in 0..1000_u64, length in 0..1_000_000_u64
    ) {
        let step = step % (2 * (world - 1));
        let sent = |rank| steps(world, rank, start..start + length).nth(step as usize).unwrap().send;
        let mut together: Vec<Range<u64>> = (0..world).map(sent).collect();
        together.sort_by_key(|range| (range.start, range.end));

        tiles(start..start + length, together.into_iter())?;
    }

    #[test]
    fn stripes_tile_the_buffer_and_chunks_tile_the_stripe(
        count in any::<u64>(), stripes in 1..300_u16, stripe in any::<u16>(), world in 1..300_u32
    ) {
        tiles(0..count, (0..stripes).map(|stripe| stripe_range(count, stripes, stripe)))?;

        let stripe = stripe_range(count, stripes, stripe % stripes);
        tiles(stripe.clone(), (0..world).map(|chunk| chunk_range(&stripe, world, chunk)))?;
    }

    #[test]
    fn frames_follow_each_other_and_fit(
        start in 0..1000_u64, length in 0..5000_u64,
        element in prop::sample::select(&ElementType::ALL[..]), bytes_max in 8..4096_usize
    ) {
        let range = start..start + length;
        let mut at = range.start;

        for frame in frames(range.clone(), frame_elements(element.size(), bytes_max)) {
            prop_assert_eq!(frame.start, at);
            prop_assert!(!frame.is_empty());
            prop_assert!((frame.end - frame.start) * element.size() as u64 <= bytes_max as u64);
            at = frame.end;
        }
        prop_assert_eq!(at, range.end);
    }
}
