//! The processes of the tests: a peer, or a master.

use std::process::ExitCode;

use clap::Parser;
use pccl_tests::roles::Role;

/// A process of a test. It tells what happens to it on its standard output, as JSON.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    role: Role,
}

fn main() -> ExitCode {
    Arguments::parse().role.run()
}
