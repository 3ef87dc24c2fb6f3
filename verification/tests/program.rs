//! What the program says and exits with.

use std::path::PathBuf;
use std::process::{Command, Output};

fn verification(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_verification"))
        .args(arguments)
        .output()
        .expect("the program starts")
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A trace in a file of its own.
fn file(name: &str, text: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).expect("a file in the place for such files");
    path
}

fn replay(name: &str, text: &str) -> Output {
    let path = file(name, text);
    verification(&["--replay", &path.to_string_lossy()])
}

#[test]
fn a_scenario_that_is_explored_to_its_end_is_called_exhaustive() {
    let run = verification(&["--scenario", "disagree-2", "--faults", "0"]);

    assert_eq!(run.status.code(), Some(0), "{}", out(&run));
    assert!(out(&run).contains("exhaustive"));
    assert!(out(&run).contains("1 of 1 scenarios to their end"));
    assert!(out(&run).contains("All is well."));
}

#[test]
fn a_scenario_that_was_cut_is_called_so_and_is_no_success() {
    let run = verification(&["--scenario", "reduce-3", "--time-limit", "0"]);

    assert_eq!(run.status.code(), Some(1), "{}", out(&run));
    assert!(out(&run).contains("cut at "));
    assert!(out(&run).contains("0 of 1 scenarios to their end"));
    assert!(!out(&run).contains("exhaustive"));
}

#[test]
fn what_is_asked_for_and_not_there_is_named() {
    let run = verification(&["--scenario", "nowhere"]);

    assert_eq!(run.status.code(), Some(2));
    assert!(err(&run).contains("there is no scenario `nowhere`"));
}

#[test]
fn an_address_in_use_is_named_and_not_a_panic() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("its address").to_string();

    let run = verification(&["--scenario", "reduce-2", "--explore", &address]);

    assert_eq!(run.status.code(), Some(2));
    assert!(err(&run).contains(&address));
    assert!(!err(&run).contains("panicked"));
}

#[test]
fn a_sound_trace_is_told_and_is_a_success() {
    let run = replay("sound.txt", "reduce-2: call 1; up 1");

    assert_eq!(run.status.code(), Some(0), "{}", err(&run));
    assert!(out(&run).contains("2. The master hears from peer 1: vote: start tag 1."));
}

#[test]
fn a_trace_with_an_impossible_step_is_refused() {
    let run = replay("impossible.txt", "scenario: reduce-2\ncall 1\nup 2\n");

    assert_eq!(run.status.code(), Some(2));
    assert!(err(&run).contains("step 2, `up 2`, cannot happen there"));
}

#[test]
fn the_figures_are_written_for_programs() {
    let path = file("figures.json", "");
    let name = path.to_string_lossy();

    verification(&["--scenario", "disagree-2", "--faults", "0", "--json", &name]);

    let text = std::fs::read_to_string(&path).expect("the figures");
    let figures: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(figures["success"], true);
    assert_eq!(figures["scenarios"][0]["scenario"], "disagree-2");
    assert_eq!(figures["scenarios"][0]["exhaustive"], true);
    assert_eq!(figures["scenarios"][0]["peers"], 2);
}

#[test]
fn walks_alone_explore_nothing_and_say_how_many_they_were() {
    let run = verification(&["--scenario", "reduce-2", "--simulate", "50"]);

    assert_eq!(run.status.code(), Some(0), "{}", out(&run));
    assert!(out(&run).contains("50 random walks"));
    assert!(!out(&run).contains("unique states"));
}

/// Only where the mistakes are compiled in: `cargo test -p verification --features mutants`.
#[cfg(feature = "mutants")]
mod mutants {
    use super::*;

    const COMMITTED_TOO_EARLY: &str = "scenario: reduce-2\nmutant: commit-before-last-vote\n\
        call 1\nup 1\ncall 2\nup 2\ndown 1\ndown 2\nframe 1 1\nframe 2 1\nframe 1 1\nup 1\n";

    #[test]
    fn a_mistake_is_found_and_its_story_told() {
        let run = verification(&[
            "--mutant",
            "commit-before-last-vote",
            "--scenario",
            "reduce-2",
        ]);

        assert_eq!(run.status.code(), Some(0), "{}", err(&run));
        assert!(out(&run).contains("1 of 1 mistakes found"));
        assert!(out(&run).contains("This is broken: "));
    }

    #[test]
    fn a_trace_that_breaks_a_claim_is_no_success() {
        let run = replay("broken.txt", COMMITTED_TOO_EARLY);

        assert_eq!(run.status.code(), Some(1), "{}", err(&run));
        assert!(out(&run).contains("This is broken: a collective is committed exactly when"));
    }
}
