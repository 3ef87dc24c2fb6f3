//! What each peer is doing and which deadlines run, both as functions of who is in which set.

use std::collections::{BTreeMap, BTreeSet};

use pccl_core::id::{GroupId, PeerId, Tag};
use pccl_core::master::{Ballot, MasterTimer};
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

    /// Waits for nothing, queries apart: may call anything.
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
            if wiring.failed.contains(&peer) {
                return ConnectionState::ConnectingToPeersFailed;
            }
            return match wiring.lacking.contains(&peer) {
                true => ConnectionState::ConnectingToPeers,
                false => ConnectionState::WaitingForOtherPeers,
            };
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
        all.extend(self.wirings.iter().map(|wiring| {
            match wiring.failed.is_empty() && !wiring.is_given_up {
                true => MasterTimer::Wiring(wiring.round),
                false => MasterTimer::RetryWiring(wiring.round),
            }
        }));
        if let Some(Search::Measuring { round, .. } | Search::Solving { round, .. }) = self.search {
            all.insert(MasterTimer::Optimization(round));
        }
        for group in self.groups.values() {
            let moving = group.moving.as_ref();
            all.extend(moving.map(|moving| MasterTimer::SharedState(moving.round)));
            let running = group.running.values();
            all.extend(running.map(|running| MasterTimer::Collective(running.seq)));
        }
        all.extend(self.open_ballots().into_iter().map(MasterTimer::Ballot));
        all
    }

    fn open_ballots(&self) -> BTreeSet<Ballot> {
        let mut open = BTreeSet::new();
        open.extend((!self.asking.is_empty()).then_some(Ballot::PeersPending));
        for peer in &self.accepted {
            let group = self.peers[peer].group;
            match self.state_of(*peer) {
                ConnectionState::VoteAcceptNewPeers => open.insert(Ballot::UpdateTopology),
                ConnectionState::VoteNoNewPeersEstablishP2p => open.insert(Ballot::Rewire(group)),
                ConnectionState::VoteOptimizeTopology => open.insert(Ballot::OptimizeTopology),
                ConnectionState::VoteSyncSharedState => open.insert(Ballot::SyncSharedState(group)),
                _ => false,
            };
            // While its ring is connected, a collective waits for that and not for votes.
            if !self.is_wired(*peer) {
                let tags = self.tags_of(*peer).into_iter();
                let starting = tags.filter(|(_, state)| *state == TagState::VoteInitiate);
                open.extend(starting.map(|(tag, _)| Ballot::Initiate(group, tag)));
            }
        }
        open
    }
}
