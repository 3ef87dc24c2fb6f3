//! The master against the reference ([`crate::reference`]). It follows every simulated run of these
//! tests; here the scripts are long, and are the same each time. `tests/hostile.rs` compares it
//! where peers say anything at any time.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use pccl_core::id::GroupId;
use pccl_core::peer::Call;

use crate::harness::Run;
use crate::replayable::replayable;
use crate::walk::{Move, any_move, walk, wish};

/// Most are long enough that peers come, work, go and come again several times; much of the time a
/// group works together.
fn script() -> impl Strategy<Value = Vec<Move>> {
    let next = prop_oneof![
        4 => any_move(),
        6 => (any::<u8>(), wish()).prop_map(|(group, wish)| Move::CallTogether(group, wish)),
        8 => (10..80_u8).prop_map(Move::Steps),
        2 => Just(Move::UpdateAll),
        1 => Just(Move::Notice),
    ];
    prop::collection::vec(next, 1..400)
}

proptest! {
    #![proptest_config(replayable(2000))]

    #[test]
    fn whatever_happens_the_master_does_what_the_reference_says(
        seed in any::<u64>(),
        groups in 1..4_u32,
        moves in script(),
    ) {
        walk(seed, groups, &moves);
    }
}

/// A newcomer that nobody can connect with.
fn turned_away() -> Run {
    let mut run = Run::with_accepted_peers(1, 2);
    let newcomer = run.join(GroupId(0));
    run.faults.blocked.extend([(0, newcomer), (1, newcomer)]);
    run.settle();
    run.call_all(&[0, 1], &Call::UpdateTopology);
    run.settle();
    run
}

#[test]
fn the_comparison_meets_every_message_many_times() {
    let mut runner = TestRunner::deterministic();

    let runs: Vec<Run> = (1..300)
        .map(|seed| walk(seed, 2, &script().new_tree(&mut runner).unwrap().current()))
        .collect();

    let runs = runs.into_iter().chain([turned_away()]);
    let runs: Vec<Run> = runs.collect();
    let inputs: u64 = runs.iter().map(|run| run.shadow.inputs).sum();
    let kinds: BTreeSet<&str> = (runs.iter())
        .flat_map(|run| run.shadow.kinds.iter().map(String::as_str))
        .collect();
    assert!(inputs > 25_000, "only {inputs} inputs");
    let all = [
        "CallFailed",
        "CollectiveRefused",
        "Commence",
        "EstablishLinks",
        "Heartbeat",
        "Kicked",
        "OptimizationConcluded",
        "PeersPending",
        "Probe",
        "Refused",
        "SharedStateConcluded",
        "SharedStatePlan",
        "TopologyEstablished",
        "Verdict",
        "Welcome",
    ];
    assert_eq!(kinds, BTreeSet::from(all));
}
