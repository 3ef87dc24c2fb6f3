//! What a reduce must give, element by element.

use crate::Op;
use crate::group::LANES;
use crate::number::Number;

/// Bytes below which a buffer is not cut into another stripe.
pub(crate) const STRIPE_BYTES_MIN: usize = 512 * 1024;

/// Bytes up to which a buffer travels around the ring whole, where those of all ranks together have no
/// more than [`ALL_WHOLE_MAX`].
const WHOLE_MAX: usize = 32 * 1024;

/// See [`WHOLE_MAX`].
const ALL_WHOLE_MAX: usize = 256 * 1024;

/// Bytes up to which more than two peers of one machine exchange a buffer directly.
pub(crate) const DIRECT_MAX: usize = 64 * 1024;

/// The operation on all contributions at once: for numbers of which it does not depend on the order.
pub(crate) fn at_once<T: Number>(op: Op, contributions: &[&[T]]) -> Vec<T> {
    let elements = 0..contributions[0].len();
    let mut numbers = Vec::new();
    elements
        .map(|index| {
            numbers.clear();
            numbers.extend(contributions.iter().map(|own| own[index]));
            T::at_once(op, &numbers)
        })
        .collect()
}

/// The operation in the order of the ring: a chunk starts at the rank of its number and is combined,
/// rounded each time, rank by rank.
pub(crate) fn in_ring_order<T: Number>(op: Op, contributions: &[&[T]]) -> Vec<T> {
    let world = contributions.len();
    let count = contributions[0].len();
    first_ranks(count, size_of::<T>(), world)
        .into_iter()
        .enumerate()
        .map(|(index, first)| {
            let chain = (0..world).map(|hop| contributions[(first + hop) % world][index]);
            let combined = chain.reduce(|sum, own| sum.combine(op, own)).unwrap();
            if op == Op::Avg {
                combined.over(world)
            } else {
                combined
            }
        })
        .collect()
}

/// For each element: the rank at which its chunk starts.
///
/// Buffers that travel whole or directly are combined from the first rank on. Others are cut into a stripe for each
/// lane, but not into ones of less than 512 KiB, and each stripe into a chunk for each rank. Parts
/// differ by at most one element, and longer ones come first.
fn first_ranks(count: usize, element_bytes: usize, world: usize) -> Vec<usize> {
    let bytes = count * element_bytes;
    let travels_whole = bytes <= WHOLE_MAX && bytes * world <= ALL_WHOLE_MAX;
    if travels_whole || world > 2 && bytes <= DIRECT_MAX {
        return vec![0; count];
    }
    let stripes = (count * element_bytes / STRIPE_BYTES_MIN).clamp(1, usize::from(LANES));
    let mut ranks = Vec::new();
    for stripe in cut(count, stripes) {
        for (rank, chunk) in cut(stripe, world).into_iter().enumerate() {
            ranks.extend(std::iter::repeat_n(rank, chunk));
        }
    }
    ranks
}

/// The lengths of so many parts of a whole.
fn cut(whole: usize, parts: usize) -> Vec<usize> {
    let length = |part| whole / parts + usize::from(part < whole % parts);
    (0..parts).map(length).collect()
}
