//! Stripes, chunks and frames tile what they are cut from.

use alloc::vec::Vec;
use core::ops::Range;

use proptest::prelude::*;

use super::super::cut::*;
use crate::element::ElementType;

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
    assert_eq!(frames(u64::MAX - 3..u64::MAX, 2).count(), 2);
}

/// Checks that the parts follow each other without a gap and are balanced.
pub(super) fn tiles(
    whole: Range<u64>,
    parts: impl Iterator<Item = Range<u64>>,
) -> Result<(), TestCaseError> {
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
    #![proptest_config(crate::cases::cases(200))]

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
