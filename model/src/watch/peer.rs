//! What a peer answers and orders.

use pccl_core::id::{GroupId, PeerId, Revision, Seq, Tag};
use pccl_core::messages::{CallKind, RingOutcome, ToMaster, ToPeer, Verdict};
use pccl_core::peer::{Answer, CallError, Committed, PeerInput, PeerOutput, PeerTimer};
use pccl_core::schedule::Schedule;
use pccl_core::shared_state::{SyncRole, SyncStrategy};
use pccl_core::topology::Edge;

use super::groups::epochs;
use super::signs_of_life::signs_of_life;
use super::told::passed_on;
use crate::claim::Claim;
use crate::milestone::Milestone;
use crate::run::{Run, small};
use crate::script::{Do, UPDATES_MANY};
use crate::step::SeatNo;

pub(crate) fn peer_moved(
    run: &mut Run<'_>,
    no: SeatNo,
    was_connected: bool,
    heard: &PeerInput,
    out: &[PeerOutput],
) {
    if was_connected && out.contains(&PeerOutput::Close) {
        let stopped = |timer| out.contains(&PeerOutput::StopTimer(timer));
        if !stopped(PeerTimer::HeartbeatDue) || !stopped(PeerTimer::MasterSilence) {
            run.state.breaks(Claim::Timers);
        }
    }
    passed_on(run, heard, out);
    let writes = |output: &PeerOutput| matches!(output, PeerOutput::CommitState { .. });
    let succeeded =
        |output: &PeerOutput| matches!(output, PeerOutput::Answer(Answer::Synchronized(Ok(_))));
    if out.iter().any(writes) && !out.iter().any(succeeded) {
        run.state.breaks(Claim::SharedState);
    }
    if out
        .iter()
        .any(|output| !names_what_is_lost(run, no, output))
    {
        run.state.breaks(Claim::Named);
    }
    for output in out {
        let PeerOutput::Answer(answer) = output else {
            continue;
        };
        if !was_asked(run, no, answer) || !is_well_ended(run, no, answer) {
            run.state.breaks(Claim::AnsweredOnce);
        }
        if !is_told(run, no, heard, answer) {
            run.state.breaks(Claim::NoVerdictInvented);
        }
    }
    signs_of_life(run, no, heard, out);
    if run.seat(no).peer.view().ended() == Some(&CallError::MasterMisbehaved) {
        run.state.breaks(Claim::Trust);
    }
}

/// A vote names the edges whose standing lanes are known to be dead, and some where it says that one was lost.
fn names_what_is_lost(run: &Run<'_>, no: SeatNo, output: &PeerOutput) -> bool {
    let (broken, is_cause) = match output {
        PeerOutput::Send(ToMaster::CompleteCollective {
            outcome, broken, ..
        }) => (broken, *outcome == RingOutcome::LaneLost),
        PeerOutput::Send(
            ToMaster::InitiateCollective { broken, .. } | ToMaster::UpdateTopology { broken, .. },
        ) => (broken, false),
        _ => return true,
    };
    let plane = &run.seat(no).plane;
    let is_dead = |edge: Edge| plane.standing(edge).is_some_and(|lanes| lanes.noticed);
    (broken.any() || !is_cause)
        && broken.to_next == is_dead(Edge::ToNext)
        && broken.from_previous == is_dead(Edge::FromPrevious)
}

/// A call fails for a reason that its kind may have, or because the run has ended for the peer. Users
/// make no mistakes, but for those whose program says so.
fn is_well_ended(run: &Run<'_>, no: SeatNo, answer: &Answer) -> bool {
    let why = match answer {
        Answer::Connected(result) => result.as_ref().err(),
        Answer::TopologyUpdated(result) | Answer::TopologyOptimized(result) => {
            result.as_ref().err()
        }
        Answer::Synchronized(result) => result.as_ref().err(),
        Answer::PeersPending(result) => result.as_ref().err(),
        Answer::CollectiveEnded { result, .. } => result.as_ref().err(),
    };
    let collective = matches!(answer, Answer::CollectiveEnded { .. });
    match why {
        None => true,
        Some(CallError::Aborted { .. } | CallError::CollectiveRefused { .. }) => collective,
        // An update is in nobody's way before many have passed over a call, and no collective is in that of
        // an optimization.
        Some(CallError::Conflict(conflict)) if conflict.theirs == CallKind::UpdateTopology => {
            let mut plans = run.scenario.seats.iter();
            plans.any(|plan| plan.program.rounds >= UPDATES_MANY)
        }
        Some(CallError::Conflict(conflict)) => match answer {
            Answer::CollectiveEnded { .. } => {
                let majors = [CallKind::OptimizeTopology, CallKind::SyncSharedState];
                majors.contains(&conflict.theirs)
            }
            Answer::Synchronized(_) => {
                let others = [CallKind::OptimizeTopology, CallKind::Collective];
                others.contains(&conflict.theirs)
            }
            _ => false,
        },
        Some(CallError::SyncFailed(_)) => matches!(answer, Answer::Synchronized(_)),
        Some(CallError::OptimizationFailed) => matches!(answer, Answer::TopologyOptimized(_)),
        Some(CallError::Usage(_)) => {
            let steps = run.plan(no).program.steps;
            steps.iter().any(|step| matches!(step, Do::StartTwice(_)))
        }
        Some(_) => run.seat(no).peer.view().ended().is_some(),
    }
}

