//! What every training process has beside its algorithm: its assignment, its reports, and standing
//! still on order.

use std::process::ExitCode;

use pccl_kernels::simplehash;
use pccl_subprocess::{obey_orders, tell};

use super::talk::{Event, Final, Order};
use super::trap::Trap;

/// What the supervisor tells a training process, besides where the run is: that is in the environment, as
/// a join string had better not be among the arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Assignment {
    #[arg(long)]
    pub(crate) rounds: u64,
    #[arg(long)]
    pub(crate) seed: u64,
    /// Which part of the data is this process's own.
    #[arg(long)]
    pub(crate) shard: u64,
    /// Optimize the topology after each change of the peers.
    #[arg(long)]
    pub(crate) optimize: bool,
    /// Peers that have to be there before training starts.
    #[arg(long)]
    pub(crate) wait_for: usize,
}

impl Assignment {
    /// Decides in which order this process sees its data, other than all others.
    pub(crate) fn shard_seed(&self) -> u64 {
        self.seed.wrapping_mul(1000).wrapping_add(self.shard)
    }
}

/// The algorithm: takes part in the run until all rounds are done.
pub(crate) type Train = fn(&Assignment) -> Result<Final, Box<dyn std::error::Error>>;

/// Trains until all rounds are done, or nothing more can be done.
pub(crate) fn run(assignment: &Assignment, train: Train) -> ExitCode {
    listen_for_orders();
    match train(assignment) {
        Ok(result) => {
            tell(&Event::Finished(result));
            ExitCode::SUCCESS
        }
        Err(error) => {
            tell(&Event::GaveUp {
                error: error.to_string(),
            });
            ExitCode::FAILURE
        }
    }
}

/// A short name for the bits that all peers must end with.
pub(crate) fn state_hash(weights: &[f32], momentum: &[f32], rounds: u64) -> String {
    let numbers = weights.iter().chain(momentum);
    let mut bytes: Vec<u8> = numbers.flat_map(|number| number.to_le_bytes()).collect();
    bytes.extend(rounds.to_le_bytes());
    format!("{:08x}", simplehash(&bytes))
}

/// Takes the supervisor's orders, and stands still where it says.
fn listen_for_orders() {
    let trap = Trap::set(stand_still);
    std::thread::spawn(move || {
        obey_orders(|Order::StandStillAt(moment)| trap.arm(moment.traced_as()));
    });
}

/// Stops the thread for good: whatever the library does there, the supervisor's SIGKILL finds it doing just that.
fn stand_still() {
    tell(&Event::StandsStill);
    loop {
        std::thread::park();
    }
}
