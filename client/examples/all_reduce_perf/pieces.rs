//! The search for the best sizes of the floor's pieces.
//!
//! In turns, and by the fastest iteration of each: whatever else the machine does only slows down. One
//! disturbed iteration must not throw out the best size, so every size takes part in several turns before
//! the slower half is out, and the best two go on into the measurement, where the floor counts with the
//! one that is faster there. Sixteen sizes or fewer take less than four times as many trials.

/// Sizes that are tried: this one and its doubles. Smaller ones only add system calls.
const SMALLEST: usize = 8 << 10;
const LARGEST: usize = 1 << 20;

/// Turns of all sizes, before any is out.
const TURNS: u32 = 3;

/// Sizes that go on into the measurement, at most.
const FINALISTS: usize = 2;

/// Sizes that may still be the best, in bytes, each with its fastest time.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    trials: Vec<(usize, f64)>,
    turns: u32,
}

impl Search {
    /// For chunks of so many bytes. A piece larger than a chunk is the chunk, which the next smaller one
    /// may be already.
    pub(crate) fn new(chunk: usize) -> Self {
        let doubles = std::iter::successors(Some(SMALLEST), |piece| Some(piece * 2));
        let sensible = doubles
            .take_while(|piece| *piece <= LARGEST)
            .filter(|piece| *piece == SMALLEST || piece / 2 < chunk);
        Self {
            trials: sensible.map(|piece| (piece, f64::INFINITY)).collect(),
            turns: 0,
        }
    }

    /// Sizes to be tried in the next turn; once the search is over, those that are measured, the best
    /// first.
    pub(crate) fn sizes(&self) -> Vec<usize> {
        self.trials.iter().map(|(piece, _)| *piece).collect()
    }

    /// Are those that are left to be measured?
    pub(crate) fn is_over(&self) -> bool {
        let needs_none = self.trials.len() <= 1;
        needs_none || self.turns >= TURNS && self.trials.len() <= FINALISTS
    }

    /// A turn is over: the fastest time of each size in it, in the order of [`sizes`](Self::sizes).
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
