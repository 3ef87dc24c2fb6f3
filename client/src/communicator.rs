//! The communicator: what a training program holds.

use std::fmt;

use pccl_core::element::ElementType;
use pccl_core::id::{Epoch, PeerId};
use pccl_core::peer::{Call, Optimized};
use tokio::sync::oneshot;

use crate::builder::Builder;
use crate::calls::Calls;
use crate::collective::{Called, Memory};
use crate::destination::Destination;
use crate::element::{Element, bytes_of, bytes_of_mut};
use crate::engine::{Caller, Command};
use crate::error::Error;
use crate::error_feedback::{ErrorFeedback, Noting};
use crate::handle::AllReduceHandle;
use crate::many::{ManyFailed, ReduceItem, reduce_all};
use crate::reduce::{CollectiveReport, Reduce};
use crate::runtime::{OwnThread, Runtime};
use crate::state::{SharedState, SyncOptions, SyncReport};
use crate::sync::synchronize;
use crate::topology::TopologyReport;

/// A peer of a run: its part in the membership, in collectives and in the shared state.
///
/// # Two kinds of calls
///
/// *Major* operations ([`update_topology`](Self::update_topology),
/// [`optimize_topology`](Self::optimize_topology), [`sync_shared_state`](Self::sync_shared_state))
/// borrow the communicator mutably: the compiler sees to it that no other call runs beside them.
/// Handles of [`start_all_reduce`](Self::start_all_reduce) outlive that borrow; a major operation
/// while one of them runs is answered by [`Error::PendingCollectives`]. Collectives and
/// [`are_peers_pending`](Self::are_peers_pending) share the communicator.
///
/// # Blocking and async
///
/// Each call exists twice. The plain one blocks its thread until the call has ended and panics inside
/// an async task. The one that ends in `_async` is a future, for any executor: whatever it opens belongs
/// to the communicator's runtime, so the program's own may end before the next call. Whichever
/// [`connect`](Builder::connect) was used, both work; blocking calls on a communicator of
/// [`connect_async`](Builder::connect_async) need another thread to drive that runtime meanwhile.
///
/// No call has a time limit of its own, because only the program knows how long a step of its slowest
/// peer takes. The master judges the peers that others wait for, as its operator has set it: who calls
/// nothing for ten minutes is kicked, unless more would be kicked than wait; of what runs and moves no
/// bytes for a minute the peer that holds it up.
///
/// # Futures that are dropped
///
/// A dropped future of a major operation or of `are_peers_pending` leaves its vote standing, which cannot
/// be taken back: what other peers wait for still happens. Making the same call again joins the vote that
/// stands, except for `sync_shared_state`; other calls wait until it has ended.
///
/// A dropped collective is given up, and the buffer in place is as it was. One that has not started,
/// because others have not called it, is taken back, as if it had never been called: those that wait for
/// it go on waiting for this peer to call it. One that runs is aborted for everybody, unless it was
/// committed already.
///
/// # Memory
///
/// What a reduce needs beside the caller's buffers does not depend on their size, with one exception: in
/// place it saves what it overwrites, in as much memory as the buffer. Each lane has up to 6 frames of
/// 256 KiB. Where what travels is quantized, frames wait as they came: each peer has at most 64 MiB of
/// elements on their way (2 MiB within a machine), all its reduces together, so that a peer before a slow
/// link holds about that of every other peer, encoded, twice at worst.
///
/// That memory is used again by the next reduces: up to 16 backups, each as large as the largest buffer
/// that it has saved, and 16 MiB of frames are kept, and given back to the system when there was no
/// reduce for ten seconds ([`keep_memory`](Builder::keep_memory)).
///
/// # The end
///
/// [`shutdown`](Self::shutdown) tells the master, and so does dropping. An error that
/// [`is_final`](Error::is_final) means that this communicator is out of the run; the buffers of its calls
/// are what they are after any [`Error`].
pub struct Communicator {
    pub(crate) calls: Calls,
    pub(crate) runtime: Runtime,
    /// Dropped last: the engine ends once it can hear no more calls.
    _thread: Option<OwnThread>,
}

impl Communicator {
    /// Describes a connection to the master at `host:port`. Nothing happens before
    /// [`connect`](Builder::connect).
    pub fn builder(master: impl Into<String>) -> Builder {
        Builder::new(Destination::of(&master.into()))
    }

