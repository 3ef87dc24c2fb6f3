//! Copies of large memory, on several cores.

use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::cores;

/// Length of a piece: enough to be worth a thread.
const PIECE: usize = 16 << 20;

/// `into.copy_from_slice(from)` for each pair. From 32 MiB in all on, on as many threads as the machine runs in
/// parallel, up to 16. Blocks until all are done.
///
/// One core copies at a part of the speed of the memory, and memory that is written for the first time costs more time
/// than the copy.
///
/// # Panics
/// If the lengths of a pair differ.
///
/// ```
/// let mut weights = vec![0; 40 << 20];
/// pccl_kernels::copy(vec![(&mut weights, &vec![7; 40 << 20])]);
/// assert!(weights.iter().all(|byte| *byte == 7));
/// ```
pub fn copy(pairs: Vec<(&mut [u8], &[u8])>) {
    let bytes: usize = pairs.iter().map(|(into, _)| into.len()).sum();
    copy_with_threads(pairs, cores::threads(bytes / PIECE));
}

fn copy_with_threads(pairs: Vec<(&mut [u8], &[u8])>, threads: usize) {
    let is_alike = |(into, from): &(&mut [u8], &[u8])| into.len() == from.len();
    assert!(
        pairs.iter().all(is_alike),
        "the lengths of a copy's two ends differ"
    );
    let pieces = pairs.into_iter();
    let pieces = pieces.flat_map(|(into, from)| into.chunks_mut(PIECE).zip(from.chunks(PIECE)));
    let pieces = Mutex::new(pieces);
    let next = || pieces.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        while let Some((into, from)) = next() {
            into.copy_from_slice(from);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            // If the machine refuses threads, this is only slower.
            if thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_copied_on_any_number_of_threads() {
        for len in [0, 1, PIECE - 1, PIECE, 2 * PIECE + 5] {
            let from: Vec<u8> = (0..len).map(|byte| (byte % 251) as u8).collect();
            for threads in [1, 2, 5] {
                let mut into = vec![255; len];

                let (one, other) = into.split_at_mut(len / 3);
                let pairs = vec![(one, &from[..len / 3]), (other, &from[len / 3..])];
                copy_with_threads(pairs, threads);

                assert!(into == from, "{len} bytes, {threads} threads");
            }
        }
    }

    #[test]
    #[should_panic(expected = "lengths")]
    fn lengths_that_differ_are_a_panic() {
        copy(vec![(&mut [0; 3], &[1; 2])]);
    }
}
