//! Starts the master and the training processes, carries out the chaos plan, and shows what happens.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use pccl_subprocess::{Process, Processes};

use super::super::support::hosts::Hosts;
use super::super::support::over::{Over, join_of};
use super::masters::{MasterLoss, Masters, Mortal};
use super::plan::{Act, Plan, When};
use super::talk::{Event, Final, Order};

/// A run that makes no progress for so long has hung.
const PATIENCE: Duration = Duration::from_secs(60);

/// What became of one training process.
#[derive(Debug)]
pub(crate) enum Fate {
    Finished(Final),
    /// Killed by the plan.
    Killed {
        round: u64,
        how: String,
    },
    /// Ended in a way that nobody planned.
    Failed(String),
}

/// One training process, as the report shows it.
#[derive(Debug)]
pub(crate) struct Member {
    /// Its number in the run, once it is part of it.
    pub(crate) peer: Option<u64>,
    pub(crate) joined_in_round: u64,
    pub(crate) fate: Fate,
}

/// One kill, as the report shows it.
#[derive(Debug)]
pub(crate) struct Loss {
    pub(crate) round: u64,
    pub(crate) peer: u64,
    pub(crate) how: String,
    /// Collectives that survivors saw fail because of it.
    pub(crate) failures_seen: u32,
    /// From the kill to the next round that a survivor completed.
    pub(crate) next_round_ms: Option<f64>,
    /// What the reduce that it disturbed took longer, on the survivor that lost most.
    pub(crate) lost_ms: f64,
}

/// Everything that happened.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) members: Vec<Member>,
    pub(crate) losses: Vec<Loss>,
    pub(crate) master_losses: Vec<MasterLoss>,
    pub(crate) seconds: f64,
    /// What the run went over.
    pub(crate) over: Over,
    /// How often the topology was optimized.
    pub(crate) optimizations: u32,
}

/// Where a run takes place.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) over: Over,
    pub(crate) hosts: Hosts,
}

/// A training process that runs.
struct Running {
    peer: Option<u64>,
    joined_in_round: u64,
    /// It is to be killed as soon as it stands still.
    doomed: Option<When>,
}

struct Supervisor<'a> {
    plan: &'a Plan,
    place: &'a Place,
    seed: u64,
    /// What every process joins with.
    join: String,
    processes: Processes<Event>,
    masters: Masters,
    running: BTreeMap<Process, Running>,
    started: usize,
    ended: BTreeMap<Process, Member>,
    losses: Vec<Loss>,
    /// When the last kill was, until a survivor has completed a round.
    last_kill: Option<Instant>,
    acts_done: usize,
    round: u64,
    optimizations: u32,
    bar: ProgressBar,
}

/// Runs the plan to its end.
pub(crate) fn supervise(plan: &Plan, seed: u64, place: &Place) -> Result<Outcome, String> {
    let over = place.over;
    let mut processes = Processes::new();
    let at = SocketAddr::new(place.hosts.of_master(), 0);
    let (masters, join) = if plan.master_kills.is_empty() {
        start_here(over, at)?
    } else {
        let started = Mortal::start(over, at, &plan.master_kills, &mut processes)?;
        (Masters::Mortal(started.0), started.1)
    };
    let mut supervisor = Supervisor {
        plan,
        place,
        seed,
        join,
        processes,
        masters,
        running: BTreeMap::new(),
        started: 0,
        ended: BTreeMap::new(),
        losses: Vec::new(),
        last_kill: None,
        acts_done: 0,
        round: 0,
        optimizations: 0,
        bar: progress_bar(plan.chaos.rounds),
    };
    let begun = Instant::now();
    for _ in 0..plan.chaos.peers {
        supervisor.start_process(0)?;
    }
    supervisor.until_all_ended();
    supervisor.bar.finish_and_clear();
    let master_losses = match &mut supervisor.masters {
        Masters::Here(_) => Vec::new(),
        Masters::Mortal(masters) => std::mem::take(&mut masters.losses),
    };
    Ok(Outcome {
        master_losses,
        members: supervisor.ended.into_values().collect(),
        losses: supervisor.losses,
        seconds: begun.elapsed().as_secs_f64(),
        over,
        optimizations: supervisor.optimizations,
    })
}

/// Starts a master in this process, and says what peers join with.
fn start_here(over: Over, at: SocketAddr) -> Result<(Masters, String), String> {
    let builder = over.master(None).map_err(|e| format!("no master: {e}"))?;
    let master = builder.spawn(at).map_err(|e| format!("no master: {e}"))?;
    if over.is_proven() != master.trust().is_some() {
        return Err(format!("the master is not over {over}"));
    }
    let join = join_of(&master).map_err(|e| format!("nobody can join: {e}"))?;
    Ok((Masters::Here(master), join))
}

