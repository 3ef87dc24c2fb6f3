//! Edges that do not come up, or carry nothing: how the next ring avoids them, and who goes.
//!
//! 1. **Route around.** The next ring uses no pair of peers that could not be connected, or whose edge
//!    broke under two collectives in a row, as long as there is such a ring; what came up is kept
//!    together, and pieces that no working edge joins are tried side by side in another order.
//! 2. **Newcomers.** One that two attempts could not reach, or that could not reach others in two attempts
//!    whom somebody has reached, is refused.
//! 3. **Evict** only if no ring is left: of pieces that nothing joins the larger one stays; in one piece
//!    the peer of the most failed pairs goes, a newcomer before an accepted peer, the later before the
//!    earlier.
//!
//! Nothing joins two pieces if every pair between them has failed, or eight of them in a row: to try all
//! pairs of two sites that were cut off from each other would take hours. What speaks against a peer is
//! forgotten when lanes come up in the same direction, and not because the other end is gone: a peer that
//! no newcomer can reach would else have each of them refused.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::net::SocketAddr;

use super::pieces::{joined_pieces, regrouped};
use super::wiring::{Failure, Wiring};
use super::{Master, Out};
use crate::id::{GroupId, PeerId};
use crate::messages::{Misdeed, Refusal};
use crate::states::ConnectionPhase;
use crate::topology::{BrokenEdges, LaneFailure, Ring};
use crate::tour;

/// Pairs between two pieces that have to fail in a row before nothing is said to join them. Where a fifth
/// of all pairs cannot be connected, eight fail by chance once in 400,000 times.
const FRUITLESS_MAX: usize = 8;

/// Attempts after which a newcomer is refused.
const STRIKES_MAX: u8 = 2;

/// Collectives in a row that an edge breaks before it is routed around.
const BREAKS_MAX: u8 = 2;

/// Two peers, lower number first.
pub(super) type Pair = (PeerId, PeerId);

/// Failed attempts in a row at the ring of one group.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct Attempts {
    /// How many, for the pause before the next one.
    pub(super) count: u8,
    /// The order of the last attempt.
    order: Vec<PeerId>,
    /// Pairs that are known to work.
    joined: BTreeSet<Pair>,
    /// Into how many pieces they join the members.
    pieces: usize,
    /// Attempts since pieces were joined, and pairs between pieces that failed in them.
    fruitless: (u8, usize),
}

/// An edge that did not come up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct DeadEdge {
    dialler: PeerId,
    dialled: PeerId,
    /// Where the lanes were to be opened.
    at: SocketAddr,
    failure: Failure,
}

/// Failures of edges with peers that are gone, as far as nothing speaks against them since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct Departed {
    as_dialler: u8,
    as_dialled: u8,
}

pub(super) fn pair((one, other): (PeerId, PeerId)) -> Pair {
    (one.min(other), one.max(other))
}

impl DeadEdge {
    fn pair(self) -> Pair {
        pair((self.dialler, self.dialled))
    }
}

impl Master {
    /// The attempt has failed: learns from it, and sends away who has to go.
    pub(super) fn blame(&mut self, wiring: &Wiring, out: &mut Out) {
        let dead = self.dead_edges(wiring);
        self.clear_edges(wiring);
        let charged: BTreeSet<PeerId> = dead.iter().map(|edge| self.charged(*edge)).collect();
        for edge in &dead {
            self.failed.insert(edge.pair(), *edge);
            // What was measured between them holds no more: the solver would choose the edge again.
            self.bandwidth.remove(&(edge.dialler, edge.dialled));
            self.bandwidth.remove(&(edge.dialled, edge.dialler));
        }
        for (group, plan) in &wiring.rings {
            self.learn(*group, wiring, &plan.ring);
        }
        self.strike(&charged, &dead, out);
        for (group, plan) in &wiring.rings {
            self.evict(*group, &plan.ring, out);
        }
    }

    fn dead_edges(&self, wiring: &Wiring) -> Vec<DeadEdge> {
        let failed = wiring.edges.iter().filter_map(|((from, to), edge)| {
            let dialler = self.dialler(*from, *to);
            let dialled = if dialler == *from { *to } else { *from };
            Some(DeadEdge {
                dialler,
                dialled,
                at: self.peers.get(&dialled)?.address,
                failure: edge.failed?,
            })
        });
        failed.collect()
    }

