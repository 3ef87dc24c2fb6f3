//! One rank's part of a ring all-reduce, frame by frame, without any I/O.
//!
//! What arrives is checked against the schedule, reduced or stored, and put into the outbox of its
//! lane under the number of the next step; what leaves is taken from the outbox first and from the
//! rank's own contribution last. A chunk is computed along one path around the ring and its result
//! is copied from there, so all ranks end with the same bits. Small buffers take a shorter way (see
//! [`small`]).
//!
//! # Which memory a frame passes through
//!
//! A frame of the reduce phase lands in a scratch buffer, is added there, and leaves from there: it
//! never sees main memory. Where the next rank is slow and enough of them wait, the sum is written to
//! memory of the result instead, which nobody needs before. In the last step of the phase the sum is
//! written to the result; frames of the gather phase land in the result and leave from it. Frames that
//! travel encoded (see [`coded`]) always wait as they came.

use std::ops::Range;
use std::sync::Arc;

use pccl_core::element::{CollectiveSpec, ReduceOp};
use pccl_core::id::Seq;
use pccl_core::schedule::{self, Phase, Schedule};
use pccl_core::wire::FrameHeader;
use pccl_kernels::{Element, KernelError, Op};

use super::buffers::{RingBuffers, Target};
use super::gate::Share;
use super::kernel::{element_of, op_of};
use super::pool::{Pool, Scratch};
use coded::Coding;
use frame::{Body, Landing};
use small::Gathered;
use stripe::{Outlet, StripeWork};
use window::Window;

mod coded;
mod frame;
mod losses;
mod small;
mod stripe;
mod window;

pub(super) use frame::{BEYOND, Incoming, Outgoing};

pub(crate) use coded::{codec_of, is_supported};

/// Frames of one operation that wait in memory for one lane. Those beyond are set aside in the memory
/// of the result.
pub(super) const HELD_MAX: usize = 4;

/// Where this rank stands in the ring, and how many lanes each edge has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) world: u32,
    pub(super) rank: u32,
    pub(super) lanes: u16,
}

/// How much an operation puts under way at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    /// Most bytes of a frame's elements.
    pub(super) frame_bytes: usize,
    /// Bytes of the own contribution that may be on their way around the ring, over all stripes;
    /// `None`: as much as the lanes take.
    pub(super) window: Option<u64>,
    /// Frames leave this machine on the way to the next rank.
    pub(super) leaves_machine: bool,
    /// Lanes to spread the stripes over, at least one.
    pub(super) lanes: u16,
    /// A buffer of up to so many bytes travels whole. All ranks have to agree.
    pub(super) small_bytes: u64,
    /// Least bytes of a stripe. All ranks have to agree.
    pub(super) stripe_bytes: u64,
}

/// Something that does not fit: a frame that the schedule does not expect, or memory that is not as
/// long as the spec says. Nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Misfit;

impl From<KernelError> for Misfit {
    fn from(_: KernelError) -> Self {
        Self
    }
}

/// What is left to do for one operation.
pub(super) struct RingWork {
    seq: Seq,
    sums: Sums,
    coding: Option<Coding>,
    /// Where contributions travel as they are.
    gathered: Option<Gathered>,
    element_bytes: usize,
    /// Most elements of a frame of the own contribution, where it is not encoded.
    frame_elements: u64,
    world: usize,
    stripes: Vec<StripeWork>,
    /// By lane to the next rank; stripe s leaves on lane s modulo their number.
    outlets: Vec<Outlet>,
    window: Window,
    /// Flags of frames that leave, besides those with which they came.
    flags: u16,
    scratch: Scratch,
}

/// How contributions become one value.
#[derive(Clone, Copy)]
struct Sums {
    element: Element,
    op: Op,
    /// Number of contributors, where the sum is to be divided.
    average_over: Option<u32>,
}

