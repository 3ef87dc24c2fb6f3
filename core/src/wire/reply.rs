//! The answer to the first bytes of a connection, in a layout that never changes.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::bytes::Fields;
use super::limits::REFUSAL_TEXT_MAX;
use super::preamble::{MAGIC, PreambleError};
use crate::id::ProtocolVersion;

/// Length of the fixed part of an encoded [`Reply`].
pub const REPLY_HEAD_BYTES: usize = 8;

/// The answer of the end that accepts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// The connection is accepted for its purpose.
    Accepted,
    /// The connection ends, for this reason. At most [`REFUSAL_TEXT_MAX`] bytes are sent; a longer text is cut
    /// between two characters.
    Refused(String),
    /// As [`Refused`](Self::Refused), but only for the moment: the same connection may be accepted a little later.
    /// The end that dialled tries again, after a growing pause, until its own time limit.
    NotYet(String),
}

impl From<PreambleError> for Reply {
    fn from(error: PreambleError) -> Self {
        Self::Refused(format!("{error}"))
    }
}

impl Reply {
    /// The bytes to send: 8, then the text of a refusal.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (status, text) = match self {
            Self::Accepted => (0, ""),
            Self::Refused(text) => (1, cut(text)),
            Self::NotYet(text) => (2, cut(text)),
        };
        let mut bytes = Vec::with_capacity(REPLY_HEAD_BYTES + text.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&ProtocolVersion::CURRENT.0.to_le_bytes());
        bytes.push(status);
        bytes.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
        bytes.extend_from_slice(text.as_bytes());
        bytes
    }
}

/// The part of the text that fits.
fn cut(text: &str) -> &str {
    (0..=REFUSAL_TEXT_MAX.min(text.len()))
        .rev()
        .find_map(|end| text.get(..end))
        .unwrap_or_default()
}

/// The first eight bytes of a reply. They have the length of the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReplyHead {
    status: Status,
    text_bytes: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Status {
    Accepted,
    Refused,
    NotYet,
}

impl Status {
    /// A status that a later version adds counts as a refusal.
    const fn from_byte(byte: u8) -> Self {
        match byte {
            0 => Self::Accepted,
            2 => Self::NotYet,
            1 | 3.. => Self::Refused,
        }
    }
}

impl ReplyHead {
    /// Decodes the first eight bytes. Read [`text_bytes`](Self::text_bytes) more, and pass them to
    /// [`finish`](Self::finish).
    ///
    /// A refusal can be decoded in every version of the protocol.
    ///
    /// # Errors
    /// The other end does not speak pccl, or accepts in another version. Close the connection.
    pub fn decode(bytes: &[u8; REPLY_HEAD_BYTES]) -> Result<Self, ReplyError> {
        let mut fields = Fields::new(bytes);
        if fields.take() != MAGIC {
            return Err(ReplyError::WrongMagic);
        }
        let theirs = ProtocolVersion(u16::from_le_bytes(fields.take()));
        let [status, text_bytes] = fields.take();
        let status = Status::from_byte(status);
        let accepted = status == Status::Accepted;
        if accepted && theirs != ProtocolVersion::CURRENT {
            return Err(ReplyError::UnsupportedVersion { theirs });
        }
        if accepted && text_bytes != 0 {
            return Err(ReplyError::TextWithoutRefusal);
        }
        Ok(Self { status, text_bytes })
    }

    /// Number of bytes of text that follow.
    #[must_use]
    pub fn text_bytes(self) -> usize {
        usize::from(self.text_bytes)
    }

    /// The whole reply, with its text.
    ///
    /// # Errors
    /// The text is not UTF-8, or not as long as announced. Close the connection.
    pub fn finish(self, text: &[u8]) -> Result<Reply, ReplyError> {
        if text.len() != self.text_bytes() {
            return Err(ReplyError::TextLength);
        }
        let text = core::str::from_utf8(text).map_err(|_| ReplyError::TextNotUtf8)?;
        Ok(match self.status {
            Status::Accepted => Reply::Accepted,
            Status::Refused => Reply::Refused(text.to_owned()),
            Status::NotYet => Reply::NotYet(text.to_owned()),
        })
    }
}

/// Why the answer to a preamble cannot be decoded. Close the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ReplyError {
    /// The other end does not speak pccl.
    #[error("whoever answered does not speak pccl; is the address right?")]
    WrongMagic,
    /// The other end has another release, and assumes the same of this one.
    #[error(
        "{theirs} is spoken there, {} here; use the same release on both ends",
        ProtocolVersion::CURRENT
    )]
    UnsupportedVersion {
        /// The version of the other end.
        theirs: ProtocolVersion,
    },
    /// A reply that accepts has no text.
    #[error("the answer accepts the connection and carries the text of a refusal")]
    TextWithoutRefusal,
    /// The text is not as long as announced.
    #[error("the text of the refusal has another length than announced")]
    TextLength,
    /// The text is not UTF-8.
    #[error("the text of the refusal is not UTF-8")]
    TextNotUtf8,
}
