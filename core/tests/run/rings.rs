//! Rings that lose a link or a member, and peers that disagree about what to do first.

use pccl_core::id::{GroupId, Tag};
use pccl_core::messages::{AbortCause, CallKind};
use pccl_core::peer::{Answer, Call, CallError};

use crate::harness::{Holds, Run, SeatNo, reduce};

fn aborted(answer: &Answer) -> bool {
    let Answer::CollectiveEnded { result, .. } = answer else {
        return false;
    };
    matches!(
        result,
        Err(CallError::Aborted {
            cause: AbortCause::LaneLost { .. },
            ..
        })
    )
}

fn committed(answer: &Answer) -> bool {
    matches!(answer, Answer::CollectiveEnded { result: Ok(_), .. })
}

fn conflict_with(answer: &Answer, theirs: CallKind) -> bool {
    match answer {
        Answer::CollectiveEnded {
            result: Err(CallError::Conflict(c)),
            ..
        }
        | Answer::Synchronized(Err(CallError::Conflict(c)))
        | Answer::TopologyOptimized(Err(CallError::Conflict(c))) => c.theirs == theirs,
        _ => false,
    }
}

fn reduce_works(run: &mut Run, peers: &[SeatNo]) {
    for no in peers {
        run.answers(*no);
    }
    run.call_all(peers, &reduce(5));
    run.settle();
    for no in peers {
        assert!(committed(&run.outcome(*no)));
    }
}

/// P-1: a lane that breaks between two living peers is rebuilt at the next operation.
#[test]
fn a_broken_edge_between_two_living_peers_is_rebuilt_by_the_next_reduce() {
    for seed in 1..30 {
        let mut run = Run::with_accepted_peers(seed, 3);

        run.call_all(&[0, 1, 2], &reduce(1));
        let steps = run.roll(30);
        run.steps(steps);
        run.break_link(1, 0);
        run.settle();
        for no in 0..3 {
            let answer = run.outcome(no);
            assert!(aborted(&answer) || committed(&answer), "{answer:?}");
        }

        reduce_works(&mut run, &[0, 1, 2]);
    }
}

/// P-1, where only one end has noticed.
#[test]
fn an_edge_that_only_one_end_knows_to_be_broken_is_rebuilt() {
    let mut run = Run::with_accepted_peers(1, 2);
    run.break_link(0, 0);
    run.misses_what_broke(1);
    run.settle();

    run.call_all(&[0, 1], &reduce(1));
    run.settle();

    assert_eq!(run.watch.commits, 2);
}

/// P-1, at the other operation that rebuilds.
#[test]
fn a_broken_edge_is_rebuilt_by_update_topology_too() {
    let mut run = Run::with_accepted_peers(1, 3);
    run.break_link(1, 0);
    run.settle();

    run.call_all(&[0, 1, 2], &Call::UpdateTopology);
    run.settle();
    let broken = (0..3).any(|no| run.peer(no).view().broken_links().any());

    assert!(!broken);
    reduce_works(&mut run, &[0, 1, 2]);
}

#[test]
fn after_a_death_the_next_reduce_rebuilds_the_ring_by_itself_and_without_newcomers() {
    let mut run = Run::with_accepted_peers(1, 4);
    let newcomer = run.join(GroupId(0));
    run.settle();
    run.lose(2);
    run.settle();

    run.call_all(&[0, 1, 3], &reduce(1));
    run.settle();

    assert_eq!(run.watch.commits, 3);
    assert!(!run.is_accepted(newcomer), "nobody voted to admit it");
}

#[test]
fn two_accepted_peers_that_cannot_be_connected_any_more_are_not_made_neighbours() {
    for seed in 1..20 {
        let mut run = Run::with_accepted_peers(seed, 5);
        run.break_link(1, 0);
        let neighbour = run.next_of(1);
        run.faults
            .blocked
            .insert((neighbour.min(1), neighbour.max(1)));
        run.settle();

        run.call_all(&[0, 1, 2, 3, 4], &reduce(1));
        run.settle();

        assert_eq!(run.watch.commits, 5, "all five stay, in another order");
    }
}

/// M-12: one peer updates, another one's reduce needs the ring rebuilt.
#[test]
fn mixed_votes_to_update_and_to_rewire_end() {
    for seed in 1..50 {
        let mut run = Run::with_accepted_peers(seed, 3);
        run.break_link(0, 0);
        run.settle();

        run.call(0, reduce(1));
        run.call(1, Call::UpdateTopology);
        run.call(2, reduce(1));
        run.settle();

        // Who waits to reduce agrees to the update, and goes on waiting on the new ring.
        assert!(matches!(run.outcome(1), Answer::TopologyUpdated(Ok(_))));
        run.call(1, reduce(1));
        run.settle();
        assert_eq!(run.watch.commits, 3, "seed {seed}");
    }
}

/// M-12, across groups: the ballot on newcomers waits for a group that rewires, and ends.
#[test]
fn a_group_that_rewires_does_not_block_the_update_of_another_for_good() {
    let mut run = Run::new(1);
    run.join_many(2, GroupId(0));
    run.join_many(2, GroupId(1));
    run.break_link(2, 0);
    run.settle();

    run.call_all(&[0, 1], &Call::UpdateTopology);
    run.call_all(&[2, 3], &reduce(1));
    run.settle();
    assert_eq!(run.watch.commits, 2);
    run.call_all(&[2, 3], &Call::UpdateTopology);
    run.settle();

    for no in [0, 1] {
        assert!(matches!(run.outcome(no), Answer::TopologyUpdated(Ok(_))));
    }
}

