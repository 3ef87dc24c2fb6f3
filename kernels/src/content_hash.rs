//! A cryptographic hash of content: BLAKE3, computed on several cores.
//!
//! BLAKE3 is a tree. The content is cut into parts whose length is a power of two times the length of a leaf, so that
//! each part except the last is a subtree. Threads hash the parts, and the results are folded pair by pair up to the
//! root.

use std::ops::Range;

use blake3::hazmat::{
    ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root,
};
use blake3::{Hash, Hasher};

use crate::cores;

/// Length of a part: large enough to be worth a thread, small enough that threads end at about the same time.
const PART: usize = 1 << 20;

/// Number of parts of a step.
const STEP_PARTS: usize = 64;

/// The BLAKE3 hash of `bytes`, which may start at any address.
///
/// Nobody can make two contents with the same hash, so a hash from a trusted source authenticates content from any
/// source. Inputs of 2 MiB and more are hashed on as many threads as the machine runs in parallel, up to 16. Blocks
/// until all are done.
///
/// ```
/// assert_ne!(pccl_kernels::content_hash(b"weights"), pccl_kernels::content_hash(b"weight"));
/// ```
#[must_use]
pub fn content_hash(bytes: &[u8]) -> [u8; 32] {
    hash_with_threads(bytes, cores::threads(bytes.len() / PART))
}

/// The same hash in steps, for a caller that must do other work in between.
///
/// ```
/// use pccl_kernels::{ContentHashing, content_hash};
///
/// let mut hashing = ContentHashing::new(b"weights");
/// let hash = loop {
///     match hashing.step() {
///         Some(hash) => break hash,
///         None => std::thread::yield_now(), // or whatever else there is to do
///     }
/// };
///
/// assert_eq!(hash, content_hash(b"weights"));
/// ```
#[derive(Debug)]
pub struct ContentHashing<'a, C: Content + ?Sized = [u8]> {
    content: &'a C,
    parts: PartHashes,
    step_parts: usize,
}

impl<'a> ContentHashing<'a> {
    /// Number of bytes of a step: enough to keep all threads busy, and some milliseconds of work for a single thread.
    pub const STEP_BYTES: usize = STEP_PARTS * PART;

    /// Starts a hash. The bytes may start at any address.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self::with(bytes, PartHashes::new())
    }
}

impl<'a, C: Content + ?Sized> ContentHashing<'a, C> {
    /// Starts a hash of content of which some parts are hashed already. The parts must be those of the same content.
    #[must_use]
    pub const fn with(content: &'a C, parts: PartHashes) -> Self {
        Self {
            content,
            parts,
            step_parts: STEP_PARTS,
        }
    }

    /// Hashes the next [`STEP_BYTES`](Self::STEP_BYTES) on up to as many threads as [`content_hash`], and blocks until
    /// they are done. Returns `None` if bytes are left, otherwise the hash of all bytes. Further calls return
    /// the same hash.
    pub fn step(&mut self) -> Option<[u8; 32]> {
        let length = self.content.length();
        let missing = self.parts.missing(length, 0..length);
        let step: Vec<usize> = missing.take(self.step_parts + 1).collect();
        if step.len() > self.step_parts {
            let step = step.get(..self.step_parts).unwrap_or_default();
            self.parts.hash(self.content, step);
            return None;
        }
        self.parts.hash(self.content, &step);
        let values = self.parts.values.iter().take(parts_of(length));
        let values: Vec<ChainingValue> = values.flatten().copied().collect();
        Some(root(&values, self.content))
    }
}

/// Content that is hashed, in one piece of memory or in several.
pub trait Content: Sync {
    /// Number of bytes.
    fn length(&self) -> usize;

    /// Exactly the bytes in `range`, which begins at a multiple of 1 MiB, is at most 1 MiB long, and ends within the
    /// content.
    fn part(&self, range: Range<usize>) -> &[u8];
}

impl Content for [u8] {
    fn length(&self) -> usize {
        self.len()
    }

    fn part(&self, range: Range<usize>) -> &[u8] {
        self.get(range).unwrap_or_default()
    }
}

