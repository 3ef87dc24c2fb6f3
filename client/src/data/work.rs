//! One rank's part of a ring all-reduce, frame by frame, without any I/O.
//!
//! What arrives is checked against the plan ([`pccl_core::plan`]). The plan says what is done with it, and
//! under which step it goes on, through the outbox of its lane; what leaves is taken from the outbox first and
//! from the rank's own contribution last. A chunk is computed along one path around the ring and its result is
//! copied from there, so all ranks end with the same bits. Small buffers take a shorter way (see [`small`]).
//!
//! # Which memory a frame passes through
//!
//! A frame that is combined lands in a scratch buffer, is added there, and leaves from there: it
//! never sees main memory. Where the next rank is slow and enough of them wait, the sum is written to
//! memory of the result instead, which nobody needs before. What is finished is written to the result;
//! frames that are copied land in the result and leave from it. Frames that
//! travel encoded (see [`coded`]) always wait as they came.

use std::ops::Range;
use std::sync::Arc;

use pccl_core::element::CollectiveSpec;
use pccl_core::id::Seq;
use pccl_core::plan::{self, Algorithm, Plan};
use pccl_core::wire::FrameHeader;

use super::gate::Share;
use super::pool::{Pool, Scratch};
use coded::Coding;
use frame::Body;
use small::Gathered;
use stripe::{Outlet, StripeWork};
use sums::Sums;
use window::Window;

mod arriving;
mod coded;
mod fault;
mod frame;
mod leaving;
mod losses;
mod small;
mod stripe;
mod sums;
mod window;

pub use fault::Defect;
pub(super) use fault::{Misfit, NotTaken};
pub(super) use frame::{BEYOND, Incoming, Outgoing};

pub(crate) use coded::{codec_of, is_supported};

/// Frames of one operation that wait in memory for one lane. Those beyond are set aside in the memory
/// of the result.
pub(super) const HELD_MAX: usize = 4;

/// Where this rank stands in the ring, and for how many lanes buffers are cut: those of the edge that has
/// the most.
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
    /// Lanes to the next rank to spread the stripes over, at least one. Fewer than stripes where the edge
    /// has fewer than others of the ring, or one is enough.
    pub(super) lanes: u16,
    /// A buffer of up to so many bytes travels whole. All ranks have to agree.
    pub(super) small_bytes: u64,
    /// Least bytes of a stripe. All ranks have to agree.
    pub(super) stripe_bytes: u64,
}

impl Pace {
    /// Flags of frames that leave, besides those with which they came.
    const fn flags(self) -> u16 {
        if self.leaves_machine {
            FrameHeader::LEFT_MACHINE
        } else {
            0
        }
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
        let coding = Coding::of(spec)?;
        let bytes = spec.count.checked_mul(element_bytes as u64)?;
        let algorithm = Algorithm::of(spec, place.world, pace.small_bytes);
        let plan = Plan::new(algorithm, place.world, place.rank)?;
        let stripes = StripeWork::all(spec, plan, place, pace.stripe_bytes)?;
        let (gathered, window) = match (&coding, plan.own_turn()) {
            (Some(_), _) => (None, Window::of_encoded(pace, pool.encoded())),
            (None, Some(own_turn)) => {
                let gathered = Gathered::new(usize::try_from(bytes).ok()?, own_turn);
                (Some(gathered), Window::of_one_frame(pace))
            }
            (None, None) => (None, Window::of_elements(pace)),
        };
        let lanes = usize::from(pace.lanes).clamp(1, stripes.len());
        Some(Self {
            seq,
            sums: Sums::of(spec, place.world),
            coding,
            gathered,
            element_bytes,
            frame_elements: plan::frame_elements(element_bytes, pace.frame_bytes),
            world: place.world as usize,
            stripes,
            outlets: (0..lanes).map(|_| Outlet::default()).collect(),
            window,
            flags: pace.flags(),
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
        // All kept contributions become one piece at the end.
        let of_kept = usize::from(self.gathered.is_some());
        of_kept + self.stripes.iter().map(StripeWork::slots).sum::<usize>()
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
        self.outlets.get(usize::from(lane)).is_some_and(|outlet| {
            let contributes = self.window.is_open() && self.contributing(lane).is_some();
            contributes || !outlet.outbox.is_empty()
        })
    }

    /// Has anything to leave on this lane, at once or later?
    pub(super) fn sends(&self, lane: u16) -> bool {
        let unsent = |stripe: &StripeWork| !stripe.own.is_empty() || stripe.to_forward > 0;
        let outlet = self.outlets.get(usize::from(lane));
        outlet.is_some_and(|outlet| outlet.sends() || self.stripes_of(lane).any(unsent))
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

    /// Where frames of a stripe leave.
    fn outlet_of(&mut self, stripe: u16) -> Result<&mut Outlet, Defect> {
        let lanes = self.outlets.len();
        let outlet = self.outlets.get_mut(usize::from(stripe) % lanes.max(1));
        outlet.ok_or(Defect::here())
    }

    fn stripes_of(&self, lane: u16) -> impl Iterator<Item = &StripeWork> {
        let stripes = self.stripes.iter().skip(usize::from(lane));
        stripes.step_by(self.outlets.len().max(1))
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

/// A range of the buffer as positions in memory.
fn to_memory(range: &Range<u64>) -> Result<Range<usize>, Defect> {
    match (usize::try_from(range.start), usize::try_from(range.end)) {
        (Ok(start), Ok(end)) => Ok(start..end),
        (Err(_), _) | (_, Err(_)) => Err(Defect::here()),
    }
}
