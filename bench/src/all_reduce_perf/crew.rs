//! The processes that the parent starts: this same program in other roles.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::process::Command;
use std::time::{Duration, Instant};

use pccl_subprocess::{Process, ProcessError, Processes};

use super::over::Over;
use super::talk::{Event, Order};

/// A child that says nothing for so long has hung.
const PATIENCE: Duration = Duration::from_secs(120);

/// Why a run has ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// A process could not be started.
    #[error("the system refused to start a process: {0}")]
    System(#[from] io::Error),
    /// A process could not be ended.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// A child has said why it cannot go on.
    #[error("{who}: {error}")]
    Failed { who: String, error: String },
    /// A child has ended without a word.
    #[error("{who} has ended without a word")]
    Ended { who: String },
    /// A child has said something out of turn.
    #[error("{who} said {said:?} while it was asked for {awaited}")]
    OutOfTurn {
        who: String,
        said: Box<Event>,
        awaited: &'static str,
    },
    /// A child does not answer.
    #[error("{who} has not answered for {PATIENCE:?} while it was asked for {awaited}")]
    Hung { who: String, awaited: &'static str },
    /// What is measured is not what was asked for.
    #[error("the run was to be over {0}, and its lanes are not")]
    NotOver(Over),
    /// Ranks do not agree.
    #[error("the ranks were told different rings by optimize_topology")]
    Topology,
    /// A series without iterations.
    #[error("the ranks do not say by which algorithm they have worked")]
    NoAlgorithm,
    /// What the benchmark compares with is broken.
    #[error("the floor has computed {0} wrong elements")]
    WrongFloor(u64),
}

struct Member {
    name: String,
    /// What it has said and nobody has asked for yet.
    said: VecDeque<Event>,
    has_ended: bool,
}

/// The children of a session. Dropping it kills those that still run.
pub(crate) struct Crew {
    processes: Processes<Event>,
    members: BTreeMap<Process, Member>,
}

impl Crew {
    pub(crate) fn new() -> Self {
        Self {
            processes: Processes::new(),
            members: BTreeMap::new(),
        }
    }

    /// Starts this program with these arguments, by the command that starts it where it is to run.
    pub(crate) fn start(
        &mut self,
        name: String,
        mut command: Command,
        arguments: &[String],
    ) -> io::Result<Process> {
        let process = self.processes.start(command.args(arguments))?;
        let member = Member {
            name,
            said: VecDeque::new(),
            has_ended: false,
        };
        self.members.insert(process, member);
        Ok(process)
    }

    /// Tells each of them. One that is gone is missed when its answer is.
    pub(crate) fn tell(&mut self, whom: &[Process], order: &Order) {
        for member in whom {
            self.processes.tell(*member, order).ok();
        }
    }

    /// Waits until each of them has said one thing more, and picks from it what is awaited.
    pub(crate) fn hear<T>(
        &mut self,
        whom: &[Process],
        awaited: &'static str,
        pick: impl Fn(Event) -> Option<T>,
    ) -> Result<Vec<T>, Trouble> {
        let mut answers = Vec::new();
        for member in whom {
            let said = self.next_of(*member, awaited)?;
            let answer = pick(said.clone()).ok_or_else(|| Trouble::OutOfTurn {
                who: self.name(*member),
                said: Box::new(said),
                awaited,
            })?;
            answers.push(answer);
        }
        Ok(answers)
    }

    /// As [`hear`](Self::hear), from one.
    pub(crate) fn hear_one<T>(
        &mut self,
        whom: Process,
        awaited: &'static str,
        pick: impl Fn(Event) -> Option<T>,
    ) -> Result<T, Trouble> {
        let answer = self.hear(&[whom], awaited, pick)?.pop();
        answer.ok_or_else(|| Trouble::Ended {
            who: self.name(whom),
        })
    }

    /// Ends these children, and waits until they have.
    pub(crate) fn dismiss(&mut self, whom: &[Process]) -> Result<(), Trouble> {
        self.tell(whom, &Order::Quit);
        let deadline = Instant::now() + PATIENCE;
        for child in whom {
            while self.members.get(child).is_some_and(|m| !m.has_ended) {
                self.take_one(deadline, *child, "its end")?;
            }
            self.processes.wait(*child)?;
        }
        Ok(())
    }

    fn next_of(&mut self, whom: Process, awaited: &'static str) -> Result<Event, Trouble> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let member = self.members.get_mut(&whom);
            if let Some(event) = member.and_then(|member| member.said.pop_front()) {
                return Ok(event);
            }
            self.take_one(deadline, whom, awaited)?;
            // Whoever it is: without it the run cannot go on.
            if let Some(gone) = self.members.values().find(|member| member.has_ended) {
                let who = gone.name.clone();
                return Err(Trouble::Ended { who });
            }
        }
    }

    /// Takes what one child says.
    fn take_one(
        &mut self,
        deadline: Instant,
        waiting_for: Process,
        awaited: &'static str,
    ) -> Result<(), Trouble> {
        let Some((process, event)) = self.processes.next_before(deadline) else {
            let who = self.name(waiting_for);
            return Err(Trouble::Hung { who, awaited });
        };
        let Some(member) = self.members.get_mut(&process) else {
            return Ok(());
        };
        match event {
            Some(Event::Failed { error }) => {
                let who = member.name.clone();
                return Err(Trouble::Failed { who, error });
            }
            Some(event) => member.said.push_back(event),
            None => member.has_ended = true,
        }
        Ok(())
    }

    fn name(&self, whom: Process) -> String {
        let member = self.members.get(&whom);
        member.map(|m| m.name.clone()).unwrap_or_default()
    }
}
