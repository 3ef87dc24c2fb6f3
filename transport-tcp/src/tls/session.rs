//! The TLS session of one connection. Both halves of a lane share it, each for a moment at a time: a
//! half holds it while it encrypts or decrypts what the socket takes or gives, never while it waits.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use pccl_core::transport::LaneError;
use rustls::Connection;
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::handshake::lane_error;
use crate::error::lane_error as socket_error;

/// Ciphertext that one system call may bring: four full records, which stay in a core's caches.
const READ_BYTES: usize = 68 << 10;

/// A connection and its session.
pub(super) struct Session {
    pub(super) stream: TcpStream,
    tls: Mutex<Tls>,
    /// Rung where encrypted bytes are left that the socket had no room for.
    pub(super) left: Notify,
}

struct Tls {
    connection: Connection,
    /// Why nothing can be sent any more.
    ended: Option<LaneError>,
    /// The other end was told that nothing follows.
    has_closed: bool,
}

/// Ciphertext that has been read and not yet been decrypted.
pub(super) struct Reader {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Reader {
    pub(super) fn new() -> Self {
        Self {
            bytes: Vec::new(),
            start: 0,
            end: 0,
        }
    }

    fn rest(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// Reads what the socket has. `Ok(false)`: the stream has ended.
    fn poll_fill(&mut self, cx: &mut Context<'_>, stream: &TcpStream) -> Poll<io::Result<bool>> {
        // Taken when something is read, so that lanes that carry nothing cost nothing.
        self.bytes.resize(READ_BYTES, 0);
        loop {
            match stream.try_read(&mut self.bytes) {
                Ok(read) => {
                    (self.start, self.end) = (0, read);
                    return Poll::Ready(Ok(read > 0));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    ready!(stream.poll_read_ready(cx))?;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl Session {
    pub(super) fn new(stream: TcpStream, mut connection: Connection) -> Self {
        // What is taken at a time is bounded by the lane.
        connection.set_buffer_limit(None);
        let tls = Tls {
            connection,
            ended: None,
            has_closed: false,
        };
        Self {
            stream,
            tls: Mutex::new(tls),
            left: Notify::new(),
        }
    }

    fn tls(&self) -> MutexGuard<'_, Tls> {
        self.tls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the connection.
    pub(super) fn with<T>(&self, look: impl FnOnce(&Connection) -> T) -> T {
        look(&self.tls().connection)
    }

    /// Both ends have proved who they are, as far as this end can tell.
    pub(super) async fn complete_handshake(&self, reader: &mut Reader) -> Result<(), LaneError> {
        std::future::poll_fn(|cx| {
            loop {
                ready!(self.poll_flush(cx))?;
                if !self.with(|connection| connection.is_handshaking()) {
                    return Poll::Ready(Ok(()));
                }
                let more = ready!(reader.poll_fill(cx, &self.stream));
                let more = more.map_err(|error| socket_error(&error))?;
                if !more {
                    return Poll::Ready(Err(LaneError::Closed));
                }
                self.take_in(reader)?;
            }
        })
        .await
    }

    /// Decrypts what has been read. On failure the other end is told why, as far as it goes at once.
    fn take_in(&self, reader: &mut Reader) -> Result<(), LaneError> {
        let mut tls = self.tls();
        let taken = tls.take_in(reader);
        if taken.is_err() {
            tls.ended = Some(LaneError::Failed);
            // The alert is a courtesy.
            let _ = tls.write_out(&self.stream);
        } else if tls.connection.wants_write() && !tls.connection.is_handshaking() {
            self.left.notify_one();
        }
        taken
    }

    /// As [`poll_flush`](Self::poll_flush), for another task than that of the sending half: a socket wakes
    /// one of those that poll it, and all of those that await it.
    pub(super) async fn flush(&self) -> Result<(), LaneError> {
        loop {
            let written = self.tls().write_out(&self.stream);
            match written {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let room = self.stream.writable().await;
                    room.map_err(|error| socket_error(&error))?;
                }
                Err(error) => return Err(self.end(&error)),
            }
        }
    }

    /// Gives the socket what is encrypted.
    pub(super) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<Result<(), LaneError>> {
        loop {
            let written = self.tls().write_out(&self.stream);
            match written {
                Ok(()) => return Poll::Ready(Ok(())),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let room = ready!(self.stream.poll_write_ready(cx));
                    room.map_err(|error| socket_error(&error))?;
                }
                Err(error) => return Poll::Ready(Err(self.end(&error))),
            }
        }
    }

    fn end(&self, error: &io::Error) -> LaneError {
        let error = socket_error(error);
        self.tls().ended = Some(error);
        error
    }

    /// Encrypts up to `most` bytes of the parts, and gives the socket what it takes.
    pub(super) fn encrypt(&self, parts: &[&[u8]], most: usize) -> Result<usize, LaneError> {
        let mut tls = self.tls();
        if let Some(error) = tls.ended {
            return Err(error);
        }
        if tls.has_closed {
            return Err(LaneError::Closed);
        }
        let mut taken = 0;
        for part in parts {
            let part = part.get(..part.len().min(most - taken)).unwrap_or_default();
            // It takes everything, for its buffer has no limit.
            let into = tls.connection.writer().write(part);
            taken += into.map_err(|error| socket_error(&error))?;
        }
        match tls.write_out(&self.stream) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.left.notify_one(),
            Err(error) => {
                drop(tls);
                self.end(&error);
            }
        }
        Ok(taken)
    }

    /// Tells the other end that nothing follows; [`poll_flush`](Self::poll_flush) sends it.
    pub(super) fn say_goodbye(&self) {
        let mut tls = self.tls();
        if !std::mem::replace(&mut tls.has_closed, true) {
            tls.connection.send_close_notify();
        }
    }

    /// Decrypts into `into`, reading what is needed for at least one byte. Zero: the other end has closed.
    pub(super) fn poll_decrypt(
        &self,
        cx: &mut Context<'_>,
        reader: &mut Reader,
        into: &mut [u8],
    ) -> Poll<Result<usize, LaneError>> {
        let mut filled = 0;
        loop {
            let rest = into.get_mut(filled..).unwrap_or_default();
            if rest.is_empty() {
                return Poll::Ready(Ok(filled));
            }
            let read = self.tls().connection.reader().read(rest);
            match read {
                Ok(0) => return Poll::Ready(Ok(filled)),
                Ok(read) => filled += read,
                // Whoever cuts the connection cannot say goodbye in the other end's name.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    return Poll::Ready(Err(LaneError::Reset));
                }
                Err(_) if !reader.rest().is_empty() => self.take_in(reader)?,
                // What is there already does not wait for more.
                Err(_) if filled > 0 => return Poll::Ready(Ok(filled)),
                Err(_) => {
                    let more = ready!(reader.poll_fill(cx, &self.stream));
                    if !more.map_err(|error| socket_error(&error))? {
                        self.tls().note_end();
                    }
                }
            }
        }
    }
}

impl Tls {
    /// Writes until nothing is left or the socket has no room.
    fn write_out(&mut self, stream: &TcpStream) -> io::Result<()> {
        while self.connection.wants_write() {
            self.connection.write_tls(&mut Socket(stream))?;
        }
        Ok(())
    }

    /// One step: a record or a little more, so that what is decrypted is bounded.
    fn take_in(&mut self, reader: &mut Reader) -> Result<(), LaneError> {
        let mut rest = reader.rest();
        let read = self.connection.read_tls(&mut rest);
        reader.start += read.map_err(|_| LaneError::Failed)?;
        match self.connection.process_new_packets() {
            Ok(_) => Ok(()),
            Err(error) => {
                tracing::debug!(%error, "a TLS session has failed");
                Err(lane_error(&error))
            }
        }
    }

    /// The stream has ended.
    fn note_end(&mut self) {
        // Reading nothing from a reader with nothing in it cannot fail.
        let _ = self.connection.read_tls(&mut io::empty());
    }
}

/// Writes without waiting.
struct Socket<'a>(&'a TcpStream);

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
