//! Barrier.

use pccl_core::element::{CollectiveKind, ElementType, Quantization};
use pccl_core::id::Tag;

use crate::calls::Calls;
use crate::collective::{Called, Memory, spec_of};
use crate::communicator::Communicator;
use crate::error::Error;
use crate::reduce::CollectiveReport;

/// The tag that [`Communicator::barrier`] takes.
pub(crate) const BARRIER: Tag = Tag(u64::MAX);

/// Calls a barrier.
pub(crate) fn call_barrier(calls: &Calls) -> Result<Called, Error> {
    let plain = (ElementType::U8, Quantization::None);
    let spec = spec_of(CollectiveKind::Barrier, plain, 0)?;
    Called::of(calls, BARRIER, spec, None)
}

/// Barrier.
impl Communicator {
    /// Blocks until all peers of the group have called it, and moves nothing. It does not wait for other collectives
    /// that are in flight. It takes the tag `u64::MAX`, which no other collective should use: a second barrier at the
    /// same time gets [`Error::TagInUse`].
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    ///
    /// # Panics
    /// Inside an async task.
    #[track_caller]
    pub fn barrier(&self) -> Result<CollectiveReport, Error> {
        self.runtime.block_on("barrier_async", self.barrier_async())
    }

    /// As [`barrier`](Self::barrier), without blocking. Dropping the future gives it up.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    pub async fn barrier_async(&self) -> Result<CollectiveReport, Error> {
        let call = async { call_barrier(&self.calls)?.conclude(Memory::nothing()).await };
        self.runtime.inside(call).await
    }
}
