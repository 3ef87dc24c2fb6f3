//! Frames that arrive: checked against the schedule, reduced or stored, and put where they leave.

use std::ops::Range;

use pccl_core::schedule::Phase;
use pccl_core::wire::{FRAME_PAYLOAD_MAX, FRAME_PAYLOAD_MIN, FrameHeader};

use super::super::buffers::RingBuffers;
use super::frame::{BEYOND, Body, Incoming, Landing, Outgoing};
use super::{HELD_MAX, Misfit, RingWork, to_memory};

impl RingWork {
    /// Takes note of a frame that is about to arrive on `lane`.
    ///
    /// The payload has to arrive, and be [`accept`](Self::accept)ed, before the next one of its lane is
    /// announced.
    pub(in super::super) fn announce(
        &mut self,
        lane: u16,
        header: &FrameHeader,
        buffers: &mut RingBuffers<'_>,
    ) -> Result<Incoming, Misfit> {
        let range = self.expect(lane, header)?;
        let length = header.length as usize;
        let stays = self.coding.is_some() || self.gathered.is_some();
        let landing = if stays || self.phase_of(header.step) == Phase::Reduce {
            Landing::Scratch(self.scratch.take(length + BEYOND))
        } else {
            let slot = self.slot(header.stripe, header.step);
            buffers.overwrite(slot, range.clone()).ok_or(Misfit)?;
            Landing::Result
        };
        Ok(Incoming {
            stripe: header.stripe,
            step: header.step,
            range,
            length,
            flags: header.flags,
            landing,
        })
    }

    /// Is this frame the next one of its step? Takes it out of what is expected.
    fn expect(&mut self, lane: u16, header: &FrameHeader) -> Result<Range<usize>, Misfit> {
        let (world, element_bytes) = (self.world, self.element_bytes as u64);
        let coding = self.coding.as_ref();
        let stripe = self.stripes.get_mut(usize::from(header.stripe));
        let stripe = stripe.ok_or(Misfit)?;
        let step = usize::try_from(header.step).map_err(|_| Misfit)?;
        let expected = stripe.expected.get(step).ok_or(Misfit)?.clone();
        let missing = expected.end - expected.start;
        let bytes = match coding {
            None => whole_elements(missing, header.length, element_bytes),
            Some(coding) => coding
                .announced(missing / element_bytes, header.length)
                .map(|elements| elements * element_bytes),
        };
        let bytes = bytes.filter(|bytes| *bytes > 0).ok_or(Misfit)?;
        let end = header.offset.checked_add(bytes).ok_or(Misfit)?;
        let fits = header.offset == expected.start && end <= expected.end;
        let strays = stripe.arrives_on.is_some_and(|arrives| arrives != lane);
        if strays || !fits || stripe.contributed(step, world) < end {
            return Err(Misfit);
        }
        stripe.arrives_on = Some(lane);
        stripe.expected.get_mut(step).ok_or(Misfit)?.start = end;
        to_memory(&(header.offset..end))
    }

    /// Takes in the payload of an announced frame.
    pub(in super::super) fn accept(
        &mut self,
        incoming: Incoming,
        buffers: &mut RingBuffers<'_>,
    ) -> Result<(), Misfit> {
        let (number, step, range) = (incoming.stripe, incoming.step, incoming.range.clone());
        let (length, flags) = (incoming.length, incoming.flags);
        let bytes = range.len() as u64;
        let body = self.process(incoming, buffers)?;
        if step as usize + 1 == self.world {
            self.window.come_back(bytes, flags);
        }
        let is_last_step = step as usize + 1 == self.steps();
        let stripe = self.stripes.get_mut(usize::from(number)).ok_or(Misfit)?;
        stripe.to_receive = stripe.to_receive.saturating_sub(bytes);
        if is_last_step {
            stripe.last_step = stripe.last_step.saturating_sub(bytes);
            self.recycle(body);
        } else {
            let mut header = self.header(number, step + 1, range.start, length)?;
            header.flags |= flags;
            self.outlet_of(number)?.push(Outgoing { header, body });
        }
        Ok(())
    }

    /// Does with a frame what its step asks for. Returns where its payload is then.
    fn process(
        &mut self,
        incoming: Incoming,
        buffers: &mut RingBuffers<'_>,
    ) -> Result<Body, Misfit> {
        let (number, step, range) = (incoming.stripe, incoming.step, incoming.range);
        match incoming.landing {
            Landing::Result => Ok(Body::Result(range)),
            Landing::Scratch(frame) if self.coding.is_some() => {
                self.take_in_encoded(number, step, &range, incoming.length, frame, buffers)
            }
            Landing::Scratch(frame) if self.gathered.is_some() => {
                self.gather(step, &range, &frame, buffers)?;
                Ok(Body::Held(frame))
            }
            Landing::Scratch(frame) => self.take_in(number, step, &range, frame, buffers),
        }
    }

    /// Adds the own contribution to a frame.
    fn take_in(
        &mut self,
        stripe: u16,
        step: u32,
        range: &Range<usize>,
        mut frame: Vec<u8>,
        buffers: &mut RingBuffers<'_>,
    ) -> Result<Body, Misfit> {
        let sums = self.sums;
        let arrived = frame.get_mut(..range.len()).ok_or(Misfit)?;
        let held = self.outlet_of(stripe)?.held;
        if self.finishes(step) {
            let slot = self.slot(stripe, step);
            let target = buffers.finish(slot, range.clone()).ok_or(Misfit)?;
            sums.finish(target, arrived)?;
            self.scratch.put(frame);
            Ok(Body::Result(range.clone()))
        } else if held < HELD_MAX {
            let own = buffers.contribution(range.clone()).ok_or(Misfit)?;
            pccl_kernels::reduce(sums.element, sums.op, arrived, own)?;
            Ok(Body::Held(frame))
        } else {
            let (own, aside) = buffers.set_aside(range.clone()).ok_or(Misfit)?;
            pccl_kernels::reduce_into(sums.element, sums.op, aside, arrived, own)?;
            self.scratch.put(frame);
            Ok(Body::Aside(range.clone()))
        }
    }
}

/// The bytes of a frame that is not encoded, where it has whole elements, is no longer than frames are,
/// and not so short that many of them could fill the memory with what is known about each.
fn whole_elements(missing: u64, length: u32, element_bytes: u64) -> Option<u64> {
    let bytes = u64::from(length);
    let long_enough = bytes >= missing.min(FRAME_PAYLOAD_MIN as u64);
    let short_enough = bytes <= FRAME_PAYLOAD_MAX as u64;
    (long_enough && short_enough && bytes.is_multiple_of(element_bytes)).then_some(bytes)
}
