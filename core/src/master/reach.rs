//! Which end opens the lanes between two peers, by the evidence of earlier attempts about both directions.
//!
//! Not every peer can be reached, and not every peer can reach others. Lanes are opened in the direction with less
//! evidence against it:
//!
//! - it has failed between these very two peers, and the other direction has not been tried;
//! - the peer to be reached was missed by the last peer that tried;
//! - the peer that would open the lanes did not get through the last time.
//!
//! If the two directions are equal, the sender opens the lanes.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::Master;
use super::blame::{Pair, pair};
use super::evict::BREAKS_MAX;
use super::record::PeerRecord;
use crate::id::{GroupId, PeerId};

/// Only peers on the master's machine can open lanes to a peer that is known by a loopback address.
const IMPOSSIBLE: u8 = 64;
/// This direction of this pair has failed, and the other one has not been tried.
const TRIED: u8 = 16;
/// It failed for this peer the last time.
const DOUBTFUL: u8 = 1;

impl Master {
    /// The peer that opens the lanes between two peers.
    pub(super) fn dialler(&self, from: PeerId, to: PeerId) -> PeerId {
        let is_easier = self.difficulty(to, from) < self.difficulty(from, to);
        let receiver_dials = rule!(
            is_easier;
            UnreachableNeverDials => is_easier && self.is_foreign(from, to)
        );
        if receiver_dials { to } else { from }
    }

    /// The evidence against `dials` opening lanes to `other`.
    fn difficulty(&self, dials: PeerId, other: PeerId) -> u8 {
        let has_failed = self.failed.get(&pair((dials, other)));
        let tried = has_failed.is_some_and(|edge| edge.dialler == dials && !edge.both_ways);
        let weight = |holds: bool, weight: u8| if holds { weight } else { 0 };
        let record = |peer: PeerId| self.peers.get(&peer);
        weight(self.is_foreign(dials, other), IMPOSSIBLE)
            + weight(tried, TRIED)
            + weight(record(other).is_some_and(|other| other.missed), DOUBTFUL)
            + weight(record(dials).is_some_and(|dials| dials.stuck), DOUBTFUL)
    }

    /// Whether the address of the other one is meaningful only on the master's machine.
    fn is_foreign(&self, dials: PeerId, other: PeerId) -> bool {
        let is_loopback = |peer: PeerId| {
            let record = self.peers.get(&peer);
            record.is_some_and(|record| record.address.ip().is_loopback())
        };
        is_loopback(other) && !is_loopback(dials)
    }

    /// Pairs of members that failed. An established edge between two of them is kept nevertheless.
    pub(super) fn bad_pairs(&self, group: GroupId, members: &[PeerId]) -> BTreeSet<Pair> {
        self.pairs_of(group, members, |_| true)
    }

    /// Those of them that are not worth another attempt: the other end has tried as well, or cannot.
    pub(super) fn dead_pairs(&self, group: GroupId, members: &[PeerId]) -> BTreeSet<Pair> {
        self.pairs_of(group, members, |pair| self.is_dead(pair))
    }

    fn is_dead(&self, pair: Pair) -> bool {
        let failed = self.failed.get(&pair);
        failed.is_none_or(|edge| edge.both_ways || self.is_foreign(edge.dialled, edge.dialler))
    }

    fn pairs_of(
        &self,
        group: GroupId,
        members: &[PeerId],
        is_wanted: impl Fn(Pair) -> bool,
    ) -> BTreeSet<Pair> {
        let members: BTreeSet<PeerId> = members.iter().copied().collect();
        let breaks = self.groups.get(&group).into_iter().flat_map(|g| &g.breaks);
        let breaks = breaks.filter(|(_, breaks)| breaks.times >= BREAKS_MAX);
        let failed = self.failed.keys().filter(|pair| is_wanted(**pair));
        let all = failed.chain(breaks.map(|(pair, _)| pair));
        let of_members = |(one, other): &&Pair| members.contains(one) && members.contains(other);
        all.filter(of_members).copied().collect()
    }

    /// Pairs of members neither of which can be expected to reach the other. None if there are so many that no ring
    /// keeps them apart.
    pub(super) fn hidden_pairs(&self, members: &[PeerId]) -> BTreeSet<Pair> {
        let is_hidden = |peer: &&PeerId| self.peers.get(peer).is_some_and(PeerRecord::is_hidden);
        let mut hidden: Vec<PeerId> = members.iter().filter(is_hidden).copied().collect();
        if hidden.len() > members.len().saturating_sub(hidden.len()) {
            hidden.clear();
        }
        let pairs = hidden.iter().enumerate().flat_map(|(at, one)| {
            let others = hidden.iter().skip(at.saturating_add(1));
            others.map(move |other| pair((*one, *other)))
        });
        pairs.collect()
    }
}
