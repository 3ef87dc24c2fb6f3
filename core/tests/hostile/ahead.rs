//! Votes on what has not commenced: which the master takes, and whom the others harm.

use pccl_core::element::CollectiveSpec;
use pccl_core::id::{PeerId, Seq, Tag};
use pccl_core::master::MasterConfig;
use pccl_core::messages::{Misdeed, PlanOutcome, ToMaster, Verdict};
use pccl_core::topology::BrokenLinks;

use super::Bystander;
use super::run::{Run, SPEC, from, to};

/// The collective that `Run::reduces` repeats.
const TAG: u64 = 7;

/// Collectives that are repeated begin ahead.
pub(super) fn config() -> MasterConfig {
    MasterConfig {
        ahead_within_machine: true,
        ..MasterConfig::rings_only()
    }
}

/// Three peers that have reduced once, and may begin the next execution ahead; its number.
fn having_reduced() -> (Run, Seq) {
    let run = Run::on(Bystander::new(config()), 3);
    let (_, verdict) = run.bystander.verdicts.last_key_value().unwrap();
    let Verdict::Committed { next, .. } = verdict else {
        panic!("it was committed");
    };
    let seq = next.expect("the next one is reserved").seq;
    (run, seq)
}

#[test]
fn the_last_vote_to_start_decides_what_all_have_done() {
    let (mut run, seq) = having_reduced();

    for peer in [1, 2] {
        run.initiates(peer, TAG);
        run.completes(peer, seq);
    }
    run.initiates(3, TAG);
    assert!(!run.bystander.verdicts.contains_key(&seq), "one is missing");
    run.completes(3, seq);

    let verdict = &run.bystander.verdicts[&seq];
    assert!(matches!(verdict, Verdict::Committed { .. }), "{verdict:?}");
    assert_eq!(run.gone(), []);
}

#[test]
fn whoever_votes_ahead_on_what_it_has_not_called_goes_and_the_others_reduce() {
    let odd = |run: &mut Run| {
        let spec = CollectiveSpec { count: 11, ..SPEC };
        run.wants(2, TAG, spec);
    };
    let another = |run: &mut Run| run.initiates(2, TAG + 1);
    let nothing = |_: &mut Run| {};
    let calls: [&dyn Fn(&mut Run); 3] = [&odd, &another, &nothing];
    for calls in calls {
        let (mut run, seq) = having_reduced();
        calls(&mut run);

        run.completes(2, seq);

        assert_eq!(run.gone(), [(2, Misdeed::UnknownRound)]);
        run.reduces(&[1, 3]);
    }
}

#[test]
fn whoever_votes_ahead_twice_goes_and_the_others_reduce() {
    let (mut run, seq) = having_reduced();
    run.initiates(2, TAG);
    run.completes(2, seq);

    run.completes(2, seq);

    assert_eq!(run.gone(), [(2, Misdeed::DuplicateVote)]);
    run.reduces(&[1, 3]);
}

/// Before it commences there is nothing to abort.
#[test]
fn whoever_votes_ahead_that_it_failed_goes_and_the_others_reduce() {
    for outcome in [PlanOutcome::LaneLost, PlanOutcome::Cancelled] {
        let (mut run, seq) = having_reduced();
        run.initiates(2, TAG);

        run.votes(2, seq, outcome, BrokenLinks::NONE);

        assert_eq!(run.gone(), [(2, Misdeed::UnknownRound)]);
        run.reduces(&[1, 3]);
    }
}

/// Peer 1 has said that it is done, and takes its call back. What commences next has another number, and lacks its vote.
#[test]
fn a_vote_ahead_ends_with_the_vote_to_start() {
    let (mut run, seq) = having_reduced();
    for peer in [1, 2] {
        run.initiates(peer, TAG);
        run.completes(peer, seq);
    }
    let tag = Tag(TAG);

    run.says(1, ToMaster::Withdraw { tag });
    run.initiates(1, TAG);
    run.initiates(3, TAG);

    let (_, begun) = run.bystander.heard[&PeerId(1)];
    assert_ne!(begun, seq);
    assert!(!run.bystander.verdicts.contains_key(&seq));
    (1..=3).for_each(|peer| run.completes(peer, begun));
    assert!(run.bystander.verdicts.contains_key(&begun));
    assert_eq!(run.gone(), []);
}

/// What was decided, or became void, may be voted on by a peer that does not know it yet.
#[test]
fn a_late_vote_ahead_harms_nobody() {
    let (mut run, seq) = having_reduced();
    run.initiates(1, TAG);
    run.initiates(2, TAG);
    run.says(2, ToMaster::Withdraw { tag: Tag(TAG) });

    run.completes(1, seq);

    assert_eq!(run.gone(), []);
}

/// The others have had its link built anew before it says that the old one broke.
#[test]
fn a_vote_ahead_that_names_breaks_of_an_older_ring_has_no_ring_built_anew() {
    let (mut run, seq) = having_reduced();
    run.initiates(2, TAG);
    run.updates(1, BrokenLinks(vec![to(2)]));
    run.updates(3, BrokenLinks::NONE);
    run.all_connect();
    let round = run.round(2);
    assert!(round > run.round(3), "its link was built anew");

    run.votes(2, seq, PlanOutcome::Done, BrokenLinks(vec![from(1)]));
    run.initiates(1, TAG);
    run.initiates(3, TAG);

    assert_eq!(run.round(2), round);
    let (_, begun) = run.bystander.heard[&PeerId(1)];
    assert!(begun > seq, "it has commenced on the ring that stands");
    assert_eq!(run.gone(), []);
}
