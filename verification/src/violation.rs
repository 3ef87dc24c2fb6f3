//! A broken claim: its shortest story, a file to replay it from, and the line that makes it a test.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pccl_model::RunModel;
use pccl_model::claim::Claim;
use pccl_model::scenario::Scenario;
use pccl_model::step::Step;
use pccl_model::story::Story;
use pccl_model::trace::Trace;

use crate::endless::in_short;
use crate::quiet::last_panic;
use crate::search::{End, trace_of};
use crate::shortest::{ShortTrace, shorten};
use crate::walks::{Failed, WalkEnd};

/// So long is searched for the shortest way.
pub(crate) const TIME_TO_SHORTEN: Duration = Duration::from_secs(60);

/// Finds the shortest way, tells it, and writes it down.
pub(crate) fn tell(scenario: &Scenario, long: Vec<Step>, end: End, threads: usize) {
    if end == End::Endless {
        println!("\nA run does not end in {}:", scenario.name);
        tell_endless(scenario, &long);
    } else {
        tell_broken(scenario, long, threads);
    }
}

/// Tells how it comes that a run does not end.
fn tell_endless(scenario: &Scenario, long: &[Step]) {
    let endless = in_short(&RunModel::new(scenario.clone()), long);
    let trace = trace_of(scenario, endless.steps);
    tell_trace(&trace, None);
    match endless.repeated {
        Some(repeated) => println!("And so on: the last {repeated} steps again and again."),
        None => println!("And so on, for longer than any run should."),
    }
    write(&trace);
}

fn tell_broken(scenario: &Scenario, long: Vec<Step>, threads: usize) {
    let model = RunModel::new(scenario.clone());
    println!(
        "\nA claim is broken in {}, on a way of {} steps. Looking for the shortest …",
        scenario.name,
        long.len()
    );
    let way = shorten(&model, long, threads, TIME_TO_SHORTEN);
    let trace = trace_of(scenario, way.steps.clone());
    tell_trace(&trace, Some(&way));
    write(&trace);
}

/// Tells a walk that did not end well.
pub(crate) fn tell_walk(failed: &Failed, threads: usize) {
    match failed.end {
        WalkEnd::Rest => {}
        WalkEnd::Broken => {
            println!("\nThe walk of seed {} breaks a claim.", failed.seed);
            tell_broken(&failed.scenario, failed.steps.clone(), threads);
        }
        WalkEnd::Circle | WalkEnd::NoEnd => {
            println!("\nThe walk of seed {} does not come to rest:", failed.seed);
            tell_endless(&failed.scenario, &failed.steps);
        }
    }
}

/// Prints the story of a trace.
pub(crate) fn tell_trace(trace: &Trace, way: Option<&ShortTrace>) {
    let replay = match trace.replay() {
        Ok(replay) => replay,
        Err(why) => {
            println!("the trace cannot be gone: {why}");
            return;
        }
    };
    println!("\n{}", Story(&replay));
    if trace.breaks == Some(Claim::NoPanic) {
        println!("{}", last_panic().unwrap_or_default());
    }
    if let Some(way) = way {
        println!("{}", how_short(way));
    }
}

fn how_short(way: &ShortTrace) -> String {
    let steps = way.steps.len();
    if way.is_shortest {
        format!("No way of less than {steps} steps breaks any claim.")
    } else {
        format!(
            "There may be a shorter way than these {steps} steps: the search for it took too long."
        )
    }
}

pub(crate) fn write(trace: &Trace) {
    let path = place(&format!("verification-trace-{}.txt", trace.scenario));
    match std::fs::write(&path, trace.to_string()) {
        Ok(()) => println!(
            "To go through it again: cargo run -p verification -- --replay {}",
            path.display()
        ),
        Err(why) => println!(
            "The trace could not be written to {}: {why}",
            path.display()
        ),
    }
    if trace.mutant.is_none() {
        println!(
            "To keep it as a test, copy this line into `traces!` of core/tests/traces.rs:\n\n    \
             the_run_survives_this: \"{}\",\n",
            trace.line()
        );
    }
}

/// Where built things go, if there is such a place here.
fn place(name: &str) -> PathBuf {
    let target = Path::new("target");
    if target.is_dir() {
        target.join(name)
    } else {
        PathBuf::from(name)
    }
}
