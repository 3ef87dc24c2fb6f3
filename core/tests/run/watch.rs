//! What must always hold, checked at every step of every run.

use std::collections::{BTreeMap, BTreeSet};

use pccl_core::id::{ContentHash, Epoch, GroupId, PeerId, Revision, Round, Seq, Tag};
use pccl_core::master::{Master, MasterOutput};
use pccl_core::messages::{CallKind, Misdeed, RingOutcome, ToMaster, ToPeer, Verdict};
use pccl_core::peer::{Answer, CallError};
use pccl_core::shared_state::SyncRole;
use pccl_core::states::{ConnectionPhase, ConnectionState, Event};
use pccl_core::topology::{Ring, Topology};

use crate::harness::{Holds, Seat, SeatNo, Wire};

/// The memory of a bystander who sees everything.
#[derive(Clone, Default)]
pub(crate) struct Watch {
    verdicts: BTreeMap<Seq, Verdict>,
    /// Who has told the master that its ring is whole.
    done: BTreeSet<(Seq, PeerId)>,
    rings: BTreeMap<(Epoch, GroupId), Ring>,
    running: BTreeMap<Seq, Ring>,
    contents: BTreeMap<Round, (Revision, Vec<ContentHash>)>,
    /// Groups that may go back to an older revision, as everybody allowed a restart.
    pub(crate) restarts: bool,
    /// Transitions that were taken.
    pub(crate) taken: BTreeSet<(ConnectionState, Event)>,
    /// Peers may be told that the master misbehaves: somebody plays a trick on them.
    pub(crate) tricks: bool,
    pub(crate) commits: u32,
    pub(crate) aborts: u32,
}

/// What may not overlap within a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Activity {
    Wiring,
    Optimizing,
    Moving,
    Collectives,
}

fn activity(state: ConnectionState) -> Option<Activity> {
    match state {
        ConnectionState::ConnectingToPeers
        | ConnectionState::ConnectingToPeersFailed
        | ConnectionState::WaitingForOtherPeers => Some(Activity::Wiring),
        ConnectionState::OptimizeTopology
        | ConnectionState::OptimizeTopologyFailed
        | ConnectionState::VoteCompleteTopologyOptimization => Some(Activity::Optimizing),
        ConnectionState::DistributeSharedState
        | ConnectionState::RequestSharedState
        | ConnectionState::VoteCompleteSharedStateSync => Some(Activity::Moving),
        ConnectionState::Idle
        | ConnectionState::VoteAcceptNewPeers
        | ConnectionState::VoteNoNewPeersEstablishP2p
        | ConnectionState::VoteOptimizeTopology
        | ConnectionState::VoteSyncSharedState
        | ConnectionState::CollectiveCommunicationsRunning => None,
    }
}

impl Watch {
    pub(crate) fn master_hears(&mut self, peer: PeerId, message: &ToMaster) {
        if let ToMaster::CompleteCollective {
            seq,
            outcome: RingOutcome::Done,
            ..
        } = message
        {
            self.done.insert((*seq, peer));
        }
    }

    pub(crate) fn master_moved(
        &mut self,
        before: &Master,
        after: &Master,
        seats: &[Seat],
        out: &[MasterOutput],
    ) {
        for output in out {
            self.look_at(output, after);
        }
        check_votes(before, seats, out);
        check_exclusivity(after);
        self.check_revisions(before, after);
    }

    fn look_at(&mut self, output: &MasterOutput, master: &Master) {
        match output {
            MasterOutput::Inconsistent { peer, state, event } => {
                panic!("the master contradicts itself: {peer} {state:?} {event:?}");
            }
            MasterOutput::Moved { event, from, .. } => {
                self.taken.insert((*from, *event));
            }
            MasterOutput::Send {
                message: ToPeer::Kicked(misdeed),
                ..
            } => {
                check_kick(misdeed);
            }
            MasterOutput::Send {
                peer,
                message: ToPeer::TopologyEstablished { topology, .. },
            } => {
                let group = master.view().peer(*peer).expect("it is connected").group();
                self.check_topology(group, topology, master);
            }
            MasterOutput::Send {
                peer,
                message:
                    ToPeer::Verdict {
                        seq,
                        verdict: Verdict::Committed { epoch },
                        ..
                    },
            } => {
                let group = master.view().peer(*peer).expect("it is connected").group();
                let voted = |peer: &PeerId| self.done.contains(&(*seq, *peer));
                let contributors = &self.rings[&(*epoch, group)].0;
                assert!(contributors.iter().all(voted), "{seq} lacks a vote");
            }
            MasterOutput::Send { .. }
            | MasterOutput::Register { .. }
            | MasterOutput::Refuse { .. }
            | MasterOutput::Close { .. }
            | MasterOutput::StartTimer { .. }
            | MasterOutput::StopTimer(_)
            | MasterOutput::SolveTour { .. }
            | MasterOutput::Lost { .. }
            | MasterOutput::Stopped => {}
        }
    }

