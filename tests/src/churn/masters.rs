//! The master of a churn, and those that follow it after a SIGKILL with its journal.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use pccl_subprocess::Process;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::driver::{Driver, Peer, command};
use super::roles::{MasterOptions, Role};
use super::stalls::Stalls;
use crate::over::{MasterAt, Over};
use crate::processes::Trouble;
use crate::recordings::Recordings;
use crate::talk::{Nanos, now};

/// Where the first master listens: on a port that is free.
const FREE: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0));

/// The times of the kills are drawn from the seed of the run, and this makes them others than those of the faults.
const STREAM: u64 = 0x6d61_7374_6572;

/// The masters of a run, one after the other.
pub(super) struct Masters {
    /// The one that serves, or is being started.
    pub(super) process: Process,
    over: Over,
    /// Where the first one listened, and so all.
    pub(super) at: Option<MasterAt>,
    /// Whether the present one listens.
    listens: bool,
    schedule: Option<Schedule>,
    pub(super) stalls: Stalls,
}

/// When masters are killed, and what is left of them.
struct Schedule {
    random: StdRng,
    every: Duration,
    due: Option<Instant>,
    scratch: Recordings,
}

impl Schedule {
    /// Between half as long and one and a half times.
    fn pause(&mut self) -> Duration {
        self.every.mul_f64(self.random.random_range(0.5..1.5))
    }
}

impl Masters {
    /// This is the first one. If masters are to be killed: about how often, and where the journal is.
    pub(super) fn of(
        process: Process,
        over: Over,
        seed: u64,
        kills: Option<(Duration, Recordings)>,
    ) -> Self {
        let schedule = kills.map(|(every, scratch)| Schedule {
            random: StdRng::seed_from_u64(seed ^ STREAM),
            every,
            due: None,
            scratch,
        });
        Self {
            process,
            over,
            at: None,
            listens: false,
            schedule,
            stalls: Stalls::default(),
        }
    }

    /// Whether masters are killed.
    pub(super) const fn are_killed(&self) -> bool {
        self.schedule.is_some()
    }

    fn journal(&self) -> Option<PathBuf> {
        let schedule = self.schedule.as_ref()?;
        Some(schedule.scratch.directory().to_owned())
    }
}

/// What starts a master.
pub(super) fn command_of(
    program: &Path,
    over: Over,
    journal: Option<PathBuf>,
    at: Option<&MasterAt>,
) -> Command {
    let options = MasterOptions {
        transport: over,
        listen: at.map_or(FREE, |at| at.address),
        journal,
    };
    command(program, &Role::Master(options))
}

impl Driver<'_> {
    /// From here on masters are killed when it is time.
    pub(super) fn begin_master_kills(&mut self) {
        if let Some(schedule) = &mut self.masters.schedule {
            schedule.due = Some(Instant::now() + schedule.pause());
        }
    }

    /// The present master is left alone.
    pub(super) fn end_master_kills(&mut self) {
        if let Some(schedule) = &mut self.masters.schedule {
            schedule.due = None;
        }
    }

    /// A master listens: the first one, or one that goes on.
    pub(super) fn master_listens(&mut self, at: MasterAt, since: Nanos) {
        self.masters.listens = true;
        self.masters.stalls.listens(since);
        self.masters.at.get_or_insert(at);
    }

    /// Kills the master if it is time, and starts the next one at once.
    pub(super) fn kill_master_if_due(&mut self) -> Result<(), Trouble> {
        let listens = self.masters.listens;
        let Some(schedule) = &mut self.masters.schedule else {
            return Ok(());
        };
        let is_due = schedule.due.is_some_and(|due| due <= Instant::now());
        if !(is_due && listens) {
            return Ok(());
        }
        schedule.due = Some(Instant::now() + schedule.pause());
        self.kill_master()
    }

    fn kill_master(&mut self) -> Result<(), Trouble> {
        self.live.note(|| "the master is killed".into());
        let is_there = |peer: &Peer| peer.id.is_some() && peer.goes_on_at.is_none();
        let there = self.peers.iter().filter(|(_, peer)| is_there(peer));
        let at = now();
        self.processes.kill(self.masters.process)?;
        if self.pulse.is_beside_a_stop() {
            self.masters.stalls.disturbed(at);
        }
        self.masters
            .stalls
            .killed(at, there.map(|(number, _)| *number));
        self.masters.listens = false;
        let (over, journal) = (self.masters.over, self.masters.journal());
        let mut next = command_of(self.program, over, journal, self.masters.at.as_ref());
        self.masters.process = self.processes.start(&mut next)?;
        Ok(())
    }
}
