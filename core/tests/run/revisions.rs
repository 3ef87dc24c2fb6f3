//! From which revision a group goes on: what is remembered of it, and what newcomers can claim.

use pccl_core::id::{GroupId, Revision};
use pccl_core::peer::Call;
use pccl_core::shared_state::{SyncFailure, SyncStrategy};

use crate::harness::{Run, SeatNo};
use crate::shared_state::{content, failed, hold, revision_of, sync, sync_all};

use SyncStrategy::{EnforcePopular, ReceiveOnly, SendOnly};

const GROUP: GroupId = GroupId(0);

/// Two peers come to revision 5 with content 50 and are lost; so many others come.
fn left_by_all(others: usize) -> Run {
    let mut run = Run::with_accepted_peers(1, 2);
    for no in [0, 1] {
        hold(&mut run, no, 5, 50);
    }
    sync_all(&mut run, EnforcePopular);
    for no in [0, 1] {
        run.lose(no);
    }
    run.settle();
    assert_eq!(run.master().view().revision(GROUP), Some(Revision(5)));
    run.join_many(others, GROUP);
    run
}

fn all_hold(run: &mut Run, seats: impl IntoIterator<Item = SeatNo>, revision: u64, hash: u128) {
    for no in seats {
        assert_eq!(revision_of(run, no), Ok(Revision(revision)), "seat {no}");
        assert_eq!(content(run, no), [hash], "seat {no}");
    }
}

#[test]
fn who_comes_first_to_a_group_that_was_left_by_all_does_not_set_it_back() {
    let mut run = left_by_all(1);
    hold(&mut run, 2, 0, 1);
    sync_all(&mut run, EnforcePopular);
    let (reached, offered) = (Revision(5), Revision(0));
    let lost = failed(SyncFailure::RevisionLost { reached, offered });
    assert_eq!(revision_of(&mut run, 2), lost);

    run.join_many(2, GROUP);
    hold(&mut run, 3, 5, 50);
    hold(&mut run, 4, 5, 50);
    sync_all(&mut run, EnforcePopular);

    all_hold(&mut run, 2..5, 5, 50);
}

#[test]
fn those_who_come_to_a_group_that_was_left_by_all_may_restart_it_together() {
    let mut run = left_by_all(2);
    for no in [2, 3] {
        hold(&mut run, no, 3, 30);
        let vote = run.seats[no].vote(EnforcePopular, true);
        run.call(no, Call::SyncSharedState(vote));
    }

    run.settle();

    all_hold(&mut run, 2..4, 3, 30);
    assert_eq!(run.master().view().revision(GROUP), Some(Revision(3)));
}

#[test]
fn what_a_group_held_when_all_left_wins_against_what_more_claim_it_held() {
    let mut run = left_by_all(4);
    for (no, hash) in [(2, 51), (3, 51), (4, 51), (5, 50)] {
        hold(&mut run, no, 5, hash);
    }

    sync_all(&mut run, EnforcePopular);

    all_hold(&mut run, 2..6, 5, 50);
}

#[test]
fn where_nobody_holds_what_a_group_held_the_most_popular_content_of_its_revision_wins() {
    let mut run = left_by_all(3);
    for (no, hash) in [(2, 51), (3, 52), (4, 52)] {
        hold(&mut run, no, 5, hash);
    }

    sync_all(&mut run, EnforcePopular);

    all_hold(&mut run, 2..5, 5, 52);
}

#[test]
fn a_group_that_was_left_by_all_may_come_back_with_its_next_revision() {
    let mut run = left_by_all(3);
    for (no, revision, hash) in [(2, 5, 50), (3, 6, 60), (4, 5, 50)] {
        hold(&mut run, no, revision, hash);
    }

    sync_all(&mut run, EnforcePopular);

    all_hold(&mut run, 2..5, 6, 60);
}

/// Peers 0 and 1 have synchronized at revision 4, and peer 2 comes with revision 5.
fn a_newcomer_one_ahead() -> Run {
    let mut run = Run::with_accepted_peers(1, 2);
    for no in [0, 1] {
        hold(&mut run, no, 4, 40);
    }
    sync_all(&mut run, EnforcePopular);
    run.join_many(1, GROUP);
    hold(&mut run, 2, 5, 55);
    for no in 0..3 {
        run.answers(no);
    }
    run
}

#[test]
fn a_newcomer_that_claims_the_next_revision_does_not_overwrite_a_group_that_repeats_its_own() {
    let mut run = a_newcomer_one_ahead();

    sync_all(&mut run, EnforcePopular);

    all_hold(&mut run, 0..3, 4, 40);
}

#[test]
fn one_veteran_that_went_on_raises_the_revision_for_all() {
    let mut run = a_newcomer_one_ahead();
    hold(&mut run, 1, 5, 50);

    sync_all(&mut run, EnforcePopular);

    // One against one at revision 5: the lower number decides.
    all_hold(&mut run, 0..3, 5, 50);
}

#[test]
fn a_send_only_newcomer_ahead_of_a_send_only_veteran_fails_the_call() {
    let mut run = a_newcomer_one_ahead();
    for (no, strategy) in [(0, SendOnly), (1, EnforcePopular), (2, SendOnly)] {
        sync(&mut run, no, strategy);
    }

    run.settle();

    let (one, other) = (run.id(0), run.id(2));
    for no in 0..3 {
        let why = SyncFailure::SendersDiffer { one, other };
        assert_eq!(revision_of(&mut run, no), failed(why));
    }
}

#[test]
fn a_newcomer_raises_the_revision_where_no_veteran_can_win() {
    for veterans in [ReceiveOnly, EnforcePopular] {
        let mut run = a_newcomer_one_ahead();
        for no in [0, 1] {
            sync(&mut run, no, veterans);
        }
        // Where a veteran could win, the newcomer has to insist.
        let insists = veterans == EnforcePopular;
        sync(&mut run, 2, if insists { SendOnly } else { EnforcePopular });

        run.settle();

        all_hold(&mut run, 0..3, 5, 55);
    }
}
