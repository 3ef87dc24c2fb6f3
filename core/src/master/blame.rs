//! Edges that do not come up, or carry nothing: how the next ring avoids them, and who goes.
//!
//! 1. **Route around.** The next ring uses no pair of peers that could not be connected, or whose edge
//!    broke under two collectives in a row, as long as there is such a ring; what came up is kept
//!    together, and pieces that no working edge joins are tried side by side in another order.
//! 2. **Newcomers.** One that two attempts could not reach, or that could not reach others in two attempts
//!    whom somebody has reached, holds up nobody any longer. It is refused if in both cases the other end
//!    has shown that it works, or if it happens a third time; else it waits for the next admission.
//! 3. **Evict** only if no ring is left: of pieces that nothing joins the larger one stays; in one piece
//!    the peer of the most failed pairs goes, a newcomer before an accepted peer, the later before the
//!    earlier.
//!
//! Nothing joins two pieces if every pair between them has failed, or eight of them in a row: to try all
//! pairs of two sites that were cut off from each other would take hours. What speaks against a peer is
//! forgotten when lanes come up in the same direction, and not because the other end is gone: a peer that
//! no newcomer can reach would else have each of them refused.

use alloc::collections::{BTreeMap, BTreeSet};
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

/// Attempts after which a newcomer holds up nobody any longer.
const STRIKES_MAX: u8 = 2;

