//! Finds a good ring over a matrix of costs, and says how far from the best it can be at most.
//!
//! `cargo run --release --example ring_solver -- FILE`, where the file is a square CSV matrix of costs
//! or a TSPLIB instance with a full matrix. `--help` lists the options.

mod input;
mod plot;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use pccl_core::tour::{Objective, Search};

use input::Input;
use report::Report;

/// A ring, as good as can be found in so many steps, with a proven bound.
#[derive(Debug, Parser)]
struct Arguments {
    /// A square CSV matrix of costs, a row per sender, or a TSPLIB file with a full matrix.
    file: PathBuf,
    /// What makes a ring better.
    #[arg(long, value_enum, default_value_t = Goal::Bottleneck)]
    objective: Goal,
    /// Steps; a step looks at one edge.
    #[arg(long, default_value_t = 500_000_000)]
    budget: u64,
    /// Seed of the random changes.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Print JSON, or write it to a file.
    #[arg(long, value_name = "FILE.json", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// Draw the nodes, their edges by cost, and the ring over them.
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Goal {
    /// The smallest sum of costs.
    Sum,
    /// The smallest largest cost, then the smallest sum.
    Bottleneck,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(2),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether a ring was found.
fn run(arguments: &Arguments) -> Result<bool, Box<dyn std::error::Error>> {
    let input = Input::read(&arguments.file)?;
    let objective = match arguments.objective {
        Goal::Sum => Objective::Sum,
        Goal::Bottleneck => Objective::Bottleneck,
    };
    let mut search = Search::new(input.costs()?, objective, arguments.seed);
    let start = Instant::now();
    search.run(arguments.budget);
    let report = Report::new(&input, &search, objective, start.elapsed());
    match &arguments.json {
        Some(file) if file.as_os_str() == "-" => {
            println!("{}", serde_json::to_string_pretty(&report)?);
        }
        Some(file) => {
            std::fs::write(file, serde_json::to_string_pretty(&report)?)?;
            print!("{report}");
        }
        None => print!("{report}"),
    }
    if let Some(file) = &arguments.plot {
        plot::draw(file, &input, report.nodes())?;
    }
    Ok(!report.nodes().is_empty())
}