    /// Forgets what the edges that came up disprove.
    pub(super) fn clear_edges(&mut self, wiring: &Wiring) {
        let up = wiring.edges.iter().filter(|(_, edge)| edge.is_up());
        for (from, to) in up.map(|(edge, _)| *edge) {
            let dialler = self.dialler(from, to);
            let dialled = if dialler == from { to } else { from };
            self.failed.remove(&pair((from, to)));
            if let Some(departed) = self.departed.get_mut(&dialler) {
                departed.as_dialler = 0;
            }
            if let Some(departed) = self.departed.get_mut(&dialled) {
                departed.as_dialled = 0;
            }
            if let Some(record) = self.record_mut(dialled) {
                record.reached = true;
            }
        }
    }

    /// Which end of a dead edge it failed because of, as far as that can be told: the one that was to be
    /// reached, unless somebody has reached it.
    fn charged(&self, edge: DeadEdge) -> PeerId {
        let reached = self
            .peers
            .get(&edge.dialled)
            .is_some_and(|peer| peer.reached);
        let of_dialler = match edge.failure {
            Failure::Reported(LaneFailure::Local) => true,
            Failure::Overdue {
                dialler_reported: false,
            } => true,
            Failure::Overdue { .. } | Failure::Reported(_) => reached,
        };
        if of_dialler {
            edge.dialler
        } else {
            edge.dialled
        }
    }

    fn learn(&mut self, group: GroupId, wiring: &Wiring, ring: &Ring) {
        let standing = self.groups.get(&group);
        let whole = standing.into_iter().flat_map(|group| {
            let edges = group.edges.keys();
            edges.filter(|edge| group.can_keep(**edge))
        });
        let up = wiring.edges.iter().filter(|(_, edge)| edge.is_up());
        let works: Vec<Pair> = up
            .map(|(edge, _)| edge)
            .chain(whole)
            .map(|edge| pair(*edge))
            .collect();
        let attempts = self.attempts.entry(group).or_default();
        attempts.joined.extend(works);
        let pieces = joined_pieces(&ring.0, &attempts.joined);
        let piece_of = |peer: &PeerId| pieces.iter().position(|piece| piece.contains(peer));
        let failed = wiring
            .edges
            .iter()
            .filter(|(_, edge)| edge.failed.is_some());
        let between = failed.filter(|((from, to), _)| {
            let on_ring = ring.0.contains(from);
            on_ring && piece_of(from) != piece_of(to)
        });
        let (idle, fruitless) = match attempts.count > 0 && pieces.len() >= attempts.pieces {
            true => attempts.fruitless,
            false => (0, 0),
        };
        let more = if attempts.count > 0 {
            between.count()
        } else {
            0
        };
        attempts.fruitless = (idle.saturating_add(1), fruitless.saturating_add(more));
        attempts.count = attempts.count.saturating_add(1);
        attempts.pieces = pieces.len();
        attempts.order.clone_from(&ring.0);
    }

    /// Refuses the newcomers that were charged in two attempts.
    fn strike(&mut self, charged: &BTreeSet<PeerId>, dead: &[DeadEdge], out: &mut Out) {
        for peer in charged {
            let Some(record) = self.record_mut(*peer) else {
                continue;
            };
            record.strikes = record.strikes.saturating_add(1);
            let strikes_max = rule!(STRIKES_MAX; RefusedForTheFirstFailure => 1);
            let goes = record.phase == ConnectionPhase::Registered && record.strikes >= strikes_max;
            let of_peer = |edge: &&DeadEdge| edge.dialler == *peer || edge.dialled == *peer;
            if goes && let Some(edge) = dead.iter().find(of_peer) {
                self.send_away(*peer, *edge, out);
            }
        }
    }

    /// Evicts somebody if no ring is left.
    fn evict(&mut self, group: GroupId, ring: &Ring, out: &mut Out) {
        let members: Vec<PeerId> = self.present(group, ring);
        let Some(attempts) = self.attempts.get(&group) else {
            return;
        };
        let pieces = joined_pieces(&members, &attempts.joined);
        let (idle, fruitless) = attempts.fruitless;
        let bad = self.bad_pairs(group, &members);
        let is_newcomer = |peer: &PeerId| self.is_registered(*peer);
        let concerns_newcomer = bad
            .iter()
            .any(|(one, other)| is_newcomer(one) || is_newcomer(other));
        let limit = match concerns_newcomer {
            true => STRIKES_MAX.min(self.config.wiring_attempts_max),
            false => self.config.wiring_attempts_max,
        };
        if pieces.len() > 1 {
            if fruitless >= FRUITLESS_MAX || idle >= limit && nothing_joins(&pieces, &bad) {
                self.keep_largest(group, pieces, out);
            }
        } else if idle >= limit && tour::avoid(&members, &bad).is_none() {
            self.evict_worst(group, &members, out);
        }
    }

