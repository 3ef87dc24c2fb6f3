//! Ballots about the ring: admission, rewiring, and whether newcomers wait.
//!
//! **Admission** concerns all accepted peers of all groups: when each of them has voted or agrees, and one has voted,
//! all registered peers are admitted. Without accepted peers, registered peers are admitted at once. A peer agrees if
//! it waits in another call for others to make it, because none of that call has begun: it continues to wait, on the
//! new ring. A peer that was admitted and has made no call since agrees as well: a newcomer that still loads its data
//! does not delay the others.
//!
//! **Rewiring** concerns one group. A peer that starts a collective on a stale ring (a member has left, or an edge
//! has lost a lane) thereby votes to rebuild the ring without newcomers. When all accepted peers of the group have
//! voted, it is rebuilt. Their collectives then start by themselves.
//!
//! Neither disturbs a ring in use: a peer in a running collective has not voted, and does not agree.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::record::Stake;
use super::{Master, Out, Scope, send};
use crate::id::{Epoch, GroupId, PeerId};
use crate::messages::{Misdeed, ToPeer};
use crate::name::PeerName;
use crate::states::{ConnectionState, Event};
use crate::topology::{BrokenLinks, Ring, Topology, WorldSizes};

impl Master {
    pub(super) fn vote_to_update(
        &mut self,
        peer: PeerId,
        epoch: Epoch,
        broken: &BrokenLinks,
        out: &mut Out,
    ) {
        // It rested when it was given another ring, and takes that for the answer.
        let present = self.group_of(peer).map(|group| group.epoch);
        let is_answered = present.is_some_and(|present| epoch < present);
        if rule!(is_answered; VoteOnAnOlderRingCounts => false) {
            if let Some(record) = self.record_mut(peer) {
                record.rests = false;
            }
            return;
        }
        let voted = self.vote_to_begin(peer, Event::VotedToUpdate, Stake::Update, out);
        if let Some(group) = voted.and_then(|group| self.group_mut(group)) {
            group.note_broken(peer, broken);
        }
    }

    /// A vote may arrive while the peer's ring is being connected, if the peer waited for nothing. It then stands
    /// when the ring is established. Returns the group of the ballot, if the vote may begin.
    pub(super) fn vote_to_begin(
        &mut self,
        peer: PeerId,
        event: Event,
        stake: Stake,
        out: &mut Out,
    ) -> Option<GroupId> {
        let record = self.peers.get(&peer)?;
        let (state, is_wired) = (record.state, record.round.is_some());
        if is_wired && record.stake != Stake::Admission {
            self.kick(peer, Misdeed::WrongState { state, event }, out);
            return None;
        }
        if !self.step_or_kick(peer, event, out) {
            return None;
        }
        let record = self.record_mut(peer)?;
        record.rests = false;
        record.passed = 0;
        if is_wired {
            record.stake = stake;
        }
        Some(record.group)
    }

    pub(super) fn ask_pending(&mut self, peer: PeerId, out: &mut Out) {
        let Some(record) = self.record_mut(peer) else {
            return;
        };
        if record.asked_pending {
            self.kick(peer, Misdeed::DuplicateVote, out);
        } else {
            record.asked_pending = true;
        }
    }

    /// Whether the group's ring is not one on which its collectives can run. All members are on it, so if it is
    /// longer than the group, it has departed peers.
    pub(super) fn is_stale(&self, group: GroupId) -> bool {
        let Some(record) = self.groups.get(&group) else {
            return true;
        };
        rule!(record.ring.world_size() != record.members.len(); RingKeptAfterLoss => false)
            || rule!(!record.broken.is_empty(); BrokenEdgeForgotten => false)
    }

