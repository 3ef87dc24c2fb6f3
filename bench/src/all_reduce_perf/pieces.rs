//! The search for the floor's best way: which exchange, and in pieces of which size.
//!
//! In turns, and by the fastest iteration of each: whatever else the machine does only slows down. One
//! disturbed iteration must not throw out the best way, so every way takes part in several turns before
//! the slower half is out, and the best two go on into the measurement, where the floor counts with the
//! one that is faster there. Sixteen ways or fewer take less than four times as many trials.

use super::collective::Collective;
use super::floor::{Exchange, Way};

/// Sizes that are tried: this one and its doubles. Smaller ones only add system calls.
const SMALLEST: usize = 8 << 10;
const LARGEST: usize = 1 << 20;

/// Turns of all ways, before any is out.
const TURNS: u32 = 3;

/// Ways that go on into the measurement, at most.
const FINALISTS: usize = 2;

/// Ways that may still be the best, each with its fastest time.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    trials: Vec<(Way, f64)>,
    turns: u32,
}

impl Search {
    /// For chunks of so many bytes.
    pub(crate) fn new(collective: Collective, chunk: usize) -> Self {
        let exchanges = Exchange::of(collective).iter().copied();
        let ways = exchanges.flat_map(|exchange| {
            let way = move |piece_bytes| Way {
                exchange,
                piece_bytes,
            };
            sizes(exchange, chunk).into_iter().map(way)
        });
        Self {
            trials: ways.map(|way| (way, f64::INFINITY)).collect(),
            turns: 0,
        }
    }

    /// Ways to be tried in the next turn; once the search is over, those that are measured, the best
    /// first.
    pub(crate) fn ways(&self) -> Vec<Way> {
        self.trials.iter().map(|(way, _)| *way).collect()
    }

    /// Are those that are left to be measured?
    pub(crate) fn is_over(&self) -> bool {
        self.turns >= TURNS && self.trials.len() <= FINALISTS
    }

    /// A turn is over: the fastest time of each way in it, in the order of [`ways`](Self::ways).
    pub(crate) fn end_turn(&mut self, times: &[f64]) {
        for ((_, fastest), time) in self.trials.iter_mut().zip(times) {
            *fastest = fastest.min(*time);
        }
        self.turns += 1;
        if self.turns >= TURNS {
            self.trials.sort_by(|one, other| one.1.total_cmp(&other.1));
            let half = self.trials.len().div_ceil(2);
            self.trials.truncate(half.max(FINALISTS));
        }
    }
}

/// Sizes of pieces that are tried. A piece larger than a chunk is the chunk, which the next smaller one may
/// be already. Where it is not the ring, every second one is left out: trials of large buffers take seconds
/// each.
fn sizes(exchange: Exchange, chunk: usize) -> Vec<usize> {
    let doubles = std::iter::successors(Some(SMALLEST), |piece| Some(piece * 2));
    let sensible: Vec<usize> = doubles
        .take_while(|piece| *piece <= LARGEST)
        .filter(|piece| *piece == SMALLEST || piece / 2 < chunk)
        .collect();
    match exchange {
        Exchange::Ring => sensible,
        // From the largest, which is the whole chunk where that is small.
        Exchange::Blocking | Exchange::Direct => sensible.into_iter().rev().step_by(2).collect(),
    }
}
