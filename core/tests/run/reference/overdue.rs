//! What follows when somebody has been waited for too long.

use pccl_core::id::PeerId;
use pccl_core::master::{Ballot, MasterTimer};
use pccl_core::messages::{AbortCause, CollectiveRefusal, Misdeed, ToPeer};
use pccl_core::shared_state::SyncFailure;

use super::seen::Seen;
use super::{Group, Reference};

impl Reference {
    /// Who keeps others waiting goes, where it does nothing else meanwhile; else what they wait for is
    /// given up.
    pub(super) fn is_overdue(&mut self, timer: MasterTimer, seen: &Seen) {
        match timer {
            MasterTimer::HeartbeatDue => {
                let everybody: Vec<PeerId> = self.peers.keys().copied().collect();
                self.tell_all(everybody, &ToPeer::Heartbeat);
            }
            MasterTimer::Silence(peer) => self.is_kicked(peer, Misdeed::Silent),
            MasterTimer::Ballot(ballot) => self.ballot_is_overdue(ballot),
            MasterTimer::Wiring(round) => self.wiring_is_overdue(round, seen),
            MasterTimer::RetryWiring(round) => self.give_up(|wiring| wiring.round == round),
            MasterTimer::Optimization(_) => self.search_is_overdue(),
            MasterTimer::SharedState(round) => {
                let moves = |group: &Group| group.moving.as_ref().is_some_and(|m| m.round == round);
                let late = self.groups.iter().find(|(_, group)| moves(group));
                if let Some(group) = late.map(|(group, _)| *group) {
                    let late = self.groups.get_mut(&group).unwrap();
                    let moving = late.moving.as_ref().unwrap();
                    for (requester, holder) in &moving.sources {
                        if moving.lacking.contains(requester) {
                            late.mishaps.happens(*requester, *holder);
                        }
                    }
                    self.conclude_sync(group, Err(SyncFailure::TimedOut));
                }
            }
            MasterTimer::Collective(seq) => {
                let all = self.groups.iter().flat_map(|(group, record)| {
                    let tags = record.running.iter();
                    tags.map(|(tag, running)| (*group, *tag, running.seq))
                });
                if let Some((group, tag, _)) = all.clone().find(|(_, _, s)| *s == seq) {
                    self.abort(group, tag, AbortCause::TimedOut);
                }
            }
        }
    }

    fn ballot_is_overdue(&mut self, ballot: Ballot) {
        let is_late = |this: &Self, peer: PeerId| match ballot {
            Ballot::UpdateTopology | Ballot::OptimizeTopology => true,
            Ballot::PeersPending => !this.asking.contains(&peer),
            Ballot::Rewire(group) | Ballot::SyncSharedState(group) | Ballot::Initiate(group, _) => {
                this.peers[&peer].group == group
            }
        };
        for peer in self.accepted.clone() {
            if is_late(self, peer) && self.is_free(peer) {
                self.is_kicked(peer, Misdeed::MissedBallot);
            }
        }
        if let Ballot::Initiate(group, tag) = ballot {
            let mut elsewhere = self.members(group);
            elsewhere.retain(|peer| {
                let tags = self.tags_of(*peer);
                !tags.contains_key(&tag) && self.only_waits_to_start(*peer)
            });
            if !elsewhere.is_empty() {
                let peers = elsewhere.into_iter().collect();
                self.refuse(group, tag, &CollectiveRefusal::NotJoined { peers });
            }
        }
    }
}
