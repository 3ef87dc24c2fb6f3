//! Collectives: starting, committing, aborting.
//!
//! Per tag: the members vote to start with what they want computed; when all have, and want the same,
//! the collective gets its number and runs. It is decided at one point: committed when the last
//! participant's vote on the outcome arrives, aborted as soon as one reports a failure or is lost
//! before it has voted. A vote that was cast stands when its caster dies: its part of the ring was
//! done, so the others can complete. The verdict is the same for every participant.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::record::Collective;
use super::{Master, Out, send};
use crate::element::CollectiveSpec;
use crate::id::{GroupId, PeerId, Seq, Tag};
use crate::messages::{AbortCause, CollectiveRefusal, Misdeed, RingOutcome, ToPeer, Verdict};
use crate::states::{
    CollectiveCommunicationState, CollectiveEvent, ConnectionState, Event, next_collective_state,
};
use crate::topology::BrokenEdges;

impl Master {
    pub(super) fn vote_to_initiate(
        &mut self,
        peer: PeerId,
        tag: Tag,
        spec: CollectiveSpec,
        broken: BrokenEdges,
        out: &mut Out,
    ) {
        let Some(record) = self.peers.get(&peer) else {
            return;
        };
        let tags_max = self.config.tags_max;
        if record.tags.contains_key(&tag) {
            self.kick(peer, Misdeed::DuplicateTag { tag }, out);
            return;
        }
        if record.tags.len() >= tags_max as usize {
            self.kick(peer, Misdeed::TooManyTags { tags_max }, out);
            return;
        }
        // A ring is connected for peers in update_topology too; those cannot start a collective.
        if record.tags.is_empty() && record.round.is_some() {
            let (state, event) = (record.state, Event::CollectiveInitiated);
            self.kick(peer, Misdeed::WrongState { state, event }, out);
            return;
        }
        if !self.step_or_kick(peer, Event::CollectiveInitiated, out) {
            return;
        }
        self.step_tag(peer, tag, CollectiveEvent::Initiated);
        if let Some(group) = self.group_of(peer) {
            group.note_broken(peer, broken);
            match group
                .collectives
                .entry(tag)
                .or_insert_with(|| Collective::Initiating(BTreeMap::new()))
            {
                Collective::Initiating(votes) => {
                    votes.insert(peer, spec);
                }
                // Its participants are all members, and this member's own tag was free.
                Collective::Running { .. } => {}
            }
        }
    }

    /// True: a collective of the group started or was refused.
    pub(super) fn count_initiate(&mut self, group: GroupId, out: &mut Out) -> bool {
        if self.is_stale(group) {
            return false;
        }
        let voters: BTreeSet<PeerId> = self
            .accepted_in(group)
            .filter(|(_, p)| p.state == ConnectionState::CollectiveCommunicationsRunning)
            .map(|(peer, _)| peer)
            .collect();
        if voters.len() != self.accepted_in(group).count() {
            return false;
        }
        let Some(record) = self.groups.get(&group) else {
            return false;
        };
        let ready = record
            .collectives
            .iter()
            .find_map(|(tag, collective)| match collective {
                Collective::Initiating(votes)
                    if rule!(votes.keys().eq(voters.iter()); StartBeforeLastVote => !votes.is_empty()) =>
                {
                    Some((*tag, votes.clone()))
                }
                Collective::Initiating(_) | Collective::Running { .. } => None,
            });
        let Some((tag, votes)) = ready else {
            return false;
        };
        match disagreement(&votes) {
            Some(reason) => self.refuse_tag(group, tag, &reason, out),
            None => self.commence(group, tag, out),
        }
        true
    }

    fn commence(&mut self, group: GroupId, tag: Tag, out: &mut Out) {
        let seq = self.next_seq;
        self.next_seq = seq.next();
        let Some(record) = self.groups.get_mut(&group) else {
            return;
        };
        let contributors = record.ring.0.clone();
        let awaiting = contributors.iter().copied().collect();
        let running = Collective::Running {
            seq,
            contributors: contributors.clone(),
            awaiting,
        };
        record.collectives.insert(tag, running);
        for peer in contributors {
            self.step_tag(peer, tag, CollectiveEvent::Commenced);
            send(out, peer, ToPeer::Commence { tag, seq });
        }
    }

