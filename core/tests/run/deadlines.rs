//! M-13: every state in which the master waits has a deadline, and a stopped process is noticed.

use pccl_core::id::{GroupId, Tag};
use pccl_core::master::{MasterConfig, MasterTimer};
use pccl_core::messages::{Misdeed, Refusal, ToPeer};
use pccl_core::peer::{Answer, Call, CallError, PeerInput, PeerTimer};
use pccl_core::shared_state::SyncStrategy;
use pccl_core::states::ConnectionState;

use crate::deaths::{STORIES, catch_up};
use crate::harness::{Run, SeatNo, reduce};

/// Is the process still part of the run in the master's eyes?
fn is_known(run: &Run, no: SeatNo) -> bool {
    run.seats[no]
        .id
        .is_some_and(|id| run.master().view().peer(id).is_some())
}

fn others_wait(run: &Run) -> bool {
    let mut others = run.accepted().into_iter();
    others.any(|no| !run.peer(no).view().is_idle())
}

/// Fires every deadline that runs, heartbeats apart. False: none did.
fn fire_deadlines(run: &mut Run) -> bool {
    let timers = run.timers().iter().copied();
    let deadlines: Vec<_> = timers
        .filter(|timer| match timer {
            MasterTimer::HeartbeatDue | MasterTimer::MeasurementsAge | MasterTimer::Silence(_) => {
                false
            }
            MasterTimer::Late(_)
            | MasterTimer::Wiring(_)
            | MasterTimer::RetryWiring(_)
            | MasterTimer::Solver(_) => true,
        })
        .collect();
    for timer in &deadlines {
        // An earlier one may have ended what this one was for.
        if run.timers().contains(timer) {
            run.fire(*timer);
            run.settle();
        }
    }
    !deadlines.is_empty()
}

/// Freezes each peer after each number of steps of each story, and lets `notice` free the others.
fn freeze_everywhere(seed: u64, notice: fn(&mut Run, SeatNo, &str)) {
    for (name, story) in STORIES {
        let mut whole = story(seed);
        loop {
            for victim in 0..whole.seats.len() {
                let mut run = whole.clone();
                run.freeze(victim);
                run.settle();
                catch_up(&mut run);
                notice(&mut run, victim, name);
                assert!(!others_wait(&run), "{name}: the others wait for ever");
            }
            if !whole.step() {
                break;
            }
        }
    }
}

#[test]
fn whatever_a_peer_was_doing_when_it_froze_its_silence_is_noticed() {
    freeze_everywhere(1, |run, victim, _| {
        if let Some(id) = run.seats[victim].id.filter(|_| is_known(run, victim)) {
            run.fire(MasterTimer::Silence(id));
            run.settle();
            catch_up(run);
        }
    });
}

#[test]
fn whatever_a_peer_was_doing_when_it_froze_deadlines_free_the_others() {
    freeze_everywhere(1, |run, victim, name| {
        for _ in 0..6 {
            if !others_wait(run) {
                return;
            }
            assert!(fire_deadlines(run), "{name}: no deadline for {victim}");
            catch_up(run);
        }
    });
}

/// Neither of its neighbours hears anything of it, in two attempts.
#[test]
fn a_newcomer_that_never_reports_is_refused_when_the_time_for_wiring_is_over() {
    let mut run = Run::with_accepted_peers(1, 2);
    let newcomer = run.join(GroupId(0));
    run.settle();
    run.freeze(newcomer);

    run.call_all(&[0, 1], &Call::UpdateTopology);
    for _ in 0..2 {
        run.settle();
        let timers = run.timers().iter();
        let mut wirings = timers.filter(|timer| matches!(timer, MasterTimer::Wiring(_)));
        let wiring = *wirings.next().expect("the wiring has a deadline");
        run.fire(wiring);
    }
    run.settle();

    let told = |message: &ToPeer| {
        matches!(
            message,
            ToPeer::Refused(Refusal::CannotBeReached { .. } | Refusal::CannotReach { .. })
        )
    };
    assert!(run.seats[newcomer].connection.down.queue.iter().any(told));
    for no in [0, 1] {
        assert!(matches!(run.outcome(no), Answer::TopologyUpdated(Ok(_))));
    }
}

fn late(run: &Run, no: SeatNo) -> MasterTimer {
    MasterTimer::Late(run.id(no))
}

#[test]
fn who_misses_a_ballot_is_kicked_with_that_reason_and_who_waits_elsewhere_is_not() {
    let mut run = Run::with_accepted_peers(1, 3);
    run.call(0, Call::UpdateTopology);
    run.call(1, Call::UpdateTopology);
    run.settle();

    run.fire(late(&run, 2));
    run.settle();

    let why = run.peer(2).view().ended().cloned();
    assert_eq!(why, Some(CallError::Kicked(Misdeed::MissedBallot)));
    for no in [0, 1] {
        assert!(matches!(run.outcome(no), Answer::TopologyUpdated(Ok(_))));
    }
}

