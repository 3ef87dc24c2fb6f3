//! Distributing work over several cores.

use std::num::NonZeroUsize;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

/// Maximum number of threads of one call, the caller's included. This many read 100 GB/s and more even if each is
/// slow (BLAKE3), which is about the memory bandwidth of a processor. More threads would only be missing elsewhere,
/// on a machine that may have hundreds of cores and trains on them.
const MOST: usize = 16;

/// Number of threads for this many pieces, each of which is worth a thread: at least 1, at most [`MOST`], and at most
/// as many as the machine runs in parallel.
pub(crate) fn threads(pieces: usize) -> usize {
    if pieces < 2 {
        return 1;
    }
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    cores.min(pieces).min(MOST)
}

/// The results of `work` for each number below `pieces`, in order. Each thread takes the next free number. The
/// calling thread is one of them, so if the machine refuses threads, this is only slower.
pub(crate) fn map<R: Send + Sync>(
    pieces: usize,
    threads: usize,
    work: impl Fn(usize) -> R + Sync,
) -> Vec<R> {
    let threads = threads.min(pieces);
    if threads < 2 {
        return (0..pieces).map(work).collect();
    }
    let results: Vec<OnceLock<R>> = (0..pieces).map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    let take = || {
        loop {
            let piece = next.fetch_add(1, Relaxed);
            let Some(result) = results.get(piece) else {
                break;
            };
            result.get_or_init(|| work(piece));
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            if thread::Builder::new().spawn_scoped(scope, take).is_err() {
                break;
            }
        }
        take();
    });
    results
        .into_iter()
        .filter_map(OnceLock::into_inner)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_and_once_whoever_made_them() {
        for pieces in [0, 1, 2, 100] {
            for threads in [0, 1, 2, 7, 200] {
                let calls = AtomicUsize::new(0);

                let squares = map(pieces, threads, |piece| {
                    calls.fetch_add(1, Relaxed);
                    piece * piece
                });

                let expected: Vec<_> = (0..pieces).map(|piece| piece * piece).collect();
                assert_eq!(squares, expected, "{threads} threads");
                assert_eq!(calls.into_inner(), pieces, "{threads} threads");
            }
        }
    }

    #[test]
    fn there_is_always_a_thread_and_there_are_never_too_many() {
        assert_eq!((threads(0), threads(1)), (1, 1));
        assert!((1..=2).contains(&threads(2)));
        assert!((1..=MOST).contains(&threads(usize::MAX)));
    }
}