impl RingWork {
    /// The work of one operation. `None` where the quantization does not go with the element type.
    pub(super) fn new(
        seq: Seq,
        spec: &CollectiveSpec,
        place: Place,
        pace: Pace,
        pool: &Arc<Pool>,
    ) -> Option<Self> {
        let element_bytes = spec.element.size();
        let sums = Sums {
            element: element_of(spec.element),
            op: op_of(spec.op),
            average_over: (spec.op == ReduceOp::Avg).then_some(place.world),
        };
        let coding = Coding::of(spec)?;
        let bytes = spec.count.checked_mul(element_bytes as u64)?;
        let is_small = Schedule::of(spec, place.world, pace.small_bytes) == Schedule::Whole;
        let small = usize::try_from(bytes).ok().filter(|_| is_small);
        let count = match small {
            Some(_) => 1,
            None => schedule::stripes_for(spec.count, spec.element, place.lanes, pace.stripe_bytes),
        };
        let window = match (&coding, small) {
            (Some(_), _) => Window::of_encoded(pace, pool.encoded()),
            (None, Some(_)) => Window::of_one_frame(pace),
            (None, None) => Window::of_elements(pace),
        };
        let stripe = |number| {
            if small.is_some() {
                return StripeWork::whole(place, bytes);
            }
            let elements = schedule::stripe_range(spec.count, count, number);
            StripeWork::new(place, elements, element_bytes as u64)
        };
        let lanes = pace.lanes.clamp(1, count);
        Some(Self {
            seq,
            sums,
            coding,
            gathered: small.map(|bytes| Gathered::new(bytes, place)),
            element_bytes,
            frame_elements: schedule::frame_elements(element_bytes, pace.frame_bytes),
            world: place.world as usize,
            stripes: (0..count).map(stripe).collect(),
            outlets: (0..lanes).map(|_| Outlet::default()).collect(),
            window,
            flags: if pace.leaves_machine {
                FrameHeader::LEFT_MACHINE
            } else {
                0
            },
            scratch: Scratch::new(pool),
        })
    }

    /// Changes how much of its window the own contribution may fill. Returns what it was before.
    pub(super) const fn set_share(&mut self, share: Share) -> Share {
        self.window.set_share(share)
    }

    /// Does the ring stay on this machine, as far as frames that have been around it tell?
    pub(super) const fn is_local(&self) -> bool {
        self.window.is_local()
    }

    /// On how many lanes frames leave: those with the lowest numbers.
    pub(super) fn lanes(&self) -> u16 {
        u16::try_from(self.outlets.len()).unwrap_or(u16::MAX)
    }

    /// In how many sequences of adjoining pieces the result is written.
    pub(super) fn slots(&self) -> usize {
        self.stripes.len() * self.world
    }

    /// May anything that has to arrive come on this lane?
    pub(super) fn expects(&self, lane: u16) -> bool {
        self.stripes.iter().any(|stripe| {
            stripe.to_receive > 0 && stripe.arrives_on.is_none_or(|arrives| arrives == lane)
        })
    }

    /// Does anything have to arrive?
    pub(super) fn expects_any(&self) -> bool {
        self.stripes.iter().any(|stripe| stripe.to_receive > 0)
    }

    /// Has anything to leave on this lane that may leave?
    pub(super) fn has_outgoing(&self, lane: u16) -> bool {
        let outlet = self.outlets.get(usize::from(lane));
        outlet.is_some_and(|outlet| !outlet.outbox.is_empty())
            || (self.window.is_open() && self.contributing(lane).is_some())
    }

    /// Has anything to leave on this lane, at once or later?
    pub(super) fn sends(&self, lane: u16) -> bool {
        let outlet = self.outlets.get(usize::from(lane));
        outlet.is_some_and(Outlet::sends)
            || self
                .stripes_of(lane)
                .any(|stripe| !stripe.own.is_empty() || stripe.to_receive > stripe.last_step)
    }

    /// Has anything to leave, at once or later?
    pub(super) fn sends_any(&self) -> bool {
        (0..self.lanes()).any(|lane| self.sends(lane))
    }

    /// Is there anything that may leave but has not?
    pub(super) fn waits_to_send(&self) -> bool {
        let leaving = self.outlets.iter().any(|outlet| outlet.leaving);
        leaving || (0..self.lanes()).any(|lane| self.has_outgoing(lane))
    }

