//! Reduce-scatter in place: the call, and what it returns.

use pccl_core::element::{CollectiveKind, ElementType};

use crate::calls::Calls;
use crate::collective::{Called, Memory};
use crate::communicator::Communicator;
use crate::element::{Element, bytes_of_mut};
use crate::error::Error;
use crate::reduce::{CollectiveReport, Reduce};
use crate::shard::Shard;

/// The outcome of a reduce-scatter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scattered {
    /// The elements of the buffer that belong to this peer. They hold the result.
    pub shard: Shard,
    /// What the collective did.
    pub report: CollectiveReport,
}

impl Reduce {
    /// Calls a reduce-scatter of a buffer of so many elements.
    pub(crate) fn call_scatter(
        self,
        calls: &Calls,
        element: ElementType,
        len: usize,
    ) -> Result<Called, Error> {
        let spec = self.spec_of(CollectiveKind::ReduceScatter, element, len)?;
        Called::of(calls, self.name(), spec, self.limit())
    }
}

/// What a reduce-scatter of so many elements returns.
pub(crate) fn scattered(calls: &Calls, len: usize, report: CollectiveReport) -> Scattered {
    Scattered {
        shard: Shard::new(len, calls.me(), &report.contributors),
        report,
    }
}

/// Reduce-scatter.
impl Communicator {
    /// Reduces the buffers of all peers of the group, and writes this peer's [shard](Self::shard) of the result to
    /// its place in `buffer`. The rest of the buffer is unchanged. To write it elsewhere, use
    /// [`reduce_scatter_into`](Self::reduce_scatter_into).
    ///
    /// It moves half the bytes of an all-reduce with the same [algorithm](CollectiveReport::algorithm). Sums of floats
    /// may differ from those of an all-reduce by rounding, because the order of the additions depends on the rank that
    /// has the shard. All peers pass buffers of the same length. Use the shard that is returned: it differs from an
    /// earlier one if a peer was lost before the collective began.
    ///
    /// Blocks as [`all_reduce`](Self::all_reduce) does.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce). The buffer is unchanged then.
    ///
    /// # Panics
    /// Inside an async task.
    #[track_caller]
    pub fn reduce_scatter<T: Element>(
        &self,
        buffer: &mut [T],
        reduce: Reduce,
    ) -> Result<Scattered, Error> {
        let call = self.scatter(T::TYPE, bytes_of_mut(buffer), reduce);
        self.runtime.block_on("reduce_scatter_async", call)
    }

    /// As [`reduce_scatter`](Self::reduce_scatter), without blocking. Dropping the future gives the collective up and
    /// restores the buffer.
    ///
    /// # Errors
    /// As [`reduce_scatter`](Self::reduce_scatter).
    pub async fn reduce_scatter_async<T: Element>(
        &self,
        buffer: &mut [T],
        reduce: Reduce,
    ) -> Result<Scattered, Error> {
        self.scatter(T::TYPE, bytes_of_mut(buffer), reduce).await
    }

    async fn scatter(
        &self,
        element: ElementType,
        data: &mut [u8],
        reduce: Reduce,
    ) -> Result<Scattered, Error> {
        let len = data.len() / element.size();
        let call = async {
            let called = reduce.call_scatter(&self.calls, element, len)?;
            let memory = Memory::of_reduce(&self.calls, data, &reduce);
            let report = called.conclude(memory).await?;
            Ok(scattered(&self.calls, len, report))
        };
        self.runtime.inside(call).await
    }
}
