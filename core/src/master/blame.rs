//! Whose fault an edge is that does not come up, and what follows.
//!
//! 1. **Of one newcomer:** the newcomer's. It is refused, with what happened, and its neighbours stay.
//!    But where it is told that nobody listens at an accepted peer, which may just have died, it is
//!    given a second attempt once; and where the accepted peer's own machine gave out, it is not at fault:
//!    the two are treated like two accepted peers, and the one whose edges fail goes in the end.
//! 2. **Between two newcomers:** they are first set apart, so that each shows how it gets on with the
//!    accepted peers. Where that is impossible, or does not help, the one that was dialled goes: a
//!    closed port is the usual cause, and a dialler at fault fails again, and is next.
//! 3. **Between two accepted peers:** the pair is avoided in the next ring, after a pause in which the
//!    master may learn that one of them is gone. After some attempts the peer whose edges failed most
//!    often goes, be it an end of the last edge or not, and nobody whose edges failed but once. Where
//!    several failed as often it is an end of the last edge, the later of the two.
//!
//! What speaks against a peer holds until a ring stands, and is not forgotten when another one goes.
//!
//! An edge that its dialler says is up, while the other end still waits for it when the time is over, is
//! one that failed: else a peer that reports lanes that it never opened would have its neighbours sent
//! away for their silence.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::SocketAddr;

use super::wiring::Wiring;
use super::{Master, Out};
use crate::id::{PeerId, Round};
use crate::messages::{Misdeed, Refusal};
use crate::states::{ConnectionPhase, Event};
use crate::topology::LaneFailure;

/// Failed attempts in a row at one scope.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct Failures {
    pub(super) attempts: u8,
    by_peer: BTreeMap<PeerId, Charge>,
    /// Pairs of newcomers that could not be connected, lower number first, and when that was first seen.
    pairs: BTreeMap<(PeerId, PeerId), Round>,
    /// Newcomers that were not blamed for what may have been the death of another.
    excused: BTreeSet<PeerId>,
}

/// What speaks against a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Charge {
    /// How often an edge of it failed.
    times: u32,
    last: DeadEdge,
}

/// An edge that did not come up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct DeadEdge {
    reporter: PeerId,
    with: PeerId,
    /// Which of the two was to open the lanes.
    dialler: PeerId,
    /// Where it was to open them.
    at: SocketAddr,
    failure: LaneFailure,
}

impl Failures {
    fn note(&mut self, edge: DeadEdge) {
        for peer in [edge.reporter, edge.with] {
            let before = self.by_peer.get(&peer).map_or(0, |charge| charge.times);
            let times = before.saturating_add(1);
            self.by_peer.insert(peer, Charge { times, last: edge });
        }
    }

    /// Whose edges failed most often; of several an end of this edge, and of those the later peer.
    fn worst(&self, edge: DeadEdge) -> Option<(PeerId, Charge)> {
        let all = self.by_peer.iter().map(|(peer, charge)| (*peer, *charge));
        all.max_by_key(|(peer, charge)| {
            let is_end = *peer == edge.reporter || *peer == edge.with;
            (charge.times, is_end, *peer)
        })
    }

    /// Is this the first attempt in which these two could not be connected?
    fn is_first(&mut self, one: PeerId, other: PeerId, round: Round) -> bool {
        *self.pairs.entry(pair(one, other)).or_insert(round) == round
    }

    pub(super) fn forget(&mut self, peer: PeerId) {
        self.by_peer.remove(&peer);
        self.pairs
            .retain(|(one, other), _| *one != peer && *other != peer);
        self.excused.remove(&peer);
    }
}

fn pair(one: PeerId, other: PeerId) -> (PeerId, PeerId) {
    (one.min(other), one.max(other))
}

impl Master {
    pub(super) fn edge_failed(
        &mut self,
        peer: PeerId,
        round: Round,
        with: PeerId,
        failure: LaneFailure,
        out: &mut Out,
    ) {
        if !self.is_round_of(peer, round, out) {
            return;
        }
        if !self
            .wirings
            .get(&round)
            .is_some_and(|wiring| wiring.is_fresh(peer, with))
        {
            self.kick(peer, Misdeed::UnknownRound, out);
            return;
        }
        if self.step_or_kick(peer, Event::EdgeFailed, out) {
            // Where the other end is gone already, losing it gave the attempt up.
            if let Some(record) = self.peers.get(&with) {
                let edge = DeadEdge {
                    reporter: peer,
                    with,
                    dialler: peer,
                    at: record.address,
                    failure,
                };
                self.blame(round, edge, out);
            }
        }
    }

    fn blame(&mut self, round: Round, edge: DeadEdge, out: &mut Out) {
        let DeadEdge {
            reporter,
            with,
            failure,
            ..
        } = edge;
        match (self.is_registered(reporter), self.is_registered(with)) {
            (true, true) if self.is_first_of_pair(round, edge) => self.avoid(round, edge, out),
            (false, true) if failure == LaneFailure::Local => self.avoid(round, edge, out),
            (true, false) if self.may_be_a_death(round, edge) => {
                self.pause(round);
            }
            (_, true) if failure != LaneFailure::Local => self.send_away(with, edge, out),
            (true, _) => self.send_away(reporter, edge, out),
            (false, _) => self.avoid(round, edge, out),
        }
    }

