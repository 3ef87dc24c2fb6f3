//! The files of a journal.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::JournalError;

const PREFIX: &str = "master-";
const EXTENSION: &str = ".pccl-journal";
/// Not the lock of the invitations, which may be in the same directory.
const LOCK: &str = "journal.lock";

/// A directory that no other master uses while this lives.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    /// Locked.
    _lock: File,
}

impl Directory {
    /// Makes the directory if it is missing, and locks it.
    pub(super) fn open(path: &Path) -> Result<Self, JournalError> {
        let failed = |error| JournalError::Directory {
            directory: path.into(),
            error,
        };
        make(path).map_err(failed)?;
        let lock = private().truncate(false).open(path.join(LOCK));
        let lock = lock.map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self {
                path: path.into(),
                _lock: lock,
            }),
            Err(TryLockError::WouldBlock) => Err(JournalError::InUse {
                directory: path.into(),
            }),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    /// The number and the path of the latest file.
    pub(super) fn latest(&self) -> Result<Option<(u64, PathBuf)>, JournalError> {
        let numbers = self.numbers().map_err(|error| JournalError::Directory {
            directory: self.path.clone(),
            error,
        })?;
        let latest = numbers.into_iter().max();
        Ok(latest.map(|number| (number, self.file(number))))
    }

    /// Creates a file with this content. It has its name only once its content is on the disk.
    pub(super) fn create(
        &self,
        number: u64,
        content: &[u8],
    ) -> Result<(File, PathBuf), JournalError> {
        let path = self.file(number);
        let file = self.create_at(&path, content);
        match file {
            Ok(file) => Ok((file, path)),
            Err(error) => Err(JournalError::File { file: path, error }),
        }
    }

    fn create_at(&self, path: &Path, content: &[u8]) -> io::Result<File> {
        let unnamed = self.path.join("next");
        let mut file = private().truncate(true).open(&unnamed)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&unnamed, path)?;
        // The name has to be on the disk as well, where a directory can be synced.
        #[cfg(unix)]
        File::open(&self.path)?.sync_all()?;
        Ok(file)
    }

    /// Removes the files before this number. What cannot be removed is in nobody's way: the latest file counts.
    pub(super) fn remove_before(&self, number: u64) {
        let earlier = self.numbers().unwrap_or_default();
        for earlier in earlier.into_iter().filter(|earlier| *earlier < number) {
            let file = self.file(earlier);
            if let Err(error) = fs::remove_file(&file) {
                tracing::warn!(%error, "an old journal stays: {}", file.display());
            }
        }
    }

    fn numbers(&self) -> io::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|name| {
                let number = name.strip_prefix(PREFIX)?.strip_suffix(EXTENSION)?;
                number.parse::<u64>().ok()
            });
            numbers.extend(number);
        }
        Ok(numbers)
    }

    fn file(&self, number: u64) -> PathBuf {
        self.path.join(format!("{PREFIX}{number:06}{EXTENSION}"))
    }
}

fn make(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// A file to be written that only its owner may read, because it holds the key of the run's tickets.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}
