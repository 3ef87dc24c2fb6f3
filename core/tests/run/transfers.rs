//! Transfers of shared state that fail: which pair is not tried again, and who has to go.

use std::collections::BTreeSet;

use pccl_core::id::{GroupId, Revision};
use pccl_core::master::{MasterConfig, MasterTimer};
use pccl_core::messages::Misdeed;
use pccl_core::peer::{Answer, Call, CallError};
use pccl_core::shared_state::{SyncFailure, SyncStrategy::EnforcePopular};
use pccl_core::states::ConnectionState;

use crate::harness::{Run, SeatNo, shared};
use crate::shared_state::{content, hold, revision_of, sync_all};

/// Peers 0 to `veterans` − 1 have synchronized; so many newcomers come, each with other
/// content.
fn with_newcomers(seed: u64, veterans: usize, newcomers: usize) -> Run {
    let mut run = Run::with_accepted_peers(seed, veterans);
    sync_all(&mut run, EnforcePopular);
    run.join_many(newcomers, GroupId(0));
    for no in veterans..veterans + newcomers {
        hold(&mut run, no, 0, no as u128);
    }
    run
}

/// The same with a master that gives a requester two holders, however little it lacks.
fn with_two_holders_each(seed: u64, veterans: usize, newcomers: usize) -> Run {
    let config = MasterConfig {
        transfer_share_min: 1,
        transfer_holders_max: 2,
        ..MasterConfig::rings_only()
    };
    let mut run = Run::with_config(seed, config);
    run.join_many(veterans, GroupId(0));
    sync_all(&mut run, EnforcePopular);
    run.join_many(newcomers, GroupId(0));
    for no in veterans..veterans + newcomers {
        hold(&mut run, no, 0, no as u128);
    }
    run
}

/// Nothing can be fetched between these; rings can be connected.
fn block(run: &mut Run, one: SeatNo, others: impl IntoIterator<Item = SeatNo>) {
    for other in others {
        let pair = (one.min(other), one.max(other));
        run.faults.untransferable.insert(pair);
    }
}

/// Synchronizes as a loop does, with an update before. Did it succeed for all that are left?
fn attempt(run: &mut Run) -> bool {
    run.update_all();
    synchronize(run);
    let mut answered = run.accepted();
    answered.retain(|no| !run.is_aside(*no));
    let results: Vec<_> = (answered.into_iter())
        .map(|no| revision_of(run, no))
        .collect();
    assert!(
        results.windows(2).all(|two| two[0] == two[1]),
        "{results:?}"
    );
    let succeeded = results.iter().all(Result::is_ok);
    let failed = |result: &Result<Revision, CallError>| {
        let why = result.as_ref().err();
        matches!(
            why,
            Some(CallError::SyncFailed(
                SyncFailure::TransferFailed { .. } | SyncFailure::TimedOut
            ))
        )
    };
    assert!(succeeded || results.iter().all(failed), "{results:?}");
    succeeded
}

/// Everybody that is accepted synchronizes; who comes back from being set aside waits in its call already.
fn synchronize(run: &mut Run) {
    for no in run.accepted() {
        if run.peer(no).view().is_idle() {
            run.answers(no);
            let call = run.seats[no].sync_call(EnforcePopular);
            run.call(no, call);
        }
    }
    run.settle();
}

/// How many attempts fail before one succeeds.
fn failures(run: &mut Run) -> usize {
    (0..20).take_while(|_| !attempt(run)).count()
}

/// Everybody synchronizes, until this one is told from whom it fetches.
fn begin_to_fetch(run: &mut Run, requester: SeatNo) -> SeatNo {
    for no in run.accepted() {
        run.answers(no);
        let call = run.seats[no].sync_call(EnforcePopular);
        run.call(no, call);
    }
    loop {
        if let Some(holder) = run.fetches_from(requester) {
            return holder;
        }
        assert!(run.step());
    }
}

fn is_sent_away(run: &mut Run, no: SeatNo) -> bool {
    let why = CallError::Kicked(Misdeed::Unfetchable);
    run.peer(no).view().ended() == Some(&why)
}

#[test]
fn a_pair_that_failed_is_not_tried_again_where_there_is_another_holder() {
    for seed in 1..20 {
        for blocked in [0, 1] {
            let mut run = with_newcomers(seed, 2, 1);
            block(&mut run, 2, [blocked]);

            let failures = failures(&mut run);

            assert!(failures < 2, "seed {seed}: {failures} failures");
            assert_eq!(run.accepted(), [0, 1, 2], "seed {seed}");
        }
    }
}

/// It waits itself, and the answer would never come otherwise.
#[test]
fn who_is_set_aside_is_told_that_somebody_waits_if_it_had_asked() {
    let mut run = with_newcomers(1, 2, 2);
    block(&mut run, 2, [0, 1, 3]);
    for _ in 0..20 {
        run.update_all();
        let calling = run.accepted().into_iter();
        for no in calling
            .filter(|no| run.peer(*no).view().is_idle())
            .collect::<Vec<_>>()
        {
            let call = run.seats[no].sync_call(EnforcePopular);
            run.call(no, call);
        }
        while run.fetches_from(2).is_none() && run.step() {}
        run.answers(2);
        run.call(2, Call::ArePeersPending);
        run.settle();
        if run.is_aside(2) {
            break;
        }
    }
    assert!(run.is_aside(2));

    assert_eq!(run.answers(2), [Answer::PeersPending(Ok(true))]);
}

