//! The journal of a run: what the machine has heard and said, on disk, so that another process can go on with the run.
//!
//! The format and what is replayed are in [`pccl_core::journal`]. Here are the files. A directory has one journal:
//! the file with the highest number. Each start of a master begins another file with a snapshot, and so does a journal
//! that has become long. A file gets its name only once its snapshot is on the disk; then the ones before are removed.

mod directory;
mod error;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pccl_core::journal::{Durable, OnDisk};
use pccl_core::log::{Encoder, Replayed, restore};
use pccl_core::master::{Master, MasterConfig, MasterInput, MasterOutput};
use tokio::task::spawn_blocking;

pub use error::JournalError;

use directory::Directory;

/// A file that is longer than this, and than eight times its snapshot, is followed by another one.
const LONG_BYTES: u64 = 16 * 1024 * 1024;
const SNAPSHOTS: u64 = 8;

/// A journal that is being written.
#[derive(Debug)]
pub(crate) struct Journal {
    directory: Directory,
    /// Whether records go to the disk, and not only to the system.
    syncs: bool,
    file: Arc<Synced>,
    path: PathBuf,
    number: u64,
    encoder: Encoder<Durable>,
    /// Records that the system does not have yet.
    unwritten: Vec<u8>,
    /// When the records that are not on the disk have to be.
    on_disk: OnDisk,
    bytes: u64,
    snapshot_bytes: u64,
}

/// A journal, and the value with which it begins.
pub(crate) struct Begun {
    pub(crate) journal: Journal,
    pub(crate) durable: Durable,
    /// What was replayed, if there was a journal.
    pub(crate) replayed: Option<Replayed>,
}

impl Journal {
    /// Opens the journal of this directory: the one that is there is replayed; if there is none, a run with this
    /// configuration begins.
    ///
    /// # Blocking
    /// While files are read and written.
    pub(crate) fn open(
        directory: &Path,
        syncs: bool,
        config: MasterConfig,
    ) -> Result<Begun, JournalError> {
        let directory = Directory::open(directory)?;
        let latest = directory.latest()?;
        let number = latest.as_ref().map_or(0, |(number, _)| number + 1);
        let kept = match latest {
            Some((_, path)) => Some(read(&path)?),
            None => None,
        };
        // A process that was killed while it stopped has not removed its journal.
        let kept = kept.filter(|(durable, _)| !durable.master.view().is_stopping());
        let (durable, replayed) = match kept {
            Some((durable, replayed)) => (durable, Some(replayed)),
            None => (Durable::new(Master::new(config)), None),
        };
        let journal = Self::begin(directory, syncs, number, &durable)?;
        Ok(Begun {
            journal,
            durable,
            replayed,
        })
    }

    fn begin(
        directory: Directory,
        syncs: bool,
        number: u64,
        durable: &Durable,
    ) -> Result<Self, JournalError> {
        let encoder = Encoder::new(durable)?;
        let (file, path) = directory.create(number, encoder.header())?;
        directory.remove_before(number);
        let snapshot_bytes = encoder.header().len() as u64;
        Ok(Self {
            directory,
            syncs,
            file: Arc::new(Synced::of(file)),
            path,
            number,
            encoder,
            unwritten: Vec::new(),
            on_disk: OnDisk::Later,
            bytes: snapshot_bytes,
            snapshot_bytes,
        })
    }

    /// The machine is about to get this input.
    pub(crate) fn heard(&mut self, input: &MasterInput) -> Result<(), JournalError> {
        Ok(self.encoder.heard(input)?)
    }

    /// These are the machine's outputs. Nobody may learn of them before [`flush`](Self::flush).
    pub(crate) fn said(&mut self, outputs: &[MasterOutput]) -> Result<(), JournalError> {
        let record = self.encoder.said(outputs)?;
        self.unwritten.extend_from_slice(record);
        self.on_disk = self.on_disk.max(OnDisk::of(outputs));
        Ok(())
    }

    /// Writes all records, and waits until the disk has them: a peer is about to forget what led to them.
    ///
    /// # Blocking
    /// Until the disk has the records.
    pub(crate) fn flush_to_disk(&mut self) -> Result<(), JournalError> {
        self.on_disk = OnDisk::Before;
        self.flush()
    }

