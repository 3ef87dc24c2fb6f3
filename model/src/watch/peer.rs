//! What a peer answers and orders.

use pccl_core::id::{GroupId, PeerId, Revision, Seq, Tag};
use pccl_core::messages::{CallKind, CollectiveRefusal, PlanOutcome, ToMaster, ToPeer, Verdict};
use pccl_core::peer::{Answer, Call, CallError, Committed, PeerInput, PeerOutput, PeerTimer};
use pccl_core::plan::{Algorithm, Reach};
use pccl_core::shared_state::{SyncRole, SyncStrategy};
use pccl_core::states::CollectiveCommunicationState;
use pccl_core::topology::{BrokenLinks, LinkId};

use super::groups::epochs;
use super::signs_of_life::signs_of_life;
use super::source::{Source, Standing, chosen};
use super::told::passed_on;
use super::waits::{collectives_take_turns, what_was_given_up_does_not_run};
use crate::claim::Claim;
use crate::milestone::Milestone;
use crate::run::{Run, small};
use crate::step::SeatNo;

pub(crate) fn peer_moved(
    run: &mut Run<'_>,
    no: SeatNo,
    was_connected: bool,
    heard: &PeerInput,
    out: &[PeerOutput],
) {
    peer_keeps(run, no, was_connected, heard, out);
    what_was_given_up_does_not_run(run, no, heard, out);
    collectives_take_turns(run, no, out);
    signs_of_life(run, no, heard, out);
    who_rests_is_told_its_ring(run, no, heard, out);
}

/// The others did not wait for the vote of a peer that rests, so it does not wait for them.
fn who_rests_is_told_its_ring(
    run: &mut Run<'_>,
    no: SeatNo,
    heard: &PeerInput,
    out: &[PeerOutput],
) {
    let is_answer = |output: &PeerOutput| {
        matches!(
            output,
            PeerOutput::Answer {
                answer: Answer::TopologyUpdated(Ok(_)),
                ..
            }
        )
    };
    let is_answered = out.iter().any(is_answer);
    let rests = !run.seat(no).has_voted;
    let was_told = run.seat(no).was_told_a_ring;
    let is_told = match heard {
        PeerInput::Message(ToPeer::TopologyEstablished { .. }) => rests && !is_answered,
        PeerInput::Call {
            what: Call::UpdateTopology,
            ..
        } => {
            let goes_on = run.peer(no).view().ended().is_none();
            if was_told && goes_on && !is_answered {
                run.breaks(Claim::Ballots);
            }
            false
        }
        PeerInput::Call {
            what: Call::OptimizeTopology | Call::SyncSharedState(_) | Call::Initiate { .. },
            ..
        }
        | PeerInput::Leave => false,
        _ => was_told,
    };
    if is_told != was_told {
        run.edit(no).was_told_a_ring = is_told;
    }
}

/// What holds of every step of a peer.
pub(crate) fn peer_keeps<S: Source>(
    run: &mut S,
    no: S::Place,
    was_connected: bool,
    heard: &PeerInput,
    out: &[PeerOutput],
) {
    if was_connected && out.contains(&PeerOutput::Close) {
        let stopped = |timer| out.contains(&PeerOutput::StopTimer(timer));
        if !stopped(PeerTimer::HeartbeatDue) || !stopped(PeerTimer::MasterSilence) {
            run.breaks(Claim::Timers);
        }
    }
    // Whoever takes its master for a broken one tells its user no verdict either, which is not the point.
    if run.peer(no).view().ended() == Some(&CallError::MasterMisbehaved) {
        run.breaks(Claim::Trust);
    }
    passed_on(run, was_connected, heard, out);
    if !frames_find_an_end(run, no, heard, out) {
        run.breaks(Claim::Frames);
    }
    let writes = |output: &PeerOutput| matches!(output, PeerOutput::CommitState { .. });
    let succeeded = |output: &PeerOutput| {
        matches!(
            output,
            PeerOutput::Answer {
                answer: Answer::Synchronized(Ok(_)),
                ..
            }
        )
    };
    if out.iter().any(writes) && !out.iter().any(succeeded) {
        run.breaks(Claim::SharedState);
    }
    let mut said = out.iter().enumerate();
    let done = |at: usize| out.get(..at).unwrap_or_default();
    if said.any(|(at, output)| !names_what_is_lost(run, no, done(at), output)) {
        run.breaks(Claim::Named);
    }
    for output in out {
        let PeerOutput::Answer { call, answer } = output else {
            continue;
        };
        if !run.waits_for(no, *call, answer) || !is_well_ended(run, no, answer) {
            run.breaks(Claim::AnsweredOnce);
        }
        if !names_its_ring(run, no, out, answer) {
            run.breaks(Claim::OneView);
        }
        if !is_told(run, no, heard, answer) {
            run.breaks(Claim::NoVerdictInvented);
        }
    }
}

