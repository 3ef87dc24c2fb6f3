//! Numbers of peers in each state, by which ballots are counted.
//!
//! To count a ballot by iterating over all peers after every message would be slow. So each accepted peer adds to a
//! [`Tally`] of its group, and to one of all groups. Its contribution is updated when its record was touched, before
//! any ballot is counted.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::Master;
use super::record::{GroupRecord, PeerRecord};
use crate::id::{GroupId, PeerId};
use crate::states::ConnectionState;

/// Number of accepted peers in each state.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub(super) struct Tally {
    members: usize,
    by_state: BTreeMap<ConnectionState, usize>,
    agreeing: usize,
    asking: usize,
}

/// The contribution of one accepted peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Counted {
    group: GroupId,
    state: ConnectionState,
    agrees: bool,
    asks: bool,
}

impl Tally {
    /// Number of accepted peers.
    pub(super) fn members(&self) -> usize {
        self.members
    }

    /// Number of peers in this state.
    pub(super) fn of(&self, state: ConnectionState) -> usize {
        self.by_state.get(&state).copied().unwrap_or(0)
    }

    /// Whether there is a peer, and all are in this state.
    pub(super) fn all_in(&self, state: ConnectionState) -> bool {
        self.members > 0 && self.of(state) == self.members
    }

    /// Number of peers that did not call `update_topology`, and agree to another ring.
    pub(super) fn agreeing(&self) -> usize {
        self.agreeing
    }

    /// Number of peers that wait in `are_peers_pending`.
    pub(super) fn asking(&self) -> usize {
        self.asking
    }

    fn add(&mut self, counted: Counted) {
        self.members = self.members.saturating_add(1);
        *self.by_state.entry(counted.state).or_default() += 1;
        self.agreeing = self.agreeing.saturating_add(counted.agrees.into());
        self.asking = self.asking.saturating_add(counted.asks.into());
    }

    fn remove(&mut self, counted: Counted) {
        self.members = self.members.saturating_sub(1);
        if let Some(count) = self.by_state.get_mut(&counted.state) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.by_state.remove(&counted.state);
            }
        }
        self.agreeing = self.agreeing.saturating_sub(counted.agrees.into());
        self.asking = self.asking.saturating_sub(counted.asks.into());
    }
}

impl PeerRecord {
    fn to_count(&self) -> Option<Counted> {
        self.is_accepted().then(|| Counted {
            group: self.group,
            state: self.state,
            agrees: self.agrees_to_update(),
            asks: self.asked_pending,
        })
    }

    /// Whether the peer agrees to another ring although it did not call `update_topology`: it waits for others to
    /// make its own call, or has made no call since it was admitted.
    pub(super) fn agrees_to_update(&self) -> bool {
        match self.state {
            ConnectionState::Idle => self.rests,
            ConnectionState::VoteNoNewPeersEstablishP2p
            | ConnectionState::VoteOptimizeTopology
            | ConnectionState::VoteSyncSharedState => true,
            ConnectionState::CollectiveCommunicationsRunning => {
                rule!(self.tags.only_initiate(); CollectiveCountsAsConsent => true)
            }
            ConnectionState::VoteAcceptNewPeers
            | ConnectionState::ConnectingToPeers
            | ConnectionState::ConnectingToPeersFailed
            | ConnectionState::WaitingForOtherPeers
            | ConnectionState::OptimizeTopology
            | ConnectionState::OptimizeTopologyFailed
            | ConnectionState::VoteCompleteTopologyOptimization
            | ConnectionState::DistributeSharedState
            | ConnectionState::RequestSharedState
            | ConnectionState::VoteCompleteSharedStateSync => false,
        }
    }
}

impl GroupRecord {
    /// The members, if there is one and all are in this state.
    pub(super) fn unanimous(&self, wanted: ConnectionState) -> Option<Vec<PeerId>> {
        let members = || self.members.iter().copied().collect();
        self.tally.all_in(wanted).then(members)
    }
}

impl Master {
    /// The accepted peers of all groups, if there is one and all are in this state.
    pub(super) fn unanimous(&self, wanted: ConnectionState) -> Option<Vec<PeerId>> {
        let accepted = || self.accepted().map(|(peer, _)| peer).collect();
        self.tally.all_in(wanted).then(accepted)
    }

    /// A record for modification. It is counted again before any ballot is.
    pub(super) fn record_mut(&mut self, peer: PeerId) -> Option<&mut PeerRecord> {
        let record = self.peers.get_mut(&peer)?;
        self.touched.insert(peer);
        Some(record)
    }

    /// Counts touched peers again.
    pub(super) fn recount(&mut self) {
        while let Some(peer) = self.touched.pop_first() {
            self.rechecked.insert(peer);
            let Some(record) = self.peers.get_mut(&peer) else {
                continue;
            };
            self.dirty.insert(record.group);
            let counted = record.to_count();
            let before = core::mem::replace(&mut record.counted, counted);
            if before != counted {
                self.count_out(before);
                self.count_in(counted);
            }
        }
    }

    fn count_in(&mut self, counted: Option<Counted>) {
        if let Some(counted) = counted {
            self.tally.add(counted);
            let group = self.groups.entry(counted.group).or_default();
            group.tally.add(counted);
        }
    }

    /// Removes a peer's contribution.
    pub(super) fn count_out(&mut self, counted: Option<Counted>) {
        if let Some(counted) = counted {
            self.tally.remove(counted);
            self.dirty.insert(counted.group);
            if let Some(group) = self.groups.get_mut(&counted.group) {
                group.tally.remove(counted);
            }
        }
    }
}
