//! How much memory a peer has: `cargo run --release -p pccl-bench --bin resident`.

use std::process::ExitCode;

use clap::Parser;
use pccl_bench::resident::{allowed, peak, words};
use pccl_tests::processes::Trouble;
use pccl_tests::roles::Role;

/// Lets two peers reduce in place, each in a process of its own, and tells the most memory that either
/// has had. Fails where that is more than 2.1 times the buffer and 64 MiB, and where a result is wrong.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    role: Option<Role>,
    /// The size of the buffer
    #[arg(long, default_value_t = 1024)]
    mib: u64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(role) = &arguments.role {
        return role.run();
    }
    match run(arguments.mib * 1024 * 1024) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("resident: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(bytes: u64) -> Result<ExitCode, Trouble> {
    let peak = peak(&std::env::current_exe()?, bytes)?;
    println!("{}", words(bytes, peak));
    Ok(if peak <= allowed(bytes) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
