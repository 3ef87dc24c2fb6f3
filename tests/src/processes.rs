//! Processes of a test, as their parent sees them: starting them, hearing what they tell, stopping and
//! killing them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use pccl_core::id::Identity;
use pccl_master::MasterBuilder;
use pccl_recording::{DIRECTORY_VARIABLE, Summary};

use crate::over::{MasterAt, Over};
use crate::recordings::Recordings;
use crate::roles::{MasterOptions, Role};
use crate::scripted::PeerOptions;
use crate::talk::{Commit, Event, Moment, Nanos, Order, now};

/// Whatever is waited for has not happened after so long: something hangs.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A process, as the test knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process(u32);

/// What went wrong with the processes.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// A process could not be started, told something or stopped.
    #[error("the system refused: {0}")]
    System(#[from] std::io::Error),
    /// No master could be started in this process.
    #[error(transparent)]
    Master(#[from] pccl_master::ServeError),
    /// A process has ended that should not.
    #[error("{0:?} has ended")]
    Ended(Process),
    /// There is no such process.
    #[error("{0:?} is not running")]
    NotRunning(Process),
    /// The library has broken a promise.
    #[error("{process:?}: {what}")]
    Wrong {
        /// Where.
        process: Process,
        /// Which.
        what: String,
    },
    /// A call failed for good that should not.
    #[error("{process:?} gave up: {error}")]
    GaveUp {
        /// Who.
        process: Process,
        /// Why.
        error: String,
    },
    /// What the machines heard and said in this run does not come out the same again.
    #[error("the replay of what was recorded failed: {what}")]
    Unlike {
        /// What is wrong with the logs.
        what: String,
    },
    /// Something is waited for in vain.
    #[error("waited in vain for {0}")]
    Hang(String),
}

/// A peer that has joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its process.
    pub process: Process,
    /// Who it is in the run.
    pub peer: u64,
    /// Where it accepts lanes.
    pub lanes_at: SocketAddr,
    /// Who it is, where that is proved.
    pub identity: Option<Identity>,
}

impl Member {
    /// Who has told that it joined.
    #[must_use]
    pub fn of(process: Process, event: &Event) -> Option<Self> {
        match event {
            Event::Joined {
                peer,
                lanes_at,
                identity,
            } => Some(Self {
                process,
                peer: *peer,
                lanes_at: *lanes_at,
                identity: *identity,
            }),
            _ => None,
        }
    }
}

struct Running {
    child: Child,
    orders: ChildStdin,
    /// It has said why it ends.
    gave_up: bool,
    /// It knows where to stand still.
    armed: bool,
    /// The round in which it stands still.
    stands_still: Option<u64>,
}

impl Running {
    /// Keeps what must not be missed by a test that waits for something else.
    fn note(&mut self, event: &Event) {
        match event {
            Event::GaveUp { .. } => self.gave_up = true,
            Event::Armed => self.armed = true,
            Event::StandsStill { round } => self.stands_still = Some(*round),
            Event::Listening(_)
            | Event::Joined { .. }
            | Event::Committed(_)
            | Event::CommittedSeveral { .. }
            | Event::Synced(_)
            | Event::Computes { .. }
            | Event::Failed { .. }
            | Event::Wrong { .. } => {}
        }
    }
}

/// All processes of a test. Dropping it kills them.
pub struct Swarm {
    program: PathBuf,
    over: Over,
    running: BTreeMap<Process, Running>,
    started: u32,
    /// Peers that were heard to have joined.
    joined: usize,
    recordings: Option<Recordings>,
    events: Sender<(Process, Option<Event>)>,
    heard: Receiver<(Process, Option<Event>)>,
}

impl Swarm {
    /// No processes yet. All will run this program, which has to understand [`Role`]. Its masters' runs are
    /// over what the environment says.
    #[must_use]
    pub fn of(program: impl Into<PathBuf>) -> Self {
        let (events, heard) = mpsc::channel();
        Self {
            program: program.into(),
            over: Over::of_environment(),
            running: BTreeMap::new(),
            started: 0,
            joined: 0,
            recordings: None,
            events,
            heard,
        }
    }

