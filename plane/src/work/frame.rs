//! A frame on its way in or out: which bytes it is about, and in which memory its payload is.

use std::ops::Range;

use pccl_core::wire::{FRAME_HEADER_BYTES, FrameHeader, PayloadSum};

use super::RankWork;
use super::fault::Defect;
use super::stripe::Handling;
use crate::memory::UserBuffers;

/// Room behind a frame in scratch: what comes next on the lane may be received with it.
pub(crate) const BEYOND: usize = FRAME_HEADER_BYTES;

/// A frame that leaves.
#[derive(Debug)]
pub(crate) struct OutgoingFrame {
    pub(crate) header: FrameHeader,
    pub(super) body: Body,
}

/// Where the payload of a leaving frame is.
#[derive(Debug)]
pub(super) enum Body {
    Contribution(Range<usize>),
    Result(Range<usize>),
    Aside(Range<usize>),
    Held(Vec<u8>),
}

/// A frame that was announced and fits.
#[derive(Debug)]
pub(crate) struct IncomingFrame {
    pub(super) stripe: u16,
    pub(super) handling: Handling,
    /// Who sent it: a place among the sources of its stripe.
    pub(super) source: usize,
    /// The bytes of the buffer that it is about.
    pub(super) range: Range<usize>,
    /// Payload bytes.
    pub(super) length: usize,
    /// Of its header.
    pub(super) flags: u16,
    /// Of its header.
    pub(super) sum: Option<PayloadSum>,
    pub(super) landing: Landing,
}

/// Where the payload of an arriving frame goes.
#[derive(Debug)]
pub(super) enum Landing {
    Scratch(Vec<u8>),
    Result,
}

impl OutgoingFrame {
    /// Bytes of payload.
    pub(crate) const fn length(&self) -> usize {
        self.header.length as usize
    }

    /// Puts the checksum of the payload into the header, unless the payload came with one.
    pub(crate) fn sum_up(&mut self, buffers: &UserBuffers<'_>) -> Result<(), Defect> {
        if self.header.sum.is_none() {
            let payload = RankWork::payload(self, buffers).ok_or(Defect::here())?;
            self.header.sum = Some(sum_of(payload));
        }
        Ok(())
    }
}

fn sum_of(payload: &[u8]) -> PayloadSum {
    PayloadSum(pccl_kernels::checksum(payload))
}

impl IncomingFrame {
    /// Bytes of payload that are to arrive.
    pub(crate) const fn length(&self) -> usize {
        self.length
    }

    /// Room for the payload from byte `filled` on. Up to `beyond` bytes more may be received where
    /// they can be told apart afterwards.
    pub(crate) fn room<'a>(
        &'a mut self,
        buffers: &'a mut UserBuffers<'_>,
        filled: usize,
        beyond: usize,
    ) -> &'a mut [u8] {
        match &mut self.landing {
            Landing::Scratch(buffer) => {
                let end = buffer.len().min(self.length + beyond);
                buffer.get_mut(filled..end).unwrap_or_default()
            }
            Landing::Result => {
                let rest = self.range.start + filled..self.range.end;
                buffers.result_mut(rest).unwrap_or_default()
            }
        }
    }

    /// Whether the payload, all of which has arrived, is what was sent, as far as its sender has said.
    pub(crate) fn is_intact(&self, buffers: &UserBuffers<'_>) -> bool {
        let payload = match &self.landing {
            Landing::Scratch(buffer) => buffer.get(..self.length),
            Landing::Result => buffers.result(self.range.clone()),
        };
        self.sum.is_none_or(|sum| payload.map(sum_of) == Some(sum))
    }

    /// What was received beyond the payload, up to byte `filled`.
    pub(crate) fn beyond(&self, filled: usize) -> &[u8] {
        match &self.landing {
            Landing::Scratch(buffer) => buffer.get(self.length..filled).unwrap_or_default(),
            Landing::Result => &[],
        }
    }
}