/// The hashes of the parts of content that arrives piece by piece, in any order: when the last piece has arrived, little
/// is left to hash.
///
/// ```
/// use pccl_kernels::{ContentHashing, PartHashes, content_hash};
///
/// let mut content = vec![0; 5 << 20];
/// let mut parts = PartHashes::new();
/// for half in [1 << 20..5 << 20, 0..1 << 20] {
///     content[half.clone()].fill(7);
///     parts.arrived(&content[..], [half]);
/// }
///
/// let hash = ContentHashing::with(&content[..], parts).step();
/// assert_eq!(hash, Some(content_hash(&content)));
/// ```
#[derive(Clone, Debug, Default)]
pub struct PartHashes {
    /// By part. Shorter than the content has parts as long as none of the later ones is hashed.
    values: Vec<Option<ChainingValue>>,
    /// All parts below this one are hashed. Content arrives about in its order, so there is little to look through.
    whole_below: usize,
}

impl PartHashes {
    /// No part is hashed.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            values: Vec::new(),
            whole_below: 0,
        }
    }

    /// Hashes the parts of `content` that lie in one of the ranges, all of whose bytes have arrived. Blocks until that
    /// is done, on up to as many threads as [`content_hash`] uses: one for each part. Parts that are hashed are not
    /// hashed again, so bytes that have arrived must not change. `content` is the whole content, with the same length
    /// each time.
    pub fn arrived<C: Content + ?Sized>(
        &mut self,
        content: &C,
        ranges: impl IntoIterator<Item = Range<usize>>,
    ) {
        let (ranges, length) = (ranges.into_iter(), content.length());
        let missing = ranges.flat_map(|range| self.missing(length, range));
        let missing: Vec<usize> = missing.collect();
        self.hash(content, &missing);
    }

    /// The parts of content of this length that lie in `range` and are not hashed, in their order.
    fn missing(&self, length: usize, range: Range<usize>) -> impl Iterator<Item = usize> + '_ {
        // The last part may be shorter than the others.
        let end = match range.end < length {
            true => (range.end / PART).min(parts_of(length)),
            false => parts_of(length),
        };
        let start = range.start.div_ceil(PART).max(self.whole_below);
        let is_hashed = |part: &usize| self.values.get(*part).is_some_and(Option::is_some);
        (start..end).filter(move |part| !is_hashed(part))
    }

    fn hash<C: Content + ?Sized>(&mut self, content: &C, parts: &[usize]) {
        let values = cores::map(parts.len(), cores::threads(parts.len()), |index| {
            part_value(content, parts.get(index).copied().unwrap_or_default())
        });
        let len = parts.iter().max().map_or(0, |part| part + 1);
        self.values.resize(self.values.len().max(len), None);
        for (part, value) in parts.iter().zip(values) {
            if let Some(place) = self.values.get_mut(*part) {
                *place = Some(value);
            }
        }
        let rest = self.values.iter().skip(self.whole_below);
        self.whole_below += rest.take_while(|value| value.is_some()).count();
    }
}

fn hash_with_threads(bytes: &[u8], threads: usize) -> [u8; 32] {
    let parts = parts_of(bytes.len());
    let values = cores::map(parts, threads, |part| part_value(bytes, part));
    root(&values, bytes)
}

/// How many parts content of this length has. None if it fits into one: its hash is not that of a part.
const fn parts_of(length: usize) -> usize {
    match length > PART {
        true => length.div_ceil(PART),
        false => 0,
    }
}

/// The chaining value of one part.
fn part_value<C: Content + ?Sized>(content: &C, part: usize) -> ChainingValue {
    let start = part * PART;
    let end = content.length().min(start + PART);
    Hasher::new()
        .set_input_offset(start as u64)
        .update(content.part(start..end))
        .finalize_non_root()
}

/// The hash of the content from the values of all parts, or of none if it has none.
fn root<C: Content + ?Sized>(values: &[ChainingValue], content: &C) -> [u8; 32] {
    let of_one_part = || blake3::hash(content.part(0..content.length()));
    fold(values).unwrap_or_else(of_one_part).into()
}

/// The root of several parts. `None` for fewer than two.
fn fold(values: &[ChainingValue]) -> Option<Hash> {
    let (left, right) = halves(values)?;
    Some(merge_subtrees_root(
        &subtree(left)?,
        &subtree(right)?,
        Mode::Hash,
    ))
}

/// The chaining value of one or several parts.
fn subtree(values: &[ChainingValue]) -> Option<ChainingValue> {
    if let [value] = values {
        return Some(*value);
    }
    let (left, right) = halves(values)?;
    Some(merge_subtrees_non_root(
        &subtree(left)?,
        &subtree(right)?,
        Mode::Hash,
    ))
}

