//! All-reduces: in place, from one buffer into another, with error feedback, and many at once.

use pccl_core::element::ElementType;

use crate::collective::{Called, Memory};
use crate::communicator::Communicator;
use crate::element::{Element, bytes_of, bytes_of_mut};
use crate::error::Error;
use crate::error_feedback::{ErrorFeedback, Noting};
use crate::many::{ManyFailed, ReduceItem, reduce_all};
use crate::reduce::{CollectiveReport, Reduce};

/// All-reduces.
impl Communicator {
    /// Replaces `buffer` by the reduction of the buffers of all peers of the group: the same bits on every peer.
    ///
    /// `buffer` has the same number of elements on every peer; zero is allowed, and so is a group of one peer. After an
    /// error the buffer holds what it held before, bit for bit, even if this peer already had the result.
    ///
    /// Blocks until every peer of the group has called with the same tag, and the reduce has ended. A
    /// ring that has lost a peer is rebuilt, without newcomers, before the reduce begins.
    ///
    /// # Errors
    /// [`Error::Aborted`]: a peer or a lane was lost. All peers get this error: call again, or admit
    /// newcomers first. [`Error::Disagreement`]: the peers asked for different things.
    /// [`Error::Conflict`]: another peer waits in `optimize_topology` or `sync_shared_state`. Make that
    /// call first.
    /// [`Error::NotJoined`], [`Error::TagInUse`], [`Error::NotSupported`], [`Error::Busy`]; errors that
    /// are [final](Error::is_final).
    ///
    /// # Panics
    /// Inside an async task.
    #[track_caller]
    pub fn all_reduce<T: Element>(
        &self,
        buffer: &mut [T],
        reduce: Reduce,
    ) -> Result<CollectiveReport, Error> {
        let call = self.reduce_in_place(T::TYPE, bytes_of_mut(buffer), reduce);
        self.runtime.block_on("all_reduce_async", call)
    }

