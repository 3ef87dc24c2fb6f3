//! Session frames: what two ends of a control connection tell each other about the connection, and not their machines.

use alloc::vec::Vec;
use core::time::Duration;

use super::control::CONTROL_HEAD_BYTES;
use crate::id::{PeerId, Ticket};

/// Set in the head of a control frame that is a session frame.
const IS_SESSION: u32 = 1 << 31;

/// Length of the longest session frame's body.
const BODY_MAX: usize = 21;

/// Length of a token.
const TOKEN_BYTES: usize = 16;

const OPENED: u8 = 0;
const RECEIVED: u8 = 1;
const QUIET: u8 = 2;

/// Maximum number of peers of which a master says with one heartbeat that they are quiet.
pub const QUIET_MAX: usize = 8;

/// What a peer has to know to resume its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionTerms {
    /// What the peer has to show.
    pub token: Ticket,
    /// How long the master may be away and still come back, in whole milliseconds: another process may continue from
    /// its [journal](crate::journal). Zero: it keeps none, so the run ends with its process.
    pub away_max: Duration,
}

/// A frame beside the messages of a control connection. It is not counted among them. See [`session`](crate::session).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SessionFrame {
    /// From the master, before the welcome.
    Opened(SessionTerms),
    /// The other end need not keep the messages up to this number.
    Received {
        /// Number of messages that this end has received.
        messages: u64,
    },
    /// From the master: it has heard nothing from a peer of the run for longer than usual.
    Quiet(QuietPeer),
}

/// A peer from which the master has heard nothing for longer than usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuietPeer {
    /// Who.
    pub peer: PeerId,
    /// For how many milliseconds.
    pub millis: u32,
}

impl SessionFrame {
    /// Appends the frame: a head with the highest bit set, then the kind in one byte and its field.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut put = |kind: u8, field: &[u8]| {
            // At most `BODY_MAX`.
            let length = u32::try_from(1 + field.len()).unwrap_or_default();
            out.extend_from_slice(&(IS_SESSION | length).to_le_bytes());
            out.push(kind);
            out.extend_from_slice(field);
        };
        match self {
            Self::Opened(SessionTerms { token, away_max }) => {
                let away_ms = u32::try_from(away_max.as_millis()).unwrap_or(u32::MAX);
                let mut field = [0; TOKEN_BYTES + 4];
                let (first, second) = field.split_at_mut(TOKEN_BYTES);
                first.copy_from_slice(&token.0.to_le_bytes());
                second.copy_from_slice(&away_ms.to_le_bytes());
                put(OPENED, &field);
            }
            Self::Received { messages } => put(RECEIVED, &messages.to_le_bytes()),
            Self::Quiet(QuietPeer { peer, millis }) => {
                let mut field = [0; 12];
                let (who, time) = field.split_at_mut(8);
                who.copy_from_slice(&peer.0.to_le_bytes());
                time.copy_from_slice(&millis.to_le_bytes());
                put(QUIET, &field);
            }
        }
    }

    /// `None`: there is no such frame.
    pub(super) fn decode(body: &[u8]) -> Option<Self> {
        let (kind, field) = body.split_first()?;
        match *kind {
            OPENED => {
                let (token, away_ms) = field.split_first_chunk::<TOKEN_BYTES>()?;
                let away_ms = u32::from_le_bytes(away_ms.try_into().ok()?);
                Some(Self::Opened(SessionTerms {
                    token: Ticket(u128::from_le_bytes(*token)),
                    away_max: Duration::from_millis(away_ms.into()),
                }))
            }
            RECEIVED => Some(Self::Received {
                messages: u64::from_le_bytes(field.try_into().ok()?),
            }),
            QUIET => {
                let (peer, millis) = field.split_first_chunk()?;
                Some(Self::Quiet(QuietPeer {
                    peer: PeerId(u64::from_le_bytes(*peer)),
                    millis: u32::from_le_bytes(millis.try_into().ok()?),
                }))
            }
            _ => None,
        }
    }
}

/// What the head of a control frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlHead {
    /// Whether a [`SessionFrame`] follows, and not a message.
    pub is_session: bool,
    /// Length of the body.
    pub length: usize,
}

impl ControlHead {
    /// Understands the head.
    #[must_use]
    pub fn decode(head: [u8; CONTROL_HEAD_BYTES]) -> Self {
        let head = u32::from_le_bytes(head);
        Self {
            is_session: head & IS_SESSION != 0,
            length: usize::try_from(head & !IS_SESSION).unwrap_or(usize::MAX),
        }
    }

    /// The longest body that is allowed, if messages may have `message_max` bytes.
    pub(super) const fn cap(self, message_max: usize) -> usize {
        match self.is_session {
            true => BODY_MAX,
            false => message_max,
        }
    }
}