/// A frame waits for the ring that takes it: what never runs, or is over, must not leave lanes waiting.
fn frames_find_an_end<S: Source>(
    run: &S,
    no: S::Place,
    heard: &PeerInput,
    out: &[PeerOutput],
) -> bool {
    let is_stopped = |seq: Seq| out.contains(&PeerOutput::StopPlan { seq });
    let goes_on = run.peer(no).view().ended().is_none();
    let begins = |of: Seq| {
        let mut out = out.iter();
        out.any(|output| matches!(output, PeerOutput::RunPlan { seq, .. } if *seq == of))
    };
    let says = |is_it: &dyn Fn(&PeerOutput) -> bool| out.iter().any(is_it);
    let is_confirmed = |of: Seq| {
        let confirms =
            |output: &PeerOutput| matches!(output, PeerOutput::Confirm { seq, .. } if *seq == of);
        let has_ended = says(&|output| is_vote_on(output, of));
        says(&confirms) && (run.performs(no, of) || has_ended)
    };
    match heard {
        PeerInput::Message(ToPeer::Commence { seq, .. }) if goes_on => {
            // If it has voted ahead, its frames are stopped with the verdict.
            let waits = run.peer(no).view().tags().any(|tag| {
                tag.seq == Some(*seq) && tag.state == CollectiveCommunicationState::VoteComplete
            });
            let has_voted = waits && !says(&|output| is_vote_on(output, *seq));
            (begins(*seq) || is_confirmed(*seq) || has_voted) != is_stopped(*seq)
        }
        PeerInput::Message(ToPeer::Verdict { seq, .. }) if goes_on => {
            is_stopped(*seq) || !run.performs(no, *seq)
        }
        _ => true,
    }
}

fn is_vote_on(output: &PeerOutput, execution: Seq) -> bool {
    match output {
        PeerOutput::Send(ToMaster::CompleteCollective { seq, .. }) => *seq == execution,
        _ => false,
    }
}

/// A vote names the links whose standing lanes are known to be dead, and some where it says that one was lost.
fn names_what_is_lost<S: Source>(
    run: &S,
    no: S::Place,
    done_before: &[PeerOutput],
    output: &PeerOutput,
) -> bool {
    let (broken, is_cause) = match output {
        PeerOutput::Send(ToMaster::CompleteCollective {
            outcome, broken, ..
        }) => (broken, *outcome == PlanOutcome::LaneLost),
        PeerOutput::Send(
            ToMaster::InitiateCollective { broken, .. } | ToMaster::UpdateTopology { broken, .. },
        ) => (broken, false),
        _ => return true,
    };
    let standing = standing_after(run, no, done_before);
    let dead = standing.iter().filter(|lanes| lanes.noticed);
    let dead = BrokenLinks(dead.map(|lanes| lanes.link).collect());
    (broken.any() || !is_cause) && *broken == dead
}

/// The links that stand when a peer has done this: who takes another ring in may vote on it at once.
fn standing_after<S: Source>(run: &S, no: S::Place, done: &[PeerOutput]) -> Vec<Standing> {
    let standing = run.standing(no);
    let adopted = done.iter().rev().find_map(|output| match output {
        PeerOutput::AdoptRing { links, .. } => Some(links),
        _ => None,
    });
    match adopted {
        Some(links) => chosen(links, &standing, &run.fresh(no)),
        None => standing,
    }
}

