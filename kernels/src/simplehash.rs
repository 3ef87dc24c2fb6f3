//! A 32-bit hash of content, made of independent blocks so that all cores can compute it.
//!
//! Words are little-endian `u32`, a vector is four words, and arithmetic wraps. The vectors are divided into at most
//! [`MAX_BLOCKS`] blocks of equal length. Each block has [`LANES`] accumulators: vector `j` of the block goes to
//! accumulator `j mod LANES`, and at the end they are folded into one word. A second layer does the same with the
//! words of the blocks. The bytes after the last whole vector are mixed in one by one.

use crate::cores;
use crate::isa::{Isa, run};

const VECTOR_BYTES: usize = 16;
const LANES: usize = 256;
const MAX_BLOCKS: usize = 960;

/// Minimum number of bytes per thread. With fewer, starting a thread costs more than it saves.
const BYTES_PER_THREAD: usize = 1 << 20;

/// The hash of `bytes`, which may start at any address. Empty input hashes to 0.
///
/// Inputs of 2 MiB and more are hashed on as many threads as the machine runs in parallel, up to 16. The call blocks
/// until all are done, and the result does not depend on their number. The hash detects accidents, not attacks:
/// collisions are easy to make.
///
/// ```
/// assert_eq!(pccl_kernels::simplehash(&[]), 0);
/// assert_ne!(pccl_kernels::simplehash(b"weights"), pccl_kernels::simplehash(b"weight"));
/// ```
#[must_use]
pub fn simplehash(bytes: &[u8]) -> u32 {
    let threads = cores::threads(bytes.len() / BYTES_PER_THREAD);
    hash_with_threads(Isa::best(), bytes, threads)
}

fn hash_with_threads(isa: Isa, bytes: &[u8], threads: usize) -> u32 {
    let (vectors, rest) = bytes.as_chunks::<VECTOR_BYTES>();
    let whole = if vectors.is_empty() {
        0
    } else {
        hash_vectors(isa, vectors, threads)
    };

    let (words, last) = rest.as_chunks::<4>();
    let hash = words
        .iter()
        .fold(whole, |hash, word| combine(hash, u32::from_le_bytes(*word)));
    if last.is_empty() {
        return hash;
    }
    let number = last
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u32::from(*byte));
    combine(hash, number)
}

/// `vectors` must not be empty.
fn hash_vectors(isa: Isa, vectors: &[[u8; VECTOR_BYTES]], threads: usize) -> u32 {
    let blocks = vectors.len().div_ceil(LANES).min(MAX_BLOCKS);
    let block_len = vectors.len().div_ceil(blocks);

    let hashes = cores::map(blocks, threads, |block| {
        // A trailing block may have nothing left to cover. Its accumulators are folded all the same.
        let start = (block * block_len).min(vectors.len());
        let end = (start + block_len).min(vectors.len());
        run!(isa, hash_block(&vectors[start..end]))
    });
    let mut layer = [0_u32; LANES];
    for (block, hash) in hashes.into_iter().enumerate() {
        let lane = &mut layer[block % LANES];
        *lane = combine(*lane, hash);
    }
    fold_lanes(&layer)
}

#[inline(always)]
fn hash_block(vectors: &[[u8; VECTOR_BYTES]]) -> u32 {
    let mut lanes = [0_u32; LANES];
    let (rows, rest) = vectors.as_chunks::<LANES>();
    for row in rows {
        absorb(&mut lanes, row);
    }
    absorb(&mut lanes, rest);
    fold_lanes(&lanes)
}

/// Adds one vector to each lane, as far as they go.
#[inline(always)]
fn absorb(lanes: &mut [u32; LANES], vectors: &[[u8; VECTOR_BYTES]]) {
    for (lane, vector) in lanes.iter_mut().zip(vectors) {
        let (words, _) = vector.as_chunks::<4>();
        for word in words {
            *lane = combine(*lane, u32::from_le_bytes(*word));
        }
    }
}