    /// As [`builder`](Self::builder), to the master that the environment variable `PCCL_JOIN` names: a join
    /// string stands in nobody's list of processes then. Connecting fails with
    /// [`Error::NoJoinString`] if it is not set.
    pub fn builder_from_env() -> Builder {
        Builder::new(Destination::of_environment())
    }

    pub(crate) const fn new(calls: Calls, runtime: Runtime, thread: Option<OwnThread>) -> Self {
        Self {
            calls,
            runtime,
            _thread: thread,
        }
    }

    /// Admits the peers that wait, and repairs rings that have lost a peer or a lane.
    ///
    /// A vote of all accepted peers of all groups: it ends when each of them has called, or agrees without
    /// a call of its own. Who waits in another call for others to make it agrees, and goes on waiting, on
    /// the new ring; so does a peer that was admitted and has called nothing since, perhaps because it
    /// still loads its data. The first call of a peer that has just been admitted returns at once, because
    /// its admission was this very update.
    ///
    /// A peer that has called for nothing since its admission is not waited for. If the others' update gave it
    /// another ring, its next call returns at once with that ring. Any other call counts for the next update,
    /// and not for one that is over.
    ///
    /// Blocks until then. Afterwards [`world_size`](Self::world_size) and the other attributes tell
    /// of the new epoch.
    ///
    /// # Errors
    /// [`Error::PendingCollectives`] while a handle runs; an error that is
    /// [final](Error::is_final) where this peer is out of the run. Newcomers that cannot be connected
    /// cost nobody else anything: they are refused.
    ///
    /// # Panics
    /// Inside an async task.
    pub fn update_topology(&mut self) -> Result<TopologyReport, Error> {
        let runtime = self.runtime.clone();
        runtime.block_on(self.update_topology_async())
    }

    /// As [`update_topology`](Self::update_topology), without blocking.
    ///
    /// # Errors
    /// As [`update_topology`](Self::update_topology).
    pub async fn update_topology_async(&mut self) -> Result<TopologyReport, Error> {
        let updated = async {
            let topology = self
                .calls
                .ask(Call::UpdateTopology, Caller::Topology)
                .await?;
            Ok(TopologyReport::new(topology, self.peer_id(), None))
        };
        self.runtime.inside(updated).await
    }

    /// Measures the paths between the peers and arranges the rings by them.
    ///
    /// A vote of all accepted peers of all groups. Blocks until all of them have called, measured and
    /// connected the rings that were chosen. A measurement takes a second at most, and no two share a peer: N
    /// peers need 2·N rounds the first time, and few once the master knows their paths. It forgets what it
    /// has not measured for ten minutes or more.
    ///
    /// [`TopologyReport::optimized`] says what the ring was before, and what can be expected of both.
    ///
    /// # Errors
    /// [`Error::OptimizationFailed`]: the rings are as they were; [`Error::PendingCollectives`]; errors
    /// that are [final](Error::is_final).
    ///
    /// # Panics
    /// Inside an async task.
    pub fn optimize_topology(&mut self) -> Result<TopologyReport, Error> {
        let runtime = self.runtime.clone();
        runtime.block_on(self.optimize_topology_async())
    }

    /// As [`optimize_topology`](Self::optimize_topology), without blocking.
    ///
    /// # Errors
    /// As [`optimize_topology`](Self::optimize_topology).
    pub async fn optimize_topology_async(&mut self) -> Result<TopologyReport, Error> {
        let optimized = async {
            let Optimized { topology, report } = self
                .calls
                .ask(Call::OptimizeTopology, Caller::Optimization)
                .await?;
            Ok(TopologyReport::new(topology, self.peer_id(), Some(report)))
        };
        self.runtime.inside(optimized).await
    }

    /// Does anybody wait to be admitted? All accepted peers get the same answer, so that they can
    /// decide alike whether to call [`update_topology`](Self::update_topology).
    ///
    /// A vote of all accepted peers of all groups; it may run beside collectives. Blocks until all of
    /// them have called. One at a time. Where another peer waits for this one in a major call, the
    /// answer is yes at once: to update the topology is the way to where the others are. So a newcomer
    /// may begin its loop with the question.
    ///
    /// # Errors
    /// [`Error::QueryPending`]; errors that are [final](Error::is_final).
    ///
    /// # Panics
    /// Inside an async task.
    pub fn are_peers_pending(&self) -> Result<bool, Error> {
        self.runtime.block_on(self.are_peers_pending_async())
    }

