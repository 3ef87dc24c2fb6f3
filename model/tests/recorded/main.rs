//! The logs of runs, judged: sound ones pass, and doctored ones are called what they are.

mod doctor;
mod inputs;
mod progress;
mod run;
mod together;
mod whole;

use pccl_model::recorded::{Judgement, Rule, judge};
use run::{Files, Run};

/// What is said of these logs.
fn judged(files: &Files) -> Judgement {
    let files: Vec<(String, Vec<u8>)> = files.clone().into_iter().collect();
    judge(&files)
}

/// The rules that are broken, and in which log.
fn broken(files: &Files) -> Vec<(Rule, String)> {
    let findings = judged(files).findings.into_iter();
    let mut broken: Vec<_> = findings.map(|found| (found.rule, found.log)).collect();
    broken.dedup();
    broken
}

/// This log breaks this rule.
#[track_caller]
fn assert_breaks(files: &Files, rule: Rule, log: &str) {
    let judgement = judged(files);
    let said = (rule, log.to_owned());
    assert!(
        broken(files).contains(&said),
        "{rule:?} in {log}, but:\n{judgement}"
    );
}

/// A run with everything in it that goes well, and a death.
fn full_run() -> Files {
    let mut run = Run::of(3);
    run.reduces();
    run.synchronizes();
    run.master_beats();
    run.beats(0);
    run.optimizes();
    run.reduces();
    run.joins();
    run.dies(1);
    run.reduces();
    run.reduces();
    run.ends()
}

#[test]
fn a_sound_run_with_a_death_and_a_newcomer_is_judged_sound_and_whole() {
    let judgement = judged(&full_run());

    assert!(judgement.is_sound(), "{judgement}");
    assert!(judgement.is_whole(), "{judgement}");
    let run = &judgement.runs[0];
    assert_eq!(run.peers, 4, "{judgement}");
    assert!(run.ends.committed >= 3, "{judgement}");
    assert_eq!(judgement.notes.len(), 1, "{judgement}");
    assert!(judgement.notes[0].contains("was killed"), "{judgement}");
}

#[test]
fn every_record_of_a_sound_run_is_gone_through() {
    let files = full_run();
    let records: usize = files
        .iter()
        .map(|(name, log)| match name.as_str() {
            "master" => doctor::master(log).1.len(),
            _ => doctor::peer(log).1.len(),
        })
        .sum();

    assert_eq!(judged(&files).runs[0].records, records);
}
