//! What calls are open, what may still come out, and what a walk came by.

use std::collections::{BTreeMap, BTreeSet};

use pccl_core::id::{CallId, PeerId, Seq};
use pccl_core::messages::{CallKind, ToMaster, ToPeer};
use pccl_core::peer::{
    AdoptedLanes, Answer, CallError, Kind, Peer, PeerInput, PeerOutput, PeerPhase,
};
use pccl_core::topology::{BrokenLinks, LinkId, Ring, Way};

use crate::desk::{ME, spec};

/// What a walk came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Landmark {
    Admission,
    Commit,
    /// A link was built for this ring.
    Used,
    Kept,
    /// Lanes were up for this link, and those that stood are kept.
    KeptThoughUp,
    /// The link does not lead to a neighbour on the ring.
    UsedBeyondTheRing,
    KeptBeyondTheRing,
    /// A vote named a link that has lost a lane.
    Break,
    BreakBeyondTheRing,
    /// In which call another ring came; `None`: in none.
    RingIn(Option<CallKind>),
    LinkFailed,
    Withdrawal,
    GivenUp,
    /// A call had to wait.
    Waiting,
    /// A call is answered with one that was given up.
    Joined,
    /// A plan for a synchronization that was given up.
    PlanOfNobody,
    /// A vote to start that was withdrawn too late.
    StartedAndCancelled,
    Moved,
    BegunAhead,
    Confirmed,
    BegunInVain,
    /// An outcome is voted on before it commences.
    VotedAhead,
    /// A vote to start is withdrawn, and its caller waits.
    AskedBack,
    /// It commences all the same, and is committed.
    AskedBackTooLate,
}

/// Keeps the books: what is open, and what may still come out.
#[derive(Default)]
pub(super) struct Books {
    /// The calls that have to be answered.
    pub(super) open: BTreeMap<CallId, Kind>,
    pub(super) closed: bool,
    /// Executions that commenced and were not stopped.
    begun: Vec<Seq>,
    /// Calls that were asked back.
    asked_back: BTreeSet<CallId>,
    pub(super) landmarks: BTreeSet<Landmark>,
}

impl Books {
    pub(super) fn enter(
        &mut self,
        input: &PeerInput,
        before: &Peer,
        after: &Peer,
        out: &[PeerOutput],
    ) {
        let call = match input {
            PeerInput::Call { call, what } => {
                self.open.insert(*call, what.kind());
                Some(*call)
            }
            PeerInput::GiveUp { call } => {
                let was_open = self.open.remove(call).is_some();
                self.landmarks.extend(was_open.then_some(Landmark::GivenUp));
                None
            }
            PeerInput::Withdraw { call } => {
                let is_sent = !out.is_empty();
                self.asked_back.extend(is_sent.then_some(*call));
                self.landmarks
                    .extend(is_sent.then_some(Landmark::AskedBack));
                None
            }
            PeerInput::PlanEnded { .. } => {
                let runs = before.view().tags().any(|tag| tag.seq.is_some());
                let is_voted = sends_a_vote(out) && !runs;
                self.landmarks
                    .extend(is_voted.then_some(Landmark::VotedAhead));
                None
            }
            _ => None,
        };
        let view = after.view();
        let waits = call.is_some_and(|call| view.waiting().any(|waiting| waiting == call));
        self.landmarks.extend(waits.then_some(Landmark::Waiting));
        let joins = matches!(input, PeerInput::Call { .. }) && out.is_empty() && !waits;
        self.landmarks.extend(joins.then_some(Landmark::Joined));
        self.check_usage(before, after, out);
        if let PeerInput::Message(ToPeer::Commence { seq, .. }) = input
            && !out.contains(&PeerOutput::Close)
        {
            let is_known = self.closed || self.begun.contains(seq);
            self.begun.extend((!is_known).then_some(*seq));
        }
        for output in out {
            self.check_output(output, call);
            self.landmarks.extend(landmark(input, output));
            self.landmarks.extend(link_landmarks(after, output));
            if let PeerOutput::AdoptRing { .. } = output {
                self.landmarks.extend(ring_came(before));
            }
        }
    }

    /// A usage error comes alone and changes nothing.
    fn check_usage(&self, before: &Peer, after: &Peer, out: &[PeerOutput]) {
        let is_usage = |output: &PeerOutput| match output {
            PeerOutput::Answer { answer, .. } => {
                matches!(answer.error(), Some(CallError::Usage(_)))
            }
            _ => false,
        };
        if out.iter().any(is_usage) {
            assert_eq!(out.len(), 1);
            assert_eq!(before, after);
        }
    }

    fn check_output(&mut self, output: &PeerOutput, made: Option<CallId>) {
        if self.closed {
            let immediate = match output {
                PeerOutput::Answer { call, .. } => Some(*call) == made,
                _ => false,
            };
            assert!(immediate, "after the end: {output:?}");
        }
        match output {
            PeerOutput::Answer { call, answer } => {
                let is_committed = matches!(answer, Answer::CollectiveEnded { result: Ok(_), .. });
                let is_late = is_committed && self.asked_back.contains(call);
                self.landmarks
                    .extend(is_late.then_some(Landmark::AskedBackTooLate));
                let kind = self.open.remove(call);
                assert_eq!(kind, Some(answer.kind()), "{call:?}: {answer:?}");
            }
            PeerOutput::RunPlan {
                call,
                tag,
                spec: what,
                seq,
                ahead,
                ..
            } => {
                self.begun.extend(ahead.then_some(*seq));
                assert_eq!(*what, spec());
                assert_eq!(self.open.get(call), Some(&Kind::Collective(*tag)));
            }
            PeerOutput::MoveState { call, .. } => {
                assert_eq!(self.open.get(call), Some(&Kind::SyncSharedState));
            }
            PeerOutput::StopPlan { seq } => {
                let at = self.begun.iter().position(|begun| begun == seq);
                let at = at.unwrap_or_else(|| panic!("stopped twice, or never commenced: {seq:?}"));
                self.begun.remove(at);
            }
            PeerOutput::Close => self.closed = true,
            _ => {}
        }
    }
}