#[test]
fn a_ballot_does_not_punish_those_who_reduce() {
    let mut run = Run::new(1);
    run.join_many(2, GroupId(0));
    run.join_many(2, GroupId(1));
    run.call_all(&[2, 3], &reduce(1));
    while run.master().view().running(GroupId(1)).next().is_none() {
        run.step();
    }
    run.call_all(&[0, 1], &Call::UpdateTopology);
    for no in [0, 1] {
        while run.seats[no].connection.up.queue.front().is_some() {
            run.step();
        }
    }

    let kicks = [2, 3].map(|no| late(&run, no));
    let running = run.master().view().running(GroupId(1)).next().is_some();
    for timer in kicks {
        // Its time for the reduce runs, not one for the ballot.
        assert!(!running || run.timers().contains(&timer));
    }
    run.settle();

    assert!((0..4).all(|no| run.is_accepted(no)));
}

/// One that is far ahead waits for all others; they do what they have to.
#[test]
fn no_more_peers_are_kicked_for_their_votes_than_wait_for_them() {
    let mut run = Run::with_accepted_peers(1, 5);
    run.call(0, Call::UpdateTopology);
    run.settle();

    for no in 1..5 {
        run.fire(late(&run, no));
        run.settle();
    }
    assert!(
        (0..5).all(|no| run.is_accepted(no)),
        "four would go for one"
    );

    run.call_all(&[1, 2], &Call::UpdateTopology);
    run.settle();
    for no in 3..5 {
        run.fire(late(&run, no));
        run.settle();
    }
    assert!((0..5).all(|no| run.is_accepted(no) == (no < 3)));
    assert!(matches!(run.outcome(0), Answer::TopologyUpdated(Ok(_))));
}

/// The ballot is old when the second peer comes to it, and that peer has all the time again.
#[test]
fn who_has_just_become_idle_has_all_the_time_for_its_vote() {
    let mut run = Run::with_accepted_peers(1, 2);
    run.call_all(&[0, 1], &reduce(1));
    run.settle();
    run.call(0, reduce(2));
    run.settle();
    let since = |run: &Run| run.timers().contains(&late(run, 1));
    assert!(since(&run));

    let sync = run.seats[1].sync_call(SyncStrategy::EnforcePopular);
    run.call(1, sync);
    run.settle();

    // Its call made the other one give way, which then waits for nobody.
    assert!(!since(&run));
    assert!(run.is_accepted(1));
}

/// The peer shows that it lives, and its ring goes on nowhere.
#[test]
fn who_neither_moves_nor_votes_is_kicked_for_it_where_the_others_have_voted() {
    let mut run = Run::with_accepted_peers(1, 3);
    run.call_all(&[0, 1, 2], &reduce(1));
    let votes = |run: &Run| run.master().view().running(GroupId(0)).next().is_some();
    while !votes(&run) {
        run.step();
    }
    run.hold_back(2);
    run.settle();

    run.fire(late(&run, 2));
    run.settle();

    let why = run.peer(2).view().ended().cloned();
    assert_eq!(why, Some(CallError::Kicked(Misdeed::Stalled)));
    run.call_all(&[0, 1], &reduce(2));
    run.settle();
    assert_eq!(run.watch.commits, 2);
}

/// Nobody is through: it may be anybody's fault, so all try again.
#[test]
fn a_collective_that_nobody_gets_through_is_aborted_for_all_and_costs_nobody_the_run() {
    let mut run = Run::with_accepted_peers(1, 3);
    run.call_all(&[0, 1, 2], &reduce(1));
    while run.master().view().running(GroupId(0)).next().is_none() {
        run.step();
    }

    run.fire(late(&run, 1));
    run.settle();

    assert!((0..3).all(|no| run.is_accepted(no)));
    assert_eq!(run.watch.aborts, 3);
}

#[test]
fn a_peer_that_moves_bytes_has_all_the_time_again() {
    let mut run = Run::with_accepted_peers(1, 2);
    run.call_all(&[0, 1], &reduce(1));
    while run.master().view().running(GroupId(0)).next().is_none() {
        run.step();
    }
    let before = run.restarts(late(&run, 0));

    run.give(0, PeerInput::Moved);
    run.give(0, PeerInput::TimerFired(PeerTimer::HeartbeatDue));
    while run.seats[0].connection.up.queue.front().is_some() {
        run.step();
    }

    assert!(run.restarts(late(&run, 0)) > before);
}

