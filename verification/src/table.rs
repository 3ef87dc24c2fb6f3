//! The table at the end, and what it does not show in a column.

use std::collections::{BTreeMap, BTreeSet};

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use pccl_model::claim::CLAIMS;
use pccl_model::coverage::{Cell, Coverage, DOWN_KINDS, RECEIVERS, SenderIn, UP_KINDS, senders};
use pccl_model::scenario::ANY_FAULT;

use crate::report::Report;
use crate::search::{End, Explored};
use crate::words::{chance_of_collision, count, rate};

/// Prints the table, the totals and what was never seen.
pub(crate) fn print(report: &Report, whole_coverage: bool) {
    if !report.explored.is_empty() {
        println!("{}", table(report));
        totals(report);
        coverage(report, whole_coverage);
    }
    if let Some(walked) = &report.walked {
        println!(
            "{} random walks with more faults, {} steps, the longest {}, in {:.1} s.",
            count(usize::try_from(walked.walks).unwrap_or(usize::MAX)),
            count(walked.steps),
            walked.longest,
            walked.time.as_secs_f64()
        );
    }
    let failures = report.failures();
    if failures.is_empty() {
        println!("All is well.");
    } else {
        println!("This is not well:");
    }
    for failure in failures {
        println!("  {failure}");
    }
}

const COLUMNS: [&str; 14] = [
    "scenario",
    "peers",
    "faults",
    "unique states",
    "generated",
    "deepest",
    "longest run",
    "seconds",
    "states/s",
    "explored",
    "claims held",
    "milestones",
    "transitions",
    "new there",
];

fn table(report: &Report) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(COLUMNS);
    let seen = Coverage::default();
    for explored in &report.explored {
        let before = seen.taken();
        seen.merge(&explored.coverage);
        table.add_row(row(explored, seen.taken() - before));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn row(explored: &Explored, new: usize) -> [String; 14] {
    let scenario = &explored.scenario;
    [
        scenario.name.to_owned(),
        scenario.seats.len().to_string(),
        if scenario.kinds == ANY_FAULT {
            scenario.faults.to_string()
        } else {
            format!("{} of {} kinds", scenario.faults, scenario.kinds.len())
        },
        count(explored.unique),
        count(explored.generated),
        explored.depth.to_string(),
        explored
            .longest
            .map_or("?".to_owned(), |steps| steps.to_string()),
        format!("{:.1}", explored.time.as_secs_f64()),
        rate(explored.unique, explored.time),
        match explored.end {
            End::Exhausted => "exhaustive".to_owned(),
            End::Cut => format!("cut at {}", count(explored.unique)),
            End::TooManyStates => "no end in sight".to_owned(),
            End::OutOfMemory => "until memory was full".to_owned(),
            End::Endless => "until a run had no end".to_owned(),
            End::Broken => "until a claim broke".to_owned(),
        },
        format!("{} of {}", explored.held(), CLAIMS.len()),
        format!("{} of {}", explored.reached(), scenario.milestones.len()),
        explored.coverage.taken().to_string(),
        format!("+{new}"),
    ]
}

fn totals(report: &Report) {
    let (unique, time) = (report.unique(), report.took);
    let exhausted = report
        .explored
        .iter()
        .filter(|known| known.end == End::Exhausted);
    let chance: f64 = report
        .explored
        .iter()
        .map(|known| chance_of_collision(known.unique))
        .sum();
    println!(
        "{} unique states ({} generated) in {:.1} s, {} a second; {} of {} scenarios to their end.",
        count(unique),
        count(report.generated()),
        time.as_secs_f64(),
        rate(unique, time),
        exhausted.count(),
        report.explored.len(),
    );
    ends(report);
    println!("The chance that a state was taken for another one: {chance:.0e}.");
}

/// Whether every run ends, and when.
fn ends(report: &Report) {
    let longest = report.explored.iter().filter_map(|known| known.longest);
    let shown = longest.clone().count();
    let Some(longest) = longest.max() else { return };
    println!(
        "Every run ends, after {longest} steps at most (signs of life do not count): so it is in {shown} of {} scenarios, in which no run meets a state twice.",
        report.explored.len()
    );
}

fn coverage(report: &Report, whole: bool) {
    let explored = report.coverage();
    println!(
        "{} of {} legal transitions were taken.",
        explored.taken(),
        explored.rows_in_all()
    );
    let seen = report.met();
    let pairs = seen.pairs_in_all();
    let in_walks_only = explored.gaps().len() - seen.gaps().len();
    println!(
        "Messages arrived in {} of the {pairs} states in which they may, in {in_walks_only} of them on walks and rare ways only{}",
        pairs - seen.gaps().len(),
        if whole {
            ":"
        } else {
            " (--coverage shows which)."
        }
    );
    if whole {
        println!("{}\n{}", matrix_up(&seen), matrix_down(&seen));
        println!(
            "x: did; o: may, and did not; blank: cannot, or is not asked for, and this is why:"
        );
        reasons(&seen);
    }
}

/// Why what is blank is blank.
fn reasons(seen: &Coverage) {
    let mut by_reason: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for cell in seen.impossible() {
        let reason = cell.why_never.unwrap_or_default();
        by_reason.entry(reason).or_default().insert(cell.kind);
    }
    for (reason, kinds) in by_reason {
        let kinds: Vec<&str> = kinds.into_iter().collect();
        println!("  {reason}: {}", kinds.join(", "));
    }
}

/// Which kinds of messages arrived in which states.
fn matrix(
    rows: &[String],
    kinds: &[&str],
    gaps: &[Cell],
    has: impl Fn(usize, usize) -> bool,
) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    let numbers = (1..=kinds.len()).map(|number| number.to_string());
    table.set_header(std::iter::once("state".to_owned()).chain(numbers));
    for (at, row) in rows.iter().enumerate() {
        let is_gap = |kind: &str| gaps.iter().any(|gap| gap.kind == kind && gap.state == *row);
        let marks = kinds.iter().enumerate().map(|(number, kind)| {
            let mark = match (has(at, number), is_gap(kind)) {
                (true, _) => "x",
                (false, true) => "o",
                (false, false) => "",
            };
            mark.to_owned()
        });
        table.add_row(std::iter::once(row.clone()).chain(marks));
    }
    for (at, kind) in kinds.iter().enumerate() {
        table.add_row([format!("{} = {kind}", at + 1)]);
    }
    table
}

fn matrix_up(seen: &Coverage) -> Table {
    let senders: Vec<SenderIn> = senders();
    let names: Vec<String> = senders.iter().map(|sender| format!("{sender:?}")).collect();
    matrix(&names, &UP_KINDS, &seen.gaps(), |row, kind| {
        let sender = senders.get(row);
        sender.is_some_and(|sender| seen.has_gone_up(kind, *sender))
    })
}

fn matrix_down(seen: &Coverage) -> Table {
    let receivers = RECEIVERS;
    let names = receivers.iter().map(|receiver| format!("{receiver:?}"));
    let names: Vec<String> = names.collect();
    matrix(&names, &DOWN_KINDS, &seen.gaps(), |row, kind| {
        let receiver = receivers.get(row);
        receiver.is_some_and(|receiver| seen.has_gone_down(kind, *receiver))
    })
}
