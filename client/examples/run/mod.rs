//! A run of several training processes of which some are killed and others join: what the examples
//! that train have in common but for their algorithm.

pub(crate) mod masters;
pub(crate) mod plan;
pub(crate) mod process;
pub(crate) mod report;
pub(crate) mod supervisor;
pub(crate) mod talk;
mod trap;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use super::support::hosts::Hosts;
use super::support::over::Over;

/// Train a digit classifier on several processes while some are killed and others join.
#[derive(Debug, Parser)]
#[command(
    after_help = "With --hosts the join string is in the environment of what --launch starts, which has to keep \
    it: \"ip netns exec {host}\" does, ssh by itself does not."
)]
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
    /// How often the master is killed on the way; it starts again with its journal.
    #[arg(long, value_name = "TIMES", default_value_t = 0)]
    kill_master: u32,
    /// Outer rounds.
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Decides who is killed when and how, and how the training starts.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What the run goes over: tcp is plain, the others encrypt.
    #[arg(long, value_enum, default_value_t = Over::Tcp)]
    transport: Over,
    /// Optimize the topology after each change of the peers; some are killed in the middle of that, too.
    #[arg(long)]
    optimize: bool,
    #[command(flatten)]
    hosts: Hosts,
    /// Write the result as JSON to this file, too.
    #[arg(long)]
    json: Option<PathBuf>,
    #[command(subcommand)]
    role: Option<Role>,
}

impl Arguments {
    /// Does it all fit together, and to the program?
    fn check(&self, program: &Program) -> Result<(), &'static str> {
        if self.optimize && !program.optimizes {
            return Err("this example does not optimize the topology");
        }
        if !self.hosts.of_master().is_loopback() && !self.transport.is_proven() {
            return Err("between hosts peers join by a join string: --transport tls or quic");
        }
        Ok(())
    }
}

#[derive(Debug, Subcommand)]
enum Role {
    /// One training process; the example starts these itself.
    #[command(hide = true)]
    Peer(process::Assignment),
    /// A master that is to be killed; the example starts it itself.
    #[command(hide = true)]
    Master(masters::MasterOptions),
}

/// An example that trains.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) train: process::Train,
    /// Does it obey `--optimize`?
    pub(crate) optimizes: bool,
}

/// The whole program: the supervisor, or one of the processes that it starts.
pub(crate) fn main(program: Program) -> ExitCode {
    let Program { name, train, .. } = program;
    let arguments = Arguments::parse();
    match &arguments.role {
        Some(Role::Peer(assignment)) => return process::run(assignment, train),
        Some(Role::Master(options)) => return options.serve(),
        None => {}
    }
    if let Err(problem) = arguments.check(&program) {
        eprintln!("{name}: {problem}");
        return ExitCode::from(2);
    }
    let chaos = plan::Chaos {
        peers: arguments.peers,
        kills: arguments.kills,
        joins: arguments.joins,
        master_kills: arguments.kill_master,
        rounds: arguments.rounds,
    };
    let plan = match plan::Plan::draw(chaos, arguments.seed, arguments.optimize) {
        Ok(plan) => plan,
        Err(problem) => {
            eprintln!("{name}: {problem}");
            return ExitCode::from(2);
        }
    };
    let place = supervisor::Place {
        over: arguments.transport,
        hosts: arguments.hosts,
    };
    match supervisor::supervise(&plan, arguments.seed, &place) {
        Ok(outcome) => report::conclude(name, &plan, &outcome, arguments.json.as_deref()),
        Err(problem) => {
            eprintln!("{name}: {problem}");
            ExitCode::FAILURE
        }
    }
}
