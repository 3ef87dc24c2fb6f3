//! Making one mistake after the other, and looking for each.
//!
//! First nobody makes a mistake, and nothing may be found: else what is found later says nothing.
//! Then random walks within the budgets of each scenario, a few first: what they meet, the exhaustive search
//! meets too. What they do not meet is searched for depth-first, for as long as there is time. The shortest
//! way is looked for as for every broken claim. What takes long to find is looked for first where it was found before.

use std::time::{Duration, Instant};

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use pccl_model::RunModel;
use pccl_model::catalogue::standard;
use pccl_model::core::mutants::{Mutant, switch_on as make, taken};
use pccl_model::scenario::Scenario;
use pccl_model::step::Step;
use pccl_model::trace::Trace;

use crate::arguments::Arguments;
use crate::endless::in_short;
use crate::pinned::STEPS_MIN;
use crate::progress::Progress;
use crate::search::{End, Limits, explore, trace_of};
use crate::shortest::{ShortTrace, shorten};
use crate::standard::chosen;
use crate::violation::{tell_trace, write};
use crate::walks::{WalkEnd, shortest_failure};
use crate::{AllWell, CannotLook};

/// Walks through each scenario.
const WALKS: u64 = 400;

/// Where walks meet nothing, each scenario is explored for so long.
const SEARCH_TIME: Duration = Duration::from_secs(3);

/// And so many states at most.
const SEARCH_STATES: usize = 60_000;

/// The scenarios in which mistakes that few walks meet are looked for first. They are found without, too, in twice the
/// time for all mistakes together.
const FIRST_IN: [(&str, &str); 10] = [
    ("all-holders-blamed", "holders-3"),
    ("late-counted-in-all-groups", "rest-beside"),
    ("newcomers-at-the-end-only", "port-4"),
    ("search-of-another-round", "background-again"),
    ("several-after-a-failure", "dropped-sync-3"),
    ("stalls-never-forgiven", "late-2"),
    ("tour-of-another-round", "optimize-again"),
    ("transfer-turned-round", "dropped-sync-3"),
    ("unfetchable-not-spared", "unfetchable-3"),
    ("who-withdrew-rests", "withdraw-3"),
];

/// What is done for one mistake.
struct Effort {
    /// Walks through every scenario before more are made through any.
    walks_first: u64,
    /// So long is the shortest way looked for.
    time_to_shorten: Duration,
}

/// The first scenarios make the best stories.
const FOR_ITS_STORY: Effort = Effort {
    walks_first: WALKS,
    time_to_shorten: Duration::from_secs(5),
};

/// A few walks meet most mistakes, but not in the first scenarios.
const FOR_THE_TABLE: Effort = Effort {
    walks_first: 25,
    time_to_shorten: Duration::from_secs(1),
};

/// What became of one mistake.
struct Hunted {
    mutant: Mutant,
    found: Option<Found>,
    /// Was its place in core ever reached?
    made: bool,
    time: Duration,
}

impl Hunted {
    fn in_short(&self) -> String {
        let seconds = self.time.as_secs_f64();
        match &self.found {
            Some(found) => format!(
                "{}, {} steps, {seconds:.1} s",
                found.trace.scenario,
                found.trace.steps.len()
            ),
            None => format!("SURVIVES, {seconds:.1} s"),
        }
    }
}

struct Found {
    trace: Trace,
    how: How,
    is_shortest: bool,
}

/// What met it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// A random walk, which the exhaustive search contains.
    Walk,
    /// A depth-first search.
    Search,
    /// The run does not come to rest.
    Circle,
}

/// Makes a mistake from here on.
pub(crate) fn switch_on(name: &str) -> Result<(), CannotLook> {
    let mutant = Mutant::from_name(name);
    make(Some(
        mutant.ok_or_else(|| CannotLook::UnknownMutant(name.to_owned()))?,
    ));
    Ok(())
}

