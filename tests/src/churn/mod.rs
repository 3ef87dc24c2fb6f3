//! A run of real processes that come and go, by a schedule of faults that is drawn from a seed, and what must be true
//! of it all the same.
//!
//! | module | what it is for |
//! |---|---|
//! | [`plan`] | the schedule of faults |
//! | `driver`, `acts`, `masters`, `hearing` | carry it out, and hear what the processes tell |
//! | [`checker`], [`growth`], [`pulse`], [`stalls`] | hold what they tell against what must be true of it |
//! | [`finding`] | what must not be |
//! | [`report`], `live` | what is shown at the end, and meanwhile |
//! | [`talk`] | what driver and processes tell each other |
//! | [`roles`] | what a process is: a master, or a peer |
//! | [`peer`], `reduces`, `state`, `verdicts` | a peer: steps that synchronize a state and reduce several buffers |
//! | [`work`], [`numbers`] | what is reduced in a step, and what must come out |
//! | [`cutting`], [`holdings`] | resetting the lanes of a peer; what a process holds |

mod acts;
pub mod checker;
pub mod cutting;
mod driver;
pub mod finding;
pub mod growth;
mod hearing;
pub mod holdings;
mod live;
mod masters;
pub mod numbers;
pub mod peer;
pub mod plan;
pub mod pulse;
pub(crate) mod reduces;
pub mod report;
pub mod roles;
pub mod stalls;
pub(crate) mod state;
pub mod talk;
mod verdicts;
pub mod work;

use std::path::Path;
use std::time::Duration;

use crate::over::Over;
use crate::processes::Trouble;
use driver::Halt;
use report::Report;

/// Which churn.
#[derive(Clone, Copy, Debug)]
pub struct Churn {
    /// Where all faults and all numbers come from.
    pub seed: u64,
    /// When it ends.
    pub length: Length,
    /// The most peers at a time. Two are there always.
    pub max_peers: usize,
    /// The most elements of a buffer.
    pub elements: usize,
    /// Bytes of shared state.
    pub state_bytes: usize,
    /// What the run goes over.
    pub over: Over,
    /// How often the master is killed, about. `None`: it is not, and keeps no journal.
    pub kill_master: Option<Duration>,
    /// Who is disturbed besides the master.
    pub kills: Kills,
    /// Whether each fault and each error is printed.
    pub is_verbose: bool,
}

/// Who is disturbed, the master left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Kills {
    /// Peers are killed, stopped, cut off and added.
    #[default]
    Peers,
    /// Nobody is: as many peers as there may be live from the beginning to the end, and no call of theirs may fail.
    None,
}

/// When a churn ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// After this time. Growth is judged.
    Time(Duration),
    /// After so many faults, or so many kills of the master if nothing else is done. The run rests once, so nothing
    /// is known of growth.
    Faults(u32),
}

/// Runs a churn of processes of `program`, which has to understand [`roles::Role`]. It ends with the first thing that is
/// found.
///
/// # Errors
/// The system refuses something. What the run does wrong is in the report.
pub fn churn(program: &Path, churn: Churn) -> Result<Report, Trouble> {
    let mut driver = driver::Driver::start(program, churn)?;
    match driver.run() {
        Ok(()) | Err(Halt::Found) => Ok(driver.report()),
        Err(Halt::Trouble(trouble)) => Err(trouble),
    }
}
