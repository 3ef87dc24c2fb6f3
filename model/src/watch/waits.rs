//! Calls that wait, and calls that are given up.

use pccl_core::id::{Seq, Tag};
use pccl_core::messages::{CallKind, ToMaster, ToPeer};
use pccl_core::peer::{Call, PeerInput, PeerOutput};

use super::source::Source;
use crate::calls::{name_of_tag, tag_of};
use crate::claim::Claim;
use crate::milestone::Milestone;
use crate::run::{Run, small};
use crate::step::SeatNo;

/// A call that was just made, or given up: `went_on` is the major call that was in flight before it.
pub(crate) fn waits(run: &mut Run<'_>, no: SeatNo, went_on: Option<CallKind>, heard: &PeerInput) {
    let view = run.peer(no).view();
    match heard {
        PeerInput::Call { call, what } if view.waiting().any(|waiting| waiting == *call) => {
            let is_in_use = |tag: Tag| view.tags().any(|known| known.tag == tag);
            let for_its_turn = match what {
                Call::Initiate { tag, .. } => went_on.is_none() && !is_in_use(*tag),
                _ => false,
            };
            run.reach(match for_its_turn {
                true => Milestone::WaitedForItsTurn,
                false => Milestone::WaitedForGivenUp,
            });
        }
        PeerInput::Call { what, .. } => {
            let kind = match what {
                Call::UpdateTopology => Some(CallKind::UpdateTopology),
                Call::OptimizeTopology => Some(CallKind::OptimizeTopology),
                _ => None,
            };
            if kind.is_some() && went_on == kind {
                run.reach(Milestone::AnsweredTheNext);
            }
        }
        _ => {}
    }
}

/// What becomes of what a peer has begun ahead.
pub(crate) fn ahead(run: &mut Run<'_>, no: SeatNo, heard: &PeerInput, out: &[PeerOutput]) {
    begun_in_vain(run, heard, out);
    let is_vote = |output: &PeerOutput| {
        matches!(
            output,
            PeerOutput::Send(ToMaster::CompleteCollective { .. })
        )
    };
    let votes = matches!(heard, PeerInput::PlanEnded { .. }) && out.iter().any(is_vote);
    if votes && run.peer(no).view().tags().all(|tag| tag.seq.is_none()) {
        run.reach(Milestone::VotedAhead);
    }
}

/// It is stopped because the master says something else than that it commences.
fn begun_in_vain(run: &mut Run<'_>, heard: &PeerInput, out: &[PeerOutput]) {
    let commences = match heard {
        PeerInput::Message(ToPeer::Commence { seq, .. }) => Some(*seq),
        PeerInput::Message(
            ToPeer::TopologyEstablished { .. } | ToPeer::CollectiveRefused { .. },
        ) => None,
        _ => return,
    };
    let is_in_vain = |output: &PeerOutput| match output {
        PeerOutput::StopPlan { seq } => Some(*seq) != commences,
        _ => false,
    };
    if out.iter().any(is_in_vain) {
        run.reach(Milestone::BegunInVain);
    }
}

/// What is given up may have been about to start: then nothing is begun any more. What runs is stopped, and
/// what moves is dropped: the memory is its user's again.
pub(super) fn what_was_given_up_does_not_run(
    run: &mut Run<'_>,
    no: SeatNo,
    heard: &PeerInput,
    out: &[PeerOutput],
) {
    let user = &run.seat(no).user;
    let is_unwanted = |output: &PeerOutput| match output {
        PeerOutput::RunPlan { call, tag, .. } => {
            *call != name_of_tag(*tag) || !user.runs(small(*tag))
        }
        PeerOutput::MoveState { call, .. } => {
            *call != user.open_call() || !user.waits_in(CallKind::SyncSharedState)
        }
        _ => false,
    };
    let is_broken = out.iter().any(is_unwanted);
    if let PeerInput::GiveUp { call } = heard {
        let plane = &run.seat(no).plane;
        let is_stopped = |seq: Seq| out.contains(&PeerOutput::StopPlan { seq });
        let mut runs = plane.runs.iter();
        let runs_on = runs.any(|run| name_of_tag(tag_of(run.tag)) == *call && !is_stopped(run.seq));
        let moves_on = plane.moving.as_ref().is_some_and(|moving| {
            let round = moving.plan.round;
            !user.waits_in(CallKind::SyncSharedState)
                && !out.contains(&PeerOutput::DropState { round })
        });
        if runs_on || moves_on {
            run.breaks(Claim::Restoration);
        }
    }
    if is_broken {
        run.breaks(Claim::GivenUp);
    }
}

/// Collectives start in the order of their calls, unless one waits for its tag; and no more at once than there
/// may be.
pub(super) fn collectives_take_turns(run: &mut Run<'_>, no: SeatNo, out: &[PeerOutput]) {
    let most = usize::from(run.plan(no).collectives_max);
    if run.peer(no).view().tags().count() > most {
        run.breaks(Claim::Turns);
    }
    for output in out {
        let PeerOutput::Send(ToMaster::InitiateCollective { tag, .. }) = output else {
            continue;
        };
        let called = &run.seat(no).called;
        let Some(at) = called.iter().position(|called| *called == small(*tag)) else {
            run.breaks(Claim::Turns);
            continue;
        };
        let is_in_flight = |tag: &u8| {
            let mut tags = run.peer(no).view().tags();
            tags.any(|known| known.tag == tag_of(*tag))
        };
        if !called.iter().take(at).all(is_in_flight) {
            run.breaks(Claim::Turns);
        }
        run.edit(no).called.remove(at);
    }
}