/// Does the user wait for this answer?
fn was_asked(run: &Run<'_>, no: SeatNo, answer: &Answer) -> bool {
    let user = &run.seat(no).user;
    match answer {
        Answer::Connected(_) => user.waits_to_connect(),
        Answer::TopologyUpdated(_) => user.waits_in(CallKind::UpdateTopology),
        Answer::TopologyOptimized(_) => user.waits_in(CallKind::OptimizeTopology),
        Answer::Synchronized(_) => user.waits_in(CallKind::SyncSharedState),
        Answer::PeersPending(_) => user.waits_in_query(),
        Answer::CollectiveEnded { tag, .. } => user.runs(small(*tag)),
    }
}

/// A verdict is the answer to the master's word only; and who lost the master claims none.
fn is_told(run: &Run<'_>, no: SeatNo, heard: &PeerInput, answer: &Answer) -> bool {
    let Answer::CollectiveEnded { tag, result } = answer else {
        return true;
    };
    let verdict = match heard {
        PeerInput::Message(ToPeer::Verdict {
            tag: t,
            seq,
            verdict,
        }) if t == tag => Some((seq, verdict)),
        _ => None,
    };
    match (result, verdict) {
        (Ok(committed), Some((seq, Verdict::Committed { epoch }))) => {
            let ring = &run.seat(no).plane.topology;
            let contributed = ring.epoch == *epoch && committed.contributors == ring.ring.0;
            committed.seq == *seq && contributed
        }
        (Ok(_), Some(_) | None) => false,
        (Err(CallError::Aborted { cause, .. }), Some((_, Verdict::Aborted(told)))) => cause == told,
        (Err(CallError::Aborted { .. }), Some(_) | None) => false,
        (Err(_), Some(_)) => false,
        (Err(_), None) => true,
    }
}

pub(crate) fn answered(run: &mut Run<'_>, no: SeatNo, answer: &Answer) {
    match answer {
        Answer::CollectiveEnded { tag, result } => collective_ended(run, no, *tag, result.as_ref()),
        Answer::PeersPending(Ok(true)) => run.state.reach(Milestone::ToldPending),
        Answer::PeersPending(Ok(false)) => run.state.reach(Milestone::ToldNobodyPending),
        Answer::TopologyOptimized(Err(CallError::OptimizationFailed)) => {
            run.state.reach(Milestone::OptimizationFailed);
        }
        Answer::TopologyOptimized(Ok(_)) => run.state.reach(Milestone::Optimized),
        Answer::Synchronized(Ok(synchronized)) => {
            holds_the_same(run, no, synchronized.revision);
            run.state.reach(if synchronized.fetched.is_empty() {
                Milestone::ContentKept
            } else {
                Milestone::ContentMoved
            });
        }
        Answer::Connected(_)
        | Answer::TopologyUpdated(_)
        | Answer::TopologyOptimized(_)
        | Answer::PeersPending(Err(_))
        | Answer::Synchronized(Err(_)) => {}
    }
}

/// Everybody who is told that a synchronization succeeded holds one revision and one content, at that
/// moment: before its user computes on.
fn holds_the_same(run: &mut Run<'_>, no: SeatNo, revision: Revision) {
    let Some(round) = run.concluding else {
        run.state.breaks(Claim::SharedState);
        return;
    };
    let group = GroupId(run.plan(no).group);
    let held = (round, revision, run.seat(no).user.contents.compared());
    let ghost = run.state.ghost.edit();
    let known = ghost.contents.entry(group).or_insert(held);
    if known.0 != round {
        *known = held;
    }
    if *known != held {
        run.state.breaks(Claim::SharedState);
    }
}

/// Exactly-once and restoration.
fn collective_ended(
    run: &mut Run<'_>,
    no: SeatNo,
    tag: Tag,
    result: Result<&Committed, &CallError>,
) {
    let tag = small(tag);
    let plane = &run.seat(no).plane;
    let whole = plane.whole.iter().find(|known| known.tag == tag);
    match result {
        Ok(committed) => {
            let ranks = &committed.contributors;
            let whole = whole.filter(|known| known.seq == committed.seq);
            let once = whole.is_some_and(|known| known.holds_each_once(ranks));
            let in_order = whole.is_some_and(|known| known.adds_in_order(ranks));
            let small = whole.is_some_and(|known| known.schedule == Schedule::Whole);
            let again = run.seat(no).user.tries_again();
            if !once {
                run.state.breaks(Claim::ExactlyOnce);
            } else if !in_order {
                run.state.breaks(Claim::SameOrder);
            }
            if small {
                run.state.reach(Milestone::TravelledWhole);
            }
            if again {
                run.state.reach(Milestone::Recovered);
            }
        }
        // The call was a mistake: what runs under the tag goes on.
        Err(CallError::Usage(_)) => {}
        Err(why) => {
            let runs_on = plane.rings.iter().any(|known| known.tag == tag);
            let was_whole = whole.is_some();
            if runs_on {
                run.state.breaks(Claim::Restoration);
            }
            if was_whole && matches!(why, CallError::Aborted { .. }) {
                run.state.reach(Milestone::RestoredWhole);
            }
            if *why == CallError::MasterLost {
                run.state.reach(Milestone::LostMasterUndecided);
            }
        }
    }
}

