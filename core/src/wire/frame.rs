//! The header before every payload on a link lane.

use super::bytes::Fields;
use super::crc32c::crc32c;
use super::limits::DATA_FRAME_MAX;
use crate::id::Seq;

/// Length of an encoded [`FrameHeader`].
pub const FRAME_HEADER_BYTES: usize = 40;

/// The checksum of a payload, as `pccl_kernels::checksum` computes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PayloadSum(pub u64);

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
    /// The checksum of the payload, if its sender has computed one: it does so on a lane whose transport proves
    /// nothing. The receiver compares it before it uses a byte.
    pub sum: Option<PayloadSum>,
}

impl FrameHeader {
    /// The flag of a payload that was sent between machines on its way here, or whose sum was. A rank that sends to
    /// another machine sets it, and all ranks that forward the frame keep it. So the rank that contributed the frame
    /// learns whether the ring stays on its machine.
    pub const LEFT_MACHINE: u16 = 1;

    /// The flag on the wire of a frame whose payload has a checksum. Not among [`flags`](Self::flags).
    const SUMMED: u16 = 2;

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
        let summed = self.sum.map_or(0, |_| Self::SUMMED);
        fields.put((self.flags | summed).to_le_bytes());
        fields.put(self.sum.map_or(0, |sum| sum.0).to_le_bytes());
        if let Some((covered, own)) = bytes.split_last_chunk_mut() {
            *own = crc32c(covered).to_le_bytes();
        }
        bytes
    }

    /// Decodes a header. The receiver must check offset, step and stripe against its plan.
    ///
    /// # Errors
    /// The header is not of this version, so that the next header cannot be found. Close the lane, and report it as
    /// broken.
    pub fn decode(bytes: &[u8; FRAME_HEADER_BYTES]) -> Result<Self, FrameError> {
        if let Some((covered, own)) = bytes.split_last_chunk()
            && u32::from_le_bytes(*own) != crc32c(covered)
        {
            return Err(FrameError::Damaged);
        }
        let mut fields = Fields::new(bytes);
        let (seq, offset) = (Seq(u64::from_le_bytes(fields.take())), fields.take());
        let (length, step, stripe) = (fields.take(), fields.take(), fields.take());
        let flags = u16::from_le_bytes(fields.take());
        let sum = PayloadSum(u64::from_le_bytes(fields.take()));
        if flags & !(Self::LEFT_MACHINE | Self::SUMMED) != 0 {
            return Err(FrameError::UnknownFlags { flags });
        }
        let is_summed = flags & Self::SUMMED != 0;
        if !is_summed && sum != PayloadSum(0) {
            return Err(FrameError::ReservedNotZero);
        }
        let header = Self {
            seq,
            offset: u64::from_le_bytes(offset),
            length: u32::from_le_bytes(length),
            step: u32::from_le_bytes(step),
            stripe: u16::from_le_bytes(stripe),
            flags: flags & !Self::SUMMED,
            sum: is_summed.then_some(sum),
        };
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
    /// The header is not what was sent: its checksum is another one.
    #[error("the header of a data frame was damaged on its way")]
    Damaged,
    /// There is no checksum of the payload, and its bytes are not zero.
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
