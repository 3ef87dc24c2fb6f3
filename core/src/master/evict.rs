//! Evictions if no ring is left, and edges that come up and break under collectives.
//!
//! The third rule of [`blame`](super::blame). *Nothing joins* two pieces if every pair between them has failed, or
//! eight of them in a row: to try all pairs of two sites that were cut off from each other would take hours. The
//! larger piece stays. If each piece is a single peer, the one with the fewest failures stays. Within one piece a
//! newcomer is evicted if the accepted peers alone still have a ring, otherwise the peer with the most failed pairs.
//! In a tie, a newcomer is evicted before an accepted peer, then the one with more failures with departed peers,
//! then, of newcomers, the one for which more attempts have failed, and then the later before the earlier one. Only
//! pairs with the peers of the attempt count.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::attempt::Failure;
use super::blame::{DeadEdge, Pair, other_of, pair};
use super::newcomers::STRIKES_MAX;
use super::record::Breaks;
use super::{Master, Out};
use crate::id::{GroupId, PeerId};
use crate::messages::{Misdeed, Refusal};
use crate::states::ConnectionPhase;
use crate::topology::{BrokenLinks, LaneFailure, Ring};

/// Number of pairs between two pieces that have to fail in a row before they count as not joined. If a fifth of all
/// pairs cannot be connected, eight fail by chance once in 400,000 times.
const FRUITLESS_MAX: usize = 8;

/// Number of collectives in a row that an edge breaks before it is routed around.
pub(super) const BREAKS_MAX: u8 = 2;

/// Number of collectives that a peer may cancel until one is committed. A program whose callers all give up, because
/// none of their collectives can end, has time to notice.
const CANCELS_MAX: u8 = 16;

/// The evidence against a peer. Failures with departed peers count only in a tie: one newcomer that came again and
/// again may have caused them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Charges {
    /// Number of pairs with current peers that could not be connected, or broke too often.
    pairs: usize,
    with_departed: usize,
}

impl Master {
    /// Evicts a peer if no ring is left.
    pub(super) fn evict(&mut self, group: GroupId, ring: &Ring, out: &mut Out) {
        let members: Vec<PeerId> = self.present(group, ring);
        let Some(attempts) = self.attempts.get(&group) else {
            return;
        };
        let pieces = self.pieces(group, &members);
        let bad = self.bad_pairs(group, &members);
        let dead = self.dead_pairs(group, &members);
        let all_failed = |piece: &BTreeSet<PeerId>| {
            let failures = attempts.pieces.get(piece);
            failures.is_some_and(|failures| *failures >= FRUITLESS_MAX)
        };
        let is_new = |piece: &BTreeSet<PeerId>| piece.iter().all(|peer| self.is_registered(*peer));
        // Newcomers do not hold up the others for long.
        let newcomers_max = STRIKES_MAX.min(self.config.wiring_attempts_max);
        let many = |newcomers: bool| match newcomers {
            true => attempts.fruitless >= newcomers_max,
            false => attempts.fruitless >= self.config.wiring_attempts_max,
        };
        if pieces.len() > 1 {
            let all_alone = pieces.iter().all(|piece| piece.len() == 1);
            let weight = |piece: &&BTreeSet<PeerId>| self.weight(group, &members, piece, all_alone);
            let largest = pieces.iter().max_by_key(weight);
            let others = pieces.iter().filter(|piece| Some(*piece) != largest);
            let others: Vec<BTreeSet<PeerId>> = others.cloned().collect();
            let largest = largest.cloned().unwrap_or_default();
            let goes = |piece: &BTreeSet<PeerId>| {
                let newcomers = is_new(&largest) || is_new(piece);
                // A peer alone may be joined in the direction that was not tried; of two sites so many pairs
                // failed that it would have shown.
                let failed = if piece.len() > 1 { &bad } else { &dead };
                all_failed(piece) || many(newcomers) && nothing_joins(&largest, piece, failed)
            };
            if others.iter().all(goes) {
                self.cut_off(group, &members, &others, out);
            }
        } else if let Some(worst) = self.worst(group, &members, &dead)
            && many(self.is_registered(worst))
            && self.ring_without(group, &members, &dead).is_none()
        {
            self.send_away_for_failures(group, &members, worst, out);
        }
    }

