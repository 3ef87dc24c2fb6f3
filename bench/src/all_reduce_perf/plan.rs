//! How often a size is measured, and what runs back to back.

use super::arguments::Arguments;

/// From this size on, every iteration begins when all ranks are ready.
const ALONE_FROM: usize = 1 << 20;

/// Most iterations that run back to back.
const BATCH_MAX: usize = 64;

/// Ours and the floor take turns so often, so that what else the machine does hits both.
const TURNS: u32 = 8;

/// How one row is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) warmup: u32,
    /// Iterations of each turn.
    pub(crate) turns: Vec<u32>,
    /// Iterations that run back to back.
    pub(crate) batch: usize,
    /// Iterations that try one way of the floor in each turn of the search, of which every way has several.
    pub(crate) trial: u32,
}

impl Plan {
    /// For iterations of so many bytes in all.
    pub(crate) fn new(arguments: &Arguments, bytes: usize) -> Self {
        let (iterations, warmup, trial) = by_size(bytes);
        let iterations = arguments.iters.unwrap_or(iterations);
        let turns = split(iterations);
        let longest = turns.iter().copied().max().unwrap_or(1) as usize;
        Self {
            warmup: arguments.warmup.unwrap_or(warmup),
            batch: batch(bytes).min(longest),
            turns,
            trial,
        }
    }

    pub(crate) fn iterations(&self) -> u32 {
        self.turns.iter().sum()
    }
}

/// Iterations, those before them, and those of a trial: a second or a few for each row.
const fn by_size(bytes: usize) -> (u32, u32, u32) {
    match bytes {
        0..0x1_0000 => (400, 64, 32),
        0x1_0000..0x10_0000 => (160, 32, 8),
        0x10_0000..0x100_0000 => (40, 4, 2),
        0x100_0000..0x800_0000 => (12, 2, 1),
        _ => (8, 1, 1),
    }
}

/// Shares that differ by one at most, none of them zero.
fn split(iterations: u32) -> Vec<u32> {
    let turns = TURNS.min(iterations);
    let share = |turn| iterations * (turn + 1) / turns - iterations * turn / turns;
    (0..turns).map(share).collect()
}

/// Back to back, small reduces are measured without the parent's signal in between; each has buffers
/// of its own, so that checking can wait, and all of them together stay in the cache.
fn batch(bytes: usize) -> usize {
    if bytes >= ALONE_FROM {
        1
    } else {
        (2 * ALONE_FROM / bytes).clamp(1, BATCH_MAX)
    }
}
