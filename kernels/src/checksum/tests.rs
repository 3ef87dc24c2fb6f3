//! What the checksum detects, proved for all positions where it is linear, and the same on every instruction set.

use std::collections::BTreeSet;
use std::ops::Range;

use super::{BLOCK_BYTES, checksum_with, turn, turn_wide};
use crate::checksum;
use crate::isa::Isa;

/// Bytes without a pattern.
fn noise(count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..count).map(|_| next()).collect()
}

/// By how much the sum of `length` bytes changes with each of these bits, whatever the bytes are.
fn changes(length: usize) -> Vec<u64> {
    changes_of(length, 0..8 * length)
}

/// The same of some of its bits.
fn changes_of(length: usize, bits: Range<usize>) -> Vec<u64> {
    let mut bytes = vec![0; length];
    let whole = checksum(&bytes);
    let change = |bit: usize| {
        bytes[bit / 8] ^= 1 << (bit % 8);
        let change = whole ^ checksum(&bytes);
        bytes[bit / 8] ^= 1 << (bit % 8);
        change
    };
    bits.map(change).collect()
}

/// Whether no combination of these values is zero.
fn are_independent(values: &[u64]) -> bool {
    let mut basis = [0_u64; 64];
    values.iter().all(|value| {
        let mut rest = *value;
        while rest != 0 {
            let place = &mut basis[rest.ilog2() as usize];
            if *place == 0 {
                *place = rest;
                return true;
            }
            rest ^= *place;
        }
        false
    })
}

