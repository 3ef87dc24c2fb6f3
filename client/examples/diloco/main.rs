//! A training run that survives its peers.
//!
//! `cargo run --release --example diloco` starts a master and four processes of itself that train a
//! small classifier of handwritten digits together with DiLoCo (Douillard et al., 2023): every peer
//! takes some AdamW steps on its own part of the data, then the peers average how far they moved, and
//! an outer Nesterov step moves the shared weights. Meanwhile some peers are killed with SIGKILL, also
//! in the middle of a reduce, and others join. At the end every peer must hold the same bits.
//!
//! The exit code is 0 only if everything in the closing table holds.

mod peer;
mod plan;
mod report;
mod supervisor;
#[path = "../support/mod.rs"]
mod support;
mod talk;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
    Peer(peer::Arguments),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(Role::Peer(of_peer)) = arguments.role {
        return peer::run(&of_peer);
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
            eprintln!("diloco: {problem}");
            return ExitCode::from(2);
        }
    };
    match supervisor::supervise(&plan, arguments.seed) {
        Ok(outcome) => report::conclude(&plan, &outcome, arguments.json.as_deref()),
        Err(problem) => {
            eprintln!("diloco: {problem}");
            ExitCode::FAILURE
        }
    }
}
