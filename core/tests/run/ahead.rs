//! Collectives that are called again and begin ahead: what everybody ends with is the same as without.

use pccl_core::element::{CollectiveKind, CollectiveSpec, ReduceOp};
use pccl_core::id::{GroupId, Tag};
use pccl_core::master::MasterConfig;
use pccl_core::peer::{Answer, Call};

use crate::harness::{Holds, Run, SeatNo, reduce, ring_spec};

fn is_committed(run: &mut Run, no: SeatNo) -> bool {
    matches!(
        run.outcome(no),
        Answer::CollectiveEnded { result: Ok(_), .. }
    )
}

/// A run of so many peers that have all reduced once.
fn having_reduced(seed: u64, peers: usize) -> (Run, Vec<SeatNo>) {
    let mut run = Run::with_accepted_peers(seed, peers);
    let all: Vec<SeatNo> = (0..peers).collect();
    run.call_all(&all, &reduce(1));
    run.settle();
    for no in &all {
        assert!(is_committed(&mut run, *no), "seed {seed}");
    }
    (run, all)
}

/// The sum of the contributions of these, and of nobody else.
fn hold_their_sum(run: &Run, seats: &[SeatNo], seed: u64) {
    let sum = Holds::Sum(seats.iter().map(|no| run.id(*no)).collect());
    for no in seats {
        assert_eq!(run.seats[*no].buffer(Tag(1)), sum, "seed {seed}");
    }
}

#[test]
fn whoever_calls_the_same_again_begins_before_the_others_call() {
    for seed in 1..50 {
        let (mut run, all) = having_reduced(seed, 3);

        run.call(0, reduce(1));
        run.settle();
        assert!(run.seats[0].runs_tag(Tag(1)), "it has begun");
        assert!(!run.seats[1].runs_tag(Tag(1)));
        run.call(1, reduce(1));
        run.call(2, reduce(1));
        run.settle();

        hold_their_sum(&run, &all, seed);
        for no in all {
            assert!(is_committed(&mut run, no), "seed {seed}");
        }
    }
}

/// The first has begun what the others call later, after something else.
#[test]
fn a_collective_that_others_run_first_is_not_in_the_way_of_what_was_begun() {
    for seed in 1..50 {
        let (mut run, all) = having_reduced(seed, 3);

        run.call(0, reduce(1));
        run.settle();
        run.call_all(&all, &reduce(2));
        run.settle();
        let second = all.iter().map(|no| run.seats[*no].buffer(Tag(2)));
        assert!(
            second
                .into_iter()
                .all(|holds| matches!(holds, Holds::Sum(_)))
        );
        run.call(1, reduce(1));
        run.call(2, reduce(1));
        run.settle();

        hold_their_sum(&run, &all, seed);
    }
}

#[test]
fn the_death_of_a_peer_that_has_not_called_leaves_the_others_a_collective_of_their_own() {
    for seed in 1..50 {
        let (mut run, _) = having_reduced(seed, 3);

        run.call(0, reduce(1));
        run.call(1, reduce(1));
        run.settle();
        run.lose(2);
        run.settle();

        hold_their_sum(&run, &[0, 1], seed);
        for no in [0, 1] {
            assert!(is_committed(&mut run, no), "seed {seed}");
        }
    }
}

#[test]
fn a_call_that_disagrees_leaves_no_trace_of_what_was_begun() {
    for seed in 1..50 {
        let (mut run, all) = having_reduced(seed, 3);
        let (tag, op) = (Tag(1), ReduceOp::Max);
        let spec = CollectiveSpec { op, ..ring_spec() };

        run.call(0, reduce(1));
        run.call(1, reduce(1));
        run.call(2, Call::Initiate { tag, spec });
        run.settle();
        for no in &all {
            assert!(!is_committed(&mut run, *no));
            assert_eq!(run.seats[*no].buffer(tag), Holds::Own, "seed {seed}");
        }
        run.call_all(&all, &reduce(1));
        run.settle();

        assert!(all.iter().all(|no| is_committed(&mut run, *no)));
    }
}

#[test]
fn whoever_gives_up_what_it_has_begun_makes_nobody_fail() {
    for seed in 1..50 {
        let (mut run, all) = having_reduced(seed, 3);

        run.call(0, reduce(1));
        run.call(1, reduce(1));
        run.settle();
        run.give_up(0, Tag(1));
        run.settle();
        assert_eq!(run.seats[0].buffer(Tag(1)), Holds::Own);
        run.call(0, reduce(1));
        run.call(2, reduce(1));
        run.settle();

        for no in all {
            assert!(is_committed(&mut run, no), "seed {seed}");
        }
    }
}

/// What the peers begin once all have called it: `true` if whoever calls first begins before the others call.
fn begins_ahead(config: MasterConfig, spec: CollectiveSpec, peers: usize) -> bool {
    let config = MasterConfig {
        ahead_within_machine: true,
        ..config
    };
    let mut run = Run::with_config(1, config);
    run.join_many(peers, GroupId(0));
    let all: Vec<SeatNo> = (0..peers).collect();
    let tag = Tag(1);
    run.call_all(&all, &Call::Initiate { tag, spec });
    run.settle();
    for no in all {
        assert!(is_committed(&mut run, no));
    }
    run.call(0, Call::Initiate { tag, spec });
    run.settle();
    run.seats[0].runs_tag(tag)
}

#[test]
fn only_what_sends_little_and_is_known_beforehand_begins_ahead() {
    let of = |kind: CollectiveKind, count: u64| CollectiveSpec {
        kind,
        count,
        ..ring_spec()
    };
    let reduce = |count| of(CollectiveKind::AllReduce, count);
    let default = MasterConfig::rings_only;
    let never = || MasterConfig {
        ahead_max: 0,
        ..default()
    };
    let floats = (64 << 10) / 4;

    assert!(begins_ahead(default(), reduce(floats), 3));
    assert!(!begins_ahead(default(), reduce(floats + 1), 3));
    // A small buffer travels whole, and the next one gets those of all before.
    assert!(begins_ahead(default(), reduce(floats / 2), 3));
    assert!(!begins_ahead(default(), reduce(floats / 2), 4));
    assert!(!begins_ahead(never(), reduce(1), 3));
    assert!(!begins_ahead(default(), of(CollectiveKind::Barrier, 0), 3));
    assert!(!begins_ahead(default(), reduce(1), 1), "nobody to send to");
    assert!(begins_ahead(
        default(),
        of(CollectiveKind::ReduceScatter, 9),
        3
    ));
}