/// Looks for all, or for one.
pub(crate) fn run(arguments: &Arguments) -> AllWell {
    let one = arguments.mutant.as_deref();
    if let Some(name) = one {
        // Is there one of this name?
        switch_on(name)?;
    }
    let wanted = |mutant: &&Mutant| one.is_none_or(|name| mutant.name() == name);
    let mutants: Vec<Mutant> = Mutant::ALL.iter().filter(wanted).copied().collect();
    let scenarios = if arguments.deep || !arguments.scenario.is_empty() {
        chosen(arguments)?
    } else {
        standard()
    };
    make(None);
    let mut control = Progress::new("no mistake".to_owned());
    if let Some((scenario, ..)) = by_walks(&scenarios, WALKS, arguments.threads(), &mut control) {
        return Err(CannotLook::BrokenWithoutMistake(scenario.name));
    }
    drop(control);
    let mut hunted = Vec::new();
    for (at, mutant) in mutants.iter().enumerate() {
        let what = format!("{} of {}, {}", at + 1, mutants.len(), mutant.name());
        let mut progress = Progress::new(what);
        let known = hunt(*mutant, &scenarios, arguments, &mut progress)?;
        progress.conclude(&known.in_short());
        hunted.push(known);
    }
    if let (Some(_), [only]) = (one, &hunted[..]) {
        tell(only);
    }
    print(&hunted);
    Ok(hunted.iter().all(|known| known.found.is_some()))
}

fn hunt(
    mutant: Mutant,
    scenarios: &[Scenario],
    arguments: &Arguments,
    progress: &mut Progress,
) -> Result<Hunted, CannotLook> {
    let begun = Instant::now();
    make(Some(mutant));
    let threads = arguments.threads();
    let effort = match arguments.mutant {
        Some(_) => FOR_ITS_STORY,
        None => FOR_THE_TABLE,
    };
    let first = first_of(mutant, scenarios);
    let met = match meet(&first, WALKS, threads, progress)? {
        Some(met) => Some(met),
        None => meet(scenarios, effort.walks_first, threads, progress)?,
    };
    let found = met.map(|met| {
        progress.say("found; looking for the shortest way");
        shortest(mutant, met, threads, effort.time_to_shorten)
    });
    Ok(Hunted {
        mutant,
        found,
        made: taken(),
        time: begun.elapsed(),
    })
}

/// Where this mistake is looked for before all other scenarios.
fn first_of(mutant: Mutant, scenarios: &[Scenario]) -> Vec<Scenario> {
    let is_first = |scenario: &&Scenario| FIRST_IN.contains(&(mutant.name(), scenario.name));
    scenarios.iter().filter(is_first).cloned().collect()
}

/// A few walks, then more, then a search.
fn meet(
    scenarios: &[Scenario],
    walks_first: u64,
    threads: usize,
    progress: &mut Progress,
) -> Result<Option<Met>, CannotLook> {
    let more = (walks_first < WALKS).then_some(WALKS);
    let mut walks = [Some(walks_first), more].into_iter().flatten();
    match walks.find_map(|walks| by_walks(scenarios, walks, threads, progress)) {
        Some(met) => Ok(Some(met)),
        None => by_search(scenarios, threads, progress),
    }
}

/// Where, on which way, by what.
type Met = (Scenario, Vec<Step>, How);

/// So many walks through each scenario, and all through the first in which one of them meets something.
fn by_walks(
    scenarios: &[Scenario],
    walks: u64,
    threads: usize,
    progress: &mut Progress,
) -> Option<Met> {
    scenarios.iter().find_map(|scenario| {
        progress.say(&format!("walks through {}", scenario.name));
        let model = RunModel::new(scenario.clone());
        let mut failed = shortest_failure(&model, 1..1 + walks, threads)?;
        if walks < WALKS {
            failed = shortest_failure(&model, 1..1 + WALKS, threads).unwrap_or(failed);
        }
        let how = match failed.end {
            WalkEnd::Rest | WalkEnd::Broken => How::Walk,
            WalkEnd::Circle | WalkEnd::NoEnd => How::Circle,
        };
        Some((scenario.clone(), failed.steps, how))
    })
}