    fn present(&self, group: GroupId, ring: &Ring) -> Vec<PeerId> {
        let is_member = |peer: &&PeerId| self.peers.get(peer).is_some_and(|p| p.group == group);
        ring.0.iter().filter(is_member).copied().collect()
    }

    /// The order of pieces: the one with the most accepted peers stays, in a tie the one with the most peers, then
    /// the one with the fewest failures, then the one that has been in the run for the longest time. If each piece is
    /// a single peer, the one with the fewest failures stays. Otherwise an accepted peer that nothing joins to the
    /// others would have each newcomer refused.
    fn weight(
        &self,
        group: GroupId,
        members: &[PeerId],
        piece: &BTreeSet<PeerId>,
        all_alone: bool,
    ) -> impl Ord + use<> {
        let accepted = piece.iter().filter(|peer| !self.is_registered(**peer));
        let accepted = accepted.count();
        let charges = piece.iter().map(|peer| self.charges(group, members, *peer));
        let charges = charges.fold(Charges::default(), |sum, of_peer| Charges {
            pairs: sum.pairs.saturating_add(of_peer.pairs),
            with_departed: sum.with_departed.saturating_add(of_peer.with_departed),
        });
        let first = piece.first().copied();
        (
            if all_alone { 0 } else { accepted },
            piece.len(),
            Reverse(charges),
            accepted,
            Reverse(first),
        )
    }

    /// Evicts all members of these pieces. A member without failures of its own is evicted for those of its piece.
    fn cut_off(
        &mut self,
        group: GroupId,
        members: &[PeerId],
        pieces: &[BTreeSet<PeerId>],
        out: &mut Out,
    ) {
        for piece in pieces {
            let is_end = |edge: &DeadEdge| {
                members.contains(&edge.dialler)
                    && members.contains(&edge.dialled)
                    && piece.contains(&edge.dialler) != piece.contains(&edge.dialled)
            };
            let between = self.failed.values().copied().find(is_end);
            let others = between.map(|edge| match piece.contains(&edge.dialler) {
                true => edge.dialled,
                false => edge.dialler,
            });
            for peer in piece {
                self.send_away_for_failures(group, members, *peer, out);
                if let Some(with) = others {
                    self.kick(*peer, Misdeed::Unconnectable { with }, out);
                }
            }
        }
    }

    /// The peer to evict, if one has to be. If the accepted peers alone have a ring, it is a newcomer: their ring is
    /// not changed for it.
    fn worst(&self, group: GroupId, members: &[PeerId], dead: &BTreeSet<Pair>) -> Option<PeerId> {
        let accepted = members.iter().filter(|peer| !self.is_registered(**peer));
        let accepted: Vec<PeerId> = accepted.copied().collect();
        let has_newcomers = accepted.len() < members.len();
        let ring_is_left = has_newcomers && self.ring_without(group, &accepted, dead).is_some();
        let strikes = |peer: &PeerId| {
            let newcomer = self.peers.get(peer).filter(|_| self.is_registered(*peer));
            newcomer.map(|newcomer| newcomer.strikes.all)
        };
        let rank = |peer: &PeerId| {
            let charges = self.charges(group, members, *peer);
            let is_new = self.is_registered(*peer);
            let gives_way = ring_is_left && is_new && charges.pairs > 0;
            let Charges {
                pairs,
                with_departed,
            } = charges;
            (
                gives_way,
                pairs,
                is_new,
                with_departed,
                strikes(peer),
                *peer,
            )
        };
        rule!(
            members.iter().copied().max_by_key(rank);
            LatestGoesWhateverFailed => members.iter().copied().max()
        )
    }

