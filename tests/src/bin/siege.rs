//! Garbage for a run: `cargo run --release -p pccl-tests --bin siege -- --seconds 60`.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use pccl_tests::over::Over;
use pccl_tests::processes::Trouble;
use pccl_tests::roles::Role;
use pccl_tests::siege::{Siege, besiege};

/// Sends random bytes, valid messages and spoilt valid messages to the master and the peers of a run,
/// whose reduces have to go on and stay right. Exit code 0 only if they do, and if a newcomer is
/// admitted afterwards.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    role: Option<Role>,
    /// How long
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// What the run goes over: behind TLS or QUIC half of the garbage comes from strangers with a key
    #[arg(long, value_enum, default_value_t)]
    transport: Over,
    /// Where the bytes come from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Connections to the master at once
    #[arg(long, default_value_t = 50)]
    connections: u64,
    /// Connections to each peer at once
    #[arg(long, default_value_t = 10)]
    peer_connections: u64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(role) = &arguments.role {
        return role.run();
    }
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("siege: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Trouble> {
    let siege = Siege {
        over: arguments.transport,
        seed: arguments.seed,
        lasting: Duration::from_secs(arguments.seconds),
        to_master: arguments.connections,
        to_each_peer: arguments.peer_connections,
    };
    let report = besiege(&std::env::current_exe()?, siege)?;
    let (opened, ended) = report.master_connections;
    let (peers_opened, peers_ended) = report.peer_connections;
    println!("master: {opened} connections, {ended} of them ended by it");
    println!("peers:  {peers_opened} connections, {peers_ended} of them ended by them");
    println!("bytes sent: {}", report.bytes);
    println!("rounds committed and checked meanwhile: {}", report.rounds);
    println!("calls that failed and were made again: {}", report.failures);
    println!(
        "longest time without a told commit: {:?}",
        report.longest_silence
    );
    println!("a newcomer joined afterwards");
    println!(
        "outputs of the machines that came out the same in the replay: {}",
        report.outputs_replayed
    );
    Ok(())
}
