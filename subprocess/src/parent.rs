//! The children of this process: starting them, telling them orders, hearing their events, and ending them.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Instant;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A process that was started by [`Processes`]. They are numbered from 0, in the order of their starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process(u32);

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.0)
    }
}

/// What went wrong with a process.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// It could not be started, told something, or ended.
    #[error("the system refused: {0}")]
    System(#[from] io::Error),
    /// It was killed or waited for before.
    #[error("{0} is not running")]
    NotRunning(Process),
}

/// An event, or `None` for the end of a process's output.
type Heard<E> = (Process, Option<E>);

/// Processes that this one has started, and that tell it events of type `E`. Dropping this kills them.
#[derive(Debug)]
pub struct Processes<E> {
    running: BTreeMap<Process, Running>,
    started: u32,
    events: Sender<Heard<E>>,
    heard: Receiver<Heard<E>>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    orders: ChildStdin,
}

impl<E> Default for Processes<E> {
    fn default() -> Self {
        let (events, heard) = mpsc::channel();
        Self {
            running: BTreeMap::new(),
            started: 0,
            events,
            heard,
        }
    }
}

impl<E: DeserializeOwned + Send + 'static> Processes<E> {
    /// No process yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a process. Lines that it prints and that are not events go to standard error, for people to read.
    ///
    /// # Errors
    /// Whatever the system says.
    pub fn start(&mut self, command: &mut Command) -> io::Result<Process> {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let (Some(orders), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let process = Process(self.started);
        self.started += 1;
        let events = self.events.clone();
        thread::spawn(move || pass_on(process, output, &events));
        self.running.insert(process, Running { child, orders });
        Ok(process)
    }

    /// The next event and the process that told it, or a process and `None` once it has closed its output.
    /// `None` alone if nothing comes before the deadline.
    ///
    /// Events of a process that was killed or waited for in the meantime are dropped.
    pub fn next_before(&mut self, deadline: Instant) -> Option<Heard<E>> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            // The channel is never disconnected, because `self` has a sender.
            let (process, event) = self.heard.recv_timeout(left).ok()?;
            if self.running.contains_key(&process) {
                return Some((process, event));
            }
        }
    }
}

impl<E> Processes<E> {
    /// Tells a process an order.
    ///
    /// # Errors
    /// [`ProcessError::NotRunning`], and [`ProcessError::System`] if the process has ended by itself.
    pub fn tell(&mut self, process: Process, order: &impl Serialize) -> Result<(), ProcessError> {
        let mut line = serde_json::to_string(order).map_err(io::Error::from)?;
        line.push('\n');
        let running = self.running.get_mut(&process);
        let running = running.ok_or(ProcessError::NotRunning(process))?;
        running.orders.write_all(line.as_bytes())?;
        Ok(running.orders.flush()?)
    }

    /// The number by which the system knows a process.
    ///
    /// # Errors
    /// [`ProcessError::NotRunning`].
    pub fn system_id(&self, process: Process) -> Result<u32, ProcessError> {
        let running = self.running.get(&process);
        let running = running.ok_or(ProcessError::NotRunning(process))?;
        Ok(running.child.id())
    }

    /// Kills a process (SIGKILL on Unix), and waits until it has ended.
    ///
    /// # Errors
    /// [`ProcessError::NotRunning`], [`ProcessError::System`].
    pub fn kill(&mut self, process: Process) -> Result<(), ProcessError> {
        let mut running = self.take(process)?;
        running.child.kill()?;
        running.child.wait()?;
        Ok(())
    }

    /// Closes the standard input of a process, and waits until it has ended by itself.
    ///
    /// # Errors
    /// [`ProcessError::NotRunning`], [`ProcessError::System`].
    pub fn wait(&mut self, process: Process) -> Result<ExitStatus, ProcessError> {
        let Running { mut child, orders } = self.take(process)?;
        drop(orders);
        Ok(child.wait()?)
    }

    /// Kills all processes, and waits until they have ended.
    pub fn kill_all(&mut self) {
        for running in self.running.values_mut() {
            // One that has ended cannot be killed, and need not be.
            running.child.kill().ok();
            running.child.wait().ok();
        }
        self.running.clear();
    }

    fn take(&mut self, process: Process) -> Result<Running, ProcessError> {
        let running = self.running.remove(&process);
        running.ok_or(ProcessError::NotRunning(process))
    }
}

impl<E> Drop for Processes<E> {
    fn drop(&mut self) {
        self.kill_all();
    }
}

/// Reads what a process prints, to the end.
fn pass_on<E: DeserializeOwned>(process: Process, output: ChildStdout, events: &Sender<Heard<E>>) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        match serde_json::from_str(&line) {
            Ok(event) => {
                if events.send((process, Some(event))).is_err() {
                    return;
                }
            }
            // A line that a kill has cut short, or that some library prints.
            Err(_) => eprintln!("{process}: {line}"),
        }
    }
    // Fails if nobody listens any more.
    events.send((process, None)).ok();
}
