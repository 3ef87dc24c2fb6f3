//! Measures everything that was asked for, and shows it: rows as they come, files at the end.

use std::path::{Path, PathBuf};
use std::{fs, io};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::arguments::Arguments;
use super::choice::{self, Cell};
use super::congestion;
use super::crew::Trouble;
use super::machine::Machine;
use super::notes;
use super::optimized::Summary;
use super::over::Over;
use super::plot;
use super::row::Row;
use super::session::{BestWays, Session};
use super::table;

/// Why there is no complete report.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReportError {
    #[error("{0}")]
    Trouble(#[from] Trouble),
    #[error("cannot open a connection over loopback: {0}")]
    Loopback(#[from] io::Error),
    #[error("cannot write {}: {error}", file.display())]
    File { file: PathBuf, error: io::Error },
    #[error("cannot draw {}: {error}", file.display())]
    Plot {
        file: PathBuf,
        error: plot::PlotError,
    },
}

/// The JSON file.
#[derive(Serialize)]
struct Document<'a> {
    machine: &'a Machine,
    settings: Settings<'a>,
    /// One for each number of peers and of lanes, with `--optimize`.
    optimizations: &'a [Summary],
    rows: &'a [Row],
    /// With `--every-algorithm`, in place of the rows.
    choices: &'a [Cell],
}

/// What was asked for beyond what stands in the rows.
#[derive(Serialize)]
struct Settings<'a> {
    version: &'static str,
    peers: &'a [usize],
    lanes: &'a [u16],
    min_bytes: usize,
    max_bytes: usize,
    step_factor: u32,
    /// `null`: by size.
    iterations: Option<u32>,
    /// `null`: by size.
    warmup: Option<u32>,
    /// What the lanes are.
    transport: String,
    /// That the lanes ask for; `null`: the library's choice per lane.
    congestion: Option<&'a str>,
    /// That a lane over loopback has then, as read from a connection; `null`: the system does not tell.
    congestion_in_force: Option<&'a str>,
    /// That the floor asks for; `null`: nothing, or there is no floor.
    floor_congestion: Option<&'a str>,
    /// Did the lanes deny that both their ends are on this machine?
    far: bool,
    /// Was each rank kept on one core?
    bind: bool,
}

/// What was measured.
#[derive(Default)]
struct Found {
    rows: Vec<Row>,
    choices: Vec<Cell>,
    optimizations: Vec<Summary>,
}

/// Does everything. The number of wrong elements.
pub(crate) fn measure_and_report(arguments: &Arguments) -> Result<u64, ReportError> {
    for file in [&arguments.json, &arguments.plot].into_iter().flatten() {
        // An hour of measuring should not end with a folder that does not exist.
        fs::write(file, "").map_err(|error| cannot_write(file, error))?;
    }
    let machine = Machine::of_this_process();
    let in_force = match arguments.transport {
        Over::Quic => None,
        Over::Tcp | Over::Tls => congestion::in_force(arguments.work.local_congestion())?,
    };
    let in_force = in_force.as_deref();
    print!("{}", table::preamble(arguments, &machine, in_force));
    let mut found = Found::default();
    let outcome = measure_all(arguments, &mut found);
    // What was measured before something went wrong is worth its file, too.
    if let Some(file) = &arguments.json {
        write_json(file, arguments, &machine, in_force, &found)?;
    }
    if let Some(file) = &arguments.plot {
        plot::draw(file, &found.rows).map_err(|error| ReportError::Plot {
            file: file.clone(),
            error,
        })?;
    }
    outcome?;
    let wrong = found.rows.iter().map(|row| row.wrong);
    Ok(wrong
        .chain(found.choices.iter().map(|cell| cell.wrong))
        .sum())
}

