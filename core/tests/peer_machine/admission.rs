//! Calls that wait: for what was given up, and for their turn.

use crate::desk::*;

const OTHER: CallId = CallId(77);

/// The tags that were voted for.
fn voted_for(out: &[PeerOutput]) -> Vec<Tag> {
    let tags = sent(out).into_iter().filter_map(|message| match message {
        ToMaster::InitiateCollective { tag, .. } => Some(*tag),
        _ => None,
    });
    tags.collect()
}

fn refused(tag: u64, reason: CollectiveRefusal) -> ToPeer {
    let tag = Tag(tag);
    ToPeer::CollectiveRefused { tag, reason }
}

/// A desk that synchronizes, though nobody waits for it any more.
fn abandoned_sync() -> Desk {
    let mut desk = Desk::accepted();
    desk.calls(Call::SyncSharedState(sync_vote()));
    let out = desk.gives_up(&Call::SyncSharedState(sync_vote()));
    assert!(out.is_empty());
    desk
}

/// A desk whose first collectives are in flight, as many as may be.
fn crowded() -> Desk {
    let mut desk = Desk::accepted();
    for tag in 1..=u64::from(COLLECTIVES_AT_ONCE) {
        assert_eq!(voted_for(&desk.calls(initiate(tag))), [Tag(tag)]);
    }
    desk
}

#[test]
fn an_update_that_was_given_up_answers_the_next_one() {
    let mut desk = Desk::accepted();
    desk.calls(Call::UpdateTopology);
    desk.gives_up(&Call::UpdateTopology);

    let joined = desk.calls_as(OTHER, Call::UpdateTopology);
    let out = desk.hears(established(1, &[1, 2, 3], &FIRST_LINKS));

    let answer = Answer::TopologyUpdated(Ok(topology(1, &[1, 2, 3])));
    let call = OTHER;
    assert!(joined.is_empty(), "its vote stands: {joined:?}");
    assert_eq!(out.last(), Some(&PeerOutput::Answer { call, answer }));
    assert_eq!(answers(&out).len(), 1);
}

#[test]
fn a_question_that_was_given_up_answers_the_next_one() {
    let mut desk = Desk::accepted();
    desk.calls(Call::ArePeersPending);
    desk.gives_up(&Call::ArePeersPending);

    let joined = desk.calls_as(OTHER, Call::ArePeersPending);
    let out = desk.hears(ToPeer::PeersPending { pending: true });

    let answer = Answer::PeersPending(Ok(true));
    let call = OTHER;
    assert!(joined.is_empty());
    assert_eq!(out, [PeerOutput::Answer { call, answer }]);
}

#[test]
fn a_call_waits_for_a_major_call_of_another_kind_that_was_given_up() {
    for call in [Call::UpdateTopology, initiate(1), initiate(2)] {
        let mut desk = abandoned_sync();

        let waits = desk.calls(call.clone());
        let waiting: Vec<_> = desk.peer.view().waiting().collect();
        let starts = desk.hears(conclusion(Err(SyncFailure::TimedOut)));

        assert!(waits.is_empty());
        assert_eq!(waiting, [name_of(call.kind())]);
        assert_eq!(sent(&starts).len(), 1, "{starts:?}");
        assert!(answers(&starts).is_empty(), "{starts:?}");
    }
}

#[test]
fn a_synchronization_votes_again_when_the_one_before_was_given_up() {
    let mut desk = abandoned_sync();

    let waits = desk.calls_as(OTHER, Call::SyncSharedState(sync_vote()));
    let starts = desk.hears(conclusion(Ok(Revision(3))));

    assert!(waits.is_empty());
    assert_eq!(sent(&starts), [&ToMaster::SyncSharedState(sync_vote())]);
    assert!(answers(&starts).is_empty());
}