    /// If there is no accepted peer to vote, admits all that wait. `true` if something changed.
    pub(super) fn admit_first(&mut self, out: &mut Out) -> bool {
        let a_ballot_decides = rule!(
            self.tally.members() > 0;
            AcceptedWithoutBallot => self.peers.values().all(|record| record.is_accepted())
        );
        if a_ballot_decides || !self.wirings.is_empty() || self.peers.is_empty() {
            return false;
        }
        let newcomers = match self.invited() {
            // All of the first attempt are gone.
            invited if invited.is_empty() => {
                while self.peers.values().all(|record| record.left_out > 0) {
                    self.end_admission();
                }
                self.admission_closed_at = None;
                self.invited()
            }
            invited => invited,
        };
        self.start_wiring(Scope::Everybody, &newcomers, None, out);
        true
    }

    /// Peers that were left out of this admission may be admitted with one of the next.
    pub(super) fn end_admission(&mut self) {
        self.admission_closed_at = None;
        for record in self.peers.values_mut() {
            record.left_out = record.left_out.saturating_sub(1);
        }
    }

    /// The accepted peers, and the newcomers that were registered at the first attempt to admit them and were not
    /// left out since.
    fn invited(&mut self) -> Vec<PeerId> {
        let closed_at = *self.admission_closed_at.get_or_insert(self.next_peer);
        let invited = self.peers.iter().filter(|(peer, record)| {
            record.is_accepted() || **peer < closed_at && record.left_out == 0
        });
        invited.map(|(peer, _)| *peer).collect()
    }

    /// `true` if the ballot was unanimous and something changed.
    pub(super) fn count_update(&mut self, out: &mut Out) -> bool {
        let calls = self.tally.of(ConnectionState::VoteAcceptNewPeers);
        let members = self.tally.members();
        let agreeing = self.tally.agreeing();
        let agreed = rule!(
            calls + agreeing == members;
            AdmittedByOneVote => true,
            NewcomerIsWaitedFor => calls + agreeing == self.peers.len()
        );
        let unanimous = calls > 0 && agreed;
        if !unanimous {
            return false;
        }
        let everybody = self.invited();
        self.start_wiring(Scope::Everybody, &everybody, None, out);
        true
    }

    /// Peers whose collectives all wait to start on a stale ring vote to rebuild it. `true` if something changed.
    pub(super) fn vote_to_rewire(&mut self, group: GroupId, out: &mut Out) -> bool {
        if !self.is_stale(group) {
            return false;
        }
        let voters: Vec<PeerId> = self
            .accepted_in(group)
            .filter(|(_, record)| {
                record.state == ConnectionState::CollectiveCommunicationsRunning
                    && rule!(
                        record.tags.only_initiate();
                        RewireUnderRunning => !record.tags.is_empty()
                    )
            })
            .map(|(peer, _)| peer)
            .collect();
        for peer in &voters {
            self.step(*peer, Event::RingFoundStale, out);
        }
        !voters.is_empty()
    }

    /// `true` if the ballot was unanimous and something changed.
    pub(super) fn count_rewire(&mut self, group: GroupId, out: &mut Out) -> bool {
        let wanted = ConnectionState::VoteNoNewPeersEstablishP2p;
        let record = self.groups.get(&group);
        let Some(voters) = record.and_then(|record| record.unanimous(wanted)) else {
            return false;
        };
        let members = rule!(voters; AdmittedByRewire => {
            let of_group = self.peers.iter().filter(|(_, record)| record.group == group);
            of_group.map(|(peer, _)| *peer).collect()
        });
        self.start_wiring(Scope::Group(group), &members, None, out);
        true
    }

    /// `true` if all peers asked and were answered.
    pub(super) fn count_pending(&mut self, out: &mut Out) -> bool {
        let members = rule!(self.tally.members(); NewcomerIsWaitedFor => self.peers.len());
        if members == 0 || self.tally.asking() < members {
            return false;
        }
        let pending = self.peers.len() > self.tally.members();
        let asking = self.accepted().filter(|(_, record)| record.asked_pending);
        let asking: Vec<(PeerId, ConnectionState)> =
            asking.map(|(peer, record)| (peer, record.state)).collect();
        for (peer, state) in asking {
            let told = rule!(pending; PendingOfOwnGroupOnly => self.is_pending_beside(peer));
            self.answer_query(peer, told, state, out);
        }
        true
    }

