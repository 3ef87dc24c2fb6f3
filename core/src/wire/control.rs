//! Control frames: a [head](ControlHead), then a message in postcard. Session frames come between them.
//!
//! The head has checksums of itself and of the body: TCP's own are weak, and the damage of a single bit can make one
//! valid message of another. A damaged frame ends its connection, and the session goes on over the next one.

use alloc::vec::Vec;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::limits::{CONTROL_FRAME_MAX, FIRST_CONTROL_FRAME_MAX};
use super::session::{ControlHead, QUIET_MAX, QuietPeer, SessionFrame, SessionTerms};
use crate::transport::{LaneError, LaneRx, LaneTx, recv_some, send_all};

/// Length of the head of a control frame.
pub const CONTROL_HEAD_BYTES: usize = 12;

/// How many bytes [`recv_control`] requests from a lane at a time.
const READ_BYTES: usize = 4 * 1024;

/// An idle reader keeps at most this much memory.
const KEEP_BYTES: usize = 16 * 1024;

/// Appends the message to `out` as one control frame.
///
/// # Errors
/// [`EncodeError`] if the message is longer than [`CONTROL_FRAME_MAX`]. `out` is unchanged.
pub fn encode_control<M: Serialize>(message: &M, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let body = postcard::to_allocvec(message).map_err(|_| EncodeError::Unrepresentable)?;
    let head = ControlHead::of_message(&body)
        .filter(|_| body.len() <= CONTROL_FRAME_MAX)
        .ok_or(EncodeError::TooLong { length: body.len() })?;
    out.extend_from_slice(&head.encode());
    out.extend_from_slice(&body);
    Ok(())
}

/// Why a message cannot be sent. Nothing was sent, and the connection is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum EncodeError {
    /// The message is longer than any receiver accepts.
    #[error("a message of {length} bytes is longer than the {CONTROL_FRAME_MAX} allowed")]
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// The type has no postcard form, for example a sequence of unknown length. No type in
    /// [`messages`](crate::messages) is one of these.
    #[error("a message of this type has no encoding")]
    Unrepresentable,
}

/// Decodes messages from bytes that arrive in pieces of any size.
///
/// It is a pure value: [`feed`](Self::feed) it what arrives, then call [`next_message`](Self::next_message) until it
/// returns `None`. Memory grows only with bytes that have arrived. If `next_message` is called after each feed, the
/// reader holds less than one frame of the permitted length and the last feed.
#[derive(Clone, Debug)]
pub struct ControlReader {
    buffer: Vec<u8>,
    /// Number of bytes at the front of the buffer that were processed.
    consumed: usize,
    cap: usize,
    failed: Option<DecodeError>,
    /// Number of messages that were taken out, over all connections of the session.
    received: u64,
    acknowledged: Option<u64>,
    terms: Option<SessionTerms>,
    /// At most [`QUIET_MAX`].
    quiet: Vec<QuietPeer>,
}

impl Default for ControlReader {
    fn default() -> Self {
        Self::new()
    }
}

impl ControlReader {
    /// A reader for a connection without an identity: frames of up to [`FIRST_CONTROL_FRAME_MAX`] bytes.
    #[must_use]
    pub const fn new() -> Self {
        Self::with_cap(FIRST_CONTROL_FRAME_MAX)
    }

    /// A reader for frames whose body has at most `cap` bytes.
    #[must_use]
    pub const fn with_cap(cap: usize) -> Self {
        Self {
            buffer: Vec::new(),
            consumed: 0,
            cap,
            failed: None,
            received: 0,
            acknowledged: None,
            terms: None,
            quiet: Vec::new(),
        }
    }

    /// A reader for another connection of a [session](crate::session) in which `received` messages have arrived.
    #[must_use]
    pub const fn resumed(cap: usize, received: u64) -> Self {
        let mut reader = Self::with_cap(cap);
        reader.received = received;
        reader
    }

    /// Sets the maximum length of a frame's body to `cap` bytes, from here on.
    pub const fn set_cap(&mut self, cap: usize) {
        self.cap = cap;
    }

