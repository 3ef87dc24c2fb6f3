//! Frames of blocks: each block of up to 64 elements has its own grid, and codes of 4 bits.
//!
//! A block consists of its two parameters and its codes, two in a byte, the first one in the low half. With an odd
//! number of codes the last half is 0.

use super::decoding::{self, lost, rarely, with_points};
use super::extent::extent;
use super::grid::{Codes, Extent, Grid, Kind};
use super::linear::{header_len, read_parameters, write_parameters};
use super::real::{Float, Real};
use super::steps::{Decoder, Encoder, Points};
use crate::number::Number;

/// Elements in a block.
pub(super) const BLOCK: usize = 64;
const HALF: usize = BLOCK / 2;
const CODES: Codes = Codes {
    least: 0,
    levels: 15,
};

/// Length of a whole block.
pub(super) const fn block_len<E: Float>() -> usize {
    header_len::<E>() + HALF
}

#[inline(always)]
pub(super) fn encode<E: Float>(elements: &[u8], encoded: &mut [u8]) {
    let (blocks, rest) = E::elements(elements).as_chunks::<BLOCK>();
    let (whole, last) = encoded_blocks_mut::<E>(encoded, blocks.len());
    for (block, encoded) in blocks.iter().zip(whole.chunks_exact_mut(block_len::<E>())) {
        encode_block::<E>(block, encoded);
    }
    if let Some(first) = rest.first() {
        let mut block = [*first; BLOCK];
        copy(rest, &mut block);
        encode_block::<E>(&block, last);
        // What stands for elements that are not there is cut off, up to half a byte.
        if let (Some(byte), true) = (last.last_mut(), rest.len() % 2 == 1) {
            *byte &= 0x0F;
        }
    }
}

#[inline(always)]
pub(super) fn reduce<E: Float>(
    op: impl Fn(E::Sum, E::Sum) -> E::Sum,
    own: &[u8],
    encoded: &[u8],
    sums: &mut [u8],
) {
    let (blocks, last_own) = E::elements(own).as_chunks::<BLOCK>();
    let (sums, last_sums) = E::Sum::elements_mut(sums).as_chunks_mut::<BLOCK>();
    let (whole, last) = encoded_blocks::<E>(encoded, blocks.len());
    let operands = whole.chunks_exact(block_len::<E>()).zip(blocks);
    for (sums, (encoded, own)) in sums.iter_mut().zip(operands) {
        reduce_block::<E>(&op, own, encoded, sums);
    }
    if !last_own.is_empty() {
        reduce_block::<E>(&op, last_own, last, last_sums);
    }
}

/// A block or a part of one.
#[inline(always)]
fn reduce_block<E: Float>(
    op: &impl Fn(E::Sum, E::Sum) -> E::Sum,
    own: &[E::Bytes],
    encoded: &[u8],
    sums: &mut [<E::Sum as Number>::Bytes],
) {
    let (decoder, packed) = split::<E>(encoded, Real::MAX);
    with_points!(decoder, |points| {
        decoding::reduce::<E>(points, op, Unpacked::of(packed).numbers(), own, sums);
    });
}

#[inline(always)]
pub(super) fn decode<E: Float>(encoded: &[u8], elements: &mut [u8]) {
    let (blocks, rest) = E::elements_mut(elements).as_chunks_mut::<BLOCK>();
    let (whole, last) = encoded_blocks::<E>(encoded, blocks.len());
    for (block, encoded) in blocks.iter_mut().zip(whole.chunks_exact(block_len::<E>())) {
        decode_block::<E>(encoded, block);
    }
    if !rest.is_empty() {
        decode_block::<E>(last, rest);
    }
}

/// A block or a part of one.
#[inline(always)]
fn decode_block<E: Float>(encoded: &[u8], elements: &mut [E::Bytes]) {
    let (decoder, packed) = split::<E>(encoded, E::GREATEST);
    with_points!(decoder, |points| {
        decoding::decode::<E>(points, Unpacked::of(packed).numbers(), elements);
    });
}

