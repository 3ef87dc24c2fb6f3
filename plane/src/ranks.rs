//! Which peer has which rank, at which site, and which links are in use: all that the plane is told of a group.

use std::ops::Range;
use std::sync::Arc;

use pccl_core::element::{CollectiveKind, CollectiveSpec};
use pccl_core::id::{PeerId, Round};
use pccl_core::lengths::Lengths;
use pccl_core::plan::{Reach, Shards, Turns};
use pccl_core::site::Sites;
use pccl_core::topology::LinkId;

use crate::work::Place;

/// The peers that take part in an operation and their sites, by rank, and which of them this one is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranks {
    peers: Vec<PeerId>,
    sites: Arc<Sites>,
    turns: Arc<Turns>,
    place: Place,
    are_within_machine: bool,
}

/// A link that is in use from here on, and on which lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkInUse {
    /// Which link.
    pub link: LinkId,
    /// Its lanes.
    pub lanes: LanesInUse,
}

/// Which lanes a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LanesInUse {
    /// Those that it has been so far.
    Standing,
    /// Those that were [installed](crate::DataPlane::install) for it, built in this round.
    Installed(Round),
}

impl Ranks {
    /// Of these `peers`, by rank, which are at these `sites`. `lanes`: for how many lanes buffers are cut, the same at
    /// all of them. `None`: `me` is not one of them, or there are sites of another number of ranks.
    #[must_use]
    pub fn new(peers: Vec<PeerId>, sites: Sites, me: PeerId, lanes: u16) -> Option<Self> {
        let rank = peers.iter().position(|peer| *peer == me)?;
        let place = Place {
            world: u32::try_from(peers.len()).ok()?,
            rank: u32::try_from(rank).ok()?,
            lanes,
        };
        (sites.world() == place.world).then(|| Self {
            turns: Arc::new(Turns::of_peers(&peers)),
            peers,
            sites: Arc::new(sites),
            place,
            are_within_machine: false,
        })
    }

    /// Says whether all of them are within one machine. Default: no.
    #[must_use]
    pub fn within_machine(mut self, are_within: bool) -> Self {
        self.are_within_machine = are_within;
        self
    }

    /// Whether all of them are within one machine.
    pub(crate) const fn are_within_machine(&self) -> bool {
        self.are_within_machine
    }

    /// At which site each rank is.
    pub(crate) fn sites(&self) -> Arc<Sites> {
        Arc::clone(&self.sites)
    }

    /// When the contribution of each rank is added.
    pub(crate) fn turns(&self) -> Arc<Turns> {
        Arc::clone(&self.turns)
    }

    /// What a collective of them does, by rank, and how its buffer is divided among them. `None`: the root is not one
    /// of them, or the lengths are not theirs and that of the buffer.
    pub(crate) fn divide(
        &self,
        spec: &CollectiveSpec,
        lengths: &Lengths,
    ) -> Option<(CollectiveKind<u32>, Shards)> {
        let kind = spec.kind.among(&self.peers)?;
        let shards = match kind {
            CollectiveKind::AllReduce
            | CollectiveKind::Broadcast { .. }
            | CollectiveKind::Barrier => Shards::of_ranks(spec.count, self.place.world),
            // Shards are not only a matter of the way.
            CollectiveKind::ReduceScatter | CollectiveKind::AllGather { .. } => {
                Shards::of_peers(spec.count, &self.peers)
            }
            CollectiveKind::AllGatherV { .. } => {
                let are_theirs = lengths.0.len() == self.peers.len();
                let is_all = lengths.total() == Some(spec.count);
                Shards::of_lengths(lengths).filter(|_| are_theirs && is_all)?
            }
        };
        Some((kind, shards))
    }

    /// Where this peer stands among them.
    pub(crate) const fn place(&self) -> Place {
        self.place
    }

    /// The ranks that an operation sends to whose links reach so far, the next one first.
    pub(crate) fn ahead(&self, reach: Reach) -> impl Iterator<Item = Option<(u32, PeerId)>> + '_ {
        self.distances(reach).map(|distance| self.at(distance))
    }

    /// The ranks that it receives from: as far behind, the previous one first.
    pub(crate) fn behind(&self, reach: Reach) -> impl Iterator<Item = Option<(u32, PeerId)>> + '_ {
        let world = self.peers.len();
        self.distances(reach)
            .map(move |distance| self.at(world - distance))
    }

    fn distances(&self, reach: Reach) -> Range<usize> {
        let others = self.peers.len().saturating_sub(1);
        match reach {
            Reach::Ring => 1..others.min(1) + 1,
            Reach::Mesh => 1..others + 1,
        }
    }

    /// The rank and the peer that follows at this distance, round the end.
    fn at(&self, distance: usize) -> Option<(u32, PeerId)> {
        let world = self.peers.len();
        let rank = (self.place.rank as usize + distance).checked_rem(world)?;
        Some((u32::try_from(rank).ok()?, *self.peers.get(rank)?))
    }
}