    #[cfg(feature = "mutants")]
    fn is_pending_beside(&self, peer: PeerId) -> bool {
        let own = self.peers.get(&peer).map(|record| record.group);
        self.peers
            .values()
            .any(|one| !one.is_accepted() && Some(one.group) == own)
    }

    pub(super) fn answer_query(
        &mut self,
        peer: PeerId,
        pending: bool,
        state: ConnectionState,
        out: &mut Out,
    ) {
        if let Some(record) = self.record_mut(peer) {
            record.asked_pending = false;
        }
        rule!(
            send(out, peer, ToPeer::PeersPending { pending });
            QueryAnsweredToIdleOnly if state != ConnectionState::Idle => {}
        );
        let _ = state;
    }

    /// Announces rings to their members. `before`: the epoch before. If it is the current one, nothing has changed,
    /// and only the peers that asked are told.
    pub(super) fn announce_rings(
        &mut self,
        members: &[(PeerId, Stake)],
        before: Epoch,
        out: &mut Out,
    ) {
        self.recount();
        let is_news = self.epoch != before;
        let mut topologies: BTreeMap<GroupId, Topology> = BTreeMap::new();
        for (peer, stake) in members {
            if !is_news && *stake != Stake::Update {
                continue;
            }
            let Some(record) = self.peers.get(peer) else {
                continue;
            };
            let Some(group) = self.groups.get(&record.group) else {
                continue;
            };
            let topology = topologies.entry(record.group).or_insert_with(|| Topology {
                epoch: group.epoch,
                ring: group.ring.clone(),
                sites: self.sites_of(group),
                lanes: group.lanes(),
                within_machine: self.is_within_machine(group),
                world: self.world_sizes(record.group),
                names: self.names_on(&group.ring),
            });
            let ring = rule!(
                topology.ring.clone();
                RingStartsWithEach => group.ring.counted_from(*peer),
                NewcomerGetsAnotherRing if *stake == Stake::Admission
                    => group.ring.counted_from(*peer)
            );
            let _ = stake;
            let topology = Topology {
                ring,
                ..topology.clone()
            };
            let layout = group.layout_of(*peer);
            send(out, *peer, ToPeer::TopologyEstablished { topology, layout });
        }
    }

    /// The name of each rank. Empty if nobody has one.
    fn names_on(&self, ring: &Ring) -> Vec<PeerName> {
        let name = |peer: &PeerId| self.peers.get(peer).map(|record| record.name.clone());
        let names: Vec<PeerName> = ring
            .0
            .iter()
            .map(|peer| name(peer).unwrap_or_default())
            .collect();
        let is_named = names.iter().any(|name| *name != PeerName::NONE);
        if is_named { names } else { Vec::new() }
    }

    pub(super) fn world_sizes(&self, own: GroupId) -> WorldSizes {
        let sizes = self.groups.values().map(|group| group.members.len());
        let sizes = sizes.filter(|size| *size > 0);
        let number = |size: usize| u32::try_from(size).unwrap_or(u32::MAX);
        WorldSizes {
            global: number(sizes.clone().sum()),
            group: rule!(
                number(self.groups.get(&own).map_or(0, |group| group.members.len()));
                WorldCountsRegistered => {
                    let of_group = self.peers.values().filter(|record| record.group == own);
                    number(of_group.count())
                }
            ),
            groups: number(sizes.clone().count()),
            largest_group: number(rule!(
                sizes.max().unwrap_or(0);
                LargestGroupIsOwn => self.groups.get(&own).map_or(0, |group| group.members.len())
            )),
        }
    }
}
