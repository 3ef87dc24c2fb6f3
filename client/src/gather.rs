//! All-gather of shards: what it is told, and the call.

use std::ops::Range;
use std::time::Duration;

use pccl_core::element::{CollectiveKind, CollectiveSpec, ElementType, Quantization};
use pccl_core::id::Tag;
use pccl_core::plan::Algorithm;

use crate::calls::Calls;
use crate::collective::{Called, Memory, spec_of};
use crate::communicator::Communicator;
use crate::element::{Element, bytes_of_mut};
use crate::error::Error;
use crate::reduce::CollectiveReport;
use crate::shard::Shard;

/// The options of an all-gather: this peer's shard, and the tag that names the collective.
///
/// ```
/// # fn example(comm: &pccl::Communicator, parameters: &mut [f32]) -> Result<(), pccl::Error> {
/// use pccl::Gather;
///
/// let shard = comm.shard(parameters.len());
/// shard.of_mut(parameters).fill(1.0);
/// comm.all_gather(parameters, Gather::of(shard).tag(1))?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use = "this only says what to gather; pass it to all_gather"]
pub struct Gather {
    shard: Shard,
    tag: Tag,
    quantization: Quantization,
    algorithm: Option<Algorithm>,
    is_restored: bool,
    time_limit: Option<Duration>,
}

impl Gather {
    /// An all-gather to which this peer contributes this shard of the buffer.
    pub const fn of(shard: Shard) -> Self {
        Self {
            shard,
            tag: Tag(0),
            quantization: Quantization::None,
            algorithm: None,
            is_restored: true,
            time_limit: None,
        }
    }

    /// Names the collective. Default: 0.
    pub const fn tag(mut self, tag: u64) -> Self {
        self.tag = Tag(tag);
        self
    }

    /// Quantizes the elements on their way between peers. Floats only. Each shard is quantized once, by the peer that
    /// contributes it, which replaces its own elements by what the others get: all peers end with the same bits.
    /// [`error_bound`](Self::error_bound) says by how much an element may change. Elements in full precision have to be
    /// kept elsewhere. An infinite element or a NaN makes all elements of its [frame](Quantization) NaN. In a group of
    /// one, elements stay as they are. Default: no quantization.
    ///
    /// ```
    /// # fn example(comm: &pccl::Communicator, master: &[f32], weights: &mut [f32]) -> Result<(), pccl::Error> {
    /// use pccl::{ElementType, Gather, Quantization};
    ///
    /// let shard = comm.shard(weights.len());
    /// shard.of_mut(weights).copy_from_slice(master); // the shard in full precision, which the optimizer updates
    /// let to_bytes = Quantization::MinMax { to: ElementType::U8 };
    /// comm.all_gather(weights, Gather::of(shard).quantize(to_bytes))?;
    /// # Ok(())
    /// # }
    /// ```
    pub const fn quantize(mut self, how: Quantization) -> Self {
        self.quantization = how;
        self
    }

    /// Makes no backup of the buffer, except of this peer's shard if the gather is [quantized](Self::quantize). After an
    /// error this peer's shard is unchanged, so the call can be repeated, and all other elements are unspecified. Within a
    /// machine, an all-gather without a backup takes about two thirds of the time; between machines it only saves memory.
    /// Each peer chooses for itself. Default: a backup, so that the whole buffer is unchanged after an error.
    pub const fn without_backup(mut self) -> Self {
        self.is_restored = false;
        self
    }

    /// Gives the collective up if this peer's part is not complete in this time after the call, as
    /// [`Reduce::timeout`](crate::Reduce::timeout) does. Default: no limit.
    pub const fn timeout(mut self, limit: Duration) -> Self {
        self.time_limit = Some(limit);
        self
    }

    /// Requests an algorithm, as [`Reduce::algorithm`](crate::Reduce::algorithm) does.
    pub const fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = Some(algorithm);
        self
    }
}

impl Gather {
    /// Calls the all-gather of a buffer of so many elements.
    pub(crate) fn call(
        &self,
        calls: &Calls,
        element: ElementType,
        len: usize,
    ) -> Result<Called, Error> {
        if self.shard.len != len {
            return Err(Error::ShardMismatch {
                shard_of: self.shard.len,
                buffer_len: len,
            });
        }
        let kind = CollectiveKind::AllGather {
            laid_out_for: self.shard.laid_out_for(calls.me()),
        };
        let spec = CollectiveSpec {
            algorithm: self.algorithm,
            ..spec_of(kind, (element, self.quantization), len)?
        };
        Called::of(calls, self.tag, spec, self.time_limit)
    }

    /// The buffer, of which after a failure all or this peer's shard is as it was.
    pub(crate) fn memory<'a>(
        &self,
        calls: &Calls,
        element: ElementType,
        data: &'a mut [u8],
    ) -> Memory<'a> {
        if self.is_restored || self.quantization == Quantization::None {
            return Memory::of(calls, data, self.is_restored);
        }
        let Range { start, end } = self.shard.range();
        let own = start * element.size()..end * element.size();
        Memory::contributing(calls, data, own)
    }

    pub(crate) const fn quantization(&self) -> Quantization {
        self.quantization
    }
}

/// All-gather.
impl Communicator {
    /// Gathers the shards of all peers of the group. Each peer contributes its own shard, from its place in `buffer`,
    /// and receives all other shards.
    ///
    /// All peers pass buffers of the same length, and shards that were computed for the present participants. If a peer
    /// was lost or joined since then, the collective starts on no peer, so content that was computed for one shard
    /// never ends up in another one. It does not start either with the shard of another peer, or with a shard of
    /// another run in which this peer had another id.
    ///
    /// Blocks as [`all_reduce`](Self::all_reduce) does.
    ///
    /// # Errors
    /// [`Error::WorldChanged`], on all peers: compute the shards again.
    /// [`Error::ShardMismatch`]. Otherwise as [`all_reduce`](Self::all_reduce). The buffer is unchanged then, except
    /// [without a backup](Gather::without_backup).
    ///
    /// # Panics
    /// Inside an async task.
    #[track_caller]
    pub fn all_gather<T: Element>(
        &self,
        buffer: &mut [T],
        gather: Gather,
    ) -> Result<CollectiveReport, Error> {
        let call = self.gather(T::TYPE, bytes_of_mut(buffer), gather);
        self.runtime.block_on("all_gather_async", call)
    }

    /// As [`all_gather`](Self::all_gather), without blocking. Dropping the future gives the collective up, which is a
    /// failure for the buffer.
    ///
    /// # Errors
    /// As [`all_gather`](Self::all_gather).
    pub async fn all_gather_async<T: Element>(
        &self,
        buffer: &mut [T],
        gather: Gather,
    ) -> Result<CollectiveReport, Error> {
        self.gather(T::TYPE, bytes_of_mut(buffer), gather).await
    }

    async fn gather(
        &self,
        element: ElementType,
        data: &mut [u8],
        gather: Gather,
    ) -> Result<CollectiveReport, Error> {
        let call = async {
            let called = gather.call(&self.calls, element, data.len() / element.size())?;
            called
                .conclude(gather.memory(&self.calls, element, data))
                .await
        };
        self.runtime.inside(call).await
    }
}