/// The left side of the tree is the largest power of two that leaves something for the right side.
fn halves(values: &[ChainingValue]) -> Option<(&[ChainingValue], &[ChainingValue])> {
    let left = values.len().checked_sub(1)?.checked_ilog2()?;
    values.split_at_checked(1 << left)
}

#[cfg(test)]
mod tests {
    use std::iter::once;

    use super::*;

    fn content(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i % 251) as u8).collect()
    }

    #[test]
    fn the_hash_is_that_of_the_algorithms_paper() {
        // The published vectors: bytes 0, 1, .. 250, 0, .. of several lengths.
        let hex = |hash: [u8; 32]| hash.map(|byte| format!("{byte:02x}")).concat();
        assert_eq!(
            hex(content_hash(&content(0))),
            "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
        );
        assert_eq!(
            hex(content_hash(&content(1))),
            "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213"
        );
    }

    #[test]
    fn any_number_of_threads_gives_the_same_hash() {
        for len in [
            0,
            1,
            PART - 1,
            PART,
            PART + 1,
            2 * PART,
            3 * PART + 5,
            7 * PART - 1,
        ] {
            let bytes = content(len);
            let expected: [u8; 32] = blake3::hash(&bytes).into();

            for threads in [1, 2, 3, 16] {
                let hash = hash_with_threads(&bytes, threads);

                assert_eq!(hash, expected, "{len} bytes, {threads} threads");
            }
        }
    }

    #[test]
    fn step_by_step_the_hash_is_the_same() {
        for (len, steps) in [
            (0, 1),
            (2 * PART, 1),
            (2 * PART + 1, 2),
            (5 * PART, 3),
            (8 * PART - 1, 4),
        ] {
            let bytes = content(len);
            let mut hashing = ContentHashing {
                step_parts: 2,
                ..ContentHashing::new(&bytes)
            };

            for _ in 1..steps {
                assert_eq!(hashing.step(), None, "{len} bytes");
            }

            let expected = Some(content_hash(&bytes));
            assert_eq!(hashing.step(), expected, "{len} bytes");
            assert_eq!(hashing.step(), expected, "{len} bytes, after the end");
        }
    }

    #[test]
    fn pieces_that_arrive_in_any_order_leave_nothing_to_hash() {
        for len in [0, PART, 2 * PART, 4 * PART + 9, 5 * PART] {
            let bytes = content(len);
            let mut parts = PartHashes::new();

            // Pieces of a part and a half, the last one first, each with all that has arrived behind it.
            for start in (0..len).step_by(PART + PART / 2).rev() {
                parts.arrived(&bytes[..], once(start..len));
            }

            assert_eq!(parts.missing(len, 0..len).count(), 0, "{len} bytes");
            assert_eq!(parts.whole_below, parts_of(len), "{len} bytes");
            let mut hashing = ContentHashing {
                step_parts: 1,
                ..ContentHashing::with(&bytes[..], parts)
            };
            assert_eq!(hashing.step(), Some(content_hash(&bytes)), "{len} bytes");
        }
    }

    #[test]
    fn only_a_part_that_has_arrived_whole_is_hashed() {
        let bytes = content(3 * PART + 5);
        let mut parts = PartHashes::new();

        parts.arrived(&bytes[..], once(1..2 * PART - 1));
        assert_eq!(parts.values, []);
        parts.arrived(&bytes[..], [3 * PART - 1..bytes.len(), 1..2 * PART]);

        let missing: Vec<usize> = parts.missing(bytes.len(), 0..bytes.len()).collect();
        assert_eq!((missing, parts.whole_below), (vec![0, 2], 0));
    }

    #[test]
    fn what_was_hashed_on_its_way_is_not_read_again() {
        let bytes = content(3 * PART);
        let mut parts = PartHashes::new();
        parts.arrived(&bytes[..], once(0..2 * PART));
        let mut changed = bytes.clone();
        changed[PART] ^= 1;

        assert_eq!(
            ContentHashing::with(&changed[..], parts.clone()).step(),
            Some(content_hash(&bytes))
        );
        changed[2 * PART] ^= 1;
        assert_ne!(
            ContentHashing::with(&changed[..], parts).step(),
            Some(content_hash(&bytes))
        );
    }

    #[test]
    fn every_part_counts() {
        let mut bytes = content(5 * PART + 1);
        let expected = content_hash(&bytes);

        for place in (0..bytes.len()).step_by(PART / 2) {
            bytes[place] ^= 1;
            assert_ne!(content_hash(&bytes), expected, "byte {place}");
            bytes[place] ^= 1;
        }
    }
}
