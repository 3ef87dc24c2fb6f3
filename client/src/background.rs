//! Collectives in the background: calls that return a handle at once.

use crate::barrier::call_barrier;
use crate::broadcast::Broadcast;
use crate::calls::Calls;
use crate::collective::{Called, Memory};
use crate::communicator::Communicator;
use crate::element::{Element, bytes_of_mut};
use crate::error::Error;
use crate::gather::Gather;
use crate::gather_v::{GatherV, GatheredV};
use crate::handle::{CollectiveHandle, Concluding};
use crate::reduce::Reduce;
use crate::scatter::{Scattered, scattered};

/// Collectives in the background. Each handle owns the buffer of its collective until that has ended.
impl Communicator {
    /// Starts an [`all_reduce`](Self::all_reduce) in the background, and returns at once. The handle owns the buffer and
    /// gives it back, with the result or unchanged.
    ///
    /// Await the handle, or [`wait`](CollectiveHandle::wait) for it, before the next major operation.
    /// The handle returns all errors, including those of this call.
    ///
    /// # Many at once
    /// Any number of collectives may be started. A peer has at most 1000 in flight; further ones wait, and
    /// start in the order of their calls. Up to 1000 collectives may be started in a different order on each peer. If
    /// there are more, start them in the same order on all peers, which is always right. The exact rule: among the
    /// collectives that have not ended, fewer than 1000 may come after a given one at one peer and before it at another.
    /// If more do, each peer waits for a collective that another one holds back, until the deadline of
    /// [`Error::NotJoined`]. The handles may be awaited in any order.
    ///
    /// If several collectives that ran at once are aborted, start all of them again before you wait for any of them.
    /// Otherwise one peer may wait for the first and another peer for the second, until
    /// the deadline of [`Error::NotJoined`].
    ///
    /// # The buffer
    /// Any type that owns its elements and lends them as a slice: a `Vec`, a boxed slice, an array, or a type of your
    /// own (pinned memory, say). Its `as_mut` has to lend the same elements each time.
    ///
    /// ```
    /// use pccl::{CollectiveHandle, Communicator, Reduce};
    ///
    /// fn start(peers: &Communicator, gradients: Box<[f32]>) -> CollectiveHandle<Box<[f32]>> {
    ///     peers.start_all_reduce(gradients, Reduce::avg())
    /// }
    /// # let _ = start;
    /// ```
    pub fn start_all_reduce<T: Element, B: AsMut<[T]> + Send + 'static>(
        &self,
        mut buffer: B,
        reduce: Reduce,
    ) -> CollectiveHandle<B> {
        let called = Called::new(&self.calls, reduce, T::TYPE, buffer.as_mut().len());
        self.start(buffer, called, move |called, calls, buffer| {
            let memory = Memory::of_reduce(calls, bytes_of_mut(buffer.as_mut()), &reduce);
            Box::pin(called.conclude(memory))
        })
    }

    /// Starts a [`reduce_scatter`](Self::reduce_scatter) in the background, and returns at once. What
    /// [`start_all_reduce`](Self::start_all_reduce) says of handles and buffers holds here as well. The handle also
    /// returns the shard that holds the result.
    ///
    /// The gradients of one layer are reduced while those of the next one are computed:
    ///
    /// ```
    /// # fn example(comm: &pccl::Communicator, mut layers: Vec<Vec<f32>>) -> Result<(), pccl::Error> {
    /// use pccl::Reduce;
    ///
    /// let mut started = Vec::new();
    /// for (layer, gradients) in (0..).zip(layers.drain(..).rev()) {
    ///     // ... the backward pass of this layer ...
    ///     started.push(comm.start_reduce_scatter(gradients, Reduce::avg().tag(layer)));
    /// }
    /// for handle in started {
    ///     let done = handle.wait()?;
    ///     let mine = done.returned.shard.of(&done.buffer);
    /// #   let _ = mine;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn start_reduce_scatter<T: Element, B: AsMut<[T]> + Send + 'static>(
        &self,
        mut buffer: B,
        reduce: Reduce,
    ) -> CollectiveHandle<B, Scattered> {
        let len = buffer.as_mut().len();
        let called = reduce.call_scatter(&self.calls, T::TYPE, len);
        self.start(buffer, called, move |called, calls, buffer| {
            Box::pin(async move {
                let memory = Memory::of_reduce(calls, bytes_of_mut(buffer.as_mut()), &reduce);
                let report = called.conclude(memory).await?;
                Ok(scattered(calls, len, report))
            })
        })
    }

    /// Starts an [`all_gather`](Self::all_gather) in the background, and returns at once. What
    /// [`start_all_reduce`](Self::start_all_reduce) says of handles and buffers holds here as well. The buffer holds this
    /// peer's shard at its place.
    ///
    /// ```
    /// # fn example(comm: &pccl::Communicator, parameters: Vec<f32>) -> Result<(), pccl::Error> {
    /// use pccl::Gather;
    ///
    /// let shard = comm.shard(parameters.len());
    /// let next_layer = comm.start_all_gather(parameters, Gather::of(shard).tag(1));
    /// // ... the forward pass of the layer before ...
    /// let parameters = next_layer.wait()?.buffer;
    /// # let _ = parameters;
    /// # Ok(())
    /// # }
    /// ```
    pub fn start_all_gather<T: Element, B: AsMut<[T]> + Send + 'static>(
        &self,
        mut buffer: B,
        gather: Gather,
    ) -> CollectiveHandle<B> {
        let called = gather.call(&self.calls, T::TYPE, buffer.as_mut().len());
        self.start(buffer, called, move |called, calls, buffer| {
            let memory = gather.memory(calls, T::TYPE, bytes_of_mut(buffer.as_mut()));
            Box::pin(called.conclude(memory))
        })
    }

    /// Starts an [`all_gather_v`](Self::all_gather_v) in the background, and returns at once. What
    /// [`start_all_reduce`](Self::start_all_reduce) says of handles and buffers holds here as well. The handle owns both
    /// buffers, and gives both back. The `as_ref` of `mine` has to lend the same elements each time.
    ///
    /// ```
    /// # fn example(comm: &pccl::Communicator, changed: Vec<u32>) -> Result<(), pccl::Error> {
    /// use pccl::GatherV;
    ///
    /// let handle = comm.start_all_gather_v(changed, Vec::new(), GatherV::at_most(1_000_000));
    /// // ... the next step ...
    /// let done = handle.wait()?;
    /// let (_changed, all) = done.buffer;
    /// for (peer, range) in done.returned.parts() {
    ///     println!("{peer} has changed {:?}", &all[range]);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn start_all_gather_v<T: Element, B: AsRef<[T]> + Send + 'static>(
        &self,
        mine: B,
        all: Vec<T>,
        how: GatherV,
    ) -> CollectiveHandle<(B, Vec<T>), GatheredV> {
        let called = how.call(&self.calls, T::TYPE, mine.as_ref().len());
        self.start((mine, all), called, move |called, _, (mine, all)| {
            let mine: &B = mine;
            Box::pin(how.conclude(called, mine.as_ref(), all))
        })
    }

    /// Starts a [`broadcast`](Self::broadcast) in the background, and returns at once. What
    /// [`start_all_reduce`](Self::start_all_reduce) says of handles and buffers holds here as well.
    pub fn start_broadcast<T: Element, B: AsMut<[T]> + Send + 'static>(
        &self,
        mut buffer: B,
        broadcast: Broadcast,
    ) -> CollectiveHandle<B> {
        let called = broadcast.call(&self.calls, T::TYPE, buffer.as_mut().len());
        self.start(buffer, called, move |called, calls, buffer| {
            let memory = broadcast.memory(calls, bytes_of_mut(buffer.as_mut()));
            Box::pin(called.conclude(memory))
        })
    }

    /// Starts a [`barrier`](Self::barrier) in the background, and returns at once. The barrier ends when all peers of the
    /// group have called it, in the background or not. There is no buffer, and one barrier at a time: a second one gets
    /// [`Error::TagInUse`].
    pub fn start_barrier(&self) -> CollectiveHandle<()> {
        let called = call_barrier(&self.calls);
        self.start((), called, |called, _, ()| {
            Box::pin(called.conclude(Memory::nothing()))
        })
    }

    fn start<B: Send + 'static, R: Send + 'static>(
        &self,
        buffer: B,
        called: Result<Called, Error>,
        conclude: impl for<'a> FnOnce(Called, &'a Calls, &'a mut B) -> Concluding<'a, R>
        + Send
        + 'static,
    ) -> CollectiveHandle<B, R> {
        CollectiveHandle::start(&self.calls, &self.runtime, buffer, called, conclude)
    }
}