    /// As [`are_peers_pending`](Self::are_peers_pending), without blocking.
    ///
    /// # Errors
    /// As [`are_peers_pending`](Self::are_peers_pending).
    pub async fn are_peers_pending_async(&self) -> Result<bool, Error> {
        let call = self.calls.ask(Call::ArePeersPending, Caller::Query);
        self.runtime.inside(call).await
    }

    /// Replaces `buffer` by the reduction of all buffers of the group: the same bits on every peer.
    ///
    /// `buffer` has any number of elements, zero included, and as many on every peer. It works with
    /// one peer as well. On an error it is as it was, bit for bit, also where this peer had the
    /// result already and the others did not.
    ///
    /// Blocks until every peer of the group has called with the same tag and the ring is through. A
    /// ring that has lost a peer is rebuilt, without newcomers, before the reduce begins.
    ///
    /// # Errors
    /// [`Error::Aborted`]: a peer or a lane was lost, for everybody alike: call again, or admit
    /// newcomers first. [`Error::Disagreement`]: the peers asked for different things.
    /// [`Error::Conflict`]: another peer waits in `optimize_topology` or `sync_shared_state`: make that
    /// call first.
    /// [`Error::NotJoined`], [`Error::TagInUse`], [`Error::NotSupported`], [`Error::Busy`]; errors that
    /// are [final](Error::is_final).
    ///
    /// # Panics
    /// Inside an async task.
    pub fn all_reduce<T: Element>(
        &self,
        buffer: &mut [T],
        reduce: Reduce,
    ) -> Result<CollectiveReport, Error> {
        self.runtime.block_on(self.all_reduce_async(buffer, reduce))
    }

