//! A cryptographic hash of content: BLAKE3, computed on several cores.
//!
//! BLAKE3 is a tree. The content is cut into parts whose length is a power of two times the length of a leaf, so that
//! each part except the last is a subtree. Threads hash the parts, and the results are folded pair by pair up to the
//! root.

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
pub struct ContentHashing<'a> {
    bytes: &'a [u8],
    /// Chaining values of the finished parts.
    values: Vec<ChainingValue>,
    step_parts: usize,
}

impl<'a> ContentHashing<'a> {
    /// Number of bytes of a step: enough to keep all threads busy, and some milliseconds of work for a single thread.
    pub const STEP_BYTES: usize = STEP_PARTS * PART;

    /// Starts a hash. The bytes may start at any address.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            values: Vec::new(),
            step_parts: STEP_PARTS,
        }
    }

    /// Hashes the next [`STEP_BYTES`](Self::STEP_BYTES), on as many threads as [`content_hash`] uses, and blocks
    /// until they are done. Returns `None` if bytes are left, otherwise the hash of all bytes. Further calls return
    /// the same hash.
    pub fn step(&mut self) -> Option<[u8; 32]> {
        let step_bytes = self.step_parts * PART;
        if self.bytes.len() <= step_bytes {
            return Some(content_hash(self.bytes));
        }
        let start = self.values.len() * PART;
        let rest = self.bytes.get(start..).unwrap_or_default();
        let bytes = rest.get(..step_bytes).unwrap_or(rest);
        let threads = cores::threads(bytes.len() / PART);
        self.values.extend(part_values(bytes, start, threads));
        if bytes.len() < rest.len() {
            return None;
        }
        fold(&self.values).map(Hash::into)
    }
}

fn hash_with_threads(bytes: &[u8], threads: usize) -> [u8; 32] {
    let values = if threads > 1 {
        part_values(bytes, 0, threads)
    } else {
        Vec::new()
    };
    // All parts of an input that has several, or none.
    let hash = match fold(&values) {
        Some(hash) => hash,
        None => blake3::hash(bytes),
    };
    hash.into()
}

/// The chaining value of every part of `bytes`, which start at offset `start` in the content.
fn part_values(bytes: &[u8], start: usize, threads: usize) -> Vec<ChainingValue> {
    let parts: Vec<&[u8]> = bytes.chunks(PART).collect();
    cores::map(parts.len(), threads, |part| {
        Hasher::new()
            .set_input_offset((start + part * PART) as u64)
            .update(parts[part])
            .finalize_non_root()
    })
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
