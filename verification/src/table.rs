//! The table at the end, and what it does not show in a column.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use pccl_model::claim::CLAIMS;
use pccl_model::coverage::{
    Coverage, DOWN_KINDS, RECEIVERS, ReceiverIn, SenderIn, UP_KINDS, senders,
};

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

const COLUMNS: [&str; 13] = [
    "scenario",
    "peers",
    "faults",
    "unique states",
    "generated",
    "deepest",
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

fn row(explored: &Explored, new: usize) -> [String; 13] {
    let scenario = &explored.scenario;
    [
        scenario.name.to_owned(),
        scenario.seats.len().to_string(),
        scenario.faults.to_string(),
        count(explored.unique),
        count(explored.generated),
        explored.depth.to_string(),
        format!("{:.1}", explored.time.as_secs_f64()),
        rate(explored.unique, explored.time),
        match explored.end {
            End::Exhausted => "exhaustive".to_owned(),
            End::Cut => format!("cut at {}", count(explored.unique)),
            End::Broken => "until a claim broke".to_owned(),
        },
        format!("{} of {}", explored.held(), CLAIMS.len()),
        format!("{} of {}", explored.reached(), scenario.milestones.len()),
        explored.coverage.taken().to_string(),
        format!("+{new}"),
    ]
}

fn totals(report: &Report) {
    let (unique, time) = (report.unique(), report.time());
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
    println!("The chance that a state was taken for another one: {chance:.0e}.");
}

fn coverage(report: &Report, whole: bool) {
    let seen = report.coverage();
    let never = seen.never_taken();
    println!(
        "{} of {} legal transitions were taken.",
        seen.taken(),
        seen.rows_in_all()
    );
    if report.is_whole {
        for transition in &never {
            println!("  never: {transition}");
        }
    }
    let (up, down) = (matrix_up(&seen), matrix_down(&seen));
    println!(
        "Messages to the master arrived in {} of {} pairs of kind and state, messages to a peer in \
         {} of {}{}",
        up.seen,
        up.pairs,
        down.seen,
        down.pairs,
        if whole {
            ":"
        } else {
            " (--coverage shows which)."
        }
    );
    if whole {
        println!("{}\n{}", up.table, down.table);
    }
}

/// Which kinds of messages arrived in which states.
struct Matrix {
    table: Table,
    seen: usize,
    pairs: usize,
}

fn matrix(rows: &[String], kinds: &[&str], has: impl Fn(usize, usize) -> bool) -> Matrix {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    let numbers = (1..=kinds.len()).map(|number| number.to_string());
    table.set_header(std::iter::once("state".to_owned()).chain(numbers));
    let mut seen = 0;
    for (at, row) in rows.iter().enumerate() {
        let marks = (0..kinds.len()).map(|kind| if has(at, kind) { "x" } else { "" });
        let marks: Vec<String> = marks.map(str::to_owned).collect();
        seen += marks.iter().filter(|mark| !mark.is_empty()).count();
        table.add_row(std::iter::once(row.clone()).chain(marks));
    }
    for (at, kind) in kinds.iter().enumerate() {
        table.add_row([format!("{} = {kind}", at + 1)]);
    }
    Matrix {
        table,
        seen,
        pairs: rows.len() * kinds.len(),
    }
}

fn matrix_up(seen: &Coverage) -> Matrix {
    let senders: Vec<SenderIn> = senders();
    let names: Vec<String> = senders.iter().map(|sender| format!("{sender:?}")).collect();
    matrix(&names, &UP_KINDS, |row, kind| {
        let sender = senders.get(row);
        sender.is_some_and(|sender| seen.has_gone_up(kind, *sender))
    })
}

fn matrix_down(seen: &Coverage) -> Matrix {
    let receivers: [ReceiverIn; RECEIVERS.len()] = RECEIVERS;
    let names: Vec<String> = receivers
        .iter()
        .map(|receiver| format!("{receiver:?}"))
        .collect();
    matrix(&names, &DOWN_KINDS, |row, kind| {
        let receiver = receivers.get(row);
        receiver.is_some_and(|receiver| seen.has_gone_down(kind, *receiver))
    })
}