    /// Answers every vote to start the tag with a refusal.
    pub(super) fn refuse_tag(
        &mut self,
        group: GroupId,
        tag: Tag,
        reason: &CollectiveRefusal,
        out: &mut Out,
    ) {
        let Some(record) = self.groups.get_mut(&group) else {
            return;
        };
        let Some(Collective::Initiating(votes)) = record.collectives.get(&tag) else {
            return;
        };
        let voters: Vec<PeerId> = votes.keys().copied().collect();
        record.collectives.remove(&tag);
        for peer in voters {
            let reason = reason.clone();
            send(out, peer, ToPeer::CollectiveRefused { tag, reason });
            self.end_tag(peer, tag, CollectiveEvent::Refused, out);
        }
    }

    pub(super) fn vote_to_complete(
        &mut self,
        peer: PeerId,
        seq: Seq,
        outcome: RingOutcome,
        broken: BrokenEdges,
        out: &mut Out,
    ) {
        if seq >= self.next_seq {
            self.kick(peer, Misdeed::UnknownRound, out);
            return;
        }
        let Some(group) = self.group_of(peer) else {
            return;
        };
        group.note_broken(peer, broken);
        let running = group
            .collectives
            .iter_mut()
            .find_map(|(tag, collective)| match collective {
                Collective::Running {
                    seq: s, awaiting, ..
                } if rule!(*s == seq; VoteOfAnotherSeq => *s >= seq) => Some((*tag, awaiting)),
                Collective::Running { .. } | Collective::Initiating(_) => None,
            });
        // Not running: it was decided while this vote was on its way.
        let Some((tag, awaiting)) = running else {
            return;
        };
        if !awaiting.remove(&peer) {
            self.kick(peer, Misdeed::DuplicateVote, out);
            return;
        }
        self.step_tag(peer, tag, CollectiveEvent::Completed);
        let Some(group) = self.peers.get(&peer).map(|record| record.group) else {
            return;
        };
        match outcome {
            RingOutcome::Done => {}
            RingOutcome::LaneLost => {
                let cause = AbortCause::LaneLost(peer);
                rule!(self.abort(group, tag, cause, out); LaneLossTakenForDone => {});
            }
            RingOutcome::Cancelled => self.abort(group, tag, AbortCause::Cancelled(peer), out),
        }
    }

    /// True: the last vote on an outcome was there, and the collective is committed.
    pub(super) fn count_complete(&mut self, group: GroupId, out: &mut Out) -> bool {
        let Some(record) = self.groups.get(&group) else {
            return false;
        };
        let complete = record
            .collectives
            .iter()
            .find_map(|(tag, collective)| match collective {
                Collective::Running {
                    contributors,
                    awaiting,
                    ..
                } if rule!(awaiting.is_empty(); CommitBeforeLastVote => awaiting.len() <= 1) => {
                    Some((*tag, contributors.clone()))
                }
                Collective::Running { .. } | Collective::Initiating(_) => None,
            });
        let Some((tag, contributors)) = complete else {
            return false;
        };
        self.decide(group, tag, &Verdict::Committed { contributors }, out);
        true
    }

    pub(super) fn abort(&mut self, group: GroupId, tag: Tag, cause: AbortCause, out: &mut Out) {
        self.decide(group, tag, &Verdict::Aborted(cause), out);
    }

    /// The one place where a collective ends: the same verdict to every participant that is left.
    fn decide(&mut self, group: GroupId, tag: Tag, verdict: &Verdict, out: &mut Out) {
        let Some(record) = self.groups.get_mut(&group) else {
            return;
        };
        let Some(Collective::Running {
            seq, contributors, ..
        }) = record.collectives.remove(&tag)
        else {
            return;
        };
        for peer in contributors.iter().copied() {
            let is_left = self.peers.contains_key(&peer);
            if !rule!(is_left; AbortToldToVotersOnly => self.has_voted(peer, tag)) {
                continue;
            }
            let verdict = rule!(
                verdict.clone();
                VerdictPerPeer if self.has_voted(peer, tag) => Verdict::Committed {
                    contributors: contributors.clone(),
                }
            );
            send(out, peer, ToPeer::Verdict { tag, seq, verdict });
            self.end_tag(peer, tag, CollectiveEvent::Decided, out);
        }
    }

