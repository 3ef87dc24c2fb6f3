//! A fast checksum, against bits that flip on their way.
//!
//! Words are little-endian `u32`, and a block is [`LANES`] words; the last block is filled up with zeros. Word `j` of
//! every block goes to lane `j`, which has two values: the *parity*, in which all words of the lane are XORed, and the
//! *trail*, which [`turns`](turn) before each word is XORed into it. At the end both values of all lanes are folded
//! into 64 bits in the same way, beginning with the length.
//!
//! # What is detected
//! Everything is linear over GF(2): flipped bits change the sum by a value that depends on their positions alone and
//! not on the content. So the tests prove what follows by examining the positions, and not by examples. Turning is a
//! multiplication by a primitive element of a field of 2³² elements, so a word contributes something else to its
//! lane's trail at each of 2³² − 1 positions.
//!
//! - One wrong word changes the parity, whatever its bits.
//! - Two wrong words of a lane change the parity, or, if their errors are the same, the trail.
//! - All bursts, up to 40 bits long and wherever they begin, and all pairs of flipped bits change the sum.
//! - Other errors change the sum with a probability of 1 − 2⁻⁶⁴.
//!
//! Against somebody who changes bytes on purpose it is of no use.

use crate::isa::{Isa, run};

/// Words that are processed side by side.
const LANES: usize = 32;
const WORD_BYTES: usize = size_of::<u32>();
const BLOCK_BYTES: usize = LANES * WORD_BYTES;

/// A 64-bit checksum of `bytes`, which may start at any address.
///
/// It detects every single flipped bit, every two of them, and every burst of up to 40 bits, and any other accident
/// with a probability of 1 − 2⁻⁶⁴. It depends on the position of each byte and on the length. It is no protection
/// against attacks.
///
/// ```
/// use pccl_kernels::checksum;
///
/// assert_ne!(checksum(b"gradients"), checksum(b"gradienus"));
/// assert_ne!(checksum(&[0; 8]), checksum(&[0; 9]));
/// ```
#[must_use]
pub fn checksum(bytes: &[u8]) -> u64 {
    checksum_with(Isa::best(), bytes)
}

/// As [`checksum`], with the loops of one instruction set.
pub(crate) fn checksum_with(isa: Isa, bytes: &[u8]) -> u64 {
    run!(isa, sum(bytes))
}

#[inline(always)]
fn sum(bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks::<BLOCK_BYTES>();
    let mut lanes = Lanes {
        parities: [0; LANES],
        trails: [0; LANES],
    };
    for block in blocks {
        lanes.absorb(block);
    }
    if !rest.is_empty() {
        let mut last = [0; BLOCK_BYTES];
        last[..rest.len()].copy_from_slice(rest);
        lanes.absorb(&last);
    }
    lanes.fold(bytes.len() as u64)
}

#[derive(Clone, Copy)]
struct Lanes {
    parities: [u32; LANES],
    trails: [u32; LANES],
}

impl Lanes {
    #[inline(always)]
    fn absorb(&mut self, block: &[u8; BLOCK_BYTES]) {
        let (words, _) = block.as_chunks::<WORD_BYTES>();
        for ((parity, trail), word) in self.parities.iter_mut().zip(&mut self.trails).zip(words) {
            let word = u32::from_le_bytes(*word);
            *parity ^= word;
            *trail = turn(*trail) ^ word;
        }
    }

    #[inline(always)]
    fn fold(&self, length: u64) -> u64 {
        let both = self.parities.iter().zip(&self.trails);
        both.fold(length, |sum, (parity, trail)| {
            turn_wide(sum) ^ (u64::from(*trail) << 32 | u64::from(*parity))
        })
    }
}

/// Multiplies by a primitive element of a field of 2³² elements: two shifts, of which the second one brings in the
/// sign. Of all pairs of distances, only this one and 1 and 27 give a map that runs through all values but zero.
#[inline(always)]
const fn turn(word: u32) -> u32 {
    (word << 1) ^ (word.cast_signed() >> 28).cast_unsigned()
}

/// The same in a field of 2⁶⁴ elements, with more shifts, so that few steps mix many bits.
#[inline(always)]
const fn turn_wide(sum: u64) -> u64 {
    let sum = sum ^ (sum << 13);
    let sum = sum ^ (sum >> 7);
    sum ^ (sum << 17)
}

#[cfg(test)]
mod tests;