fn measure_all(arguments: &Arguments, found: &mut Found) -> Result<(), Trouble> {
    let passes = 1 + usize::from(arguments.optimize);
    let sessions = arguments.peers.len() * arguments.lanes.len();
    let bar = progress_bar(sessions * passes * arguments.counts().len());
    let mut best = BestWays::new();
    for peers in &arguments.peers {
        for lanes in &arguments.lanes {
            let mut session = Session::start(arguments, *peers, *lanes)?;
            let first = found.rows.len();
            measure_sizes(arguments, &mut session, &mut best, &bar, found)?;
            if arguments.optimize {
                let optimized = session.optimize()?;
                bar.suspend(|| print!("{}", optimized.rings(&arguments.hosts)));
                let summary = Summary::new(*peers, *lanes, &arguments.hosts, &optimized);
                found.optimizations.push(summary);
                let second = found.rows.len();
                measure_sizes(arguments, &mut session, &mut best, &bar, found)?;
                let (before, after) = found.rows.split_at(second);
                let before = before.get(first..).unwrap_or_default();
                if !after.is_empty() {
                    bar.suspend(|| print!("{}", optimized.gains(before, after)));
                }
            }
            session.end()?;
        }
    }
    bar.finish_and_clear();
    Ok(())
}

/// All sizes over the ring that stands.
fn measure_sizes(
    arguments: &Arguments,
    session: &mut Session<'_>,
    best: &mut BestWays,
    bar: &ProgressBar,
    found: &mut Found,
) -> Result<(), Trouble> {
    bar.suspend(|| println!("{}", session.heading()));
    let (first_row, first_choice) = (found.rows.len(), found.choices.len());
    for count in arguments.counts() {
        bar.set_message(format!("{}, {count} elements", session.name()));
        let line = if arguments.every_algorithm {
            let cell = session.compare(count)?;
            let line = cell.line();
            found.choices.push(cell);
            line
        } else {
            let row = session.measure(count, best)?;
            let line = table::line(&row);
            found.rows.push(row);
            line
        };
        bar.suspend(|| println!("{line}"));
        bar.inc(1);
    }
    let rows = found.rows.get(first_row..).unwrap_or_default();
    let choices = found.choices.get(first_choice..).unwrap_or_default();
    let below = if arguments.every_algorithm {
        choice::verdict(choices)
    } else {
        notes::notes(rows)
    };
    bar.suspend(|| print!("{below}"));
    Ok(())
}

/// Shown only where standard error is a terminal.
fn progress_bar(rows: usize) -> ProgressBar {
    let bar = ProgressBar::new(rows as u64);
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len}  {msg}  {elapsed}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

fn write_json(
    file: &Path,
    arguments: &Arguments,
    machine: &Machine,
    in_force: Option<&str>,
    found: &Found,
) -> Result<(), ReportError> {
    let is_loopback = arguments.hosts.of_rank(0).is_loopback();
    let floor_congestion = arguments.work.congestion_of_floor(is_loopback);
    let document = Document {
        machine,
        settings: Settings {
            version: env!("CARGO_PKG_VERSION"),
            peers: &arguments.peers,
            lanes: &arguments.lanes,
            min_bytes: arguments.min_bytes,
            max_bytes: arguments.max_bytes,
            step_factor: arguments.step_factor,
            iterations: arguments.iters,
            warmup: arguments.warmup,
            transport: arguments.transport.to_string(),
            congestion: arguments.work.congestion.as_deref(),
            congestion_in_force: in_force,
            floor_congestion: floor_congestion.filter(|_| !arguments.is_without_floor()),
            far: arguments.work.far,
            bind: arguments.work.bind,
        },
        optimizations: &found.optimizations,
        rows: &found.rows,
        choices: &found.choices,
    };
    let text = serde_json::to_string_pretty(&document).map_err(io::Error::from);
    let written = text.and_then(|text| fs::write(file, text + "\n"));
    written.map_err(|error| cannot_write(file, error))
}

fn cannot_write(file: &Path, error: io::Error) -> ReportError {
    let file = file.into();
    ReportError::File { file, error }
}