    #[cfg(feature = "mutants")]
    fn has_voted(&self, peer: PeerId, tag: Tag) -> bool {
        let state = self.peers.get(&peer).and_then(|peer| peer.tags.get(&tag));
        state == Some(&CollectiveCommunicationState::VoteComplete)
    }

    /// The collective of this number has taken too long.
    pub(super) fn collective_overdue(&mut self, seq: Seq, out: &mut Out) {
        let overdue = self.groups.iter().find_map(|(group, record)| {
            record
                .collectives
                .iter()
                .find_map(|(tag, collective)| match collective {
                    Collective::Running { seq: s, .. } if *s == seq => Some((*group, *tag)),
                    Collective::Running { .. } | Collective::Initiating(_) => None,
                })
        });
        if let Some((group, tag)) = overdue {
            self.abort(group, tag, AbortCause::TimedOut, out);
        }
    }

    pub(super) fn collectives_lose(&mut self, group: GroupId, peer: PeerId, out: &mut Out) {
        let Some(record) = self.groups.get_mut(&group) else {
            return;
        };
        let mut aborted = Vec::new();
        record
            .collectives
            .retain(|tag, collective| match collective {
                Collective::Initiating(votes) => {
                    rule!(votes.remove(&peer); DeadVoteToStartStays => None);
                    !votes.is_empty()
                }
                Collective::Running { awaiting, .. } => {
                    let its_vote_is_lacking = rule!(
                        awaiting.contains(&peer);
                        StandingVoteWithdrawn => true,
                        DeathMidReduceMissed => false,
                        DeathCountsAsVote => {
                            awaiting.remove(&peer);
                            false
                        }
                    );
                    if its_vote_is_lacking {
                        aborted.push(*tag);
                    }
                    true
                }
            });
        for tag in aborted {
            self.abort(group, tag, AbortCause::PeerLost(peer), out);
        }
    }

    /// The ring stands for a peer whose collectives waited for it.
    pub(super) fn collectives_go_on(&mut self, peer: PeerId, out: &mut Out) {
        let waits = self
            .peers
            .get(&peer)
            .is_some_and(|record| !record.tags.is_empty());
        let event = if waits {
            Event::RingStandsForCollectives
        } else {
            Event::RingStands
        };
        self.step(peer, event, out);
    }

    fn end_tag(&mut self, peer: PeerId, tag: Tag, event: CollectiveEvent, out: &mut Out) {
        self.step_tag(peer, tag, event);
        self.idle_if_done(peer, out);
    }

    /// A peer without collectives is idle, unless a ring is being connected: then it learns that
    /// when the ring stands.
    pub(super) fn idle_if_done(&mut self, peer: PeerId, out: &mut Out) {
        let done = self.peers.get(&peer).is_some_and(|record| {
            record.tags.is_empty()
                && matches!(
                    record.state,
                    ConnectionState::CollectiveCommunicationsRunning
                        | ConnectionState::VoteNoNewPeersEstablishP2p
                )
        });
        if done {
            self.step(peer, Event::CollectivesEnded, out);
        }
    }

    /// Moves a tag along its table; what the table lacks leaves it as it is.
    fn step_tag(&mut self, peer: PeerId, tag: Tag, event: CollectiveEvent) {
        let Some(record) = self.peers.get_mut(&peer) else {
            return;
        };
        let from: Option<CollectiveCommunicationState> = record.tags.get(&tag).copied();
        match next_collective_state(from, event) {
            Some(Some(to)) => {
                record.tags.insert(tag, to);
            }
            Some(None) => {
                record.tags.remove(&tag);
            }
            None => {}
        }
    }
}

/// Where the votes differ: the first field, and the peers that differ in it from the first voter.
fn disagreement(votes: &BTreeMap<PeerId, CollectiveSpec>) -> Option<CollectiveRefusal> {
    let (first, wanted) = votes.iter().next()?;
    let field = votes
        .values()
        .filter_map(|spec| wanted.difference(spec))
        .min()?;
    let mut peers = alloc::vec![*first];
    let differs = |spec: &CollectiveSpec| wanted.differs_in(spec, field);
    peers.extend(
        votes
            .iter()
            .filter(|(_, spec)| differs(spec))
            .map(|(peer, _)| *peer),
    );
    Some(CollectiveRefusal::Disagreement { field, peers })
}
