//! Peers that come and go: `cargo run --release -p pccl-tests --bin churn -- --minutes 5 --max-peers 10 --seed 1`.

use std::alloc::System;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use pccl_tests::churn::holdings::COUNTED;
use pccl_tests::churn::plan::VETERANS;
use pccl_tests::churn::report::Report;
use pccl_tests::churn::roles::Role;
use pccl_tests::churn::{Churn, Kills, Length, churn};
use pccl_tests::over::Over;
use pccl_tests::processes::Trouble;
use stats_alloc::StatsAlloc;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = COUNTED;

/// Kills, stops, disconnects and adds the peers of a run by a schedule drawn from the seed, while they synchronize a
/// state and reduce several buffers at a time. Every result and every state is checked. Exit code 0 only if all checks
/// hold, and no process has come to hold more than after the warm-up.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    role: Option<Role>,
    /// How long
    #[arg(long, default_value_t = 5.0)]
    minutes: f64,
    /// End after so many faults (with --kills none: kills of the master); growth is not judged then
    #[arg(long, conflicts_with = "minutes")]
    faults: Option<u32>,
    /// The most peers at a time; there are never fewer than two
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(VETERANS as i64..=64))]
    max_peers: u16,
    /// Where all faults and all numbers come from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The most elements of a buffer
    #[arg(long, default_value_t = 1 << 20)]
    elements: usize,
    /// Bytes of shared state
    #[arg(long, default_value_t = 4 << 20)]
    state_bytes: usize,
    /// What the run goes over
    #[arg(long, value_enum, default_value_t)]
    transport: Over,
    /// Kill the master with SIGKILL about this often, in seconds, and start it again at once with its journal
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    kill_master: Option<Duration>,
    /// Who is disturbed besides the master: with "none", no call of any peer may fail
    #[arg(long, value_enum, default_value_t)]
    kills: Kills,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
    /// Print each fault and each error
    #[arg(long)]
    verbose: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(role) = &arguments.role {
        return role.run();
    }
    match run(&arguments) {
        Ok(report) => {
            match serde_json::to_string(&report) {
                Ok(json) if arguments.json => println!("{json}"),
                Ok(_) | Err(_) => println!("{report}"),
            }
            match report.holds {
                true => ExitCode::SUCCESS,
                false => {
                    eprintln!("churn: not all checks hold with --seed {}", report.seed);
                    ExitCode::FAILURE
                }
            }
        }
        Err(trouble) => {
            eprintln!("churn: seed {}: {trouble}", arguments.seed);
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<Report, Trouble> {
    let time = Duration::from_secs_f64(arguments.minutes.max(0.0) * 60.0);
    let which = Churn {
        seed: arguments.seed,
        length: arguments.faults.map_or(Length::Time(time), Length::Faults),
        max_peers: arguments.max_peers.into(),
        elements: arguments.elements,
        state_bytes: arguments.state_bytes,
        over: arguments.transport,
        kill_master: arguments.kill_master,
        kills: arguments.kills,
        is_verbose: arguments.verbose,
    };
    churn(&std::env::current_exe()?, which)
}

/// A time that is long enough for something to happen in it.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|error| format!("{error}"))?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if time >= Duration::from_millis(100) => Ok(time),
        Ok(_) => Err("0.1 s at least".into()),
        Err(error) => Err(error.to_string()),
    }
}