#[test]
fn a_flipped_bit_changes_the_sum_in_the_same_way_whatever_the_bytes_are() {
    for length in [1, 7, 128, 129, 1000] {
        let expected = changes(length);
        let mut bytes = noise(length, 7);
        let whole = checksum(&bytes);
        for (bit, change) in expected.iter().enumerate() {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                checksum(&bytes) ^ whole,
                *change,
                "bit {bit} of {length} bytes"
            );
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn every_burst_of_forty_bits_is_detected_wherever_it_begins() {
    for length in [1, 3, 4, 5, 64, 127, 128, 129, 1024, 3000] {
        for (first, burst) in changes(length).windows(40).enumerate() {
            assert!(
                are_independent(burst),
                "bits from {first} of {length} bytes"
            );
        }
    }
}

#[test]
fn every_burst_is_detected_in_the_longest_frame() {
    let length = 256 * 1024;
    let across_words = (0..8 * length).step_by(32 * 1021);
    for middle in across_words.skip(1).chain([40, 8 * length - 40]) {
        let changes = changes_of(length, middle - 40..middle + 40);
        for (first, burst) in changes.windows(40).enumerate() {
            assert!(
                are_independent(burst),
                "{first} bits from {} on",
                middle - 40
            );
        }
    }
}

#[test]
fn every_burst_of_bits_that_are_sent_from_the_high_end_is_detected() {
    let high_first = |bit: usize| bit / 8 * 8 + (7 - bit % 8);
    for length in [1, 64, 129, 1024] {
        let changes = changes(length);
        let order: Vec<u64> = (0..changes.len())
            .map(|bit| changes[high_first(bit)])
            .collect();
        for (first, burst) in order.windows(40).enumerate() {
            assert!(
                are_independent(burst),
                "bits from {first} of {length} bytes"
            );
        }
    }
}

#[test]
fn every_one_and_every_two_flipped_bits_are_detected() {
    for length in [1, 8, 128, 1000, 64 * 1024] {
        let changes = changes(length);
        let distinct: BTreeSet<_> = changes.iter().chain(&[0]).collect();

        assert_eq!(distinct.len(), changes.len() + 1, "{length} bytes");
    }
}

#[test]
fn every_two_wrong_words_of_a_lane_are_detected() {
    // Their errors are the same, or the parity differs: then the trail does not return for as many blocks as there are.
    let mut turned = 1;
    for blocks in 1..=8 * 1024 {
        turned = turn(turned);
        let unit =
            |bit: u32| (0..blocks % 97 + 1).fold(1 << bit, |word, _| turn(word)) ^ (1 << bit);
        let differences: Vec<u64> = (0..32).map(|bit| u64::from(unit(bit))).collect();
        assert!(are_independent(&differences), "{blocks} blocks apart");
        assert_ne!(turned, 1, "after {blocks} blocks");
    }
}

/// The columns of a linear map.
type Map<const N: usize> = [u64; N];

fn apply<const N: usize>(map: &Map<N>, value: u64) -> u64 {
    let set = (0..N).filter(|bit| value >> bit & 1 == 1);
    set.fold(0, |sum, bit| sum ^ map[bit])
}

/// The map, applied so many times.
fn power<const N: usize>(map: &Map<N>, mut times: u64) -> Map<N> {
    let mut result = std::array::from_fn(|bit| 1 << bit);
    let mut square = *map;
    while times > 0 {
        if times & 1 == 1 {
            result = result.map(|column| apply(&square, column));
        }
        square = square.map(|column| apply(&square, column));
        times >>= 1;
    }
    result
}

/// Whether a map returns to where it began after 2ᴺ − 1 steps and not before.
fn runs_through_all<const N: usize>(map: &Map<N>, all: u64, primes: &[u64]) -> bool {
    let identity: Map<N> = std::array::from_fn(|bit| 1 << bit);
    power(map, all) == identity
        && primes
            .iter()
            .all(|prime| power(map, all / prime) != identity)
}

#[test]
fn turning_runs_through_all_values_but_zero() {
    let narrow: Map<32> = std::array::from_fn(|bit| u64::from(turn(1 << bit)));
    let wide: Map<64> = std::array::from_fn(|bit| turn_wide(1 << bit));

    assert!(runs_through_all(
        &narrow,
        u32::MAX.into(),
        &[3, 5, 17, 257, 65537]
    ));
    let primes = [3, 5, 17, 257, 641, 65537, 6_700_417];
    assert!(runs_through_all(&wide, u64::MAX, &primes));
}

#[test]
fn pieces_that_change_places_change_the_sum() {
    let bytes = noise(8 * BLOCK_BYTES, 3);
    for piece in [1, 4, 64, BLOCK_BYTES, 2 * BLOCK_BYTES] {
        let (count, whole) = (bytes.len() / piece, checksum(&bytes));
        for (a, b) in [(0, 1), (0, count - 1), (count / 2, count - 1)] {
            let mut swapped: Vec<_> = bytes.chunks(piece).collect();
            swapped.swap(a, b);
            if swapped[a] != swapped[b] {
                assert_ne!(
                    checksum(&swapped.concat()),
                    whole,
                    "{piece} bytes, {a} and {b}"
                );
            }
        }
    }
}

#[test]
fn zeros_of_every_length_have_sums_of_their_own() {
    let sums: BTreeSet<_> = (0..=3 * BLOCK_BYTES)
        .map(|length| checksum(&vec![0; length]))
        .collect();

    assert_eq!(sums.len(), 3 * BLOCK_BYTES + 1);
}

#[test]
fn sums_of_every_length_and_start_are_the_same_on_every_isa() {
    for length in (0..=3 * BLOCK_BYTES).chain([4096, 65_537]) {
        let start = length % 9;
        let bytes = noise(start + length, length as u64);
        let sums: BTreeSet<_> = (Isa::all().into_iter())
            .map(|isa| checksum_with(isa, &bytes[start..]))
            .collect();
        let sum = checksum(&bytes[start..]);

        assert_eq!(sums, BTreeSet::from([sum]), "{length} bytes");
    }
}

#[test]
fn the_sum_is_what_peers_on_other_machines_expect() {
    let bytes: Vec<u8> = (0..=255).cycle().take(1000).collect();
    let sums = [1, 200, 1000].map(|length| checksum(&bytes[..length]));

    assert_eq!(checksum(&[]), 0);
    assert_eq!(
        sums,
        [
            16_983_042_340_963_130_884,
            12_305_081_043_383_805_285,
            2_302_706_017_238_605_959
        ]
    );
}
