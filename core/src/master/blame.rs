//! Edges that do not come up, or carry nothing: how the next ring avoids them, and which peer is evicted.
//!
//! 1. **Route around.** The next ring avoids all pairs of peers that could not be connected, or whose edge broke
//!    under two collectives in a row, as long as there is such a ring (`order`).
//! 2. **Newcomers.** A newcomer because of which two attempts have failed no longer delays the others: it waits for
//!    the next admission, and is refused if that does not help (`newcomers`).
//! 3. **Evict** only if no ring is left: the smaller of two pieces that nothing joins, or, within one piece, the peer
//!    with the most failed pairs (`evict`).
//!
//! These three sentences are not the whole rule. The master knows that an edge has failed, but not because of which
//! end. It has to infer that from the other direction, other partners and other attempts. So the meaning of *could
//! not be connected*, *because of* and *nothing joins* is as much a rule as these three; the file of each rule
//! defines it. They have in common that the evidence against a peer is forgotten when lanes come up in the same
//! direction, and not because the other end has left. Otherwise a peer that no newcomer can reach would have each
//! newcomer refused.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::attempt::{Ends, Failure, Wiring};
use super::pieces::joined_pieces;
use super::record::PeerRecord;
use super::{Master, Out};
use crate::id::{GroupId, PeerId};
use crate::topology::{LaneFailure, Ring};

/// Two peers, lower id first.
pub(super) type Pair = (PeerId, PeerId);

/// Failed attempts in a row at the ring of one group.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub(super) struct Attempts {
    /// Their number, which determines the pause before the next one.
    pub(super) count: u8,
    /// The order of the last attempt.
    pub(super) order: Vec<PeerId>,
    /// Pairs that are known to work.
    pub(super) joined: BTreeSet<Pair>,
    /// The pieces into which these pairs join the members. For each piece the number of failed pairs with other
    /// pieces, since the piece has had these members.
    pub(super) pieces: BTreeMap<BTreeSet<PeerId>, usize>,
    /// Whether two accepted peers could not be connected.
    pub(super) doubts: bool,
    /// Attempts since pieces were joined.
    pub(super) fruitless: u8,
}

/// An edge that did not come up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct DeadEdge {
    pub(super) dialler: PeerId,
    pub(super) dialled: PeerId,
    /// The address at which the lanes were to be opened.
    pub(super) at: SocketAddr,
    pub(super) failure: Failure,
    /// Whether each of the two has tried to open them.
    pub(super) both_ways: bool,
}

/// Failures of edges with departed peers, as far as nothing has disproved them since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub(super) struct Departed {
    pub(super) as_dialler: u8,
    pub(super) as_dialled: u8,
}

pub(super) fn pair((one, other): (PeerId, PeerId)) -> Pair {
    (one.min(other), one.max(other))
}

/// The other peer of a pair. `None` if `peer` is not in it.
pub(super) fn other_of((one, other): Pair, peer: PeerId) -> Option<PeerId> {
    if one == peer {
        Some(other)
    } else {
        (other == peer).then_some(one)
    }
}

impl DeadEdge {
    fn pair(self) -> Pair {
        pair((self.dialler, self.dialled))
    }

    pub(super) fn other_end(self, peer: PeerId) -> PeerId {
        if self.dialler == peer {
            self.dialled
        } else {
            self.dialler
        }
    }

    /// Whether the dialled peer was not at the address: no process was, or another one.
    fn is_unanswered(self) -> bool {
        match self.failure {
            Failure::Reported(failure) => match failure {
                LaneFailure::Refused
                | LaneFailure::TimedOut
                | LaneFailure::Unreachable
                | LaneFailure::Untrusted => true,
                LaneFailure::Closed | LaneFailure::BadHandshake | LaneFailure::Local => false,
            },
            Failure::Overdue { .. } => false,
        }
    }
}

impl Master {
    /// The attempt has failed: learns from it, and evicts peers if necessary.
    pub(super) fn blame(&mut self, wiring: &Wiring, out: &mut Out) {
        let dead = self.dead_edges(wiring);
        self.clear_edges(wiring);
        for edge in &dead {
            rule!(self.failed.insert(edge.pair(), *edge); FailedPairForgotten => None);
            // What was measured between them holds no more: the solver would choose the edge again.
            self.known.forget((edge.dialler, edge.dialled));
            if edge.is_unanswered()
                && let Some(record) = self.record_mut(edge.dialled)
            {
                record.missed = true;
            }
            if self.charged(*edge) == edge.dialler
                && let Some(record) = self.record_mut(edge.dialler)
            {
                record.stuck = true;
            }
        }
        for (group, plan) in &wiring.rings {
            self.learn(*group, wiring, &plan.ring);
        }
        self.strike(&dead, out);
        for (group, plan) in &wiring.rings {
            self.leave_out_the_hidden(*group, &plan.ring, out);
            self.leave_the_standing_ring_alone(*group, wiring, &plan.ring, out);
        }
        for (group, plan) in &wiring.rings {
            self.evict(*group, &plan.ring, out);
        }
    }

