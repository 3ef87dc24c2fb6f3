//! The loop of the README as it stands there, run by processes of which one is lost at each point of its
//! conversation with the master. All others go on.

use std::path::Path;

use pccl_tests::losses::{Loop, Loss, Who, lose_all};

const README: &str = include_str!("../../README.md");
const LIBRARY: &str = include_str!("../../client/src/lib.rs");
const LOOP: &str = include_str!("../src/readme/verbatim.rs");
const MARKER: &str = "// From here on: word for word.";

/// The part of the file below the marker: the loop without its module header and entry point.
fn what_runs() -> String {
    let lines = LOOP.lines().skip_while(|line| *line != MARKER);
    lines.skip(1).map(|line| format!("{line}\n")).collect()
}

/// The first block of code after this line, without what the documentation hides.
fn shown(text: &str, after: &str) -> String {
    let lines = text.lines().skip_while(|line| *line != after);
    let lines = lines.skip_while(|line| !line.starts_with("```rust,no_run"));
    let code = lines.skip(1).take_while(|line| *line != "```");
    let code = code.filter(|line| !line.starts_with("# "));
    code.map(|line| format!("{line}\n")).collect()
}

#[test]
fn the_loop_that_runs_is_the_one_that_the_readme_shows() {
    assert_eq!(shown(README, "## Use"), what_runs());
}

#[test]
fn the_loop_that_runs_is_the_one_that_the_documentation_of_the_library_shows() {
    let documentation = LIBRARY.lines().filter_map(|line| line.strip_prefix("//!"));
    let lines = documentation.map(|line| line.strip_prefix(' ').unwrap_or(line));
    let documentation: String = lines.map(|line| format!("{line}\n")).collect();

    assert_eq!(shown(&documentation, "# Example"), what_runs());
}

fn assert_the_others_go_on(who: Who) {
    let losses = Loss::of_readme().into_iter().filter(|loss| loss.who == who);
    let losses: Vec<Loss> = losses.collect();
    let program = Path::new(env!("CARGO_BIN_EXE_test_peer"));

    let outcomes = lose_all(program, Loop::Readme, 2, &losses, |_| {}).unwrap();

    let stuck = outcomes.iter().filter(|outcome| outcome.recovery.is_err());
    let stuck: Vec<_> = stuck.collect();
    assert!(stuck.is_empty(), "{stuck:#?}");
}

#[test]
fn the_others_go_on_wherever_in_the_loop_a_newcomer_is_lost() {
    assert_the_others_go_on(Who::Newcomer);
}

#[test]
fn the_others_go_on_wherever_in_the_loop_a_veteran_is_lost() {
    assert_the_others_go_on(Who::Veteran);
}