/// The error of [`encode`] for each element. Zero if the block is not finite.
#[inline(always)]
pub(super) fn residual<E: Float>(elements: &[u8], residuals: &mut [u8]) {
    let elements = E::elements(elements).chunks(BLOCK);
    let residuals = E::Sum::elements_mut(residuals).chunks_mut(BLOCK);
    for (elements, residuals) in elements.zip(residuals) {
        let extent = extent::<E>(elements);
        let (encoder, decoder) = grid::<E>(extent);
        for (residual, element) in residuals.iter_mut().zip(elements) {
            let value = E::from_bytes(*element).widen();
            let decoded = decoder.value(encoder.code(value).into());
            let decoded = E::narrow(decoded).widen();
            *residual = lost(value, decoded, extent.finite).to_bytes();
        }
    }
}

#[inline(always)]
fn grid<E: Float>(extent: Extent<E::Sum>) -> (Encoder<E::Sum>, Decoder<E::Sum>) {
    let grid = Grid::fit(Kind::MinMax, CODES, extent);
    (grid.encoder(CODES), grid.decoder(CODES, E::GREATEST))
}

/// `encoded` has the length of a block, or of a part of one; the rest is left out.
#[inline(always)]
fn encode_block<E: Float>(elements: &[E::Bytes; BLOCK], encoded: &mut [u8]) {
    let Some((header, encoded)) = encoded.split_at_mut_checked(header_len::<E>()) else {
        return;
    };
    let grid = Grid::fit(Kind::MinMax, CODES, extent::<E>(elements));
    write_parameters(grid.parameters(Kind::MinMax), header);

    let encoder = grid.encoder(CODES);
    let mut codes = [0; BLOCK];
    for (code, element) in codes.iter_mut().zip(elements) {
        *code = encoder.code(E::from_bytes(*element).widen()) as u8;
    }
    let packed = pack(&codes);
    for (byte, packed) in encoded.iter_mut().zip(packed) {
        *byte = packed;
    }
}

/// The decoder of a block's codes, and the codes.
#[inline(always)]
fn split<E: Float>(encoded: &[u8], greatest: E::Sum) -> (Decoder<E::Sum>, &[u8]) {
    let (header, packed) = encoded
        .split_at_checked(header_len::<E>())
        .unwrap_or_default();
    let parameters = read_parameters(header).unwrap_or([E::Sum::NAN; 2]);
    let grid = Grid::from_parameters(Kind::MinMax, CODES, parameters);
    (grid.decoder(CODES, greatest), packed)
}

#[inline(always)]
fn pack(codes: &[u8; BLOCK]) -> [u8; HALF] {
    let mut packed = [0; HALF];
    for (byte, pair) in packed.iter_mut().zip(codes.as_chunks::<2>().0) {
        let pair = u16::from_le_bytes(*pair);
        *byte = (pair | pair >> 4) as u8;
    }
    packed
}

/// The codes of a block, one in a byte. Missing ones are 0.
///
/// It is aligned, because vectors across two cache lines take twice as long.
#[repr(align(64))]
struct Unpacked([u8; BLOCK]);

impl Unpacked {
    #[inline(always)]
    fn of(bytes: &[u8]) -> Self {
        let mut packed = [0; HALF];
        copy(bytes, &mut packed);
        let mut codes = Self([0; BLOCK]);
        for (pair, byte) in codes.0.as_chunks_mut::<2>().0.iter_mut().zip(packed) {
            let byte = u16::from(byte);
            *pair = ((byte | byte << 4) & 0x0F0F).to_le_bytes();
        }
        codes
    }

    #[inline(always)]
    fn numbers(&self) -> impl Iterator<Item = i32> {
        self.0.iter().map(
            #[inline(always)]
            |code| i32::from(*code),
        )
    }
}

/// Copies as many elements as both have.
#[inline(always)]
fn copy<T: Copy>(from: &[T], into: &mut [T]) {
    for (into, from) in into.iter_mut().zip(from) {
        *into = *from;
    }
}

/// The whole blocks, and the rest.
#[inline(always)]
fn encoded_blocks<E: Float>(encoded: &[u8], blocks: usize) -> (&[u8], &[u8]) {
    encoded
        .split_at_checked(blocks * block_len::<E>())
        .unwrap_or_default()
}

#[inline(always)]
fn encoded_blocks_mut<E: Float>(encoded: &mut [u8], blocks: usize) -> (&mut [u8], &mut [u8]) {
    encoded
        .split_at_mut_checked(blocks * block_len::<E>())
        .unwrap_or_default()
}