    /// One view: an epoch has one ring per group, and it is a permutation of the group.
    fn check_topology(&mut self, group: GroupId, topology: &Topology, master: &Master) {
        let known = self
            .rings
            .entry((topology.epoch, group))
            .or_insert(topology.ring.clone());
        assert_eq!(*known, topology.ring, "one ring per epoch");
        let mut members = topology.ring.0.clone();
        members.sort();
        let accepted: Vec<PeerId> = accepted(master, group).collect();
        assert_eq!(topology.world.group as usize, members.len());
        // A newcomer whose synchronization conflicts for the third time is set aside at once.
        let aside: Vec<PeerId> = set_aside(master).collect();
        members.retain(|peer| !aside.contains(peer));
        let world = master.view().world_sizes(group);
        let less = topology.world.global.saturating_sub(world.global) as usize;
        assert!(less <= aside.len() && (less > 0 || topology.world == world));
        assert_eq!(members, accepted, "the ring is a permutation of its group");
    }

    /// The revision grows by one or stays.
    fn check_revisions(&self, before: &Master, after: &Master) {
        for group in after.view().groups() {
            let (old, new) = (before.view().revision(group), after.view().revision(group));
            if let (Some(old), Some(new)) = (old, new) {
                let grows = new == old || new == old.next();
                assert!(grows || self.restarts, "{group}: {old} became {new}");
            } else {
                assert_eq!(old, None, "{group} forgot its revision");
            }
        }
    }

    /// All participants of an execution run it on the same ring.
    pub(crate) fn ring_runs(&mut self, seq: Seq, ring: &Ring) {
        let known = self.running.entry(seq).or_insert(ring.clone());
        assert_eq!(known, ring, "{seq} runs on one ring");
    }

    pub(crate) fn before_message(&mut self, no: SeatNo, seat: &Seat, message: &ToPeer) {
        match message {
            // Agreement.
            ToPeer::Verdict { seq, verdict, .. } => {
                let known = self.verdicts.entry(*seq).or_insert(verdict.clone());
                assert_eq!(known, verdict, "one verdict about {seq}");
            }
            ToPeer::SharedStatePlan(plan) if seat.is_in_the_run() => {
                let view = seat.peer.view();
                assert_eq!(
                    view.open_calls().major,
                    Some(CallKind::SyncSharedState),
                    "seat {no}"
                );
                if let SyncRole::Request { entries, .. } = &plan.role {
                    assert!(
                        entries.is_empty() || !seat.sends_only,
                        "send-only is overwritten"
                    );
                } else {
                    assert!(!seat.receives_only, "receive-only is chosen");
                }
            }
            _ => {}
        }
    }

    /// `is_answered`: its user waited for this. Who has given a synchronization up takes nothing from it.
    pub(crate) fn after_message(
        &mut self,
        no: SeatNo,
        seat: &Seat,
        message: &ToPeer,
        is_answered: bool,
    ) {
        if let ToPeer::SharedStateConcluded {
            round,
            result: Ok(revision),
        } = message
            && seat.is_in_the_run()
            && is_answered
        {
            let entries = seat.plane.memory.entries.iter();
            let compared = entries.filter(|entry| !entry.allow_content_inequality);
            let content: Vec<ContentHash> = compared.map(|entry| entry.hash).collect();
            let known = self
                .contents
                .entry(*round)
                .or_insert((*revision, content.clone()));
            assert_eq!(
                *known,
                (*revision, content),
                "seat {no} after the synchronization"
            );
        }
        let misbehaved = seat.peer.view().ended() == Some(&CallError::MasterMisbehaved);
        assert!(
            self.tricks || !misbehaved,
            "seat {no} could make nothing of {message:?}"
        );
    }