#[test]
fn a_vote_that_was_taken_back_is_waited_for_by_nobody() {
    let mut run = Run::with_accepted_peers(1, 2);
    run.call(0, reduce(1));
    run.settle();
    assert!(run.timers().contains(&late(&run, 1)));

    run.give_up(0, Tag(1));
    run.settle();

    assert!(!run.timers().contains(&late(&run, 1)));
    assert!(run.answers(0).is_empty(), "nobody waits for the answer");
    assert!(run.peer(0).view().is_idle());
}

/// Its answer says to call again, for which it has the time.
#[test]
fn who_was_told_that_others_did_not_join_is_not_kicked_at_once() {
    let mut run = Run::with_accepted_peers(1, 2);
    run.call(0, reduce(1));
    run.call(1, reduce(2));
    run.settle();

    run.fire(late(&run, 0));
    run.settle();

    let Answer::CollectiveEnded { tag, .. } = run.outcome(1) else {
        panic!("what lacked its vote was refused");
    };
    assert_eq!(tag, Tag(2));
    assert!(run.is_accepted(0) && run.is_accepted(1));
    assert!(run.timers().contains(&late(&run, 1)), "and waits anew");
    run.call(1, reduce(1));
    run.settle();
    assert_eq!(run.watch.commits, 2);
}

/// The group of the others is not concerned by what it loads.
#[test]
fn a_newcomer_that_loads_its_data_holds_up_no_update() {
    let mut run = Run::new(1);
    run.join_many(2, GroupId(0));
    run.join_many(1, GroupId(1));
    let loads = run.join(GroupId(1));
    run.settle();
    run.call_all(&[0, 1, 2], &Call::UpdateTopology);
    run.settle();
    assert!(run.is_accepted(loads));
    let visitor = run.join(GroupId(0));
    run.settle();
    for no in [0, 1, 2] {
        run.answers(no);
    }

    run.call_all(&[0, 1, 2], &Call::UpdateTopology);
    run.settle();

    for no in [0, 1, 2] {
        assert!(matches!(run.outcome(no), Answer::TopologyUpdated(Ok(_))));
    }
    assert!(run.is_accepted(visitor));
    run.call(loads, Call::UpdateTopology);
    run.call_all(&[2, loads], &reduce(1));
    run.settle();
    assert_eq!(run.watch.commits, 2);
}

/// The first peers wait where the others do not come, until the third conflict.
#[test]
fn the_documented_retry_loop_goes_on_beside_a_newcomer_that_synchronizes() {
    for seed in 1..20 {
        let mut run = Run::with_config(seed, MasterConfig::rings_only());
        run.join_many(3, GroupId(0));
        for no in 0..3 {
            let sync = run.seats[no].sync_call(SyncStrategy::EnforcePopular);
            run.call(no, sync);
        }
        run.settle();
        let newcomer = run.join(GroupId(0));
        run.settle();
        run.call_all(&[0, 1, 2], &Call::UpdateTopology);
        run.settle();
        let sync = run.seats[newcomer].sync_call(SyncStrategy::EnforcePopular);
        run.call(newcomer, sync);
        run.settle();

        let mut conflicts = 0;
        while run.watch.commits == 0 {
            for no in 0..3 {
                run.answers(no);
            }
            run.call_all(&[0, 1, 2], &reduce(1));
            run.settle();
            if run.watch.commits == 0 {
                conflicts += 1;
                run.call_all(&[0, 1, 2], &Call::UpdateTopology);
                run.settle();
            }
            assert!(conflicts < 4, "seed {seed}: no end of it");
        }

        run.call_all(&[0, 1, 2], &Call::UpdateTopology);
        run.settle();
        for no in 0..3 {
            let sync = run.seats[no].sync_call(SyncStrategy::EnforcePopular);
            run.call(no, sync);
        }
        run.settle();
        assert!(run.is_accepted(newcomer));
        assert!(matches!(
            run.answers(newcomer).last(),
            Some(Answer::Synchronized(Ok(_)))
        ));
    }
}

#[test]
fn no_deadline_outlives_the_last_peer_that_waits_for_a_better_ring() {
    for seed in 0..20 {
        let mut run = Run::with_accepted_peers(seed, 3);
        run.call_all(&[0, 1, 2], &Call::OptimizeTopology);
        let has_measured = |run: &Run, no: SeatNo| {
            let peer = run.master().view().peer(run.id(no));
            peer.map(|peer| peer.state()) == Some(ConnectionState::VoteCompleteTopologyOptimization)
        };
        while !(0..3).all(|no| has_measured(&run, no)) {
            run.step();
        }

        for no in 0..3 {
            run.lose(no);
        }
        while run.master().view().peers().next().is_some() {
            run.step();
        }

        assert!(run.timers().is_empty(), "{:?}", run.timers());
    }
}
