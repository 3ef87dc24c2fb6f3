//! `cargo run -p verification`: explores the machines of the product, and prints what was explored and
//! what holds within which bounds, or the shortest story of how a claim breaks.
//!
//! Exit codes: 0, all is well; 1, something was found; 2, it could not be looked.

mod arguments;
mod conform;
mod endless;
mod graph;
mod memory;
mod mutants;
mod pinned;
mod progress;
mod quiet;
mod rare;
mod report;
mod search;
mod several;
mod shortest;
mod standard;
mod table;
mod violation;
mod walks;
mod watched;
mod web;
mod words;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use pccl_model::scenario::Scenario;
use pccl_model::trace::{Trace, TraceError};

use crate::arguments::Arguments;
use crate::search::SearchPanicked;

/// A state of the model is a value with many small parts, and each step clones one: with the system's allocator a search
/// takes a quarter longer.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Why nothing could be looked at.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CannotLook {
    /// A name that is none.
    #[error("there is no scenario `{0}`; --list shows them")]
    UnknownScenario(String),
    /// `--explore` shows one.
    #[error("--explore needs exactly one --scenario")]
    NotOneScenario,
    /// A file cannot be read or written.
    #[error("{file}: {why}", file = .0.display(), why = .1)]
    File(PathBuf, std::io::Error),
    /// Nobody can be served there.
    #[error("{0}: {1}")]
    Address(String, std::io::Error),
    /// The figures cannot be written down.
    #[error("the figures cannot be written: {0}")]
    Json(#[from] serde_json::Error),
    /// A file that is no trace, or one that cannot be gone.
    #[error("{file}: {why}", file = .0.display(), why = .1)]
    Trace(PathBuf, TraceError),
    /// A rare way that cannot be gone.
    #[error("a rare way: {0}")]
    RareWay(#[source] TraceError),
    /// What is found with a mistake then says nothing about it.
    #[error("{0} breaks a claim without any mistake; run --simulate first")]
    #[cfg_attr(not(feature = "mutants"), allow(dead_code))]
    BrokenWithoutMistake(&'static str),
    /// A name that is none.
    #[error("there is no mutant `{0}`; --mutants shows them")]
    UnknownMutant(String),
    /// The program cannot start itself with the mistakes compiled in.
    #[error("cargo cannot be run: {0}")]
    Cargo(std::io::Error),
    /// A fault of the model or of the checker.
    #[error(transparent)]
    Panicked(#[from] SearchPanicked),
}

/// Is all well?
pub(crate) type AllWell = Result<bool, CannotLook>;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    quiet::keep_panics_quiet();
    if let Some(directory) = &arguments.conform {
        return conform::main(directory);
    }
    match look(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(why) => {
            eprintln!("verification: {why}");
            ExitCode::from(2)
        }
    }
}

fn look(arguments: &Arguments) -> AllWell {
    if arguments.list {
        list();
        return Ok(true);
    }
    if let Some(file) = &arguments.replay {
        return replay(file);
    }
    if let Some(address) = &arguments.explore {
        return web::explore(one_of(standard::chosen(arguments)?)?, address);
    }
    if arguments.mutants || arguments.mutant.is_some() {
        return mutants::run(arguments);
    }
    standard::run(arguments)
}

fn list() {
    for scenario in pccl_model::catalogue::standard() {
        println!(
            "{:<20} {} peers, {} faults ({}): {}",
            scenario.name,
            scenario.seats.len(),
            scenario.faults,
            scenario.kinds_in_words(),
            scenario.about
        );
    }
}

fn one_of(chosen: Vec<Scenario>) -> Result<Scenario, CannotLook> {
    match <[Scenario; 1]>::try_from(chosen) {
        Ok([scenario]) => Ok(scenario),
        Err(_) => Err(CannotLook::NotOneScenario),
    }
}

/// Tells the story of a file.
fn replay(file: &Path) -> AllWell {
    let text = std::fs::read_to_string(file);
    let text = text.map_err(|why| CannotLook::File(file.to_owned(), why))?;
    let cannot = |why| CannotLook::Trace(file.to_owned(), why);
    let trace: Trace = text.parse().map_err(cannot)?;
    if let Some(name) = &trace.mutant {
        if !mutants::CAN_BE_MADE {
            return mutants::run_again();
        }
        mutants::switch_on(name)?;
    }
    let broken = trace.replay().map_err(cannot)?.broken();
    violation::tell_trace(&trace, None);
    Ok(broken.is_none())
}
