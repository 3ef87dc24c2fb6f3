//! The driver: starts the processes, and hears what they tell between the acts of the plan.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use pccl_subprocess::{Process, Processes};

use super::checker::Checker;
use super::finding::Finding;
use super::growth::{Growth, Window, growth};
use super::live::Live;
use super::masters::{Masters, command_of};
use super::peer::{PeerOptions, SAMPLES};
use super::plan::{Number, Plan, VETERANS};
use super::pulse::Pulse;
use super::report::{Faults, Report, Tally};
use super::roles::Role;
use super::talk::{Event, Order};
use super::{Churn, Kills, Length};
use crate::processes::{PATIENCE, Trouble};
use crate::recordings::Recordings;

/// A run of some time rests so often.
const RESTS: u32 = 5;

/// Peers while it rests: the ones that live long, alone. The lanes of a larger world depend on its history.
const PEERS_AT_REST: usize = VETERANS as usize;

/// How often the driver looks after what is due.
const TICK: Duration = Duration::from_millis(5);

/// Why a run ends before its time.
#[derive(Debug)]
pub(super) enum Halt {
    /// Something was found. What comes after it would mean little.
    Found,
    /// The system refused something.
    Trouble(Trouble),
}

impl From<Trouble> for Halt {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

pub(super) struct Driver<'a> {
    pub(super) program: &'a Path,
    churn: Churn,
    pub(super) processes: Processes<Event>,
    pub(super) masters: Masters,
    pub(super) peers: BTreeMap<Number, Peer>,
    pub(super) numbers: BTreeMap<Process, Number>,
    plan: Plan,
    pub(super) checker: Checker,
    pub(super) pulse: Pulse,
    pub(super) faults: Faults,
    pub(super) tally: Tally,
    begun: Instant,
    pub(super) newest: Option<u64>,
    /// Where samples go, while they are taken.
    pub(super) window: Option<Window>,
    growth: Vec<Growth>,
    /// Nothing is done to any peer, so no call may fail.
    pub(super) is_spared: bool,
    pub(super) live: Live,
}

/// A process that is a peer.
pub(super) struct Peer {
    pub(super) process: Process,
    /// Who it is in the run.
    pub(super) id: Option<u64>,
    /// The master may have given it up: it was silent for long, or all its connections were reset.
    pub(super) may_be_evicted: bool,
    /// It is stopped until then.
    pub(super) goes_on_at: Option<Instant>,
    /// Contributors of its last step.
    pub(super) world: usize,
}

impl Peer {
    pub(super) const fn of(process: Process) -> Self {
        Self {
            process,
            id: None,
            may_be_evicted: false,
            goes_on_at: None,
            world: 0,
        }
    }
}

impl<'a> Driver<'a> {
    /// Starts a master.
    pub(super) fn start(program: &'a Path, churn: Churn) -> Result<Self, Trouble> {
        let mut processes = Processes::new();
        let scratch = churn.kill_master.map(|_| Recordings::new()).transpose()?;
        let journal = scratch.as_ref().map(|dir| dir.directory().to_owned());
        let master = processes.start(&mut command_of(program, churn.over, journal, None))?;
        let now = Instant::now();
        Ok(Self {
            program,
            churn,
            processes,
            masters: Masters::of(
                master,
                churn.over,
                churn.seed,
                churn.kill_master.zip(scratch),
            ),
            peers: BTreeMap::new(),
            numbers: BTreeMap::new(),
            plan: Plan::new(churn.seed, churn.max_peers),
            checker: Checker::new(churn.seed, churn.elements),
            pulse: Pulse::begin(now),
            faults: Faults::default(),
            tally: Tally::default(),
            begun: now,
            newest: None,
            window: None,
            growth: Vec::new(),
            is_spared: false,
            live: Live::new(churn.is_verbose),
        })
    }

    pub(super) fn peer_options(&self) -> PeerOptions {
        PeerOptions {
            master: self
                .masters
                .at
                .as_ref()
                .map_or_else(String::new, |at| at.join.clone()),
            seed: self.churn.seed,
            elements: self.churn.elements,
            state_bytes: self.churn.state_bytes,
        }
    }

    /// The whole run: faults and rests by turns.
    pub(super) fn run(&mut self) -> Result<(), Halt> {
        self.until(|driver| driver.masters.at.is_some())?;
        for number in 0..VETERANS {
            self.start_peer(number)?;
        }
        // From then on somebody who lives holds the state, whoever is killed.
        self.until(Self::is_whole)?;
        self.spare()?;
        let mut rests = Vec::new();
        match self.churn.length {
            Length::Time(time) => {
                for turn in 1..=RESTS {
                    self.disturb(Length::Time(time * turn / RESTS))?;
                    rests.push(self.rest()?);
                }
            }
            Length::Faults(_) => {
                self.disturb(self.churn.length)?;
                rests.push(self.rest()?);
            }
        }
        self.growth = growth(&rests);
        Ok(())
    }

    /// If no peer is to be disturbed, starts all that there will be.
    fn spare(&mut self) -> Result<(), Halt> {
        if self.churn.kills == Kills::None {
            for act in self.plan.resize(self.churn.max_peers) {
                self.carry_out(act)?;
            }
            self.until(Self::is_whole)?;
            self.is_spared = true;
        }
        Ok(())
    }

    /// Faults until so long after the beginning of the run, or so many. Then the run has recovered from kills of the
    /// master.
    fn disturb(&mut self, length: Length) -> Result<(), Halt> {
        self.begin_master_kills();
        match self.churn.kills {
            Kills::Peers => self.disturb_peers(length)?,
            Kills::None => self.until(|driver| driver.is_enough(length))?,
        }
        self.end_master_kills();
        self.until(|driver| driver.masters.stalls.are_over())
    }

