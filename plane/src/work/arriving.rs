//! Frames that arrive: checked against the plan, reduced or stored, and put where they leave.

use std::ops::Range;

use pccl_core::plan::Action;
use pccl_core::wire::{
    COPIED_PAYLOAD_MAX, FRAME_PAYLOAD_MAX, FRAME_PAYLOAD_MIN, FrameHeader, PayloadSum,
};

use super::fault::{Defect, Misfit, NotTaken};
use super::frame::{BEYOND, Body, IncomingFrame, Landing, OutgoingFrame};
use super::stripe::{Handling, Onward};
use super::{RankWork, to_memory};
use crate::memory::UserBuffers;
use crate::pace::HELD_MAX;

impl RankWork {
    /// Takes note of a frame that is about to arrive from a rank on a lane.
    ///
    /// The payload has to arrive, and be [`accept`](Self::accept)ed, before the next one of its lane is
    /// announced.
    pub(crate) fn announce(
        &mut self,
        (from, lane): (u32, u16),
        header: &FrameHeader,
        buffers: &mut UserBuffers<'_>,
    ) -> Result<IncomingFrame, NotTaken> {
        let (range, handling, source) = self.expect((from, lane), header)?;
        let length = header.length as usize;
        let is_result = self.coding.is_none() && handling.action == Action::Copy;
        let landing = if is_result {
            let target = buffers.overwrite(handling.slot, range.clone());
            target.ok_or(Defect::here())?;
            Landing::Result
        } else {
            Landing::Scratch(self.scratch.take(length + BEYOND))
        };
        Ok(IncomingFrame {
            stripe: header.stripe,
            handling,
            source,
            range,
            length,
            flags: header.flags,
            sum: header.sum,
            landing,
        })
    }

    /// Is this frame the next one of its flow? Takes it out of what is expected.
    fn expect(
        &mut self,
        (from, lane): (u32, u16),
        header: &FrameHeader,
    ) -> Result<(Range<usize>, Handling, usize), NotTaken> {
        let element_bytes = self.element_bytes as u64;
        let coding = self.coding.as_ref();
        let first_sum = self.kept_at(header.stripe, 0);
        let kept = self.kept.get(first_sum..).unwrap_or_default();
        let stripe = self.stripes.get_mut(usize::from(header.stripe));
        let stripe = stripe.ok_or(Misfit::NoSuchFlow)?;
        let step = usize::try_from(header.step).map_err(|_| Misfit::NoSuchFlow)?;
        let flow = stripe.flows.get(step).ok_or(Misfit::NoSuchFlow)?;
        let missing = flow.rest.end - flow.rest.start;
        let bytes = match coding {
            None => whole_elements(
                missing,
                header.length,
                (element_bytes, flow.handling.action),
            ),
            Some(coding) => coding
                .announced(missing / element_bytes, header.length)
                .map(|elements| elements * element_bytes),
        };
        let bytes = bytes.filter(|bytes| *bytes > 0).ok_or(Misfit::Length)?;
        let end = header.offset.checked_add(bytes).ok_or(Misfit::OutOfOrder)?;
        if header.offset != flow.rest.start || end > flow.rest.end {
            return Err(Misfit::OutOfOrder.into());
        }
        let at = flow.source;
        let source = stripe.sources.get(at).ok_or(Defect::here())?;
        if source.rank != from || source.arrives_on.is_some_and(|arrives| arrives != lane) {
            return Err(Misfit::OtherLane.into());
        }
        if stripe.ready_up_to(flow.after, kept) < end {
            return Err(Misfit::TooEarly.into());
        }
        let source = stripe.sources.get_mut(at).ok_or(Defect::here())?;
        source.arrives_on = Some(lane);
        let flow = stripe.flows.get_mut(step).ok_or(Defect::here())?;
        flow.rest.start = end;
        Ok((to_memory(&(header.offset..end))?, flow.handling, at))
    }

