//! The first bytes of every connection.
//!
//! Their layout never changes between versions of the protocol, and neither does that of the [`Reply`](super::Reply).
//! So two releases that cannot work together can at least tell each other.

use core::fmt;

use super::bytes::Fields;
use crate::id::{PeerId, ProtocolVersion, Ticket};

/// The first four bytes of both directions of every connection.
pub const MAGIC: [u8; 4] = *b"PCCL";

/// The first byte of every TLS connection: a record of type handshake, of a version 3.x (RFC 8446, section 5.1).
const TLS_HANDSHAKE: u8 = 0x16;
const TLS_MAJOR: u8 = 3;

/// Length of an encoded [`Preamble`].
pub const PREAMBLE_BYTES: usize = 36;

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Purpose {
    /// A peer talks to the master: control frames in both directions.
    Control = 1,
    /// One lane of a link, of the ring or beside it: data frames in one direction.
    LinkLane = 2,
    /// Shared state: requests, and entries in the other direction.
    SharedState = 3,
    /// Measuring bandwidth: bytes, and their count in the other direction.
    Probe = 4,
    /// A peer talks to the master again, after its control connection has broken.
    Resume = 5,
}

impl Purpose {
    /// Every purpose.
    pub const ALL: [Self; 5] = [
        Self::Control,
        Self::LinkLane,
        Self::SharedState,
        Self::Probe,
        Self::Resume,
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
            Self::Resume => "resume",
        })
    }
}

/// The first bytes from the end that dials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Preamble {
    /// The purpose of the connection.
    pub purpose: Purpose,
    /// The peer that dials. Zero for [`Purpose::Control`], because the master has not assigned an id yet.
    pub from: PeerId,
    /// The master's ticket. Zero for [`Purpose::Control`].
    pub ticket: Ticket,
    /// The number of this lane of the edge, from 0; less than `lanes`.
    pub lane: u16,
    /// Number of lanes of the edge, at least one.
    pub lanes: u16,
}

impl Preamble {
    /// The preamble of a peer to the master.
    pub const CONTROL: Self = Self {
        purpose: Purpose::Control,
        from: PeerId(0),
        ticket: Ticket(0),
        lane: 0,
        lanes: 1,
    };

    /// What a peer says to the master if its control connection has broken: who it is, and the token of its session.
    #[must_use]
    pub const fn resume(peer: PeerId, token: Ticket) -> Self {
        Self {
            purpose: Purpose::Resume,
            from: peer,
            ticket: token,
            lane: 0,
            lanes: 1,
        }
    }

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

    /// Decodes the preamble of the other end.
    ///
    /// # Errors
    /// What is wrong with it. Answer with `Reply::from(error)`, then close.
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

/// Why the first bytes of a connection cannot be decoded. The receiver refuses the connection; the text tells the
/// user of the other end what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum PreambleError {
    /// The other end does not speak pccl.
    #[error(
        "this port speaks pccl, {}, whose connections begin with \"PCCL\"; what arrived does not",
        ProtocolVersion::CURRENT
    )]
    WrongMagic,
    /// The other end encrypts, and this one does not. It cannot decode the answer, but recognizes that it is not TLS.
    #[error(
        "the other end speaks TLS, and this one plain TCP: dial a plain master as host:port, without a \
         join string, or start the master without --plain"
    )]
    Encrypted,
    /// The other end has another release.
    #[error(
        "{theirs} was offered, {} is spoken here; use the same release on both ends",
        ProtocolVersion::CURRENT
    )]
    UnsupportedVersion {
        /// The version of the other end.
        theirs: ProtocolVersion,
    },
    /// The purpose is not one of [`Purpose`].
    #[error(
        "{purpose} is not a purpose of a connection in {}",
        ProtocolVersion::CURRENT
    )]
    UnknownPurpose {
        /// The purpose that was sent.
        purpose: u8,
    },
    /// The reserved byte is not zero.
    #[error("the reserved byte of the preamble is not zero")]
    ReservedNotZero,
    /// The edge has no lanes, or not that many.
    #[error("lane {lane} of {lanes} does not exist")]
    NoSuchLane {
        /// The number of the lane.
        lane: u16,
        /// The number of lanes.
        lanes: u16,
    },
}