    fn dead_edges(&self, wiring: &Wiring) -> Vec<DeadEdge> {
        let failed = wiring.links.iter().filter_map(|(ends, edge)| {
            let Ends { dialler, dialled } = wiring.ends(*ends);
            Some(DeadEdge {
                dialler,
                dialled,
                at: self
                    .peers
                    .get(&rule!(dialled; AddressOfTheWrongEnd => dialler))?
                    .address,
                failure: edge.ring_failure()?,
                both_ways: self.has_failed_the_other_way(dialler, dialled),
            })
        });
        failed.collect()
    }

    fn has_failed_the_other_way(&self, dialler: PeerId, dialled: PeerId) -> bool {
        let before = self.failed.get(&pair((dialler, dialled)));
        before.is_some_and(|before| before.both_ways || before.dialler != dialler)
    }

    /// Forgets the evidence that the edges which came up disprove.
    pub(super) fn clear_edges(&mut self, wiring: &Wiring) {
        let up = wiring.links.iter().filter(|(_, edge)| edge.is_up());
        for edge in up.map(|(edge, _)| *edge) {
            let Ends { dialler, dialled } = wiring.ends(edge);
            rule!(self.failed.remove(&pair(edge)); RepairedPairStaysFailed => None);
            if let Some(departed) = self.departed.get_mut(&dialler) {
                departed.as_dialler = 0;
            }
            if let Some(departed) = self.departed.get_mut(&dialled) {
                departed.as_dialled = 0;
            }
            if let Some(record) = self.record_mut(dialled) {
                (record.reached, record.missed) = (true, false);
            }
            if let Some(record) = self.record_mut(dialler) {
                (record.has_dialled, record.stuck) = (true, false);
            }
        }
    }

    /// The end because of which a dead edge has failed, as far as can be told: the end that was to be reached, unless
    /// another peer has reached it.
    pub(super) fn charged(&self, edge: DeadEdge) -> PeerId {
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
        let up = wiring.links.iter().filter(|(_, edge)| edge.is_up());
        let up: Vec<Pair> = up.map(|(edge, _)| pair(*edge)).collect();
        let is_accepted = |peer: &PeerId| self.peers.get(peer).is_some_and(PeerRecord::is_accepted);
        let failed = wiring
            .links
            .iter()
            .filter(|(_, edge)| edge.ring_failure().is_some());
        let doubts = failed
            .clone()
            .any(|((from, to), _)| ring.0.contains(from) && is_accepted(from) && is_accepted(to));
        let attempts = self.attempts.entry(group).or_default();
        attempts.joined.extend(up);
        attempts.doubts |= doubts;
        let pieces = self.pieces(group, &ring.0);
        let members = |(at, piece): (usize, &BTreeSet<PeerId>)| {
            let numbered = piece.iter().map(move |peer| (*peer, at));
            numbered.collect::<Vec<_>>()
        };
        let piece_of: BTreeMap<PeerId, usize> =
            pieces.iter().enumerate().flat_map(members).collect();
        let mut failures = alloc::vec![0_usize; pieces.len()];
        for ((from, to), _) in failed {
            let (one, other) = (piece_of.get(from), piece_of.get(to));
            for piece in [one, other].into_iter().flatten().filter(|_| one != other) {
                if let Some(count) = failures.get_mut(*piece) {
                    *count = count.saturating_add(1);
                }
            }
        }
        let attempts = self.attempts.entry(group).or_default();
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

    /// The pieces into which working edges join these members.
    pub(super) fn pieces(&self, group: GroupId, members: &[PeerId]) -> Vec<BTreeSet<PeerId>> {
        let joined = self
            .attempts
            .get(&group)
            .map(|attempts| attempts.joined.iter());
        let standing = self.groups.get(&group).filter(|_| !self.is_doubtful(group));
        let whole = standing.into_iter().flat_map(|group| {
            let edges = group.links.keys();
            edges
                .filter(|edge| group.can_keep(**edge))
                .map(|edge| pair(*edge))
        });
        let works = joined.into_iter().flatten().copied().chain(whole);
        joined_pieces(members, &works.collect())
    }

    /// Whether an unreported edge must not be assumed to work: two accepted peers could not be connected in the last
    /// attempts, so others may be cut off as well without knowing it yet.
    pub(super) fn is_doubtful(&self, group: GroupId) -> bool {
        let attempts = self.attempts.get(&group);
        attempts.is_some_and(|attempts| rule!(attempts.doubts; EveryFailureCastsDoubt => true))
    }

    /// Forgets all evidence for and against a departed peer.
    pub(super) fn forget_failures(&mut self, peer: PeerId) {
        let is_end = |pair: &Pair| pair.0 == peer || pair.1 == peer;
        self.failed.retain(|pair, _| !is_end(pair));
        self.unlinked.retain(|pair| !is_end(pair));
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
            group.cancels.remove(&peer);
        }
    }
}
