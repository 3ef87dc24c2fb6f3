//! A master that makes a mistake, and is recorded: replayed by itself its log is equal, whatever it did.
//! Joined with the logs of its peers the model's claims say what is wrong.
//!
//! `cargo test -p pccl-model --features mutants --test recorded_mutants`
#![cfg(feature = "mutants")]

use pccl_core::log::replay;
use pccl_core::mutants::{Mutant, switch_on};
use pccl_model::claim::Claim;
use pccl_model::recorded::{Judgement, Rule, judge};

use run::{Files, Rings, Run};

#[allow(dead_code)]
#[path = "recorded/doctor.rs"]
mod doctor;
#[allow(dead_code)]
#[path = "recorded/run.rs"]
mod run;

/// The logs of a run with all kinds of calls, in which somebody dies twice.
fn run() -> Files {
    let mut run = Run::of(4);
    run.reduces();
    run.synchronizes();
    run.master_beats();
    run.optimizes();
    run.rings = Rings::Open;
    run.reduces();
    run.dies(1);
    run.rings = Rings::Whole;
    run.reduces();
    run.dies(2);
    run.reduces();
    run.ends()
}

fn judged(files: &Files) -> Judgement {
    let files: Vec<(String, Vec<u8>)> = files.clone().into_iter().collect();
    judge(&files)
}

/// One process makes one mistake at a time, so this is one test.
#[test]
fn what_a_machine_does_wrong_is_found_although_it_does_the_same_again() {
    let mut found = Vec::new();
    for mutant in Mutant::ALL {
        switch_on(Some(*mutant));
        let Ok(files) = std::panic::catch_unwind(run) else {
            continue;
        };
        for (name, log) in &files {
            assert!(replay(log).is_ok(), "{name} with {}", mutant.name());
        }
        let judgement = judged(&files);
        if !judgement.is_sound() {
            let rules: Vec<Rule> = judgement.findings.iter().map(|found| found.rule).collect();
            println!("{}: {rules:?}", mutant.name());
            found.push((*mutant, rules));
        }
    }
    switch_on(None);
    let judgement = judged(&run());
    assert!(judgement.is_sound(), "{judgement}");
    let is_found = |mutant, claim| {
        let rule = Rule::Holds(claim);
        let by = found.iter().find(|(known, _)| *known == mutant);
        by.is_some_and(|(_, rules)| rules.contains(&rule))
    };
    assert!(is_found(Mutant::CommitBeforeLastVote, Claim::Unanimity));
    assert!(is_found(Mutant::RingRunsOnAfterAbort, Claim::Restoration));
    assert!(is_found(Mutant::VerdictPerPeer, Claim::Agreement));
    assert!(found.len() >= 10, "{} of them were found", found.len());
}