    /// No processes yet. All will run this program and record what their machines hear and say, for
    /// [`conform`](Self::conform).
    ///
    /// # Errors
    /// [`Trouble::System`].
    pub fn recorded(program: impl Into<PathBuf>) -> Result<Self, Trouble> {
        let mut swarm = Self::of(program);
        swarm.recordings = Some(Recordings::new()?);
        Ok(swarm)
    }

    /// The same, and its masters' runs are over this.
    #[must_use]
    pub fn over(mut self, over: Over) -> Self {
        self.over = over;
        self
    }

    /// What its masters' runs are over.
    #[must_use]
    pub const fn is_over(&self) -> Over {
        self.over
    }

    /// For a master in the test's own process: recorded where the others are.
    ///
    /// # Panics
    /// There is no randomness.
    #[must_use]
    pub fn master_builder(&self) -> MasterBuilder {
        let builder = self.over.master().expect("randomness");
        match &self.recordings {
            Some(recordings) => builder.record(recordings.directory()),
            None => builder,
        }
    }

    /// Kills all processes, and replays and judges what the machines of this run heard and said.
    ///
    /// # Errors
    /// [`Trouble::Unlike`] where one of them does not say again what it said, is not among the logs, or
    /// does not go together with the others.
    pub fn conform(&mut self) -> Result<Summary, Trouble> {
        self.end_all();
        match &self.recordings {
            Some(recordings) => recordings.replay(self.joined),
            None => Err(Trouble::Unlike {
                what: "nothing was recorded".into(),
            }),
        }
    }

    /// What the machines of this run heard and said, where that is recorded.
    #[must_use]
    pub const fn recordings(&self) -> Option<&Recordings> {
        self.recordings.as_ref()
    }

    fn end_all(&mut self) {
        for running in self.running.values_mut() {
            // One that has ended already is none to worry about.
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
        self.running.clear();
    }

    /// Starts a process.
    ///
    /// # Errors
    /// [`Trouble::System`].
    pub fn start(&mut self, role: &Role) -> Result<Process, Trouble> {
        let mut command = Command::new(&self.program);
        command
            .args(role.arguments())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if let Some(recordings) = &self.recordings {
            command.env(DIRECTORY_VARIABLE, recordings.directory());
        }
        let mut child = command.spawn()?;
        let process = Process(self.started);
        self.started += 1;
        let (Some(orders), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Trouble::Ended(process));
        };
        let events = self.events.clone();
        thread::spawn(move || pass_on(process, output, &events));
        let running = Running {
            child,
            orders,
            gave_up: false,
            armed: false,
            stands_still: None,
        };
        self.running.insert(process, running);
        Ok(process)
    }

    /// Starts a master in a process of its own, over what this swarm is over, and waits until it listens.
    ///
    /// # Errors
    /// As [`until`](Self::until).
    pub fn start_master(
        &mut self,
        options: &MasterOptions,
    ) -> Result<(Process, MasterAt), Trouble> {
        let options = MasterOptions {
            transport: self.over,
            ..options.clone()
        };
        let master = self.start(&Role::Master(options))?;
        let at = self.until("the master", |process, event| match event {
            Event::Listening(at) if process == master => Some(at.clone()),
            _ => None,
        })?;
        Ok((master, at))
    }

    /// Starts a peer, and waits until it has joined.
    ///
    /// # Errors
    /// As [`until`](Self::until).
    pub fn join(&mut self, options: &PeerOptions) -> Result<Member, Trouble> {
        let newcomer = self.start(&Role::Peer(options.clone()))?;
        self.until("a newcomer", |process, event| match event {
            Event::Joined { .. } if process == newcomer => Member::of(process, event),
            _ => None,
        })
    }

