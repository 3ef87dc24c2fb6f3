//! The master of a run: in the supervisor's own process, or, if it is to be killed, in one process after the other.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use pccl_master::RunningMaster;
use pccl_subprocess::{Process, Processes, obey_orders, tell};

use super::super::support::over::{Over, join_of};
use super::plan::MasterKill;
use super::talk::Event;

/// A master that does not listen after so long will not do so.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the supervisor tells a process that is a master.
#[derive(Debug, clap::Args)]
pub(crate) struct MasterOptions {
    #[arg(long, value_enum)]
    over: Over,
    #[arg(long)]
    listen: SocketAddr,
    #[arg(long)]
    journal: PathBuf,
}

impl MasterOptions {
    /// Serves until the supervisor is gone, or kills this process.
    pub(crate) fn serve(&self) -> ExitCode {
        match self.start() {
            Ok((_master, join, address)) => {
                tell(&Event::Listening { join, address });
                obey_orders(|(): ()| {});
                ExitCode::SUCCESS
            }
            Err(error) => {
                let error = error.to_string();
                tell(&Event::GaveUp { error });
                ExitCode::FAILURE
            }
        }
    }

    fn start(&self) -> Result<(RunningMaster, String, SocketAddr), Box<dyn std::error::Error>> {
        let builder = self.over.master(Some(&self.journal))?;
        let master = builder.spawn(self.listen)?;
        let (join, address) = (join_of(&master)?, master.local_addr());
        Ok((master, join, address))
    }
}

/// One kill of a master, as the report shows it.
#[derive(Debug)]
pub(crate) struct MasterLoss {
    pub(crate) round: u64,
    pub(crate) since: Instant,
    /// From the kill to the next master that listens.
    pub(crate) back_ms: Option<f64>,
    /// From the kill to the next round that a peer completed after that.
    pub(crate) next_round_ms: Option<f64>,
}

/// The master.
pub(crate) enum Masters {
    /// It lives as long as the supervisor.
    Here(#[expect(dead_code, reason = "it serves until it is dropped")] RunningMaster),
    /// It is killed now and then.
    Mortal(Mortal),
}

impl Masters {
    /// A round is over for some peer.
    pub(crate) fn round_over(&mut self, round: u64) {
        if let Self::Mortal(mortal) = self {
            mortal.round_over(round);
        }
    }

    /// When the next kill is, if that is known.
    pub(crate) fn due(&self) -> Option<Instant> {
        match self {
            Self::Here(_) => None,
            Self::Mortal(mortal) => mortal.due(),
        }
    }
}

/// Masters that follow one another.
pub(crate) struct Mortal {
    over: Over,
    /// Of the present one.
    process: Process,
    address: SocketAddr,
    directory: PathBuf,
    /// Kills to come, the last one first.
    to_come: Vec<MasterKill>,
    /// When the next one is, if its round is over.
    due: Option<Instant>,
    pub(crate) losses: Vec<MasterLoss>,
}

impl Mortal {
    /// Starts the first one. Returns what peers join with, too.
    pub(crate) fn start(
        over: Over,
        at: SocketAddr,
        kills: &[MasterKill],
        processes: &mut Processes<Event>,
    ) -> Result<(Self, String), String> {
        let name = format!("pccl-journal-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let mut command = command(over, at, &directory)?;
        let process = processes.start(&mut command).map_err(no_master)?;
        let heard = processes.next_before(Instant::now() + PATIENCE);
        let (join, address) = match heard {
            Some((_, Some(Event::Listening { join, address }))) => (join, address),
            Some((_, Some(Event::GaveUp { error }))) => return Err(no_master(error)),
            Some(_) | None => return Err(no_master("it does not listen")),
        };
        let mortal = Self {
            over,
            process,
            address,
            directory,
            to_come: kills.iter().rev().copied().collect(),
            due: None,
            losses: Vec::new(),
        };
        Ok((mortal, join))
    }

    /// Whether this process is the present master.
    pub(crate) fn is(&self, process: Process) -> bool {
        self.process == process
    }

    fn round_over(&mut self, round: u64) {
        if let Some(last) = self.losses.last_mut()
            && last.back_ms.is_some()
        {
            let since = last.since;
            last.next_round_ms.get_or_insert_with(|| elapsed_ms(since));
        }
        let next = self.to_come.last().filter(|kill| kill.round <= round);
        if let (Some(kill), None, true) = (next, self.due, self.listens()) {
            self.due = Some(Instant::now() + kill.after);
        }
    }

    /// When the next kill is, if that is known.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Kills the master, and starts the next one at once.
    pub(crate) fn kill(
        &mut self,
        round: u64,
        processes: &mut Processes<Event>,
    ) -> Result<(), String> {
        (self.due, _) = (None, self.to_come.pop());
        self.losses.push(MasterLoss {
            round,
            since: Instant::now(),
            back_ms: None,
            next_round_ms: None,
        });
        // On Unix this is SIGKILL.
        processes.kill(self.process).map_err(no_master)?;
        let mut command = command(self.over, self.address, &self.directory)?;
        self.process = processes.start(&mut command).map_err(no_master)?;
        Ok(())
    }

    /// The master that was started last listens. Returns the round in which the one before was killed, and for how long
    /// there was none.
    pub(crate) fn back(&mut self) -> (u64, f64) {
        let Some(last) = self.losses.last_mut() else {
            return (0, 0.0);
        };
        let since = last.since;
        let back_ms = *last.back_ms.get_or_insert_with(|| elapsed_ms(since));
        (last.round, back_ms)
    }

    fn listens(&self) -> bool {
        self.losses.last().is_none_or(|last| last.back_ms.is_some())
    }
}

impl Drop for Mortal {
    /// The run is over.
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.directory).ok();
    }
}

fn elapsed_ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

fn no_master(error: impl std::fmt::Display) -> String {
    format!("no master: {error}")
}

/// What starts a master, on this machine.
fn command(over: Over, at: SocketAddr, journal: &std::path::Path) -> Result<Command, String> {
    let program = std::env::current_exe().map_err(no_master)?;
    let mut command = Command::new(program);
    command
        .arg("master")
        .args(["--over", &over.to_string()])
        .args(["--listen", &at.to_string()])
        .arg("--journal")
        .arg(journal);
    Ok(command)
}