    /// Writes all records. After it, peers may be told.
    ///
    /// # Blocking
    /// While the system takes the records and, if a peer is told a result, until the disk has them.
    pub(crate) fn flush(&mut self) -> Result<(), JournalError> {
        if self.unwritten.is_empty() && self.on_disk != OnDisk::Before {
            return Ok(());
        }
        let written = (&self.file.file).write_all(&self.unwritten);
        written.map_err(|error| self.failed(error))?;
        self.bytes += self.unwritten.len() as u64;
        self.unwritten.clear();
        match std::mem::replace(&mut self.on_disk, OnDisk::Later) {
            OnDisk::Before if self.syncs => {
                let synced = self.file.sync();
                synced.map_err(|error| self.failed(error))
            }
            OnDisk::Soon if self.syncs => {
                if !self.file.sync_soon() {
                    // What is being synced may not include the latest record.
                    self.on_disk = OnDisk::Soon;
                }
                Ok(())
            }
            OnDisk::Before | OnDisk::Soon | OnDisk::Later => Ok(()),
        }
    }

    /// Whether another file with a snapshot should follow.
    pub(crate) const fn is_long(&self) -> bool {
        self.bytes > LONG_BYTES && self.bytes / SNAPSHOTS > self.snapshot_bytes
    }

    /// Goes on in another file, which begins with this value.
    ///
    /// # Blocking
    /// Until the disk has the value.
    pub(crate) fn compact(&mut self, durable: &Durable) -> Result<(), JournalError> {
        let encoder = match Encoder::new(durable) {
            Ok(encoder) => encoder,
            Err(error) => {
                tracing::warn!(%error, "the journal goes on without a snapshot");
                self.snapshot_bytes = self.bytes;
                return Ok(());
            }
        };
        let (file, path) = self.directory.create(self.number + 1, encoder.header())?;
        self.number += 1;
        (self.file, self.path) = (Arc::new(Synced::of(file)), path);
        self.bytes = encoder.header().len() as u64;
        self.snapshot_bytes = self.bytes;
        self.encoder = encoder;
        self.directory.remove_before(self.number);
        Ok(())
    }

    /// The run is over: no journal is left.
    pub(crate) fn end(&self) {
        self.directory.remove_before(self.number + 1);
    }

    /// The disk takes nothing more.
    #[cfg(test)]
    pub(crate) fn fill_the_disk(&mut self) {
        let file = File::open(&self.path).unwrap();
        self.file = Arc::new(Synced::of(file));
    }

    fn failed(&self, error: io::Error) -> JournalError {
        JournalError::File {
            file: self.path.clone(),
            error,
        }
    }
}

/// A file, and whether it is being synced.
#[derive(Debug)]
struct Synced {
    file: File,
    is_syncing: AtomicBool,
    /// The system tells a failure once.
    failed: Mutex<Option<io::Error>>,
}

impl Synced {
    const fn of(file: File) -> Self {
        Self {
            file,
            is_syncing: AtomicBool::new(false),
            failed: Mutex::new(None),
        }
    }

    /// Waits until the disk has everything that was written.
    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()?;
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.take().map_or(Ok(()), Err)
    }

    /// Lets another thread wait for that. `false`: one is waiting for what was written before.
    fn sync_soon(self: &Arc<Self>) -> bool {
        if self.is_syncing.swap(true, Ordering::AcqRel) {
            return false;
        }
        let this = Arc::clone(self);
        spawn_blocking(move || {
            if let Err(error) = this.file.sync_data() {
                let mut failed = this.failed.lock().unwrap_or_else(PoisonError::into_inner);
                *failed = Some(error);
            }
            this.is_syncing.store(false, Ordering::Release);
        });
        true
    }
}

fn read(path: &Path) -> Result<(Durable, Replayed), JournalError> {
    let bytes = std::fs::read(path).map_err(|error| JournalError::File {
        file: path.into(),
        error,
    })?;
    restore(&bytes).map_err(|error| JournalError::Replay {
        file: path.into(),
        error,
    })
}
