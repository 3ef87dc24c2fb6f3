//! Reduce-scatter from one buffer into another.

use pccl_core::id::Tag;
use pccl_core::plan::Shards;

use crate::collective::{Memory, Room, Scattering};
use crate::communicator::Communicator;
use crate::element::{Element, bytes_of, bytes_of_mut, resize};
use crate::error::Error;
use crate::reduce::Reduce;
use crate::scatter::{Scattered, scattered};

/// Memory for the shard of this peer.
struct ShardRoom<'a, T> {
    tag: Tag,
    shard: &'a mut Vec<T>,
}

impl<T: Element> Room for ShardRoom<'_, T> {
    fn open(&mut self, shards: &Shards, rank: u32) -> Result<&mut [u8], Error> {
        let range = shards.of_rank(rank);
        let elements = range.end.saturating_sub(range.start);
        let none = Error::OutOfMemory {
            tag: self.tag,
            elements,
        };
        let count = usize::try_from(elements).map_err(|_| none.clone())?;
        resize(self.shard, count).map_err(|_| none)?;
        Ok(bytes_of_mut(self.shard))
    }
}

impl Communicator {
    /// As [`reduce_scatter`](Self::reduce_scatter), from `source` into another buffer: `shard` is made as long as this
    /// peer's [shard](Self::shard), and filled with its part of the result. `source` is only read.
    ///
    /// Nothing has to be saved: after an error `source` is still there, and the call can be repeated. A `shard` that is
    /// used again is not allocated again, unless the shard has become longer because peers were lost. A [weighted
    /// average](Reduce::weighted_avg) is computed in its memory, which then has room for all of `source`.
    ///
    /// Blocks as [`all_reduce`](Self::all_reduce) does.
    ///
    /// ```
    /// # fn example(comm: &pccl::Communicator, gradients: &[f32], shard: &mut Vec<f32>) -> Result<(), pccl::Error> {
    /// use pccl::Reduce;
    ///
    /// let scattered = comm.reduce_scatter_into(gradients, shard, Reduce::avg())?;
    /// assert_eq!(shard.len(), scattered.shard.range().len());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; else as [`all_reduce`](Self::all_reduce). The content and the length of `shard` are
    /// unspecified then; the call can be repeated, because `source` is unchanged.
    ///
    /// # Panics
    /// Inside an async task.
    #[track_caller]
    pub fn reduce_scatter_into<T: Element>(
        &self,
        source: &[T],
        shard: &mut Vec<T>,
        reduce: Reduce,
    ) -> Result<Scattered, Error> {
        let call = self.reduce_scatter_into_async(source, shard, reduce);
        self.runtime.block_on("reduce_scatter_into_async", call)
    }

    /// As [`reduce_scatter_into`](Self::reduce_scatter_into), without blocking. Dropping the future gives the collective
    /// up.
    ///
    /// # Errors
    /// As [`reduce_scatter_into`](Self::reduce_scatter_into).
    pub async fn reduce_scatter_into_async<T: Element>(
        &self,
        source: &[T],
        shard: &mut Vec<T>,
        reduce: Reduce,
    ) -> Result<Scattered, Error> {
        if reduce.op().weight().is_some() {
            return self.scatter_weighted(source, shard, reduce).await;
        }
        let call = async {
            let count = source.len();
            let called = reduce.call_scatter(&self.calls, T::TYPE, count)?;
            let tag = reduce.name();
            let mut room = ShardRoom { tag, shard };
            let scattering = Scattering::new(&self.calls, bytes_of(source), &mut room);
            let memory = Memory::Scattered(scattering);
            let report = called.conclude(memory).await?;
            Ok(scattered(&self.calls, count, report))
        };
        self.runtime.inside(call).await
    }

    /// A contribution that is multiplied by its weight is copied anyway: into the memory of the result, of which the
    /// shard is left. Once the collective is committed, nothing can fail.
    async fn scatter_weighted<T: Element>(
        &self,
        source: &[T],
        shard: &mut Vec<T>,
        reduce: Reduce,
    ) -> Result<Scattered, Error> {
        resize(shard, source.len()).map_err(|_| Error::OutOfMemory {
            tag: reduce.name(),
            elements: source.len() as u64,
        })?;
        shard.copy_from_slice(source);
        let scattered = self.reduce_scatter_async(shard, reduce).await?;
        let own = scattered.shard.range();
        shard.copy_within(own.clone(), 0);
        shard.truncate(own.len());
        Ok(scattered)
    }
}

#[cfg(test)]
mod tests {
    use pccl_core::lengths::Lengths;

    use super::*;

    #[test]
    fn a_vector_is_made_as_long_as_the_shard_and_keeps_its_memory() {
        let shards = Shards::of_ranks(10, 3);
        let mut shard = vec![7_u32; 100];
        let memory = shard.as_ptr();
        let mut room = ShardRoom {
            tag: Tag(1),
            shard: &mut shard,
        };

        let bytes = room.open(&shards, 0).unwrap().len();
        let shorter = room.open(&shards, 1).unwrap().len();

        assert_eq!((bytes, shorter), (16, 12));
        assert_eq!((shard.len(), shard.as_ptr()), (3, memory));
    }

    #[test]
    fn a_shard_for_which_there_is_no_memory_is_an_error() {
        let elements = 1 << 60;
        let shards = Shards::of_lengths(&Lengths(vec![elements])).unwrap();
        let mut shard = Vec::<u64>::new();
        let mut room = ShardRoom {
            tag: Tag(1),
            shard: &mut shard,
        };

        let opened = room.open(&shards, 0).map(drop);

        let tag = Tag(1);
        assert_eq!(opened, Err(Error::OutOfMemory { tag, elements }));
    }
}
