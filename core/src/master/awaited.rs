//! The peers for which a peer waits: the calls that it has made, and the peers that have not made them.
//!
//! It is computed when a peer asks, by reading every peer's record, and changes nothing. No answer exceeds
//! [`WAITS_MAX`] and [`WAITED_FOR_MAX`]. A running operation, such as a collective, is not a wait for a call.

use alloc::vec::Vec;

use super::Master;
use super::record::{Collective, GroupRecord, PeerRecord};
use crate::awaited::{Awaited, AwaitedCall, WAITED_FOR_MAX, WAITS_MAX, Wait};
use crate::id::PeerId;
use crate::name::NamedPeer;
use crate::states::ConnectionState;

impl Master {
    /// The peers that have not made the calls in which this peer waits.
    pub(super) fn awaited_by(&self, peer: PeerId) -> Awaited {
        let Some(record) = self.peers.get(&peer) else {
            return Awaited::default();
        };
        let mut waits = Vec::new();
        if record.asked_pending {
            let lack = self.accepted().filter(|(_, other)| !other.asked_pending);
            waits.push(wait_for(AwaitedCall::ArePeersPending, lack));
        }
        waits.extend(self.major_wait(record));
        let group = self.groups.get(&record.group);
        let collectives = group
            .into_iter()
            .flat_map(|g| self.collective_waits(peer, g));
        waits.extend(collectives.take(WAITS_MAX));
        waits.retain(|wait| !wait.peers.is_empty());
        waits.truncate(WAITS_MAX);
        Awaited { waits }
    }

    fn major_wait(&self, record: &PeerRecord) -> Option<Wait> {
        let state = record.state;
        let others = || {
            self.accepted()
                .filter(move |(_, other)| other.state != state)
        };
        match state {
            ConnectionState::Idle if !record.is_accepted() => Some(self.admission()),
            ConnectionState::VoteAcceptNewPeers => {
                let lack = self.accepted().filter(|(_, other)| lacks_update(other));
                Some(wait_for(AwaitedCall::UpdateTopology, lack))
            }
            ConnectionState::VoteOptimizeTopology => {
                Some(wait_for(AwaitedCall::OptimizeTopology, others()))
            }
            ConnectionState::VoteSyncSharedState => {
                let lack = others().filter(|(_, other)| other.group == record.group);
                Some(wait_for(AwaitedCall::SyncSharedState, lack))
            }
            // Collectives have waits of their own; all else has begun, or waits for nothing.
            ConnectionState::Idle
            | ConnectionState::VoteNoNewPeersEstablishP2p
            | ConnectionState::ConnectingToPeers
            | ConnectionState::ConnectingToPeersFailed
            | ConnectionState::WaitingForOtherPeers
            | ConnectionState::OptimizeTopology
            | ConnectionState::OptimizeTopologyFailed
            | ConnectionState::VoteCompleteTopologyOptimization
            | ConnectionState::DistributeSharedState
            | ConnectionState::RequestSharedState
            | ConnectionState::VoteCompleteSharedStateSync
            | ConnectionState::CollectiveCommunicationsRunning => None,
        }
    }

    /// The wait of a newcomer. If all members agree to an update and none has called it, the call of any of them is
    /// enough.
    fn admission(&self) -> Wait {
        let lack = self.accepted().filter(|(_, member)| lacks_update(member));
        let wait = wait_for(AwaitedCall::Connect, lack);
        match wait.peers.is_empty() {
            true => wait_for(AwaitedCall::Connect, self.accepted()),
            false => wait,
        }
    }

    fn collective_waits<'a>(
        &'a self,
        peer: PeerId,
        group: &'a GroupRecord,
    ) -> impl Iterator<Item = Wait> + 'a {
        group
            .collectives
            .iter()
            .filter_map(move |(tag, collective)| {
                let votes = match collective {
                    Collective::Initiating(votes) => votes,
                    Collective::Running { .. } => return None,
                };
                let kind = votes.get(&peer)?.kind;
                let call = AwaitedCall::Collective { tag: *tag, kind };
                let members = group.members.iter();
                let lack = members.filter(|member| !votes.contains_key(*member));
                let lack = lack.filter_map(|member| Some((*member, self.peers.get(member)?)));
                Some(wait_for(call, lack))
            })
    }
}

/// Whether the admission of newcomers waits for this member.
fn lacks_update(member: &PeerRecord) -> bool {
    member.state != ConnectionState::VoteAcceptNewPeers && !member.agrees_to_update()
}

fn wait_for<'a>(call: AwaitedCall, lack: impl Iterator<Item = (PeerId, &'a PeerRecord)>) -> Wait {
    let mut lack = lack.map(|(peer, record)| NamedPeer {
        peer,
        name: record.name.clone(),
    });
    let peers = lack.by_ref().take(WAITED_FOR_MAX).collect();
    let others = u32::try_from(lack.count()).unwrap_or(u32::MAX);
    Wait {
        call,
        peers,
        others,
    }
}