/// Who waits in another call stays there.
#[test]
fn an_update_is_in_nobodys_way() {
    for seed in 1..20 {
        let mut run = Run::with_accepted_peers(seed, 3);
        let newcomer = run.join(GroupId(0));
        run.settle();
        let strategy = pccl_core::shared_state::SyncStrategy::EnforcePopular;
        let sync = run.seats[0].sync_call(strategy);
        run.call_all(&[0, 1], &sync);
        run.call(2, Call::UpdateTopology);
        run.settle();

        assert!(matches!(run.outcome(2), Answer::TopologyUpdated(Ok(_))));
        assert!(run.is_accepted(newcomer));
        run.answers(newcomer);
        run.call_all(&[2, newcomer], &sync);
        run.settle();
        for no in 0..4 {
            let answer = run.outcome(no);
            assert!(matches!(answer, Answer::Synchronized(Ok(_))), "{answer:?}");
        }
    }
}

#[test]
fn peers_out_of_step_are_told_which_call_to_make_first() {
    let sync =
        |run: &Run| run.seats[0].sync_call(pccl_core::shared_state::SyncStrategy::EnforcePopular);
    let mut run = Run::with_accepted_peers(1, 2);
    let pairs = [
        (
            sync(&run),
            Call::OptimizeTopology,
            CallKind::OptimizeTopology,
        ),
        (reduce(1), sync(&run), CallKind::SyncSharedState),
        (
            reduce(1),
            Call::OptimizeTopology,
            CallKind::OptimizeTopology,
        ),
    ];
    for (gives_way, goes_on, theirs) in pairs {
        run.call(0, gives_way);
        run.call(1, goes_on.clone());
        run.settle();

        let answer = run.outcome(0);
        assert!(conflict_with(&answer, theirs), "{answer:?}");
        run.call(0, goes_on);
        run.settle();
        for no in [0, 1] {
            let answer = run.outcome(no);
            assert!(!conflict_with(&answer, theirs), "{answer:?}");
        }
    }
}

#[test]
fn a_faster_ring_is_adopted_and_used() {
    let mut run = Run::with_accepted_peers(1, 4);
    let before = run.seats[0].plane.topology.ring.clone();

    run.call_all(&[0, 1, 2, 3], &Call::OptimizeTopology);
    run.settle();

    for no in 0..4 {
        assert!(matches!(run.outcome(no), Answer::TopologyOptimized(Ok(_))));
    }
    assert_ne!(
        run.seats[0].plane.topology.ring, before,
        "the measurements prefer another order"
    );
    reduce_works(&mut run, &[0, 1, 2, 3]);
}

#[test]
fn a_faster_ring_that_cannot_be_connected_leaves_the_old_one() {
    let mut run = Run::with_accepted_peers(1, 4);
    let before = run.seats[0].plane.topology.ring.clone();
    run.faults.no_links = true;

    run.call_all(&[0, 1, 2, 3], &Call::OptimizeTopology);
    run.settle();

    for no in 0..4 {
        let why = CallError::OptimizationFailed;
        assert_eq!(run.outcome(no), Answer::TopologyOptimized(Err(why)));
    }
    assert_eq!(run.seats[0].plane.topology.ring, before);
    reduce_works(&mut run, &[0, 1, 2, 3]);
    assert_eq!(
        run.seats[0].buffer(Tag(5)),
        Holds::Sum((0..4).map(|no| run.id(no)).collect())
    );
}

/// What an update finds whole it leaves alone.
fn update_changes_nothing(run: &mut Run, peers: &[SeatNo]) {
    let before = run.seats[0].plane.topology.ring.clone();
    for no in peers {
        run.answers(*no);
    }

    run.call_all(peers, &Call::UpdateTopology);
    run.settle();

    for no in peers {
        assert!(matches!(run.outcome(*no), Answer::TopologyUpdated(Ok(_))));
    }
    assert_eq!(run.seats[0].plane.topology.ring, before);
}

#[test]
fn an_update_with_nothing_to_do_keeps_a_better_ring_whose_pair_once_failed() {
    for no in 0..5 {
        let mut run = Run::with_accepted_peers(1, 5);
        let peers = run.accepted();
        let optimize = |run: &mut Run| {
            run.call_all(&peers, &Call::OptimizeTopology);
            run.settle();
        };
        optimize(&mut run);
        let next = run.next_of(no);
        run.faults.blocked.insert((next.min(no), next.max(no)));
        run.break_link(no, 0);
        run.settle();
        run.call_all(&peers, &reduce(1));
        run.settle();
        run.faults.blocked.clear();
        optimize(&mut run);

        update_changes_nothing(&mut run, &peers);
    }
}

/// The world is another one without that group, and an epoch is one world.
#[test]
fn a_group_that_ends_raises_the_epoch_of_the_others() {
    let mut run = Run::new(1);
    run.join_many(2, GroupId(0));
    run.join_many(1, GroupId(1));
    let topology = |run: &Run| run.seats[0].plane.topology.clone();
    let before = topology(&run);

    run.lose(2);
    run.settle();
    run.call_all(&[0, 1], &Call::UpdateTopology);
    run.settle();

    let after = topology(&run);
    assert_ne!(before.world, after.world);
    assert!(before.epoch < after.epoch, "{:?}", after.epoch);
}