    fn present(&self, group: GroupId, ring: &Ring) -> Vec<PeerId> {
        let is_member = |peer: &&PeerId| self.peers.get(peer).is_some_and(|p| p.group == group);
        ring.0.iter().filter(is_member).copied().collect()
    }

    /// Of several pieces the one with the most accepted peers stays, else the one with the most peers, else
    /// the one with the fewest failures, else the one that is longest in the run.
    fn keep_largest(&mut self, group: GroupId, pieces: Vec<BTreeSet<PeerId>>, out: &mut Out) {
        let weight = |piece: &BTreeSet<PeerId>| {
            let accepted = piece
                .iter()
                .filter(|peer| !self.is_registered(**peer))
                .count();
            let charges: usize = piece.iter().map(|peer| self.charges(group, *peer)).sum();
            (
                accepted,
                piece.len(),
                Reverse(charges),
                Reverse(piece.first().copied()),
            )
        };
        let largest = pieces.iter().map(weight).max();
        let go: Vec<PeerId> = pieces
            .iter()
            .filter(|piece| Some(weight(piece)) != largest)
            .flatten()
            .copied()
            .collect();
        for peer in go {
            self.send_away_for_failures(group, peer, out);
        }
    }

    fn evict_worst(&mut self, group: GroupId, members: &[PeerId], out: &mut Out) {
        let worst = members
            .iter()
            .copied()
            .max_by_key(|peer| (self.charges(group, *peer), self.is_registered(*peer), *peer));
        if let Some(worst) = worst {
            self.send_away_for_failures(group, worst, out);
        }
    }

    /// Failed pairs of a peer, and failures with peers that are gone.
    fn charges(&self, group: GroupId, peer: PeerId) -> usize {
        let is_end = |pair: &&Pair| pair.0 == peer || pair.1 == peer;
        let failed = self.failed.keys().filter(is_end).count();
        let breaks = self.groups.get(&group).into_iter().flat_map(|g| &g.breaks);
        let breaks = breaks.filter(|(pair, breaks)| is_end(pair) && breaks.times >= BREAKS_MAX);
        let departed = self.departed.get(&peer).copied().unwrap_or_default();
        let departed = usize::from(departed.as_dialler) + usize::from(departed.as_dialled);
        failed + breaks.count() + departed
    }

    fn send_away_for_failures(&mut self, group: GroupId, peer: PeerId, out: &mut Out) {
        let is_end = |edge: &&DeadEdge| edge.dialler == peer || edge.dialled == peer;
        if let Some(edge) = self.failed.values().find(is_end).copied() {
            self.send_away(peer, edge, out);
            return;
        }
        let breaks = self
            .groups
            .get(&group)
            .into_iter()
            .flat_map(|g| g.breaks.keys());
        let mut ends = breaks.flat_map(|(one, other)| [(*one, *other), (*other, *one)]);
        let other = ends.find(|(end, _)| *end == peer).map(|(_, other)| other);
        if let Some(with) = other {
            self.kick(peer, Misdeed::Unconnectable { with }, out);
        }
    }