/// A call fails for a reason that its kind may have, or because the run has ended for the peer. Users
/// make no mistakes, but for those whose program says so.
fn is_well_ended<S: Source>(run: &S, no: S::Place, answer: &Answer) -> bool {
    let collective = matches!(answer, Answer::CollectiveEnded { .. });
    match answer.error() {
        None => true,
        Some(CallError::Aborted { .. } | CallError::CollectiveRefused { .. }) => collective,
        // An update is in nobody's way before many have passed over a call, and no collective is in that of
        // an optimization.
        Some(CallError::Conflict(conflict)) if conflict.theirs == CallKind::UpdateTopology => {
            run.updates_are_many()
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
        Some(CallError::Usage(_)) => run.misuses(no),
        Some(_) => run.peer(no).view().ended().is_some(),
    }
}

/// Who is told a ring is told the one that it uses from then on.
fn names_its_ring<S: Source>(run: &S, no: S::Place, out: &[PeerOutput], answer: &Answer) -> bool {
    let told = match answer {
        Answer::Connected(Ok(joined)) => &joined.topology,
        Answer::TopologyUpdated(Ok(topology)) => topology,
        Answer::TopologyOptimized(Ok(optimized)) => &optimized.topology,
        _ => return true,
    };
    let mut adopted = out.iter().rev().filter_map(|output| match output {
        PeerOutput::AdoptRing { topology, .. } => Some(topology),
        _ => None,
    });
    adopted.next().unwrap_or_else(|| run.topology(no)) == told
}

/// A verdict is the answer to the master's word only; and who lost the master claims none.
fn is_told<S: Source>(run: &S, no: S::Place, heard: &PeerInput, answer: &Answer) -> bool {
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
        (Ok(committed), Some((seq, Verdict::Committed { epoch, .. }))) => {
            let ring = run.topology(no);
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
    is_restored(run, no, answer);
    match answer {
        Answer::CollectiveEnded { tag, result } => collective_ended(run, no, *tag, result.as_ref()),
        Answer::PeersPending(Ok(true)) => run.reach(Milestone::ToldPending),
        Answer::PeersPending(Ok(false)) => run.reach(Milestone::ToldNobodyPending),
        Answer::TopologyOptimized(Err(CallError::OptimizationFailed)) => {
            run.reach(Milestone::OptimizationFailed);
        }
        Answer::TopologyOptimized(Ok(_)) => run.reach(Milestone::Optimized),
        Answer::Synchronized(Ok(synchronized)) => {
            holds_the_same(run, no, synchronized.revision);
            run.reach(if synchronized.fetched.is_empty() {
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
pub(crate) fn holds_the_same<S: Source>(run: &mut S, no: S::Place, revision: Revision) {
    let Some(round) = run.concluding() else {
        run.breaks(Claim::SharedState);
        return;
    };
    let group = run.group(no);
    let held = (round, revision, run.content(no));
    let ghost = run.edit_ghost();
    let known = ghost.contents.entry(group).or_insert(held);
    if known.0 != round {
        *known = held;
    }
    if *known != held {
        run.breaks(Claim::SharedState);
    }
}

/// Restoration: nothing writes to a buffer any more that goes back to its user as it was.
pub(crate) fn is_restored<S: Source>(run: &mut S, no: S::Place, answer: &Answer) {
    let Answer::CollectiveEnded {
        tag,
        result: Err(why),
    } = answer
    else {
        return;
    };
    // Where the call was a mistake, what runs under the tag goes on.
    let is_mistake = matches!(why, CallError::Usage(_));
    if !is_mistake && run.runs_plan(no, *tag) {
        run.breaks(Claim::Restoration);
    }
}

/// Exactly-once.
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
            let algorithm = whole.map(|known| known.plan.algorithm());
            let small = matches!(algorithm, Some(Algorithm::Whole(_)));
            let reach = algorithm.map(Algorithm::reach);
            let wants_mesh = run.scenario.mesh && ranks.len() > 2;
            let again = run.seat(no).user.tries_again();
            if !once {
                run.breaks(Claim::ExactlyOnce);
            } else if !in_order {
                run.breaks(Claim::SameOrder);
            }
            if small {
                run.reach(Milestone::TravelledWhole);
            }
            match reach {
                Some(Reach::Mesh) => run.reach(Milestone::WentDirectly),
                Some(Reach::Ring) if wants_mesh => run.reach(Milestone::RingAlone),
                Some(Reach::Ring) | None => {}
            }
            let (in_rounds, in_levels) = (Algorithm::Circulant, Algorithm::TwoLevel);
            if algorithm == Some(in_rounds) {
                run.reach(Milestone::WentInRounds);
            }
            if algorithm == Some(in_levels) {
                run.reach(Milestone::WentInLevels);
            }
            if algorithm == Some(Algorithm::TwoLevelRing) {
                run.reach(Milestone::WentFromSiteToSite);
            }
            if algorithm == Some(Algorithm::TwoLevelWhole) {
                run.reach(Milestone::SummedAtAllSites);
            }
            if again {
                run.reach(Milestone::Recovered);
            }
        }
        // The call was a mistake: what runs under the tag goes on.
        Err(CallError::Usage(_)) => {}
        Err(why) => {
            let was_whole = whole.is_some();
            if let CallError::CollectiveRefused { reason, .. } = why {
                match reason {
                    CollectiveRefusal::NoSuchRoot { .. } => run.reach(Milestone::RootGone),
                    CollectiveRefusal::WorldChanged => run.reach(Milestone::LaidOutAnew),
                    CollectiveRefusal::TooLong { .. } => run.reach(Milestone::TooLong),
                    CollectiveRefusal::Disagreement { .. }
                    | CollectiveRefusal::NoWeight
                    | CollectiveRefusal::Conflict(_)
                    | CollectiveRefusal::NotJoined { .. } => {}
                    CollectiveRefusal::Withdrawn => run.reach(Milestone::AskedBack),
                }
            }
            if was_whole && matches!(why, CallError::Aborted { .. }) {
                run.reach(Milestone::RestoredWhole);
            }
            if *why == CallError::MasterLost {
                run.reach(Milestone::LostMasterUndecided);
            }
        }
    }
}

pub(crate) fn before_message<S: Source>(run: &mut S, no: S::Place, message: &ToPeer) {
    match message {
        ToPeer::Verdict { tag, seq, verdict } => {
            let group = run.group(no);
            let known = run.ghost().verdicts.get(&(group, *tag));
            let differs = known.is_some_and(|(s, v)| s == seq && v != verdict);
            if differs {
                run.breaks(Claim::Agreement);
            }
        }
        ToPeer::SharedStateConcluded { round, .. } => run.conclude(*round),
        ToPeer::SharedStatePlan(plan) => {
            let strategy = run.strategy(no);
            let wrong = match &plan.role {
                SyncRole::Request { entries, .. } => {
                    !entries.is_empty() && strategy == Some(SyncStrategy::SendOnly)
                }
                SyncRole::Distribute { .. } => strategy == Some(SyncStrategy::ReceiveOnly),
            };
            if wrong {
                run.breaks(Claim::Sources);
            }
            match (&plan.role, strategy) {
                (SyncRole::Distribute { to }, Some(SyncStrategy::SendOnly)) if !to.is_empty() => {
                    run.reach(Milestone::SenderServed);
                }
                (SyncRole::Request { from, .. }, Some(SyncStrategy::ReceiveOnly))
                    if !from.is_empty() =>
                {
                    run.reach(Milestone::ReceiverTook);
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
        seat.connection.down.queue.iter().any(on_its_way)
            || seat.peer.view().tags().any(|known| known.seq == Some(seq))
    });
    let known = run.state.ghost.verdicts.get(&(group, tag));
    if !awaited && known.is_some_and(|(s, _)| *s == seq) {
        run.state.ghost.edit().verdicts.remove(&(group, tag));
    }
}

/// A peer's ring is that of all others in its epoch, with the same sites, and its links are to members, those of the
/// ring among them, and the same lanes at both ends.
pub(crate) fn adopted<S: Source>(run: &mut S, no: S::Place, me: PeerId) {
    let mine = run.topology(no);
    let links: Vec<LinkId> = run.standing(no).iter().map(|lanes| lanes.link).collect();
    let to_next = mine.ring.next_of(me).map(LinkId::to);
    let from_previous = mine.ring.previous_of(me).map(LinkId::from);
    let mut of_ring = to_next.into_iter().chain(from_previous);
    let is_to_member = |link: &LinkId| link.with != me && mine.ring.rank_of(link.with).is_some();
    let links = of_ring.all(|link| links.contains(&link)) && links.iter().all(is_to_member);
    let group = run.group(no);
    let mut others = run.places().into_iter().filter(|other| *other != no);
    let same = others.all(|other| {
        let theirs = run.topology(other);
        let alike = run.group(other) == group && theirs.epoch == mine.epoch;
        let same_ring = theirs.ring == mine.ring && theirs.sites == mine.sites;
        !alike || run.id(other).is_none() || (same_ring && meets(run, no, other))
    });
    if !links || !same {
        run.breaks(Claim::OneView);
    }
    epochs(run, no);
}

/// If one sends to the other on standing lanes, the other receives on the same, and the other way round.
fn meets<S: Source>(run: &S, no: S::Place, other: S::Place) -> bool {
    let (Some(me), Some(them)) = (run.id(no), run.id(other)) else {
        return true;
    };
    let built = |at: S::Place, link: LinkId| {
        let standing = run.standing(at);
        let mut lanes = standing.iter().filter(|lanes| lanes.link == link);
        lanes.next().map(|lanes| lanes.built)
    };
    built(no, LinkId::to(them)) == built(other, LinkId::from(me))
        && built(no, LinkId::from(them)) == built(other, LinkId::to(me))
}

/// All participants of an execution run it on one ring.
pub(crate) fn plan_runs<S: Source>(run: &mut S, no: S::Place, seq: Seq) {
    let mine = &run.topology(no).ring;
    let mut places = run.places().into_iter();
    let same = places.all(|at| !run.performs(at, seq) || run.topology(at).ring == *mine);
    if !same {
        run.breaks(Claim::OneView);
    }
}
