//! Who is waited for, and what gives it no more time.

use pccl_core::id::{PeerId, Seq, Tag};
use pccl_core::master::MasterTimer;
use pccl_core::messages::{AbortCause, Misdeed, PlanOutcome, ToMaster, Verdict};
use pccl_core::topology::{BrokenLinks, Way};

use super::run::{Run, Words};

/// What means nothing for whatever the peer owes.
const HARMLESS: [Words; 4] = [
    |run, peer| run.says(peer, ToMaster::Heartbeat { moved: false }),
    |run, peer| run.says(peer, ToMaster::Withdraw { tag: Tag(99) }),
    |run, peer| {
        let (round, link) = (run.round(peer), run.standing(peer, Way::Out));
        run.says(peer, ToMaster::LinkUp { round, link });
    },
    // That one was decided long ago.
    |run, peer| run.completes(peer, Seq(1)),
];

#[test]
fn who_says_what_is_no_vote_is_late_with_its_vote_all_the_same() {
    let votes_for_other_tags: Words = |run, peer| {
        run.initiates(peer, 2);
        run.says(peer, ToMaster::Withdraw { tag: Tag(2) });
    };
    let moves: Words = |run, peer| run.says(peer, ToMaster::Heartbeat { moved: true });
    // It is answered, as another waits for this peer.
    let asks: Words = |run, peer| run.says(peer, ToMaster::ArePeersPending);
    for word in HARMLESS
        .into_iter()
        .chain([votes_for_other_tags, moves, asks])
    {
        let mut run = Run::of(2);
        run.initiates(1, 1);
        assert!(run.is_timed(MasterTimer::Late(PeerId(2))));
        let before = run.starts(2);

        (0..100).for_each(|_| word(&mut run, 2));

        assert_eq!(run.starts(2), before);
        run.fires(MasterTimer::Late(PeerId(2)));
        assert_eq!(run.gone(), [(2, Misdeed::MissedBallot)]);
    }
}

#[test]
fn who_does_not_go_on_with_its_part_has_no_more_time_for_it() {
    for word in HARMLESS {
        let mut run = Run::of(3);
        (1..=3).for_each(|peer| run.initiates(peer, 1));
        let seq = run.bystander.heard[&PeerId(1)].1;
        run.completes(1, seq);
        run.completes(3, seq);
        let before = run.starts(2);

        (0..100).for_each(|_| word(&mut run, 2));

        assert_eq!(run.starts(2), before);
        run.fires(MasterTimer::Late(PeerId(2)));
        assert_eq!(run.gone(), [(2, Misdeed::Stalled)]);
    }
}

#[test]
fn who_ends_its_part_of_one_collective_has_all_the_time_for_the_next() {
    let mut run = Run::of(2);
    let seqs = [1, 2].map(|tag| {
        run.initiates(1, tag);
        run.initiates(2, tag);
        run.bystander.heard[&PeerId(2)].1
    });
    let before = run.starts(2);

    run.completes(2, seqs[0]);

    assert_eq!(run.starts(2), before + 1);
}

/// The master cannot tell such a peer from one that is slow. The others can give the collective up.
#[test]
fn who_says_for_ever_that_it_moves_bytes_is_never_late_with_its_part_and_others_may_give_up() {
    let mut run = Run::of(2);
    run.initiates(1, 1);
    run.initiates(2, 1);
    let late = MasterTimer::Late(PeerId(2));
    let before = run.bystander.starts[&late];

    run.says(2, ToMaster::Heartbeat { moved: false });
    let silent = run.bystander.starts[&late];
    for _ in 0..100 {
        run.says(2, ToMaster::Heartbeat { moved: true });
    }

    assert_eq!(silent, before);
    assert_eq!(run.bystander.starts[&late], before + 100);
    let seq = run.bystander.heard[&PeerId(1)].1;
    run.votes(1, seq, PlanOutcome::Cancelled, BrokenLinks::NONE);
    let aborted = Verdict::Aborted(AbortCause::Cancelled(PeerId(1)));
    assert_eq!(run.bystander.verdicts[&seq], aborted);
    assert_eq!(run.gone(), []);
}