fn limits() -> Limits {
    Limits {
        time: Some(SEARCH_TIME),
        states: SEARCH_STATES,
        steps: STEPS_MIN,
        ..Limits::default()
    }
}

fn by_search(
    scenarios: &[Scenario],
    threads: usize,
    progress: &mut Progress,
) -> Result<Option<Met>, CannotLook> {
    for scenario in scenarios {
        let mut go_on = |unique, time| {
            progress.show(scenario.name, unique, time);
            true
        };
        let explored = explore(scenario, threads, limits(), &mut go_on)?;
        if let Some(steps) = explored.violation {
            let how = match explored.end {
                End::Endless => How::Circle,
                _ => How::Search,
            };
            return Ok(Some((scenario.clone(), steps, how)));
        }
    }
    Ok(None)
}

fn shortest(mutant: Mutant, (scenario, steps, how): Met, threads: usize, time: Duration) -> Found {
    let way = match how {
        How::Circle => ShortTrace {
            steps: in_short(&RunModel::new(scenario.clone()), &steps).steps,
            is_shortest: false,
        },
        How::Walk | How::Search => {
            let model = RunModel::new(scenario.clone());
            shorten(&model, steps, threads, time)
        }
    };
    let mut trace = trace_of(&scenario, way.steps);
    trace.mutant = Some(mutant.name().to_owned());
    Found {
        trace,
        how,
        is_shortest: way.is_shortest,
    }
}

fn tell(hunted: &Hunted) {
    println!("{}:{}", hunted.mutant.name(), hunted.mutant.story());
    if let Some(found) = &hunted.found {
        tell_trace(&found.trace, None);
        write(&found.trace);
    }
}

const COLUMNS: [&str; 6] = [
    "mistake",
    "found in",
    "what is broken",
    "steps",
    "by",
    "seconds",
];

fn print(hunted: &[Hunted]) {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(COLUMNS);
    for known in hunted {
        table.add_row(row(known));
    }
    for column in [3, 5] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    println!("{table}");
    let found: Vec<&Found> = hunted
        .iter()
        .filter_map(|known| known.found.as_ref())
        .collect();
    let lengths: Vec<usize> = found.iter().map(|found| found.trace.steps.len()).collect();
    let time: Duration = hunted.iter().map(|known| known.time).sum();
    println!(
        "{} of {} mistakes found, in {:.0} s. Steps to see one: {:.1} on average, {} at most.",
        found.len(),
        hunted.len(),
        time.as_secs_f64(),
        lengths.iter().sum::<usize>() as f64 / lengths.len().max(1) as f64,
        lengths.iter().max().unwrap_or(&0),
    );
    println!("(~: there may be a shorter way; the search for it was ended.)");
}

fn row(known: &Hunted) -> [String; 6] {
    let name = known.mutant.name().to_owned();
    let seconds = format!("{:.1}", known.time.as_secs_f64());
    let Some(found) = &known.found else {
        let why = if known.made {
            "SURVIVES: it was made, and breaks no claim"
        } else {
            "SURVIVES: nobody came to its place"
        };
        let nothing = String::new;
        return [
            name,
            nothing(),
            why.to_owned(),
            nothing(),
            nothing(),
            seconds,
        ];
    };
    let steps = found.trace.steps.len();
    let mark = if found.is_shortest { "" } else { "~" };
    let what = match (steps, found.how) {
        (_, How::Circle) => "the run does not come to rest",
        (0, How::Walk | How::Search) => "the run breaks before its first step",
        (_, How::Walk | How::Search) => found.trace.breaks.map_or("", |claim| claim.sentence()),
    };
    let by = match found.how {
        How::Walk | How::Circle => "walk",
        How::Search => "search",
    };
    [
        name,
        found.trace.scenario.clone(),
        what.to_owned(),
        format!("{mark}{steps}"),
        by.to_owned(),
        seconds,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_looked_for_first_is_there() {
        let scenarios = standard();
        for (mistake, scenario) in FIRST_IN {
            assert!(Mutant::ALL.iter().any(|mutant| mutant.name() == mistake));
            assert!(scenarios.iter().any(|known| known.name == scenario));
        }
    }
}
