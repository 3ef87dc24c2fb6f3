//! What can be asked of the program.

use std::path::PathBuf;

use clap::Parser;

/// Explores the protocol of pccl: the very machines of the product, every order of events, every fault
/// within the budget. Without arguments: all standard scenarios.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Arguments {
    /// Explore this scenario only; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) scenario: Vec<String>,

    /// List the scenarios
    #[arg(long)]
    pub(crate) list: bool,

    /// With so many processes: the last one is left out, or repeated
    #[arg(long, value_name = "N")]
    pub(crate) peers: Option<u8>,

    /// With so many faults
    #[arg(long, value_name = "N")]
    pub(crate) faults: Option<u8>,

    /// Nine larger scenarios, four peers among them: hours, and tens of gigabytes, unless cut
    #[arg(long)]
    pub(crate) deep: bool,

    /// Explore only the scenarios of at most so many states, as they are pinned; walk through all, a quarter as often
    #[arg(long, value_name = "STATES", conflicts_with_all = ["deep", "pin", "peers", "faults"])]
    pub(crate) states_max: Option<usize>,

    /// Cut each scenario after so many seconds, and say so
    #[arg(long, value_name = "SECONDS")]
    pub(crate) time_limit: Option<u64>,

    /// Stop a search that takes more memory, in GiB
    #[arg(long, value_name = "GIB", default_value_t = 16)]
    pub(crate) memory: usize,

    /// Write down what the standard scenarios come to, for later runs to be compared with
    #[arg(long)]
    pub(crate) pin: bool,

    /// Threads that explore; as many as the machine has, unless given
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,

    /// Write all figures to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Print which messages arrived in which states
    #[arg(long)]
    pub(crate) coverage: bool,

    /// Walk through one scenario in a browser
    #[arg(
        long,
        value_name = "ADDRESS",
        num_args = 0..=1,
        default_missing_value = "127.0.0.1:3000"
    )]
    pub(crate) explore: Option<String>,

    /// Tell the trace in this file step by step
    #[arg(long, value_name = "FILE")]
    pub(crate) replay: Option<PathBuf>,

    /// Nothing but so many random walks through each scenario, with more faults than can be explored
    #[arg(long, value_name = "WALKS")]
    pub(crate) simulate: Option<u64>,

    /// The seed of the first walk; the next has the next number
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Replay the logs of real runs in this directory, and compare every output
    #[arg(long, value_name = "DIR")]
    pub(crate) conform: Option<PathBuf>,

    /// Check the checker: make each of the known mistakes in the protocol, and find it
    #[arg(long)]
    pub(crate) mutants: bool,

    /// The same with one mistake, and its story
    #[arg(long, value_name = "NAME")]
    pub(crate) mutant: Option<String>,
}

impl Arguments {
    /// How many threads explore.
    pub(crate) fn threads(&self) -> usize {
        let available = || std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.unwrap_or_else(available).max(1)
    }
}