    /// As [`all_reduce`](Self::all_reduce), without blocking. The ring runs in the task that polls the
    /// future, so poll it promptly. Dropping the future gives the reduce up and restores the buffer.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    pub async fn all_reduce_async<T: Element>(
        &self,
        buffer: &mut [T],
        reduce: Reduce,
    ) -> Result<CollectiveReport, Error> {
        let call = async {
            let called = Called::new(&self.calls, reduce, T::TYPE, buffer.len())?;
            let memory = Memory::in_place(&self.calls, bytes_of_mut(buffer));
            called.conclude(memory).await
        };
        self.runtime.inside(call).await
    }

    /// Writes the reduction of all peers' `source` to `result`. `source` is only read, so nothing has
    /// to be saved: faster than in place where the contribution is not needed in place.
    ///
    /// Both have the same number of elements. On an error the content of `result` is unspecified.
    /// Otherwise as [`all_reduce`](Self::all_reduce), and peers may mix the two.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`], and those of [`all_reduce`](Self::all_reduce).
    ///
    /// # Panics
    /// Inside an async task.
    pub fn all_reduce_into<T: Element>(
        &self,
        source: &[T],
        result: &mut [T],
        reduce: Reduce,
    ) -> Result<CollectiveReport, Error> {
        let call = self.all_reduce_into_async(source, result, reduce);
        self.runtime.block_on(call)
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
        if source.len() != result.len() {
            return Err(Error::LengthMismatch {
                source_count: source.len(),
                result_count: result.len(),
            });
        }
        let call = async {
            let called = Called::new(&self.calls, reduce, T::TYPE, source.len())?;
            let (src, dst) = (bytes_of(source), bytes_of_mut(result));
            called.conclude(Memory::Into { src, dst }).await
        };
        self.runtime.inside(call).await
    }

    /// As [`all_reduce`](Self::all_reduce), and makes up for what quantization has lost in the rounds
    /// before: `feedback` says how. The buffer and `feedback` are as they were where it fails.
    ///
    /// Every peer of the group should call with a feedback of its own; who does not only keeps its own
    /// losses lost.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce); [`Error::NotSupported`] for integers.
    ///
    /// # Panics
    /// Inside an async task.
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
        let report = self.runtime.block_on(call)?;
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
        let Noting { src, dst, losses } = noting.ok_or_else(|| reduce.not_supported(element))?;
        let count = src.len() / element.size();
        let call = async {
            let called = Called::new(&self.calls, reduce, element, count)?;
            called.conclude(Memory::Noting { src, dst, losses }).await
        };
        self.runtime.inside(call).await
    }

    /// Starts a reduce that runs on its own, and returns at once. The handle owns the buffer and gives
    /// it back: with the result, or as it was.
    ///
    /// Await the handle, or [`wait`](AllReduceHandle::wait) for it, before the next major operation.
    /// Errors, also those of the call itself, come from the handle.
    ///
    /// # Many at once
    /// Any number may be started. A peer has 1000 collectives in flight, whatever calls they come from;
    /// those beyond wait, and start in the order of their calls as others end. Up to there each peer may
    /// start them in an order of its own. Beyond, all peers have to start the same ones in about the same
    /// order: of those that have not ended, fewer than 1000 may come after a reduce at one peer and before
    /// it at another. Else each peer waits for what another one holds back, until the deadline of
    /// [`Error::NotJoined`]. One order on all peers is always right. In which order the handles are
    /// awaited makes no difference.
    ///
    /// Where several that ran at once are aborted, start each of them again before waiting for any:
    /// a peer that waits for one and a peer that waits for another would wait for each other until
    /// the deadline of [`Error::NotJoined`].
    pub fn start_all_reduce<T: Element>(
        &self,
        buffer: Vec<T>,
        reduce: Reduce,
    ) -> AllReduceHandle<T> {
        AllReduceHandle::start(&self.calls, &self.runtime, buffer, reduce)
    }

    /// Reduces all items in place, in their order, at most `max_in_flight` (at least one) at a time,
    /// and repeats those that are aborted until each of them is done. The reports are in the order of
    /// the items; each of them says how often it was repeated.
    ///
    /// All peers of the group call with the same list: as many items, the same tags in the same
    /// order, and one `max_in_flight`. Every item has a tag of its own. More than 1000 are never in flight.
    ///
    /// There is no limit on repetitions, because each of them follows the loss of a peer or a lane;
    /// with one peer left, the reduce is that peer's own. Blocks until all are done or one cannot be.
    ///
    /// # Errors
    /// An error that calling again does not cure ends the call: no further item is begun, those
    /// running end, and [`ManyFailed`] says which items are done. Those that are not are as they were.
    /// [`Error::Conflict`] is among them: another peer waits in `optimize_topology` or
    /// `sync_shared_state`, which cannot be called from in here.
    ///
    /// # Panics
    /// Inside an async task.
    pub fn all_reduce_many_with_retry(
        &self,
        items: &mut [ReduceItem<'_>],
        max_in_flight: usize,
    ) -> Result<Vec<CollectiveReport>, ManyFailed> {
        let call = self.all_reduce_many_with_retry_async(items, max_in_flight);
        self.runtime.block_on(call)
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

    /// Brings the shared state of the group to one content and one revision.
    ///
    /// A vote of all peers of the group; it ends when all of them have called. The master elects the
    /// content by the peers' [strategies](crate::SyncStrategy); peers that hold another one fetch the
    /// entries that differ, straight from a peer that holds it. Where everybody holds the same, no
    /// content travels. The user's memory is written only when everybody has what it needs, so on an
    /// error it is as it was.
    ///
    /// Blocks meanwhile. Sets [`SharedState::revision`] to that of the group.
    ///
    /// Each call hashes all content first, by up to 16 threads, and a peer that fetches hashes each
    /// entry on arrival. A gigabyte takes about a tenth of a second on one core of an AMD EPYC with
    /// AVX-512, and 0.07 seconds on two; `cargo bench -p pccl-kernels -- content_hash` says how fast
    /// another machine is. While an entry is hashed on arrival its sender waits, for
    /// [`stall_timeout`](crate::Builder::stall_timeout) at most: split what takes longer into several
    /// entries.
    ///
    /// # Errors
    /// [`Error::SyncFailed`] says why, and whether calling again helps; see [`SyncOptions`] for how to
    /// go on where the newest revision is lost. [`Error::Conflict`]: another peer waits in
    /// `optimize_topology`, call that first; or collectives have given way to synchronizations twice in a
    /// row, and it is this one's turn. [`Error::PendingCollectives`]. [`Error::Kicked`] where the entries are not those of the other
    /// peers, or the revision is ahead of the group's. Errors that are [final](Error::is_final).
    ///
    /// # Panics
    /// Inside an async task.
    pub fn sync_shared_state(
        &mut self,
        state: &mut SharedState<'_>,
        options: impl Into<SyncOptions>,
    ) -> Result<SyncReport, Error> {
        let runtime = self.runtime.clone();
        runtime.block_on(self.sync_shared_state_async(state, options))
    }

    /// As [`sync_shared_state`](Self::sync_shared_state), without blocking but for the hashing, which
    /// runs in the task that polls the future. Every 64 MiB, which is about 7 milliseconds on one core
    /// of that EPYC, it lets the other tasks of the thread have their turns. Where that is too long for
    /// them, poll the future on a thread of its own. Dropping the future leaves the memory as it is.
    ///
    /// # Errors
    /// As [`sync_shared_state`](Self::sync_shared_state).
    pub async fn sync_shared_state_async(
        &mut self,
        state: &mut SharedState<'_>,
        options: impl Into<SyncOptions>,
    ) -> Result<SyncReport, Error> {
        let call = synchronize(&self.calls, state, options.into());
        self.runtime.inside(call).await
    }

    /// Who this peer is: unique in the run, never used again.
    #[must_use]
    pub fn peer_id(&self) -> PeerId {
        self.calls.view.borrow().me
    }

    /// The port on which this peer accepts the lanes of others.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.calls.port
    }

    /// This peer's position in its group's ring, below [`world_size`](Self::world_size). Changes with
    /// the epoch.
    #[must_use]
    pub fn rank(&self) -> usize {
        let view = self.calls.view.borrow();
        view.topology.ring.rank_of(view.me).unwrap_or_default()
    }

    /// Number of peers in this peer's group, as of this epoch.
    #[must_use]
    pub fn world_size(&self) -> usize {
        self.calls.view.borrow().topology.world.group as usize
    }

    /// The site of a peer of this peer's group, as of this epoch: the name that it gave to [`Builder::site`]. `None` if
    /// it gave none, or is not in the group.
    ///
    /// If no member of the group has given a name, [`optimize_topology`](Self::optimize_topology) looks for the sites by
    /// what it measures. Those that it finds are called `~` and the number of a peer that was found there.
    #[must_use]
    pub fn site_of(&self, peer: PeerId) -> Option<String> {
        let view = self.calls.view.borrow();
        let site = view.topology.site_of(peer)?;
        site.is_named().then(|| site.to_string())
    }

    /// Number of peers in all groups, as of this epoch.
    #[must_use]
    pub fn global_world_size(&self) -> usize {
        self.calls.view.borrow().topology.world.global as usize
    }

    /// Number of groups that have a peer, as of this epoch.
    #[must_use]
    pub fn num_groups(&self) -> usize {
        self.calls.view.borrow().topology.world.groups as usize
    }

    /// Number of peers in the largest group, as of this epoch.
    #[must_use]
    pub fn largest_group_world_size(&self) -> usize {
        self.calls.view.borrow().topology.world.largest_group as usize
    }

    /// The epoch: one membership with its rings.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.calls.view.borrow().topology.epoch
    }

    /// Leaves the run. What runs in handles ends with [`Error::Left`].
    ///
    /// Blocks until the master has been told, two seconds at most. The other peers' collectives in
    /// which this peer takes part are aborted.
    ///
    /// # Panics
    /// Inside an async task.
    pub fn shutdown(self) {
        if let Some(gone) = self.leave() {
            // The sender is dropped, not used, when the engine has left. This is dropped after that, when
            // no call drives the runtime: its own thread has to, for its end.
            let _ = self.runtime.block_on(gone);
        }
    }

    /// As [`shutdown`](Self::shutdown), without blocking.
    pub async fn shutdown_async(self) {
        if let Some(gone) = self.leave() {
            // The sender is dropped, not used, when the engine has left.
            let _ = gone.await;
        }
    }

    fn leave(&self) -> Option<oneshot::Receiver<()>> {
        let (left, gone) = oneshot::channel();
        self.calls.tell(Command::Leave { left }).ok()?;
        Some(gone)
    }
}

impl Drop for Communicator {
    /// Leaves the run. A communicator of [`connect`](Builder::connect) waits until the master has been
    /// told, two seconds at most.
    fn drop(&mut self) {
        drop(self.leave());
    }
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let view = self.calls.view.borrow();
        f.debug_struct("Communicator")
            .field("peer", &view.me)
            .field("epoch", &view.topology.epoch)
            .field("ring", &view.topology.ring.0)
            .finish_non_exhaustive()
    }
}
