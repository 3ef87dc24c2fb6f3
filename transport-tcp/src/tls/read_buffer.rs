//! Ciphertext that was read from a socket and is not opened yet. Its size is bounded.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::tcp::OwnedReadHalf;

use super::record::RECORD_MAX;

/// Initial size: one record and some more.
const BYTES_MIN: usize = 20 << 10;

/// Maximum size, used if the socket always had as much as there was room for: a frame of the data path, and the start
/// of the next one. More would leave a core's caches before it is opened.
const BYTES_MAX: usize = 320 << 10;

/// Ciphertext, in the order of its arrival.
#[derive(Default)]
pub(super) struct ReadBuffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Whether the last read filled all of its room.
    is_scarce: bool,
}

impl ReadBuffer {
    /// The bytes that are here.
    pub(super) fn rest(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// As [`rest`](Self::rest), to be opened in place.
    pub(super) fn rest_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.start..self.end).unwrap_or_default()
    }

    /// Removes the first bytes.
    pub(super) fn consume(&mut self, bytes: usize) {
        self.start = self.end.min(self.start + bytes);
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Frees the memory if the buffer is empty.
    pub(super) fn release(&mut self) {
        if self.start == self.end {
            *self = Self::default();
        }
    }

    /// Reads from the socket as much as there is room for. `Ok(false)` if the stream has ended. Afterwards the buffer
    /// may hold less than one record.
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

    /// Appends bytes as if they had been read.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn put(&mut self, bytes: &[u8]) -> usize {
        let room = self.room();
        let read = bytes.len().min(room.len());
        let (from, to) = (bytes.iter(), room.iter_mut());
        to.zip(from).for_each(|(to, from)| *to = *from);
        self.filled(read);
        read
    }
}

// A whole record fits beside nothing else.
const _: () = assert!(RECORD_MAX < BYTES_MIN);