    /// The evidence against a peer among these members. Peers that were left out of their attempt, or joined after
    /// it, do not count.
    fn charges(&self, group: GroupId, members: &[PeerId], peer: PeerId) -> Charges {
        let is_end = |pair: &&Pair| {
            let other = other_of(**pair, peer);
            other.is_some_and(|other| members.contains(&other))
        };
        let failed = self.failed.keys().filter(is_end).count();
        let breaks = self.groups.get(&group).into_iter().flat_map(|g| &g.breaks);
        let breaks = breaks.filter(|(pair, breaks)| is_end(pair) && breaks.times >= BREAKS_MAX);
        let departed = self.departed.get(&peer).copied().unwrap_or_default();
        let departed =
            usize::from(departed.as_dialler).saturating_add(usize::from(departed.as_dialled));
        Charges {
            pairs: failed.saturating_add(breaks.count()),
            with_departed: departed,
        }
    }

    /// Evicts the peer, and names a pair with another of these members. A newcomer without such a pair may have
    /// waited three times for a peer that was left out as well, which is then named.
    pub(super) fn send_away_for_failures(
        &mut self,
        group: GroupId,
        members: &[PeerId],
        peer: PeerId,
        out: &mut Out,
    ) {
        let is_end = |edge: &&DeadEdge| edge.dialler == peer || edge.dialled == peer;
        let is_inside = |edge: &&DeadEdge| members.contains(&edge.other_end(peer));
        let failed = || self.failed.values().filter(is_end);
        let first = failed().find(is_inside).or_else(|| failed().next());
        if let Some(edge) = first.copied() {
            self.send_away(peer, edge, out);
            return;
        }
        let breaks = self.groups.get(&group).into_iter().flat_map(|g| &g.breaks);
        let with_peer =
            breaks.filter_map(|(pair, breaks)| Some((other_of(*pair, peer)?, breaks.times)));
        // A pair with a peer that is gone has broken as well when that one died.
        let weight =
            |(with, times): &(PeerId, u8)| (members.contains(with), *times, Reverse(*with));
        let other = with_peer.max_by_key(weight).map(|(with, _)| with);
        if let Some(with) = other {
            self.kick(peer, Misdeed::Unconnectable { with }, out);
        }
    }

    /// Removes one end of an edge: a newcomer is refused, an accepted peer is evicted. The evidence against the other
    /// end remains.
    pub(super) fn send_away(&mut self, goes: PeerId, edge: DeadEdge, out: &mut Out) {
        for failed in self.failed.values().copied() {
            if failed.dialler == goes {
                let departed = self.departed.entry(failed.dialled).or_default();
                departed.as_dialled = departed.as_dialled.saturating_add(1);
            } else if failed.dialled == goes {
                let departed = self.departed.entry(failed.dialler).or_default();
                departed.as_dialler = departed.as_dialler.saturating_add(1);
            }
        }
        let at = edge.at;
        let failure = match edge.failure {
            Failure::Reported(failure) => failure,
            Failure::Overdue { .. } => {
                rule!(LaneFailure::TimedOut; OverdueCalledRefused => LaneFailure::Refused)
            }
        };
        let stays = edge.other_end(goes);
        if rule!(false; BothEndsGo => true) {
            self.kick(stays, Misdeed::Unconnectable { with: goes }, out);
        }
        if !self.is_registered(goes) {
            self.kick(goes, Misdeed::Unconnectable { with: stays }, out);
        } else if rule!(goes == edge.dialler; DirectionTurnedRound => goes == edge.dialled) {
            let peer = rule!(stays; NewcomerNamesItself => goes);
            self.refuse(goes, Refusal::CannotReach { peer, at, failure }, out);
        } else {
            let by = stays;
            self.refuse(goes, Refusal::CannotBeReached { by, at, failure }, out);
        }
    }

    fn is_registered(&self, peer: PeerId) -> bool {
        self.peers
            .get(&peer)
            .is_some_and(|record| record.phase == ConnectionPhase::Registered)
    }