/// Places of a ring in which newcomers are tried before another order is.
const PLACES_MAX: usize = 64;

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
    /// The pieces into which they join the members, and how many pairs with others have failed for each
    /// since it is what it is.
    pieces: BTreeMap<BTreeSet<PeerId>, usize>,
    /// Attempts since pieces were joined.
    fruitless: u8,
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
        for edge in &dead {
            self.failed.insert(edge.pair(), *edge);
            // What was measured between them holds no more: the solver would choose the edge again.
            self.bandwidth.remove(&(edge.dialler, edge.dialled));
            self.bandwidth.remove(&(edge.dialled, edge.dialler));
        }
        for (group, plan) in &wiring.rings {
            self.learn(*group, wiring, &plan.ring);
        }
        self.strike(&dead, out);
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
            if let Some(record) = self.record_mut(dialler) {
                record.has_dialled = true;
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
        let members = |(at, piece): (usize, &BTreeSet<PeerId>)| {
            let numbered = piece.iter().map(move |peer| (*peer, at));
            numbered.collect::<Vec<_>>()
        };
        let piece_of: BTreeMap<PeerId, usize> =
            pieces.iter().enumerate().flat_map(members).collect();
        let mut failures = alloc::vec![0_usize; pieces.len()];
        for (from, to) in wiring
            .edges
            .iter()
            .filter(|(_, e)| e.failed.is_some())
            .map(|(e, _)| e)
        {
            let (one, other) = (piece_of.get(from), piece_of.get(to));
            for piece in [one, other].into_iter().flatten().filter(|_| one != other) {
                if let Some(count) = failures.get_mut(*piece) {
                    *count = count.saturating_add(1);
                }
            }
        }
        let pieces = pieces.into_iter().zip(failures).map(|(piece, more)| {
            let before = attempts.pieces.get(&piece);
            let failures = before.map_or(0, |before| before.saturating_add(more));
            (piece, failures)
        });
        let pieces: BTreeMap<_, _> = pieces.collect();
        let is_first = attempts.count == 0;
        attempts.fruitless = match is_first || pieces.len() < attempts.pieces.len() {
            true => 1,
            false => attempts.fruitless.saturating_add(1),
        };
        attempts.count = attempts.count.saturating_add(1);
        attempts.pieces = pieces;
        attempts.order.clone_from(&ring.0);
    }

    /// Newcomers that were charged in two attempts hold up nobody any longer.
    fn strike(&mut self, dead: &[DeadEdge], out: &mut Out) {
        let mut charged: BTreeMap<PeerId, (DeadEdge, bool)> = BTreeMap::new();
        for edge in dead {
            let peer = self.charged(*edge);
            let entry = charged.entry(peer).or_insert((*edge, false));
            entry.1 |= self.is_proven(*edge, peer);
        }
        for (peer, (edge, proven)) in charged {
            let Some(record) = self.record_mut(peer) else {
                continue;
            };
            let strikes = &mut record.strikes;
            strikes.all = strikes.all.saturating_add(1);
            strikes.proven = strikes.proven.saturating_add(proven.into());
            let goes = strikes.proven >= STRIKES_MAX || strikes.all > STRIKES_MAX;
            if record.phase == ConnectionPhase::Accepted {
                continue;
            }
            if goes {
                self.send_away(peer, edge, out);
            } else if strikes.all >= STRIKES_MAX {
                record.left_out = 1;
            }
        }
    }

    /// Whether the other end of a dead edge has shown that it works.
    fn is_proven(&self, edge: DeadEdge, charged: PeerId) -> bool {
        let dialler = self.peers.get(&edge.dialler);
        if charged == edge.dialler {
            self.peers
                .get(&edge.dialled)
                .is_some_and(|peer| peer.reached)
        } else {
            dialler.is_some_and(|peer| peer.has_dialled || peer.is_accepted())
        }
    }

    /// Evicts somebody if no ring is left.
    fn evict(&mut self, group: GroupId, ring: &Ring, out: &mut Out) {
        let members: Vec<PeerId> = self.present(group, ring);
        let Some(attempts) = self.attempts.get(&group) else {
            return;
        };
        let pieces = joined_pieces(&members, &attempts.joined);
        let bad = self.bad_pairs(group, &members);
        let is_newcomer = |peer: &PeerId| self.is_registered(*peer);
        let concerns_newcomer = bad
            .iter()
            .any(|(one, other)| is_newcomer(one) || is_newcomer(other));
        let limit = match concerns_newcomer {
            true => STRIKES_MAX.min(self.config.wiring_attempts_max),
            false => self.config.wiring_attempts_max,
        };
        let many = attempts.fruitless >= limit;
        let all_failed = |piece: &BTreeSet<PeerId>| {
            let failures = attempts.pieces.get(piece);
            failures.is_some_and(|failures| *failures >= FRUITLESS_MAX)
        };
        if pieces.len() > 1 {
            let largest = pieces.iter().max_by_key(|piece| self.weight(group, piece));
            let others = pieces.iter().filter(|piece| Some(*piece) != largest);
            let others: Vec<BTreeSet<PeerId>> = others.cloned().collect();
            let largest = largest.cloned().unwrap_or_default();
            if others.iter().all(all_failed) || many && nothing_joins(&largest, &others, &bad) {
                self.cut_off(group, &others, out);
            }
        } else if many && self.ring_without(group, &members, &bad).is_none() {
            self.evict_worst(group, &members, out);
        }
    }

    fn present(&self, group: GroupId, ring: &Ring) -> Vec<PeerId> {
        let is_member = |peer: &&PeerId| self.peers.get(peer).is_some_and(|p| p.group == group);
        ring.0.iter().filter(is_member).copied().collect()
    }

    /// Of several pieces the one with the most accepted peers stays, else the one with the most peers, else
    /// the one with the fewest failures, else the one that is longest in the run.
    fn weight(
        &self,
        group: GroupId,
        piece: &BTreeSet<PeerId>,
    ) -> (usize, usize, Reverse<usize>, Reverse<Option<PeerId>>) {
        let accepted = piece.iter().filter(|peer| !self.is_registered(**peer));
        let charges: usize = piece.iter().map(|peer| self.charges(group, *peer)).sum();
        let first = piece.first().copied();
        (
            accepted.count(),
            piece.len(),
            Reverse(charges),
            Reverse(first),
        )
    }

    /// These pieces go, with all of their members: for the failures of the piece where a member has none
    /// of its own.
    fn cut_off(&mut self, group: GroupId, pieces: &[BTreeSet<PeerId>], out: &mut Out) {
        for piece in pieces {
            let is_end =
                |edge: &&DeadEdge| piece.contains(&edge.dialler) != piece.contains(&edge.dialled);
            let between = self.failed.values().find(is_end).copied();
            let others = between.map(|edge| {
                let is_inside = piece.contains(&edge.dialler);
                if is_inside {
                    edge.dialled
                } else {
                    edge.dialler
                }
            });
            for peer in piece {
                self.send_away_for_failures(group, *peer, out);
                if let Some(with) = others {
                    self.kick(*peer, Misdeed::Unconnectable { with }, out);
                }
            }
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

    /// The present ring without the departed, and newcomers somewhere in between; after an attempt that
    /// failed in several places the order of that, in pieces. No pair that failed stands side by side, as
    /// long as there is such a ring.
    pub(super) fn next_ring(&self, group: GroupId, members: &[PeerId]) -> Ring {
        let bad = self.bad_pairs(group, members);
        self.ring_without(group, members, &bad).unwrap_or_else(|| {
            // What failed is tried again, each time the other way round.
            let mut order = self.order_before(group, members);
            let attempts = self.attempts.get(&group);
            if attempts.is_some_and(|attempts| attempts.count % 2 == 1) {
                order.reverse();
            }
            Ring(order)
        })
    }

    fn ring_without(
        &self,
        group: GroupId,
        members: &[PeerId],
        bad: &BTreeSet<Pair>,
    ) -> Option<Ring> {
        let inserted = self.inserted(group, members, bad);
        inserted.or_else(|| {
            let order = self.order_before(group, members);
            tour::avoid(&regrouped(&order, bad), bad)
        })
    }

    /// The standing ring with all newcomers in one place of it, at its end if that will do.
    fn inserted(&self, group: GroupId, members: &[PeerId], bad: &BTreeSet<Pair>) -> Option<Ring> {
        let standing = self.groups.get(&group)?;
        let is_member: BTreeSet<PeerId> = members.iter().copied().collect();
        let present = standing
            .ring
            .0
            .iter()
            .filter(|peer| is_member.contains(peer));
        let present: Vec<PeerId> = present.copied().collect();
        let on_ring: BTreeSet<PeerId> = present.iter().copied().collect();
        let newcomers = members.iter().filter(|peer| !on_ring.contains(peer));
        let newcomers: Vec<PeerId> = newcomers.copied().collect();
        let places = match newcomers.is_empty() {
            true => 1,
            false => present.len().min(PLACES_MAX),
        };
        let fits = |ring: &Ring| {
            let mut edges = ring.edges();
            edges.all(|edge| standing.can_keep(edge) || !bad.contains(&pair(edge)))
        };
        let rings = (0..places).map(|place| {
            // At the end first, which keeps everybody's rank.
            let place = if place == 0 { present.len() } else { place };
            let (front, behind) = present.split_at(place);
            let order = front.iter().chain(&newcomers).chain(behind);
            Ring(order.copied().collect())
        });
        rings.into_iter().find(fits)
    }

    /// The order of the last attempt, or of the present ring, then whoever is new.
    fn order_before(&self, group: GroupId, members: &[PeerId]) -> Vec<PeerId> {
        let attempts = self.attempts.get(&group);
        let standing = self.groups.get(&group).map(|group| &group.ring.0);
        let before = attempts.map(|attempts| &attempts.order).or(standing);
        let before = before.map_or(&[][..], Vec::as_slice);
        let is_member: BTreeSet<PeerId> = members.iter().copied().collect();
        let known: BTreeSet<PeerId> = before.iter().copied().collect();
        let present = before.iter().filter(|peer| is_member.contains(peer));
        let newcomers = members.iter().filter(|peer| !known.contains(peer));
        present.chain(newcomers).copied().collect()
    }

    /// Pairs of members that failed. An edge between two of them that stands is kept all the same.
    fn bad_pairs(&self, group: GroupId, members: &[PeerId]) -> BTreeSet<Pair> {
        let members: BTreeSet<PeerId> = members.iter().copied().collect();
        let breaks = self
            .groups
            .get(&group)
            .into_iter()
            .flat_map(|group| &group.breaks);
        let breaks = breaks.filter(|(_, breaks)| breaks.times >= BREAKS_MAX);
        let all = self.failed.keys().chain(breaks.map(|(pair, _)| pair));
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
        let Some(record) = self.group_mut(group) else {
            return;
        };
        record.note_broken(peer, which);
        let mut most = 0;
        for edge in record.edges_of(peer, which) {
            let breaks = record.breaks.entry(pair(edge)).or_default();
            breaks.times = breaks.times.saturating_add(1);
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
        if self.ring_without(group, &members, &bad).is_none() {
            self.evict_worst(group, &members, out);
        }
    }

    /// A collective of this size was committed: what broke under smaller ones, or as large ones, works.
    pub(super) fn forgive(&mut self, group: GroupId, bytes: u64) {
        if let Some(record) = self.group_mut(group) {
            record.breaks.retain(|_, breaks| breaks.bytes > bytes);
            record.stalls.clear();
        }
        self.end_conflicts(group);
    }

    /// Nothing speaks for or against a peer that is gone.
    pub(super) fn forget_failures(&mut self, peer: PeerId) {
        let is_end = |pair: &Pair| pair.0 == peer || pair.1 == peer;
        self.failed.retain(|pair, _| !is_end(pair));
        self.departed.remove(&peer);
        for attempts in self.attempts.values_mut() {
            attempts.order.retain(|member| *member != peer);
            attempts.joined.retain(|pair| !is_end(pair));
            attempts.pieces.retain(|piece, _| !piece.contains(&peer));
        }
        self.attempts
            .retain(|_, attempts| !attempts.order.is_empty());
        for group in self.groups.values_mut() {
            group.breaks.retain(|pair, _| !is_end(pair));
            group.stalls.remove(&peer);
        }
    }
}

/// Whether every pair between the largest piece and each other one has failed. Of large pieces that is not
/// looked at: it would take that many failures.
fn nothing_joins(
    largest: &BTreeSet<PeerId>,
    others: &[BTreeSet<PeerId>],
    bad: &BTreeSet<Pair>,
) -> bool {
    others.iter().all(|other| {
        let few = largest.len().saturating_mul(other.len()) <= FRUITLESS_MAX * FRUITLESS_MAX;
        let mut between = largest
            .iter()
            .flat_map(|one| other.iter().map(move |two| (*one, *two)));
        few && between.all(|edge| bad.contains(&pair(edge)))
    })
}
