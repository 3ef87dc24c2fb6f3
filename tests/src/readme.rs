//! A peer that runs a program of the README, word for word, on numbers that can be checked.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use pccl_subprocess::{obey_orders, tell};

use crate::talk::{Event, Failure, Order, now};

#[path = "../../client/tests/documented/loop_manual.rs"]
mod loop_manual;
#[path = "../../client/tests/documented/loop_run.rs"]
mod loop_run;

/// What the loop computes in each round takes so long.
const COMPUTING: Duration = Duration::from_millis(10);

const WEIGHTS: usize = 1024;

/// A program of the README.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Program {
    /// The first one, which leaves errors to the library.
    Run,
    /// The loop that handles them itself.
    Manual,
}

/// What a peer of the README's programs needs to know.
#[derive(Clone, Debug, clap::Args)]
pub struct ReadmeOptions {
    /// The master's address
    #[arg(long)]
    pub master: String,
    /// What it runs
    #[arg(long, value_enum)]
    pub program: Program,
}

impl ReadmeOptions {
    /// A peer of this master that runs this program.
    #[must_use]
    pub fn of(master: SocketAddr, program: Program) -> Self {
        let master = master.to_string();
        Self { master, program }
    }

    pub(crate) fn arguments(&self) -> Vec<String> {
        let program = match self.program {
            Program::Run => "run",
            Program::Manual => "manual",
        };
        let arguments = ["readme", "--master", &self.master, "--program", program];
        arguments.map(str::to_owned).into()
    }
}

/// Runs until the test is gone, or the loop ends.
pub fn run(options: &ReadmeOptions) -> ExitCode {
    thread::spawn(|| {
        obey_orders(|_: Order| {});
        std::process::exit(0);
    });
    let mut weights = vec![0.0; WEIGHTS];
    let ended = match options.program {
        Program::Run => loop_run::run(&options.master, &mut weights),
        Program::Manual => loop_manual::run(&options.master, &mut weights),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell(&Event::GaveUp {
                why: Failure::from(&error),
                error: error.to_string(),
                restored: None,
            });
            ExitCode::FAILURE
        }
    }
}

/// One step down, each time: so all weights are the number of steps that were committed, which is the
/// revision.
fn compute(weights: &[f32]) -> Vec<f32> {
    let first = weights.first().map_or(0.0, |weight| *weight);
    if weights.iter().any(|weight| *weight != first) {
        let what = format!("some weights are {first}, and not all");
        tell(&Event::Wrong { what });
    }
    tell(&Event::Computes {
        revision: first as u64,
        at: now(),
    });
    thread::sleep(COMPUTING);
    vec![-1.0; weights.len()]
}
