//! The header before every payload on a link lane.

use super::bytes::Fields;
use super::limits::DATA_FRAME_MAX;
use crate::id::Seq;

/// Length of an encoded [`FrameHeader`].
pub const FRAME_HEADER_BYTES: usize = 32;

/// Describes the payload that follows: elements as they lie in memory on a little-endian machine, without gaps, or
/// their quantized form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrameHeader {
    /// The operation of the payload. A frame of an operation that is over is read and discarded.
    pub seq: Seq,
    /// Position of the elements: byte offset in the whole buffer, a multiple of the element size.
    pub offset: u64,
    /// Number of payload bytes, at most [`DATA_FRAME_MAX`]: a multiple of the element size, or the quantized length
    /// of the frame's elements.
    pub length: u32,
    /// The step of the flow in the receiver's [`Plan`](crate::plan::Plan).
    pub step: u32,
    /// The stripe. All frames of a stripe take one lane.
    pub stripe: u16,
    /// [`LEFT_MACHINE`](Self::LEFT_MACHINE), or 0.
    pub flags: u16,
}

impl FrameHeader {
    /// The flag of a payload that was sent between machines on its way here, or whose sum was. A rank that sends to
    /// another machine sets it, and all ranks that forward the frame keep it. So the rank that contributed the frame
    /// learns whether the ring stays on its machine.
    pub const LEFT_MACHINE: u16 = 1;

    /// The bytes to send before the payload.
    #[must_use]
    pub fn encode(&self) -> [u8; FRAME_HEADER_BYTES] {
        let mut bytes = [0; FRAME_HEADER_BYTES];
        let mut fields = Fields::new(&mut bytes);
        fields.put(self.seq.0.to_le_bytes());
        fields.put(self.offset.to_le_bytes());
        fields.put(self.length.to_le_bytes());
        fields.put(self.step.to_le_bytes());
        fields.put(self.stripe.to_le_bytes());
        fields.put(self.flags.to_le_bytes());
        bytes
    }

    /// Decodes a header. The receiver must check offset, step and stripe against its plan.
    ///
    /// # Errors
    /// The header is not of this version, so that the next header cannot be found. Close the lane, and report it as
    /// broken.
    pub fn decode(bytes: &[u8; FRAME_HEADER_BYTES]) -> Result<Self, FrameError> {
        let mut fields = Fields::new(bytes);
        let header = Self {
            seq: Seq(u64::from_le_bytes(fields.take())),
            offset: u64::from_le_bytes(fields.take()),
            length: u32::from_le_bytes(fields.take()),
            step: u32::from_le_bytes(fields.take()),
            stripe: u16::from_le_bytes(fields.take()),
            flags: u16::from_le_bytes(fields.take()),
        };
        if fields.take::<4>() != [0; 4] {
            return Err(FrameError::ReservedNotZero);
        }
        if header.flags & !Self::LEFT_MACHINE != 0 {
            return Err(FrameError::UnknownFlags {
                flags: header.flags,
            });
        }
        if header.length as usize > DATA_FRAME_MAX {
            return Err(FrameError::TooLong {
                length: header.length,
            });
        }
        Ok(header)
    }
}

/// Why a frame header cannot be decoded. The lane is unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum FrameError {
    /// The reserved bytes are not zero.
    #[error("the reserved bytes of a data frame are not zero")]
    ReservedNotZero,
    /// A flag is set that this version does not define.
    #[error("a data frame has unknown flags {flags:#06x}")]
    UnknownFlags {
        /// All flags of the frame.
        flags: u16,
    },
    /// The payload is longer than a frame permits.
    #[error("a data frame announces {length} bytes, more than the {DATA_FRAME_MAX} allowed")]
    TooLong {
        /// The announced length in bytes.
        length: u32,
    },
}