    /// One end of an edge goes: a newcomer is refused, a peer of the run kicked. What this says about the
    /// other end stays.
    fn send_away(&mut self, goes: PeerId, edge: DeadEdge, out: &mut Out) {
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
            Failure::Overdue { .. } => LaneFailure::TimedOut,
        };
        let stays = if goes == edge.dialler {
            edge.dialled
        } else {
            edge.dialler
        };
        if !self.is_registered(goes) {
            self.kick(goes, Misdeed::Unconnectable { with: stays }, out);
        } else if goes == edge.dialler {
            let peer = stays;
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

    /// The present ring without the departed, newcomers at its end; after a failed attempt the order of
    /// that, in pieces. No pair that failed stands side by side, as long as there is such a ring.
    pub(super) fn next_ring(&self, group: GroupId, members: &[PeerId]) -> Ring {
        let attempts = self.attempts.get(&group);
        let standing = self.groups.get(&group).map(|group| &group.ring.0);
        let before = attempts.map(|attempts| &attempts.order).or(standing);
        let before = before.map_or(&[][..], Vec::as_slice);
        let is_member: BTreeSet<PeerId> = members.iter().copied().collect();
        let known: BTreeSet<PeerId> = before.iter().copied().collect();
        let present = before.iter().filter(|peer| is_member.contains(peer));
        let newcomers = members.iter().filter(|peer| !known.contains(peer));
        let order: Vec<PeerId> = present.chain(newcomers).copied().collect();
        let bad = self.bad_pairs(group, members);
        let order = match attempts {
            Some(_) => regrouped(&order, &bad),
            None => order,
        };
        // If no ring is left, what failed is tried again, each time the other way round.
        let turned = || match attempts {
            Some(attempts) if attempts.count % 2 == 1 => order.iter().rev().copied().collect(),
            Some(_) | None => order.clone(),
        };
        tour::avoid(&order, &bad).unwrap_or_else(|| Ring(turned()))
    }

    /// Pairs of members that failed, but for those whose edge stands. A ring of two needs the edges of both
    /// directions.
    fn bad_pairs(&self, group: GroupId, members: &[PeerId]) -> BTreeSet<Pair> {
        let members: BTreeSet<PeerId> = members.iter().copied().collect();
        let standing = self.groups.get(&group);
        let stands = |(one, other): &Pair| {
            let edges = [(*one, *other), (*other, *one)];
            let can_keep = |edge: &(PeerId, PeerId)| standing.is_some_and(|g| g.can_keep(*edge));
            match members.len() {
                2 => rule!(
                    edges.iter().all(can_keep);
                    OneWayRing => edges.iter().any(can_keep)
                ),
                _ => edges.iter().any(can_keep),
            }
        };
        let failed = self.failed.keys().filter(|pair| !stands(pair));
        let breaks = standing.into_iter().flat_map(|group| &group.breaks);
        let breaks = breaks.filter(|(_, breaks)| breaks.times >= BREAKS_MAX);
        let all = failed.chain(breaks.map(|(pair, _)| pair));
        let of_members = |(one, other): &&Pair| members.contains(one) && members.contains(other);
        all.filter(of_members).copied().collect()
    }

    /// A collective was aborted because a peer lost these edges. If it names none, either may be to blame.
    pub(super) fn note_break(
        &mut self,
        group: GroupId,
        peer: PeerId,
        broken: BrokenEdges,
        bytes: u64,
        out: &mut Out,
    ) {
        let both = BrokenEdges {
            to_next: true,
            from_previous: true,
        };
        let which = if broken.any() { broken } else { both };
        let Some(record) = self.groups.get_mut(&group) else {
            return;
        };
        record.note_broken(peer, which);
        let mut most = 0;
        for edge in record.edges_of(peer, which) {
            let breaks = record.breaks.entry(pair(edge)).or_default();
            breaks.times = rule!(breaks.times.saturating_add(1); BreaksNotCounted => 0);
            breaks.bytes = breaks.bytes.max(bytes);
            most = most.max(breaks.times);
        }
        if most >= self.config.wiring_attempts_max {
            self.evict_for_breaks(group, out);
        }
    }

    /// Edges break again and again: is a ring left without them?
    fn evict_for_breaks(&mut self, group: GroupId, out: &mut Out) {
        let Some(record) = self.groups.get(&group) else {
            return;
        };
        let members: Vec<PeerId> = record.members.iter().copied().collect();
        let bad = self.bad_pairs(group, &members);
        let no_ring_is_left = tour::avoid(&members, &bad).is_none();
        if rule!(no_ring_is_left; EvictedThoughARingIsLeft => true) {
            self.evict_worst(group, &members, out);
        }
    }

    /// A collective of this size was committed: what broke under smaller ones, or as large ones, works.
    pub(super) fn forgive(&mut self, group: GroupId, bytes: u64) {
        if let Some(record) = self.groups.get_mut(&group) {
            record.breaks.retain(|_, breaks| breaks.bytes > bytes);
            record.stalls.clear();
            record.conflicts = 0;
        }
    }

    /// Nothing speaks for or against a peer that is gone.
    pub(super) fn forget_failures(&mut self, peer: PeerId) {
        let is_end = |pair: &Pair| pair.0 == peer || pair.1 == peer;
        self.failed.retain(|pair, _| !is_end(pair));
        self.departed.remove(&peer);
        for attempts in self.attempts.values_mut() {
            attempts.order.retain(|member| *member != peer);
            attempts.joined.retain(|pair| !is_end(pair));
        }
        self.attempts
            .retain(|_, attempts| !attempts.order.is_empty());
        for group in self.groups.values_mut() {
            group.breaks.retain(|pair, _| !is_end(pair));
            group.stalls.remove(&peer);
        }
    }
}

/// Whether every pair between the first piece and each other one has failed. Of large pieces that is not
/// looked at: it would take that many failures.
fn nothing_joins(pieces: &[BTreeSet<PeerId>], bad: &BTreeSet<Pair>) -> bool {
    let Some((first, others)) = pieces.split_first() else {
        return false;
    };
    others.iter().all(|other| {
        let few = first.len().saturating_mul(other.len()) <= FRUITLESS_MAX * FRUITLESS_MAX;
        let mut between = first
            .iter()
            .flat_map(|one| other.iter().map(move |two| (*one, *two)));
        few && between.all(|edge| bad.contains(&pair(edge)))
    })
}