#[inline(always)]
fn fold_lanes(lanes: &[u32; LANES]) -> u32 {
    let mut groups = [0_u32; 32];
    for (group, lanes) in groups.iter_mut().zip(lanes.as_chunks::<32>().0) {
        *group = fold_tree(*lanes);
    }
    // Eight groups are filled. The zeros of the others are folded in like any other value.
    fold_tree(groups)
}

#[inline(always)]
fn fold_tree(mut x: [u32; 32]) -> u32 {
    for half in [16, 8, 4, 2, 1] {
        for i in 0..half {
            x[i] = combine(x[i], x[i + half]);
        }
    }
    x[0]
}

#[inline(always)]
fn combine(a: u32, b: u32) -> u32 {
    (a ^ b.wrapping_add(0x9E37_79B1))
        .rotate_left(7)
        .wrapping_mul(0x85EB_CA6B)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stream of words that the original's test vectors are made of.
    fn words() -> impl Iterator<Item = u32> {
        let next = |s: &u32| Some(s.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
        std::iter::successors(Some(42), next).skip(1)
    }

    fn bytes_of_words(len: usize) -> Vec<u8> {
        words().take(len / 4).flat_map(u32::to_le_bytes).collect()
    }

    fn single_bytes(len: usize) -> Vec<u8> {
        words().take(len).map(|word| word as u8).collect()
    }

    /// The hash, once every instruction set has found the same one.
    fn hash_of(bytes: &[u8]) -> u32 {
        let hash = simplehash(bytes);
        let threads = cores::threads(bytes.len() / BYTES_PER_THREAD);
        for isa in Isa::all() {
            assert_eq!(hash_with_threads(isa, bytes, threads), hash, "{isa:?}");
        }
        hash
    }

    #[test]
    fn short_inputs_hash_as_the_original_does_on_every_isa() {
        assert_eq!(hash_of(&[]), 0);
        assert_eq!(hash_of(&single_bytes(1)), 344_386_053);
        assert_eq!(hash_of(&single_bytes(4)), 3_765_247_898);
        assert_eq!(hash_of(&single_bytes(25)), 3_651_434_421);
    }

    #[test]
    fn whole_words_hash_as_the_original_does_on_every_isa() {
        assert_eq!(hash_of(&bytes_of_words(65_536)), 1_538_104_986);
        assert_eq!(hash_of(&bytes_of_words(400_000)), 3_451_955_325);
        assert_eq!(hash_of(&bytes_of_words(1_048_576)), 1_082_593_809);
    }

    #[test]
    fn inputs_of_many_threads_hash_as_the_original_does_on_every_isa() {
        assert_eq!(hash_of(&single_bytes(154_533_888)), 3_391_090_508);
        assert_eq!(hash_of(&bytes_of_words(268_435_456)), 3_510_922_754);
    }

    /// A byte more than 3,932,160 makes blocks longer, so that the last ones have nothing left.
    #[test]
    fn the_hash_does_not_depend_on_the_number_of_threads() {
        for len in [0, 15, 16, 4_095, 4_097, 3_932_161, 3_932_177, 6_000_007] {
            let bytes = single_bytes(len);

            let one = hash_with_threads(Isa::best(), &bytes, 1);

            for threads in [0, 2, 3, 7, 50] {
                let hash = hash_with_threads(Isa::best(), &bytes, threads);
                assert_eq!(hash, one, "{len} bytes, {threads}");
            }
        }
    }

    #[test]
    fn the_hash_does_not_depend_on_where_the_bytes_start() {
        let bytes = single_bytes(10_003);
        let expected = simplehash(&bytes);

        for start in 1..=16 {
            let mut moved = vec![0xAA; start];
            moved.extend_from_slice(&bytes);

            assert_eq!(
                simplehash(&moved[start..]),
                expected,
                "{start} bytes further"
            );
        }
    }

    #[test]
    fn every_flipped_bit_changes_the_hash() {
        for len in [1, 3, 4, 17, 4_100] {
            let mut bytes = single_bytes(len);
            let expected = simplehash(&bytes);

            for bit in 0..len * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(simplehash(&bytes), expected, "bit {bit} of {len} bytes");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }
}