    /// Exactly-once and restoration.
    pub(crate) fn answered(&mut self, no: SeatNo, seat: &Seat, answer: &Answer) {
        let Answer::CollectiveEnded { tag, result } = answer else {
            return;
        };
        match result {
            Ok(committed) => {
                self.commits += 1;
                let mut contributors = committed.contributors.clone();
                contributors.sort();
                assert_eq!(
                    seat.plane.buffer(*tag),
                    Holds::Sum(contributors),
                    "seat {no} {tag}"
                );
            }
            Err(CallError::Usage(_)) => {}
            Err(_) => {
                self.aborts += 1;
                assert_eq!(seat.plane.buffer(*tag), Holds::Own, "seat {no} {tag}");
                assert_stopped(seat, *tag);
            }
        }
    }
}

/// What was answered as failed does not go on behind the user's back.
fn assert_stopped(seat: &Seat, tag: Tag) {
    assert!(
        !seat.plane.runs_tag(tag),
        "the ring of {tag} goes on after its answer"
    );
}

/// Newcomers that wait for the next update with their votes to synchronize.
fn set_aside(master: &Master) -> impl Iterator<Item = PeerId> {
    let peers = master.view().peers();
    let aside = peers.filter(|(_, peer)| {
        let votes = peer.state() == ConnectionState::VoteSyncSharedState;
        votes && peer.phase() == ConnectionPhase::Registered
    });
    aside.map(|(id, _)| id)
}

fn accepted(master: &Master, group: GroupId) -> impl Iterator<Item = PeerId> {
    master
        .view()
        .peers()
        .filter(move |(_, peer)| peer.group() == group && peer.phase() == ConnectionPhase::Accepted)
        .map(|(id, _)| id)
}

/// No ring is built under a peer that did not vote for it, so nobody is accepted without the vote of
/// everybody who is: who waits for others to make its call agrees, and so does who was admitted and has
/// voted for nothing since.
fn check_votes(before: &Master, seats: &[Seat], out: &[MasterOutput]) {
    for output in out {
        let MasterOutput::Moved {
            peer,
            event: Event::RingHandedOut,
            ..
        } = output
        else {
            continue;
        };
        let known = before.view().peer(*peer);
        let was_asked = known.is_some_and(|peer| peer.phase() == ConnectionPhase::Accepted);
        let seat = seats.iter().find(|seat| seat.id == Some(*peer));
        let Some(seat) = seat.filter(|seat| was_asked && seat.acts()) else {
            continue;
        };
        let view = seat.peer.view();
        let waits = view.open_calls().major.is_some() || view.tags().next().is_some();
        // A ring that was announced meanwhile has answered its first vote, which the master has yet to hear.
        let first_vote =
            |wire: &Wire<ToMaster>| matches!(wire, Wire::Message(ToMaster::UpdateTopology { .. }));
        let has_not_heard = view.topology().is_none();
        let may_rest = view.rests() || has_not_heard || seat.up.iter().any(first_vote);
        assert!(waits || may_rest, "{peer} had no vote");
    }
}

/// Per group, never two things at once that exclude each other.
fn check_exclusivity(master: &Master) {
    for group in master.view().groups() {
        let members = master.view().peers();
        let members = members
            .filter(|(_, peer)| peer.group() == group && peer.phase() == ConnectionPhase::Accepted);
        let mut active: BTreeSet<Activity> = members
            .filter_map(|(_, peer)| activity(peer.state()))
            .collect();
        if master.view().running(group).next().is_some() {
            active.insert(Activity::Collectives);
        }
        assert!(active.len() < 2, "{group} does {active:?} at once");
    }
}

/// All peers here keep to the protocol: they may be kicked for what befell them only.
fn check_kick(misdeed: &Misdeed) {
    match misdeed {
        Misdeed::StateMismatch { .. }
        | Misdeed::RevisionAhead { .. }
        | Misdeed::MissedBallot
        | Misdeed::Stalled
        | Misdeed::Cancels
        | Misdeed::Unconnectable { .. }
        | Misdeed::Unfetchable
        | Misdeed::TooManyTags { .. }
        | Misdeed::BadManifest
        | Misdeed::Silent => {}
        Misdeed::WrongState { .. }
        | Misdeed::NotAccepted
        | Misdeed::SecondHello
        | Misdeed::DuplicateVote
        | Misdeed::DuplicateTag { .. }
        | Misdeed::UnknownRound
        | Misdeed::UnaskedProbe
        | Misdeed::Malformed
        | Misdeed::SlowReader => panic!("an honest peer was kicked: {misdeed}"),
    }
}