    /// Adds bytes that have arrived. After an error they are discarded.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        self.drop_consumed();
        self.grow_for(bytes.len());
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole message. `None` if more bytes are needed.
    ///
    /// # Errors
    /// The frame is too long, or is not such a message. The rest of the stream cannot be decoded, and every further
    /// call returns the same error. Close the connection.
    pub fn next_message<M: DeserializeOwned>(&mut self) -> Result<Option<M>, DecodeError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.try_next_message().inspect_err(|error| {
            self.failed = Some(*error);
            self.buffer = Vec::new();
            self.consumed = 0;
        })
    }

    /// Number of messages of the session that were taken out.
    #[must_use]
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// The number of messages that the other end has received, if it has said so since the last call. It comes before a
    /// heartbeat at the latest.
    pub const fn take_acknowledged(&mut self) -> Option<u64> {
        self.acknowledged.take()
    }

    /// The terms of the session, if they have arrived since the last call. They come before the welcome.
    pub const fn take_terms(&mut self) -> Option<SessionTerms> {
        self.terms.take()
    }

    /// The peers of which the master has said since the last call that it hears nothing from them, at most
    /// [`QUIET_MAX`].
    pub fn take_quiet(&mut self) -> Vec<QuietPeer> {
        core::mem::take(&mut self.quiet)
    }

    /// Whether no bytes are left over: all bytes so far were whole messages, and all were taken out.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.buffer.len() == self.consumed
    }

    /// Number of bytes of memory that the reader holds.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    fn try_next_message<M: DeserializeOwned>(&mut self) -> Result<Option<M>, DecodeError> {
        while let Some((head, rest)) = self.split_head()? {
            let length = head.length;
            let cap = head.cap(self.cap);
            if length > cap {
                return Err(DecodeError::TooLong { length, cap });
            }
            let Some(body) = rest.get(..length) else {
                break;
            };
            if !head.is_of(body) {
                return Err(DecodeError::Damaged);
            }
            let message = if head.is_session {
                let frame = SessionFrame::decode(body).ok_or(DecodeError::Malformed)?;
                self.note(frame);
                None
            } else {
                let message = decode_body(body)?;
                self.received += 1;
                Some(message)
            };
            self.consumed += CONTROL_HEAD_BYTES + length;
            if self.is_empty() {
                self.drop_consumed();
            }
            if message.is_some() {
                return Ok(message);
            }
        }
        Ok(None)
    }

    fn note(&mut self, frame: SessionFrame) {
        match frame {
            SessionFrame::Opened(terms) => self.terms = Some(terms),
            SessionFrame::Received { messages } => self.acknowledged = Some(messages),
            SessionFrame::Quiet(quiet) if self.quiet.len() < QUIET_MAX => self.quiet.push(quiet),
            SessionFrame::Quiet(_) => {}
        }
    }

    /// The head of the frame at the front, and the bytes after the head. `None`: the head has not arrived.
    fn split_head(&self) -> Result<Option<(ControlHead, &[u8])>, DecodeError> {
        let pending = self.buffer.get(self.consumed..).unwrap_or_default();
        let Some((head, rest)) = pending.split_first_chunk::<CONTROL_HEAD_BYTES>() else {
            return Ok(None);
        };
        let head = ControlHead::decode(*head).ok_or(DecodeError::Damaged)?;
        Ok(Some((head, rest)))
    }

    fn drop_consumed(&mut self) {
        if self.is_empty() {
            self.buffer.clear();
            self.buffer.shrink_to(KEEP_BYTES);
        } else {
            self.buffer.drain(..self.consumed);
        }
        self.consumed = 0;
    }

    /// Makes room. The buffer doubles, so that a long frame is not copied often, but never grows beyond the arriving
    /// frame.
    fn grow_for(&mut self, more: usize) {
        let needed = self.buffer.len().saturating_add(more);
        if needed <= self.buffer.capacity() {
            return;
        }
        let frame = match self.split_head() {
            Ok(Some((head, _))) => head.length.min(head.cap(self.cap)) + CONTROL_HEAD_BYTES,
            Ok(None) | Err(_) => 0,
        };
        let wanted = needed.max(self.buffer.capacity().saturating_mul(2).min(frame));
        self.buffer.reserve_exact(wanted - self.buffer.len());
    }
}

fn decode_body<M: DeserializeOwned>(body: &[u8]) -> Result<M, DecodeError> {
    let (message, rest) = postcard::take_from_bytes(body).map_err(|_| DecodeError::Malformed)?;
    if rest.is_empty() {
        Ok(message)
    } else {
        Err(DecodeError::Rest { bytes: rest.len() })
    }
}

/// Why bytes are not a control frame. Close the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum DecodeError {
    /// The frame is longer than permitted. None of it was stored.
    #[error("a control frame announces {length} bytes, more than the {cap} allowed")]
    TooLong {
        /// The announced length.
        length: usize,
        /// The permitted length.
        cap: usize,
    },
    /// Bytes were changed on their way. Neither end has made a mistake: the session can go on over another connection.
    #[error("a control frame was damaged on its way")]
    Damaged,
    /// The body is not a message of the expected type.
    #[error("a control frame holds no message of this protocol")]
    Malformed,
    /// The body has bytes after the message.
    #[error("a control frame has {bytes} bytes after its message")]
    Rest {
        /// Number of these bytes.
        bytes: usize,
    },
}

/// Why a message was not sent or received over a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ControlError {
    /// The other end closed between two messages.
    #[error("the other end closed the connection")]
    Ended,
    /// The connection failed, or ended within a message.
    #[error("{0}")]
    Lane(#[from] LaneError),
    /// The bytes that arrived are not a message. Close the connection.
    #[error("{0}")]
    Decode(#[from] DecodeError),
    /// The message cannot be sent. The connection is unchanged.
    #[error("{0}")]
    Encode(#[from] EncodeError),
}

/// Sends one message.
///
/// Not cancel-safe: a dropped future may leave half a frame on the lane, which is then unusable.
///
/// # Errors
/// [`ControlError::Encode`] before anything was sent, or [`ControlError::Lane`].
pub async fn send_control<M: Serialize>(
    tx: &mut dyn LaneTx,
    message: &M,
) -> Result<(), ControlError> {
    let mut frame = Vec::new();
    encode_control(message, &mut frame)?;
    send_all(tx, &frame, &[]).await?;
    Ok(())
}

/// Receives one message. Use the same reader for the whole life of the lane.
///
/// Cancel-safe: bytes that were read before the future is dropped stay in the reader.
///
/// # Errors
/// [`ControlError::Ended`] at the end of the stream between two messages; [`ControlError::Lane`] with
/// [`LaneError::Closed`] within one; [`ControlError::Decode`] if the bytes are not a message.
pub async fn recv_control<M: DeserializeOwned>(
    rx: &mut dyn LaneRx,
    reader: &mut ControlReader,
) -> Result<M, ControlError> {
    loop {
        if let Some(message) = reader.next_message()? {
            return Ok(message);
        }
        let mut piece = [0; READ_BYTES];
        let received = recv_some(rx, &mut piece).await?;
        if received == 0 && reader.is_empty() {
            return Err(ControlError::Ended);
        }
        if received == 0 {
            return Err(LaneError::Closed.into());
        }
        reader.feed(piece.get(..received).unwrap_or(&piece));
    }
}
