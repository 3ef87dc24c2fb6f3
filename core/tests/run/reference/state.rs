//! What each peer is doing and which deadlines run, both as functions of who is in which set.

use std::collections::{BTreeMap, BTreeSet};

use pccl_core::id::{GroupId, PeerId, Tag};
use pccl_core::master::MasterTimer;
use pccl_core::states::{CollectiveCommunicationState as TagState, ConnectionState};

use super::search::Search;
use super::{Group, Peers, Reference};

impl Reference {
    /// The accepted peers of a group.
    pub(super) fn members(&self, group: GroupId) -> Peers {
        let mut members = self.accepted.clone();
        members.retain(|peer| self.peers[peer].group == group);
        members
    }

    /// The group of an accepted peer.
    pub(super) fn group_of(&mut self, peer: PeerId) -> &mut Group {
        let group = self.peers[&peer].group;
        self.groups.get_mut(&group).unwrap()
    }

    /// A ring is stale that has lost a member or a lane.
    pub(super) fn is_stale(&self, id: GroupId) -> bool {
        let group = &self.groups[&id];
        let on_ring: Peers = group.ring.0.iter().copied().collect();
        on_ring != self.members(id) || !group.broken.is_empty()
    }

    /// Is it part of an attempt at connecting a ring?
    pub(super) fn is_wired(&self, peer: PeerId) -> bool {
        let mut wirings = self.wirings.iter();
        wirings.any(|wiring| wiring.members.contains(&peer))
    }

    /// May call anything: it waits for nothing, queries apart, though perhaps its ring is being connected.
    pub(super) fn may_vote(&self, peer: PeerId) -> bool {
        let better = self.search.is_some();
        let is_wired = self.is_wired(peer) && !better;
        self.is_free(peer) || is_wired && self.call_of(peer) == ConnectionState::Idle
    }

    /// Waits for nothing, queries apart.
    pub(super) fn is_free(&self, peer: PeerId) -> bool {
        self.accepted.contains(&peer) && self.state_of(peer) == ConnectionState::Idle
    }

    pub(super) fn tags_of(&self, peer: PeerId) -> BTreeMap<Tag, TagState> {
        let Some(group) = self.groups.get(&self.peers[&peer].group) else {
            return BTreeMap::new();
        };
        let starting = group.starting.iter();
        let starting = starting.filter(|(_, votes)| votes.contains_key(&peer));
        let running = group.running.iter();
        let running = running.filter(|(_, running)| running.participants.contains(&peer));
        let running = running.map(|(tag, running)| match running.lacking.contains(&peer) {
            true => (*tag, TagState::Perform),
            false => (*tag, TagState::VoteComplete),
        });
        starting
            .map(|(tag, _)| (*tag, TagState::VoteInitiate))
            .chain(running)
            .collect()
    }

    /// Has collectives, and all of them wait to start.
    pub(super) fn only_waits_to_start(&self, peer: PeerId) -> bool {
        let tags = self.tags_of(peer);
        !tags.is_empty() && tags.values().all(|state| *state == TagState::VoteInitiate)
    }

    /// Has only collectives that cannot start on this ring.
    pub(super) fn waits_for_a_ring(&self, peer: PeerId) -> bool {
        let group = self.peers[&peer].group;
        self.only_waits_to_start(peer) && !self.is_wired(peer) && self.is_stale(group)
    }

    pub(super) fn state_of(&self, peer: PeerId) -> ConnectionState {
        let wired = self.wirings.iter().find(|w| w.members.contains(&peer));
        if let Some(wiring) = wired {
            if wiring.disappointed.contains(&peer) {
                return ConnectionState::ConnectingToPeersFailed;
            }
            return match wiring.lacks(peer) {
                true => ConnectionState::ConnectingToPeers,
                false => ConnectionState::WaitingForOtherPeers,
            };
        }
        if self.aside.contains_key(&peer) {
            return ConnectionState::VoteSyncSharedState;
        }
        if !self.accepted.contains(&peer) {
            return ConnectionState::Idle;
        }
        if let Some(search) = &self.search {
            return search.state_of(peer);
        }
        self.call_of(peer)
    }

