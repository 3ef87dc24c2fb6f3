//! The run of all scenarios, or of some.

use std::time::{Duration, Instant};

use pccl_model::catalogue::{deep, standard};
use pccl_model::scenario::Scenario;

use crate::arguments::Arguments;
use crate::pinned::Pinned;
use crate::progress::Progress;
use crate::report::Report;
use crate::search::{End, Explored, Limits};
use crate::several::Several;
use crate::violation;
use crate::walks::{Walked, walk_all};
use crate::{AllWell, CannotLook, rare, table};

/// Walks through each scenario, unless a number is given.
const WALKS: u64 = 2_000;

/// The same, if larger scenarios are left out.
const FEWER_WALKS: u64 = 500;

/// The scenarios that were asked for, as they were asked for.
pub(crate) fn chosen(arguments: &Arguments) -> Result<Vec<Scenario>, CannotLook> {
    let all = if arguments.deep { deep() } else { standard() };
    for name in &arguments.scenario {
        if !all.iter().any(|known| known.name == name) {
            return Err(CannotLook::UnknownScenario(name.clone()));
        }
    }
    let wanted = |known: &Scenario| {
        let names = &arguments.scenario;
        names.is_empty() || names.iter().any(|name| known.name == name)
    };
    let as_asked = |mut scenario: Scenario| {
        if let Some(peers) = arguments.peers {
            scenario = scenario.with_peers(usize::from(peers));
        }
        if let Some(faults) = arguments.faults {
            scenario = scenario.with_faults(faults);
        }
        scenario
    };
    Ok(all.into_iter().filter(wanted).map(as_asked).collect())
}

/// Explores, walks, and prints what came of it.
pub(crate) fn run(arguments: &Arguments) -> AllWell {
    let scenarios = chosen(arguments)?;
    let as_it_is = arguments.peers.is_none() && arguments.faults.is_none();
    let mut report = Report {
        is_whole: arguments.scenario.is_empty()
            && arguments.states_max.is_none()
            && as_it_is
            && !arguments.deep
            && arguments.simulate.is_none(),
        may_be_cut: arguments.deep,
        pinned: Pinned::known()?,
        is_held_to_pinned: as_it_is && !arguments.deep && !arguments.pin,
        ..Report::default()
    };
    if arguments.simulate.is_none() {
        let small = not_larger(&scenarios, arguments.states_max, &report.pinned);
        explore_all(arguments, &small, &mut report)?;
    }
    let is_sound = |known: &Explored| !matches!(known.end, End::Broken | End::Endless);
    if report.explored.iter().all(is_sound) {
        walk_through_all(arguments, &scenarios, &mut report);
        if let (true, Some(walked)) = (report.is_whole, &report.walked) {
            let rare = rare::coverage().map_err(CannotLook::RareWay)?;
            walked.coverage.merge(&rare);
        }
    }
    table::print(&report, arguments.coverage);
    if arguments.pin && report.is_whole {
        pin(&report)?;
    }
    if let Some(file) = &arguments.json {
        let text = serde_json::to_string_pretty(&report.figures())?;
        std::fs::write(file, text + "\n").map_err(|why| CannotLook::File(file.clone(), why))?;
    }
    Ok(report.failures().is_empty())
}

/// The scenarios of at most so many states, and those of which nothing is pinned.
fn not_larger(scenarios: &[Scenario], states_max: Option<usize>, pinned: &Pinned) -> Vec<Scenario> {
    let max = states_max.unwrap_or(usize::MAX);
    let small = |known: &&Scenario| pinned.states(known.name) <= max;
    scenarios.iter().filter(small).cloned().collect()
}

fn pin(report: &Report) -> Result<(), CannotLook> {
    let (file, text) = (
        Pinned::file(),
        serde_json::to_string_pretty(&Pinned::of(report))?,
    );
    std::fs::write(&file, text + "\n").map_err(|why| CannotLook::File(file.clone(), why))?;
    println!("Written to {}.", file.display());
    Ok(())
}

/// Until the first broken claim, whose story is told.
fn explore_all(
    arguments: &Arguments,
    scenarios: &[Scenario],
    report: &mut Report,
) -> Result<(), CannotLook> {
    let begun = Instant::now();
    let mut progress = Progress::new(format!("{} scenarios", scenarios.len()));
    let threads = arguments.threads();
    let several = Several {
        scenarios,
        limits: &|scenario| limits(arguments, report, scenario),
        size: &|scenario| report.pinned.states(scenario.name),
        threads,
        // Of the large ones a single one may take all the memory there is.
        at_once: match arguments.deep {
            true => 1,
            false => threads.min(scenarios.len()).max(1),
        },
    };
    let explored = several.explore(&mut progress)?;
    drop(progress);
    let broken = explored.iter().find(|known| known.violation.is_some());
    if let Some((known, steps)) = broken.and_then(|known| Some((known, known.violation.clone()?))) {
        violation::tell(&known.scenario, steps, known.end, threads);
    }
    report.explored = explored;
    report.took = begun.elapsed();
    Ok(())
}

fn limits(arguments: &Arguments, report: &Report, scenario: &Scenario) -> Limits {
    let limits = Limits {
        time: arguments.time_limit.map(Duration::from_secs),
        memory: arguments.memory << 30,
        ..Limits::default()
    };
    if report.is_held_to_pinned {
        report.pinned.limits(scenario.name, limits)
    } else {
        limits
    }
}

fn walk_through_all(arguments: &Arguments, scenarios: &[Scenario], report: &mut Report) {
    let unasked = arguments.states_max.map_or(WALKS, |_| FEWER_WALKS);
    let walks = arguments.simulate.unwrap_or(unasked);
    let seeds = arguments.seed..arguments.seed.saturating_add(walks);
    let mut walked = Walked::default();
    for scenario in scenarios {
        let mut progress = Progress::new(format!("walks through {}", scenario.name));
        walk_all(
            scenario,
            seeds.clone(),
            arguments.threads(),
            &mut progress,
            &mut walked,
        );
        drop(progress);
        if let Some(failed) = &walked.failed {
            violation::tell_walk(failed, arguments.threads());
            break;
        }
    }
    report.walked = Some(walked);
}
