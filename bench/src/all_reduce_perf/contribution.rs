//! What each rank contributes, what must come out, and how many elements are not so.
//!
//! Contributions are small whole numbers, so that every order of additions gives the same bits, and
//! they depend on the rank, the place and the iteration: a contribution that is lost or counted twice,
//! a piece in the wrong place and a piece of another iteration all show. They repeat from place to place
//! with a period that no size of a piece or a chunk divides, so that buffers are filled and checked by
//! copying and comparing memory. From iteration to iteration they never repeat: most places of any two
//! iterations differ, but not every one, since there are few small numbers. That an element was written
//! at all is therefore seen in another way. A result that has a place of its own is spoiled before the
//! iteration. In place the result's place holds the rank's own contribution, which must not pass for the
//! result. A maximum is always somebody's contribution, so that this cannot hold for every element of
//! every rank; but in each iteration it holds for a quarter of any rank's elements at least, evenly
//! spread, and which ones these are moves from iteration to iteration.

use pccl::ReduceOp;

use super::collective::{Collective, Holds};
use super::number::Number;
use super::work::Work;

/// A prime: pieces are aligned to powers of two.
const PERIOD: usize = 4099;

/// Numbers up to this one are contributed; to a product, which grows faster, smaller ones.
pub(crate) const fn largest(op: ReduceOp) -> i64 {
    match op {
        ReduceOp::Prod => 3,
        ReduceOp::Sum
        | ReduceOp::Avg
        | ReduceOp::WeightedAvg { .. }
        | ReduceOp::Max
        | ReduceOp::Min => 14,
    }
}

/// What is contributed, and what comes out of it.
#[derive(Clone, Debug)]
pub(crate) struct Contribution {
    collective: Collective,
    op: ReduceOp,
    rank: usize,
    peers: usize,
    /// How far a result may be from the exact one; `None`: not at all.
    tolerance: Option<f64>,
}

impl Contribution {
    pub(crate) fn new(work: &Work, rank: usize, peers: usize) -> Self {
        Self {
            collective: work.collective,
            op: work.op,
            rank,
            peers,
            tolerance: work.error_bound(peers),
        }
    }

    /// Whether a rank ends with its shard alone.
    pub(crate) fn is_scattered(&self) -> bool {
        self.collective == Collective::ReduceScatter
    }

    /// The contribution of an iteration.
    pub(crate) fn fill<T: Number>(&self, buffer: &mut [T], iteration: u64) {
        let pattern: Vec<T> = (0..PERIOD.min(buffer.len()))
            .map(|place| T::whole(self.of(self.rank, place, iteration)))
            .collect();
        repeat(buffer, &pattern);
    }

    /// What a buffer in place begins with: the contribution of an iteration, and beyond it what is wrong there.
    pub(crate) fn begin<T: Number>(&self, buffer: &mut [T], iteration: u64) {
        let contributed = self
            .collective
            .contributed((self.rank, self.peers), buffer.len());
        if contributed.len() == buffer.len() {
            return self.fill(buffer, iteration);
        }
        let parts = self
            .collective
            .promised((self.rank, self.peers), buffer.len());
        for (range, holds) in parts {
            let own = holds == Holds::Of(self.rank);
            let value = |place| {
                let is: T = self.expected(holds, place, iteration);
                if own { is } else { is.spoiled() }
            };
            let pattern: Vec<T> = (0..PERIOD).map(value).collect();
            let places = pattern.iter().cycle().skip(range.start % PERIOD);
            let part = buffer[range].iter_mut();
            part.zip(places).for_each(|(element, is)| *element = *is);
        }
    }

    /// Puts into every element what is wrong there after this iteration, so that one that nobody writes
    /// is noticed, whatever it held before.
    pub(crate) fn spoil<T: Number>(&self, result: &mut [T], iteration: u64) {
        let pattern: Vec<T> = (0..PERIOD.min(result.len()))
            .map(|place| {
                self.expected::<T>(Holds::Reduced, place, iteration)
                    .spoiled()
            })
            .collect();
        repeat(result, &pattern);
    }