pub(crate) fn before_message(run: &mut Run<'_>, no: SeatNo, message: &ToPeer) {
    match message {
        ToPeer::Verdict { tag, seq, verdict } => {
            let group = GroupId(run.plan(no).group);
            let known = run.state.ghost.verdicts.get(&(group, *tag));
            let differs = known.is_some_and(|(s, v)| s == seq && v != verdict);
            if differs {
                run.state.breaks(Claim::Agreement);
            }
        }
        ToPeer::SharedStateConcluded { round, .. } => run.concluding = Some(*round),
        ToPeer::SharedStatePlan(plan) => {
            let strategy = run.seat(no).strategy;
            let wrong = match &plan.role {
                SyncRole::Request { entries, .. } => {
                    !entries.is_empty() && strategy == Some(SyncStrategy::SendOnly)
                }
                SyncRole::Distribute { .. } => strategy == Some(SyncStrategy::ReceiveOnly),
            };
            if wrong {
                run.state.breaks(Claim::Sources);
            }
            match (&plan.role, strategy) {
                (SyncRole::Distribute { to }, Some(SyncStrategy::SendOnly)) if !to.is_empty() => {
                    run.state.reach(Milestone::SenderServed);
                }
                (SyncRole::Request { from: Some(_), .. }, Some(SyncStrategy::ReceiveOnly)) => {
                    run.state.reach(Milestone::ReceiverTook);
                }
                _ => {}
            }
        }
        _ => {}
    }
}

pub(crate) fn after_message(run: &mut Run<'_>, no: SeatNo, message: &ToPeer) {
    if let ToPeer::Verdict { tag, seq, .. } = message {
        forget_verdict(run, no, *tag, *seq);
    }
}

/// Nobody can be told of it any more.
fn forget_verdict(run: &mut Run<'_>, no: SeatNo, tag: Tag, seq: Seq) {
    let group = GroupId(run.plan(no).group);
    let on_its_way =
        |message: &ToPeer| matches!(message, ToPeer::Verdict { seq: s, .. } if *s == seq);
    let awaited = run.state.seats.iter().any(|seat| {
        seat.link.down.queue.iter().any(on_its_way)
            || seat.peer.view().tags().any(|known| known.seq == Some(seq))
    });
    let known = run.state.ghost.verdicts.get(&(group, tag));
    if !awaited && known.is_some_and(|(s, _)| *s == seq) {
        run.state.ghost.edit().verdicts.remove(&(group, tag));
    }
}

/// A peer's ring is that of all others in its epoch, and both its edges have lanes.
pub(crate) fn adopted(run: &mut Run<'_>, no: SeatNo, me: PeerId) {
    let seat = run.seat(no);
    let mine = &seat.plane.topology;
    let leads = |edge: Edge| seat.plane.standing(edge).map(|lanes| lanes.with);
    let edges = leads(Edge::ToNext) == mine.ring.next_of(me)
        && leads(Edge::FromPrevious) == mine.ring.previous_of(me);
    let group = run.plan(no).group;
    let others = run.state.seat_numbers().filter(|other| *other != no);
    let same = others.into_iter().all(|other| {
        let theirs = &run.seat(other).plane.topology;
        let alike = run.plan(other).group == group && theirs.epoch == mine.epoch;
        !alike
            || run.seat(other).id.is_none()
            || (theirs.ring == mine.ring && meets(run, no, other))
    });
    if !edges || !same {
        run.state.breaks(Claim::OneView);
    }
    epochs(run, no);
}

/// Where one sends to the other on its standing lanes, the other receives on the same.
fn meets(run: &Run<'_>, no: SeatNo, other: SeatNo) -> bool {
    let joined = |from: SeatNo, to: SeatNo| {
        let (from, to) = (run.seat(from), run.seat(to));
        match (&from.plane.next, &to.plane.previous) {
            (Some(out), Some(back)) if Some(out.with) == to.id && Some(back.with) == from.id => {
                out.built == back.built
            }
            _ => true,
        }
    };
    joined(no, other) && joined(other, no)
}

/// All participants of an execution run it on one ring.
pub(crate) fn ring_runs(run: &mut Run<'_>, no: SeatNo, seq: Seq) {
    let mine = &run.seat(no).plane.topology.ring;
    let same = run.state.seats.iter().all(|seat| {
        let runs = seat
            .plane
            .rings
            .iter()
            .chain(&seat.plane.whole)
            .any(|known| known.seq == seq);
        !runs || seat.plane.topology.ring == *mine
    });
    if !same {
        run.state.breaks(Claim::OneView);
    }
}
