//! One rank's part of a ring all-reduce, frame by frame, without any I/O.
//!
//! What arrives is checked against the schedule, reduced or stored, and put into the outbox of its
//! lane under the number of the next step; what leaves is taken from the outbox first and from the
//! rank's own contribution last. A chunk is computed along one path around the ring and its result
//! is copied from there, so all ranks end with the same bits.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use pccl_core::element::{CollectiveSpec, ReduceOp};
use pccl_core::id::Seq;
use pccl_core::schedule::{self, Phase};
use pccl_core::wire::FrameHeader;
use pccl_kernels::{Element, KernelError, Op};

use super::buffers::RingBuffers;
use super::kernel::{element_of, op_of};
use super::pool::{Frame, Pool};

/// Frames of one operation that wait in memory for one lane. Those beyond are set aside in the memory
/// of the result.
pub(super) const HELD_MAX: usize = 4;

/// Frames of one operation that may be in one lane's queue or on their way into it.
const IN_FLIGHT_MAX: usize = 4;

/// Where this rank stands in the ring, and how many lanes each edge has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) world: u32,
    pub(super) rank: u32,
    pub(super) lanes: u16,
}

/// Something that does not fit: a frame that the schedule does not expect, or memory that is not as
/// long as the spec says. Nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Misfit;

impl From<KernelError> for Misfit {
    fn from(error: KernelError) -> Self {
        match error {
            KernelError::LengthMismatch { .. }
            | KernelError::PartialElement { .. }
            | KernelError::ZeroDivisor
            | KernelError::NotAFloat { .. }
            | KernelError::EncodedLength { .. } => Self,
        }
    }
}

/// What is left to do for one operation.
pub(super) struct RingWork {
    seq: Seq,
    element: Element,
    op: Op,
    /// Number of contributors, where the sum is to be divided.
    average_over: Option<u32>,
    element_bytes: usize,
    frame_bytes: usize,
    /// The step in which this rank receives a chunk that lacks nothing but its own contribution.
    finishing_step: u32,
    stripes: Vec<StripeWork>,
    pool: Arc<Pool>,
}

struct StripeWork {
    /// By step: the bytes that have not arrived yet.
    expected: Vec<Range<u64>>,
    /// Sum of `expected`.
    to_receive: u64,
    /// Elements of the own contribution that no frame has taken yet.
    own: Range<u64>,
    /// Received and not yet handed to the lane, oldest first.
    outbox: VecDeque<Outgoing>,
    in_flight: usize,
}

struct Outgoing {
    step: u32,
    at: usize,
    bytes: usize,
    /// `None`: the bytes are in the memory of the result.
    frame: Option<Frame>,
}

impl RingWork {
    /// The work of one operation. `None` where the element type has no kernels.
    pub(super) fn new(
        seq: Seq,
        spec: &CollectiveSpec,
        place: Place,
        frame_bytes: usize,
        pool: Arc<Pool>,
    ) -> Option<Self> {
        let stripes = schedule::stripes_for(spec.count, spec.element, place.lanes);
        let element_bytes = spec.element.size();
        let stripe = |number| schedule::stripe_range(spec.count, stripes, number);
        Some(Self {
            seq,
            element: element_of(spec.element)?,
            op: op_of(spec.op),
            average_over: (spec.op == ReduceOp::Avg).then_some(place.world),
            element_bytes,
            frame_bytes,
            finishing_step: place.world.saturating_sub(2),
            stripes: (0..stripes)
                .map(|number| StripeWork::new(place, stripe(number), element_bytes as u64))
                .collect(),
            pool,
        })
    }

    /// How many lanes the operation uses: those with the lowest numbers.
    pub(super) fn stripes(&self) -> u16 {
        u16::try_from(self.stripes.len()).unwrap_or(u16::MAX)
    }

    /// Does anything have to arrive on this lane?
    pub(super) fn expects(&self, lane: u16) -> bool {
        self.stripes
            .get(usize::from(lane))
            .is_some_and(|stripe| stripe.to_receive > 0)
    }

