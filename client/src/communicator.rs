//! The communicator: what a training program holds.

use std::fmt;

use pccl_core::awaited::Awaited;
use pccl_core::id::{Epoch, PeerId};
use pccl_core::peer::{Call, Optimized};
use tokio::sync::oneshot;

use crate::builder::Builder;
use crate::calls::Calls;
use crate::destination::Destination;
use crate::engine::{Caller, Command};
use crate::error::Error;
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
/// borrow the communicator mutably, so that no other call can run beside them. A
/// [handle](crate::CollectiveHandle) outlives that borrow: a major operation returns [`Error::PendingCollectives`]
/// while a handle runs. Collectives and
/// [`are_peers_pending`](Self::are_peers_pending) borrow the communicator immutably, and may run beside each other.
///
/// # Blocking and async
///
/// Each call exists twice. The plain one blocks its thread until the call has ended, and panics inside an async task.
/// The one whose name ends in `_async` returns a future, for any executor. Its sockets and timers belong to the
/// communicator's runtime, so the runtime that polls it may end before the next call. Both work, whether the
/// communicator comes from [`connect`](Builder::connect) or from [`connect_async`](Builder::connect_async). After
/// `connect_async`, the communicator's runtime is the one that polled that future: another thread has to drive it
/// during a blocking call.
///
/// No call has a time limit of its own, because only the program knows how long a step of its slowest
/// peer takes. The master has time limits, which its operator sets. It evicts a peer that others have waited for during
/// ten minutes, unless it would have to evict more peers than wait. If a collective or a synchronization moves no
/// bytes for a minute, it evicts the peer that holds it up.
///
/// # Who is waited for
///
/// If other peers have not made the same call after ten seconds ([`warn_after`](Builder::warn_after)), the call logs a
/// `tracing` warning that names them, and repeats it every minute. [`waiting_on`](Self::waiting_on) returns the same
/// as a value. Give each peer a [name](Builder::name); a peer without a name appears as a number.
///
/// # Futures that are dropped
///
/// A vote cannot be withdrawn. If the future of a major operation or of `are_peers_pending` is dropped, the vote still
/// counts, and the other peers' calls end as if this peer were waiting. If this peer makes the same call again, it gets
/// the outcome of that vote, except for `sync_shared_state`. Any other call waits until the vote has ended.
///
/// If the future of a collective is dropped, the collective is given up, and an in-place buffer is restored. A
/// collective that has not started is withdrawn, as if this peer had never called it: the other peers keep waiting for
/// this peer's call. A collective that runs is aborted on all peers, unless this peer has done its part: then it may be
/// committed. A collective that is repeated may be done here before all have called it.
///
/// Between this peer's last vote and the verdict nobody can tell which of the two it is. If the others have committed
/// the collective, they go on to their next calls, and the same call made again waits for them until it fails with
/// [`Error::NotJoined`]. If they wait to synchronize, it may also be done without them, and the synchronization then
/// replaces what one of the two has made of the same revision. So do not drop the future of a collective that is to be
/// made again: limit its time by [`Reduce::timeout`](crate::Reduce::timeout), which waits for the verdict once this
/// peer has voted.
///
/// # Memory
///
/// An in-place reduce saves the content that it overwrites, in as much memory as the buffer has. `reduce_scatter_into`
/// sets as much aside, and uses it only in front of a slow peer. All other memory of a reduce by a ring is independent
/// of the size of the buffers: up to 6 frames of 256 KiB per lane. Quantized frames are kept encoded until they are
/// used. Around rings each peer has at most 64 MiB of elements in flight, over all its reduces (1 MiB within a
/// machine), so a peer in front of a slow link holds about that much from every other peer, encoded, and twice that
/// much at worst. With [`Direct`](crate::Algorithm::Direct), [`TwoLevel`](crate::Algorithm::TwoLevel) and
/// [`TwoLevelRing`](crate::Algorithm::TwoLevelRing) a peer keeps what arrives for its sums until all of it is there: as
/// much as a buffer. With [`TwoLevelWhole`](crate::Algorithm::TwoLevelWhole) it also keeps the sums of all sites, and
/// those that wait for slow paths: of M sites, in a site of n peers, up to 2M/n of a buffer more. If the reduce is
/// quantized, that is kept encoded, and so are the results for peers that are slow to take them: as much again.
///
/// Later reduces use the same memory again. The communicator keeps up to 16 backups, each as large as the largest
/// buffer that it has saved, and 16 MiB of frames. It returns them to the system after ten seconds without a reduce
/// ([`keep_memory`](Builder::keep_memory)).
///
/// # The end
///
/// [`shutdown`](Self::shutdown) tells the master that this peer leaves, and so does dropping the communicator. After an
/// error that [`is_final`](Error::is_final), this communicator is out of the run. The buffers of its calls
/// are in the state that the [`Error`] documents.
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
    /// a call of its own. A peer that waits in another call agrees, and continues to wait on the new ring. A
    /// peer that has made no call since its admission agrees as well; it may still be loading its data. The first call
    /// after the admission returns at once, because the admission was this update. If other updates have given the peer
    /// another ring since, the call returns that ring. Every later call counts for the next update.
    ///
    /// Blocks until the vote has ended. Afterwards [`world_size`](Self::world_size) and the other attributes describe
    /// the new epoch.
    ///
    /// # Errors
    /// [`Error::PendingCollectives`] while a handle runs; an error that is
    /// [final](Error::is_final) if this peer is out of the run. A newcomer that cannot be connected is refused, and
    /// causes no error on the other peers.
    ///
    /// # Panics
    /// Inside an async task.
    #[track_caller]
    pub fn update_topology(&mut self) -> Result<TopologyReport, Error> {
        let runtime = self.runtime.clone();
        runtime.block_on("update_topology_async", self.update_topology_async())
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
    /// A vote of all accepted peers of all groups. Blocks until all of them have called, measured and connected the
    /// chosen rings. A measurement takes a second and ten round trips at most, and no two measurements share a peer. N
    /// peers need 2·N rounds the first time, and few once the master knows their paths. The master forgets a
    /// measurement after ten to twenty minutes.
    ///
    /// [`TopologyReport::optimized`] has the ring before and after, with the estimated time of each.
    ///
    /// # Errors
    /// [`Error::OptimizationFailed`]: the rings are unchanged; [`Error::PendingCollectives`]; errors
    /// that are [final](Error::is_final).
    ///
    /// # Panics
    /// Inside an async task.
    #[track_caller]
    pub fn optimize_topology(&mut self) -> Result<TopologyReport, Error> {
        let runtime = self.runtime.clone();
        runtime.block_on("optimize_topology_async", self.optimize_topology_async())
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

    /// Whether a newcomer waits to be admitted. All accepted peers get the same answer, so they all decide alike
    /// whether to call [`update_topology`](Self::update_topology).
    ///
    /// A vote of all accepted peers of all groups, which may run beside collectives. Only one may run at a time. Blocks
    /// until all peers have called. If another peer waits for this one in a major call, the answer is `true` at once,
    /// because `update_topology` brings this peer to the others. So a newcomer may begin its loop with this call.
    ///
    /// # Errors
    /// [`Error::QueryPending`]; errors that are [final](Error::is_final).
    ///
    /// # Panics
    /// Inside an async task.
    #[track_caller]
    pub fn are_peers_pending(&self) -> Result<bool, Error> {
        let call = self.are_peers_pending_async();
        self.runtime.block_on("are_peers_pending_async", call)
    }

    /// As [`are_peers_pending`](Self::are_peers_pending), without blocking.
    ///
    /// # Errors
    /// As [`are_peers_pending`](Self::are_peers_pending).
    pub async fn are_peers_pending_async(&self) -> Result<bool, Error> {
        let call = self.calls.ask(Call::ArePeersPending, Caller::Query);
        self.runtime.inside(call).await
    }

    /// Brings the shared state of the group to one content and one revision.
    ///
    /// A vote of all peers of the group; it ends when all of them have called. The master elects the
    /// content by the peers' [strategies](crate::SyncStrategy). A peer that holds other content fetches the
    /// entries that differ directly from peers that hold the elected content: from one for each 8 MiB, and from at most
    /// four at a time. If all peers hold the same, no content moves. The memory of the entries is written only after
    /// every peer has all that it needs, so an error leaves it unchanged.
    ///
    /// Blocks until then, and sets [`SharedState::revision`] to that of the group. If the call fails, the next one
    /// fetches only what has not arrived.
    ///
    /// Each call first hashes all content, on up to 16 threads, and a peer that fetches hashes each
    /// entry on arrival. A gigabyte takes about a tenth of a second on one core of an AMD EPYC with
    /// AVX-512, and 0.07 seconds on two. `cargo bench -p pccl-kernels -- content_hash` measures
    /// another machine. The sender of an entry waits while the entry is hashed on arrival, for
    /// [`stall_timeout`](crate::Builder::stall_timeout) at most. If your machine needs longer, split the content into
    /// several entries.
    ///
    /// # Errors
    /// [`Error::SyncFailed`] says why, and whether to call again; see [`SyncOptions`] for how to continue after the
    /// newest revision is lost. [`Error::Conflict`]: another peer waits in `optimize_topology`, so make that call
    /// first; or collectives have given way to synchronizations twice in a row, and this call gives way to them.
    /// [`Error::PendingCollectives`]. [`Error::Kicked`] if the entries are not those of the other peers, or the
    /// revision is ahead of the group's. Errors that are [final](Error::is_final).
    ///
    /// # Panics
    /// Inside an async task.
    #[track_caller]
    pub fn sync_shared_state(
        &mut self,
        state: &mut SharedState<'_>,
        options: impl Into<SyncOptions>,
    ) -> Result<SyncReport, Error> {
        let runtime = self.runtime.clone();
        let call = self.sync_shared_state_async(state, options);
        runtime.block_on("sync_shared_state_async", call)
    }

    /// As [`sync_shared_state`](Self::sync_shared_state), without blocking, except for the hashing, which runs in the
    /// task that polls the future. It yields to the other tasks of the thread after every 64 MiB, which takes about 7
    /// milliseconds on one core of that EPYC. If that is too long for them, poll the future on a thread of its own.
    /// Dropping the future leaves the memory unchanged.
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

    /// The peers that this peer's calls wait for, at the moment when the master answers.
    ///
    /// This is a question to the master, not a vote: the other peers need not call it, and it changes nothing. It may
    /// run beside [handles](crate::CollectiveHandle) and collectives of other threads. The answer
    /// is empty if this peer waits in no call, or if all other peers have made theirs. If there are many waits or many
    /// peers, the answer names the first ones and counts the others ([`Wait::others`]).
    ///
    /// A call that waits for long logs the same as a warning, after [`warn_after`](Builder::warn_after).
    ///
    /// Blocks for one round trip to the master.
    ///
    /// # Errors
    /// Those that are [final](Error::is_final): the peer is out of the run.
    ///
    /// # Panics
    /// Inside an async task.
    ///
    /// [`Wait::others`]: crate::Wait::others
    pub fn waiting_on(&self) -> Result<Awaited, Error> {
        self.runtime
            .block_on("waiting_on_async", self.waiting_on_async())
    }

    /// As [`waiting_on`](Self::waiting_on), without blocking.
    ///
    /// # Errors
    /// As [`waiting_on`](Self::waiting_on).
    pub async fn waiting_on_async(&self) -> Result<Awaited, Error> {
        let question = self.calls.ask_who_is_awaited();
        self.runtime.inside(question).await
    }

    /// Who this peer is: unique in the run, never used again.
    #[must_use]
    pub fn peer_id(&self) -> PeerId {
        self.calls.me()
    }

    /// The port on which this peer accepts the lanes of others.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.calls.port
    }

    /// The ring of this peer's group, as of this epoch: data flows from each peer to the next. This peer is at
    /// [`rank`](Self::rank).
    #[must_use]
    pub fn ring(&self) -> Vec<PeerId> {
        self.calls.view.borrow().topology.ring.0.clone()
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
    /// If no member of the group has given a name, [`optimize_topology`](Self::optimize_topology) looks for the sites
    /// by what it measures. Those that it finds are called `~` and the number of a peer that was found there.
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
    #[track_caller]
    pub fn shutdown(self) {
        if let Some(gone) = self.leave() {
            // The sender is dropped, not used, when the engine has left. This is dropped after that, when
            // no call drives the runtime: its own thread has to, for its end.
            let _ = self.runtime.block_on("shutdown_async", gone);
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
