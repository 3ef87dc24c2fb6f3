//! The first bytes of every connection, and the first bytes of the answer.
//!
//! Their layout never changes from one version of the protocol to the next, so that two releases
//! that cannot work together can at least tell each other so.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::bytes::Fields;
use super::limits::REFUSAL_TEXT_MAX;
use crate::id::{PeerId, ProtocolVersion, Ticket};

/// The first four bytes of both directions of every connection.
pub const MAGIC: [u8; 4] = *b"PCCL";

/// Length of an encoded [`Preamble`].
pub const PREAMBLE_BYTES: usize = 36;

/// Length of the part of an encoded [`Reply`] that is always there.
pub const REPLY_HEAD_BYTES: usize = 8;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Purpose {
    /// A peer talks to the master: control frames in both directions.
    Control = 1,
    /// One lane of a ring edge: data frames in one direction.
    RingLane = 2,
    /// Shared state: a request, then entries the other way.
    SharedState = 3,
    /// Measuring bandwidth: bytes, then their count the other way.
    Probe = 4,
}

impl Purpose {
    /// Every purpose.
    pub const ALL: [Self; 4] = [
        Self::Control,
        Self::RingLane,
        Self::SharedState,
        Self::Probe,
    ];

    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|purpose| *purpose as u8 == byte)
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Control => "control",
            Self::RingLane => "ring lane",
            Self::SharedState => "shared state",
            Self::Probe => "probe",
        })
    }
}

/// What the end that dials says first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Preamble {
    /// What the connection is for.
    pub purpose: Purpose,
    /// Who dials; zero for [`Purpose::Control`], where the master has yet to give a number.
    pub from: PeerId,
    /// The master's permission; zero for [`Purpose::Control`].
    pub ticket: Ticket,
    /// Which lane of the edge this is, from 0; less than `lanes`.
    pub lane: u16,
    /// How many lanes the edge has, at least one.
    pub lanes: u16,
}

impl Preamble {
    /// What a peer says to the master.
    pub const CONTROL: Self = Self {
        purpose: Purpose::Control,
        from: PeerId(0),
        ticket: Ticket(0),
        lane: 0,
        lanes: 1,
    };

    /// The bytes to send, in [`ProtocolVersion::CURRENT`].
    #[must_use]
    pub fn encode(&self) -> [u8; PREAMBLE_BYTES] {
        let mut bytes = [0; PREAMBLE_BYTES];
        let mut fields = Fields::new(&mut bytes);
        fields.put(MAGIC);
        fields.put(ProtocolVersion::CURRENT.0.to_le_bytes());
        fields.put([self.purpose as u8, 0]);
        fields.put(self.from.0.to_le_bytes());
        fields.put(self.ticket.0.to_le_bytes());
        fields.put(self.lane.to_le_bytes());
        fields.put(self.lanes.to_le_bytes());
        bytes
    }

    /// Understands what the other end said.
    ///
    /// # Errors
    /// What is wrong with it: answer with `Reply::from(error)`, then close.
    pub fn decode(bytes: &[u8; PREAMBLE_BYTES]) -> Result<Self, PreambleError> {
        let mut fields = Fields::new(bytes);
        if fields.take() != MAGIC {
            return Err(PreambleError::WrongMagic);
        }
        let theirs = ProtocolVersion(u16::from_le_bytes(fields.take()));
        if theirs != ProtocolVersion::CURRENT {
            return Err(PreambleError::UnsupportedVersion { theirs });
        }
        let [purpose, reserved] = fields.take();
        let purpose =
            Purpose::from_byte(purpose).ok_or(PreambleError::UnknownPurpose { purpose })?;
        if reserved != 0 {
            return Err(PreambleError::ReservedNotZero);
        }
        let preamble = Self {
            purpose,
            from: PeerId(u64::from_le_bytes(fields.take())),
            ticket: Ticket(u128::from_le_bytes(fields.take())),
            lane: u16::from_le_bytes(fields.take()),
            lanes: u16::from_le_bytes(fields.take()),
        };
        if preamble.lane >= preamble.lanes {
            return Err(PreambleError::NoSuchLane {
                lane: preamble.lane,
                lanes: preamble.lanes,
            });
        }
        Ok(preamble)
    }
}

/// Why the first bytes of a connection were not understood. The receiver refuses the connection; the
/// text tells whoever dialled what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum PreambleError {
    /// Something else than pccl dials here.
    #[error(
        "this port speaks pccl, {}, whose connections begin with \"PCCL\"; what arrived does not",
        ProtocolVersion::CURRENT
    )]
    WrongMagic,
    /// Another release dials here.
    #[error(
        "{theirs} was offered, {} is spoken here; use the same release on both ends",
        ProtocolVersion::CURRENT
    )]
    UnsupportedVersion {
        /// What the other end speaks.
        theirs: ProtocolVersion,
    },
    /// The purpose is none of [`Purpose`].
    #[error(
        "{purpose} is not a purpose of a connection in {}",
        ProtocolVersion::CURRENT
    )]
    UnknownPurpose {
        /// What was sent.
        purpose: u8,
    },
    /// The reserved byte is not zero.
    #[error("the reserved byte of the preamble is not zero")]
    ReservedNotZero,
    /// The edge has no lane, or not so many.
    #[error("lane {lane} of {lanes} does not exist")]
    NoSuchLane {
        /// Which lane was meant.
        lane: u16,
        /// How many there are to be.
        lanes: u16,
    },
}

/// What the end that was dialled answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// The connection is what the preamble said.
    Accepted,
    /// The connection ends here, for this reason. At most [`REFUSAL_TEXT_MAX`] bytes travel; what is
    /// longer is cut between two characters.
    Refused(String),
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
    accepted: bool,
    text_bytes: u8,
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
        let accepted = status == 0;
        if accepted && theirs != ProtocolVersion::CURRENT {
            return Err(ReplyError::UnsupportedVersion { theirs });
        }
        if accepted && text_bytes != 0 {
            return Err(ReplyError::TextWithoutRefusal);
        }
        Ok(Self {
            accepted,
            text_bytes,
        })
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
        Ok(if self.accepted {
            Reply::Accepted
        } else {
            Reply::Refused(text.to_owned())
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