    fn call_of(&self, peer: PeerId) -> ConnectionState {
        let group = &self.groups[&self.peers[&peer].group];
        if let Some(moving) = &group.moving {
            match (
                moving.lacking.contains(&peer),
                moving.holders.contains(&peer),
            ) {
                (false, _) => ConnectionState::VoteCompleteSharedStateSync,
                (true, true) => ConnectionState::DistributeSharedState,
                (true, false) => ConnectionState::RequestSharedState,
            }
        } else if self.updating.contains(&peer) {
            ConnectionState::VoteAcceptNewPeers
        } else if self.optimizing.contains(&peer) {
            ConnectionState::VoteOptimizeTopology
        } else if group.offers.contains_key(&peer) {
            ConnectionState::VoteSyncSharedState
        } else if self.waits_for_a_ring(peer) {
            ConnectionState::VoteNoNewPeersEstablishP2p
        } else if !self.tags_of(peer).is_empty() {
            ConnectionState::CollectiveCommunicationsRunning
        } else {
            ConnectionState::Idle
        }
    }

    /// Everything that somebody waits for has a deadline, and nothing else has.
    pub(super) fn deadlines(&self) -> BTreeSet<MasterTimer> {
        let silences = self.peers.keys().map(|peer| MasterTimer::Silence(*peer));
        let mut all: BTreeSet<MasterTimer> = silences.collect();
        all.extend((!self.peers.is_empty()).then_some(MasterTimer::HeartbeatDue));
        all.extend(self.wirings.iter().map(|wiring| match wiring.has_failed() {
            true => MasterTimer::RetryWiring(wiring.round),
            false => MasterTimer::Wiring(wiring.round),
        }));
        if let Some(Search::Solving { round, .. }) = self.search {
            all.insert(MasterTimer::Solver(round));
        }
        let late = self.accepted.iter();
        let late = late.filter(|peer| self.lateness_of(**peer).is_some());
        all.extend(late.map(|peer| MasterTimer::Late(*peer)));
        all
    }

    /// Agrees to another ring without having called `update_topology`: nothing that it called has begun.
    pub(super) fn agrees(&self, peer: PeerId) -> bool {
        if self.is_wired(peer) {
            return false;
        }
        let group = &self.groups[&self.peers[&peer].group];
        self.optimizing.contains(&peer)
            || group.offers.contains_key(&peer)
            || self.only_waits_to_start(peer)
            || self.resting.contains(&peer) && self.is_free(peer)
    }

    /// Who waits in `update_topology`, and for no ring that is being connected.
    pub(super) fn updating_by_itself(&self) -> Peers {
        let mut waiting = self.updating.clone();
        waiting.retain(|peer| !self.is_wired(*peer));
        waiting
    }

    /// The same in `optimize_topology`.
    pub(super) fn optimizing_by_itself(&self) -> Peers {
        let mut waiting = self.optimizing.clone();
        waiting.retain(|peer| !self.is_wired(*peer));
        waiting
    }

    /// What others wait for this one to do.
    pub(super) fn lateness_of(&self, peer: PeerId) -> Option<Lateness> {
        if !self.accepted.contains(&peer) || self.is_wired(peer) {
            return None;
        }
        let group = &self.groups[&self.peers[&peer].group];
        let lacks = |running: &super::Running| running.lacking.contains(&peer);
        let moves = group.moving.as_ref();
        let measures = match &self.search {
            Some(Search::Measuring { lacking, .. }) => lacking.contains(&peer),
            Some(Search::Solving { .. } | Search::Connecting) | None => false,
        };
        if measures {
            return Some(Lateness::Probe);
        }
        if moves.is_some_and(|moving| moving.lacking.contains(&peer))
            || group.running.values().any(lacks)
        {
            return Some(Lateness::Part);
        }
        if self.is_free(peer) {
            let syncs = group.offers.keys().any(|peer| !self.is_wired(*peer));
            let starts = !group.starting.is_empty();
            let updates = !self.updating_by_itself().is_empty() && !self.resting.contains(&peer);
            let asked = !self.asking.is_empty() && !self.asking.contains(&peer);
            let optimizes = !self.optimizing_by_itself().is_empty();
            return (syncs || starts || updates || asked || optimizes).then_some(Lateness::Vote);
        }
        let joins = self.only_waits_to_start(peer)
            && self.state_of(peer) == ConnectionState::CollectiveCommunicationsRunning;
        let lacks_one = group
            .starting
            .values()
            .any(|votes| !votes.contains_key(&peer));
        (joins && lacks_one).then_some(Lateness::Join)
    }
}

/// What others wait for a peer to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lateness {
    /// To make the call that they have made.
    Vote,
    /// To start what they want to start, besides what it waits to start itself.
    Join,
    /// To end its part of what runs.
    Part,
    /// To measure.
    Probe,
}
