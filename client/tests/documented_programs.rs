//! The programs of the documentation, as they stand there: whoever dies at whatever point of them, the others
//! come to the end, with the same weights.

mod documented;
mod support;

use std::path::Path;

use documented::survivors::{LIFE, survive};
use documented::{Death, Life, Program};

/// What the tests of this file start as processes.
#[test]
#[ignore = "other tests start it"]
fn a_process_of_these_tests() {
    let life = std::env::var(LIFE).expect("another test starts this one");
    serde_json::from_str::<Life>(&life).unwrap().live();
}

/// The events of a round, in their order if its reduce does not begin ahead.
const ROUND: [&str; 9] = [
    "topology_vote_sent",
    "sync_vote_sent",
    "computes",
    "collective_initiated",
    "plan_started",
    "frame_sent",
    "plan_done",
    "completion_voted",
    "verdict",
];

/// Peers that join together, and die.
fn deaths() -> Vec<Vec<Death>> {
    // It has its orders, and has connected nobody.
    let at_the_door = [vec![Death::at("links_ordered", 1)]];
    // It knows what to fetch, and has fetched nothing.
    let while_it_fetches = [vec![Death::at("sync_plan", 1)]];
    let while_it_is_new = ROUND.map(|event| vec![Death::at(event, 1)]);
    // What holds the state, at the second newcomer; and that one, later.
    let while_it_serves = [vec![Death::at("sync_plan", 2), Death::at("computes", 3)]];
    let while_it_is_one_of_all = ROUND.map(|event| vec![Death::at(event, 5)]);
    let two_at_once = [
        vec![Death::at("frame_sent", 7), Death::at("sync_plan", 1)],
        vec![Death::at("verdict", 6), Death::at("topology_vote_sent", 2)],
    ];
    [
        at_the_door.as_slice(),
        &while_it_fetches,
        &while_it_is_new,
        &while_it_serves,
        &while_it_is_one_of_all,
        &two_at_once,
    ]
    .concat()
}

/// Each step was counted once, and by all alike.
fn assert_all_survive(program: Program) {
    let weights = survive(program, &deaths());

    assert_eq!(weights.len(), 3);
    for weights in weights {
        let is_right = weights.iter().all(|weight| *weight == 1000.0);
        assert!(is_right, "the first weight is {}", weights[0]);
    }
}

#[test]
fn whoever_dies_in_the_first_program_the_others_come_to_its_end() {
    assert_all_survive(Program::Run);
}

#[test]
fn whoever_dies_in_the_loop_without_the_helper_the_others_come_to_its_end() {
    assert_all_survive(Program::Manual);
}

#[test]
fn whoever_dies_in_the_async_loop_the_others_come_to_its_end() {
    assert_all_survive(Program::Async);
}

#[test]
fn whoever_dies_in_the_loop_with_feedback_the_others_come_to_its_end() {
    assert_all_survive(Program::Feedback);
}

/// Blocks of Rust code as a reader of the documentation sees them.
fn blocks(path: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let text = std::fs::read_to_string(path).unwrap();
    let shown = text.lines().map(|line| {
        let code = line.trim_start();
        let comment = code.strip_prefix("//!").or(code.strip_prefix("///"));
        comment.map_or(line, |comment| comment.strip_prefix(' ').unwrap_or(comment))
    });
    let mut blocks = Vec::new();
    let mut block: Option<String> = None;
    for line in shown {
        match &mut block {
            None if line.starts_with("```rust") => block = Some(String::new()),
            None => {}
            Some(_) if line == "```" => blocks.extend(block.take()),
            Some(_) if line.starts_with("# ") => {}
            Some(block) => *block += &format!("{line}\n"),
        }
    }
    blocks
}

#[test]
fn the_programs_that_run_are_those_that_the_documentation_shows() {
    let places = [
        (Program::Run, "../README.md", 0),
        (Program::Manual, "../README.md", 1),
        (Program::Run, "src/lib.rs", 0),
        (Program::Manual, "src/lib.rs", 1),
        (Program::Async, "src/run.rs", 0),
        (Program::Feedback, "src/error_feedback.rs", 0),
    ];

    for (program, path, number) in places {
        assert_eq!(program.text(), blocks(path)[number], "{path}");
    }
}