fn progress_bar(rounds: u64) -> ProgressBar {
    let bar = ProgressBar::new(rounds);
    let style = ProgressStyle::with_template("{bar:30} round {pos}/{len}  {msg}  {elapsed}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

impl Supervisor<'_> {
    fn start_process(&mut self, peers_at_start: u32) -> Result<(), String> {
        let hosts = &self.place.hosts;
        let command = hosts.command(hosts.of_rank(self.started));
        let mut command = command.map_err(|e| format!("cannot find this program: {e}"))?;
        command
            .arg("peer")
            .env("PCCL_JOIN", &self.join)
            .args(["--rounds", &self.plan.chaos.rounds.to_string()])
            .args(["--seed", &self.seed.to_string()])
            .args(["--shard", &self.started.to_string()])
            .args([
                "--wait-for",
                &peers_at_start.max(self.wait_for()).to_string(),
            ]);
        if self.plan.optimize {
            command.arg("--optimize");
        }
        let process = self.processes.start(&mut command);
        let process = process.map_err(|e| format!("cannot start a process: {e}"))?;
        self.started += 1;
        let running = Running {
            peer: None,
            joined_in_round: self.round,
            doomed: None,
        };
        self.running.insert(process, running);
        Ok(())
    }

    /// The first processes wait for each other, so that the run starts with all of them.
    fn wait_for(&self) -> u32 {
        if self.round == 0 {
            self.plan.chaos.peers
        } else {
            1
        }
    }

    fn until_all_ended(&mut self) {
        while !self.running.is_empty() {
            let limit = Instant::now() + PATIENCE;
            let due = self.masters.due();
            let heard = self
                .processes
                .next_before(due.map_or(limit, |due| due.min(limit)));
            self.kill_master_if_due();
            match heard {
                Some((process, Some(event))) => self.take(process, event),
                Some((process, None)) => self.process_ended(process),
                None if due.is_some() => {}
                None => {
                    self.say(&format!("no progress for {PATIENCE:?}: giving up"));
                    for process in self.running.keys().copied().collect::<Vec<_>>() {
                        self.end(process, Fate::Failed("it hung".into()));
                    }
                }
            }
        }
    }

    fn kill_master_if_due(&mut self) {
        let Masters::Mortal(masters) = &mut self.masters else {
            return;
        };
        if masters.due().is_none_or(|due| due > Instant::now()) {
            return;
        }
        let round = self.round + 1;
        let killed = masters.kill(round, &mut self.processes);
        if let Err(problem) = killed {
            self.say(&problem);
        }
    }

    /// Takes what a master tells. Returns whether this was one.
    fn take_of_master(&mut self, process: Process, event: &Event) -> bool {
        let Masters::Mortal(masters) = &mut self.masters else {
            return false;
        };
        if !masters.is(process) {
            return false;
        }
        match event {
            Event::Listening { .. } => {
                let (round, back_ms) = masters.back();
                self.say(&format!(
                    "round {round}: the master was killed, and is back after {back_ms:.0} ms"
                ));
            }
            other => self.say(&format!("the master: {other:?}")),
        }
        true
    }

    fn take(&mut self, process: Process, event: Event) {
        if self.take_of_master(process, &event) {
            return;
        }
        let Some(running) = self.running.get_mut(&process) else {
            return;
        };
        let who = running
            .peer
            .map_or_else(|| process.to_string(), |p| format!("peer {p}"));
        match event {
            // Only a master does.
            Event::Listening { .. } => {}
            Event::Joined { peer, world } => {
                running.peer = Some(peer);
                running.joined_in_round = self.round;
                self.say(&format!("peer {peer} joined, world size {world}"));
            }
            Event::Round {
                round,
                world,
                loss,
                accuracy,
            } => {
                self.round_over(round, world, loss, accuracy);
            }
            Event::Optimized { world, took_ms } => {
                self.optimizations += 1;
                self.say(&format!("{world} peers optimized, {took_ms:.0} ms"));
            }
            Event::Failed { round, error } => {
                if let Some(loss) = self.losses.last_mut() {
                    loss.failures_seen += 1;
                }
                self.say(&format!("round {round}: {who}: {error}"));
            }
            Event::Recovered { round, lost_ms } => {
                if let Some(loss) = self.losses.last_mut() {
                    loss.lost_ms = loss.lost_ms.max(lost_ms);
                }
                self.say(&format!(
                    "round {round}: {who} recovered, {lost_ms:.1} ms lost"
                ));
            }
            Event::StandsStill => self.kill_where_it_stands(process),
            Event::Finished(result) => self.end(process, Fate::Finished(result)),
            Event::GaveUp { error } => self.end(process, Fate::Failed(error)),
        }
    }

    fn round_over(&mut self, round: u64, world: usize, loss: f32, accuracy: Option<f32>) {
        if let (Some(killed), Some(last)) = (self.last_kill.take(), self.losses.last_mut()) {
            last.next_round_ms = Some(killed.elapsed().as_secs_f64() * 1e3);
        }
        self.masters.round_over(round);
        let Some(accuracy) = accuracy else { return };
        self.round = self.round.max(round);
        let percent = 100.0 * accuracy;
        self.bar.set_message(format!(
            "world {world}  loss {loss:.3}  accuracy {percent:.1} %"
        ));
        self.bar.set_position(self.round);
        self.act();
    }

    /// Does what the plan has for the rounds that are over.
    fn act(&mut self) {
        let Some((round, act)) = self.plan.acts.get(self.acts_done).copied() else {
            return;
        };
        // A kill that is on its way comes first: two at once are not in the plan. It may wait for a newcomer.
        let comes_first = |doomed: When| match doomed {
            When::At(moment) => !(moment.is_of_optimization() && act == Act::Join),
            When::AtOnce => true,
        };
        let mut doomed = self.running.values().filter_map(|running| running.doomed);
        if doomed.any(comes_first) {
            return;
        }
        if round > self.round {
            return;
        }
        match act {
            Act::Join => {
                self.acts_done += 1;
                if let Err(problem) = self.start_process(1) {
                    self.say(&problem);
                }
            }
            Act::Kill { whom, when } => self.doom(whom, when),
        }
    }

    fn doom(&mut self, whom: u64, when: When) {
        let alive: Vec<Process> = self
            .running
            .iter()
            .filter(|(_, running)| running.peer.is_some())
            .map(|(process, _)| *process)
            .collect();
        // A newcomer that is not yet in does not count: without it, somebody would be left alone.
        if alive.len() < 3 {
            return;
        }
        let victim = usize::try_from(whom % alive.len() as u64)
            .ok()
            .and_then(|i| alive.get(i));
        let Some(process) = victim.copied() else {
            return;
        };
        self.acts_done += 1;
        let Some(running) = self.running.get_mut(&process) else {
            return;
        };
        running.doomed = Some(when);
        match when {
            When::AtOnce => self.kill_where_it_stands(process),
            When::At(moment) => {
                let order = Order::StandStillAt(moment);
                self.processes.tell(process, &order).ok();
            }
        }
    }

    fn kill_where_it_stands(&mut self, process: Process) {
        let Some(running) = self.running.get(&process) else {
            return;
        };
        self.last_kill = Some(Instant::now());
        // On Unix this is SIGKILL.
        self.processes.kill(process).ok();
        let how = match running.doomed {
            Some(When::At(moment)) => format!("{moment:?}").to_lowercase(),
            Some(When::AtOnce) | None => "anywhere".into(),
        };
        let (peer, round) = (running.peer.unwrap_or_default(), self.round + 1);
        self.say(&format!("round {round}: peer {peer} killed ({how})"));
        let how_killed = how.clone();
        let loss = Loss {
            round,
            peer,
            how,
            failures_seen: 0,
            next_round_ms: None,
            lost_ms: 0.0,
        };
        self.losses.push(loss);
        self.end(
            process,
            Fate::Killed {
                round,
                how: how_killed,
            },
        );
    }

    /// The process closed its output: fine after its last word, else a failure.
    fn process_ended(&mut self, process: Process) {
        if self.running.contains_key(&process) {
            self.end(process, Fate::Failed("it ended without a word".into()));
        }
    }

    fn end(&mut self, process: Process, fate: Fate) {
        let Some(running) = self.running.remove(&process) else {
            return;
        };
        match &fate {
            Fate::Finished(_) => {
                self.processes.wait(process).ok();
            }
            // The kill has ended it.
            Fate::Killed { .. } => {}
            Fate::Failed(reason) => {
                self.say(&format!("{process} failed: {reason}"));
                self.processes.kill(process).ok();
            }
        }
        let member = Member {
            peer: running.peer,
            joined_in_round: running.joined_in_round,
            fate,
        };
        self.ended.insert(process, member);
    }

    fn say(&self, line: &str) {
        if self.bar.is_hidden() {
            eprintln!("{line}");
        } else {
            self.bar.println(line);
        }
    }
}
