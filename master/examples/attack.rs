//! Attacks a master for as long as you like: `cargo run -p pccl-master --example attack -- --help`.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Parser;
use fuzz::{Attack, attack};

#[path = "../tests/support/fuzz.rs"]
mod fuzz;
#[path = "../tests/support/messages.rs"]
mod messages;

/// Sends random bytes, valid streams and spoilt valid streams to a master. Exit code 0 only if the
/// master still answers afterwards.
#[derive(Debug, Parser)]
struct Arguments {
    /// The master's address
    master: SocketAddr,
    /// Where the bytes come from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Connections at once
    #[arg(long, default_value_t = 50)]
    connections: u64,
    /// How long to go on
    #[arg(long, default_value_t = 60)]
    seconds: u64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let arguments = Arguments::parse();
    let tally = attack(
        arguments.master,
        Attack {
            seed: arguments.seed,
            connections: arguments.connections,
            lasting: Duration::from_secs(arguments.seconds),
        },
    )
    .await;
    println!("{tally:?}");
    tokio::net::TcpStream::connect(arguments.master).await?;
    println!("the master still answers");
    Ok(())
}