    /// The whole result is here, and everything that others need has left.
    pub(super) fn is_done(&self) -> bool {
        let contributed = self.stripes.iter().all(|stripe| stripe.own.is_empty());
        contributed && !self.expects_any() && !self.outlets.iter().any(Outlet::sends)
    }

    /// Takes note of a frame that is about to arrive on `lane`.
    ///
    /// The payload has to arrive, and be [`accept`](Self::accept)ed, before the next one of its lane is
    /// announced.
    pub(super) fn announce(
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
        let remaining = (expected.end - expected.start) / element_bytes;
        let bytes = match coding {
            None => Some(u64::from(header.length)),
            Some(coding) => coding
                .announced(remaining, header.length)
                .map(|elements| elements * element_bytes),
        };
        let bytes = bytes.filter(|bytes| *bytes > 0 && bytes.is_multiple_of(element_bytes));
        let end = header
            .offset
            .checked_add(bytes.ok_or(Misfit)?)
            .ok_or(Misfit)?;
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
    pub(super) fn accept(
        &mut self,
        incoming: Incoming,
        buffers: &mut RingBuffers<'_>,
    ) -> Result<(), Misfit> {
        let (number, step, range) = (incoming.stripe, incoming.step, incoming.range);
        let bytes = range.len() as u64;
        let length = incoming.length;
        let body = match incoming.landing {
            Landing::Result => Body::Result(range.clone()),
            Landing::Scratch(frame) if self.coding.is_some() => {
                self.take_in_encoded(number, step, &range, length, frame, buffers)?
            }
            Landing::Scratch(frame) if self.gathered.is_some() => {
                self.gather(step, &range, &frame, buffers)?;
                Body::Held(frame)
            }
            Landing::Scratch(frame) => self.take_in(number, step, &range, frame, buffers)?,
        };
        if step as usize + 1 == self.world {
            self.window.come_back(bytes, incoming.flags);
        }
        let is_last_step = step as usize + 1 == self.steps();
        let stripe = self.stripes.get_mut(usize::from(number)).ok_or(Misfit)?;
        stripe.to_receive = stripe.to_receive.saturating_sub(bytes);
        if is_last_step {
            stripe.last_step = stripe.last_step.saturating_sub(bytes);
            self.recycle(body);
        } else {
            let mut header = self.header(number, step + 1, range.start, length)?;
            header.flags |= incoming.flags;
            self.outlet_of(number)?.push(Outgoing { header, body });
        }
        Ok(())
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

    /// The next frame to leave on `lane`, or `None` where nothing may leave. What was received goes
    /// before the own contribution. It has to be handed back when it [`has_left`](Self::has_left).
    pub(super) fn next_out(
        &mut self,
        lane: u16,
        buffers: &RingBuffers<'_>,
    ) -> Result<Option<Outgoing>, Misfit> {
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
    fn contributing(&self, lane: u16) -> Option<u16> {
        let stripes = (0..).zip(&self.stripes).skip(usize::from(lane));
        let mut stripes = stripes.step_by(self.outlets.len().max(1));
        let of_lane = stripes.find(|(_, stripe)| !stripe.own.is_empty());
        of_lane.map(|(number, _)| number)
    }

    /// The next frame of the own contribution.
    fn contribute(&mut self, number: u16, buffers: &RingBuffers<'_>) -> Result<Outgoing, Misfit> {
        let limit = match &self.coding {
            Some(_) => Coding::FRAME_ELEMENTS,
            None => self.frame_elements,
        };
        let limit = limit.saturating_mul(self.element_bytes as u64);
        let stripe = self.stripes.get_mut(usize::from(number)).ok_or(Misfit)?;
        let mut frames = schedule::frames(stripe.own.clone(), limit);
        let frame = frames.next().ok_or(Misfit)?;
        stripe.own.start = frame.end;
        self.window.leave(frame.end - frame.start);
        let range = to_memory(&frame)?;
        let (body, length) = match &self.coding {
            None if self.gathered.is_some() => {
                (self.copy_contribution(&range, buffers)?, range.len())
            }
            None => (Body::Contribution(range.clone()), range.len()),
            Some(_) => self.encode_contribution(&range, buffers)?,
        };
        let header = self.header(number, 0, range.start, length)?;
        Ok(Outgoing { header, body })
    }

    /// The payload of a leaving frame.
    pub(super) fn payload<'a>(
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
    pub(super) fn has_left(&mut self, lane: u16, outgoing: Outgoing) {
        if let Some(outlet) = self.outlets.get_mut(usize::from(lane)) {
            outlet.leaving = false;
        }
        self.recycle(outgoing.body);
    }

    fn recycle(&mut self, body: Body) {
        match body {
            Body::Held(frame) => self.scratch.put(frame),
            Body::Contribution(_) | Body::Result(_) | Body::Aside(_) => {}
        }
    }

    fn header(
        &self,
        stripe: u16,
        step: u32,
        at: usize,
        length: usize,
    ) -> Result<FrameHeader, Misfit> {
        Ok(FrameHeader {
            seq: self.seq,
            offset: at as u64,
            length: u32::try_from(length).map_err(|_| Misfit)?,
            step,
            stripe,
            flags: self.flags,
        })
    }

    /// Where frames of a stripe leave.
    fn outlet_of(&mut self, stripe: u16) -> Result<&mut Outlet, Misfit> {
        let lanes = self.outlets.len();
        let outlet = self.outlets.get_mut(usize::from(stripe) % lanes.max(1));
        outlet.ok_or(Misfit)
    }

    fn stripes_of(&self, lane: u16) -> impl Iterator<Item = &StripeWork> {
        let stripes = self.stripes.iter().skip(usize::from(lane));
        stripes.step_by(self.outlets.len().max(1))
    }

    /// Steps around the ring.
    fn steps(&self) -> usize {
        let stripe = self.stripes.first();
        stripe.map_or(0, |stripe| stripe.expected.len())
    }

    fn phase_of(&self, step: u32) -> Phase {
        if (step as usize) + 1 < self.world {
            Phase::Reduce
        } else {
            Phase::Gather
        }
    }

    /// Does this step bring a chunk that lacks nothing but the own contribution?
    fn finishes(&self, step: u32) -> bool {
        step as usize + 2 == self.world
    }

    /// The slot of a step in which parts of the result are written.
    fn slot(&self, stripe: u16, step: u32) -> usize {
        let first = self.world.saturating_sub(2);
        usize::from(stripe) * self.world + (step as usize).saturating_sub(first)
    }

    /// Received frames that wait in memory of their own.
    #[cfg(test)]
    pub(super) fn held(&self, lane: u16) -> usize {
        self.outlets[usize::from(lane)].held
    }

    /// Received frames that wait in the memory of the result.
    #[cfg(test)]
    pub(super) fn set_aside(&self, lane: u16) -> usize {
        let waiting = self.outlets[usize::from(lane)].outbox.iter();
        waiting
            .filter(|out| matches!(out.body, Body::Aside(_)))
            .count()
    }
}

impl Sums {
    /// Computes a part of the result from what arrived and the own contribution.
    fn finish(self, target: Target<'_>, arrived: &[u8]) -> Result<(), Misfit> {
        let Self { element, op, .. } = self;
        let result = match target {
            Target::Same { data, saved } => {
                pccl_kernels::reduce_saving(element, op, data, arrived, saved)?;
                data
            }
            Target::Apart { own, result } => {
                pccl_kernels::reduce_into(element, op, result, arrived, own)?;
                result
            }
        };
        if let Some(contributors) = self.average_over {
            pccl_kernels::divide(element, result, contributors)?;
        }
        Ok(())
    }
}

/// A range of the buffer as positions in memory.
fn to_memory(range: &Range<u64>) -> Result<Range<usize>, Misfit> {
    match (usize::try_from(range.start), usize::try_from(range.end)) {
        (Ok(start), Ok(end)) => Ok(start..end),
        (Err(_), _) | (_, Err(_)) => Err(Misfit),
    }
}
