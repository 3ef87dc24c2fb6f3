//! Whose fault an edge is that does not come up, and what follows.
//!
//! 1. **Of one newcomer:** the newcomer's. It is refused, with what happened, and its neighbours stay.
//!    But where it is told that nobody listens at an accepted peer, which may just have died, it is
//!    given a second attempt; and where the accepted peer's own machine gave out, it is not at fault:
//!    the two are treated like two accepted peers, and the one whose edges fail goes in the end.
//! 2. **Between two newcomers:** they are first set apart, so that each shows how it gets on with the
//!    accepted peers. Where that is impossible, or does not help, the one that was dialled goes: a
//!    closed port is the usual cause, and a dialler at fault fails again, and is next.
//! 3. **Between two accepted peers:** the pair is avoided in the next ring, after a pause in which the
//!    master may learn that one of them is gone. After some attempts the one whose edges failed more
//!    often is kicked, the later of the two where that does not tell.
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
    /// How often an edge of a peer failed.
    by_peer: BTreeMap<PeerId, u32>,
}

/// An edge that did not come up.
#[derive(Clone, Copy)]
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
    /// Notes an edge that failed. Returns the end whose edges failed more often, the later peer
    /// where neither's did.
    fn note(&mut self, one: PeerId, other: PeerId) -> PeerId {
        let mut often = |peer: PeerId| {
            let times = self.by_peer.entry(peer).or_default();
            *times = times.saturating_add(1);
            (*times, peer)
        };
        let (one, other) = (often(one), often(other));
        one.max(other).1
    }

    pub(super) fn forget(&mut self, peer: PeerId) {
        self.by_peer.remove(&peer);
    }
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
            (true, true) if self.is_first_attempt(round) => self.avoid(round, edge, out),
            (false, true) if failure == LaneFailure::Local => self.avoid(round, edge, out),
            (true, false) if self.may_be_a_death(round, failure) => {
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
    /// newcomer that could not reach it is not at fault. So the first such report only leads to a pause.
    fn may_be_a_death(&self, round: Round, failure: LaneFailure) -> bool {
        let is_quick = match failure {
            LaneFailure::Refused | LaneFailure::Closed => true,
            LaneFailure::TimedOut
            | LaneFailure::Unreachable
            | LaneFailure::BadHandshake
            | LaneFailure::Local => false,
        };
        is_quick && self.is_first_attempt(round)
    }

    fn is_first_attempt(&self, round: Round) -> bool {
        self.wirings.get(&round).is_some_and(|wiring| {
            let failed = self.failures.get(&wiring.scope);
            // One that pauses has been counted.
            failed.map_or(0, |failures| failures.attempts) == u8::from(wiring.pausing)
        })
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
        failures.attempts = failures.attempts.saturating_add(1);
        true
    }

    /// An edge for which nobody goes yet does not come up: the next ring avoids it.
    fn avoid(&mut self, round: Round, edge: DeadEdge, out: &mut Out) {
        let DeadEdge { reporter, with, .. } = edge;
        let pair = (reporter.min(with), reporter.max(with));
        self.unreachable.insert(pair);
        // What was measured between them holds no more: the solver would choose the edge again.
        self.bandwidth.remove(&(reporter, with));
        self.bandwidth.remove(&(with, reporter));
        let pauses = self.pause(round);
        let Some(scope) = self.wirings.get(&round).map(|wiring| wiring.scope) else {
            return;
        };
        let failures = self.failures.entry(scope).or_default();
        let goes = failures.note(reporter, with);
        if pauses && failures.attempts >= self.config.wiring_attempts_max {
            self.failures.remove(&scope);
            self.send_away(goes, edge, out);
        }
    }

    /// The wiring's time is over: who has not done its part?
    pub(super) fn wiring_overdue(&mut self, round: Round, out: &mut Out) {
        let Some(wiring) = self.wirings.get(&round) else {
            return;
        };
        let diallers = self.silent_diallers(wiring);
        if diallers.is_empty()
            && let Some(edge) = self.contradiction(wiring)
        {
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
    /// the master cannot tell; who waited is not the one to go for it alone.
    fn contradiction(&self, wiring: &Wiring) -> Option<DeadEdge> {
        let mut edges = wiring.fresh().filter_map(|(from, to)| {
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
        let waits = |peer: &PeerId| wiring.awaiting.contains(peer);
        edges.find(|edge| waits(&edge.reporter) && !waits(&edge.with))
    }
}
