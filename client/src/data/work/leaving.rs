//! Frames that leave: what was received first, the own contribution last.

use pccl_core::plan;
use pccl_core::wire::FrameHeader;

use super::super::buffers::RingBuffers;
use super::coded::Coding;
use super::fault::Defect;
use super::frame::{Body, Outgoing};
use super::{RingWork, to_memory};

impl RingWork {
    /// The next frame to leave on `lane`, or `None` where nothing may leave. What was received goes
    /// before the own contribution. It has to be handed back when it [`has_left`](Self::has_left).
    pub(in super::super) fn next_out(
        &mut self,
        lane: u16,
        buffers: &RingBuffers<'_>,
    ) -> Result<Option<Outgoing>, Defect> {
        let Some(outlet) = self.outlets.get_mut(usize::from(lane)) else {
            return Ok(None);
        };
        let outgoing = match outlet.pop() {
            Some(outgoing) => outgoing,
            None if self.window.is_open() => match self.contributing(lane) {
                Some(stripe) => self.contribute(stripe, buffers)?,
                None => return Ok(None),
            },
            None => return Ok(None),
        };
        if let Some(outlet) = self.outlets.get_mut(usize::from(lane)) {
            outlet.leaving = true;
        }
        Ok(Some(outgoing))
    }

    /// The first stripe of this lane of which the own contribution has not left.
    pub(super) fn contributing(&self, lane: u16) -> Option<u16> {
        let stripes = (0..).zip(&self.stripes).skip(usize::from(lane));
        let mut stripes = stripes.step_by(self.outlets.len().max(1));
        let of_lane = stripes.find(|(_, stripe)| !stripe.own.is_empty());
        of_lane.map(|(number, _)| number)
    }

    /// The next frame of the own contribution.
    pub(super) fn contribute(
        &mut self,
        number: u16,
        buffers: &RingBuffers<'_>,
    ) -> Result<Outgoing, Defect> {
        let limit = match &self.coding {
            Some(_) => Coding::FRAME_ELEMENTS,
            None => self.frame_elements,
        };
        let limit = limit.saturating_mul(self.element_bytes as u64);
        let stripe = self
            .stripes
            .get_mut(usize::from(number))
            .ok_or(Defect::here())?;
        let mut frames = plan::frames(stripe.own.clone(), limit);
        let frame = frames.next().ok_or(Defect::here())?;
        stripe.own.start = frame.end;
        let step = stripe.own_step;
        self.window.leave(frame.end - frame.start);
        let range = to_memory(&frame)?;
        let (body, length) = match &self.coding {
            None if self.gathered.is_some() => {
                (self.copy_contribution(&range, buffers)?, range.len())
            }
            None => (Body::Contribution(range.clone()), range.len()),
            Some(_) => self.encode_contribution(&range, buffers)?,
        };
        let header = self.header(number, step, range.start, length)?;
        Ok(Outgoing { header, body })
    }

    /// The payload of a leaving frame.
    pub(in super::super) fn payload<'a>(
        outgoing: &'a Outgoing,
        buffers: &'a RingBuffers<'_>,
    ) -> Option<&'a [u8]> {
        match &outgoing.body {
            Body::Contribution(range) => buffers.contribution(range.clone()),
            Body::Result(range) => buffers.result(range.clone()),
            Body::Aside(range) => buffers.aside(range.clone()),
            Body::Held(frame) => frame.get(..outgoing.header.length as usize),
        }
    }

    /// A frame has gone into the lane.
    pub(in super::super) fn has_left(&mut self, lane: u16, outgoing: Outgoing) {
        if let Some(outlet) = self.outlets.get_mut(usize::from(lane)) {
            outlet.leaving = false;
        }
        self.recycle(outgoing.body);
    }

    pub(super) fn recycle(&mut self, body: Body) {
        match body {
            Body::Held(frame) => self.scratch.put(frame),
            Body::Contribution(_) | Body::Result(_) | Body::Aside(_) => {}
        }
    }

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
            flags: self.flags,
        })
    }
}
