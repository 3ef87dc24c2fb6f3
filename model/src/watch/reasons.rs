//! What those are told whose call has come to nothing, and whether it is true.
//!
//! Most causes can be seen in the very input that the master answers: who was lost, who reported, whose time
//! ran out. What a peer says of itself, the bystander looks up at the peer.

use pccl_core::element::{ReduceOp, SpecField, SpecValue};
use pccl_core::id::{GroupId, PeerId, Seq, Tag};
use pccl_core::master::{Master, MasterInput, MasterOutput, MasterTimer};
use pccl_core::messages::{
    AbortCause, CallFailure, CallKind, CollectiveRefusal, Conflict, PlanOutcome, ToMaster, ToPeer,
    Verdict,
};
use pccl_core::shared_state::{SyncFailure, SyncStrategy};
use pccl_core::states::{CollectiveCommunicationState, ConnectionState, Event};
use pccl_core::topology::LinkId;

use super::accepted;
use crate::calls::own_length;
use crate::claim::Claim;
use crate::milestone::Milestone;
use crate::run::Run;
use crate::script::Do;
use crate::state::Seat;

/// What the master has heard, and all that it does about it.
pub(super) struct Moment<'a> {
    pub(super) before: &'a Master,
    pub(super) after: &'a Master,
    pub(super) heard: &'a MasterInput,
    pub(super) out: &'a [MasterOutput],
}

pub(super) fn reasons(run: &mut Run<'_>, moment: &Moment<'_>) {
    let all_are_true = moment.out.iter().all(|output| match output {
        MasterOutput::Send { peer, message } => is_true(run, moment, *peer, message),
        MasterOutput::Lost { peer, misdeed } => match misdeed {
            Some(misdeed) => moment.tells(*peer, &ToPeer::Kicked(misdeed.clone())),
            None => moment.has_left(*peer) || moment.refuses(*peer),
        },
        MasterOutput::Register { .. }
        | MasterOutput::Refuse { .. }
        | MasterOutput::Close { .. }
        | MasterOutput::StartTimer { .. }
        | MasterOutput::StopTimer(_)
        | MasterOutput::SolveTour { .. }
        | MasterOutput::SearchTour { .. }
        | MasterOutput::EndSearch { .. }
        | MasterOutput::Moved { .. }
        | MasterOutput::Inconsistent { .. }
        | MasterOutput::Stopped => true,
    });
    if !all_are_true {
        run.state.breaks(Claim::Reasons);
    }
}

impl Moment<'_> {
    fn tells(&self, to: PeerId, what: &ToPeer) -> bool {
        let mut out = self.out.iter();
        out.any(|output| {
            matches!(output, MasterOutput::Send { peer, message }
                if *peer == to && message == what)
        })
    }

    fn refuses(&self, whom: PeerId) -> bool {
        let mut out = self.out.iter();
        out.any(|output| {
            matches!(output, MasterOutput::Send { peer, message: ToPeer::Refused(_) }
                if *peer == whom)
        })
    }

    /// The input is the end of a peer's connection, or its farewell.
    fn has_left(&self, whom: PeerId) -> bool {
        match self.heard {
            MasterInput::Disconnected { peer } => *peer == whom,
            MasterInput::Message { peer, message } => *peer == whom && *message == ToMaster::Leave,
            _ => false,
        }
    }

    pub(super) fn loses(&self, whom: PeerId) -> bool {
        let mut out = self.out.iter();
        out.any(|output| matches!(output, MasterOutput::Lost { peer, .. } if *peer == whom))
    }

    /// Who was waited for too long, if that is what has happened.
    fn overdue(&self) -> Option<PeerId> {
        match self.heard {
            MasterInput::TimerFired(MasterTimer::Late(peer)) => Some(*peer),
            _ => None,
        }
    }

    fn state_before(&self, peer: PeerId) -> Option<ConnectionState> {
        self.before.view().peer(peer).map(|known| known.state())
    }

    fn group_before(&self, peer: PeerId) -> Option<GroupId> {
        self.before.view().peer(peer).map(|known| known.group())
    }
}

/// Whether the peer's optimization begins in this very step, and has nothing to measure.
fn begins_with_nothing_to_probe(moment: &Moment<'_>, of: PeerId) -> bool {
    moment.out.iter().any(|output| match output {
        MasterOutput::Moved { peer, event, .. } => *peer == of && *event == Event::NothingToProbe,
        _ => false,
    })
}

