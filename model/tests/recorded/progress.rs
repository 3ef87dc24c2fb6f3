//! Reduces that fail, with a cause and without.

use pccl_model::recorded::Rule;

use crate::run::{Rings, Run};
use crate::{assert_breaks, judged};

#[test]
fn a_run_of_which_every_reduce_fails_without_a_cause_is_called_that() {
    let mut run = Run::of(3);
    run.rings = Rings::LostForNothing;
    for _ in 0..5 {
        run.reduces();
    }
    let files = run.ends();

    assert_breaks(&files, Rule::Progress, "master");
    assert_breaks(&files, Rule::Causes, "master");
    let told = judged(&files).to_string();
    assert!(told.contains("NO PROGRESS: master"), "{told}");
    assert!(
        told.contains("of 5 collectives none was committed"),
        "{told}"
    );
}

#[test]
fn a_run_in_which_no_reduce_succeeds_any_more_is_called_that_although_one_did() {
    let mut run = Run::of(3);
    run.reduces();
    run.rings = Rings::LostForNothing;
    (0..3).for_each(|_| run.reduces());
    let files = run.ends();

    assert_breaks(&files, Rule::Causes, "master");
    let told = judged(&files).to_string();
    assert!(
        told.contains("3 of 3 collectives that were aborted have no cause"),
        "{told}"
    );
}

#[test]
fn a_reduce_that_fails_because_a_peer_dies_has_its_cause() {
    let mut run = Run::of(3);
    run.rings = Rings::Open;
    run.reduces();
    run.dies(2);
    run.rings = Rings::Whole;
    run.reduces();

    let judgement = judged(&run.ends());

    assert!(judgement.is_sound(), "{judgement}");
    let ends = judgement.runs[0].ends;
    assert_eq!((ends.aborted, ends.committed), (1, 1), "{judgement}");
}

#[test]
fn a_run_of_which_every_reduce_fails_has_made_no_progress_for_a_cause_if_somebody_died() {
    let mut run = Run::of(3);
    run.rings = Rings::Open;
    run.reduces();
    run.dies(2);

    let judgement = judged(&run.ends());

    assert!(judgement.is_sound(), "{judgement}");
    assert_eq!(judgement.runs[0].ends.aborted, 1, "{judgement}");
}

/// Nothing moves, nobody says why, and the master waits as long as it should.
#[test]
fn a_run_of_which_every_reduce_runs_out_of_time_and_nothing_shows_why_has_made_no_progress() {
    let mut run = Run::of(2);
    run.rings = Rings::Open;
    run.reduces();
    (0..60).for_each(|_| run.master_beats());
    run.is_late(0);
    let files = run.ends();

    let broken: Vec<Rule> = judged(&files)
        .findings
        .iter()
        .map(|found| found.rule)
        .collect();
    assert_eq!(broken, [Rule::Progress], "{}", judged(&files));
}

#[test]
fn a_reduce_that_is_given_up_before_its_time_is_not_late() {
    let mut run = Run::of(2);
    run.rings = Rings::Open;
    run.reduces();
    run.master_beats();
    run.is_late(0);

    assert_breaks(&run.ends(), Rule::TimersTakeTheirTime, "master");
}