    /// One end of an edge goes: a newcomer is refused, a peer of the run kicked.
    fn send_away(&mut self, goes: PeerId, edge: DeadEdge, out: &mut Out) {
        let DeadEdge {
            reporter,
            with,
            dialler,
            at,
            failure,
        } = edge;
        let stays = if goes == with { reporter } else { with };
        if !self.is_registered(goes) {
            self.kick(goes, Misdeed::Unconnectable { with: stays }, out);
        } else if goes == dialler {
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

    /// An accepted peer whose machine says that nobody listens may have died a moment ago: then the
    /// newcomer that could not reach it is not at fault. So its first such report only leads to a pause.
    fn may_be_a_death(&mut self, round: Round, edge: DeadEdge) -> bool {
        let is_quick = match edge.failure {
            LaneFailure::Refused | LaneFailure::Closed => true,
            LaneFailure::TimedOut
            | LaneFailure::Unreachable
            | LaneFailure::BadHandshake
            | LaneFailure::Local => false,
        };
        is_quick
            && self
                .failures_of(round)
                .is_some_and(|failures| failures.excused.insert(edge.reporter))
    }

    fn is_first_of_pair(&mut self, round: Round, edge: DeadEdge) -> bool {
        self.failures_of(round)
            .is_some_and(|failures| failures.is_first(edge.reporter, edge.with, round))
    }

    fn failures_of(&mut self, round: Round) -> Option<&mut Failures> {
        let scope = self.wirings.get(&round)?.scope;
        Some(self.failures.entry(scope).or_default())
    }

    /// The attempt is over, and the next one waits a little. True: it has not paused before.
    fn pause(&mut self, round: Round) -> bool {
        let Some(wiring) = self.wirings.get_mut(&round) else {
            return false;
        };
        if core::mem::replace(&mut wiring.pausing, true) {
            return false;
        }
        let failures = self.failures.entry(wiring.scope).or_default();
        let attempts = failures.attempts.saturating_add(1);
        failures.attempts = attempts.min(self.config.wiring_attempts_max);
        true
    }

    /// An edge for which nobody goes yet does not come up: the next ring avoids it.
    fn avoid(&mut self, round: Round, edge: DeadEdge, out: &mut Out) {
        let DeadEdge { reporter, with, .. } = edge;
        self.unreachable.insert(pair(reporter, with));
        // What was measured between them holds no more: the solver would choose the edge again.
        self.bandwidth.remove(&(reporter, with));
        self.bandwidth.remove(&(with, reporter));
        let pauses = self.pause(round);
        let attempts_max = self.config.wiring_attempts_max;
        let Some(failures) = self.failures_of(round) else {
            return;
        };
        failures.note(edge);
        if !pauses || failures.attempts < attempts_max {
            return;
        }
        if let Some((goes, charge)) = failures.worst(edge)
            && charge.times >= u32::from(attempts_max.min(2))
        {
            // What speaks against the others still does.
            failures.attempts = 0;
            self.send_away(goes, charge.last, out);
        }
    }

    /// The wiring's time is over: who has not done its part?
    pub(super) fn wiring_overdue(&mut self, round: Round, out: &mut Out) {
        let Some(wiring) = self.wirings.get(&round) else {
            return;
        };
        let diallers = self.silent_diallers(wiring);
        if let Some(edge) = self.contradiction(wiring, &diallers) {
            // Its report may be on its way, and is legal still.
            self.blame(round, edge, out);
            return;
        }
        let suspects = if diallers.is_empty() {
            wiring.awaiting.clone()
        } else {
            diallers
        };
        // An accepted peer may wait for a newcomer: it goes only where no newcomer is late.
        let (newcomers, accepted): (Vec<_>, Vec<_>) = suspects
            .into_iter()
            .partition(|peer| self.is_registered(*peer));
        let late = if newcomers.is_empty() {
            accepted
        } else {
            newcomers
        };
        for peer in late {
            match self.peers.get(&peer).map(|record| record.phase) {
                Some(ConnectionPhase::Registered) => self.refuse(peer, Refusal::NoReport, out),
                Some(ConnectionPhase::Accepted) => self.kick(peer, Misdeed::NoReport, out),
                None => {}
            }
        }
    }

    /// Who only waits to be dialled is not to blame for the silence of the dialler.
    fn silent_diallers(&self, wiring: &Wiring) -> BTreeSet<PeerId> {
        let waits = |peer: &PeerId| wiring.awaiting.contains(peer);
        let open = wiring.fresh().filter(|(from, to)| waits(from) && waits(to));
        open.map(|(from, to)| self.dialler(*from, *to)).collect()
    }

    /// An edge that its dialler says is up, while the other end waits for it. Which of the two is wrong
    /// the master cannot tell; who waited is not the one to go for it alone. Where a peer that was to
    /// dial is silent, it is the likelier cause; but one that is accepted does not go while there is such
    /// a contradiction with a newcomer.
    fn contradiction(&self, wiring: &Wiring, silent: &BTreeSet<PeerId>) -> Option<DeadEdge> {
        let waits = |peer: &PeerId| wiring.awaiting.contains(peer);
        let edges = wiring.fresh().filter_map(|(from, to)| {
            let dialler = self.dialler(*from, *to);
            let dialled = if dialler == *from { *to } else { *from };
            Some(DeadEdge {
                reporter: dialled,
                with: dialler,
                dialler,
                at: self.peers.get(&dialled)?.address,
                failure: LaneFailure::TimedOut,
            })
        });
        let mut edges = edges.filter(|edge| waits(&edge.reporter) && !waits(&edge.with));
        if silent.is_empty() {
            edges.next()
        } else if silent.iter().any(|peer| self.is_registered(*peer)) {
            None
        } else {
            edges.find(|edge| self.is_registered(edge.reporter) || self.is_registered(edge.with))
        }
    }
}
