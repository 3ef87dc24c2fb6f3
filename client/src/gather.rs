//! Reduce-scatter, all-gather, broadcast and barrier: what they are told, and the calls.

use std::ops::Range;
use std::time::Duration;

use pccl_core::element::{CollectiveKind, CollectiveSpec, ElementType, Quantization, ReduceOp};
use pccl_core::id::{Membership, PeerId, Tag};
use pccl_core::plan::{Algorithm, Shards};

use crate::calls::Calls;
use crate::collective::{Called, Memory};
use crate::communicator::Communicator;
use crate::element::{Element, bytes_of_mut};
use crate::error::Error;
use crate::reduce::{CollectiveReport, Reduce};

/// The tag that [`Communicator::barrier`] takes.
pub(crate) const BARRIER: Tag = Tag(u64::MAX);

/// The elements of a buffer that belong to this peer, for a given set of participants. See [`Communicator::shard`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shard {
    range: Range<usize>,
    /// Elements of the whole buffer.
    len: usize,
    /// Whose it is.
    owner: PeerId,
    laid_out_for: Membership,
}

impl Shard {
    pub(crate) fn new(len: usize, me: PeerId, ranks: &[PeerId]) -> Self {
        let shards = Shards::of_peers(len as u64, ranks);
        let rank = ranks.iter().position(|peer| *peer == me);
        let rank = rank.and_then(|rank| u32::try_from(rank).ok());
        let elements = shards.of_rank(rank.unwrap_or(u32::MAX));
        // Of a buffer that is in memory.
        let index = |element| usize::try_from(element).unwrap_or(usize::MAX);
        Self {
            range: index(elements.start)..index(elements.end),
            len,
            owner: me,
            laid_out_for: Membership::of(ranks),
        }
    }

    /// Who took part when it was laid out. If it is not the shard of `me`, nobody, which fits no collective: ids begin
    /// anew in each run, so the same ids may be those of other peers.
    fn laid_out_for(&self, me: PeerId) -> Membership {
        match self.owner == me {
            true => self.laid_out_for,
            false => Membership::of(&[]),
        }
    }

    /// The elements. Empty if there are more peers than elements and this one has none.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// The elements of a buffer.
    ///
    /// # Panics
    /// If the buffer is shorter than the one that the shard is of.
    #[must_use]
    pub fn of<'a, T>(&self, buffer: &'a [T]) -> &'a [T] {
        &buffer[self.range()]
    }

    /// The elements of a buffer, to be changed.
    ///
    /// # Panics
    /// If the buffer is shorter than the one that the shard is of.
    #[must_use]
    pub fn of_mut<'a, T>(&self, buffer: &'a mut [T]) -> &'a mut [T] {
        &mut buffer[self.range()]
    }
}

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

    /// Makes no backup of the buffer. After an error this peer's shard is unchanged, so the call can be
    /// repeated, and all other elements are unspecified. Within a machine, an all-gather without a backup
    /// takes about two thirds of the time; between machines it only saves memory. Each peer chooses for itself.
    /// Default: a backup, so that the whole buffer is unchanged after an error.
    pub const fn without_backup(mut self) -> Self {
        self.is_restored = false;
        self
    }

    /// Gives the collective up if this peer's part is not complete in this time after the call, as
    /// [`Reduce::timeout`] does. Default: no limit.
    pub const fn timeout(mut self, limit: Duration) -> Self {
        self.time_limit = Some(limit);
        self
    }

    /// Requests an algorithm, as [`Reduce::algorithm`] does.
    pub const fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = Some(algorithm);
        self
    }
}

/// The options of a broadcast: the root, and the tag that names the collective.
///
/// ```
/// use pccl::{Broadcast, PeerId};
///
/// let weights = Broadcast::from(PeerId(1));
/// let settings = Broadcast::from(PeerId(1)).tag(1);
/// # assert_ne!(weights, settings);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "this only says what to broadcast; pass it to broadcast"]
pub struct Broadcast {
    root: PeerId,
    tag: Tag,
    algorithm: Option<Algorithm>,
    is_restored: bool,
    time_limit: Option<Duration>,
}

impl Broadcast {
    /// A broadcast of the buffer of this peer, the root.
    pub const fn from(root: PeerId) -> Self {
        Self {
            root,
            tag: Tag(0),
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

    /// Makes no backup of the buffer: after an error, it is unspecified on all peers except the root. Within a machine,
    /// a broadcast without a backup takes about two thirds of the time; between machines it only saves memory. Each
    /// peer chooses for itself. Default: a backup, so that the buffer is unchanged after an error.
    pub const fn without_backup(mut self) -> Self {
        self.is_restored = false;
        self
    }

    /// Gives the collective up if this peer's part is not complete in this time after the call, as
    /// [`Reduce::timeout`] does. Default: no limit.
    pub const fn timeout(mut self, limit: Duration) -> Self {
        self.time_limit = Some(limit);
        self
    }

    /// Requests an algorithm, as [`Reduce::algorithm`] does. A broadcast can use [`Algorithm::Chain`], and if there are
    /// links between all peers of the group, [`Algorithm::Tree`] and, at several sites, [`Algorithm::TwoLevel`].
    ///
    /// ```
    /// use pccl::{Algorithm, Broadcast, PeerId};
    ///
    /// let weights = Broadcast::from(PeerId(1)).algorithm(Algorithm::Tree);
    /// # assert_ne!(weights, Broadcast::from(PeerId(1)));
    /// ```
    pub const fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = Some(algorithm);
        self
    }
}

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

impl Gather {
    /// Calls the all-gather of a buffer of so many elements.
    pub(crate) fn call(
        self,
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
            ..spec_of(kind, element, len)
        };
        Called::of(calls, self.tag, spec, self.time_limit)
    }

