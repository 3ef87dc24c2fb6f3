//! Whether whoever others wait for has a deadline, and nobody else has one, told from what everybody is seen
//! to do.

use std::collections::BTreeSet;

use pccl_core::id::{GroupId, PeerId, Round, Tag};
use pccl_core::master::{MasterOutput, MasterTimer, PeerView};
use pccl_core::states::{CollectiveCommunicationState, ConnectionPhase, ConnectionState};

use super::deadlines::{Debt, Moment, debt};
use super::is_wired;
use super::source::{Source, order_to_connect};

/// Do others wait for a peer?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    Yes,
    No,
    /// What decides it is on its way to the master, or was lost there.
    CannotTell,
}

impl<'a, S: Source> Moment<'a, S> {
    pub(super) fn who_waits_is_watched(&self) -> bool {
        let mut peers = self.after.view().peers();
        let is_connected = self.after.view().peers().next().is_some();
        let view = self.after.view();
        let is_known = view.measured().next().is_some() || view.unusable().next().is_some();
        self.runs(MasterTimer::HeartbeatDue) == is_connected
            && self.runs(MasterTimer::MeasurementsAge) == is_known
            && peers.all(|(id, peer)| self.is_watched(id, peer))
            && self.nobody_else_is_watched()
            && self.rings_are_watched()
            && self.the_solver_is_watched()
    }

    fn is_watched(&self, id: PeerId, peer: PeerView<'_>) -> bool {
        let is_late = self.runs(MasterTimer::Late(id));
        let is_right = match self.awaited(id, peer) {
            Awaited::Yes => is_late,
            Awaited::No => !is_late,
            Awaited::CannotTell => true,
        };
        is_right && self.runs(MasterTimer::Silence(id))
    }

    fn nobody_else_is_watched(&self) -> bool {
        let is_there = |peer: &PeerId| self.after.view().peer(*peer).is_some();
        self.run_on.iter().all(|timer| match timer {
            MasterTimer::Silence(peer) | MasterTimer::Late(peer) => is_there(peer),
            _ => true,
        })
    }

    /// Who owes something may be waited for by others.
    fn awaited(&self, id: PeerId, peer: PeerView<'_>) -> Awaited {
        let is_awaited = match debt(peer) {
            None => false,
            Some(Debt::Part | Debt::Probe) => true,
            Some(Debt::Join) => self.lacks_a_tag(peer),
            Some(Debt::Vote) => return self.lacks_its_vote(id, peer),
        };
        if is_awaited {
            Awaited::Yes
        } else {
            Awaited::No
        }
    }

    fn accepted(&self) -> impl Iterator<Item = (PeerId, PeerView<'a>)> {
        let peers = self.after.view().peers();
        peers.filter(|(_, peer)| peer.phase() == ConnectionPhase::Accepted)
    }