#[test]
fn every_holder_is_tried_before_anybody_goes() {
    for seed in 1..20 {
        let mut run = with_newcomers(seed, 6, 1);
        block(&mut run, 6, [0, 1, 2, 4, 5]);

        let failures = failures(&mut run);

        assert!(failures < 6, "seed {seed}: {failures} failures");
        assert_eq!(run.accepted().len(), 7, "seed {seed}");
    }
}

#[test]
fn who_failed_with_eight_holders_goes_however_many_there_are() {
    let mut run = with_newcomers(1, 20, 1);
    block(&mut run, 20, 0..20);

    assert_eq!(failures(&mut run), 8);

    assert!(is_sent_away(&mut run, 20));
    assert_eq!(run.accepted().len(), 20);
}

#[test]
fn a_newcomer_that_failed_with_every_holder_goes_and_the_others_go_on() {
    for (veterans, failing) in [(1, 2), (2, 2), (3, 3)] {
        let mut run = with_newcomers(1, veterans, 1);
        block(&mut run, veterans, 0..veterans);

        assert_eq!(failures(&mut run), failing, "{veterans} holders");

        assert!(is_sent_away(&mut run, veterans), "{veterans} holders");
        assert_eq!(run.accepted().len(), veterans);
    }
}

#[test]
fn a_veteran_that_failed_with_every_holder_goes_after_three_attempts() {
    let mut run = with_newcomers(1, 3, 0);
    hold(&mut run, 2, 0, 1);
    block(&mut run, 2, [0, 1]);

    assert_eq!(failures(&mut run), 3);

    assert!(is_sent_away(&mut run, 2));
    assert_eq!(run.accepted(), [0, 1]);
}

/// Peers 0 and 1 hold the content. Peer 2, which has been in the group, and the newcomer 3 can fetch
/// it from neither. Of the pairs that fail in an attempt the master hears of one, so that either may
/// be the first to have failed with both.
#[test]
fn no_veteran_goes_while_a_newcomer_has_to() {
    let mut newcomers_first = 0;
    for seed in 1..40 {
        let mut run = with_newcomers(seed, 3, 1);
        hold(&mut run, 2, 0, 1);
        block(&mut run, 2, [0, 1]);
        block(&mut run, 3, [0, 1]);

        let mut gone = 0;
        for _ in 0..20 {
            let succeeded = attempt(&mut run);
            let [veteran, newcomer] = [2, 3].map(|no| is_sent_away(&mut run, no));
            newcomers_first += u32::from(newcomer && !veteran);
            let before = std::mem::replace(&mut gone, u32::from(veteran) + u32::from(newcomer));
            assert!(
                succeeded || gone <= before + 1,
                "both go at once, seed {seed}"
            );
        }

        assert_eq!(run.accepted(), [0, 1], "seed {seed}");
    }
    assert!(newcomers_first > 0);
}

#[test]
fn a_holder_that_failed_with_two_is_not_chosen_where_there_is_another() {
    for seed in 1..20 {
        let mut run = with_newcomers(seed, 2, 6);
        block(&mut run, 0, 2..8);

        let failures = failures(&mut run);

        assert!(failures < 3, "seed {seed}: {failures} failures");
        assert_eq!(run.accepted().len(), 8, "seed {seed}");
    }
}

/// Nobody can fetch from the only holder: it is not left alone with itself.
#[test]
fn never_do_more_go_than_stay() {
    for newcomers in 1..6 {
        let mut run = with_newcomers(1, 1, newcomers);
        block(&mut run, 0, 1..=newcomers);

        failures(&mut run);

        let (all, stay) = (1 + newcomers, run.accepted().len());
        assert!(stay >= all.div_ceil(2), "{stay} of {all}");
    }
}

/// The newcomer fails with one holder, which is lost, and then with the other. With that one it failed once.
#[test]
fn what_failed_with_a_holder_that_is_gone_counts_no_more() {
    for seed in 1..20 {
        let mut run = with_newcomers(seed, 2, 1);
        block(&mut run, 2, [0, 1]);
        run.update_all();
        let holder = begin_to_fetch(&mut run, 2);
        run.settle();
        run.lose(holder);

        assert!(!attempt(&mut run), "seed {seed}");
        run.faults.untransferable.clear();

        assert!(attempt(&mut run), "seed {seed}");
        assert_eq!(run.accepted(), [1 - holder, 2], "seed {seed}");
    }
}