    /// Received frames that wait in memory of their own.
    #[cfg(test)]
    pub(super) fn held(&self, lane: u16) -> usize {
        let waiting = self.stripes[usize::from(lane)].outbox.iter();
        waiting.filter(|outgoing| outgoing.frame.is_some()).count()
    }

    /// Received frames that wait in the memory of the result.
    #[cfg(test)]
    pub(super) fn set_aside(&self, lane: u16) -> usize {
        self.stripes[usize::from(lane)].outbox.len() - self.held(lane)
    }

    /// Does anything have to arrive on any lane?
    pub(super) fn expects_any(&self) -> bool {
        self.stripes.iter().any(|stripe| stripe.to_receive > 0)
    }

    /// Is anything on its way into a lane?
    pub(super) fn sending(&self) -> bool {
        self.stripes.iter().any(|stripe| stripe.in_flight > 0)
    }

    /// Does anything have to leave that has not left?
    pub(super) fn sends_any(&self) -> bool {
        self.stripes
            .iter()
            .any(|stripe| stripe.in_flight > 0 || stripe.has_outgoing())
    }

    /// The whole result is here, and everything that others need has left.
    pub(super) fn is_done(&self) -> bool {
        !self.expects_any() && !self.sends_any()
    }

    /// Takes in what arrived on `lane`.
    pub(super) fn accept(
        &mut self,
        lane: u16,
        header: &FrameHeader,
        frame: Frame,
        buffers: &mut RingBuffers<'_>,
    ) -> Result<(), Misfit> {
        let Arrival { at, last_step } = self.expect(lane, header)?;
        let frame = match self.phase_of(header.step) {
            Phase::Reduce => self.reduce(header.step, at, frame, buffers)?,
            Phase::Gather => {
                buffers.write_result(at, frame.payload()).ok_or(Misfit)?;
                frame
            }
        };
        if !last_step {
            self.forward(lane, header.step, at, frame, buffers)?;
        }
        Ok(())
    }

    /// The next frame to leave on `lane`, or `None` where there is none or enough are on their way.
    /// What was received goes before the own contribution.
    pub(super) fn next_out(
        &mut self,
        lane: u16,
        buffers: &RingBuffers<'_>,
    ) -> Result<Option<(FrameHeader, Frame)>, Misfit> {
        let Some(stripe) = self.stripes.get_mut(usize::from(lane)) else {
            return Ok(None);
        };
        if stripe.in_flight >= IN_FLIGHT_MAX {
            return Ok(None);
        }
        let (step, at, frame) = if let Some(outgoing) = stripe.outbox.pop_front() {
            let (step, at) = (outgoing.step, outgoing.at);
            (step, at, outgoing.into_frame(&self.pool, buffers)?)
        } else if let Some(elements) =
            schedule::frames(stripe.own.clone(), self.element_bytes, self.frame_bytes).next()
        {
            stripe.own.start = elements.end;
            let range = byte_range(&elements, self.element_bytes)?;
            let mut frame = self.pool.take();
            frame.fill(buffers.contribution(range.clone()).ok_or(Misfit)?);
            (0, range.start, frame)
        } else {
            return Ok(None);
        };
        stripe.in_flight += 1;
        let header = FrameHeader {
            seq: self.seq,
            offset: at as u64,
            length: u32::try_from(frame.payload().len()).map_err(|_| Misfit)?,
            step,
            stripe: lane,
            flags: 0,
        };
        Ok(Some((header, frame)))
    }

    /// A frame has gone into the lane.
    pub(super) fn sent(&mut self, lane: u16) {
        if let Some(stripe) = self.stripes.get_mut(usize::from(lane)) {
            stripe.in_flight = stripe.in_flight.saturating_sub(1);
        }
    }

