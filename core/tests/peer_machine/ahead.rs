//! A collective that is called again: what begins before the master has heard of it, and what becomes of that.

use crate::desk::*;

/// The number that the first execution reserves for the next.
const NEXT: u64 = 12;

/// A peer whose first collective was committed with a reservation.
fn may_repeat() -> Desk {
    let mut desk = Desk::accepted();
    desk.calls(initiate(1));
    desk.hears(commence(1, 9));
    desk.gets(plan_ended(9, PlanOutcome::Done));
    desk.hears(verdict(1, 9, committed_with_next(1, NEXT)));
    assert!(desk.peer.view().is_idle());
    desk
}

/// The same peer, which has called it again and runs it.
fn ahead() -> Desk {
    let mut desk = may_repeat();
    let out = desk.calls(initiate(1));
    assert_eq!(begun(&out), [(NEXT, true)]);
    desk
}

/// The executions that begin, and whether ahead.
fn begun(out: &[PeerOutput]) -> Vec<(u64, bool)> {
    let begins = |output: &PeerOutput| match output {
        PeerOutput::RunPlan { seq, ahead, .. } => Some((seq.0, *ahead)),
        _ => None,
    };
    out.iter().filter_map(begins).collect()
}

fn stop(seq: u64) -> PeerOutput {
    let seq = Seq(seq);
    PeerOutput::StopPlan { seq }
}

fn confirm() -> PeerOutput {
    let call = name_of_tag(Tag(1));
    let seq = Seq(NEXT);
    PeerOutput::Confirm { call, seq }
}

fn refused(tag: u64) -> ToPeer {
    let (tag, reason) = (Tag(tag), CollectiveRefusal::WorldChanged);
    ToPeer::CollectiveRefused { tag, reason }
}

#[test]
fn the_same_call_is_voted_for_and_begins_at_once() {
    let mut desk = may_repeat();

    let called = desk.calls(initiate(1));
    let commenced = desk.hears(commence(1, NEXT));
    let done = desk.gets(plan_ended(NEXT, PlanOutcome::Done));
    let told = desk.hears(verdict(1, NEXT, committed(1)));

    let is_vote = |output: &PeerOutput| {
        matches!(
            output,
            PeerOutput::Send(ToMaster::InitiateCollective { .. })
        )
    };
    assert!(is_vote(&called[0]), "the master hears of it first");
    assert_eq!((begun(&called), called.len()), (vec![(NEXT, true)], 2));
    assert_eq!(commenced, [confirm()]);
    let vote = completion(NEXT, PlanOutcome::Done, BrokenLinks::NONE);
    assert_eq!(done, [vote]);
    assert_eq!(told[0], stop(NEXT));
    assert!(desk.peer.view().is_idle());
}

fn withdrawal() -> PeerOutput {
    PeerOutput::Send(ToMaster::Withdraw { tag: Tag(1) })
}

/// The same peer, which has the result before the collective commences.
fn done_ahead() -> Desk {
    let mut desk = ahead();
    let out = desk.gets(plan_ended(NEXT, PlanOutcome::Done));
    let vote = completion(NEXT, PlanOutcome::Done, BrokenLinks::NONE);
    assert_eq!(out, [vote]);
    desk
}

#[test]
fn whoever_is_done_votes_before_it_commences_and_not_again() {
    let mut desk = done_ahead();

    let commenced = desk.hears(commence(1, NEXT));
    let told = desk.hears(verdict(1, NEXT, committed(1)));

    assert_eq!(commenced, [confirm()]);
    assert_eq!(told[0], stop(NEXT));
    assert!(desk.peer.view().is_idle());
}

/// There is nothing to abort before it commences.
#[test]
fn a_failure_ahead_is_voted_on_when_it_commences() {
    let mut desk = ahead();

    let ended = desk.gets(plan_ended(NEXT, PlanOutcome::LaneLost));
    let commenced = desk.hears(commence(1, NEXT));

    assert!(ended.is_empty());
    let vote = completion(NEXT, PlanOutcome::LaneLost, BrokenLinks::NONE);
    assert_eq!(commenced, [confirm(), vote]);
}

