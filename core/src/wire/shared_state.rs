//! The bytes of a connection for shared state, and of a probe, after their preambles.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::bytes::Fields;
use crate::id::{EntryIndex, Round};

/// Length of an encoded [`StateRange`].
pub const STATE_RANGE_HEADER_BYTES: usize = 16;

/// Length of the answer to a probe.
pub const PROBE_ANSWER_BYTES: usize = 8;

/// A request of the fetching end: one control frame of at most [`STATE_REQUEST_MAX`](super::STATE_REQUEST_MAX) bytes.
/// It may send the next one without waiting for the answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StateRequest {
    /// The round of the plan. If it is another one, the serving end closes the connection.
    pub round: Round,
    /// The ranges to send, in this order: at least one, at most [`STATE_RANGES_MAX`](super::STATE_RANGES_MAX). If one
    /// of them does not exist, the serving end closes the connection.
    pub ranges: Vec<StateRange>,
}

/// A range of bytes of an entry. It is part of a request, and, in a layout of its own, the header before the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StateRange {
    /// The entry: its position among the names in byte order.
    pub entry: EntryIndex,
    /// Number of bytes: at least one, at most [`STATE_RANGE_MAX`](super::STATE_RANGE_MAX).
    pub length: u32,
    /// Offset of the range in the entry.
    pub offset: u64,
}

impl StateRange {
    /// The bytes to send before the content.
    #[must_use]
    pub fn encode(&self) -> [u8; STATE_RANGE_HEADER_BYTES] {
        let mut bytes = [0; STATE_RANGE_HEADER_BYTES];
        let mut fields = Fields::new(&mut bytes);
        fields.put(self.entry.0.to_le_bytes());
        fields.put(self.length.to_le_bytes());
        fields.put(self.offset.to_le_bytes());
        bytes
    }

    /// Decodes a header. Any sixteen bytes are a valid header.
    #[must_use]
    pub fn decode(bytes: &[u8; STATE_RANGE_HEADER_BYTES]) -> Self {
        let mut fields = Fields::new(bytes);
        Self {
            entry: EntryIndex(u32::from_le_bytes(fields.take())),
            length: u32::from_le_bytes(fields.take()),
            offset: u64::from_le_bytes(fields.take()),
        }
    }

    /// Decodes a header and compares it with the requested range.
    ///
    /// # Errors
    /// The other end sends another range. Close the connection.
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

/// The header announces another range than was requested. Close the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error(
    "{} bytes of {} from {} on were expected, {} bytes of {} from {} on arrived",
    .expected.length, .expected.entry, .expected.offset,
    .arrived.length, .arrived.entry, .arrived.offset
)]
pub struct UnexpectedRange {
    /// The range in the header.
    pub arrived: StateRange,
    /// The requested range.
    pub expected: StateRange,
}

/// Number of single bytes at the start of a probe, on the first lane. Each is answered.
pub const PROBE_PINGS: u8 = 3;

/// The repeated answer of the receiving end of a probe: the number of bytes that have arrived on all lanes, without
/// preambles and pings.
#[must_use]
pub const fn encode_probe_answer(received: u64) -> [u8; PROBE_ANSWER_BYTES] {
    received.to_le_bytes()
}

/// Decodes the answer of the receiving end of a probe: a number of bytes.
#[must_use]
pub const fn decode_probe_answer(bytes: [u8; PROBE_ANSWER_BYTES]) -> u64 {
    u64::from_le_bytes(bytes)
}
