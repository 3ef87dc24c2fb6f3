//! Measures everything that was asked for, and shows it: rows as they come, files at the end.

use std::path::{Path, PathBuf};
use std::{fs, io};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::arguments::Arguments;
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
    let (mut rows, mut optimizations) = (Vec::new(), Vec::new());
    let outcome = measure_all(arguments, &mut rows, &mut optimizations);
    // What was measured before something went wrong is worth its file, too.
    if let Some(file) = &arguments.json {
        let found = (&optimizations[..], &rows[..]);
        write_json(file, arguments, &machine, in_force, found)?;
    }
    if let Some(file) = &arguments.plot {
        plot::draw(file, &rows).map_err(|error| ReportError::Plot {
            file: file.clone(),
            error,
        })?;
    }
    outcome?;
    Ok(rows.iter().map(|row| row.wrong).sum())
}

fn measure_all(
    arguments: &Arguments,
    rows: &mut Vec<Row>,
    optimizations: &mut Vec<Summary>,
) -> Result<(), Trouble> {
    let passes = 1 + usize::from(arguments.optimize);
    let sessions = arguments.peers.len() * arguments.lanes.len();
    let bar = progress_bar(sessions * passes * arguments.counts().len());
    let mut best = BestWays::new();
    for peers in &arguments.peers {
        for lanes in &arguments.lanes {
            let mut session = Session::start(arguments, *peers, *lanes)?;
            let first = rows.len();
            measure_sizes(arguments, &mut session, &mut best, &bar, rows)?;
            if arguments.optimize {
                let found = session.optimize()?;
                bar.suspend(|| print!("{}", found.rings(&arguments.hosts)));
                let summary = Summary::new(*peers, *lanes, &arguments.hosts, &found);
                optimizations.push(summary);
                let second = rows.len();
                measure_sizes(arguments, &mut session, &mut best, &bar, rows)?;
                let (before, after) = rows.split_at(second);
                let before = before.get(first..).unwrap_or_default();
                bar.suspend(|| print!("{}", found.gains(before, after)));
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
    rows: &mut Vec<Row>,
) -> Result<(), Trouble> {
    bar.suspend(|| println!("{}", session.heading()));
    let first = rows.len();
    for count in arguments.counts() {
        bar.set_message(format!("{}, {count} elements", session.name()));
        let row = session.measure(count, best)?;
        bar.suspend(|| println!("{}", table::line(&row)));
        bar.inc(1);
        rows.push(row);
    }
    let measured = rows.get(first..).unwrap_or_default();
    bar.suspend(|| print!("{}", notes::notes(measured)));
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
    (optimizations, rows): (&[Summary], &[Row]),
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
            floor_congestion: floor_congestion.filter(|_| !arguments.no_floor),
            far: arguments.work.far,
            bind: arguments.work.bind,
        },
        optimizations,
        rows,
    };
    let text = serde_json::to_string_pretty(&document).map_err(io::Error::from);
    let written = text.and_then(|text| fs::write(file, text + "\n"));
    written.map_err(|error| cannot_write(file, error))
}

fn cannot_write(file: &Path, error: io::Error) -> ReportError {
    let file = file.into();
    ReportError::File { file, error }
}