    /// Starts so many peers, one after the other, and waits until all reduce together.
    ///
    /// # Errors
    /// As [`until`](Self::until).
    pub fn join_all(
        &mut self,
        options: &PeerOptions,
        count: usize,
    ) -> Result<Vec<Member>, Trouble> {
        let joined: Result<Vec<Member>, Trouble> = (0..count).map(|_| self.join(options)).collect();
        let members = joined?;
        self.until_all_commit(&members)?;
        Ok(members)
    }

    /// The next event of a process that has not been killed; `None` after that time.
    ///
    /// # Errors
    /// [`Trouble::Wrong`] and [`Trouble::Ended`].
    pub fn next_within(&mut self, limit: Duration) -> Result<Option<(Process, Event)>, Trouble> {
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let (process, event) = match self.heard.recv_timeout(left) {
                Ok(heard) => heard,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Ok(None),
            };
            let Some(running) = self.running.get_mut(&process) else {
                continue;
            };
            match event {
                Some(Event::Wrong { what }) => return Err(Trouble::Wrong { process, what }),
                Some(event) => {
                    running.note(&event);
                    self.joined += usize::from(matches!(event, Event::Joined { .. }));
                    return Ok(Some((process, event)));
                }
                None if running.gave_up => {}
                None => return Err(Trouble::Ended(process)),
            }
        }
    }

    /// Hears events until one of them is it.
    ///
    /// # Errors
    /// As [`next_within`](Self::next_within), and [`Trouble::Hang`] after [`PATIENCE`]: `what` says what was waited for in vain.
    pub fn until<T>(
        &mut self,
        what: &str,
        mut found: impl FnMut(Process, &Event) -> Option<T>,
    ) -> Result<T, Trouble> {
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let heard = self.next_within(left)?;
            let (process, event) = heard.ok_or_else(|| Trouble::Hang(what.into()))?;
            if let Some(found) = found(process, &event) {
                return Ok(found);
            }
            if Instant::now() > end {
                return Err(Trouble::Hang(what.into()));
            }
        }
    }

    /// Waits until each of these has committed a reduce of all of these and nobody else. Returns those
    /// commits.
    ///
    /// # Errors
    /// As [`until`](Self::until), and [`Trouble::GaveUp`] where one of these can no longer do so.
    pub fn until_all_commit(
        &mut self,
        members: &[Member],
    ) -> Result<BTreeMap<Process, Commit>, Trouble> {
        let peers: BTreeSet<u64> = members.iter().map(|member| member.peer).collect();
        let all: BTreeSet<Process> = members.iter().map(|member| member.process).collect();
        let mut commits = BTreeMap::new();
        let what = format!("a reduce of the peers {peers:?}");
        self.until(&what, |process, event| match event {
            Event::Committed(commit) if all.contains(&process) => {
                if commit.rounds.keys().eq(peers.iter()) {
                    commits.entry(process).or_insert_with(|| commit.clone());
                }
                (commits.len() == all.len()).then_some(Ok(()))
            }
            Event::GaveUp { error, .. } if all.contains(&process) => Some(Err(Trouble::GaveUp {
                process,
                error: error.clone(),
            })),
            _ => None,
        })??;
        Ok(commits)
    }

    /// Waits until this process knows where to stand still.
    ///
    /// # Errors
    /// As [`until`](Self::until), and [`Trouble::NotRunning`].
    pub fn until_armed(&mut self, who: Process) -> Result<(), Trouble> {
        let running = self.running.get(&who).ok_or(Trouble::NotRunning(who))?;
        if running.armed {
            return Ok(());
        }
        self.until("an order to be heard", |process, event| {
            (process == who && *event == Event::Armed).then_some(())
        })
    }

    /// Waits until this process stands still where it was told to, unless it does so already. Returns
    /// the round that it is in.
    ///
    /// # Errors
    /// As [`until`](Self::until), and [`Trouble::NotRunning`].
    pub fn until_still(&mut self, who: Process) -> Result<u64, Trouble> {
        let running = self.running.get(&who).ok_or(Trouble::NotRunning(who))?;
        if let Some(round) = running.stands_still {
            return Ok(round);
        }
        self.until("a standstill", |process, event| match event {
            Event::StandsStill { round } if process == who => Some(*round),
            _ => None,
        })
    }

    /// Tells a process to stand still at the next such moment.
    ///
    /// # Errors
    /// [`Trouble::System`], [`Trouble::NotRunning`].
    pub fn stand_still_at(&mut self, process: Process, moment: Moment) -> Result<(), Trouble> {
        let running = self.running.get_mut(&process);
        let running = running.ok_or(Trouble::NotRunning(process))?;
        (running.armed, running.stands_still) = (false, None);
        self.order(process, Order::StandStillAt(moment))
    }

    /// Tells a process something.
    ///
    /// # Errors
    /// [`Trouble::System`], [`Trouble::NotRunning`].
    pub fn order(&mut self, process: Process, order: Order) -> Result<(), Trouble> {
        let order = serde_json::to_string(&order).map_err(std::io::Error::from)?;
        let running = self
            .running
            .get_mut(&process)
            .ok_or(Trouble::NotRunning(process))?;
        writeln!(running.orders, "{order}")?;
        Ok(running.orders.flush()?)
    }

    /// Kills a process with SIGKILL and waits for its end. Returns when it was killed and when it was
    /// gone. What it has told and nobody has heard is lost.
    ///
    /// # Errors
    /// [`Trouble::System`], [`Trouble::NotRunning`].
    pub fn kill(&mut self, process: Process) -> Result<(Nanos, Nanos), Trouble> {
        let running = self
            .running
            .remove(&process)
            .ok_or(Trouble::NotRunning(process))?;
        let mut child = running.child;
        let at = now();
        child.kill()?;
        child.wait()?;
        Ok((at, now()))
    }

    /// The most memory, in bytes, that a process has had at any time (`VmHWM`). Only on Linux.
    ///
    /// # Errors
    /// [`Trouble::System`], [`Trouble::NotRunning`].
    pub fn peak_memory(&self, process: Process) -> Result<u64, Trouble> {
        let running = self.running.get(&process);
        let running = running.ok_or(Trouble::NotRunning(process))?;
        let status = std::fs::read_to_string(format!("/proc/{}/status", running.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
        let kib: Option<u64> = kib.and_then(|kib| kib.parse().ok());
        // A process that has ended but was not waited for has no memory.
        Ok(kib.ok_or(Trouble::Ended(process))? * 1024)
    }

    /// Sends a process a signal, by its name without `SIG`. Only on Unix.
    ///
    /// # Errors
    /// As [`signal_all`](Self::signal_all).
    pub fn signal(&mut self, process: Process, name: &str) -> Result<(), Trouble> {
        self.signal_all(&[process], name)
    }

    /// Sends some processes a signal, as much at once as can be, by its name without `SIG`. Only on Unix.
    ///
    /// # Errors
    /// [`Trouble::System`], [`Trouble::NotRunning`].
    pub fn signal_all(&mut self, processes: &[Process], name: &str) -> Result<(), Trouble> {
        let script = "signal=$0; kill -s \"$signal\" \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", script, name]);
        for process in processes {
            let running = self.running.get(process);
            let running = running.ok_or(Trouble::NotRunning(*process))?;
            command.arg(running.child.id().to_string());
        }
        match processes.first() {
            Some(first) if !command.status()?.success() => Err(Trouble::NotRunning(*first)),
            Some(_) | None => Ok(()),
        }
    }
}

impl Drop for Swarm {
    fn drop(&mut self) {
        self.end_all();
    }
}

/// Reads what a process tells, to the end.
fn pass_on(process: Process, output: ChildStdout, events: &Sender<(Process, Option<Event>)>) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        match serde_json::from_str(&line) {
            Ok(event) => {
                if events.send((process, Some(event))).is_err() {
                    return;
                }
            }
            // A line that was cut short by a kill, or a stray line for people to read.
            Err(_) => eprintln!("{process:?}: {line}"),
        }
    }
    // Fails where the test is over.
    let _ = events.send((process, None));
}