#[cfg(test)]
mod tests {
    use pccl_core::element::{ElementType, Quantization, ReduceOp};
    use pccl_core::id::Membership;

    use super::*;

    /// Of four peers the one of this rank.
    fn ranks(rank: usize) -> Ranks {
        let peers = [7, 3, 9, 1].map(PeerId);
        Ranks::new(peers.into(), Sites::of([0, 1, 0, 0]), peers[rank], 1).unwrap()
    }

    fn numbers(ranks: impl Iterator<Item = Option<(u32, PeerId)>>) -> Vec<(u32, u64)> {
        let ranks = ranks.map(|rank| rank.unwrap());
        ranks.map(|(rank, PeerId(peer))| (rank, peer)).collect()
    }

    #[test]
    fn around_a_ring_one_rank_is_sent_to_and_one_is_received_from() {
        let ranks = ranks(3);

        assert_eq!(numbers(ranks.ahead(Reach::Ring)), [(0, 7)]);
        assert_eq!(numbers(ranks.behind(Reach::Ring)), [(2, 9)]);
    }

    #[test]
    fn over_a_mesh_all_others_are_the_next_one_first_and_the_previous_one_first() {
        let ranks = ranks(1);

        assert_eq!(numbers(ranks.ahead(Reach::Mesh)), [(2, 9), (3, 1), (0, 7)]);
        assert_eq!(numbers(ranks.behind(Reach::Mesh)), [(0, 7), (3, 1), (2, 9)]);
    }

    /// Who has which shard is no matter of the ring; how what is reduced for all travels is.
    #[test]
    fn shards_are_in_the_order_of_the_peers_and_chunks_for_all_in_that_of_the_ranks() {
        let spec = |kind| CollectiveSpec {
            kind,
            op: ReduceOp::Sum,
            element: ElementType::U8,
            count: 8,
            quantization: Quantization::None,
            algorithm: None,
            ordered: false,
        };
        let by_rank = |kind| {
            let (_, shards) = ranks(0).divide(&spec(kind), &Lengths::NONE).unwrap();
            (0..4).map(|rank| shards.of_rank(rank)).collect::<Vec<_>>()
        };
        let gather = CollectiveKind::AllGather {
            laid_out_for: Membership(0),
        };

        // The peers are 7, 3, 9 and 1.
        let sorted = [4..6, 2..4, 6..8, 0..2];
        assert_eq!(by_rank(CollectiveKind::ReduceScatter), sorted);
        assert_eq!(by_rank(gather), sorted);
        assert_eq!(by_rank(CollectiveKind::AllReduce), [0..2, 2..4, 4..6, 6..8]);
        let root = |peer| CollectiveKind::Broadcast { root: PeerId(peer) };
        let divide = |kind| ranks(0).divide(&spec(kind), &Lengths::NONE);
        let kind = divide(root(9)).unwrap().0;
        assert_eq!(kind, CollectiveKind::Broadcast { root: 2 });
        assert_eq!(divide(root(2)), None);
    }

    #[test]
    fn what_each_has_is_divided_as_it_has_it_and_lengths_of_others_are_refused() {
        let spec = CollectiveSpec {
            kind: CollectiveKind::AllGatherV { own: 1, limit: 9 },
            op: ReduceOp::Sum,
            element: ElementType::U8,
            count: 7,
            quantization: Quantization::None,
            algorithm: None,
            ordered: false,
        };
        let divide = |lengths: &[u64]| ranks(0).divide(&spec, &Lengths(lengths.to_vec()));

        let (_, shards) = divide(&[1, 0, 4, 2]).unwrap();
        let by_rank: Vec<_> = (0..4).map(|rank| shards.of_rank(rank)).collect();
        assert_eq!(by_rank, [0..1, 1..1, 1..5, 5..7]);
        for lengths in [&[1, 0, 6][..], &[1, 0, 4, 2, 0], &[1, 0, 4, 1], &[]] {
            assert_eq!(divide(lengths), None, "{lengths:?}");
        }
    }

    #[test]
    fn who_is_alone_has_nobody_and_a_stranger_has_no_rank() {
        let me = PeerId(1);
        let alone = Ranks::new(vec![me], Sites::one(1), me, 1).unwrap();

        for reach in [Reach::Ring, Reach::Mesh] {
            assert_eq!(alone.ahead(reach).chain(alone.behind(reach)).count(), 0);
        }
        assert_eq!(Ranks::new(vec![me], Sites::one(1), PeerId(2), 1), None);
    }

    #[test]
    fn each_rank_is_at_one_site_and_sites_of_another_world_are_refused() {
        assert_eq!(*ranks(2).sites(), Sites::of([0, 1, 0, 0]));

        let me = PeerId(1);
        for sites in [Sites::default(), Sites::one(2)] {
            assert_eq!(Ranks::new(vec![me], sites, me, 1), None);
        }
    }
}