    /// Is this frame the next one of its step? Counts it as received where it is.
    fn expect(&mut self, lane: u16, header: &FrameHeader) -> Result<Arrival, Misfit> {
        let length = u64::from(header.length);
        let whole = (header.length as usize).is_multiple_of(self.element_bytes);
        let stripe = self.stripes.get_mut(usize::from(lane)).ok_or(Misfit)?;
        let step = usize::try_from(header.step).map_err(|_| Misfit)?;
        let last_step = step + 1 == stripe.expected.len();
        let expected = stripe.expected.get_mut(step).ok_or(Misfit)?;
        let fits = header.offset == expected.start && length <= expected.end - expected.start;
        if header.stripe != lane || length == 0 || !whole || !fits {
            return Err(Misfit);
        }
        let at = usize::try_from(header.offset).map_err(|_| Misfit)?;
        expected.start += length;
        stripe.to_receive -= length;
        Ok(Arrival { at, last_step })
    }

    fn phase_of(&self, step: u32) -> Phase {
        if step <= self.finishing_step {
            Phase::Reduce
        } else {
            Phase::Gather
        }
    }

    /// Adds the own contribution to a frame, and keeps the result where nothing is missing any more.
    fn reduce(
        &self,
        step: u32,
        at: usize,
        mut frame: Frame,
        buffers: &mut RingBuffers<'_>,
    ) -> Result<Frame, Misfit> {
        let end = at.checked_add(frame.payload().len()).ok_or(Misfit)?;
        let own = buffers.contribution(at..end).ok_or(Misfit)?;
        pccl_kernels::reduce(self.element, self.op, frame.payload_mut(), own)?;
        if step == self.finishing_step {
            if let Some(contributors) = self.average_over {
                pccl_kernels::divide(self.element, frame.payload_mut(), contributors)?;
            }
            buffers.write_result(at, frame.payload()).ok_or(Misfit)?;
        }
        Ok(frame)
    }

    /// Puts a frame into the outbox, or only its place where the outbox holds enough.
    fn forward(
        &mut self,
        lane: u16,
        step: u32,
        at: usize,
        frame: Frame,
        buffers: &mut RingBuffers<'_>,
    ) -> Result<(), Misfit> {
        let stripe = self.stripes.get_mut(usize::from(lane)).ok_or(Misfit)?;
        let bytes = frame.payload().len();
        let frame = if stripe.outbox.len() < HELD_MAX {
            Some(frame)
        } else {
            if step < self.finishing_step {
                buffers.set_aside(at, frame.payload()).ok_or(Misfit)?;
            }
            None
        };
        stripe.outbox.push_back(Outgoing {
            step: step + 1,
            at,
            bytes,
            frame,
        });
        Ok(())
    }
}

/// A frame that was expected.
struct Arrival {
    at: usize,
    last_step: bool,
}

impl StripeWork {
    fn new(place: Place, stripe: Range<u64>, element_bytes: u64) -> Self {
        let steps = schedule::steps(place.world, place.rank, stripe);
        let own = steps.clone().next().map_or(0..0, |first| first.send);
        let expected: Vec<Range<u64>> = steps
            .map(|step| step.receive)
            .map(|elements| elements.start * element_bytes..elements.end * element_bytes)
            .collect();
        Self {
            to_receive: expected.iter().map(|range| range.end - range.start).sum(),
            expected,
            own,
            outbox: VecDeque::new(),
            in_flight: 0,
        }
    }

    fn has_outgoing(&self) -> bool {
        !self.outbox.is_empty() || !self.own.is_empty()
    }
}

impl Outgoing {
    fn into_frame(self, pool: &Arc<Pool>, buffers: &RingBuffers<'_>) -> Result<Frame, Misfit> {
        if let Some(frame) = self.frame {
            return Ok(frame);
        }
        let mut frame = pool.take();
        let range = self.at..self.at + self.bytes;
        frame.fill(buffers.written(range).ok_or(Misfit)?);
        Ok(frame)
    }
}

fn byte_range(elements: &Range<u64>, element_bytes: usize) -> Result<Range<usize>, Misfit> {
    let at = |element: u64| {
        let element = usize::try_from(element).ok()?;
        element.checked_mul(element_bytes)
    };
    match (at(elements.start), at(elements.end)) {
        (Some(start), Some(end)) => Ok(start..end),
        (None, _) | (_, None) => Err(Misfit),
    }
}
