//! Files that their owner alone may read: keys and secrets. They are replaced as a whole or not at all,
//! by one process at a time.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

/// How long another process may hold a directory's lock. It holds it for a few writes.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
const LOCK_POLL: Duration = Duration::from_millis(5);

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// It, or its directory, could not be read or written.
    #[error("cannot use {}: {error}", .file.display())]
    Io {
        /// Which.
        file: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Users other than its owner may read or change it.
    #[error(
        "others than its owner may use {file} (mode {mode:04o}): run `chmod 600 {file}`. If somebody \
         may have read it, delete it, so that another one is made",
        file = .file.display()
    )]
    OpenToOthers {
        /// Which.
        file: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It is longer than such a file can be.
    #[error("{} is longer than the {limit} bytes that it may have", .file.display())]
    TooLong {
        /// Which.
        file: PathBuf,
        /// The most bytes.
        limit: usize,
    },
    /// Another process does not let go of the directory.
    #[error(
        "another process has held {} for {} s: is one stopped there?",
        .file.display(), LOCK_PATIENCE.as_secs()
    )]
    Locked {
        /// The file that is locked.
        file: PathBuf,
    },
}

fn cannot(file: &Path) -> impl FnOnce(io::Error) -> FileError {
    let file = file.to_path_buf();
    |error| FileError::Io { file, error }
}

/// Makes a directory for its owner alone, unless it is there.
pub(crate) fn make_directory(directory: &Path) -> Result<(), FileError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory).map_err(cannot(directory))
}

/// Opens a file for reading; `None` where there is none.
///
/// What is asked about permissions is the open file, so nobody can exchange it afterwards.
pub(crate) fn open(path: &Path) -> Result<Option<File>, FileError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(cannot(path)(error)),
    };
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = metadata(&file, path)?.permissions().mode() & 0o7777;
        if mode & 0o077 != 0 {
            let file = path.into();
            return Err(FileError::OpenToOthers { file, mode });
        }
    }
    Ok(Some(file))
}

/// What is known of an open file.
pub(crate) fn metadata(file: &File, path: &Path) -> Result<Metadata, FileError> {
    file.metadata().map_err(cannot(path))
}

/// All bytes of a file, which is at most `limit` bytes long.
pub(crate) fn read(
    mut file: &File,
    path: &Path,
    limit: usize,
) -> Result<Zeroizing<Vec<u8>>, FileError> {
    let length = metadata(file, path)?.len();
    let expected = usize::try_from(length).unwrap_or(limit).min(limit);
    // Room for all of it, so that no copy stays behind where a vector has moved.
    let mut bytes = Zeroizing::new(Vec::with_capacity(expected.saturating_add(64)));
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    Read::by_ref(&mut file)
        .take(most)
        .read_to_end(&mut bytes)
        .map_err(cannot(path))?;
    if bytes.len() > limit {
        let file = path.into();
        return Err(FileError::TooLong { file, limit });
    }
    Ok(bytes)
}

/// Puts a file with these bytes in the place of the one that is there, if any. Readers see the old one
/// or the new one, also after a power failure. Only for who holds the directory's [`Lock`].
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let draft = path.with_extension("draft");
    // Left by a process that died here; its permissions are not known.
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(cannot(&draft)(error)),
        _ => {}
    }
    let mut file = options()
        .create_new(true)
        .open(&draft)
        .map_err(cannot(&draft))?;
    file.write_all(bytes)
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&draft, path))
        .and_then(|()| sync_directory(path))
        .map_err(cannot(path))
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Only then a rename outlives a power failure. Elsewhere than on Unix a directory cannot be opened.
fn sync_directory(file: &Path) -> io::Result<()> {
    #[cfg(unix)]
    if let Some(directory) = file.parent() {
        File::open(directory)?.sync_all()?;
    }
    #[cfg(not(unix))]
    let _ = file;
    Ok(())
}

/// The right to change a directory's files, until it is dropped. A process that dies gives it back.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "held for its lock")] File);

impl Lock {
    /// Blocks the thread until nobody else has it, up to [`LOCK_PATIENCE`].
    pub(crate) fn take(directory: &Path) -> Result<Self, FileError> {
        let path = directory.join("lock");
        let file = options().create(true).open(&path).map_err(cannot(&path))?;
        let patience = Instant::now() + LOCK_PATIENCE;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self(file)),
                Err(TryLockError::Error(error)) => return Err(cannot(&path)(error)),
                Err(TryLockError::WouldBlock) if Instant::now() < patience => {
                    thread::sleep(LOCK_POLL);
                }
                Err(TryLockError::WouldBlock) => return Err(FileError::Locked { file: path }),
            }
        }
    }
}
