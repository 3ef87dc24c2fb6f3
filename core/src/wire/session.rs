//! Session frames: what two ends of a control connection tell each other about the connection, and not their machines.

use alloc::vec::Vec;
use core::time::Duration;

use super::control::CONTROL_HEAD_BYTES;
use super::crc32c::crc32c;
use crate::id::{PeerId, Ticket};

/// Set in the head of a control frame that is a session frame.
const IS_SESSION: u32 = 1 << 31;

/// Length of the longest session frame's body.
const BODY_MAX: usize = 21;

/// Length of a token.
const TOKEN_BYTES: usize = 16;

/// Length of what the sum of a head covers.
const SUMMED_BYTES: usize = 8;

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
    /// Appends the frame: a [head](ControlHead), then the kind in one byte and its field.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut put = |kind: u8, field: &[u8]| {
            let begin = out.len();
            out.extend_from_slice(&[0; CONTROL_HEAD_BYTES]);
            out.push(kind);
            out.extend_from_slice(field);
            let frame = out.get_mut(begin..).unwrap_or_default();
            if let Some((head, body)) = frame.split_first_chunk_mut() {
                *head = ControlHead::of(true, body).encode();
            }
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

/// What the head of a control frame says: its body's length and the highest bit for a session frame in four bytes, the
/// CRC-32C of the body in four, and that of these eight in four more. All in little-endian order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlHead {
    /// Whether a [`SessionFrame`] follows, and not a message.
    pub is_session: bool,
    /// Length of the body.
    pub length: usize,
    /// The CRC-32C of the body.
    pub body_sum: u32,
}

impl ControlHead {
    /// The head of a message's frame. `None`: no head can announce so long a body.
    #[must_use]
    pub fn of_message(body: &[u8]) -> Option<Self> {
        let can_be_said = u32::try_from(body.len()).is_ok_and(|length| length & IS_SESSION == 0);
        can_be_said.then(|| Self::of(false, body))
    }

    fn of(is_session: bool, body: &[u8]) -> Self {
        Self {
            is_session,
            length: body.len(),
            body_sum: crc32c(body),
        }
    }

    /// The bytes of the head.
    #[must_use]
    pub fn encode(self) -> [u8; CONTROL_HEAD_BYTES] {
        // No head is made of a length that does not fit.
        let length = u32::try_from(self.length).unwrap_or(u32::MAX) & !IS_SESSION;
        let kind = if self.is_session { IS_SESSION } else { 0 };
        let mut head = [0; CONTROL_HEAD_BYTES];
        let (summed, sum) = head.split_at_mut(SUMMED_BYTES);
        let (first, second) = summed.split_at_mut(4);
        first.copy_from_slice(&(kind | length).to_le_bytes());
        second.copy_from_slice(&self.body_sum.to_le_bytes());
        sum.copy_from_slice(&crc32c(summed).to_le_bytes());
        head
    }

    /// Understands the head. `None`: it was damaged on its way.
    #[must_use]
    pub fn decode(head: [u8; CONTROL_HEAD_BYTES]) -> Option<Self> {
        let (summed, sum) = head.split_first_chunk::<SUMMED_BYTES>()?;
        let (first, second) = summed.split_first_chunk()?;
        let first = u32::from_le_bytes(*first);
        let is_sound = *sum == crc32c(summed).to_le_bytes();
        is_sound.then_some(Self {
            is_session: first & IS_SESSION != 0,
            length: usize::try_from(first & !IS_SESSION).unwrap_or(usize::MAX),
            body_sum: u32::from_le_bytes(second.try_into().ok()?),
        })
    }

    /// Whether the body has arrived as it was sent.
    pub(super) fn is_of(self, body: &[u8]) -> bool {
        crc32c(body) == self.body_sum
    }

    /// The longest body that is allowed, if messages may have `message_max` bytes.
    pub(super) const fn cap(self, message_max: usize) -> usize {
        match self.is_session {
            true => BODY_MAX,
            false => message_max,
        }
    }
}
