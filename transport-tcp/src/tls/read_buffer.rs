//! Ciphertext that has been read from a socket and not yet been opened. Bounded: what is read at a time is.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::tcp::OwnedReadHalf;

use super::record::RECORD_MAX;

/// Bytes at first: a record, and some more.
const BYTES_MIN: usize = 20 << 10;

/// Bytes at last, where the socket has always had as much as there was room for: a frame of the data path, and
/// the next one's beginning. More would leave a core's caches before it is opened.
const BYTES_MAX: usize = 320 << 10;

/// Ciphertext, in the order in which it came.
#[derive(Default)]
pub(super) struct ReadBuffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// The last call filled all the room that it was given.
    is_scarce: bool,
}

impl ReadBuffer {
    /// What is here.
    pub(super) fn rest(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// As [`rest`](Self::rest), to be opened where it is.
    pub(super) fn rest_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.start..self.end).unwrap_or_default()
    }

    /// The first bytes are of no more use.
    pub(super) fn consume(&mut self, bytes: usize) {
        self.start = self.end.min(self.start + bytes);
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Gives memory back, if nothing is here.
    pub(super) fn release(&mut self) {
        if self.start == self.end {
            *self = Self::default();
        }
    }

    /// Reads what the socket has, as much as there is room for. `Ok(false)`: the stream has ended. Less than
    /// a whole record may be here.
    pub(super) fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        half: &mut OwnedReadHalf,
    ) -> Poll<io::Result<bool>> {
        // Memory is taken when there is something to read, so that lanes that carry nothing cost nothing.
        ready!(half.as_ref().poll_read_ready(cx))?;
        let mut room = ReadBuf::new(self.room());
        ready!(Pin::new(half).poll_read(cx, &mut room))?;
        let read = room.filled().len();
        self.filled(read);
        Poll::Ready(Ok(read > 0))
    }

    fn room(&mut self) -> &mut [u8] {
        let wanted = match self.bytes.len() {
            0 => BYTES_MIN,
            bytes if self.is_scarce => BYTES_MAX.min(2 * bytes),
            bytes => bytes,
        };
        if wanted > self.bytes.len() {
            self.bytes.resize(wanted, 0);
        }
        // The beginning of a record goes to the front, where all of it fits.
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        self.bytes.get_mut(self.end..).unwrap_or_default()
    }

    fn filled(&mut self, bytes: usize) {
        self.end += bytes;
        self.is_scarce = self.end == self.bytes.len();
    }

    /// Puts bytes here as if they had been read.
    #[cfg(test)]
    pub(super) fn put(&mut self, mut bytes: &[u8]) -> usize {
        let read = io::Read::read(&mut bytes, self.room()).unwrap();
        self.filled(read);
        read
    }
}

// A whole record fits beside nothing else.
const _: () = assert!(RECORD_MAX < BYTES_MIN);
