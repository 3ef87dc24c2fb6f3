//! Many peers of one address that start at once: `cargo run --release -p pccl-tests --bin crowd`.

use std::process::ExitCode;

use clap::Parser;
use pccl_tests::crowd::let_in;
use pccl_tests::processes::{Swarm, Trouble};
use pccl_tests::roles::Role;

/// Starts peers at once, each a process, all of one address. Exit code 0 only if all of them are admitted and
/// have reduced together.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    role: Option<Role>,
    /// How many: the contributions of more than 100 cannot be told apart
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u8).range(1..=100))]
    peers: u8,
    /// How often, each time with a new master
    #[arg(long, default_value_t = 1)]
    times: usize,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(role) = &arguments.role {
        return role.run();
    }
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("crowd: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Trouble> {
    let (program, peers) = (std::env::current_exe()?, arguments.peers);
    for _ in 0..arguments.times {
        let report = let_in(&mut Swarm::of(&program), usize::from(peers))?;
        println!(
            "{peers} processes started in {:.1?}: all admitted after {:.1?}, and one reduce of all after {:.1?}",
            report.started, report.admitted, report.reduced
        );
    }
    Ok(())
}
