//! Files that only their owner may read: keys and secrets. A file is replaced atomically, by one process at a time.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

/// How long to wait for the lock of a directory. Another process holds it for a few writes.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
const LOCK_POLL: Duration = Duration::from_millis(5);

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file, or its directory, could not be read or written.
    #[error("cannot use {}: {error}", .file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// Users other than its owner may read or change it.
    #[error(
        "others than its owner may use {file} (mode {mode:04o}): run `chmod 600 {file}`. If somebody \
         may have read it, delete it, so that another one is made",
        file = .file.display()
    )]
    OpenToOthers {
        /// The file.
        file: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The file is longer than such a file can be.
    #[error("{} is longer than the {limit} bytes that it may have", .file.display())]
    TooLong {
        /// The file.
        file: PathBuf,
        /// The maximum length in bytes.
        limit: usize,
    },
    /// Another process holds the lock of the directory.
    #[error(
        "another process has held {} for {} s: is one stopped there?",
        .file.display(), LOCK_PATIENCE.as_secs()
    )]
    Locked {
        /// The lock file.
        file: PathBuf,
    },
}

fn cannot(file: &Path) -> impl FnOnce(io::Error) -> FileError {
    let file = file.to_path_buf();
    |error| FileError::Io { file, error }
}

/// Creates a directory for its owner only, unless it exists.
pub(crate) fn make_directory(directory: &Path) -> Result<(), FileError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory).map_err(cannot(directory))
}

/// Opens a file for reading. `None` if it does not exist.
///
/// The permissions are those of the open file, so the file cannot be exchanged after the check.
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

/// The metadata of an open file.
pub(crate) fn metadata(file: &File, path: &Path) -> Result<Metadata, FileError> {
    file.metadata().map_err(cannot(path))
}

/// All bytes of a file, which has at most `limit` bytes.
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

/// Replaces a file, if there is one, by these bytes. Readers see either the old or the new file, even after a power
/// failure. The caller must hold the directory's [`Lock`].
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

/// Without it a rename may be lost in a power failure. On systems other than Unix a directory cannot be opened.
fn sync_directory(file: &Path) -> io::Result<()> {
    #[cfg(unix)]
    if let Some(directory) = file.parent() {
        File::open(directory)?.sync_all()?;
    }
    #[cfg(not(unix))]
    let _ = file;
    Ok(())
}

/// Permission to change a directory's files until it is dropped. If the process dies, the lock is released.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "held for its lock")] File);

impl Lock {
    /// Blocks the thread until no other process holds the lock, for up to [`LOCK_PATIENCE`].
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
