//! Starts the master and the training processes, carries out the chaos plan, and shows what happens.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::super::support::over::{Over, join_of};
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
    pub(crate) seconds: f64,
    /// What the run went over.
    pub(crate) over: Over,
}

/// A process that runs.
struct Process {
    child: Child,
    orders: ChildStdin,
    peer: Option<u64>,
    joined_in_round: u64,
    /// It is to be killed as soon as it stands still.
    doomed: Option<When>,
}

struct Supervisor<'a> {
    plan: &'a Plan,
    seed: u64,
    /// What every process joins with.
    join: String,
    running: BTreeMap<usize, Process>,
    started: usize,
    ended: BTreeMap<usize, Member>,
    losses: Vec<Loss>,
    /// When the last kill was, until a survivor has completed a round.
    last_kill: Option<Instant>,
    acts_done: usize,
    round: u64,
    bar: ProgressBar,
    events: Sender<(usize, Option<Event>)>,
}

/// Runs the plan to its end.
pub(crate) fn supervise(plan: &Plan, seed: u64, over: Over) -> Result<Outcome, String> {
    let builder = over.master().map_err(|e| format!("no master: {e}"))?;
    let master = builder.spawn("127.0.0.1:0");
    let master = master.map_err(|e| format!("no master: {e}"))?;
    if over.is_proven() != master.trust().is_some() {
        return Err(format!("the master is not over {over}"));
    }
    let (events, incoming) = mpsc::channel();
    let mut supervisor = Supervisor {
        plan,
        seed,
        join: join_of(&master).map_err(|e| format!("nobody can join: {e}"))?,
        running: BTreeMap::new(),
        started: 0,
        ended: BTreeMap::new(),
        losses: Vec::new(),
        last_kill: None,
        acts_done: 0,
        round: 0,
        bar: progress_bar(plan.chaos.rounds),
        events,
    };
    let begun = Instant::now();
    for _ in 0..plan.chaos.peers {
        supervisor.start_process(0)?;
    }
    supervisor.until_all_ended(&incoming);
    supervisor.bar.finish_and_clear();
    Ok(Outcome {
        members: supervisor.ended.into_values().collect(),
        losses: supervisor.losses,
        seconds: begun.elapsed().as_secs_f64(),
        over,
    })
}