/// Peer 2 and its holder move nothing for as long as that is waited for. No other attempt has them move
/// anything: the other holder has it.
#[test]
fn who_was_overdue_with_one_holder_is_sent_to_another() {
    for seed in 1..20 {
        // The order in which holders have their turn is another one each time.
        for wasted in 0..3 {
            let mut run = with_newcomers(seed, 2, 1);
            run.update_all();
            let first = begin_to_fetch(&mut run, 2);
            let (requester, holder) = (run.id(2), run.id(first));
            run.fire(MasterTimer::Late(requester));
            run.settle();
            assert!(run.accepted().contains(&2), "seed {seed}");
            for _ in 0..wasted {
                run.update_all();
            }

            let second = begin_to_fetch(&mut run, 2);

            assert_eq!(second, 1 - first, "seed {seed}, {holder}");
        }
    }
}

#[test]
fn with_a_success_failed_pairs_are_forgotten() {
    let mut run = with_newcomers(1, 2, 0);
    for round in 1..4 {
        hold(&mut run, 1, 0, round);
        block(&mut run, 0, [1]);
        for _ in 0..2 {
            assert!(!attempt(&mut run));
        }
        run.faults.untransferable.clear();

        assert!(attempt(&mut run));
        assert_eq!(run.accepted(), [0, 1]);
    }
}

/// It moves nothing for as long as that is waited for, and does so again.
#[test]
fn who_holds_up_a_synchronization_twice_in_a_row_goes() {
    let mut run = with_newcomers(1, 2, 1);
    for _ in 0..2 {
        for no in run.accepted() {
            run.answers(no);
            let call = run.seats[no].sync_call(EnforcePopular);
            run.call(no, call);
        }
        let late = MasterTimer::Late(run.id(2));
        let fetches = |run: &Run| {
            let peer = run.master().view().peer(run.id(2));
            peer.is_some_and(|peer| peer.state() == ConnectionState::RequestSharedState)
        };
        while !fetches(&run) {
            assert!(run.step());
        }
        run.fire(late);
        run.settle();
    }

    assert!(attempt(&mut run));

    let why = CallError::Kicked(Misdeed::Stalled);
    assert_eq!(run.peer(2).view().ended(), Some(&why));
}

/// Seat 0 alone holds the content; one of three newcomers can fetch from everybody but it.
#[test]
fn who_cannot_reach_the_only_holder_fetches_from_those_that_have_fetched() {
    for seed in 1..20 {
        for blocked in 1..=3 {
            let mut run = with_newcomers(seed, 1, 3);
            block(&mut run, blocked, [0]);
            let elected = content(&run, 0);

            for _ in 0..4 {
                run.update_all();
                synchronize(&mut run);
            }

            let held: Vec<_> = (0..4).map(|no| content(&run, no)).collect();
            assert_eq!(held, vec![elected; 4], "seed {seed}, blocked {blocked}");
            run.update_all();
            assert_eq!(run.accepted(), [0, 1, 2, 3], "seed {seed}");
        }
    }
}

/// As before; and the others have nothing to give either, as nothing arrives from anybody.
#[test]
fn who_cannot_fetch_from_anybody_goes_after_the_others_have_fetched() {
    for seed in 1..20 {
        let mut run = with_newcomers(seed, 1, 3);
        block(&mut run, 2, [0, 1, 3]);

        for _ in 0..12 {
            run.update_all();
            synchronize(&mut run);
        }

        assert!(is_sent_away(&mut run, 2), "seed {seed}");
        assert_eq!(run.accepted(), [0, 1, 3], "seed {seed}");
    }
}

#[test]
fn much_is_fetched_from_several_holders_and_little_from_one() {
    for seed in 1..20 {
        let mut much = with_two_holders_each(seed, 3, 1);
        let mut little = with_newcomers(seed, 3, 1);

        begin_to_fetch(&mut much, 3);
        begin_to_fetch(&mut little, 3);

        let different: BTreeSet<SeatNo> = much.sources_of(3).into_iter().collect();
        assert_eq!((different.len(), much.sources_of(3).len()), (2, 2));
        assert_eq!(little.sources_of(3).len(), 1);
        much.settle();
        assert_eq!(content(&much, 3), [100], "seed {seed}");
    }
}

#[test]
fn who_cannot_reach_one_of_its_holders_takes_everything_from_the_other() {
    for seed in 1..20 {
        let mut run = with_two_holders_each(seed, 2, 1);
        block(&mut run, 2, [0]);

        assert!(attempt(&mut run), "seed {seed}");
        assert_eq!(content(&run, 2), [100], "seed {seed}");
    }
}

#[test]
fn who_failed_with_several_holders_at_once_fetches_from_one_at_a_time_until_a_success() {
    for seed in 1..20 {
        let mut run = with_two_holders_each(seed, 4, 2);
        block(&mut run, 4, [0, 1, 2, 3]);
        begin_to_fetch(&mut run, 4);
        assert_eq!(run.sources_of(4).len(), 2);
        run.settle();

        begin_to_fetch(&mut run, 4);
        assert_eq!(run.sources_of(4).len(), 1, "seed {seed}");
        run.settle();
        assert!(run.is_in_the_run(4), "nobody knows whose fault it is");

        run.faults.untransferable.clear();
        failures(&mut run);
        run.seats[4].memory.entries = vec![shared("weights", 7)];
        begin_to_fetch(&mut run, 4);
        assert_eq!(run.sources_of(4).len(), 2, "seed {seed}");
    }
}