#[test]
fn a_call_waits_for_a_collective_that_was_given_up() {
    for call in [
        Call::UpdateTopology,
        Call::OptimizeTopology,
        Call::SyncSharedState(sync_vote()),
        initiate(1),
    ] {
        let mut desk = performing();
        desk.gives_up(&initiate(1));

        let waits = desk.calls(call.clone());
        let aborted = Verdict::Aborted(AbortCause::Cancelled(ME));
        let starts = desk.hears(verdict(1, 9, aborted));

        assert!(waits.is_empty());
        assert_eq!(sent(&starts).len(), 1, "{call:?}: {starts:?}");
    }
}

#[test]
fn a_call_does_not_wait_for_a_collective_that_is_wanted() {
    let mut desk = performing();
    desk.calls(initiate(2));
    desk.gives_up(&initiate(1));

    let out = desk.calls(Call::UpdateTopology);

    let why = CallError::Usage(Usage::PendingCollectives);
    assert_eq!(out, [to_caller(Answer::TopologyUpdated(Err(why)))]);
}

#[test]
fn what_waits_excludes_what_it_would_exclude_in_flight() {
    let mut major_waits = abandoned_sync();
    major_waits.calls(Call::UpdateTopology);
    let mut collective_waits = abandoned_sync();
    collective_waits.calls(initiate(1));
    let before = (major_waits.peer.clone(), collective_waits.peer.clone());

    let optimize = major_waits.calls(Call::OptimizeTopology);
    let reduce = major_waits.calls(initiate(1));
    let update = collective_waits.calls(Call::UpdateTopology);
    let same_tag = collective_waits.calls_as(OTHER, initiate(1));

    let usage = CallError::Usage;
    let busy = || usage(Usage::Busy);
    assert_eq!(
        optimize,
        [to_caller(Answer::TopologyOptimized(Err(busy())))]
    );
    assert_eq!(reduce, [ended(1, Err(busy()))]);
    let why = usage(Usage::PendingCollectives);
    assert_eq!(update, [to_caller(Answer::TopologyUpdated(Err(why)))]);
    let result = Err(usage(Usage::TagInUse(Tag(1))));
    let (call, tag) = (OTHER, Tag(1));
    let answer = Answer::CollectiveEnded { tag, result };
    assert_eq!(same_tag, [PeerOutput::Answer { call, answer }]);
    assert_eq!((major_waits.peer, collective_waits.peer), before);
}

#[test]
fn a_call_that_is_given_up_while_it_waits_was_never_made() {
    for call in [Call::UpdateTopology, initiate(1)] {
        let mut desk = abandoned_sync();
        let before = desk.peer.clone();
        desk.calls(call.clone());

        let out = desk.gives_up(&call);
        let after = desk.peer.clone();
        let ends = desk.hears(conclusion(Err(SyncFailure::TimedOut)));

        assert!(out.is_empty() && ends.is_empty());
        assert_eq!(after, before);
    }
}

#[test]
fn collectives_beyond_the_most_in_flight_start_in_the_order_of_their_calls() {
    let mut desk = crowded();

    let waits: Vec<_> = [9, 7, 8]
        .into_iter()
        .flat_map(|tag| desk.calls(initiate(tag)))
        .collect();
    let reason = CollectiveRefusal::NotJoined { peers: Vec::new() };
    let starts: Vec<_> = [1, 3, 2]
        .into_iter()
        .map(|tag| voted_for(&desk.hears(refused(tag, reason.clone()))))
        .collect();

    assert!(waits.is_empty());
    assert_eq!(starts, [[Tag(9)], [Tag(7)], [Tag(8)]]);
}

#[test]
fn a_collective_that_was_given_up_counts_as_in_flight_until_it_has_ended() {
    let mut desk = crowded();
    desk.gives_up(&initiate(1));

    let waits = desk.calls(initiate(9));
    let starts = desk.hears(refused(1, CollectiveRefusal::Withdrawn));

    assert!(waits.is_empty());
    assert_eq!(voted_for(&starts), [Tag(9)]);
}

