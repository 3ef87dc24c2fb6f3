//! The run of all scenarios, or of some.

use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use pccl_model::catalogue::{deep, standard};
use pccl_model::scenario::Scenario;

use crate::arguments::Arguments;
use crate::pinned::Pinned;
use crate::progress::Progress;
use crate::report::Report;
use crate::search::{End, Explored, Limits, SearchPanicked, search};
use crate::violation;
use crate::walks::{Walked, walk_all};
use crate::{AllWell, CannotLook, rare, table};

/// Walks through each scenario, unless a number is given.
const WALKS: u64 = 2_000;

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
            && as_it_is
            && !arguments.deep
            && arguments.simulate.is_none(),
        may_be_cut: arguments.deep,
        pinned: Pinned::known()?,
        is_held_to_pinned: as_it_is && !arguments.deep && !arguments.pin,
        ..Report::default()
    };
    if arguments.simulate.is_none() {
        explore_all(arguments, &scenarios, &mut report)?;
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

fn pin(report: &Report) -> Result<(), CannotLook> {
    let (file, text) = (
        Pinned::file(),
        serde_json::to_string_pretty(&Pinned::of(report))?,
    );
    std::fs::write(&file, text + "\n").map_err(|why| CannotLook::File(file.clone(), why))?;
    println!("Written to {}.", file.display());
    Ok(())
}

/// Until the first broken claim, whose story is told at once. Whether every run of a scenario ends is looked at
/// while the next scenario is searched.
fn explore_all(
    arguments: &Arguments,
    scenarios: &[Scenario],
    report: &mut Report,
) -> Result<(), CannotLook> {
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let mut behind: Option<ScopedJoinHandle<'_, Explored>> = None;
        for (at, scenario) in scenarios.iter().enumerate() {
            let (number, of) = (at + 1, scenarios.len());
            let mut progress = Progress::new(format!("{number} of {of}, {}", scenario.name));
            let limits = limits(arguments, report, scenario);
            let searched = search(scenario, arguments.threads(), limits, &mut progress)?;
            drop(progress);
            let has_found = searched.has_found();
            let before = behind.replace(scope.spawn(move || searched.finish()));
            if !take(before, arguments, report)? {
                return Ok(());
            }
            if has_found {
                break;
            }
        }
        take(behind, arguments, report).map(|_| ())
    })?;
    report.took = begun.elapsed();
    Ok(())
}

/// True: nothing was found.
fn take(
    finishing: Option<ScopedJoinHandle<'_, Explored>>,
    arguments: &Arguments,
    report: &mut Report,
) -> Result<bool, SearchPanicked> {
    let Some(finishing) = finishing else {
        return Ok(true);
    };
    let explored = finishing.join().map_err(|_| SearchPanicked)?;
    if let Some(steps) = explored.violation.clone() {
        violation::tell(&explored.scenario, steps, explored.end, arguments.threads());
    }
    let is_sound = explored.violation.is_none();
    report.explored.push(explored);
    Ok(is_sound)
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
    let walks = arguments.simulate.unwrap_or(WALKS);
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