fn progress_bar(rounds: u64) -> ProgressBar {
    let bar = ProgressBar::new(rounds);
    let style = ProgressStyle::with_template("{bar:30} round {pos}/{len}  {msg}  {elapsed}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

impl Supervisor<'_> {
    fn start_process(&mut self, peers_at_start: u32) -> Result<(), String> {
        let program = std::env::current_exe().map_err(|e| e.to_string())?;
        let mut child = Command::new(program)
            .arg("peer")
            .env("PCCL_JOIN", &self.join)
            .args(["--rounds", &self.plan.chaos.rounds.to_string()])
            .args(["--seed", &self.seed.to_string()])
            .args(["--shard", &self.started.to_string()])
            .args([
                "--wait-for",
                &peers_at_start.max(self.wait_for()).to_string(),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("cannot start a process: {e}"))?;
        let name = self.started;
        self.started += 1;
        let (Some(orders), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("a process without standard input and output".into());
        };
        let events = self.events.clone();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                // What is not an event is a stray line of some library, for people to read.
                match serde_json::from_str(&line) {
                    Ok(event) => drop(events.send((name, Some(event)))),
                    Err(_) => eprintln!("process {name}: {line}"),
                }
            }
            events.send((name, None)).ok();
        });
        let process = Process {
            child,
            orders,
            peer: None,
            joined_in_round: self.round,
            doomed: None,
        };
        self.running.insert(name, process);
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

    fn until_all_ended(&mut self, incoming: &Receiver<(usize, Option<Event>)>) {
        while !self.running.is_empty() {
            match incoming.recv_timeout(PATIENCE) {
                Ok((name, Some(event))) => self.take(name, event),
                Ok((name, None)) => self.process_ended(name),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    self.say(&format!("no progress for {PATIENCE:?}: giving up"));
                    for name in self.running.keys().copied().collect::<Vec<_>>() {
                        self.end(name, Fate::Failed("it hung".into()));
                    }
                }
            }
        }
    }

    fn take(&mut self, name: usize, event: Event) {
        let Some(process) = self.running.get_mut(&name) else {
            return;
        };
        let who = process
            .peer
            .map_or_else(|| format!("process {name}"), |p| format!("peer {p}"));
        match event {
            Event::Joined { peer, world } => {
                process.peer = Some(peer);
                process.joined_in_round = self.round;
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
            Event::StandsStill => self.kill_where_it_stands(name),
            Event::Finished(result) => self.end(name, Fate::Finished(result)),
            Event::GaveUp { error } => self.end(name, Fate::Failed(error)),
        }
    }

    fn round_over(&mut self, round: u64, world: usize, loss: f32, accuracy: Option<f32>) {
        if let (Some(killed), Some(last)) = (self.last_kill.take(), self.losses.last_mut()) {
            last.next_round_ms = Some(killed.elapsed().as_secs_f64() * 1e3);
        }
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
        // A kill that is on its way comes first: two at once are not in the plan.
        if self
            .running
            .values()
            .any(|process| process.doomed.is_some())
        {
            return;
        }
        let Some((round, act)) = self.plan.acts.get(self.acts_done).copied() else {
            return;
        };
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
        let alive: Vec<usize> = self
            .running
            .iter()
            .filter(|(_, p)| p.peer.is_some())
            .map(|(name, _)| *name)
            .collect();
        // A newcomer that is not yet in does not count: without it, somebody would be left alone.
        if alive.len() < 3 {
            return;
        }
        let victim = usize::try_from(whom % alive.len() as u64)
            .ok()
            .and_then(|i| alive.get(i));
        let Some(name) = victim.copied() else { return };
        self.acts_done += 1;
        let Some(process) = self.running.get_mut(&name) else {
            return;
        };
        process.doomed = Some(when);
        match when {
            When::AtOnce => self.kill_where_it_stands(name),
            When::At(moment) => {
                let order = serde_json::to_string(&Order::StandStillAt(moment));
                let order = order.unwrap_or_default();
                writeln!(process.orders, "{order}")
                    .and_then(|()| process.orders.flush())
                    .ok();
            }
        }
    }

    fn kill_where_it_stands(&mut self, name: usize) {
        let Some(process) = self.running.get_mut(&name) else {
            return;
        };
        // On Unix this is SIGKILL.
        process.child.kill().ok();
        let how = match process.doomed {
            Some(When::At(moment)) => format!("{moment:?}").to_lowercase(),
            Some(When::AtOnce) | None => "anywhere".into(),
        };
        let (peer, round) = (process.peer.unwrap_or_default(), self.round + 1);
        self.say(&format!("round {round}: peer {peer} killed ({how})"));
        self.last_kill = Some(Instant::now());
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
            name,
            Fate::Killed {
                round,
                how: how_killed,
            },
        );
    }

    /// The process closed its output: fine after its last word, else a failure.
    fn process_ended(&mut self, name: usize) {
        if self.running.contains_key(&name) {
            self.end(name, Fate::Failed("it ended without a word".into()));
        }
    }

    fn end(&mut self, name: usize, fate: Fate) {
        let Some(mut process) = self.running.remove(&name) else {
            return;
        };
        let ended_by_itself = matches!(fate, Fate::Finished(_) | Fate::Failed(_));
        drop(process.orders);
        if let (true, Fate::Failed(reason)) = (ended_by_itself, &fate) {
            self.say(&format!("process {name} failed: {reason}"));
            process.child.kill().ok();
        }
        process.child.wait().ok();
        let member = Member {
            peer: process.peer,
            joined_in_round: process.joined_in_round,
            fate,
        };
        self.ended.insert(name, member);
    }

    fn say(&self, line: &str) {
        if self.bar.is_hidden() {
            eprintln!("{line}");
        } else {
            self.bar.println(line);
        }
    }
}