/// It has the whole result, so the others may have theirs.
#[test]
fn a_vote_ahead_counts_if_the_call_is_given_up_too_late() {
    let mut desk = done_ahead();

    let given_up = desk.gives_up(&initiate(1));
    let commenced = desk.hears(commence(1, NEXT));
    let told = desk.hears(verdict(1, NEXT, committed(1)));

    assert_eq!(given_up, [withdrawal()]);
    assert!(commenced.is_empty(), "{commenced:?}");
    assert_eq!(told, [stop(NEXT)], "and nobody waits for the answer");
}

#[test]
fn a_vote_ahead_is_void_with_the_call_if_it_is_given_up_in_time() {
    let mut desk = done_ahead();

    desk.gives_up(&initiate(1));
    let (tag, reason) = (Tag(1), CollectiveRefusal::Withdrawn);
    let told = desk.hears(ToPeer::CollectiveRefused { tag, reason });

    assert_eq!(told, [stop(NEXT)]);
    assert!(desk.peer.view().is_idle());
}

#[test]
fn a_caller_that_asks_for_its_vote_back_is_told_what_came_of_it() {
    let call = name_of_tag(Tag(1));
    let (tag, reason) = (Tag(1), CollectiveRefusal::Withdrawn);
    let mut in_time = done_ahead();
    let mut too_late = done_ahead();

    let asked = in_time.gets(PeerInput::Withdraw { call });
    let refused = in_time.hears(ToPeer::CollectiveRefused {
        tag,
        reason: reason.clone(),
    });
    too_late.gets(PeerInput::Withdraw { call });
    let commenced = too_late.hears(commence(1, NEXT));
    let told = too_late.hears(verdict(1, NEXT, committed(1)));

    assert_eq!(asked, [withdrawal()]);
    let result = Err(CallError::CollectiveRefused { tag, reason });
    let answer = Answer::CollectiveEnded { tag, result };
    assert_eq!(refused, [stop(NEXT), PeerOutput::Answer { call, answer }]);
    assert_eq!(commenced, [confirm()]);
    let is_committed = |output: &PeerOutput| match output {
        PeerOutput::Answer { answer, .. } => {
            matches!(answer, Answer::CollectiveEnded { result: Ok(_), .. })
        }
        _ => false,
    };
    assert!(told.iter().any(is_committed), "{told:?}");
}

#[test]
fn a_vote_to_start_is_asked_back_only_while_it_waits() {
    let call = name_of_tag(Tag(1));
    let mut idle = may_repeat();
    let mut running = done_ahead();
    running.hears(commence(1, NEXT));
    let mut void = done_ahead();
    void.hears(established(1, &[1, 2, 3], &FIRST_LINKS));

    assert!(idle.gets(PeerInput::Withdraw { call }).is_empty());
    assert!(running.gets(PeerInput::Withdraw { call }).is_empty());
    let asked = void.gets(PeerInput::Withdraw { call });
    assert_eq!(asked, [withdrawal()], "it waits to start on the new ring");
}

#[test]
fn another_number_for_the_same_call_makes_what_was_begun_void() {
    for has_ended in [false, true] {
        let mut desk = ahead();
        if has_ended {
            desk.gets(plan_ended(NEXT, PlanOutcome::Done));
        }

        let out = desk.hears(commence(1, 13));
        let late = desk.gets(plan_ended(NEXT, PlanOutcome::Done));

        assert_eq!(out[0], stop(NEXT));
        assert_eq!(begun(&out), [(13, false)]);
        assert!(late.is_empty(), "that run is nobody's");
    }
}

#[test]
fn another_collective_that_commences_makes_what_was_begun_void() {
    let mut desk = ahead();
    let second = desk.calls(initiate(2));

    let out = desk.hears(commence(2, 13));
    let first = desk.hears(commence(1, 14));

    assert!(begun(&second).is_empty(), "it is not alone");
    assert_eq!(out[0], stop(NEXT));
    assert_eq!(begun(&out), [(13, false)]);
    assert_eq!(begun(&first), [(14, false)]);
}

