//! The file of invitations, which several processes read and change.
//!
//! Its format: a line with a version, the [`Book`] in postcard, and the BLAKE3 hash of both.

use std::fs::{self, File, Metadata};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::private_file::{self, Lock};

use super::book::{BANNED_MAX, Book, INVITATIONS_MAX, MEMBERS_MAX};
use super::error::InvitationError;

const HEADER: &[u8] = b"pccl invitations 1\n";
const CHECKSUM: usize = blake3::OUT_LEN;

/// More bytes than one invitation, one member or one ban takes.
const RECORD_MAX: usize = 96;

/// Maximum number of bytes of the file.
const FILE_MAX: usize =
    HEADER.len() + CHECKSUM + (INVITATIONS_MAX + MEMBERS_MAX + BANNED_MAX + 1) * RECORD_MAX;

#[derive(Debug)]
pub(crate) struct BookFile {
    directory: PathBuf,
    path: PathBuf,
    /// The version that was read last. `None` if there was no file.
    seen: Option<Seen>,
}

/// A version of the file.
#[derive(Debug)]
struct Seen {
    metadata: Metadata,
    /// Stays open, so that the inode number is not reused for another file.
    _open: File,
}

impl BookFile {
    pub(crate) fn new(directory: &Path) -> Result<Self, InvitationError> {
        private_file::make_directory(directory)?;
        Ok(Self {
            directory: directory.into(),
            path: directory.join("invitations"),
            seen: None,
        })
    }

    pub(crate) fn lock(&self) -> Result<Lock, InvitationError> {
        Ok(Lock::take(&self.directory)?)
    }

    /// Reads the file. An empty book if there is none.
    pub(crate) fn load(&mut self) -> Result<Book, InvitationError> {
        let Some(file) = private_file::open(&self.path)? else {
            self.seen = None;
            return Ok(Book::default());
        };
        let bytes = private_file::read(&file, &self.path, FILE_MAX)?;
        let book = decode(&bytes).ok_or_else(|| InvitationError::Damaged {
            file: self.path.clone(),
        })?;
        self.seen = Some(self.look(file)?);
        Ok(book)
    }

    /// Replaces the file by the book.
    pub(crate) fn save(&mut self, book: &Book, _held: &Lock) -> Result<(), InvitationError> {
        let Some(bytes) = encode(book) else {
            return Err(InvitationError::Full("records"));
        };
        private_file::replace(&self.path, &bytes)?;
        self.seen = match private_file::open(&self.path)? {
            Some(file) => Some(self.look(file)?),
            None => None,
        };
        Ok(())
    }

    fn look(&self, file: File) -> Result<Seen, InvitationError> {
        let metadata = private_file::metadata(&file, &self.path)?;
        Ok(Seen {
            metadata,
            _open: file,
        })
    }

    /// Whether the file differs from the one that was read last. If that cannot be determined, reading it will fail.
    pub(crate) fn has_changed(&self) -> bool {
        match (&self.seen, fs::metadata(&self.path)) {
            (None, there) => there.is_ok(),
            (Some(_), Err(_)) => true,
            (Some(seen), Ok(there)) => !is_same(&seen.metadata, &there),
        }
    }
}

/// Whether both are of one version of a file.
fn is_same(one: &Metadata, other: &Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        if (one.dev(), one.ino()) != (other.dev(), other.ino()) {
            return false;
        }
    }
    one.len() == other.len() && one.modified().ok() == other.modified().ok()
}

fn encode(book: &Book) -> Option<Zeroizing<Vec<u8>>> {
    // Room for all of it, so that no copy stays behind where a vector has moved.
    let mut bytes = Zeroizing::new(Vec::with_capacity(book.records() * RECORD_MAX + 256));
    bytes.extend_from_slice(HEADER);
    postcard::to_extend(book, Appending(&mut bytes)).ok()?;
    let sum = blake3::hash(&bytes);
    bytes.extend_from_slice(sum.as_bytes());
    (bytes.len() <= FILE_MAX).then_some(bytes)
}

/// Lets postcard append to a buffer.
struct Appending<'a>(&'a mut Vec<u8>);

impl Extend<u8> for Appending<'_> {
    fn extend<I: IntoIterator<Item = u8>>(&mut self, bytes: I) {
        self.0.extend(bytes);
    }
}

fn decode(bytes: &[u8]) -> Option<Book> {
    let (sealed, sum) = bytes.split_last_chunk::<CHECKSUM>()?;
    if blake3::hash(sealed) != blake3::Hash::from_bytes(*sum) {
        return None;
    }
    let content = sealed.strip_prefix(HEADER)?;
    match postcard::take_from_bytes(content) {
        Ok((book, [])) => Some(book),
        _ => None,
    }
}
