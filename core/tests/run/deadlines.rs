//! M-13: every state in which the master waits has a deadline, and a stopped process is noticed.

use pccl_core::id::GroupId;
use pccl_core::master::{Ballot, MasterTimer};
use pccl_core::messages::{Misdeed, Refusal, ToPeer};
use pccl_core::peer::{Answer, Call};
use pccl_core::states::ConnectionState;

use crate::deaths::{STORIES, catch_up};
use crate::harness::{Run, SeatNo, Wire, reduce};

/// Is the process still part of the run in the master's eyes?
fn is_known(run: &Run, no: SeatNo) -> bool {
    run.seats[no]
        .id
        .is_some_and(|id| run.master.view().peer(id).is_some())
}

fn others_wait(run: &Run) -> bool {
    let mut others = run.accepted().into_iter();
    others.any(|no| !run.seats[no].peer.view().is_idle())
}

/// Fires every deadline that runs, heartbeats apart. False: none did.
fn fire_deadlines(run: &mut Run) -> bool {
    let timers = run.timers().iter().copied();
    let deadlines: Vec<_> = timers
        .filter(|timer| match timer {
            MasterTimer::HeartbeatDue | MasterTimer::Silence(_) => false,
            MasterTimer::Ballot(_)
            | MasterTimer::Wiring(_)
            | MasterTimer::RetryWiring(_)
            | MasterTimer::Optimization(_)
            | MasterTimer::SharedState(_)
            | MasterTimer::Collective(_) => true,
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

#[test]
fn a_newcomer_that_never_reports_is_refused_when_the_time_for_wiring_is_over() {
    let mut run = Run::with_accepted_peers(1, 2);
    let newcomer = run.join(GroupId(0));
    run.settle();
    run.freeze(newcomer);

    run.call_all(&[0, 1], &Call::UpdateTopology);
    run.settle();
    let wiring = run
        .timers()
        .iter()
        .find(|timer| matches!(timer, MasterTimer::Wiring(_)));
    let wiring = *wiring.expect("the wiring has a deadline");
    run.fire(wiring);
    run.settle();

    let told =
        |wire: &Wire<ToPeer>| matches!(wire, Wire::Message(ToPeer::Refused(Refusal::NoReport)));
    assert!(run.seats[newcomer].down.iter().any(told));
    for no in [0, 1] {
        assert!(matches!(run.outcome(no), Answer::TopologyUpdated(Ok(_))));
    }
}

#[test]
fn who_misses_a_ballot_is_kicked_with_that_reason_and_who_waits_elsewhere_is_not() {
    let mut run = Run::with_accepted_peers(1, 3);
    run.call(0, Call::UpdateTopology);
    run.call(1, Call::UpdateTopology);
    run.settle();

    run.fire(MasterTimer::Ballot(Ballot::UpdateTopology));
    run.settle();

    let why = run.seats[2].peer.view().ended().cloned();
    assert_eq!(
        why,
        Some(pccl_core::peer::CallError::Kicked(Misdeed::MissedBallot))
    );
    for no in [0, 1] {
        assert!(matches!(run.outcome(no), Answer::TopologyUpdated(Ok(_))));
    }
}

#[test]
fn a_ballot_does_not_punish_those_who_reduce() {
    let mut run = Run::new(1);
    run.join_many(2, GroupId(0));
    run.join_many(2, GroupId(1));
    run.call_all(&[0, 1], &Call::UpdateTopology);
    run.call(2, reduce(1));
    run.call(3, reduce(2));
    run.settle();

    run.fire(MasterTimer::Ballot(Ballot::UpdateTopology));
    run.settle();

    assert!((0..4).all(|no| run.is_accepted(no)));
}

#[test]
fn no_deadline_outlives_the_last_peer_that_waits_for_a_better_ring() {
    for seed in 0..20 {
        let mut run = Run::with_accepted_peers(seed, 3);
        run.call_all(&[0, 1, 2], &Call::OptimizeTopology);
        let has_measured = |run: &Run, no: SeatNo| {
            let peer = run.master.view().peer(run.id(no));
            peer.map(|peer| peer.state()) == Some(ConnectionState::VoteCompleteTopologyOptimization)
        };
        while !(0..3).all(|no| has_measured(&run, no)) {
            run.step();
        }

        for no in 0..3 {
            run.lose(no);
        }
        while run.master.view().peers().next().is_some() {
            run.step();
        }

        assert!(run.timers().is_empty(), "{:?}", run.timers());
    }
}
