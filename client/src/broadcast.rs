//! Broadcast: what it is told, and the call.

use std::time::Duration;

use pccl_core::element::{CollectiveKind, CollectiveSpec, ElementType, Quantization};
use pccl_core::id::{PeerId, Tag};
use pccl_core::plan::Algorithm;

use crate::calls::Calls;
use crate::collective::{Called, Memory, spec_of};
use crate::communicator::Communicator;
use crate::element::{Element, bytes_of_mut};
use crate::error::Error;
use crate::reduce::CollectiveReport;

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
    quantization: Quantization,
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

    /// Quantizes the elements on their way between peers. Floats only. The root quantizes them once, and replaces its own
    /// by what the others get: all peers end with the same bits. [`error_bound`](Self::error_bound) says by how much an
    /// element may change. An infinite element or a NaN makes all elements of its [frame](Quantization) NaN. Default: as
    /// they are.
    pub const fn quantize(mut self, how: Quantization) -> Self {
        self.quantization = how;
        self
    }

    /// Makes no backup of the buffer, except of the root's if the broadcast is [quantized](Self::quantize). After an error,
    /// the buffer is unspecified on all peers except the root. Within a machine, a broadcast without a backup takes about
    /// two thirds of the time; between machines it only saves memory. Each peer chooses for itself. Default: a backup, so
    /// that the buffer is unchanged after an error.
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

    /// Requests an algorithm, as [`Reduce::algorithm`](crate::Reduce::algorithm) does. A broadcast can use
    /// [`Algorithm::Chain`], and if there are links between all peers of the group, [`Algorithm::Tree`] and, at several
    /// sites, [`Algorithm::TwoLevel`].
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

impl Broadcast {
    /// The buffer, which is as it was after a failure if it has a backup or is that of the root.
    pub(crate) fn memory<'a>(&self, calls: &Calls, data: &'a mut [u8]) -> Memory<'a> {
        let is_replaced = self.quantization != Quantization::None && self.root == calls.me();
        Memory::of(calls, data, self.is_restored || is_replaced)
    }

    pub(crate) const fn quantization(&self) -> Quantization {
        self.quantization
    }

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
            ..spec_of(kind, (element, self.quantization), len)?
        };
        Called::of(calls, self.tag, spec, self.time_limit)
    }
}

/// Broadcast.
impl Communicator {
    /// Copies the buffer of the root to all peers of the group. All peers pass buffers of the same length. The buffer
    /// of the root is only read, unless the broadcast is [quantized](Broadcast::quantize).
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
            called.conclude(broadcast.memory(&self.calls, data)).await
        };
        self.runtime.inside(call).await
    }
}
