//! Why a journal cannot be used.

use std::io;
use std::path::PathBuf;

use pccl_core::log::{NotRecorded, ReplayError};
use pccl_core::wire::EncodeError;

/// Why a run cannot be resumed from its journal, or goes on no longer because its journal cannot be written. Nothing
/// that is not in the journal has been told to a peer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The directory cannot be made or read. Choose another one.
    #[error("cannot use the directory {} for a journal: {error}", .directory.display())]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// Another master uses the directory. Stop it, or choose another directory.
    #[error("another master keeps its journal in {}", .directory.display())]
    InUse {
        /// The directory.
        directory: PathBuf,
    },
    /// A file cannot be read or written, for example because the disk is full. Make room, and start the master with
    /// the same directory again: the run goes on.
    #[error("cannot use the journal {}: {error}", .file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The journal is damaged, or was written by another build. Start the build that wrote it, or begin a run in an
    /// empty directory.
    #[error("cannot resume from the journal {}: {error}", .file.display())]
    Replay {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        error: ReplayError,
    },
    /// A step of the machine is too long to be written down.
    #[error("a step of the master cannot be written to its journal: {0}")]
    Step(#[from] NotRecorded),
    /// A message in the journal cannot be encoded. This is a defect of this crate.
    #[error("a message in the journal cannot be sent: {0}")]
    Message(#[from] EncodeError),
}
