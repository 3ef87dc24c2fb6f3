//! What the exit code of `--bin throttled` says.

use std::process::{Command, Output};

/// Two peers whose links are no limit, so that nothing is decided by how busy the machine is.
fn throttled(aim: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_throttled"))
        .args(["--peers", "2", "--mbit", "100000", "--bytes", "64K"])
        .args(["--rounds", "2", "--lanes", "1", "--aim", aim])
        .output()
        .unwrap()
}

#[test]
fn an_aim_that_is_missed_fails_and_is_said_beside_the_figure() {
    let easy = throttled("0");
    let out_of_reach = throttled("1000000");

    let said = [&easy, &out_of_reach].map(|output| String::from_utf8_lossy(&output.stdout));
    assert_eq!(easy.status.code(), Some(0), "{}", said[0]);
    assert!(
        said[0].contains("the aim, at least 0 times, is reached"),
        "{}",
        said[0]
    );
    assert_eq!(out_of_reach.status.code(), Some(1), "{}", said[1]);
    assert!(
        said[1].contains("the aim, at least 1000000 times, is MISSED"),
        "{}",
        said[1]
    );
}
