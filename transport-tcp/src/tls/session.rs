//! The session of one connection after its handshake. Both halves of a lane share the sending direction: a half holds
//! it while it seals or writes, and never while it waits. The receiving direction belongs to the receiving half.

use std::io::{self, ErrorKind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use pccl_core::transport::LaneError;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Notify;

use super::error::TlsError;
use super::record_reader::{Received, RecordReader};
use super::record_writer::RecordWriter;
use crate::error::lane_error as socket_error;

/// The sending half of a connection, and its session.
pub(super) struct Session {
    pub(super) half: OwnedWriteHalf,
    writer: Mutex<RecordWriter>,
    /// Notified if encrypted bytes are left for which the socket had no room.
    pub(super) left: Notify,
}

impl Session {
    pub(super) fn new(half: OwnedWriteHalf, writer: RecordWriter) -> Self {
        Self {
            half,
            writer: Mutex::new(writer),
            left: Notify::new(),
        }
    }

    fn writer(&self) -> MutexGuard<'_, RecordWriter> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`poll_flush`](Self::poll_flush), for another task than that of the sending half. A socket wakes only one
    /// of the tasks that poll it, but all that await it.
    pub(super) async fn flush(&self) -> Result<(), LaneError> {
        loop {
            let written = self.write_out(&mut self.writer());
            match written {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let room = self.half.writable().await;
                    room.map_err(|error| socket_error(&error))?;
                }
                Err(error) => return Err(self.end(&error)),
            }
        }
    }

    /// Writes the encrypted bytes to the socket.
    pub(super) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<Result<(), LaneError>> {
        loop {
            let written = self.write_out(&mut self.writer());
            match written {
                Ok(()) => return Poll::Ready(Ok(())),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let room = ready!(self.half.as_ref().poll_write_ready(cx));
                    room.map_err(|error| socket_error(&error))?;
                }
                Err(error) => return Poll::Ready(Err(self.end(&error))),
            }
        }
    }

    /// Writes until nothing is left or the socket has no room.
    fn write_out(&self, writer: &mut RecordWriter) -> io::Result<()> {
        loop {
            let rest = writer.rest();
            if rest.is_empty() {
                return Ok(());
            }
            let written = self.half.try_write(rest)?;
            writer.wrote(written);
        }
    }

    fn end(&self, error: &io::Error) -> LaneError {
        self.writer().end(socket_error(error))
    }

    /// Encrypts some of the parts, and writes as much as the socket takes. Call it only if no encrypted bytes are
    /// left.
    pub(super) fn send(&self, parts: &[&[u8]]) -> Result<usize, LaneError> {
        let mut writer = self.writer();
        let taken = writer.seal(parts)?;
        match self.write_out(&mut writer) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.left.notify_one(),
            Err(error) => {
                writer.end(socket_error(&error));
            }
        }
        Ok(taken)
    }

    /// Tells the other end that nothing follows. [`poll_flush`](Self::poll_flush) sends it.
    pub(super) fn say_goodbye(&self) {
        self.writer().close();
    }

    /// Frees the memory of the sending direction that is not needed for encrypted bytes. Call it after the last send.
    pub(super) fn release(&self) {
        self.writer().release();
    }

    #[cfg(test)]
    pub(super) fn bytes_held(&self) -> usize {
        self.writer().bytes_held()
    }

    /// Decrypts into `into`, and reads as much as at least one byte needs. Zero if the other end has closed.
    pub(super) fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        half: &mut OwnedReadHalf,
        reader: &mut RecordReader,
        into: &mut [u8],
    ) -> Poll<Result<usize, LaneError>> {
        if into.is_empty() {
            return Poll::Ready(Ok(0));
        }
        loop {
            let received = reader.receive(into);
            if reader.take_owed_update() {
                self.writer().owe_update();
                self.left.notify_one();
            }
            match received {
                Ok(Received::Data(bytes)) => return Poll::Ready(Ok(bytes)),
                Ok(Received::Closed) => return Poll::Ready(Ok(0)),
                Ok(Received::Nothing) => {}
                Err(error) => return Poll::Ready(Err(self.fail(error))),
            }
            let more = ready!(reader.read_buffer.poll_fill(cx, half));
            if !more.map_err(|error| socket_error(&error))? {
                // Whoever cuts the connection cannot say goodbye in the other end's name.
                return Poll::Ready(Err(LaneError::Reset));
            }
        }
    }

    /// Ends the session, and tells the other end why, as far as that can be sent at once.
    fn fail(&self, error: TlsError) -> LaneError {
        tracing::debug!(?error, "a TLS session has failed");
        let mut writer = self.writer();
        writer.fail(error);
        // The alert is a courtesy.
        let _ = self.write_out(&mut writer);
        error.lane_error()
    }
}
