//! The first bytes of every connection.
//!
//! Their layout never changes from one version of the protocol to the next, and neither does that of
//! the [`Reply`](super::Reply): two releases that cannot work together can at least tell each other so.

use core::fmt;

use super::bytes::Fields;
use crate::id::{PeerId, ProtocolVersion, Ticket};

/// The first four bytes of both directions of every connection.
pub const MAGIC: [u8; 4] = *b"PCCL";

/// How every connection of TLS begins: a record of type handshake, of a version 3.x (RFC 8446, section
/// 5.1).
const TLS_HANDSHAKE: u8 = 0x16;
const TLS_MAJOR: u8 = 3;

/// Length of an encoded [`Preamble`].
pub const PREAMBLE_BYTES: usize = 36;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Purpose {
    /// A peer talks to the master: control frames in both directions.
    Control = 1,
    /// One lane of a link, of the ring or beside it: data frames in one direction.
    LinkLane = 2,
    /// Shared state: a request, then entries the other way.
    SharedState = 3,
    /// Measuring bandwidth: bytes, then their count the other way.
    Probe = 4,
}

impl Purpose {
    /// Every purpose.
    pub const ALL: [Self; 4] = [
        Self::Control,
        Self::LinkLane,
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
            Self::LinkLane => "link lane",
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
        match fields.take() {
            MAGIC => {}
            [TLS_HANDSHAKE, TLS_MAJOR, ..] => return Err(PreambleError::Encrypted),
            _ => return Err(PreambleError::WrongMagic),
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
    /// The other end encrypts, and this one does not. It does not understand the answer, but takes it for
    /// what it is: not TLS.
    #[error(
        "the other end speaks TLS, and this one plain TCP: dial a plain master as host:port, without a \
         join string, or start the master without --plain"
    )]
    Encrypted,
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
