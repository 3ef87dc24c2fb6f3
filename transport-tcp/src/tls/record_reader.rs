//! The receiving direction of a session. Records are opened, mostly directly into the caller's memory, and messages
//! about the session itself are handled.
//!
//! Stricter than TLS in one point: a message of the handshake protocol must fit in one record (RFC 8446, section 5.1,
//! allows several). After a handshake these messages are key updates of five bytes, and session tickets, of which
//! rustls makes none that long. A peer that splits one ends the session.

use std::ops::Range;

use rustls::AlertDescription;

use super::error::TlsError;
use super::read_buffer::ReadBuffer;
use super::record::{Content, HEADER_BYTES, Opener, length_of};

/// A shorter record is opened in place and copied: it may concern the session, and then the caller's memory must stay
/// unchanged.
const STRAIGHT_MIN: usize = 1 << 10;

/// Maximum number of consecutive records without data. A peer that sends more only causes work.
const IDLE_MAX: u8 = 32;

/// The messages that may follow a handshake (RFC 8446, section 4).
const NEW_SESSION_TICKET: u8 = 4;
const KEY_UPDATE: u8 = 24;

/// The receiving direction, fed with ciphertext.
pub(super) struct RecordReader {
    pub(super) read_buffer: ReadBuffer,
    opener: Opener,
    /// Whether the other end is the server. Only a server may send session tickets.
    is_of_server: bool,
    /// Content of the first record, if it was opened in place, and the end of that record in the buffer.
    opened: Range<usize>,
    opened_end: usize,
    idle: u8,
    /// Whether the other end wants this one to use its next key.
    owes_update: bool,
    end: Option<End>,
}

/// Why nothing more can be received.
#[derive(Clone, Copy)]
enum End {
    /// The other end has closed the session.
    Closed,
    Failed(TlsError),
}

/// The outcome of receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// This many bytes, at least one.
    Data(usize),
    /// The other end has closed the session.
    Closed,
    /// Nothing, until more of a record has been read.
    Nothing,
}

impl RecordReader {
    pub(super) fn new(read_buffer: ReadBuffer, opener: Opener, is_of_server: bool) -> Self {
        Self {
            read_buffer,
            opener,
            is_of_server,
            opened: 0..0,
            opened_end: 0,
            idle: 0,
            owes_update: false,
            end: None,
        }
    }

    /// Fills the front of `into`, as far as whole records have been read.
    ///
    /// # Errors
    /// Any error in a record. All later calls return it as well. Data before that record has been returned.
    pub(super) fn receive(&mut self, into: &mut [u8]) -> Result<Received, TlsError> {
        let mut filled = 0;
        while let Some(room) = into.get_mut(filled..).filter(|room| !room.is_empty()) {
            match self.step(room) {
                Ok(Received::Data(bytes)) => filled += bytes,
                Ok(end) if filled == 0 => return Ok(end),
                Err(error) if filled == 0 => return Err(error),
                Ok(Received::Closed | Received::Nothing) | Err(_) => break,
            }
        }
        Ok(Received::Data(filled))
    }

    /// Whether the other end has asked for the next key since the last call.
    pub(super) const fn take_owed_update(&mut self) -> bool {
        std::mem::replace(&mut self.owes_update, false)
    }

    /// As [`receive`](Self::receive), from one record.
    fn step(&mut self, room: &mut [u8]) -> Result<Received, TlsError> {
        loop {
            if !self.opened.is_empty() {
                return Ok(Received::Data(self.hand_out(room)));
            }
            match self.end {
                None => {}
                Some(End::Closed) => return Ok(Received::Closed),
                Some(End::Failed(error)) => return Err(error),
            }
            match self.open_next(room) {
                Ok(None) => return Ok(Received::Nothing),
                Ok(Some(0)) => {}
                Ok(Some(bytes)) => return Ok(Received::Data(bytes)),
                Err(error) => self.end = Some(End::Failed(error)),
            }
        }
    }

