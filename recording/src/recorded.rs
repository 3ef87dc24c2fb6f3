//! A machine beside its log.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use pccl_core::log::Machine;

use crate::file::{LogFile, NoRecording};

/// The environment variable that names the directory to record into, for programs that do not say so
/// themselves. Processes inherit it, so that one setting records a whole run on a machine.
pub const DIRECTORY_VARIABLE: &str = "PCCL_RECORD";

/// Where to record: where the program says, else where [`DIRECTORY_VARIABLE`] says. `None`: nowhere.
#[must_use]
pub fn directory(chosen: Option<PathBuf>) -> Option<PathBuf> {
    chosen.or_else(|| named(std::env::var_os(DIRECTORY_VARIABLE)))
}

/// A variable that is set to nothing names nothing.
fn named(value: Option<OsString>) -> Option<PathBuf> {
    value.filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// A machine, and the log of what it hears and says where one is wanted.
///
/// Every step of the machine goes through [`handle`](Self::handle), so a log has all of them. Without
/// a log that is a call of the machine and nothing else.
#[derive(Debug)]
pub struct Recorded<M> {
    machine: M,
    /// Boxed, so that a machine without a log is not larger for it.
    log: Option<Box<LogFile<M>>>,
}

impl<M: Machine> Recorded<M> {
    /// A machine to which nothing has happened, recorded into a new file of this directory if there is
    /// one. The directory is made where it is missing.
    ///
    /// Where that fails a line in the log of the process says so, and the machine is not recorded.
    ///
    /// # Blocking
    /// While the system creates the file.
    #[must_use]
    pub fn begin(config: M::Config, directory: Option<&Path>) -> Self {
        let log = directory.and_then(|directory| {
            let created = LogFile::create(directory, &config);
            created.map(Box::new).map_err(|error| report(&error)).ok()
        });
        Self {
            machine: M::begin(config),
            log,
        }
    }

    /// A machine in any state, which is not recorded: a log begins with a machine to which nothing has happened.
    #[must_use]
    pub const fn unrecorded(machine: M) -> Self {
        Self { machine, log: None }
    }

    /// Applies one input and appends what is to be done to `out`, as the machine's own `handle`.
    ///
    /// # Blocking
    /// Where there is a log, while the system takes the record: microseconds on a local disk. Where
    /// writing fails a line in the log of the process says so, once, and the recording ends.
    pub fn handle(&mut self, input: M::Input, out: &mut Vec<M::Output>) {
        let Some(log) = &mut self.log else {
            return self.machine.step(input, out);
        };
        if let Err(error) = log.step(&mut self.machine, input, out) {
            report(&error);
            self.log = None;
        }
    }

    /// The machine as it is.
    pub const fn machine(&self) -> &M {
        &self.machine
    }

    /// Whether there is a log that has everything up to here.
    pub const fn is_recording(&self) -> bool {
        self.log.is_some()
    }
}

fn report(error: &NoRecording) {
    tracing::error!(%error, "nothing more is recorded; the run goes on");
}

#[cfg(test)]
mod tests {
    use pccl_core::master::{Master, MasterConfig, MasterInput};

    use super::*;

    #[test]
    fn what_the_program_says_comes_before_the_environment() {
        assert_eq!(directory(Some("here".into())), Some("here".into()));
    }

    #[test]
    fn an_empty_variable_names_no_directory() {
        assert_eq!(named(Some("".into())), None);
        assert_eq!(named(Some("there".into())), Some("there".into()));
    }

    #[cfg(unix)]
    #[test]
    fn a_log_that_can_no_longer_be_written_ends_and_the_machine_goes_on() {
        let config = MasterConfig::default();
        let (reader, writer) = std::io::pipe().unwrap();
        let file = std::fs::File::from(std::os::fd::OwnedFd::from(writer));
        let log = LogFile::begin(file, "a pipe".into(), &config).unwrap();
        let mut recorded = Recorded {
            machine: Master::new(config.clone()),
            log: Some(Box::new(log)),
        };
        let mut plain = Master::new(config);
        // Nobody can be written to from here on.
        drop(reader);

        let (mut said, mut expected) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            recorded.handle(MasterInput::Stop, &mut said);
            plain.handle(MasterInput::Stop, &mut expected);
        }

        assert!(!recorded.is_recording());
        assert_eq!(said, expected);
        assert_eq!(recorded.machine(), &plain);
    }
}
