//! What travels on a connection for shared state and on one for a probe, after their preambles.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::bytes::Fields;
use crate::id::{EntryIndex, Round};

/// Length of an encoded [`StateRange`].
pub const STATE_RANGE_HEADER_BYTES: usize = 16;

/// Length of the answer to a probe.
pub const PROBE_ANSWER_BYTES: usize = 8;

/// What the fetching end says, as often as it likes and without waiting for the answer to the one
/// before: one control frame of at most [`STATE_REQUEST_MAX`](super::STATE_REQUEST_MAX) bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StateRequest {
    /// The round of the plan. The serving end closes the connection where it is another.
    pub round: Round,
    /// What to send, in this order: at least one range, at most
    /// [`STATE_RANGES_MAX`](super::STATE_RANGES_MAX). The serving end closes the connection where one
    /// of them does not exist.
    pub ranges: Vec<StateRange>,
}

/// Bytes of an entry that follow one another: what is asked for, and, in a layout of its own, what the
/// serving end says before it sends them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StateRange {
    /// The entry: its position among the names in byte order.
    pub entry: EntryIndex,
    /// How many bytes: at least one, at most [`STATE_RANGE_MAX`](super::STATE_RANGE_MAX).
    pub length: u32,
    /// How many bytes of the entry come before them.
    pub offset: u64,
}

impl StateRange {
    /// The bytes to send in front of the content.
    #[must_use]
    pub fn encode(&self) -> [u8; STATE_RANGE_HEADER_BYTES] {
        let mut bytes = [0; STATE_RANGE_HEADER_BYTES];
        let mut fields = Fields::new(&mut bytes);
        fields.put(self.entry.0.to_le_bytes());
        fields.put(self.length.to_le_bytes());
        fields.put(self.offset.to_le_bytes());
        bytes
    }

    /// Understands a header. Every sixteen bytes are one.
    #[must_use]
    pub fn decode(bytes: &[u8; STATE_RANGE_HEADER_BYTES]) -> Self {
        let mut fields = Fields::new(bytes);
        Self {
            entry: EntryIndex(u32::from_le_bytes(fields.take())),
            length: u32::from_le_bytes(fields.take()),
            offset: u64::from_le_bytes(fields.take()),
        }
    }

    /// Understands a header and compares it with what was asked for: the receiver takes nothing else.
    ///
    /// # Errors
    /// The other end sends something else: close the connection, it is of no more use.
    pub fn decode_expecting(
        bytes: &[u8; STATE_RANGE_HEADER_BYTES],
        expected: Self,
    ) -> Result<(), UnexpectedRange> {
        let arrived = Self::decode(bytes);
        if arrived == expected {
            Ok(())
        } else {
            Err(UnexpectedRange { arrived, expected })
        }
    }
}

/// Other bytes are announced than were asked for. The connection is of no more use: close it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error(
    "{} bytes of {} from {} on were expected, {} bytes of {} from {} on arrived",
    .expected.length, .expected.entry, .expected.offset,
    .arrived.length, .arrived.entry, .arrived.offset
)]
pub struct UnexpectedRange {
    /// What the header says.
    pub arrived: StateRange,
    /// What was asked for.
    pub expected: StateRange,
}

/// How many single bytes the first lane of a probe begins with, each of which is answered.
pub const PROBE_PINGS: u8 = 3;

/// What the receiving end of a probe says again and again: how many bytes have arrived on all lanes, without
/// preambles and pings.
#[must_use]
pub const fn encode_probe_answer(received: u64) -> [u8; PROBE_ANSWER_BYTES] {
    received.to_le_bytes()
}

/// Understands what the receiving end of a probe says, in bytes.
#[must_use]
pub const fn decode_probe_answer(bytes: [u8; PROBE_ANSWER_BYTES]) -> u64 {
    u64::from_le_bytes(bytes)
}