fn sends_a_vote(out: &[PeerOutput]) -> bool {
    let is_vote = |output: &PeerOutput| {
        matches!(
            output,
            PeerOutput::Send(ToMaster::CompleteCollective { .. })
        )
    };
    out.iter().any(is_vote)
}

/// What was begun ahead is stopped because something else commences, or nothing.
fn is_in_vain(input: &PeerInput, stopped: Seq) -> bool {
    match input {
        PeerInput::Message(ToPeer::Commence { seq, .. }) => *seq != stopped,
        PeerInput::Message(
            ToPeer::CollectiveRefused { .. } | ToPeer::TopologyEstablished { .. },
        ) => true,
        _ => false,
    }
}

/// What is to be seen in an output about an input.
fn landmark(input: &PeerInput, output: &PeerOutput) -> Option<Landmark> {
    let is_commencement = matches!(input, PeerInput::Message(ToPeer::Commence { .. }));
    let is_plan = matches!(input, PeerInput::Message(ToPeer::SharedStatePlan(_)));
    match output {
        PeerOutput::Answer { answer, .. } => match answer {
            Answer::Connected(Ok(_)) => Some(Landmark::Admission),
            Answer::CollectiveEnded { result: Ok(_), .. } => Some(Landmark::Commit),
            Answer::Connected(Err(_))
            | Answer::TopologyUpdated(_)
            | Answer::PeersPending(_)
            | Answer::TopologyOptimized(_)
            | Answer::Synchronized(_)
            | Answer::CollectiveEnded { result: Err(_), .. } => None,
        },
        PeerOutput::Send(ToMaster::SharedStateDone { .. }) if is_plan => {
            Some(Landmark::PlanOfNobody)
        }
        PeerOutput::AdoptRing { links, .. } => {
            let mut links = links.iter();
            let used = links.any(|link| link.lanes != AdoptedLanes::Keep);
            Some(if used { Landmark::Used } else { Landmark::Kept })
        }
        PeerOutput::RunPlan { ahead: true, .. } => Some(Landmark::BegunAhead),
        PeerOutput::Confirm { .. } => Some(Landmark::Confirmed),
        PeerOutput::StopPlan { seq } if is_in_vain(input, *seq) => Some(Landmark::BegunInVain),
        PeerOutput::Send(ToMaster::LinkFailed { .. }) => Some(Landmark::LinkFailed),
        PeerOutput::Send(ToMaster::Withdraw { .. }) => Some(Landmark::Withdrawal),
        PeerOutput::Send(ToMaster::Heartbeat { moved: true }) => Some(Landmark::Moved),
        PeerOutput::Send(ToMaster::CompleteCollective { .. }) if is_commencement => {
            Some(Landmark::StartedAndCancelled)
        }
        _ => None,
    }
}

/// What is to be seen in an output about links, those beyond the ring among them.
fn link_landmarks(after: &Peer, output: &PeerOutput) -> Vec<Landmark> {
    match output {
        PeerOutput::AdoptRing { topology, links } => {
            let beyond = links
                .iter()
                .filter(|link| !is_of(&topology.ring, link.link));
            let landmarks = beyond.map(|link| match link.lanes {
                AdoptedLanes::Keep => Landmark::KeptBeyondTheRing,
                AdoptedLanes::Use(_) => Landmark::UsedBeyondTheRing,
            });
            landmarks.collect()
        }
        PeerOutput::Send(
            ToMaster::UpdateTopology { broken, .. }
            | ToMaster::InitiateCollective { broken, .. }
            | ToMaster::CompleteCollective { broken, .. },
        ) => {
            let BrokenLinks(broken) = broken;
            let topology = after.view().topology();
            let is_of_ring = |link| topology.is_some_and(|here| is_of(&here.ring, link));
            let landmarks = broken.iter().map(|link| match is_of_ring(*link) {
                true => Landmark::Break,
                false => Landmark::BreakBeyondTheRing,
            });
            landmarks.collect()
        }
        _ => Vec::new(),
    }
}

/// Whether a link leads to the neighbour in its direction.
fn is_of(ring: &Ring, link: LinkId) -> bool {
    let neighbour: Option<PeerId> = match link.way {
        Way::Out => ring.next_of(ME),
        Way::In => ring.previous_of(ME),
    };
    neighbour == Some(link.with)
}

/// What the peer was waiting for when another ring came.
fn ring_came(before: &Peer) -> Option<Landmark> {
    let view = before.view();
    let tags = view.tags().next().map(|_| CallKind::Collective);
    let call = view.open_calls().major.or(tags);
    (view.phase() == PeerPhase::Accepted).then_some(Landmark::RingIn(call))
}