    /// Takes in the payload of an announced frame.
    pub(crate) fn accept(
        &mut self,
        incoming: IncomingFrame,
        buffers: &mut UserBuffers<'_>,
    ) -> Result<(), Defect> {
        let (number, handling, range) =
            (incoming.stripe, incoming.handling, incoming.range.clone());
        let (length, flags, source) = (incoming.length, incoming.flags, incoming.source);
        let sum = incoming.sum.filter(|_| !handling.action.adds());
        let bytes = range.len() as u64;
        let body = self.process(incoming, buffers)?;
        if handling.comes_back {
            self.window.come_back(bytes, flags);
        }
        let stripe = self
            .stripes
            .get_mut(usize::from(number))
            .ok_or(Defect::here())?;
        let source = stripe.sources.get_mut(source).ok_or(Defect::here())?;
        source.to_receive = source.to_receive.saturating_sub(bytes);
        if handling.sent_at_once {
            source.at_once = source.at_once.saturating_sub(bytes);
        }
        let (_, places) = handling.onward;
        let Some(last) = places.checked_sub(1) else {
            self.recycle(body);
            return Ok(());
        };
        for nth in 0..last {
            let onward = self.onward(number, handling, nth)?;
            let copy = self.duplicate(&body, length)?;
            self.forward((number, onward), &range, (length, flags, sum), copy)?;
        }
        let onward = self.onward(number, handling, last)?;
        self.forward((number, onward), &range, (length, flags, sum), body)
    }

    /// Puts a frame where it goes on.
    fn forward(
        &mut self,
        (number, onward): (u16, Onward),
        range: &Range<usize>,
        (length, flags, sum): (usize, u16, Option<PayloadSum>),
        body: Body,
    ) -> Result<(), Defect> {
        let mut header = self.header(number, onward.step, range.start, length)?;
        header.flags |= flags;
        header.sum = sum;
        let outgoing = OutgoingFrame { header, body };
        let bytes = range.len() as u64;
        self.outlet(onward.outlet)?.push(onward, outgoing, bytes);
        Ok(())
    }

    fn onward(&self, number: u16, handling: Handling, nth: usize) -> Result<Onward, Defect> {
        let stripe = self.stripes.get(usize::from(number));
        let stripe = stripe.ok_or(Defect::here())?;
        let onward = stripe.onward_of(handling).get(nth);
        onward.copied().ok_or(Defect::here())
    }

    /// The same payload once more.
    fn duplicate(&mut self, body: &Body, length: usize) -> Result<Body, Defect> {
        Ok(match body {
            Body::Contribution(range) => Body::Contribution(range.clone()),
            Body::Result(range) => Body::Result(range.clone()),
            Body::Aside(range) => Body::Aside(range.clone()),
            Body::Held(frame) => Body::Held(self.copied(frame.get(..length))?),
        })
    }

    /// A copy in scratch.
    pub(super) fn copied(&mut self, bytes: Option<&[u8]>) -> Result<Vec<u8>, Defect> {
        let bytes = bytes.ok_or(Defect::here())?;
        let mut frame = self.scratch.take(bytes.len());
        let copy = frame.get_mut(..bytes.len()).ok_or(Defect::here())?;
        copy.copy_from_slice(bytes);
        Ok(frame)
    }

    /// Does with a frame what the plan asks for. Returns where its payload is then.
    fn process(
        &mut self,
        incoming: IncomingFrame,
        buffers: &mut UserBuffers<'_>,
    ) -> Result<Body, Defect> {
        let (number, handling, range) = (incoming.stripe, incoming.handling, incoming.range);
        match (incoming.landing, handling.action) {
            (Landing::Result, _) => Ok(Body::Result(range)),
            (Landing::Scratch(frame), Action::Keep { sum, turn }) => {
                self.keep((number, sum, turn), &range, &frame, buffers)?;
                Ok(Body::Held(frame))
            }
            (Landing::Scratch(frame), _) if self.coding.is_some() => {
                self.take_in_encoded(handling, &range, incoming.length, frame, buffers)
            }
            (Landing::Scratch(frame), Action::Combine | Action::Complete) => {
                let onward = self.onward(number, handling, 0)?;
                self.combine(onward, handling.action, (&range, frame), buffers)
            }
            (Landing::Scratch(frame), Action::Pass) => {
                let onward = self.onward(number, handling, 0)?;
                self.pass(onward, &range, frame, buffers)
            }
            (Landing::Scratch(frame), Action::Finish) => {
                self.finish(handling.slot, &range, frame, buffers)
            }
            // Such frames land in the result.
            (Landing::Scratch(_), Action::Copy) => Err(Defect::here()),
        }
    }