#[test]
fn what_was_begun_is_stopped_by_a_refusal_another_ring_and_whoever_gives_it_up() {
    let same_ring = established(1, &[1, 2, 3], &FIRST_LINKS);
    type End = fn(&mut Desk) -> Vec<PeerOutput>;
    let ends: [End; 3] = [
        |desk| desk.hears(refused(1)),
        |desk| desk.gives_up(&initiate(1)),
        |desk| desk.gets(PeerInput::MasterDisconnected),
    ];
    for end in ends {
        let mut desk = ahead();
        let out = end(&mut desk);
        assert_eq!(out[0], stop(NEXT), "{out:?}");
        assert_eq!(
            out.iter().filter(|output| **output == stop(NEXT)).count(),
            1
        );
    }
    let mut desk = ahead();

    let out = desk.hears(same_ring);
    let commenced = desk.hears(commence(1, 13));

    assert_eq!(out[0], stop(NEXT), "before its lanes go");
    assert_eq!(begun(&commenced), [(13, false)]);
}

#[test]
fn a_call_that_was_given_up_and_commences_all_the_same_fails_on_all() {
    let mut desk = ahead();
    desk.gives_up(&initiate(1));

    let out = desk.hears(commence(1, NEXT));

    let vote = completion(NEXT, PlanOutcome::Cancelled, BrokenLinks::NONE);
    assert_eq!(out, [stop(NEXT), vote]);
}

#[test]
fn what_is_not_the_same_waits_for_the_others() {
    let another = |change: fn(&mut CollectiveSpec)| {
        let mut spec = spec();
        change(&mut spec);
        let tag = Tag(1);
        Call::Initiate { tag, spec }
    };
    let mut broken = may_repeat();
    broken.gets(link_broke(to(3), 1));
    let mut beside_another = may_repeat();
    beside_another.calls(initiate(2));
    let mut after_another = may_repeat();
    after_another.calls(initiate(2));
    after_another.hears(commence(2, 13));
    after_another.gets(plan_ended(13, PlanOutcome::Done));
    after_another.hears(verdict(2, 13, committed(1)));
    let mut on_another_ring = may_repeat();
    on_another_ring.hears(established(1, &[1, 2, 3], &FIRST_LINKS));
    let cases = [
        ("longer", may_repeat(), another(|spec| spec.count += 1)),
        (
            "another operation",
            may_repeat(),
            another(|spec| spec.op = ReduceOp::Max),
        ),
        ("another tag", may_repeat(), initiate(3)),
        ("a lane is lost", broken, initiate(1)),
        ("another is open", beside_another, initiate(1)),
        ("another has run", after_another, initiate(1)),
        ("a ring was established", on_another_ring, initiate(1)),
    ];
    for (why, mut desk, call) in cases {
        let out = desk.calls(call);

        assert_eq!(sent(&out).len(), 1, "{why}");
        assert!(begun(&out).is_empty(), "{why}");
    }
}

#[test]
fn a_reservation_is_used_once() {
    let mut desk = ahead();
    desk.gets(plan_ended(NEXT, PlanOutcome::Done));
    desk.hears(commence(1, NEXT));
    desk.hears(verdict(1, NEXT, committed(1)));

    let out = desk.calls(initiate(1));

    assert!(begun(&out).is_empty());
}

#[test]
fn a_master_that_reserves_nonsense_or_uses_a_number_twice_misbehaves() {
    let misbehaved = Some(&PeerOutput::Close);
    let reserving = |next: Reserved| {
        let mut desk = Desk::accepted();
        desk.calls(initiate(1));
        desk.hears(commence(1, 9));
        desk.gets(plan_ended(9, PlanOutcome::Done));
        let (epoch, next) = (Epoch(1), Some(next));
        desk.hears(verdict(1, 9, Verdict::Committed { epoch, next }))
    };
    let direct = Reserved {
        algorithm: Algorithm::Direct,
        ..reserved(12)
    };

    assert_eq!(reserving(reserved(9)).last(), misbehaved, "an old number");
    assert_eq!(
        reserving(direct).last(),
        misbehaved,
        "links that are not there"
    );
    let mut desk = ahead();
    desk.calls(initiate(2));
    assert_eq!(desk.hears(commence(2, NEXT)).last(), misbehaved);
    let mut desk = ahead();
    let (tag, seq) = (Tag(1), Seq(NEXT));
    let other = ToPeer::Commence {
        tag,
        seq,
        algorithm: Algorithm::Ring,
        lengths: Lengths::NONE,
        total_weight: 0,
    };
    assert_eq!(desk.hears(other).last(), misbehaved, "another algorithm");
}