fn is_true(run: &Run<'_>, moment: &Moment<'_>, peer: PeerId, message: &ToPeer) -> bool {
    match message {
        ToPeer::Verdict {
            seq,
            verdict: Verdict::Aborted(cause),
            ..
        } => aborts(run, moment, peer, *seq, *cause),
        ToPeer::SharedStateConcluded {
            result: Err(why), ..
        } => fails(run, moment, peer, why),
        ToPeer::CallFailed(CallFailure::Conflict(conflict)) => {
            is_in_the_way(run, moment, peer, conflict)
        }
        ToPeer::CollectiveRefused { tag, reason } => is_refused(run, moment, peer, *tag, reason),
        ToPeer::OptimizationConcluded { report: None } => has_gone_wrong(run),
        // A ring that was being connected stands because its last edge is up.
        ToPeer::OptimizationConcluded { report: Some(_) } => {
            let wired = moment.state_before(peer).is_some_and(super::is_wired);
            let up = matches!(
                moment.heard,
                MasterInput::Message {
                    message: ToMaster::LinkUp { .. },
                    ..
                }
            );
            !wired || up || begins_with_nothing_to_probe(moment, peer)
        }
        _ => true,
    }
}

/// Has anything happened that makes what is sound fail: a fault, or a farewell?
fn has_gone_wrong(run: &Run<'_>) -> bool {
    run.state.faults < run.scenario.faults || run.state.seats.iter().any(|seat| !seat.runs())
}

/// Why a collective is aborted.
fn aborts(run: &Run<'_>, moment: &Moment<'_>, told: PeerId, seq: Seq, cause: AbortCause) -> bool {
    let group = moment.group_before(told);
    let ring = group.and_then(|group| moment.before.view().ring(group));
    let takes_part = |peer: &PeerId| ring.is_some_and(|ring| ring.0.contains(peer));
    let reports = |peer: PeerId, wanted: PlanOutcome| {
        matches!(moment.heard, MasterInput::Message { peer: caster,
            message: ToMaster::CompleteCollective { seq: of, outcome, .. } }
            if *caster == peer && *of == seq && *outcome == wanted)
    };
    let names = |link: Option<LinkId>| {
        matches!(moment.heard, MasterInput::Message { message: ToMaster::CompleteCollective { broken, .. }, .. }
            if broken.0.first().copied() == link)
    };
    let has_voted = |peer: PeerId| run.state.ghost.done.contains(&(seq, peer));
    match cause {
        AbortCause::PeerLost(peer) => {
            takes_part(&peer) && moment.loses(peer) && !has_voted(peer) && peer != told
        }
        AbortCause::LaneLost { by: peer, link } => {
            let seat = run.state.seat_with(peer).filter(|seat| seat.runs());
            let has_lost_a_lane =
                |seat: &Seat| seat.plane.standing.iter().any(|lanes| lanes.noticed);
            let has_lost = seat.is_none_or(has_lost_a_lane);
            takes_part(&peer) && reports(peer, PlanOutcome::LaneLost) && has_lost && names(link)
        }
        AbortCause::Cancelled(peer) => {
            let no = run.state.seat_of(peer);
            let cancels = no.is_some_and(|no| {
                let mut steps = run.plan(no).program.steps.iter();
                steps.any(|step| matches!(step, Do::Cancel(_)))
            });
            takes_part(&peer) && reports(peer, PlanOutcome::Cancelled) && cancels
        }
        AbortCause::TimedOut => moment
            .overdue()
            .is_some_and(|peer| takes_part(&peer) && !has_voted(peer)),
    }
}

