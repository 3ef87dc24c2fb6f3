//! The answer to the first bytes of a connection, in a layout that never changes either.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::bytes::Fields;
use super::limits::REFUSAL_TEXT_MAX;
use super::preamble::{MAGIC, PreambleError};
use crate::id::ProtocolVersion;

/// Length of the part of an encoded [`Reply`] that is always there.
pub const REPLY_HEAD_BYTES: usize = 8;

/// What the end that was dialled answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// The connection is what the preamble said.
    Accepted,
    /// The connection ends here, for this reason. At most [`REFUSAL_TEXT_MAX`] bytes travel; what is
    /// longer is cut between two characters.
    Refused(String),
    /// As [`Refused`](Self::Refused), but for the moment only: the same connection may be wanted a
    /// little later. Whoever dialled tries again, after a pause that grows, for as long as it cares to.
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

/// As much of the text as may travel.
fn cut(text: &str) -> &str {
    (0..=REFUSAL_TEXT_MAX.min(text.len()))
        .rev()
        .find_map(|end| text.get(..end))
        .unwrap_or_default()
}

/// The first eight bytes of a reply: they say how many more there are.
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
    /// What a later version adds is a refusal for this one.
    const fn from_byte(byte: u8) -> Self {
        match byte {
            0 => Self::Accepted,
            2 => Self::NotYet,
            1 | 3.. => Self::Refused,
        }
    }
}

impl ReplyHead {
    /// Understands the first eight bytes. Read [`text_bytes`](Self::text_bytes) more and hand them to
    /// [`finish`](Self::finish).
    ///
    /// A refusal is understood in every version of the protocol.
    ///
    /// # Errors
    /// Whoever answers does not speak pccl, or accepts in another version: close.
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

    /// How many bytes of text follow.
    #[must_use]
    pub fn text_bytes(self) -> usize {
        usize::from(self.text_bytes)
    }

    /// The whole reply, with the text that followed.
    ///
    /// # Errors
    /// The text is not UTF-8, or not as long as announced: close.
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

/// Why an answer to a preamble was not understood. The connection is of no use: close it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ReplyError {
    /// Something else than pccl listens there.
    #[error("whoever answered does not speak pccl; is the address right?")]
    WrongMagic,
    /// Another release listens there, and takes this one for its own.
    #[error(
        "{theirs} is spoken there, {} here; use the same release on both ends",
        ProtocolVersion::CURRENT
    )]
    UnsupportedVersion {
        /// What the other end speaks.
        theirs: ProtocolVersion,
    },
    /// A connection that is accepted has no text.
    #[error("the answer accepts the connection and carries the text of a refusal")]
    TextWithoutRefusal,
    /// The text is not as long as the head said.
    #[error("the text of the refusal has another length than announced")]
    TextLength,
    /// The text cannot be read.
    #[error("the text of the refusal is not UTF-8")]
    TextNotUtf8,
}
