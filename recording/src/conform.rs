//! Replaying all logs of a directory.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pccl_core::log::{ReplayError, Replayed, replay};

use crate::file::EXTENSION;

/// Every log of a directory, replayed.
#[derive(Debug)]
pub struct Summary {
    /// The logs, sorted by name; at least one.
    pub logs: Vec<Checked>,
}

/// One log, replayed.
#[derive(Debug)]
pub struct Checked {
    /// The name of its file.
    pub file: String,
    /// What came of it.
    pub outcome: ReplayOutcome,
}

/// What came of replaying a log.
#[derive(Debug)]
pub enum ReplayOutcome {
    /// The machine says all over again what it said.
    Equal(Replayed),
    /// The file is empty: its process ended before it had written anything.
    Empty,
    /// The log is damaged, or the machine says something else.
    Failed(ReplayError),
    /// The file could not be read.
    Unreadable(io::Error),
}

/// Why there is no summary.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NothingToReplay {
    /// The directory could not be read: name the one that was recorded into.
    #[error("cannot read the directory {}: {error}", .directory.display())]
    Directory {
        /// Which.
        directory: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The directory has no logs: nothing was recorded there.
    #[error("{} has no file named *.{EXTENSION}: nothing was recorded there", .directory.display())]
    NoLogs {
        /// Which.
        directory: PathBuf,
    },
}

/// Replays each log of the directory. Other files and directories in it are not looked at.
///
/// The processes may still be running: what they have written so far is replayed.
///
/// # Errors
/// The directory cannot be read or has no logs. What is wrong with a log is in the [`Summary`]: ask it
/// whether it [`is_equal`](Summary::is_equal).
///
/// # Blocking
/// Reads each file whole, one after the other.
pub fn conform(directory: &Path) -> Result<Summary, NothingToReplay> {
    let logs = paths(directory)?;
    let logs = logs.iter().map(|path| check(path)).collect();
    Ok(Summary { logs })
}

/// Each log of the directory that can be read, with the name of its file, in the order of the names.
/// What is in them is not looked at.
///
/// # Errors
/// The directory cannot be read or has no logs.
///
/// # Blocking
/// Reads each file whole, and holds all of them in memory.
pub fn logs(directory: &Path) -> Result<Vec<(String, Vec<u8>)>, NothingToReplay> {
    let logs = paths(directory)?.into_iter();
    let logs = logs.filter_map(|path| Some((name_of(&path), fs::read(&path).ok()?)));
    Ok(logs.collect())
}

/// The logs of the directory, in the order of their names; at least one.
fn paths(directory: &Path) -> Result<Vec<PathBuf>, NothingToReplay> {
    let unreadable = |error| NothingToReplay::Directory {
        directory: directory.into(),
        error,
    };
    let mut logs = Vec::new();
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|ending| ending == EXTENSION) {
            logs.push(path);
        }
    }
    if logs.is_empty() {
        let directory = directory.into();
        return Err(NothingToReplay::NoLogs { directory });
    }
    logs.sort();
    Ok(logs)
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn check(path: &Path) -> Checked {
    let outcome = match fs::read(path) {
        Ok(log) if log.is_empty() => ReplayOutcome::Empty,
        Ok(log) => replay(&log).map_or_else(ReplayOutcome::Failed, ReplayOutcome::Equal),
        Err(error) => ReplayOutcome::Unreadable(error),
    };
    Checked {
        file: name_of(path),
        outcome,
    }
}

impl Summary {
    /// Every machine says all over again what it said, and there was something to compare.
    #[must_use]
    pub fn is_equal(&self) -> bool {
        self.failed() == 0 && self.outputs() > 0
    }

    /// Logs that are damaged, differ, or could not be read.
    #[must_use]
    pub fn failed(&self) -> usize {
        let failed = |log: &&Checked| match log.outcome {
            ReplayOutcome::Equal(_) | ReplayOutcome::Empty => false,
            ReplayOutcome::Failed(_) | ReplayOutcome::Unreadable(_) => true,
        };
        self.logs.iter().filter(failed).count()
    }

    /// Inputs that were given to machines that said the same again.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.equal().map(|replayed| replayed.records).sum()
    }

    /// Outputs that were compared and are equal, in the logs that are equal to their ends.
    #[must_use]
    pub fn outputs(&self) -> u64 {
        self.equal().map(|replayed| replayed.outputs).sum()
    }

    /// Logs of machines of this [`NAME`](pccl_core::log::Machine::NAME) that are equal to their ends.
    #[must_use]
    pub fn equal_logs_of(&self, machine: &str) -> usize {
        let of_it = |replayed: &&Replayed| replayed.machine == machine;
        self.equal().filter(of_it).count()
    }

    fn equal(&self) -> impl Iterator<Item = &Replayed> {
        self.logs.iter().filter_map(|log| match &log.outcome {
            ReplayOutcome::Equal(replayed) => Some(replayed),
            ReplayOutcome::Empty | ReplayOutcome::Failed(_) | ReplayOutcome::Unreadable(_) => None,
        })
    }
}

impl fmt::Display for Summary {
    /// One line per log, what differs below it, and a total.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widest = self.logs.iter().map(|log| log.file.len()).max();
        let width = widest.unwrap_or_default();
        writeln!(
            f,
            "{:width$}  {:7}  {:>9}  {:>9}",
            "log", "machine", "records", "outputs"
        )?;
        for Checked { file, outcome } in &self.logs {
            writeln!(f, "{file:width$}  {outcome}")?;
        }
        let (logs, failed) = (self.logs.len(), self.failed());
        let (records, outputs) = (self.records(), self.outputs());
        if failed > 0 {
            write!(f, "{failed} of {logs} logs FAILED; ")?;
            write!(f, "the others: {records} records, {outputs} outputs equal")
        } else if outputs == 0 {
            write!(f, "{logs} logs without any output: nothing was compared")
        } else {
            write!(
                f,
                "{logs} logs, {records} records, {outputs} outputs: 100 % equal"
            )
        }
    }
}

impl fmt::Display for ReplayOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Equal(Replayed {
                machine,
                records,
                outputs,
                torn,
            }) => {
                write!(f, "{machine:7}  {records:9}  {outputs:9}  equal")?;
                if *torn > 0 {
                    write!(f, ", ends in the middle of a record ({torn} bytes of it)")?;
                }
                Ok(())
            }
            Self::Empty => f.write_str("empty: its process ended before it had written anything"),
            Self::Failed(ReplayError::Log(error)) => write!(f, "DAMAGED: {error}"),
            Self::Failed(ReplayError::Difference(difference)) => {
                write!(f, "DIFFERENT: {difference}")
            }
            Self::Unreadable(error) => write!(f, "UNREADABLE: {error}"),
        }
    }
}
