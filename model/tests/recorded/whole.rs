//! Logs that are cut or missing, and those that only look so.

use pccl_core::id::{PeerId, Round};
use pccl_core::master::MasterInput;
use pccl_core::messages::ToMaster;
use pccl_model::recorded::{Rule, Weight};

use crate::doctor::{change_master, cut};
use crate::run::{Files, Run};
use crate::{assert_breaks, full_run, judged};

#[track_caller]
fn assert_whole(files: &Files) {
    let judgement = judged(files);
    assert!(judgement.is_whole() && judgement.is_sound(), "{judgement}");
}

/// What is said of a log, in one line.
fn said_of(files: &Files, log: &str) -> String {
    let judgement = judged(files);
    let of_it = judgement.findings.iter().filter(|found| found.log == log);
    let lines: Vec<String> = of_it.map(ToString::to_string).collect();
    lines.join("\n")
}

#[test]
fn the_log_of_a_peer_that_left_and_whose_end_is_missing_is_cut() {
    for records in [1, 5, 20] {
        let mut files = full_run();
        cut(&mut files, "peer-0", records, 0);

        assert_breaks(&files, Rule::Whole, "peer-0");
        let said = said_of(&files, "peer-0");
        assert!(
            said.contains("CUT") && said.contains("its master heard"),
            "{said}"
        );
    }
}

#[test]
fn half_a_record_at_the_end_of_a_log_that_was_cut_is_told() {
    let mut files = full_run();
    cut(&mut files, "peer-0", 1, 5);

    assert_breaks(&files, Rule::Whole, "peer-0");
    let said = said_of(&files, "peer-0");
    assert!(said.contains("5 bytes of one more record"), "{said}");
}

#[test]
fn the_log_of_a_peer_whose_master_says_farewell_to_it_is_cut_where_it_does_not_hear_it() {
    let mut run = Run::of(2);
    run.reduces();
    let mut files = run.stops();
    assert_whole(&files);
    cut(&mut files, "peer-1", 1, 0);

    assert_breaks(&files, Rule::Whole, "peer-1");
    let said = said_of(&files, "peer-1");
    assert!(said.contains("did not see its process go"), "{said}");
}

#[test]
fn the_log_of_a_killed_peer_may_end_in_half_a_record() {
    let mut files = full_run();
    files.get_mut("peer-1").unwrap().extend([0, 0, 0]);

    assert_whole(&files);
    let notes = judged(&files).notes;
    let told = |note: &String| note.starts_with("peer-1") && note.contains("3 bytes");
    assert!(notes.iter().any(told), "{notes:?}");
}

#[test]
fn the_log_of_a_master_whose_end_is_missing_is_cut() {
    for (records, why) in [
        (1, "no log shows that its process was killed"),
        (30, "heard"),
    ] {
        let mut files = full_run();
        cut(&mut files, "master", records, 0);

        assert_breaks(&files, Rule::Whole, "master");
        let said = said_of(&files, "master");
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn a_master_that_was_killed_has_no_end_and_its_peers_show_it() {
    let mut run = Run::of(2);
    run.reduces();
    run.master_dies();

    let files = run.files();

    assert_whole(&files);
    let notes = judged(&files).notes;
    assert!(notes[0].contains("was killed or still ran"), "{notes:?}");
}

#[test]
fn a_run_that_goes_on_has_no_ends_yet() {
    let mut run = Run::of(2);
    run.reduces();

    assert_whole(&run.files());
}

#[test]
fn a_peer_that_the_master_knows_and_that_has_no_log_is_missing() {
    let mut files = full_run();
    files.remove("peer-2");

    assert_breaks(&files, Rule::Everybody, "master");
    let said = said_of(&files, "master");
    assert!(
        said.contains("MISSING") && said.contains("peer 3"),
        "{said}"
    );
    assert!(judged(&files).is_sound());
}

#[test]
fn a_run_without_the_log_of_its_master_misses_it() {
    let mut files = full_run();
    files.remove("master");

    for peer in ["peer-0", "peer-1", "peer-2", "peer-3"] {
        assert_breaks(&files, Rule::Master, peer);
    }
}

#[test]
fn a_file_without_a_byte_is_noted() {
    let mut files = full_run();
    files.insert("peer-9".to_owned(), Vec::new());

    assert_whole(&files);
    let notes = judged(&files).notes;
    assert!(
        notes.iter().any(|note| note.starts_with("peer-9 is empty")),
        "{notes:?}"
    );
}

/// Nothing is known of who has no log: whatever it says may be its own fault.
#[test]
fn a_stranger_that_breaks_the_protocol_and_is_kicked_is_missing_and_nothing_else() {
    let mut files = full_run();
    files.remove("peer-2");
    change_master(&mut files, |inputs| {
        let is_farewell = |input: &MasterInput| {
            matches!(
                input,
                MasterInput::Message {
                    peer: PeerId(3),
                    message: ToMaster::Leave
                }
            )
        };
        let farewell = inputs.iter().position(is_farewell).unwrap();
        let round = Round(999);
        let message = ToMaster::ProbesDone { round, ok: true };
        let peer = PeerId(3);
        inputs.insert(farewell, MasterInput::Message { peer, message });
    });

    let judgement = judged(&files);

    assert!(!judgement.is_whole(), "{judgement}");
    // What the others hear of it is not what they heard.
    let wrong = judgement.of(Weight::Wrong).map(|found| found.rule);
    assert!(
        wrong.into_iter().all(|rule| rule == Rule::Downward),
        "{judgement}"
    );
}