    /// Whether the buffer is put back after a failure.
    pub(crate) const fn is_restored(&self) -> bool {
        self.is_restored
    }
}

impl Broadcast {
    /// Calls the broadcast of a buffer of so many elements.
    pub(crate) fn call(
        self,
        calls: &Calls,
        element: ElementType,
        len: usize,
    ) -> Result<Called, Error> {
        let kind = CollectiveKind::Broadcast { root: self.root };
        let spec = CollectiveSpec {
            algorithm: self.algorithm,
            ..spec_of(kind, element, len)
        };
        Called::of(calls, self.tag, spec, self.time_limit)
    }

    /// Whether the buffer is put back after a failure.
    pub(crate) const fn is_restored(&self) -> bool {
        self.is_restored
    }
}

/// Calls a barrier.
pub(crate) fn call_barrier(calls: &Calls) -> Result<Called, Error> {
    let spec = spec_of(CollectiveKind::Barrier, ElementType::U8, 0);
    Called::of(calls, BARRIER, spec, None)
}

/// What a reduce-scatter of so many elements returns.
pub(crate) fn scattered(calls: &Calls, len: usize, report: CollectiveReport) -> Scattered {
    Scattered {
        shard: Shard::new(len, calls.me(), &report.contributors),
        report,
    }
}

/// Of a collective that reduces nothing.
pub(crate) fn spec_of(kind: CollectiveKind, element: ElementType, count: usize) -> CollectiveSpec {
    CollectiveSpec {
        kind,
        op: ReduceOp::Sum,
        element,
        count: count as u64,
        quantization: Quantization::None,
        algorithm: None,
        ordered: false,
    }
}

/// Collectives by which peers share a buffer out, and put it together again.
impl Communicator {
    /// This peer's shard of a buffer of `len` elements, in this epoch. The buffer is cut into
    /// [`world_size`](Self::world_size) contiguous shards, in the order of the [peer ids](Self::peer_id). Their lengths
    /// differ by at most one element, and the longer ones come first. The shards depend only on the participants, not
    /// on the ring.
    ///
    /// If a peer is lost, the shards of the others change when their next collective begins.
    #[must_use]
    pub fn shard(&self, len: usize) -> Shard {
        let view = self.calls.view.borrow();
        Shard::new(len, view.me, &view.topology.ring.0)
    }

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
        let is_restored = gather.is_restored;
        let call = async {
            let called = gather.call(&self.calls, element, data.len() / element.size())?;
            let memory = Memory::of(&self.calls, data, is_restored);
            called.conclude(memory).await
        };
        self.runtime.inside(call).await
    }

    /// Copies the buffer of the root to all peers of the group. All peers pass buffers of the same length. The buffer
    /// of the root is only read.
    ///
    /// Each peer passes the frames of the buffer on as soon as they arrive. Along the ring ([`Algorithm::Chain`]) that
    /// takes N − 1 latencies, plus the time of the buffer on the slowest edge. A small buffer goes down a tree if there
    /// are links between all peers of the group, and they are not all on one machine: that takes about log₂ N latencies,
    /// but the root sends the buffer about log₂ N times ([`Algorithm::Tree`]). At several sites there is a tree of the
    /// sites, and one inside each ([`Algorithm::TwoLevel`]). The master chooses, or all peers
    /// [ask for the same](Broadcast::algorithm).
    ///
    /// The root is a peer id, because ranks change with the ring; [`CollectiveReport::contributors`] has the ids of all
    /// participants.
    ///
    /// Blocks as [`all_reduce`](Self::all_reduce) does.
    ///
    /// # Errors
    /// [`Error::NoSuchRoot`]: the root does not take part, or has left. A root that is lost while the broadcast runs
    /// aborts it, as any other peer does. Otherwise as [`all_reduce`](Self::all_reduce). The buffer is unchanged then,
    /// except [without a backup](Broadcast::without_backup).
    ///
    /// # Panics
    /// Inside an async task.
    #[track_caller]
    pub fn broadcast<T: Element>(
        &self,
        buffer: &mut [T],
        broadcast: Broadcast,
    ) -> Result<CollectiveReport, Error> {
        let call = self.spread(T::TYPE, bytes_of_mut(buffer), broadcast);
        self.runtime.block_on("broadcast_async", call)
    }

    /// As [`broadcast`](Self::broadcast), without blocking. Dropping the future gives the collective up, which is a
    /// failure for the buffer.
    ///
    /// # Errors
    /// As [`broadcast`](Self::broadcast).
    pub async fn broadcast_async<T: Element>(
        &self,
        buffer: &mut [T],
        broadcast: Broadcast,
    ) -> Result<CollectiveReport, Error> {
        self.spread(T::TYPE, bytes_of_mut(buffer), broadcast).await
    }

    async fn spread(
        &self,
        element: ElementType,
        data: &mut [u8],
        broadcast: Broadcast,
    ) -> Result<CollectiveReport, Error> {
        let call = async {
            let called = broadcast.call(&self.calls, element, data.len() / element.size())?;
            let memory = Memory::of(&self.calls, data, broadcast.is_restored);
            called.conclude(memory).await
        };
        self.runtime.inside(call).await
    }

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
