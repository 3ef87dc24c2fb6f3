//! Fully sharded data-parallel training whose peers are killed and join.
//!
//! `cargo run --release --example fsdp` starts a master and four processes of itself. Each owns a shard of the weights
//! and of the state of AdamW. Two are killed with SIGKILL at moments drawn from `--seed`, and one joins. At the end all
//! peers must hold the same bits, and the bits of a run of one process that has no shards.
//!
//! `--master ADDR` takes part in a run on several machines instead: start the same command on each of them.
//!
//! # A step
//!
//! 1. Gather the parameters from their shards.
//! 2. Compute the gradients of this peer's part of the batch. The batch is decided by the step alone.
//! 3. Reduce-scatter the gradients: each peer gets the sum for its shard.
//! 4. Update the own shard.
//!
//! # What survives a peer
//!
//! With P parameters and N peers, a peer that dies takes P/N weights, means and squares with it, which nobody else has.
//! So every `--snapshot-every` steps (K, by default 1) all shards are gathered, and every peer keeps all of them, out
//! of the way of the training: a *snapshot*. When a collective fails, or its participants are others than those for
//! whom the work was divided, all go back to the last snapshot, lay new shards from it, and compute the steps since
//! then again. All peers have the same last snapshot, because an all-gather is committed on all of them or on none. Its
//! number is the revision of the shared state, by which newcomers get it.
//!
//! | | bytes |
//! |---|---|
//! | own shard of weights, means and squares | 12P/N |
//! | parameters and gradients, during a step | 4P + 8P |
//! | the library's backup of the buffer that a call works on | 8P at most |
//! | the last snapshot; while the next one is gathered, two | 12P, 24P |
//! | sent for a step, by each peer: parameters, gradients | (4P + 8P)(N − 1)/N |
//! | sent for a snapshot, by each peer | 12P(N − 1)/N |
//!
//! A death costs K steps at most, and what was computed of the one that ran. All peers but one may die at once. With
//! K = 1, a snapshot after each step sends as much as the step does.
//!
//! A larger system would mirror each shard on few neighbours, 12P/N bytes for each copy, and survive as many deaths at
//! once. It would copy the shard out of the accelerator and send it while the next steps run, gather parameters layer by
//! layer as they are needed, and save to disk now and then, for the day on which a shard and all its copies are gone.
//! pccl has no call that sends to one neighbour, so this example gathers everything.
//!
//! # Why the bits are the same
//!
//! The gradient of each sample is rounded to fixed point, a multiple of 2⁻³², before anything is added. Sums of
//! integers are exact, so it does not matter how the batch is divided and in which order peers add. The price is eight
//! bytes per gradient in place of four. With floats, runs of different world sizes would differ by rounding.
//!
//! The exit code is 0 only if everything holds.

mod doom;
mod model;
mod optimizer;
#[path = "../support/over.rs"]
mod over;
mod peer;
mod plan;
mod snapshot;
mod supervisor;
mod talk;
#[path = "../run/trap.rs"]
mod trap;
mod unsharded;

use std::process::ExitCode;

use clap::Parser;
use pccl::Communicator;

use over::Over;
use plan::Plan;
use supervisor::supervise;

/// Train with sharded parameters on several processes while some are killed and others join.
#[derive(Debug, Parser)]
struct Arguments {
    /// Take part in the run of the master at this address (or with this join string). Without it, a master and all
    /// peers run here.
    #[arg(long, value_name = "ADDR")]
    master: Option<String>,
    /// Peers at the start; training begins when they are there.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    peers: u32,
    /// Peers that are killed on the way.
    #[arg(long, default_value_t = 2, conflicts_with = "master")]
    kills: u32,
    /// Peers that join on the way.
    #[arg(long, default_value_t = 1, conflicts_with = "master")]
    joins: u32,
    /// What the run goes over: tcp is plain, the others encrypt. A run of --master goes over what its master says.
    #[arg(long, value_enum, default_value_t = Over::Tcp, conflicts_with = "master")]
    transport: Over,
    /// Compare the final state with that of an unsharded run, bit for bit. Without --master this is always done.
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    training: Training,
    #[command(flatten)]
    assignment: peer::Assignment,
}

/// What all peers of a run have alike.
#[derive(Clone, Copy, Debug, clap::Args)]
struct Training {
    /// Steps of the optimizer.
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u64).range(1..))]
    steps: u64,
    /// Decides the data, how the training starts, and who is killed when and how.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Steps from a snapshot to the next.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    snapshot_every: u64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let seed = arguments.training.seed;
    let ended = match &arguments.master {
        Some(master) => peer::run(Communicator::builder(master), &arguments),
        None if arguments.assignment.supervised => {
            peer::run(Communicator::builder_from_env(), &arguments)
        }
        None => Plan::draw(&arguments).and_then(|plan| supervise(&plan, &arguments)),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("fsdp: FAILED with --seed {seed}: {problem}");
            ExitCode::FAILURE
        }
    }
}