    /// As [`all_reduce`](Self::all_reduce), without blocking. The ring runs in the task that polls the
    /// future, from the first poll on, so poll it promptly: other collectives of this communicator may wait for it.
    /// Dropping the future gives the reduce up and restores the buffer.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    pub async fn all_reduce_async<T: Element>(
        &self,
        buffer: &mut [T],
        reduce: Reduce,
    ) -> Result<CollectiveReport, Error> {
        let data = bytes_of_mut(buffer);
        self.reduce_in_place(T::TYPE, data, reduce).await
    }

    // What is not generic is compiled once, here, and not in each crate for each type of element.
    async fn reduce_in_place(
        &self,
        element: ElementType,
        data: &mut [u8],
        reduce: Reduce,
    ) -> Result<CollectiveReport, Error> {
        let call = async {
            let called = Called::new(&self.calls, reduce, element, data.len() / element.size())?;
            let memory = Memory::of_reduce(&self.calls, data, &reduce);
            called.conclude(memory).await
        };
        self.runtime.inside(call).await
    }

    /// Writes the reduction of all peers' `source` to `result`. It is faster than
    /// [`all_reduce`](Self::all_reduce), because `source` is only read and needs no backup.
    ///
    /// Both have the same number of elements. After an error the content of `result` is unspecified.
    /// In all else it works as `all_reduce`. Some peers may call the one, and others the other.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`], and those of [`all_reduce`](Self::all_reduce).
    ///
    /// # Panics
    /// Inside an async task.
    #[track_caller]
    pub fn all_reduce_into<T: Element>(
        &self,
        source: &[T],
        result: &mut [T],
        reduce: Reduce,
    ) -> Result<CollectiveReport, Error> {
        let (source, result) = (bytes_of(source), bytes_of_mut(result));
        let call = self.reduce_into(T::TYPE, source, result, reduce);
        self.runtime.block_on("all_reduce_into_async", call)
    }

    /// As [`all_reduce_into`](Self::all_reduce_into), without blocking.
    ///
    /// # Errors
    /// As [`all_reduce_into`](Self::all_reduce_into).
    pub async fn all_reduce_into_async<T: Element>(
        &self,
        source: &[T],
        result: &mut [T],
        reduce: Reduce,
    ) -> Result<CollectiveReport, Error> {
        let (source, result) = (bytes_of(source), bytes_of_mut(result));
        self.reduce_into(T::TYPE, source, result, reduce).await
    }

    async fn reduce_into(
        &self,
        element: ElementType,
        src: &[u8],
        dst: &mut [u8],
        reduce: Reduce,
    ) -> Result<CollectiveReport, Error> {
        let count = src.len() / element.size();
        if src.len() != dst.len() {
            return Err(Error::LengthMismatch {
                source_count: count,
                result_count: dst.len() / element.size(),
            });
        }
        let call = async {
            let called = Called::new(&self.calls, reduce, element, count)?;
            let memory = Memory::of_reduce_into(&self.calls, src, dst, &reduce);
            called.conclude(memory).await
        };
        self.runtime.inside(call).await
    }

    /// As [`all_reduce`](Self::all_reduce), and recovers what quantization lost in earlier rounds; see
    /// [`ErrorFeedback`](crate::ErrorFeedback). If the call fails, the buffer and `feedback` are unchanged.
    ///
    /// Every peer should pass its own `ErrorFeedback`. If one does not, only its own losses stay unrecovered.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce); [`Error::NotSupported`] for integers.
    ///
    /// # Panics
    /// Inside an async task.
    #[track_caller]
    pub fn all_reduce_with_feedback<T: Element>(
        &self,
        buffer: &mut [T],
        reduce: Reduce,
        feedback: &mut ErrorFeedback,
    ) -> Result<CollectiveReport, Error> {
        // Calculating with long buffers takes long: nobody would drive the runtime meanwhile.
        let buffer_bytes = bytes_of_mut(buffer);
        let noting = feedback.begin(T::TYPE, buffer_bytes);
        let call = self.reduce_noting(reduce, T::TYPE, noting);
        let instead = "all_reduce_with_feedback_async";
        let report = self.runtime.block_on(instead, call)?;
        feedback.finish(T::TYPE, buffer_bytes);
        Ok(report)
    }

    /// As [`all_reduce_with_feedback`](Self::all_reduce_with_feedback), without blocking. Dropping the
    /// future gives the reduce up, and leaves buffer and feedback as they were.
    ///
    /// # Errors
    /// As [`all_reduce_with_feedback`](Self::all_reduce_with_feedback).
    pub async fn all_reduce_with_feedback_async<T: Element>(
        &self,
        buffer: &mut [T],
        reduce: Reduce,
        feedback: &mut ErrorFeedback,
    ) -> Result<CollectiveReport, Error> {
        let buffer_bytes = bytes_of_mut(buffer);
        let noting = feedback.begin(T::TYPE, buffer_bytes);
        let report = self.reduce_noting(reduce, T::TYPE, noting).await?;
        feedback.finish(T::TYPE, buffer_bytes);
        Ok(report)
    }

    /// One round of a feedback; `None`: there are none of this type.
    async fn reduce_noting(
        &self,
        reduce: Reduce,
        element: ElementType,
        noting: Option<Noting<'_>>,
    ) -> Result<CollectiveReport, Error> {
        if reduce.op().weight().is_some() {
            return Err(Error::WeightedFeedback);
        }
        let Noting { src, dst, losses } = noting.ok_or_else(|| reduce.not_supported(element))?;
        let count = src.len() / element.size();
        let call = async {
            let called = Called::new(&self.calls, reduce, element, count)?;
            called.conclude(Memory::Noting { src, dst, losses }).await
        };
        self.runtime.inside(call).await
    }

    /// Reduces all items in place, in their order, at most `max_in_flight` (at least one) at a time,
    /// and repeats each aborted item until it is done. The reports are in the order of
    /// the items, and say how often each item was repeated.
    ///
    /// All peers of the group call with the same number of items, the same tags in the same
    /// order, and the same `max_in_flight`. Every item has a tag of its own. At most 1000 items are in flight.
    ///
    /// Repetitions are not limited, because each of them follows the loss of a peer or a lane, and the last peer
    /// reduces alone. Blocks until all items are done, or one has failed for another reason.
    ///
    /// # Errors
    /// An error that a repetition cannot cure ends the call. No further item begins, the running ones
    /// end, and [`ManyFailed`] says which items are done. The buffers of the other items are unchanged.
    /// [`Error::Conflict`] is such an error: another peer waits in `optimize_topology` or
    /// `sync_shared_state`, which this call cannot make.
    ///
    /// # Panics
    /// Inside an async task.
    #[track_caller]
    pub fn all_reduce_many_with_retry(
        &self,
        items: &mut [ReduceItem<'_>],
        max_in_flight: usize,
    ) -> Result<Vec<CollectiveReport>, ManyFailed> {
        let call = self.all_reduce_many_with_retry_async(items, max_in_flight);
        self.runtime
            .block_on("all_reduce_many_with_retry_async", call)
    }

    /// As [`all_reduce_many_with_retry`](Self::all_reduce_many_with_retry), without blocking. Dropping
    /// the future gives up what runs; items that were done stay done.
    ///
    /// # Errors
    /// As [`all_reduce_many_with_retry`](Self::all_reduce_many_with_retry).
    pub async fn all_reduce_many_with_retry_async(
        &self,
        items: &mut [ReduceItem<'_>],
        max_in_flight: usize,
    ) -> Result<Vec<CollectiveReport>, ManyFailed> {
        let call = reduce_all(&self.calls, items, max_in_flight);
        self.runtime.inside(call).await
    }
}
