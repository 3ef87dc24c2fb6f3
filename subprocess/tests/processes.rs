//! A parent starts processes, tells them orders, hears their events and ends them. The children are shells.
#![cfg(unix)]

use std::process::Command;
use std::time::{Duration, Instant};

use pccl_subprocess::{Process, ProcessError, Processes};

/// A process that runs this script.
fn start(processes: &mut Processes<String>, script: &str) -> Process {
    let mut shell = Command::new("sh");
    processes.start(shell.args(["-c", script])).unwrap()
}

/// What is heard next; it hangs if nothing is.
fn next(processes: &mut Processes<String>) -> (Process, Option<String>) {
    let patience = Duration::from_secs(60);
    processes.next_before(Instant::now() + patience).unwrap()
}

/// Has this process of the system ended, and been waited for?
fn is_gone(system_id: u32) -> bool {
    let probe = Command::new("sh")
        .args(["-c", "kill -0 \"$0\" 2> /dev/null", &system_id.to_string()])
        .status();
    !probe.unwrap().success()
}

#[test]
fn an_order_reaches_the_process_and_its_answer_comes_back() {
    let mut processes = Processes::new();
    let echo = start(&mut processes, "read line; echo \"$line\"");

    processes.tell(echo, &"Are you there?").unwrap();

    assert_eq!(next(&mut processes), (echo, Some("Are you there?".into())));
    assert_eq!(next(&mut processes), (echo, None));
    assert!(processes.wait(echo).unwrap().success());
}

#[test]
fn a_line_that_is_not_an_event_is_left_out() {
    let mut processes = Processes::new();
    let script = "echo a warning; echo '\"an event\"'; echo '\"cut'";
    let talker = start(&mut processes, script);

    assert_eq!(next(&mut processes), (talker, Some("an event".into())));
    assert_eq!(next(&mut processes), (talker, None));
}

#[test]
fn whoever_says_nothing_is_waited_for_until_the_deadline_and_no_longer() {
    let mut processes = Processes::new();
    start(&mut processes, "read line");

    let heard = processes.next_before(Instant::now() + Duration::from_millis(10));

    assert_eq!(heard, None);
}

#[test]
fn a_process_that_was_killed_is_not_heard_and_not_known_any_more() {
    let mut processes = Processes::new();
    let victim = start(&mut processes, "echo '\"I live\"'; read line");
    let other = start(&mut processes, "read line; echo \"$line\"");
    assert_eq!(next(&mut processes), (victim, Some("I live".into())));
    let system_id = processes.system_id(victim).unwrap();

    processes.kill(victim).unwrap();

    assert!(is_gone(system_id));
    processes.tell(other, &"I live, too").unwrap();
    // The end of the victim's output is not told.
    assert_eq!(next(&mut processes), (other, Some("I live, too".into())));
    let refusals = [
        processes.kill(victim),
        processes.tell(victim, &"Are you there?"),
        processes.wait(victim).map(drop),
        processes.system_id(victim).map(drop),
    ];
    for refusal in refusals {
        assert!(matches!(refusal, Err(ProcessError::NotRunning(whom)) if whom == victim));
    }
}

#[test]
fn a_process_that_is_waited_for_learns_that_there_are_no_more_orders() {
    let mut processes = Processes::new();
    let reader = start(&mut processes, "while read line; do :; done; exit 7");

    let status = processes.wait(reader).unwrap();

    assert_eq!(status.code(), Some(7));
}

#[test]
fn whoever_is_left_is_killed_when_its_parent_gives_it_up() {
    let mut processes = Processes::new();
    let children = [0, 1].map(|_| start(&mut processes, "while :; do read line; done"));
    let system_ids = children.map(|child| processes.system_id(child).unwrap());

    drop(processes);

    assert!(system_ids.into_iter().all(is_gone));
}
