//! The search for the best size of the floor's pieces.
//!
//! In turns, and by the fastest iteration of each: whatever else the machine does only slows down. The
//! first turn warms up; after every other one the slower half is out, so that `n` sizes take less than
//! `3n` trials in all.

/// Sizes that are tried: this one and its doubles. Smaller ones only add system calls.
const SMALLEST: usize = 8 << 10;
const LARGEST: usize = 1 << 20;

/// Sizes that may still be the best, in bytes, each with its fastest time.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    trials: Vec<(usize, f64)>,
    is_warm: bool,
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
            is_warm: false,
        }
    }

    /// Sizes to be tried in the next turn.
    pub(crate) fn sizes(&self) -> Vec<usize> {
        self.trials.iter().map(|(piece, _)| *piece).collect()
    }

    /// The best size, once it is known.
    pub(crate) fn found(&self) -> Option<usize> {
        match self.trials.as_slice() {
            [] => Some(SMALLEST),
            [(only, _)] => Some(*only),
            _ => None,
        }
    }

    /// A turn is over: the fastest time of each size in it, in the order of [`sizes`](Self::sizes).
    pub(crate) fn end_turn(&mut self, times: &[f64]) {
        if !self.is_warm {
            self.is_warm = true;
            return;
        }
        for ((_, fastest), time) in self.trials.iter_mut().zip(times) {
            *fastest = fastest.min(*time);
        }
        self.trials.sort_by(|one, other| one.1.total_cmp(&other.1));
        self.trials.truncate(self.trials.len().div_ceil(2));
    }
}
