//! The processes that the parent starts: this same program in other roles.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use super::over::Over;
use super::talk::{Event, Order};

/// A child that says nothing for so long has hung.
const PATIENCE: Duration = Duration::from_secs(120);

/// A child of this crew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChildId(usize);

/// Why a run has ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// A process could not be started.
    #[error("the system refused to start a process: {0}")]
    System(#[from] io::Error),
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
        said: Event,
        awaited: &'static str,
    },
    /// A child does not answer.
    #[error("{who} has not answered for {PATIENCE:?} while it was asked for {awaited}")]
    Hung { who: String, awaited: &'static str },
    /// What is measured is not what was asked for.
    #[error("the run was to be over {0}, and its lanes are not")]
    NotOver(Over),
    /// What the benchmark compares with is broken.
    #[error("the floor has computed {0} wrong elements")]
    WrongFloor(u64),
}

struct Member {
    name: String,
    child: Child,
    orders: ChildStdin,
    /// What it has said and nobody has asked for yet.
    said: VecDeque<Event>,
    has_ended: bool,
}

/// The children of a session. Dropping it kills those that still run.
pub(crate) struct Crew {
    members: Vec<Member>,
    events: Sender<(usize, Option<Event>)>,
    heard: Receiver<(usize, Option<Event>)>,
}

impl Crew {
    pub(crate) fn new() -> Self {
        let (events, heard) = mpsc::channel();
        Self {
            members: Vec::new(),
            events,
            heard,
        }
    }

    /// Starts this program with these arguments, by the command that starts it where it is to run.
    pub(crate) fn start(
        &mut self,
        name: String,
        mut command: Command,
        arguments: &[String],
    ) -> io::Result<ChildId> {
        let mut child = command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(orders), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let index = self.members.len();
        let events = self.events.clone();
        thread::spawn(move || listen(index, output, &events));
        self.members.push(Member {
            name,
            child,
            orders,
            said: VecDeque::new(),
            has_ended: false,
        });
        Ok(ChildId(index))
    }

    /// Tells each of them. One that is gone is missed when its answer is.
    pub(crate) fn tell(&mut self, whom: &[ChildId], order: &Order) {
        let mut line = serde_json::to_string(order).unwrap_or_default();
        line.push('\n');
        for member in whom {
            if let Some(member) = self.members.get_mut(member.0) {
                member.orders.write_all(line.as_bytes()).ok();
            }
        }
    }

    /// Waits until each of them has said one thing more, and picks from it what is awaited.
    pub(crate) fn hear<T>(
        &mut self,
        whom: &[ChildId],
        awaited: &'static str,
        pick: impl Fn(Event) -> Option<T>,
    ) -> Result<Vec<T>, Trouble> {
        let mut answers = Vec::new();
        for member in whom {
            let said = self.next_of(*member, awaited)?;
            let answer = pick(said.clone()).ok_or_else(|| Trouble::OutOfTurn {
                who: self.name(*member),
                said,
                awaited,
            })?;
            answers.push(answer);
        }
        Ok(answers)
    }

    /// As [`hear`](Self::hear), from one.
    pub(crate) fn hear_one<T>(
        &mut self,
        whom: ChildId,
        awaited: &'static str,
        pick: impl Fn(Event) -> Option<T>,
    ) -> Result<T, Trouble> {
        let answer = self.hear(&[whom], awaited, pick)?.pop();
        answer.ok_or_else(|| Trouble::Ended {
            who: self.name(whom),
        })
    }

    /// Ends these children, and waits until they have.
    pub(crate) fn dismiss(&mut self, whom: &[ChildId]) -> Result<(), Trouble> {
        self.tell(whom, &Order::Quit);
        let deadline = Instant::now() + PATIENCE;
        for child in whom {
            while self.members.get(child.0).is_some_and(|m| !m.has_ended) {
                self.take_one(deadline, *child, "its end")?;
            }
            if let Some(member) = self.members.get_mut(child.0) {
                member.child.wait()?;
            }
        }
        Ok(())
    }

    fn next_of(&mut self, whom: ChildId, awaited: &'static str) -> Result<Event, Trouble> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let member = self.members.get_mut(whom.0);
            if let Some(event) = member.and_then(|member| member.said.pop_front()) {
                return Ok(event);
            }
            self.take_one(deadline, whom, awaited)?;
            // Whoever it is: without it the run cannot go on.
            if let Some(gone) = self.members.iter().find(|member| member.has_ended) {
                let who = gone.name.clone();
                return Err(Trouble::Ended { who });
            }
        }
    }

    /// Takes what one child says.
    fn take_one(
        &mut self,
        deadline: Instant,
        waiting_for: ChildId,
        awaited: &'static str,
    ) -> Result<(), Trouble> {
        let left = deadline.saturating_duration_since(Instant::now());
        let (index, event) = match self.heard.recv_timeout(left) {
            Ok(heard) => heard,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                let who = self.name(waiting_for);
                return Err(Trouble::Hung { who, awaited });
            }
        };
        let Some(member) = self.members.get_mut(index) else {
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

    fn name(&self, whom: ChildId) -> String {
        let member = self.members.get(whom.0);
        member.map(|m| m.name.clone()).unwrap_or_default()
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for member in &mut self.members {
            // One that has ended cannot be killed, and need not be.
            member.child.kill().ok();
            member.child.wait().ok();
        }
    }
}

/// Passes on what a child says, until it has closed its output.
fn listen(index: usize, output: ChildStdout, events: &Sender<(usize, Option<Event>)>) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        match serde_json::from_str(&line) {
            Ok(event) => drop(events.send((index, Some(event)))),
            // A stray line of some library, for people to read.
            Err(_) => eprintln!("{line}"),
        }
    }
    events.send((index, None)).ok();
}
