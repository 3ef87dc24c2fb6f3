//! Processes of a test, as their parent sees them: starting them, hearing what they tell, stopping and
//! killing them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use pccl_core::id::Identity;
use pccl_master::MasterBuilder;
use pccl_recording::{DIRECTORY_VARIABLE, Summary};
pub use pccl_subprocess::Process;
use pccl_subprocess::{ProcessError, Processes};

use crate::over::{MasterAt, Over};
use crate::recordings::Recordings;
use crate::roles::{MasterOptions, Role};
use crate::scripted::PeerOptions;
use crate::talk::{Commit, Event, Moment, Nanos, Order, now};

/// Whatever is waited for has not happened after so long: something hangs.
pub const PATIENCE: Duration = Duration::from_secs(60);

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

impl From<ProcessError> for Trouble {
    fn from(error: ProcessError) -> Self {
        match error {
            ProcessError::System(error) => Self::System(error),
            ProcessError::NotRunning(process) => Self::NotRunning(process),
        }
    }
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

/// What a process that runs has told.
#[derive(Debug, Default)]
struct Told {
    /// It has said why it ends.
    gave_up: bool,
    /// It knows where to stand still.
    armed: bool,
    /// The round in which it stands still.
    stands_still: Option<u64>,
}

impl Told {
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
            | Event::Optimized { .. }
            | Event::Computes { .. }
            | Event::Failed { .. }
            | Event::Warned { .. }
            | Event::Dropped { .. }
            | Event::Wrong { .. } => {}
        }
    }
}

/// All processes of a test. Dropping it kills them.
pub struct Swarm {
    program: PathBuf,
    over: Over,
    processes: Processes<Event>,
    told: BTreeMap<Process, Told>,
    /// Peers that were heard to have joined.
    joined: usize,
    recordings: Option<Recordings>,
}

impl Swarm {
    /// No processes yet. All will run this program, which has to understand [`Role`]. Its masters' runs are
    /// over what the environment says.
    #[must_use]
    pub fn of(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            over: Over::of_environment(),
            processes: Processes::new(),
            told: BTreeMap::new(),
            joined: 0,
            recordings: None,
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
        self.processes.kill_all();
        self.told.clear();
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

    /// Starts a process.
    ///
    /// # Errors
    /// [`Trouble::System`].
    pub fn start(&mut self, role: &Role) -> Result<Process, Trouble> {
        let mut command = Command::new(&self.program);
        command.args(role.arguments());
        if let Some(recordings) = &self.recordings {
            command.env(DIRECTORY_VARIABLE, recordings.directory());
        }
        let process = self.processes.start(&mut command)?;
        self.told.insert(process, Told::default());
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
            let Some((process, event)) = self.processes.next_before(end) else {
                return Ok(None);
            };
            let told = self.told.entry(process).or_default();
            match event {
                Some(Event::Wrong { what }) => return Err(Trouble::Wrong { process, what }),
                Some(event) => {
                    told.note(&event);
                    self.joined += usize::from(matches!(event, Event::Joined { .. }));
                    return Ok(Some((process, event)));
                }
                None if told.gave_up => {}
                None => return Err(Trouble::Ended(process)),
            }
        }
    }

    /// Hears events until one of them is it.
    ///
    /// # Errors
    /// As [`next_within`](Self::next_within), and [`Trouble::Hang`] after [`PATIENCE`]: `what` says what was waited for
    /// in vain.
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
        let told = self.told.get(&who).ok_or(Trouble::NotRunning(who))?;
        if told.armed {
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
        let told = self.told.get(&who).ok_or(Trouble::NotRunning(who))?;
        if let Some(round) = told.stands_still {
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
        let told = self.told.get_mut(&process);
        let told = told.ok_or(Trouble::NotRunning(process))?;
        (told.armed, told.stands_still) = (false, None);
        self.order(process, Order::StandStillAt(moment))
    }

    /// Tells a process something.
    ///
    /// # Errors
    /// [`Trouble::System`], [`Trouble::NotRunning`].
    pub fn order(&mut self, process: Process, order: Order) -> Result<(), Trouble> {
        Ok(self.processes.tell(process, &order)?)
    }

    /// Kills a process with SIGKILL and waits for its end. Returns when it was killed and when it was
    /// gone. What it has told and nobody has heard is lost.
    ///
    /// # Errors
    /// [`Trouble::System`], [`Trouble::NotRunning`].
    pub fn kill(&mut self, process: Process) -> Result<(Nanos, Nanos), Trouble> {
        self.told.remove(&process);
        let at = now();
        self.processes.kill(process)?;
        Ok((at, now()))
    }

    /// The most memory, in bytes, that a process has had at any time (`VmHWM`). Only on Linux.
    ///
    /// # Errors
    /// [`Trouble::System`], [`Trouble::NotRunning`].
    pub fn peak_memory(&self, process: Process) -> Result<u64, Trouble> {
        let id = self.processes.system_id(process)?;
        let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
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
            command.arg(self.processes.system_id(*process)?.to_string());
        }
        match processes.first() {
            Some(first) if !command.status()?.success() => Err(Trouble::NotRunning(*first)),
            Some(_) | None => Ok(()),
        }
    }
}
