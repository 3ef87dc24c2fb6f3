//! What the exit code of `--bin newcomer` says.

use std::process::{Command, Output};

/// A small state over links that are no limit, so that nothing is decided by how busy the machine is.
fn newcomer(aim: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_newcomer"))
        .args([
            "--bytes",
            "64K",
            "--mbit",
            "100000",
            "--holders",
            "2",
            "--aim",
            aim,
        ])
        .output()
        .unwrap()
}

#[test]
fn an_aim_that_is_missed_fails_and_the_content_is_right_nevertheless() {
    let easy = newcomer("0");
    let out_of_reach = newcomer("1000000");

    let said = [&easy, &out_of_reach].map(|output| String::from_utf8_lossy(&output.stdout));
    assert_eq!(easy.status.code(), Some(0), "{}", said[0]);
    assert_eq!(out_of_reach.status.code(), Some(1), "{}", said[1]);
    assert!(said[0].contains("is reached"), "{}", said[0]);
    assert!(said[1].contains("is MISSED"), "{}", said[1]);
    for said in said {
        assert_eq!(said.matches(", right").count(), 2, "{said}");
    }
}
