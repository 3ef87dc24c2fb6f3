//! Ballots about the ring: who wants newcomers admitted, whose ring must be rebuilt, who asks
//! whether anybody waits.
//!
//! **Admission** concerns all accepted peers of all groups: when each of them has voted, every
//! registered peer comes in. With no accepted peer at all, registered peers come in at once.
//!
//! **Rewiring** concerns one group. A peer that initiates a collective on a stale ring (a member is
//! gone, or an edge has lost a lane) thereby votes to have the ring rebuilt without newcomers; when
//! all accepted peers of the group have, it is. Their collectives then start by themselves.
//!
//! **Mixed votes:** where one member of a group waits in `update_topology` while another's collective
//! waits for a new ring, the collective gives way (`precedence`): its caller is told to update the
//! topology too, and then the ballot is unanimous. Nobody waits for a vote that cannot come.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::record::Stake;
use super::{Master, Out, Scope, send};
use crate::id::{GroupId, PeerId};
use crate::messages::{Misdeed, ToPeer};
use crate::states::{ConnectionPhase, ConnectionState, Event};
use crate::topology::BrokenEdges;

impl Master {
    pub(super) fn vote_to_update(&mut self, peer: PeerId, broken: BrokenEdges, out: &mut Out) {
        if !self.step_or_kick(peer, Event::VotedToUpdate, out) {
            return;
        }
        if let Some(record) = self.peers.get_mut(&peer) {
            record.stake = Stake::Update;
        }
        if let Some(group) = self.group_of(peer) {
            group.note_broken(peer, broken);
        }
    }

    pub(super) fn ask_pending(&mut self, peer: PeerId, out: &mut Out) {
        let Some(record) = self.peers.get_mut(&peer) else {
            return;
        };
        if record.asked_pending {
            self.kick(peer, Misdeed::DuplicateVote, out);
        } else {
            record.asked_pending = true;
        }
    }

    /// Is the group's ring not the one that its collectives can run on?
    pub(super) fn is_stale(&self, group: GroupId) -> bool {
        let Some(record) = self.groups.get(&group) else {
            return true;
        };
        let on_ring: BTreeSet<PeerId> = record.ring.0.iter().copied().collect();
        let accepted: BTreeSet<PeerId> = self.accepted_in(group).map(|(peer, _)| peer).collect();
        rule!(on_ring != accepted; RingKeptAfterLoss => false)
            || rule!(!record.broken.is_empty(); BrokenEdgeForgotten => false)
    }

    /// With nobody to vote, whoever waits comes in. True: something moved.
    pub(super) fn admit_first(&mut self, out: &mut Out) -> bool {
        let a_ballot_decides = rule!(
            self.accepted().next().is_some();
            AcceptedWithoutBallot => self.peers.values().all(|record| record.is_accepted())
        );
        if a_ballot_decides || !self.wirings.is_empty() || self.peers.is_empty() {
            return false;
        }
        let newcomers = match self.invited() {
            // All of the first attempt are gone.
            invited if invited.is_empty() => {
                self.admission_closed_at = None;
                self.invited()
            }
            invited => invited,
        };
        self.start_wiring(Scope::Everybody, &newcomers, None, out);
        true
    }

    /// The accepted peers, and the newcomers that were there at the first attempt to admit them.
    fn invited(&mut self) -> Vec<PeerId> {
        let closed_at = *self.admission_closed_at.get_or_insert(self.next_peer);
        let invited = self
            .peers
            .iter()
            .filter(|(peer, record)| record.is_accepted() || **peer < closed_at);
        invited.map(|(peer, _)| *peer).collect()
    }

    /// True: the ballot was unanimous and something moved.
    pub(super) fn count_update(&mut self, out: &mut Out) -> bool {
        let unanimous = rule!(
            self.unanimous(|record| record.state == ConnectionState::VoteAcceptNewPeers);
            AdmittedByOneVote => self.somebody_updates(),
            CollectiveCountsAsConsent => self.somebody_updates() && self.unanimous(|record| {
                record.state == ConnectionState::VoteAcceptNewPeers
                    || record.state == ConnectionState::CollectiveCommunicationsRunning
            })
        );
        if !unanimous {
            return false;
        }
        let everybody = self.invited();
        self.start_wiring(Scope::Everybody, &everybody, None, out);
        true
    }

    #[cfg(feature = "mutants")]
    fn somebody_updates(&self) -> bool {
        self.accepted()
            .any(|(_, record)| record.state == ConnectionState::VoteAcceptNewPeers)
    }

    /// Peers whose collectives all wait to start on a ring that is stale vote to rebuild it. True:
    /// something moved.
    pub(super) fn vote_to_rewire(&mut self, group: GroupId, out: &mut Out) -> bool {
        if !self.is_stale(group) {
            return false;
        }
        let voters: Vec<PeerId> = self
            .accepted_in(group)
            .filter(|(_, record)| {
                record.state == ConnectionState::CollectiveCommunicationsRunning
                    && rule!(record.only_initiates(); RewireUnderRunning => !record.tags.is_empty())
            })
            .map(|(peer, _)| peer)
            .collect();
        for peer in &voters {
            self.step(*peer, Event::RingFoundStale, out);
            if let Some(record) = self.peers.get_mut(peer) {
                record.stake = Stake::Rewire;
            }
        }
        !voters.is_empty()
    }

    /// True: the ballot was unanimous and something moved.
    pub(super) fn count_rewire(&mut self, group: GroupId, out: &mut Out) -> bool {
        let voters: Vec<PeerId> = self.accepted_in(group).map(|(peer, _)| peer).collect();
        let unanimous = !voters.is_empty()
            && self
                .accepted_in(group)
                .all(|(_, record)| record.state == ConnectionState::VoteNoNewPeersEstablishP2p);
        if unanimous {
            let members = rule!(voters; AdmittedByRewire => {
                let of_group = self.peers.iter().filter(|(_, record)| record.group == group);
                of_group.map(|(peer, _)| *peer).collect()
            });
            self.start_wiring(Scope::Group(group), &members, None, out);
        }
        unanimous
    }

    /// True: everybody asked, and everybody was answered.
    pub(super) fn count_pending(&mut self, out: &mut Out) -> bool {
        if !self.unanimous(|record| record.asked_pending) {
            return false;
        }
        let pending = self
            .peers
            .values()
            .any(|record| record.phase == ConnectionPhase::Registered);
        for (peer, record) in &mut self.peers {
            if record.asked_pending {
                record.asked_pending = false;
                rule!(
                    send(out, *peer, ToPeer::PeersPending { pending });
                    QueryAnsweredToIdleOnly if record.state != ConnectionState::Idle => {}
                );
            }
        }
        true
    }

    /// Tells a peer the ring that it is on.
    pub(super) fn announce_ring(&self, peer: PeerId, out: &mut Out) {
        let Some(record) = self.peers.get(&peer) else {
            return;
        };
        let Some(group) = self.groups.get(&record.group) else {
            return;
        };
        let topology = crate::topology::Topology {
            epoch: group.epoch,
            ring: rule!(
                group.ring.clone();
                RingStartsWithEach => group.ring.counted_from(peer),
                NewcomerGetsAnotherRing if record.stake == Stake::Admission
                    => group.ring.counted_from(peer)
            ),
            lanes: group.lanes,
            world: self.world_sizes(record.group),
        };
        send(out, peer, ToPeer::TopologyEstablished(topology));
    }
}
