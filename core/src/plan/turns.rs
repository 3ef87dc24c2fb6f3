//! The order of additions, if it is that of the peers and not that of the ring.

use alloc::vec;
use alloc::vec::Vec;

use super::back;
use crate::id::PeerId;

/// Whether each peer but one is followed by a peer of a higher id on this ring, which is listed by rank.
///
/// ```
/// use pccl_core::id::PeerId;
/// use pccl_core::plan::is_in_order;
///
/// assert!(is_in_order(&[PeerId(4), PeerId(7), PeerId(2)]));
/// assert!(!is_in_order(&[PeerId(7), PeerId(4), PeerId(2)]));
/// ```
#[must_use]
pub fn is_in_order(ranks: &[PeerId]) -> bool {
    let next = ranks.iter().cycle().skip(1);
    let descents = ranks.iter().zip(next).filter(|(peer, next)| next <= peer);
    descents.count() <= 1
}

/// The turn in which the contribution of each rank is added: the order of the peers' ids. It depends on the set of
/// participants, and not on the ring.
///
/// ```
/// use pccl_core::id::PeerId;
/// use pccl_core::plan::Turns;
///
/// let ring = [PeerId(9), PeerId(2), PeerId(4)];
/// let turns = Turns::of_peers(&ring);
///
/// assert_eq!([0, 1, 2].map(|rank| turns.of_rank(rank)), [2, 0, 1]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Turns {
    by_rank: Vec<Turn>,
    first: u32,
    last: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Turn {
    /// From 0.
    number: u32,
    /// How often a walk around the ring from turn to turn, which starts at the first, has reached or passed the first
    /// again before this turn.
    lap: u32,
}

impl Turns {
    /// The turns of these peers, which are listed by rank.
    #[must_use]
    pub fn of_peers(ranks: &[PeerId]) -> Self {
        let mut sorted: Vec<(PeerId, u32)> = ranks.iter().copied().zip(0..).collect();
        sorted.sort_unstable();
        let of = |peer: Option<&(PeerId, u32)>| peer.map_or(0, |(_, rank)| *rank);
        let (first, last) = (of(sorted.first()), of(sorted.last()));
        let world = u32::try_from(ranks.len()).unwrap_or(u32::MAX);
        let mut by_rank = vec![Turn::default(); ranks.len()];
        let (mut lap, mut before) = (0_u32, 0);
        for (number, (_, rank)) in (0..).zip(&sorted) {
            let distance = back(world, *rank, first);
            lap = lap.saturating_add(u32::from(distance < before));
            before = distance;
            if let Some(turn) = by_rank.get_mut(*rank as usize) {
                *turn = Turn { number, lap };
            }
        }
        Self {
            by_rank,
            first,
            last,
        }
    }

    /// The turn of a rank, from 0. A rank that does not exist has the turn of its own number.
    #[must_use]
    pub fn of_rank(&self, rank: u32) -> u32 {
        let turn = self.by_rank.get(rank as usize);
        turn.map_or(rank, |turn| turn.number)
    }

    pub(super) fn lap(&self, rank: u32) -> u32 {
        self.by_rank.get(rank as usize).map_or(0, |turn| turn.lap)
    }

    /// The ranks of the first and the last turn.
    pub(super) const fn ends(&self) -> (u32, u32) {
        (self.first, self.last)
    }

    /// The number of ranks.
    pub(super) const fn world(&self) -> usize {
        self.by_rank.len()
    }
}
