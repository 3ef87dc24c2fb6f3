//! Shards: the part of a buffer that belongs to each peer.

use std::ops::Range;

use pccl_core::id::{Membership, PeerId};
use pccl_core::plan::Shards;

use crate::communicator::Communicator;

/// The elements of a buffer that belong to this peer, for a given set of participants. See [`Communicator::shard`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shard {
    range: Range<usize>,
    /// Elements of the whole buffer.
    pub(crate) len: usize,
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
    pub(crate) fn laid_out_for(&self, me: PeerId) -> Membership {
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

/// Shards.
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
}
