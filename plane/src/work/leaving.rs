//! Frames that leave: what was received first, the own contribution last.

use pccl_core::plan;
use pccl_core::wire::FrameHeader;

use super::fault::Defect;
use super::frame::{Body, OutgoingFrame};
use super::stripe::Onward;
use super::{RankWork, to_memory};
use crate::memory::UserBuffers;

impl RankWork {
    /// The next frame to leave by `outlet`, or `None` where nothing may leave. What was received goes
    /// before the own contributions. It has to be handed back when it [`has_left`](Self::has_left).
    pub(crate) fn next_out(
        &mut self,
        number: u16,
        buffers: &mut UserBuffers<'_>,
    ) -> Result<Option<OutgoingFrame>, Defect> {
        let Some(outlet) = self.outlets.get_mut(usize::from(number)) else {
            return Ok(None);
        };
        let mut outgoing = match outlet.pop() {
            Some(outgoing) => outgoing,
            None => match self.next_own_for(number) {
                Some((stripe, nth)) => self.contribute(stripe, nth, buffers)?.1,
                None => return Ok(None),
            },
        };
        let outlet = self.outlet(number)?;
        outlet.leaving += 1;
        outgoing.header.flags |= outlet.flags;
        Ok(Some(outgoing))
    }

    /// The next frame of an own contribution, and where it leaves.
    pub(super) fn contribute(
        &mut self,
        number: u16,
        nth: usize,
        buffers: &mut UserBuffers<'_>,
    ) -> Result<(Onward, OutgoingFrame), Defect> {
        let limit = self.piece_bytes();
        let stripe = self.stripes.get_mut(usize::from(number));
        let own = stripe.and_then(|stripe| stripe.own.get_mut(nth));
        let own = own.ok_or(Defect::here())?;
        let mut frames = plan::frames(own.rest.clone(), limit);
        let frame = frames.next().ok_or(Defect::here())?;
        own.rest.start = frame.end;
        let (onward, is_copied) = (own.onward, own.is_copied);
        self.window.leave(frame.end - frame.start);
        let range = to_memory(&frame)?;
        let (body, length) = match &self.coding {
            None if is_copied && buffers.overwrite_contribution() => {
                (self.copy_contribution(&range, buffers)?, range.len())
            }
            None => (Body::Contribution(range.clone()), range.len()),
            Some(_) => {
                let (body, length) = self.encode_contribution(&range, buffers)?;
                self.adopt(number, &frame, (&body, length), buffers)?;
                (body, length)
            }
        };
        let header = self.header(number, onward.step, range.start, length)?;
        Ok((onward, OutgoingFrame { header, body }))
    }

    /// The payload of a leaving frame.
    pub(crate) fn payload<'a>(
        outgoing: &'a OutgoingFrame,
        buffers: &'a UserBuffers<'_>,
    ) -> Option<&'a [u8]> {
        match &outgoing.body {
            Body::Contribution(range) => buffers.contribution(range.clone()),
            Body::Result(range) => buffers.result(range.clone()),
            Body::Aside(range) => buffers.aside(range.clone()),
            Body::Held(frame) => frame.get(..outgoing.header.length as usize),
        }
    }

    /// A frame has gone into the lane.
    pub(crate) fn has_left(&mut self, outlet: u16, outgoing: OutgoingFrame) {
        if let Some(outlet) = self.outlets.get_mut(usize::from(outlet)) {
            outlet.leaving = outlet.leaving.saturating_sub(1);
        }
        self.recycle(outgoing.body);
    }

    pub(super) fn recycle(&mut self, body: Body) {
        match body {
            Body::Held(frame) => self.scratch.put(frame),
            Body::Contribution(_) | Body::Result(_) | Body::Aside(_) => {}
        }
    }

    /// Its flags are those of the outlet by which it leaves.
    pub(super) fn header(
        &self,
        stripe: u16,
        step: u32,
        at: usize,
        length: usize,
    ) -> Result<FrameHeader, Defect> {
        Ok(FrameHeader {
            seq: self.seq,
            offset: at as u64,
            length: u32::try_from(length).map_err(|_| Defect::here())?,
            step,
            stripe,
            flags: 0,
            sum: None,
        })
    }
}
