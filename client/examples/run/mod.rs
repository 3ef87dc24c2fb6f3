//! A run of several training processes of which some are killed and others join: what the examples
//! that train have in common but for their algorithm.

pub(crate) mod plan;
pub(crate) mod process;
pub(crate) mod report;
pub(crate) mod supervisor;
pub(crate) mod talk;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use super::support::over::Over;

/// Train a digit classifier on several processes while some are killed and others join.
#[derive(Debug, Parser)]
struct Arguments {
    /// Peers at the start.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=64))]
    peers: u32,
    /// Peers that are killed on the way.
    #[arg(long, default_value_t = 3)]
    kills: u32,
    /// Peers that join on the way.
    #[arg(long, default_value_t = 3)]
    joins: u32,
    /// Outer rounds.
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Decides who is killed when and how, and how the training starts.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What the run goes over: tcp is plain, the others encrypt.
    #[arg(long, value_enum, default_value_t = Over::Tcp)]
    transport: Over,
    /// Write the result as JSON to this file, too.
    #[arg(long)]
    json: Option<PathBuf>,
    #[command(subcommand)]
    role: Option<Role>,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// One training process; the example starts these itself.
    #[command(hide = true)]
    Peer(process::Assignment),
}

/// The whole program `name`: the supervisor, or one of the processes that it starts.
pub(crate) fn main(name: &str, train: process::Train) -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(Role::Peer(assignment)) = arguments.role {
        return process::run(&assignment, train);
    }
    let chaos = plan::Chaos {
        peers: arguments.peers,
        kills: arguments.kills,
        joins: arguments.joins,
        rounds: arguments.rounds,
    };
    let plan = match plan::Plan::draw(chaos, arguments.seed) {
        Ok(plan) => plan,
        Err(problem) => {
            eprintln!("{name}: {problem}");
            return ExitCode::from(2);
        }
    };
    match supervisor::supervise(&plan, arguments.seed, arguments.transport) {
        Ok(outcome) => report::conclude(name, &plan, &outcome, arguments.json.as_deref()),
        Err(problem) => {
            eprintln!("{name}: {problem}");
            ExitCode::FAILURE
        }
    }
}
