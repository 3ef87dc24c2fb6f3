//! The memory of a row: what each iteration of a batch contributes, and where its result goes.

use std::ops::Range;

use pccl_kernels::simplehash;

use super::contribution::Contribution;
use super::number::Number;

/// Buffers of their own for each iteration of a batch, so that checking can wait until its end.
#[derive(Debug)]
pub(crate) struct Memory<T> {
    /// Elements of one iteration: of all its reduces together.
    stride: usize,
    /// Empty in place.
    source: Vec<T>,
    result: Vec<T>,
    /// Where a reduce-scatter that is not in place writes the shard of each iteration.
    shards: Vec<Vec<T>>,
}

impl<T: Number> Memory<T> {
    /// None.
    pub(crate) const fn new() -> Self {
        Self {
            stride: 1,
            source: Vec::new(),
            result: Vec::new(),
            shards: Vec::new(),
        }
    }

    /// Makes buffers for so many iterations of so many elements, at least one of each.
    pub(crate) fn make(&mut self, stride: usize, iterations: usize, in_place: bool) {
        // Before the next ones are made, so that both need not fit into memory.
        (self.source, self.result) = (Vec::new(), Vec::new());
        self.stride = stride;
        // Written to, because memory that was never touched is dear when it is first.
        self.result = vec![T::whole(1); stride * iterations];
        if !in_place {
            self.source = vec![T::whole(1); stride * iterations];
        }
        self.shards = vec![Vec::new(); iterations];
    }

    /// Elements of one iteration.
    pub(crate) const fn stride(&self) -> usize {
        self.stride
    }

    /// Iterations that there are buffers for.
    pub(crate) fn iterations(&self) -> usize {
        self.result.len() / self.stride
    }

    /// Puts the contributions into their places. Where results have places of their own, nothing that
    /// they hold passes for a result then; in place they hold the contribution, whose values see to that.
    pub(crate) fn fill(&mut self, contribution: &Contribution, iterations: Range<u64>) {
        let is_in_place = self.source.is_empty();
        let results = self.result.chunks_mut(self.stride);
        for (result, iteration) in results.zip(iterations.clone()) {
            if is_in_place {
                contribution.begin(result, iteration);
            } else {
                contribution.spoil(result, iteration);
            }
        }
        let sources = self.source.chunks_mut(self.stride);
        for (source, iteration) in sources.zip(iterations) {
            contribution.fill(source, iteration);
        }
    }

    /// The buffers of each iteration: the contribution, unless it is in place, the result, and that of a reduce-scatter
    /// that is not in place.
    pub(crate) fn buffers(
        &mut self,
    ) -> impl Iterator<Item = (Option<&[T]>, &mut [T], &mut Vec<T>)> {
        let mut sources = self.source.chunks(self.stride);
        let results = self.result.chunks_mut(self.stride);
        let results = results.zip(&mut self.shards);
        results.map(move |(result, shard)| (sources.next(), result, shard))
    }

    /// Copies the shard of each iteration to its place in the result, where it is checked. What was not written stays.
    pub(crate) fn place_shards(&mut self, at: usize) {
        for (result, shard) in self.result.chunks_mut(self.stride).zip(&mut self.shards) {
            let place = result.get_mut(at..at + shard.len());
            place
                .into_iter()
                .for_each(|place| place.copy_from_slice(shard));
            // The next iteration has to write it anew.
            shard.fill(T::whole(0));
        }
    }

    /// Elements of the results that are not what they should be. `exact`: even where the library
    /// compresses.
    pub(crate) fn count_wrong(
        &self,
        contribution: &Contribution,
        iterations: Range<u64>,
        exact: bool,
    ) -> u64 {
        let results = self.result.chunks(self.stride).zip(iterations);
        results
            .map(|(result, iteration)| contribution.wrong(result, iteration, exact))
            .sum()
    }

    /// Of the bits of the first so many results.
    pub(crate) fn checksums(&self, iterations: usize) -> impl Iterator<Item = u32> {
        let results = self.result.chunks(self.stride).take(iterations);
        results.map(|result| simplehash(bytemuck::cast_slice(result)))
    }
}