    /// Adds the own contribution to a frame, which goes on.
    fn combine(
        &mut self,
        onward: Onward,
        action: Action,
        (range, mut frame): (&Range<usize>, Vec<u8>),
        buffers: &mut UserBuffers<'_>,
    ) -> Result<Body, Defect> {
        let sums = self.sums;
        let is_held = self.outlet(onward.outlet)?.held < HELD_MAX;
        let arrived = frame.get_mut(..range.len()).ok_or(Defect::here())?;
        let sum = if is_held {
            let own = buffers.contribution(range.clone()).ok_or(Defect::here())?;
            pccl_kernels::reduce(sums.element, sums.op, arrived, own)?;
            arrived
        } else {
            let (own, aside) = buffers.set_aside(range.clone()).ok_or(Defect::here())?;
            pccl_kernels::reduce_into(sums.element, sums.op, aside, arrived, own)?;
            aside
        };
        if action.completes() {
            sums.divide(sum)?;
        }
        Ok(self.held_or_aside(is_held, range, frame))
    }

    /// A frame that is nothing to this rank goes on. Of each element it has one at a time, so the memory that is set
    /// aside for it is enough.
    fn pass(
        &mut self,
        onward: Onward,
        range: &Range<usize>,
        frame: Vec<u8>,
        buffers: &mut UserBuffers<'_>,
    ) -> Result<Body, Defect> {
        let is_held = self.outlet(onward.outlet)?.held < HELD_MAX;
        if !is_held {
            let (_, aside) = buffers.set_aside(range.clone()).ok_or(Defect::here())?;
            aside.copy_from_slice(frame.get(..range.len()).ok_or(Defect::here())?);
        }
        Ok(self.held_or_aside(is_held, range, frame))
    }

    fn held_or_aside(&mut self, is_held: bool, range: &Range<usize>, frame: Vec<u8>) -> Body {
        if is_held {
            return Body::Held(frame);
        }
        self.scratch.put(frame);
        Body::Aside(range.clone())
    }

    /// Adds the own contribution to a frame that lacks nothing else.
    fn finish(
        &mut self,
        slot: usize,
        range: &Range<usize>,
        frame: Vec<u8>,
        buffers: &mut UserBuffers<'_>,
    ) -> Result<Body, Defect> {
        let arrived = frame.get(..range.len()).ok_or(Defect::here())?;
        let target = buffers.finish(slot, range.clone()).ok_or(Defect::here())?;
        self.sums.finish(target, arrived)?;
        self.scratch.put(frame);
        Ok(Body::Result(range.clone()))
    }
}

/// The bytes of a frame that is not encoded, where it has whole elements, is no longer than frames are,
/// and not so short that many of them could fill the memory with what is known about each.
fn whole_elements(
    missing: u64,
    length: u32,
    (element_bytes, action): (u64, Action),
) -> Option<u64> {
    let bytes = u64::from(length);
    let long_enough = bytes >= missing.min(FRAME_PAYLOAD_MIN as u64);
    let most = match action {
        // It needs no memory of its own.
        Action::Copy => COPIED_PAYLOAD_MAX,
        Action::Combine
        | Action::Complete
        | Action::Finish
        | Action::Keep { .. }
        | Action::Pass => FRAME_PAYLOAD_MAX,
    };
    let short_enough = bytes <= most as u64;
    (long_enough && short_enough && bytes.is_multiple_of(element_bytes)).then_some(bytes)
}