/// Why a synchronization fails.
fn fails(run: &Run<'_>, moment: &Moment<'_>, told: PeerId, why: &SyncFailure) -> bool {
    let Some(group) = moment.group_before(told) else {
        return false;
    };
    let of_group = |peer: PeerId| moment.group_before(peer) == Some(group);
    let has_a_part = |peer: PeerId| {
        let part = [
            ConnectionState::DistributeSharedState,
            ConnectionState::RequestSharedState,
        ];
        moment
            .state_before(peer)
            .is_some_and(|state| part.contains(&state))
    };
    let offers = |peer: PeerId| run.state.seat_with(peer).filter(|seat| seat.runs());
    let sends =
        |peer: PeerId| offers(peer).is_none_or(|s| s.strategy == Some(SyncStrategy::SendOnly));
    let reached = moment.before.view().revision(group);
    let revisions = || {
        let members = accepted(moment.after, group);
        members.filter_map(|peer| Some(offers(peer)?.user.revision))
    };
    let all_are_there = accepted(moment.after, group).all(|peer| offers(peer).is_some());
    match why {
        SyncFailure::TransferFailed { peer } => {
            let reports = matches!(moment.heard, MasterInput::Message { peer: sender,
                message: ToMaster::SharedStateDone { ok: false, .. } } if sender == peer);
            of_group(*peer) && has_a_part(*peer) && (reports || moment.loses(*peer))
        }
        SyncFailure::TimedOut => moment
            .overdue()
            .is_some_and(|peer| of_group(peer) && has_a_part(peer)),
        SyncFailure::NobodyToSend => accepted(moment.after, group).all(|peer| {
            let seat = offers(peer);
            seat.is_none_or(|seat| seat.strategy == Some(SyncStrategy::ReceiveOnly))
        }),
        SyncFailure::SendersDiffer { one, other } => {
            let held = |peer| offers(peer).map(|seat| (seat.user.revision, seat.user.contents));
            let differ = held(*one).zip(held(*other));
            let differ = differ.is_none_or(|(one, other)| one != other);
            let both = of_group(*one) && of_group(*other) && one != other;
            both && differ && sends(*one) && sends(*other)
        }
        SyncFailure::RevisionLost {
            reached: known,
            offered,
        } => {
            let newest = revisions().max() == Some(*offered) || !all_are_there;
            reached == Some(*known) && offered < known && newest
        }
        SyncFailure::SenderBehind {
            sender,
            reached: known,
            offered,
        } => {
            let holds = offers(*sender).is_none_or(|seat| seat.user.revision == *offered);
            of_group(*sender) && sends(*sender) && holds && reached == Some(*known)
        }
        SyncFailure::RevisionSkipped { expected, offered } => {
            let held = revisions().any(|revision| revision == *offered) || !all_are_there;
            reached.map(pccl_core::id::Revision::next) == Some(*expected)
                && offered > expected
                && held
        }
    }
}

/// Whether a call gives way to one that there is, of one that waits in it.
fn is_in_the_way(run: &Run<'_>, moment: &Moment<'_>, told: PeerId, conflict: &Conflict) -> bool {
    let Conflict {
        yours,
        theirs,
        peer,
    } = conflict;
    let concerns_all = [CallKind::OptimizeTopology, CallKind::UpdateTopology];
    let concerns =
        concerns_all.contains(theirs) || moment.group_before(*peer) == moment.group_before(told);
    *peer != told
        && yours != theirs
        && waits_in(run, told, *yours)
        && waits_in(run, *peer, *theirs)
        && concerns
}

/// Whether a peer waits in such a call, as it knows best itself. Nobody can tell of one that is gone.
fn waits_in(run: &Run<'_>, peer: PeerId, kind: CallKind) -> bool {
    let Some(seat) = run.state.seat_with(peer).filter(|seat| seat.runs()) else {
        return true;
    };
    let view = seat.peer.view();
    match kind {
        CallKind::Collective => {
            let waits = CollectiveCommunicationState::VoteInitiate;
            view.tags().any(|tag| tag.state == waits)
        }
        CallKind::UpdateTopology | CallKind::OptimizeTopology | CallKind::SyncSharedState => {
            view.open_calls().major == Some(kind)
        }
    }
}

