//! Stripes, chunks and frames tile what they are cut from.

use alloc::vec::Vec;
use core::ops::Range;

use proptest::prelude::*;

use super::super::cut::*;
use crate::element::ElementType;
use crate::id::PeerId;
use crate::lengths::Lengths;

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
    let longest = Shards::of_ranks(u64::MAX, 300);
    let end = longest.stripe(u16::MAX, u16::MAX - 1).whole().end;
    let last = longest.stripe(u16::MAX, u16::MAX - 1).chunk(299).end;

    assert_eq!((end, last), (u64::MAX, u64::MAX));
    let shards = Shards::of_ranks(100, 3);
    assert!(shards.stripe(0, 0).whole().is_empty());
    assert!(shards.stripe(4, 4).whole().is_empty());
    assert!(shards.stripe(1, 0).chunk(u32::MAX).is_empty());
    assert!(Shards::of_ranks(100, 0).of_rank(0).is_empty());
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
    fn shards_tile_the_buffer_and_chunks_tile_the_shard(
        count in any::<u64>(), stripes in 1..300_u16, rank in any::<u32>(), world in 1..300_u32
    ) {
        let shards = Shards::of_ranks(count, world);
        tiles(0..count, (0..world).map(|rank| shards.of_rank(rank)))?;

        let all_stripes = || (0..stripes).map(|stripe| shards.stripe(stripes, stripe));
        tiles(0..count, all_stripes().map(Stripe::whole))?;
        let shard = shards.of_rank(rank % world);
        tiles(shard, all_stripes().map(|stripe| stripe.chunk(rank % world)))?;
    }

    #[test]
    fn shards_of_lengths_adjoin_in_the_order_of_the_ranks_and_have_these_lengths(
        lengths in prop::collection::vec(any::<u64>(), 0..5), stripes in 1..300_u16
    ) {
        let total: u128 = lengths.iter().map(|length| u128::from(*length)).sum();
        let shards = Shards::of_lengths(&Lengths(lengths.clone()));
        prop_assert_eq!(shards.is_some(), total <= u128::from(u64::MAX));
        let mut at = 0;
        for (rank, length) in (0..).zip(lengths).filter(|_| shards.is_some()) {
            let shards = shards.as_ref().unwrap();
            prop_assert_eq!(shards.of_rank(rank), at..at + length);
            at += length;
            tiles(shards.of_rank(rank), (0..stripes).map(|nth| shards.stripe(stripes, nth).chunk(rank)))?;
        }
    }

    /// Also where peers have joined and left, and the ring has changed.
    #[test]
    fn shards_of_peers_are_in_the_order_of_their_numbers(
        count in any::<u64>(), peers in prop::collection::btree_set(any::<u64>(), 1..50), seed in any::<usize>()
    ) {
        let mut ring: Vec<PeerId> = peers.iter().copied().map(PeerId).collect();
        let sorted = Shards::of_peers(count, &ring);
        let places = ring.len();
        ring.rotate_left(seed % places);
        ring.swap(0, seed % places);
        let shards = Shards::of_peers(count, &ring);

        prop_assert_eq!(&sorted, &Shards::of_ranks(count, places as u32));
        for (rank, peer) in (0..).zip(&ring) {
            let place = peers.range(..peer.0).count() as u32;
            prop_assert_eq!(shards.of_rank(rank), sorted.of_rank(place));
        }
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
