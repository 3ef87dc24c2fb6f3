//! A peer that runs the loop of the README, word for word, on numbers that can be checked.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use pccl_subprocess::{obey_orders, tell};

use crate::talk::{Event, Failure, Order, now};

mod verbatim;

/// What the loop computes in each round takes so long.
const COMPUTING: Duration = Duration::from_millis(10);

const WEIGHTS: usize = 1024;

/// What a peer of the README's loop needs to know.
#[derive(Clone, Debug, clap::Args)]
pub struct ReadmeOptions {
    /// The master's address
    #[arg(long)]
    pub master: String,
}

impl ReadmeOptions {
    /// A peer of this master.
    #[must_use]
    pub fn of(master: SocketAddr) -> Self {
        Self {
            master: master.to_string(),
        }
    }

    pub(crate) fn arguments(&self) -> Vec<String> {
        vec!["readme".into(), "--master".into(), self.master.clone()]
    }
}

/// Runs until the test is gone, or the loop ends.
pub fn run(options: &ReadmeOptions) -> ExitCode {
    thread::spawn(|| {
        obey_orders(|_: Order| {});
        std::process::exit(0);
    });
    match verbatim::run(&options.master, vec![0.0; WEIGHTS], 0) {
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
