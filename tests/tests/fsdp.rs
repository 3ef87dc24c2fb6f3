//! The example `fsdp`, as its users start it, in small.

use std::process::Command;

use pccl_tests::over::Over;

/// Runs the example, which compares its survivors with an unsharded run, and returns what it has printed.
fn train(over: Over, arguments: &[&str], seed: u64) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fsdp"));
    command.args(["--transport", over.name()]);
    command.args(["--seed", &seed.to_string()]).args(arguments);
    let run = command.output().expect("a program that can be started");
    let printed = String::from_utf8_lossy(&run.stdout).into_owned();
    let problems = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "seed {seed}\n{printed}\n{problems}");
    printed
}

#[test]
fn sharded_training_ends_with_the_bits_of_an_unsharded_run_whoever_is_killed_or_joins() {
    let arguments = ["--kills", "3", "--joins", "2", "--steps", "12"];
    for seed in 1..=5 {
        let printed = train(Over::of_environment(), &arguments, seed);

        assert!(printed.contains("each of 3 survivors has"), "{printed}");
        assert!(printed.contains("3 kills and 2 joins"), "{printed}");
    }
}

#[test]
fn encrypted_sharded_training_ends_with_the_bits_of_an_unsharded_run() {
    let arguments = ["--kills", "2", "--joins", "1", "--steps", "8"];
    for over in [Over::Tls, Over::Quic] {
        let printed = train(over, &arguments, 6);

        assert!(printed.contains("each of 3 survivors has"), "{printed}");
    }
}

#[test]
fn steps_since_the_last_snapshot_are_computed_again_when_a_peer_is_killed() {
    let chaos = ["--peers", "3", "--kills", "2", "--joins", "1"];
    let steps = ["--steps", "14", "--snapshot-every", "4"];
    let arguments = [&chaos[..], &steps].concat();
    for seed in 1..=5 {
        let printed = train(Over::of_environment(), &arguments, seed);

        assert!(printed.contains("back to the snapshot"), "{printed}");
        assert!(printed.contains("each of 2 survivors has"), "{printed}");
    }
}

#[test]
fn one_peer_is_enough_to_go_on() {
    let arguments = ["--peers", "4", "--kills", "3", "--joins", "0"];
    let arguments = [&arguments[..], &["--steps", "8"]].concat();

    let printed = train(Over::of_environment(), &arguments, 7);

    assert!(printed.contains("each of 1 survivors has"), "{printed}");
}