    /// A collective was aborted because a peer lost these links. If it names none, any of its links may be to blame.
    /// A link that breaks counts once, under however many collectives.
    pub(super) fn note_break(
        &mut self,
        group: GroupId,
        peer: PeerId,
        broken: &BrokenLinks,
        bytes: u64,
        out: &mut Out,
    ) {
        let Some(record) = self.group_mut(group) else {
            return;
        };
        // One that names links which it does not have is as good as one that names none.
        let named = record.links_of(peer, broken);
        let links = match rule!(named.is_empty(); BothEdgesBlamed => true) {
            true => record.all_links_of(peer),
            false => named,
        };
        record.broken.extend(links.iter().copied());
        // In a ring of two both links join the same pair.
        let aborted_for = &mut record.aborted_for;
        let fresh = links.into_iter().filter(|link| {
            let is_first = aborted_for.insert(*link);
            rule!(is_first; EachCollectiveIsABreak => true)
        });
        let pairs: BTreeSet<Pair> = fresh.map(pair).collect();
        let mut most = 0;
        for pair in pairs {
            let breaks = record.breaks.entry(pair).or_default();
            most = most.max(rule!(breaks.count(bytes); BreaksNotCounted => 0));
        }
        if most >= self.config.wiring_attempts_max {
            self.evict_for_breaks(group, out);
        }
    }

    /// Evicts a peer if edges break repeatedly, and no ring is left without them.
    fn evict_for_breaks(&mut self, group: GroupId, out: &mut Out) {
        let Some(record) = self.groups.get(&group) else {
            return;
        };
        let members: Vec<PeerId> = record.members.iter().copied().collect();
        let dead = self.dead_pairs(group, &members);
        let no_ring_is_left = self.ring_without(group, &members, &dead).is_none();
        if rule!(no_ring_is_left; EvictedThoughARingIsLeft => true)
            && let Some(worst) = self.worst(group, &members, &dead)
        {
            self.send_away_for_failures(group, &members, worst, out);
        }
    }

    /// A collective was aborted because a peer has cancelled it, or a synchronization because a holder has given up
    /// its call (with zero bytes). A peer that does nothing else, while nothing succeeds, stops the run like a dead
    /// peer, and is evicted.
    pub(super) fn note_cancel(&mut self, group: GroupId, peer: PeerId, bytes: u64, out: &mut Out) {
        let Some(record) = self.group_mut(group) else {
            return;
        };
        let times = record.cancels.entry(peer).or_default().count(bytes);
        if times >= CANCELS_MAX {
            self.kick(peer, Misdeed::Cancels, out);
        }
    }

    /// A collective of this size was committed. Edges that broke under collectives of at most this size count as
    /// working again, except for the edge to a root, over which no data went. A collective without data, such as a
    /// barrier, proves nothing.
    pub(super) fn forgive(&mut self, group: GroupId, bytes: u64, root: Option<PeerId>) {
        if let Some(record) = self.group_mut(group) {
            // Of two the root sends over the same edge.
            let root = root.filter(|_| record.ring.world_size() > 2);
            let unused = root.and_then(|root| Some(pair((record.ring.previous_of(root)?, root))));
            let is_unproven =
                |of: Pair, breaks: &Breaks| breaks.bytes > bytes || unused == Some(of);
            record.breaks.retain(|of, breaks| is_unproven(*of, breaks));
            record.cancels.retain(|_, cancels| cancels.bytes > bytes);
            if bytes > 0 {
                rule!(record.stalls.clear(); StallsNeverForgiven => {});
            }
        }
        self.end_conflicts(group);
    }
}

/// Whether every pair between two pieces has failed. Large pieces are not checked, because that would take as many
/// failures.
fn nothing_joins(
    largest: &BTreeSet<PeerId>,
    piece: &BTreeSet<PeerId>,
    bad: &BTreeSet<Pair>,
) -> bool {
    let few = largest.len().saturating_mul(piece.len()) <= FRUITLESS_MAX * FRUITLESS_MAX;
    let mut between = largest
        .iter()
        .flat_map(|one| piece.iter().map(move |two| (*one, *two)));
    few && between.all(|edge| bad.contains(&pair(edge)))
}