    /// Elements of a result that are not what they should be. `exact`: even where the library
    /// compresses, because this was the floor.
    pub(crate) fn wrong<T: Number>(&self, result: &[T], iteration: u64, exact: bool) -> u64 {
        let tolerance = self.tolerance.filter(|_| !exact);
        let parts = self
            .collective
            .promised((self.rank, self.peers), result.len());
        let wrong = parts.into_iter().map(|(range, holds)| {
            let expected: Vec<T> = (0..PERIOD.min(range.len()))
                .map(|place| self.expected(holds, (range.start + place) % PERIOD, iteration))
                .collect();
            let parts = result[range].chunks(PERIOD);
            parts
                .map(|part| differences(part, &expected, tolerance))
                .sum::<u64>()
        });
        wrong.sum()
    }

    /// What `rank` contributes at `place` of the period.
    fn of(&self, rank: usize, place: usize, iteration: u64) -> i64 {
        let drawn = mix(iteration << 16 | place as u64);
        // No place of the period is the last one of 16 bits.
        let turn = (mix(iteration << 16 | 0xffff) % 1024) as usize;
        match self.op {
            // Two ranks' numbers are not one, so that the product is nobody's and fits into every type.
            ReduceOp::Prod => {
                let first = (place / 3 + turn) % self.peers;
                if rank == first {
                    2 + (drawn & 1) as i64
                } else if rank == (first + 1) % self.peers {
                    2 + (drawn >> 1 & 1) as i64
                } else {
                    1
                }
            }
            // The first part is common to all ranks, so that the largest tells of the iteration, too; of
            // the second, any two neighbours have different ones, which take turns.
            ReduceOp::Sum
            | ReduceOp::Avg
            | ReduceOp::WeightedAvg { .. }
            | ReduceOp::Max
            | ReduceOp::Min => 1 + (drawn % 11) as i64 + ((7 * rank + place + turn) % 4) as i64,
        }
    }

    fn expected<T: Number>(&self, holds: Holds, place: usize, iteration: u64) -> T {
        if let Holds::Of(rank) = holds {
            return T::whole(self.of(rank, place, iteration));
        }
        let all = (0..self.peers).map(|rank| self.of(rank, place, iteration));
        match self.op {
            ReduceOp::Sum => T::whole(all.sum()),
            // All weights are the same.
            ReduceOp::Avg | ReduceOp::WeightedAvg { .. } => {
                T::whole(all.sum::<i64>()).over(self.peers)
            }
            ReduceOp::Prod => T::whole(all.product()),
            ReduceOp::Max => T::whole(all.max().unwrap_or_default()),
            ReduceOp::Min => T::whole(all.min().unwrap_or_default()),
        }
    }
}

/// Fills the buffer with copies of a pattern, which is as long as the period or the buffer.
fn repeat<T: Number>(buffer: &mut [T], pattern: &[T]) {
    for part in buffer.chunks_mut(PERIOD) {
        let (pattern, _) = pattern.split_at(part.len());
        part.copy_from_slice(pattern);
    }
}

/// The finalizer of SplitMix64: near numbers become numbers that have nothing in common.
const fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// Comparing memory comes first, because it is as fast as memory.
fn differences<T: Number>(part: &[T], expected: &[T], tolerance: Option<f64>) -> u64 {
    let (expected, _) = expected.split_at(part.len());
    if bytemuck::cast_slice::<T, u8>(part) == bytemuck::cast_slice::<T, u8>(expected) {
        return 0;
    }
    let pairs = part.iter().zip(expected);
    let wrong = pairs.filter(|(is, should)| match tolerance {
        None => bytemuck::bytes_of(*is) != bytemuck::bytes_of(*should),
        Some(bound) => {
            let error = (is.approximate() - should.approximate()).abs();
            error.is_nan() || error > bound
        }
    });
    wrong.count() as u64
}
