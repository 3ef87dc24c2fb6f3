//! What travels on a connection for shared state and on one for a probe, after their preambles.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::bytes::Fields;
use crate::id::{EntryIndex, Round};

/// Length of an encoded [`EntryHeader`].
pub const ENTRY_HEADER_BYTES: usize = 16;

/// Length of the answer to a probe.
pub const PROBE_ANSWER_BYTES: usize = 8;

/// What the fetching end says first, whichever end dialled: one control frame of at most
/// [`STATE_REQUEST_MAX`](super::STATE_REQUEST_MAX) bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StateRequest {
    /// The round of the plan. The serving end closes the connection where it is another.
    pub round: Round,
    /// What to send, in this order.
    pub entries: Vec<EntryIndex>,
}

/// What the serving end says before the bytes of each entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EntryHeader {
    /// Which entry follows.
    pub entry: EntryIndex,
    /// How many bytes of it follow: count times element size, little-endian elements.
    pub length: u64,
}

impl EntryHeader {
    /// The bytes to send in front of the entry.
    #[must_use]
    pub fn encode(&self) -> [u8; ENTRY_HEADER_BYTES] {
        let mut bytes = [0; ENTRY_HEADER_BYTES];
        let mut fields = Fields::new(&mut bytes);
        fields.put(self.entry.0.to_le_bytes());
        fields.put([0; 4]);
        fields.put(self.length.to_le_bytes());
        bytes
    }

    /// Understands a header and compares it with what was asked for: the receiver knows its own
    /// entries and their lengths, and takes nothing else.
    ///
    /// # Errors
    /// The other end sends something else: close the connection, the transfer has failed.
    pub fn decode_expecting(
        bytes: &[u8; ENTRY_HEADER_BYTES],
        expected: Self,
    ) -> Result<(), EntryError> {
        let arrived = Self::decode(bytes)?;
        if arrived == expected {
            Ok(())
        } else {
            Err(EntryError::Unexpected { arrived, expected })
        }
    }

    /// Understands a header.
    ///
    /// # Errors
    /// The reserved bytes are not zero: close the connection, the transfer has failed.
    pub fn decode(bytes: &[u8; ENTRY_HEADER_BYTES]) -> Result<Self, EntryError> {
        let mut fields = Fields::new(bytes);
        let entry = EntryIndex(u32::from_le_bytes(fields.take()));
        if fields.take::<4>() != [0; 4] {
            return Err(EntryError::ReservedNotZero);
        }
        let length = u64::from_le_bytes(fields.take());
        Ok(Self { entry, length })
    }
}

/// Why an entry was not taken. The transfer has failed; what had arrived is thrown away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum EntryError {
    /// The reserved bytes are not zero.
    #[error("the reserved bytes of an entry header are not zero")]
    ReservedNotZero,
    /// Another entry than the one asked for, or of another length.
    #[error(
        "{} of {} bytes was expected, {} of {} bytes arrived",
        .expected.entry, .expected.length, .arrived.entry, .arrived.length
    )]
    Unexpected {
        /// What the header says.
        arrived: EntryHeader,
        /// What was asked for.
        expected: EntryHeader,
    },
}

/// What the receiving end of a probe answers once the sender has closed its direction: how many
/// bytes arrived after the preamble.
#[must_use]
pub const fn encode_probe_answer(received: u64) -> [u8; PROBE_ANSWER_BYTES] {
    received.to_le_bytes()
}

/// Understands the answer to a probe, in bytes.
#[must_use]
pub const fn decode_probe_answer(bytes: [u8; PROBE_ANSWER_BYTES]) -> u64 {
    u64::from_le_bytes(bytes)
}
