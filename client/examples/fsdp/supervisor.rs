//! Starts a master and the peers, kills those that stand still where they are doomed, and judges the end.

use std::collections::BTreeMap;
use std::io;
use std::process::Command;
use std::time::{Duration, Instant};

use pccl_subprocess::{Process, Processes};

use super::model::Task;
use super::optimizer::State;
use super::over::join_of;
use super::plan::Plan;
use super::talk::{Event, Final};
use super::{Arguments, Training, unsharded};

/// A run that makes no progress for so long has hung. To go back is none.
const PATIENCE: Duration = Duration::from_secs(60);

/// After at least so many steps, the loss must be smaller than a quarter of the first one.
const STEPS_TO_LEARN: u64 = 40;
const LOSS_MAX: f32 = 0.25;

/// Of the snapshots, those at multiples of this are shown.
const SNAPSHOTS_SHOWN: u64 = 10;

struct Supervisor<'a> {
    plan: &'a Plan,
    training: Training,
    /// What every process joins with.
    join: String,
    processes: Processes<Event>,
    /// By their numbers in the plan.
    running: BTreeMap<Process, u32>,
    started: u32,
    killed: usize,
    finished: Vec<(u32, Final)>,
}

/// Carries out the plan, and compares what the survivors have with an unsharded run.
pub(crate) fn supervise(plan: &Plan, arguments: &Arguments) -> Result<(), String> {
    let over = arguments.transport;
    let builder = over.master(None).map_err(|e| format!("no master: {e}"))?;
    let master = builder.spawn("127.0.0.1:0");
    let master = master.map_err(|e| format!("no master: {e}"))?;
    if over.is_proven() != master.trust().is_some() {
        return Err(format!("the master is not over {over}"));
    }
    let mut supervisor = Supervisor {
        plan,
        training: arguments.training,
        join: join_of(&master).map_err(|e| format!("nobody can join: {e}"))?,
        processes: Processes::new(),
        running: BTreeMap::new(),
        started: 0,
        killed: 0,
        finished: Vec::new(),
    };
    for _ in 0..plan.peers {
        supervisor.start()?;
    }
    supervisor.until_all_ended()?;
    supervisor.judge()
}

impl Supervisor<'_> {
    fn until_all_ended(&mut self) -> Result<(), String> {
        let mut last_progress = Instant::now();
        while !self.running.is_empty() {
            let heard = self.processes.next_before(last_progress + PATIENCE);
            let heard = heard.filter(|_| last_progress.elapsed() < PATIENCE);
            let (process, event) = heard.ok_or_else(|| format!("no progress for {PATIENCE:?}"))?;
            if !matches!(event, Some(Event::WentBack { .. })) {
                last_progress = Instant::now();
            }
            self.take(process, event)?;
        }
        Ok(())
    }

    fn start(&mut self) -> Result<(), String> {
        let number = self.started;
        let command = self.command(number);
        let mut command = command.map_err(|e| format!("where is this program? {e}"))?;
        let process = self.processes.start(&mut command);
        let process = process.map_err(|e| format!("cannot start a process: {e}"))?;
        self.running.insert(process, number);
        self.started += 1;
        Ok(())
    }

    fn command(&self, number: u32) -> io::Result<Command> {
        let Training {
            steps,
            seed,
            snapshot_every,
        } = self.training;
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg("--supervised")
            .env("PCCL_JOIN", &self.join)
            .args(["--peers", &self.plan.peers.to_string()])
            .args(["--steps", &steps.to_string()])
            .args(["--seed", &seed.to_string()])
            .args(["--snapshot-every", &snapshot_every.to_string()]);
        for step in self.plan.joins_after(number) {
            command.args(["--await-at", &step.to_string()]);
        }
        if let Some(doom) = self.plan.dooms.get(&number) {
            command.args(["--doom", &doom.to_string()]);
        }
        Ok(command)
    }

    fn take(&mut self, process: Process, event: Option<Event>) -> Result<(), String> {
        let Some(number) = self.running.get(&process).copied() else {
            return Ok(());
        };
        match event {
            Some(Event::Finished(end)) => return self.finish(process, number, end),
            Some(Event::StandsStill) => return self.kill(process, number),
            Some(Event::AwaitsNewcomer { step, to_come }) => {
                return self.start_newcomer(step, to_come);
            }
            Some(Event::Snapshot { step, .. }) if step % SNAPSHOTS_SHOWN != 0 => {}
            Some(event @ (Event::Joined { .. } | Event::Snapshot { .. })) => {
                println!("process {number}: {event}");
            }
            Some(event @ Event::WentBack { .. }) => println!("process {number}: {event}"),
            Some(Event::GaveUp { error }) => {
                return Err(format!("process {number} gave up: {error}"));
            }
            None => return Err(format!("process {number} ended without a result")),
        }
        Ok(())
    }

    fn finish(&mut self, process: Process, number: u32, end: Final) -> Result<(), String> {
        println!("process {number}: finished: {end}");
        self.finished.push((number, end));
        self.running.remove(&process);
        match self.processes.wait(process) {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("process {number} ended with {status}")),
            Err(error) => Err(error.to_string()),
        }
    }

    fn kill(&mut self, process: Process, number: u32) -> Result<(), String> {
        // On Unix this is SIGKILL.
        self.processes.kill(process).map_err(|e| e.to_string())?;
        self.running.remove(&process);
        self.killed += 1;
        if let Some(doom) = self.plan.dooms.get(&number) {
            println!("process {number}: killed at {doom}");
        }
        Ok(())
    }

    /// All peers ask for the same newcomer.
    fn start_newcomer(&mut self, step: u64, to_come: usize) -> Result<(), String> {
        let joined = self.plan.joins.len() - to_come;
        let number = self.plan.peers as usize + joined;
        if self.started as usize == number {
            println!("step {step}: process {number} is started");
            self.start()?;
        }
        Ok(())
    }

    fn judge(&self) -> Result<(), String> {
        let (kills, joins) = (self.killed, (self.started - self.plan.peers) as usize);
        if kills != self.plan.dooms.len() || joins != self.plan.joins.len() {
            return Err(format!("there were only {kills} kills and {joins} joins"));
        }
        let (finished, survivors) = (self.finished.len(), self.plan.survivors());
        if finished != survivors {
            return Err(format!("{finished} peers finished, not {survivors}"));
        }
        let Training { seed, steps, .. } = self.training;
        let unsharded = unsharded::train(seed, steps);
        for (number, end) in &self.finished {
            if let Some(how) = end.state().difference(&unsharded) {
                return Err(format!("process {number} is not the unsharded run: {how}"));
            }
        }
        let (before, after) = losses(seed, &unsharded);
        if steps >= STEPS_TO_LEARN && after > LOSS_MAX * before {
            return Err(format!("nothing was learnt: loss {before}, then {after}"));
        }
        println!(
            "ok: each of {finished} survivors has the bits of the unsharded run after {steps} steps, {kills} kills \
             and {joins} joins (seed {seed}); loss {before:.4} before, {after:.4} after"
        );
        Ok(())
    }
}

/// Before the first step and after the last.
fn losses(seed: u64, end: &State) -> (f32, f32) {
    let task = Task::new(seed);
    (task.loss(&task.initial()), task.loss(&end.weights))
}
