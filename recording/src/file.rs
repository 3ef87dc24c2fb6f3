//! One log on disk.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process;

use pccl_core::log::{Encoder, Machine, NotRecorded};

/// What the names of logs end with, after a dot.
pub const EXTENSION: &str = "pccl-log";

/// Machines of one kind that one process may record into one directory.
const FILES_MAX: u32 = 100_000;

/// Why a machine is not recorded, or no longer. The run goes on; what was written up to there can be
/// replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoRecording {
    /// The directory is not there and could not be made: choose another one.
    #[error("cannot make the directory {}: {error}", .directory.display())]
    Directory {
        /// Which.
        directory: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A log could not be created or written: a full disk, a directory without permission.
    #[error("cannot write {}: {error}", .file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A step cannot be written down.
    #[error("{0}")]
    Step(#[from] NotRecorded),
}

/// A log that is being written.
#[derive(Debug)]
pub(crate) struct LogFile<M> {
    file: File,
    path: PathBuf,
    encoder: Encoder<M>,
}

impl<M: Machine> LogFile<M> {
    /// Makes a file of its own in the directory, which is made where it is missing.
    pub(crate) fn create(directory: &Path, config: &M::Config) -> Result<Self, NoRecording> {
        make_directory(directory).map_err(|error| NoRecording::Directory {
            directory: directory.into(),
            error,
        })?;
        let (file, path) = create_new(directory, M::NAME)?;
        Self::begin(file, path, config)
    }

    /// Begins a log in an empty file.
    pub(crate) fn begin(
        mut file: File,
        path: PathBuf,
        config: &M::Config,
    ) -> Result<Self, NoRecording> {
        let encoder = Encoder::new(config)?;
        match file.write_all(encoder.header()) {
            Ok(()) => Ok(Self {
                file,
                path,
                encoder,
            }),
            Err(error) => Err(NoRecording::File { file: path, error }),
        }
    }

    /// Lets the machine make a step and writes it down, in one write, before anybody can carry out
    /// what the machine said: whatever a killed process has done is in its log. (The system has it then,
    /// and perhaps not yet the disk: a log need not outlive a power failure.) The machine makes the
    /// step also where this fails.
    pub(crate) fn step(
        &mut self,
        machine: &mut M,
        input: M::Input,
        out: &mut Vec<M::Output>,
    ) -> Result<(), NoRecording> {
        let record = self.encoder.step(machine, input, out)?;
        self.file
            .write_all(record)
            .map_err(|error| NoRecording::File {
                file: self.path.clone(),
                error,
            })
    }
}

fn make_directory(directory: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

/// A file that nobody else has: other processes and other machines of this one record here, too.
fn create_new(directory: &Path, machine: &str) -> Result<(File, PathBuf), NoRecording> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let process = process::id();
    let mut number = 0;
    loop {
        let path = directory.join(format!("{machine}-{process}-{number}.{EXTENSION}"));
        match options.open(&path) {
            Ok(file) => return Ok((file, path)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists && number < FILES_MAX => {
                number += 1;
            }
            Err(error) => return Err(NoRecording::File { file: path, error }),
        }
    }
}
