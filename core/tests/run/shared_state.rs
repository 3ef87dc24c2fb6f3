//! Shared state: elections, strategies, restarts, failed transfers.

use pccl_core::id::{ContentHash, GroupId, Revision};
use pccl_core::messages::Misdeed;
use pccl_core::peer::{Answer, Call, CallError};
use pccl_core::shared_state::{EntryInfo, EntryMismatch, SyncFailure, SyncStrategy};

use crate::harness::{Run, SeatNo, shared};

use SyncStrategy::{EnforcePopular, ReceiveOnly, SendOnly};

/// Gives each seat one entry with this content, at this revision.
pub(crate) fn hold(run: &mut Run, no: SeatNo, revision: u64, hash: u128) {
    let memory = &mut run.seats[no].memory;
    memory.revision = Revision(revision);
    memory.entries = vec![shared("weights", hash)];
}

pub(crate) fn sync(run: &mut Run, no: SeatNo, strategy: SyncStrategy) {
    let call = run.seats[no].sync_call(strategy);
    run.call(no, call);
}

pub(crate) fn sync_all(run: &mut Run, strategy: SyncStrategy) {
    for no in run.accepted() {
        run.answers(no);
        sync(run, no, strategy);
    }
    run.settle();
}

pub(crate) fn revision_of(run: &mut Run, no: SeatNo) -> Result<Revision, CallError> {
    match run.outcome(no) {
        Answer::Synchronized(result) => result.map(|synchronized| synchronized.revision),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn content(run: &Run, no: SeatNo) -> Vec<u128> {
    let entries = run.seats[no].memory.entries.iter();
    entries.map(|entry| entry.hash.0).collect()
}

pub(crate) fn failed(failure: SyncFailure) -> Result<Revision, CallError> {
    Err(CallError::SyncFailed(failure))
}

/// Peers 0 and 1 reach revision 5 and die; peer 2 holds a checkpoint of revision 3.
fn newest_state_lost() -> Run {
    let mut run = Run::with_accepted_peers(1, 2);
    for no in [0, 1] {
        hold(&mut run, no, 5, 50);
    }
    sync_all(&mut run, EnforcePopular);
    run.join_many(2, GroupId(0));
    for no in [2, 3] {
        hold(&mut run, no, 3, 30);
    }
    run.lose(0);
    run.lose(1);
    run.settle();
    run
}

#[test]
fn the_most_popular_content_wins_and_travels_to_the_others() {
    let mut run = Run::with_accepted_peers(1, 3);
    hold(&mut run, 0, 0, 7);
    hold(&mut run, 1, 0, 8);
    hold(&mut run, 2, 0, 8);

    sync_all(&mut run, EnforcePopular);

    for no in 0..3 {
        assert_eq!(revision_of(&mut run, no), Ok(Revision(0)));
        assert_eq!(content(&run, no), [8]);
    }
}

#[test]
fn the_current_revision_comes_before_popular_content_of_an_older_one() {
    let mut run = Run::with_accepted_peers(1, 3);
    sync_all(&mut run, EnforcePopular);
    hold(&mut run, 0, 1, 9);

    sync_all(&mut run, EnforcePopular);

    for no in 0..3 {
        assert_eq!(revision_of(&mut run, no), Ok(Revision(1)));
        assert_eq!(content(&run, no), [9]);
    }
}

/// M-7: the vote of a peer that died does not count.
#[test]
fn a_departed_peers_content_cannot_win() {
    let mut run = Run::with_accepted_peers(1, 3);
    hold(&mut run, 0, 0, 7);
    hold(&mut run, 1, 0, 8);
    hold(&mut run, 2, 0, 8);
    sync(&mut run, 1, EnforcePopular);
    sync(&mut run, 2, EnforcePopular);
    run.settle();

    run.lose(2);
    run.settle();
    sync(&mut run, 0, EnforcePopular);
    run.settle();

    // One against one: the lowest number decides, where the departed would have made it two.
    assert_eq!(content(&run, 1), [7]);
    assert_eq!(revision_of(&mut run, 1), Ok(Revision(0)));
}

/// M-8: only receive-only peers remain after a death.
#[test]
fn receive_only_peers_that_are_left_alone_are_told_so() {
    let mut run = Run::with_accepted_peers(1, 3);
    sync(&mut run, 1, ReceiveOnly);
    sync(&mut run, 2, ReceiveOnly);
    run.settle();

    run.lose(0);
    run.settle();

    for no in [1, 2] {
        assert_eq!(revision_of(&mut run, no), failed(SyncFailure::NobodyToSend));
    }
}

#[test]
fn a_send_only_peer_wins_against_the_majority() {
    let mut run = Run::with_accepted_peers(1, 4);
    hold(&mut run, 2, 0, 5);
    sync(&mut run, 2, SendOnly);
    for no in [0, 1, 3] {
        sync(&mut run, no, EnforcePopular);
    }

    run.settle();

    assert!((0..4).all(|no| content(&run, no) == [5]));
}

#[test]
fn two_send_only_peers_that_differ_fail_the_call_for_all() {
    let mut run = Run::with_accepted_peers(1, 3);
    hold(&mut run, 0, 0, 5);
    hold(&mut run, 1, 0, 6);
    sync(&mut run, 0, SendOnly);
    sync(&mut run, 1, SendOnly);
    sync(&mut run, 2, ReceiveOnly);

    run.settle();

    let (one, other) = (run.id(0), run.id(1));
    for no in 0..3 {
        let failure = SyncFailure::SendersDiffer { one, other };
        assert_eq!(revision_of(&mut run, no), failed(failure));
    }
    assert_eq!((content(&run, 0), content(&run, 2)), (vec![5], vec![100]));
}

/// M-9: whoever is left may go on from an older checkpoint when all agree.
#[test]
fn a_run_whose_newest_state_is_lost_restarts_from_older_checkpoints_when_all_agree() {
    let mut run = newest_state_lost();

    for no in [2, 3] {
        let vote = run.seats[no].vote(EnforcePopular, true);
        run.call(no, Call::SyncSharedState(vote));
    }
    run.settle();

    for no in [2, 3] {
        assert_eq!(revision_of(&mut run, no), Ok(Revision(3)));
    }
    for no in [2, 3] {
        hold(&mut run, no, 4, 40);
    }
    sync_all(&mut run, EnforcePopular);
    assert_eq!(revision_of(&mut run, 2), Ok(Revision(4)));
}

/// M-9: where one has not agreed, everybody is told what was lost.
#[test]
fn a_restart_that_not_everybody_allows_is_refused_with_the_revisions() {
    let mut run = newest_state_lost();

    let vote = run.seats[2].vote(EnforcePopular, true);
    run.call(2, Call::SyncSharedState(vote));
    sync(&mut run, 3, EnforcePopular);
    run.settle();

    for no in [2, 3] {
        let (reached, offered) = (Revision(5), Revision(3));
        let failure = SyncFailure::RevisionLost { reached, offered };
        assert_eq!(revision_of(&mut run, no), failed(failure));
    }
}

/// The others hold what the group has reached, but a send-only peer lets nobody else's content win.
#[test]
fn a_send_only_peer_that_is_behind_is_named_to_all() {
    let mut run = Run::with_accepted_peers(1, 3);
    for no in 0..3 {
        hold(&mut run, no, 5, 50);
    }
    sync_all(&mut run, EnforcePopular);
    hold(&mut run, 2, 3, 30);
    for no in 0..3 {
        run.answers(no);
        sync(
            &mut run,
            no,
            if no == 2 { SendOnly } else { EnforcePopular },
        );
    }

    run.settle();

    let (reached, offered) = (Revision(5), Revision(3));
    let sender = run.id(2);
    for no in 0..3 {
        let failure = SyncFailure::SenderBehind {
            sender,
            reached,
            offered,
        };
        assert_eq!(revision_of(&mut run, no), failed(failure));
    }
}

#[test]
fn who_is_ahead_of_the_others_is_kicked_and_everybody_ahead_is_an_error() {
    let mut run = Run::with_accepted_peers(1, 3);
    sync_all(&mut run, EnforcePopular);
    for no in 0..3 {
        hold(&mut run, no, 2, 20);
    }
    sync_all(&mut run, EnforcePopular);
    let (expected, offered) = (Revision(1), Revision(2));
    for no in 0..3 {
        let failure = SyncFailure::RevisionSkipped { expected, offered };
        assert_eq!(revision_of(&mut run, no), failed(failure));
    }

    for no in [0, 1] {
        hold(&mut run, no, 1, 10);
    }
    sync_all(&mut run, EnforcePopular);

    let why = CallError::Kicked(Misdeed::RevisionAhead { expected, offered });
    assert_eq!(revision_of(&mut run, 2), Err(why));
    assert_eq!(revision_of(&mut run, 0), Ok(Revision(1)));
}

#[test]
fn a_newcomer_does_not_make_a_group_that_skipped_a_revision_lose_its_members() {
    let mut run = Run::with_accepted_peers(1, 2);
    sync_all(&mut run, EnforcePopular);
    for no in [0, 1] {
        hold(&mut run, no, 7, 70);
    }
    run.join_many(1, GroupId(0));

    sync_all(&mut run, EnforcePopular);

    let (expected, offered) = (Revision(1), Revision(7));
    for no in 0..3 {
        let failure = SyncFailure::RevisionSkipped { expected, offered };
        assert_eq!(revision_of(&mut run, no), failed(failure));
    }
}

/// What a peer is told whose entries differ in these from those of the others.
fn mismatch<const N: usize>(named: [EntryMismatch; N]) -> CallError {
    CallError::Kicked(Misdeed::StateMismatch {
        entries: u32::try_from(N).unwrap(),
        named: named.into(),
    })
}

fn it_alone_has(entry: &EntryInfo) -> EntryMismatch {
    EntryMismatch {
        name: entry.name.clone(),
        own: Some(entry.shape()),
        theirs: None,
    }
}

fn it_lacks(entry: &EntryInfo) -> EntryMismatch {
    EntryMismatch {
        own: None,
        theirs: Some(entry.shape()),
        ..it_alone_has(entry)
    }
}

#[test]
fn who_describes_other_entries_than_the_rest_is_kicked_with_their_number() {
    let mut run = Run::with_accepted_peers(1, 3);
    run.seats[2].memory.entries = vec![shared("bias", 1), shared("weights", 100)];

    sync_all(&mut run, EnforcePopular);

    let why = mismatch([it_alone_has(&shared("bias", 1))]);
    assert_eq!(revision_of(&mut run, 2), Err(why));
    assert_eq!(revision_of(&mut run, 0), Ok(Revision(0)));
}

/// Peers 0 to 2 have synchronized, and peer 3 has come since.
fn three_veterans_and_a_newcomer() -> Run {
    let mut run = Run::with_accepted_peers(1, 3);
    sync_all(&mut run, EnforcePopular);
    run.join_many(1, GroupId(0));
    for no in run.accepted() {
        run.answers(no);
    }
    run
}

#[test]
fn a_send_only_newcomer_with_other_entries_goes_and_not_the_group() {
    let mut run = three_veterans_and_a_newcomer();
    for no in 0..3 {
        hold(&mut run, no, 1, 10);
        sync(&mut run, no, EnforcePopular);
    }
    run.seats[3].memory.revision = Revision(1);
    run.seats[3].memory.entries = vec![shared("other", 1)];
    sync(&mut run, 3, SendOnly);

    run.settle();

    let why = mismatch([
        it_alone_has(&shared("other", 1)),
        it_lacks(&shared("weights", 100)),
    ]);
    assert_eq!(revision_of(&mut run, 3), Err(why));
    for no in 0..3 {
        assert_eq!(revision_of(&mut run, no), Ok(Revision(1)));
    }
}

/// Its checkpoint is of another program, whose revisions are further.
#[test]
fn a_newcomer_one_revision_ahead_with_other_entries_goes_and_not_the_group() {
    let mut run = three_veterans_and_a_newcomer();
    run.seats[3].memory.revision = Revision(1);
    run.seats[3].memory.entries = vec![shared("bias", 1), shared("weights", 100)];

    sync_all(&mut run, EnforcePopular);

    let why = mismatch([it_alone_has(&shared("bias", 1))]);
    assert_eq!(revision_of(&mut run, 3), Err(why));
    for no in 0..3 {
        assert_eq!(revision_of(&mut run, no), Ok(Revision(0)));
    }
}

/// The newcomer is right, and so are those that describe the same: the odd one of the group goes alone.
#[test]
fn a_newcomer_that_wins_does_not_save_the_odd_one_of_the_group() {
    let mut run = three_veterans_and_a_newcomer();
    run.seats[0].memory.entries = vec![shared("bias", 1), shared("weights", 100)];
    hold(&mut run, 3, 1, 10);
    for no in 0..3 {
        sync(&mut run, no, EnforcePopular);
    }
    sync(&mut run, 3, SendOnly);

    run.settle();

    let why = mismatch([it_alone_has(&shared("bias", 1))]);
    assert_eq!(revision_of(&mut run, 0), Err(why));
    for no in 1..4 {
        assert_eq!(revision_of(&mut run, no), Ok(Revision(1)));
    }
}

#[test]
fn an_entry_under_another_name_is_one_too_many_and_one_missing() {
    let mut run = Run::with_accepted_peers(1, 3);
    run.seats[2].memory.entries = vec![shared("weight", 100)];

    sync_all(&mut run, EnforcePopular);

    let why = mismatch([
        it_alone_has(&shared("weight", 100)),
        it_lacks(&shared("weights", 100)),
    ]);
    assert_eq!(revision_of(&mut run, 2), Err(why));
    assert_eq!(revision_of(&mut run, 0), Ok(Revision(0)));
}

/// S-2: entries in which peers may differ are not compared, but travel to a newcomer.
#[test]
fn what_peers_may_differ_in_is_not_compared_but_travels_to_a_newcomer() {
    let local = |hash: u128| {
        let shuffle = EntryInfo {
            allow_content_inequality: true,
            hash: ContentHash(hash),
            ..shared("shuffle", 0)
        };
        vec![shuffle, shared("weights", 100)]
    };
    let mut run = Run::with_accepted_peers(1, 2);
    run.seats[0].memory.entries = local(1);
    run.seats[1].memory.entries = local(2);
    sync_all(&mut run, EnforcePopular);
    assert_eq!(
        (content(&run, 0), content(&run, 1)),
        (vec![1, 100], vec![2, 100])
    );

    run.join_many(1, GroupId(0));
    run.seats[2].memory.entries = local(3);
    sync_all(&mut run, EnforcePopular);

    assert_eq!(
        (content(&run, 0), content(&run, 1)),
        (vec![1, 100], vec![2, 100])
    );
    let newcomers = content(&run, 2);
    assert!(
        newcomers == [1, 100] || newcomers == [2, 100],
        "{newcomers:?}"
    );
    run.seats[2].memory.entries = local(4);
    sync_all(&mut run, EnforcePopular);
    assert_eq!(content(&run, 2), [4, 100], "it is a newcomer once");
}

#[test]
fn a_transfer_that_cannot_be_made_costs_a_retry_with_another_source() {
    let mut run = Run::with_accepted_peers(1, 3);
    hold(&mut run, 2, 0, 1);
    run.faults.blocked.insert((0, 2));
    let mut attempts = 0;
    loop {
        attempts += 1;
        sync_all(&mut run, EnforcePopular);
        let results: Vec<_> = (0..3).map(|no| revision_of(&mut run, no)).collect();
        assert!(
            results.windows(2).all(|two| two[0] == two[1]),
            "one end for all: {results:?}"
        );
        if results[0].is_ok() {
            break;
        }
        let peer = run.id(2);
        assert_eq!(results[0], failed(SyncFailure::TransferFailed { peer }));
        assert_eq!(content(&run, 2), [1], "nothing was written");
        assert!(attempts < 4, "another source would have helped");
    }
    assert_eq!(content(&run, 2), [100]);
}

#[test]
fn a_requester_that_dies_frees_its_source() {
    for seed in 1..30 {
        let mut run = Run::with_accepted_peers(seed, 3);
        hold(&mut run, 2, 0, 1);
        for no in 0..3 {
            sync(&mut run, no, EnforcePopular);
        }
        let steps = run.roll(20);
        run.steps(steps);

        run.lose(2);
        run.settle();

        for no in [0, 1] {
            assert!(run.peer(no).view().is_idle(), "seed {seed}");
        }
    }
}

#[test]
fn a_tie_goes_to_the_content_of_the_peer_that_is_longest_in_the_run() {
    for contents in [[7, 8, 8, 7], [8, 7, 7, 8], [7, 7, 8, 8], [9, 7, 8, 6]] {
        let mut run = Run::with_accepted_peers(1, 4);
        for (no, hash) in contents.into_iter().enumerate() {
            hold(&mut run, no, 0, hash);
        }

        sync_all(&mut run, EnforcePopular);

        for no in 0..4 {
            assert_eq!(content(&run, no), [contents[0]]);
        }
    }
}