    fn of_group(&self, group: GroupId) -> impl Iterator<Item = PeerView<'a>> {
        let accepted = self.accepted().map(|(_, peer)| peer);
        accepted.filter(move |peer| peer.group() == group)
    }

    /// Another of its group waits for a tag to start that this one has not started.
    fn lacks_a_tag(&self, peer: PeerView<'_>) -> bool {
        let mut others = self.of_group(peer.group()).flat_map(waits_to_start);
        others.any(|tag| !peer.tags().any(|(known, _)| known == tag))
    }

    /// Somebody waits in a ballot that lacks the vote of this one, which is idle.
    fn lacks_its_vote(&self, id: PeerId, peer: PeerView<'_>) -> Awaited {
        let of_group = self.of_group(peer.group()).any(|other| {
            let calls = [
                ConnectionState::VoteSyncSharedState,
                ConnectionState::VoteNoNewPeersEstablishP2p,
            ];
            calls.contains(&other.state()) || waits_to_start(other).next().is_some()
        });
        let waits_in = |state| self.accepted().any(|(_, other)| other.state() == state);
        let asks = || self.accepted().any(|(_, other)| other.asks_pending());
        if of_group
            || waits_in(ConnectionState::VoteOptimizeTopology)
            || !peer.asks_pending() && asks()
        {
            Awaited::Yes
        } else if waits_in(ConnectionState::VoteAcceptNewPeers) {
            self.owes_an_update(id)
        } else {
            Awaited::No
        }
    }

    /// Who has voted for nothing since it was admitted lets others update.
    fn owes_an_update(&self, id: PeerId) -> Awaited {
        match self.run.has_been_heard_to_vote(id) {
            None => Awaited::CannotTell,
            Some(false) => Awaited::No,
            Some(true) => Awaited::Yes,
        }
    }

    /// While rings are connected, and then only, a deadline runs for the reports about their edges, or the
    /// pause before they are tried again.
    fn rings_are_watched(&self) -> bool {
        let rounds = || {
            self.run_on
                .iter()
                .filter_map(|timer| round_of_wiring(*timer))
        };
        let wired = || {
            let peers = self.after.view().peers();
            peers.filter(|(_, peer)| is_wired(peer.state()))
        };
        if rounds().next().is_none() {
            return wired().next().is_none();
        }
        let groups: BTreeSet<GroupId> = wired().map(|(_, peer)| peer.group()).collect();
        rounds().count() <= groups.len()
            && wired().all(|(id, peer)| self.its_reports_are_awaited(id, peer.state()))
            && self.pauses_begin_when_all_is_known()
    }

    /// The deadline is that of the round that the peer was told last.
    fn its_reports_are_awaited(&self, id: PeerId, state: ConnectionState) -> bool {
        let has_edges = [
            ConnectionState::ConnectingToPeers,
            ConnectionState::ConnectingToPeersFailed,
        ];
        if !has_edges.contains(&state) {
            return true;
        }
        let told = self.told_last(id);
        let mut rounds = self
            .run_on
            .iter()
            .filter_map(|timer| round_of_wiring(*timer));
        told.is_none_or(|told| rounds.any(|round| round == told))
    }

    /// The round of the last order that a peer was sent. `None`: nobody can tell any more.
    fn told_last(&self, id: PeerId) -> Option<Round> {
        let now = self.out.iter().rev().find_map(|output| match output {
            MasterOutput::Send { peer, message } if *peer == id => order_to_connect(message),
            _ => None,
        });
        now.or_else(|| self.run.order_sent_to(id))
    }

    /// No pause while an edge may still come up: who is to open its lanes has not said how that went.
    fn pauses_begin_when_all_is_known(&self) -> bool {
        let is_there = |peer| self.after.view().peer(peer).is_some();
        self.run_on.iter().all(|timer| match timer {
            MasterTimer::RetryWiring(round) => !self.run.anybody_dials(*round, &is_there),
            _ => true,
        })
    }

    /// While the solver works, and then only, a deadline runs for it.
    fn the_solver_is_watched(&self) -> bool {
        let is_in = |state| self.accepted().any(|(_, peer)| peer.state() == state);
        let measured = is_in(ConnectionState::VoteCompleteTopologyOptimization)
            && !is_in(ConnectionState::OptimizeTopology);
        let is_asked = |timer: MasterTimer| {
            let MasterTimer::Solver(solver) = timer else {
                return true;
            };
            !self.begins(timer)
                || self.out.iter().any(|output| match output {
                    MasterOutput::SolveTour { round, .. } => *round == solver,
                    _ => false,
                })
        };
        let solvers = self
            .run_on
            .iter()
            .filter(|timer| matches!(timer, MasterTimer::Solver(_)));
        solvers.count() == usize::from(measured) && self.run_on.iter().all(|timer| is_asked(*timer))
    }
}

/// The tags that a peer waits to start.
fn waits_to_start(peer: PeerView<'_>) -> impl Iterator<Item = Tag> {
    let waits = CollectiveCommunicationState::VoteInitiate;
    let tags = peer.tags().filter(move |(_, state)| *state == waits);
    tags.map(|(tag, _)| tag)
}

fn round_of_wiring(timer: MasterTimer) -> Option<Round> {
    match timer {
        MasterTimer::Wiring(round) | MasterTimer::RetryWiring(round) => Some(round),
        MasterTimer::HeartbeatDue
        | MasterTimer::MeasurementsAge
        | MasterTimer::Silence(_)
        | MasterTimer::Late(_)
        | MasterTimer::Solver(_) => None,
    }
}