/// Why a collective does not start.
fn is_refused(
    run: &Run<'_>,
    moment: &Moment<'_>,
    told: PeerId,
    tag: Tag,
    reason: &CollectiveRefusal,
) -> bool {
    let votes = |peer: PeerId| {
        let known = moment.before.view().peer(peer);
        known.is_some_and(|known| known.tags().any(|(known, _)| known == tag))
    };
    let speaks = |speaker: PeerId| {
        matches!(moment.heard, MasterInput::Message { peer, message: ToMaster::InitiateCollective { tag: of, .. } }
            if *peer == speaker && *of == tag)
    };
    let of_group = |peer: PeerId| moment.group_before(peer) == moment.group_before(told);
    let is_member = |peer: &PeerId| of_group(*peer);
    match reason {
        CollectiveRefusal::Conflict(conflict) => is_in_the_way(run, moment, told, conflict),
        CollectiveRefusal::NotJoined { peers } => {
            let overdue = moment.overdue();
            let late = overdue.is_some_and(|late| peers.contains(&late));
            late && peers.iter().all(is_member) && !peers.iter().any(|peer| votes(*peer))
        }
        CollectiveRefusal::Disagreement {
            peers,
            field,
            values,
        } => {
            let has_voted = |peer: &PeerId| votes(*peer) || speaks(*peer);
            let group = moment.group_before(told);
            let voters = group
                .into_iter()
                .flat_map(|group| accepted(moment.after, group));
            let voters: Vec<PeerId> = voters.filter(has_voted).collect();
            let op = |peer: &PeerId| wants(run, *peer).map(|(op, _)| op);
            let count = |peer: &PeerId| wants(run, *peer).map(|(_, count)| count);
            // The first of the fields in which they differ, and who differs in it from the first of them.
            let first = voters.first().copied().unwrap_or(told);
            let in_op = |peer: &PeerId| op(peer) != op(&first);
            let in_count = |peer: &PeerId| count(peer) != count(&first);
            let (right, others): (SpecField, Vec<PeerId>) = match voters.iter().any(in_op) {
                true => (
                    SpecField::Operation,
                    voters.iter().copied().filter(in_op).collect(),
                ),
                false => (
                    SpecField::Count,
                    voters.iter().copied().filter(in_count).collect(),
                ),
            };
            let named: Vec<PeerId> = std::iter::once(first).chain(others).collect();
            let value = |peer: &PeerId| match right {
                SpecField::Operation => op(peer).map(SpecValue::Operation),
                _ => count(peer).map(|is_longer| {
                    SpecValue::Count(run.scenario.spec.count + u64::from(is_longer))
                }),
            };
            let wanted = named.iter().take(2).map(value);
            let is_so = wanted.eq(values.iter().map(|value| Some(*value)));
            is_so && *peers == named && *field == right
        }
        CollectiveRefusal::NoSuchRoot { root } => {
            let group = moment.group_before(told);
            let mut left = group
                .into_iter()
                .flat_map(|group| accepted(moment.after, group));
            run.scenario.spec.kind.root() == Some(root) && !left.any(|peer| peer == *root)
        }
        // It takes a change of the group, and of what belongs together alone.
        CollectiveRefusal::WorldChanged => {
            let kind = run.scenario.spec.kind;
            kind.laid_out_for().is_some() && run.state.has_reached(Milestone::Rewired)
        }
        // No scenario has weights.
        CollectiveRefusal::NoWeight => false,
        CollectiveRefusal::TooLong { total, limit } => {
            let group = moment.group_before(told);
            let voters = group
                .into_iter()
                .flat_map(|group| accepted(moment.after, group));
            let own = |peer| {
                let seat = run.state.seat_with(peer);
                own_length(peer, seat.is_some_and(|seat| seat.user.tries_again()))
            };
            let allowed = run.scenario.spec.kind.own_and_limit();
            let all: u64 = voters.map(own).sum();
            allowed.is_some_and(|(_, allowed)| allowed == *limit) && all == *total && total > limit
        }
        CollectiveRefusal::Withdrawn => {
            matches!(moment.heard, MasterInput::Message { peer, message: ToMaster::Withdraw { tag: of } }
                if *peer == told && *of == tag)
        }
    }
}

/// What a peer's program computes, and whether of more than the others do.
fn wants(run: &Run<'_>, peer: PeerId) -> Option<(ReduceOp, bool)> {
    let no = run.state.seat_of(peer)?;
    let plan = run.plan(no);
    let mut starts = plan.program.steps.iter().filter_map(|step| match step {
        Do::StartOdd(_) => Some((ReduceOp::Max, true)),
        Do::StartLonger(_) => Some((run.scenario.spec.op, true)),
        _ => None,
    });
    Some(starts.next().unwrap_or((run.scenario.spec.op, false)))
}
