//! Nobody pays for what another peer did or could not do.

use pccl_core::id::GroupId;
use pccl_core::master::MasterTimer;
use pccl_core::peer::{Answer, Call};
use pccl_core::shared_state::SyncStrategy;

use crate::harness::{Run, SeatNo, reduce};

fn everybody_stays(run: &Run) -> bool {
    (0..run.seats.len()).all(|no| run.is_accepted(no))
}

/// From here on, nobody can open a lane to or from this process.
fn cut_off(run: &mut Run, no: SeatNo) {
    let others = (0..run.seats.len()).filter(|other| *other != no);
    let pairs: Vec<_> = others.map(|other| (other.min(no), other.max(no))).collect();
    run.faults.blocked.extend(pairs);
}

#[test]
fn who_is_busy_when_a_query_is_overdue_is_not_kicked_for_it() {
    let mut run = Run::new(1);
    run.join_many(2, GroupId(0));
    run.join_many(2, GroupId(1));
    run.call_all(&[0, 1, 2], &Call::ArePeersPending);
    run.call(2, reduce(1));
    run.call(3, reduce(2));
    run.settle();

    run.fire(MasterTimer::Late(run.id(3)));
    run.settle();

    assert!(everybody_stays(&run));
}

#[test]
fn a_peer_that_asks_while_the_others_synchronize_is_led_to_where_they_are() {
    let mut run = Run::with_accepted_peers(1, 3);
    run.call(2, Call::ArePeersPending);
    for no in [0, 1] {
        let sync = run.seats[no].sync_call(SyncStrategy::EnforcePopular);
        run.call(no, sync);
    }
    run.settle();

    assert_eq!(run.outcome(2), Answer::PeersPending(Ok(true)));
    run.call(2, Call::UpdateTopology);
    run.settle();

    // The others agree to the update, and go on waiting for what it comes to.
    let updated = run.outcome(2);
    assert!(
        matches!(updated, Answer::TopologyUpdated(Ok(_))),
        "{updated:?}"
    );
    let sync = run.seats[2].sync_call(SyncStrategy::EnforcePopular);
    run.call(2, sync);
    run.settle();
    for no in 0..3 {
        assert!(matches!(run.outcome(no), Answer::Synchronized(Ok(_))));
    }
}

#[test]
fn a_peer_that_still_runs_another_collective_is_waited_for() {
    let mut run = Run::with_accepted_peers(1, 2);
    run.call_all(&[0, 1], &reduce(1));
    run.call(0, reduce(2));
    let is_reducing = |run: &Run| run.master().view().running(GroupId(0)).next().is_some();
    while !(is_reducing(&run) && run.seats[0].connection.up.queue.is_empty()) {
        assert!(run.step(), "the first ended before the second was called");
    }

    assert!(
        is_reducing(&run),
        "nobody is late for the second while the first runs"
    );
    run.call(1, reduce(2));
    run.settle();

    assert_eq!(run.watch.commits, 4);
}

#[test]
fn a_pair_that_could_not_be_connected_is_measured_again_before_a_ring_relies_on_it() {
    let mut run = Run::with_accepted_peers(1, 5);
    let peers = run.accepted();
    run.call_all(&peers, &Call::OptimizeTopology);
    run.settle();
    let next = run.next_of(1);
    run.faults.blocked.insert((next.min(1), next.max(1)));
    run.break_link(1, 0);
    run.settle();
    run.call_all(&peers, &reduce(1));
    run.settle();
    for no in &peers {
        run.answers(*no);
    }

    run.call_all(&peers, &Call::OptimizeTopology);
    run.settle();

    for no in peers {
        let answer = run.outcome(no);
        assert!(
            matches!(answer, Answer::TopologyOptimized(Ok(_))),
            "{answer:?}"
        );
    }
}

#[test]
fn rings_that_cannot_be_improved_cost_nobody_its_membership() {
    let mut run = Run::with_accepted_peers(1, 4);
    run.faults.no_links = true;
    let peers = run.accepted();

    for _ in 0..8 {
        run.call_all(&peers, &Call::OptimizeTopology);
        run.settle();
    }

    assert!(everybody_stays(&run));
}

/// M-3, for peers that have been accepted: the one that cannot be connected goes, however long it has
/// been in the run and however few there are, and not its neighbours.
#[test]
fn of_accepted_peers_the_one_that_nobody_reaches_any_more_goes() {
    for (size, sick) in (3..=6).flat_map(|size| (0..size).map(move |sick| (size, sick))) {
        let mut run = Run::with_accepted_peers(1, size);
        cut_off(&mut run, sick);
        run.break_link(sick, 0);
        run.settle();
        let peers = run.accepted();

        run.call_all(&peers, &reduce(1));
        run.settle();

        for no in peers {
            let stays = run.is_accepted(no);
            assert_eq!(stays, no != sick, "seat {no} of {size}, sick {sick}");
        }
        assert_eq!(run.watch.commits as usize, size - 1);
    }
}

/// Three newcomers beside each other: each pair is found out in an attempt of its own. Who still holds up
/// the others then waits for the next update.
#[test]
fn three_newcomers_that_cannot_reach_each_other_come_in_between_the_others() {
    for seed in 1..20 {
        let mut run = Run::with_accepted_peers(seed, 3);
        let newcomers = [(); 3].map(|()| run.join(GroupId(0)));
        let [one, two, three] = newcomers;
        run.faults
            .blocked
            .extend([(one, two), (one, three), (two, three)]);
        run.settle();

        for _ in 0..2 {
            run.call_all(&[0, 1, 2], &Call::UpdateTopology);
            run.settle();
        }

        assert!(everybody_stays(&run), "seed {seed}");
    }
}

/// Nobody of their group is accepted, so none of them has a record of it yet.
#[test]
fn newcomers_of_a_new_group_that_cannot_be_connected_are_set_apart_too() {
    for seed in 1..20 {
        let mut run = Run::with_accepted_peers(seed, 1);
        let newcomers = [(); 4].map(|()| run.join(GroupId(1)));
        run.settle();
        run.faults.blocked.insert((newcomers[0], newcomers[1]));

        run.call(0, Call::UpdateTopology);
        run.settle();

        assert!(everybody_stays(&run), "seed {seed}");
    }
}