#[test]
fn a_collective_that_waits_for_its_tag_holds_up_no_other() {
    let mut desk = Desk::accepted();
    desk.calls(initiate(1));
    desk.gives_up(&initiate(1));

    let again = desk.calls(initiate(1));
    let other = desk.calls(initiate(2));
    let freed = desk.hears(refused(1, CollectiveRefusal::Withdrawn));

    assert!(again.is_empty());
    assert_eq!(voted_for(&other), [Tag(2)]);
    assert_eq!(voted_for(&freed), [Tag(1)]);
}

#[test]
fn what_waits_is_answered_when_the_run_ends() {
    let mut desk = crowded();
    desk.calls(initiate(9));
    desk.calls(initiate(8));
    desk.gives_up(&initiate(2));
    let mut syncing = abandoned_sync();
    syncing.calls(Call::UpdateTopology);

    let out = desk.gets(PeerInput::MasterDisconnected);
    let late = syncing.gets(PeerInput::MasterDisconnected);

    let lost = || Err(CallError::MasterLost);
    let expected = [1, 3, 9, 8].map(|tag| ended(tag, lost()));
    assert_eq!(out[..4], expected);
    assert_eq!(answers(&out).len(), 4);
    let why = CallError::MasterLost;
    assert_eq!(answers(&late), [&Answer::TopologyUpdated(Err(why))]);
}

#[test]
fn transfers_of_a_synchronization_that_is_given_up_fail_and_are_forgotten() {
    let mut desk = Desk::accepted();
    let call = Call::SyncSharedState(sync_vote());
    desk.calls(call.clone());
    desk.hears(ToPeer::SharedStatePlan(plan(fetch_one())));

    let out = desk.gives_up(&call);
    let (round, ok, with) = (Round(5), true, None);
    let late = desk.gets(PeerInput::TransfersEnded { round, ok, with });
    let told = desk.hears(conclusion(Err(SyncFailure::TransferFailed { peer: ME })));

    let failed = ToMaster::SharedStateDone {
        round,
        ok: false,
        with,
    };
    assert_eq!(
        out,
        [PeerOutput::DropState { round }, PeerOutput::Send(failed)]
    );
    assert!(late.is_empty() && told.is_empty());
    assert!(desk.peer.view().is_idle());
}

#[test]
fn what_was_fetched_is_forgotten_once_if_its_synchronization_is_given_up_after_its_report() {
    let mut desk = Desk::accepted();
    let call = Call::SyncSharedState(sync_vote());
    desk.calls(call.clone());
    desk.hears(ToPeer::SharedStatePlan(plan(fetch_one())));
    let (round, ok, with) = (Round(5), true, None);
    desk.gets(PeerInput::TransfersEnded { round, ok, with });

    let out = desk.gives_up(&call);
    let told = desk.hears(conclusion(Ok(Revision(3))));

    assert_eq!(out, [PeerOutput::DropState { round }]);
    assert!(told.is_empty(), "nothing is written: {told:?}");
}

#[test]
fn nobody_moves_what_is_planned_for_a_synchronization_that_was_given_up() {
    let mut desk = abandoned_sync();

    let out = desk.hears(ToPeer::SharedStatePlan(plan(fetch_one())));

    let (round, ok, with) = (Round(5), false, None);
    let failed = ToMaster::SharedStateDone { round, ok, with };
    assert_eq!(out, [PeerOutput::Send(failed)]);
}

#[test]
fn who_gives_up_connecting_is_not_told_that_it_was_admitted() {
    let mut desk = Desk::registered();
    desk.gives_up(&Call::Connect);

    desk.hears(establish(1, &[to(3), from(1)]));
    desk.gets(link_up(1, to(3)));
    desk.gets(link_up(1, from(1)));
    let out = desk.hears(established(1, &[1, 2, 3], &FIRST_LINKS));

    assert!(answers(&out).is_empty());
    assert_eq!(desk.peer.view().phase(), PeerPhase::Accepted);
}