    /// Whether it is time to end a run in which the master alone is killed.
    fn is_enough(&self, length: Length) -> bool {
        match length {
            Length::Time(time) => self.begun.elapsed() >= time,
            Length::Faults(faults) => self.masters.stalls.kills() >= faults.into(),
        }
    }

    fn disturb_peers(&mut self, length: Length) -> Result<(), Halt> {
        let mut count = 0;
        loop {
            match length {
                Length::Time(time) if self.begun.elapsed() >= time => return Ok(()),
                Length::Faults(faults) if count >= faults => return Ok(()),
                Length::Time(_) | Length::Faults(_) => count += 1,
            }
            let (after, act) = self.plan.next_fault();
            if after.steps > 0 {
                let due = self.newest.map_or(0, |newest| newest + after.steps);
                self.until(|driver| driver.newest.is_some_and(|newest| newest >= due))?;
            }
            let due = Instant::now() + after.time;
            self.until(|_| Instant::now() >= due)?;
            self.carry_out(act)?;
        }
    }

    /// Lets the veterans work undisturbed and rest, and takes samples.
    fn rest(&mut self) -> Result<Window, Halt> {
        let peers = match self.churn.kills {
            Kills::Peers => PEERS_AT_REST,
            Kills::None => self.churn.max_peers,
        };
        for act in self.plan.resize(peers) {
            self.carry_out(act)?;
        }
        self.go_on(true)?;
        let limit = Instant::now() + PATIENCE;
        self.until(|driver| driver.is_whole() || Instant::now() >= limit)?;
        if !self.is_whole() {
            self.checker.found(Finding::NeverWhole {
                peers: self.peers.len(),
                seconds: PATIENCE.as_secs(),
            });
            return Err(Halt::Found);
        }
        self.window = Some(Window::default());
        self.pulse.rest();
        for number in self.plan.living().clone() {
            self.order(number, Order::Rest);
        }
        let names: Vec<String> = (0..VETERANS).map(name_of).collect();
        self.until(|driver| {
            let window = driver.window.as_ref();
            window.is_some_and(|window| window.samples_of(&names) >= SAMPLES)
        })?;
        self.pulse.wake(Instant::now());
        Ok(self.window.take().unwrap_or_default())
    }

    /// Whether the last step of each peer was one of all peers.
    fn is_whole(&self) -> bool {
        let all = self.peers.len();
        self.peers.values().all(|peer| peer.world == all)
    }

    /// Hears the processes until this is so, or something is found.
    fn until(&mut self, is_so: impl Fn(&Self) -> bool) -> Result<(), Halt> {
        while !is_so(self) {
            self.go_on(false)?;
            self.kill_master_if_due()?;
            match self.processes.next_before(Instant::now() + TICK) {
                Some((process, Some(event))) => self.take(process, event),
                Some((process, None)) => self.ended(process),
                None => {}
            }
            self.live.show(self.peers.len(), &self.tally, &self.pulse);
            let stall = self.pulse.stall(Instant::now());
            if stall > PATIENCE {
                let seconds = stall.as_secs();
                self.found(Finding::Hang { seconds });
            }
            if !self.checker.findings().is_empty() {
                return Err(Halt::Found);
            }
        }
        Ok(())
    }

    pub(super) fn found(&mut self, finding: Finding) {
        self.live
            .say(&format!("seed {}: {finding}", self.churn.seed));
        self.checker.found(finding);
    }

    pub(super) fn report(&mut self) -> Report {
        self.processes.kill_all();
        let growth_is_judged = matches!(self.churn.length, Length::Time(_));
        let master_kills = self
            .masters
            .are_killed()
            .then(|| self.masters.stalls.report());
        let slow = master_kills.and_then(|kills| kills.finding());
        let slow = slow.filter(|_| self.is_spared);
        let grown = self.growth.iter().filter_map(Growth::finding).chain(slow);
        let grown = grown.filter(|_| growth_is_judged);
        let findings: Vec<Finding> = self
            .checker
            .findings()
            .iter()
            .cloned()
            .chain(grown)
            .collect();
        let [alone, beside] = self.pulse.worst();
        let milliseconds = |time: Duration| time.as_millis() as u64;
        Report {
            seed: self.churn.seed,
            max_peers: self.churn.max_peers,
            seconds: self.begun.elapsed().as_secs_f64(),
            holds: findings.is_empty() && self.tally.commits > 0,
            findings,
            faults: self.faults,
            tally: self.tally.clone(),
            longest_stall_ms: milliseconds(self.pulse.longest_stall()),
            recoveries: self.pulse.recoveries(),
            worst_recovery_ms: milliseconds(alone),
            worst_recovery_beside_a_stop_ms: milliseconds(beside),
            master_kills,
            samples: SAMPLES,
            growth: self.growth.clone(),
            growth_is_judged,
        }
    }
}

/// The C library keeps next to nothing of what is freed, so that what is resident is what is used.
const TUNABLES: &str =
    "glibc.malloc.mmap_threshold=8192:glibc.malloc.arena_max=1:glibc.pthread.stack_cache_size=0";

/// What starts a process.
pub(super) fn command(program: &Path, role: &Role) -> Command {
    let mut command = Command::new(program);
    command.args(role.arguments());
    command.env("GLIBC_TUNABLES", TUNABLES);
    command
}

pub(super) fn name_of(number: Number) -> String {
    format!("peer {number}")
}