    /// Copies content that was opened in place.
    fn hand_out(&mut self, room: &mut [u8]) -> usize {
        let opened = self.read_buffer.rest().get(self.opened.clone());
        let opened = opened.unwrap_or_default();
        let bytes = opened.len().min(room.len());
        let (from, to) = (opened.get(..bytes), room.get_mut(..bytes));
        if let (Some(from), Some(to)) = (from, to) {
            to.copy_from_slice(from);
        }
        self.opened.start += bytes;
        if self.opened.is_empty() {
            self.read_buffer.consume(self.opened_end);
        }
        bytes
    }

    /// Opens a record. `Some(n)`: n bytes of content are in the room. `None`: the record is incomplete.
    fn open_next(&mut self, room: &mut [u8]) -> Result<Option<usize>, TlsError> {
        let rest = self.read_buffer.rest();
        let Some(length) = length_of(rest)? else {
            return Ok(None);
        };
        let Some(record) = rest.get(..length) else {
            return Ok(None);
        };
        if length >= STRAIGHT_MIN && Opener::fits(record, room) {
            let (content, bytes) = self.opener.open_to(record, room)?;
            let bytes = self.understand(content, room.get(..bytes).unwrap_or_default())?;
            self.read_buffer.consume(length);
            return Ok(Some(bytes));
        }
        let record = self.read_buffer.rest_mut().get_mut(..length);
        let record = record.unwrap_or_default();
        let (content, bytes) = self.opener.open_in_place(record)?;
        if content == Content::Data && bytes > 0 {
            self.idle = 0;
            self.opened = HEADER_BYTES..HEADER_BYTES + bytes;
            self.opened_end = length;
        } else {
            // The few bytes of a message.
            let message = record.get(HEADER_BYTES..HEADER_BYTES + bytes);
            let message = message.unwrap_or_default().to_vec();
            self.understand(content, &message)?;
            self.read_buffer.consume(length);
        }
        Ok(Some(0))
    }

    /// Handles a message about the session. Returns how many bytes of the content are data.
    fn understand(&mut self, content: Content, said: &[u8]) -> Result<usize, TlsError> {
        if content == Content::Data && !said.is_empty() {
            self.idle = 0;
            return Ok(said.len());
        }
        self.idle += 1;
        if self.idle > IDLE_MAX {
            return Err(TlsError::Unexpected);
        }
        match content {
            Content::Data => {}
            Content::Alert => self.hear_alert(said)?,
            Content::Handshake => self.hear_messages(said)?,
        }
        Ok(0)
    }

    fn hear_alert(&mut self, said: &[u8]) -> Result<(), TlsError> {
        let [_level, why] = said else {
            return Err(TlsError::Unreadable);
        };
        match AlertDescription::from(*why) {
            AlertDescription::CloseNotify => self.end = Some(End::Closed),
            // Says nothing that counts.
            AlertDescription::UserCanceled => {}
            why => return Err(TlsError::Told(why)),
        }
        Ok(())
    }

    /// Handles handshake messages. One that is split over records is refused: the legal ones never are.
    fn hear_messages(&mut self, mut said: &[u8]) -> Result<(), TlsError> {
        while let Some((&[kind, high, mid, low], rest)) = said.split_first_chunk::<4>() {
            let length = u32::from_be_bytes([0, high, mid, low]);
            let length = usize::try_from(length).map_err(|_| TlsError::Unreadable)?;
            let parts = rest.split_at_checked(length);
            let (message, rest) = parts.ok_or(TlsError::Unreadable)?;
            match kind {
                KEY_UPDATE => return self.update_key(message, rest),
                // Sessions are not resumed.
                NEW_SESSION_TICKET if self.is_of_server => said = rest,
                _ => return Err(TlsError::Unexpected),
            }
            if said.is_empty() {
                return Ok(());
            }
        }
        Err(TlsError::Unreadable)
    }

    /// The next record uses the next key, so nothing may follow in this one.
    fn update_key(&mut self, message: &[u8], rest: &[u8]) -> Result<(), TlsError> {
        let &[wants_one_too @ (0 | 1)] = message else {
            return Err(TlsError::Illegal);
        };
        if !rest.is_empty() {
            return Err(TlsError::Unexpected);
        }
        self.opener.update()?;
        self.owes_update |= wants_one_too == 1;
        Ok(())
    }
}
