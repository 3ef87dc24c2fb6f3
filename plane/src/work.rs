//! One rank's part of a collective, frame by frame, without any I/O.
//!
//! What arrives is checked against the plan ([`pccl_core::plan`]). The plan says what is done with it, and to
//! whom it goes on under which step, through the outbox of a lane; what leaves is taken from the outbox first and
//! from the rank's own contributions last. A chunk is computed along one path, or by one rank, and its result is
//! copied from there, so all ranks end with the same bits. What is computed by every rank is added in the same
//! order by all (see [`kept`]).
//!
//! An *outlet* is a lane on which frames of the operation leave. Outlets have numbers: those of the lanes in a
//! ring, and else one for each rank that is sent to.
//!
//! # Which memory a frame passes through
//!
//! A frame that is combined lands in a scratch buffer, is added there, and leaves from there: it
//! never sees main memory. Where the next rank is slow and enough of them wait, the sum is written to
//! memory of the result instead, which nobody needs before. So it is with what is only passed on. What is finished is
//! written to the result;
//! frames that are copied land in the result and leave from it. Frames that
//! travel encoded (see [`coded`]) always wait as they came.

use std::ops::Range;
use std::sync::Arc;

use pccl_core::element::{CollectiveKind, CollectiveSpec};
use pccl_core::id::Seq;
use pccl_core::plan::{self, Algorithm, Plan, Shards, Turns};
use pccl_core::site::Sites;
use pccl_core::wire::FrameHeader;

use crate::memory::{Pool, Scratch};
use crate::pace::{ENCODED_FRAME_ELEMENTS, Pace, Share, Window};
use coded::Coding;
#[cfg(test)]
use frame::Body;
use kept::{Form, Kept};
use stripe::{Exits, Flow, Outlet, Own, Source, StripeWork};
use sums::Sums;

mod arriving;
mod coded;
mod fault;
mod frame;
mod kept;
mod kernel;
mod leaving;
mod losses;
mod stripe;
mod sums;

pub use fault::Defect;
pub(crate) use fault::{Misfit, NotTaken};
pub(crate) use frame::{BEYOND, IncomingFrame, OutgoingFrame};

pub(crate) use coded::codec_of;
pub use coded::is_supported;
pub(crate) use kernel::element_of;

/// Where this rank stands among the others, and for how many lanes buffers are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) world: u32,
    pub(crate) rank: u32,
    pub(crate) lanes: u16,
}

/// A rank that is sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exit {
    pub(crate) rank: u32,
    /// Frames leave this machine on the way there.
    pub(crate) leaves_machine: bool,
    /// Lanes to spread the stripes over, at least one. Fewer than stripes where the link has fewer than
    /// others have, or fewer carry as much.
    pub(crate) lanes: Vec<u16>,
}

impl Exit {
    /// Flags of frames that leave, besides those with which they came.
    const fn flags(&self) -> u16 {
        if self.leaves_machine {
            FrameHeader::LEFT_MACHINE
        } else {
            0
        }
    }
}

/// Which operation it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task<'a> {
    pub(crate) seq: Seq,
    pub(crate) spec: &'a CollectiveSpec,
    /// What is done with the buffers, by rank.
    pub(crate) kind: CollectiveKind<u32>,
    pub(crate) shards: &'a Shards,
    /// Where the ranks are.
    pub(crate) sites: &'a Sites,
    /// When the contribution of each rank is added.
    pub(crate) turns: &'a Turns,
    pub(crate) algorithm: Algorithm,
}

impl Task<'_> {
    /// Into how many stripes the buffer is cut.
    pub(crate) fn stripes(&self, place: Place, pace: Pace) -> u16 {
        let Self { spec, .. } = self;
        match self.algorithm {
            Algorithm::Ring
            | Algorithm::Chain
            | Algorithm::TwoLevel
            | Algorithm::TwoLevelRing
            | Algorithm::TwoLevelWhole
            | Algorithm::Relay
            | Algorithm::Tree => {
                plan::stripes_for(spec.count, spec.element, place.lanes, pace.stripe_bytes)
            }
            Algorithm::Whole(_) | Algorithm::Direct | Algorithm::Circulant => 1,
        }
    }
}

/// What is left to do for one operation.
pub(crate) struct RankWork {
    seq: Seq,
    sums: Sums,
    coding: Option<Coding>,
    /// The sums of which terms are kept until all are here, stripe by stripe.
    kept: Vec<Kept>,
    /// By stripe: as which sequence of adjoining pieces the own contribution is replaced by what others decode. Empty if it
    /// is not.
    adopted: Vec<usize>,
    element_bytes: usize,
    /// Most elements of a frame of the own contribution, where it is not encoded.
    frame_elements: u64,
    stripes: Vec<StripeWork>,
    exits: Exits,
    /// By number.
    outlets: Vec<Outlet>,
    window: Window,
    scratch: Scratch,
}

impl RankWork {
    /// The work of one operation. `None` where the quantization does not go with the element type or the
    /// algorithm, or the plan sends to a rank that is not among the exits.
    pub(crate) fn new(
        task: Task<'_>,
        place: Place,
        pace: Pace,
        to: Vec<Exit>,
        pool: &Arc<Pool>,
    ) -> Option<Self> {
        let Task {
            seq, spec, shards, ..
        } = task;
        let element_bytes = spec.element.size();
        let coding = Coding::of(spec)?;
        if coding.is_some() && !task.algorithm.carries_encoded() {
            return None;
        }
        spec.count.checked_mul(element_bytes as u64)?;
        let plan = Plan::among(task.kind, task.algorithm, task.sites, place.rank)?;
        let plan = plan.in_turns(task.turns)?;
        let count = task.stripes(place, pace);
        let exits = Exits::new(to, count);
        let mut slots = 0..;
        let stripes = (0..count).map(|number| {
            let stripe = (number, shards.stripe(count, number));
            StripeWork::new(plan, stripe, element_bytes as u64, &exits, &mut slots)
        });
        let stripes: Vec<StripeWork> = stripes.collect::<Option<_>>()?;
        let form = coding.as_ref().map_or(Form::Plain, Coding::form);
        let mut kept = Vec::new();
        for number in 0..count {
            let stripe = (number, shards.stripe(count, number));
            kept.extend(Kept::all_of(
                plan,
                stripe,
                (element_bytes, form),
                &exits,
                &mut slots,
            )?);
        }
        let is_adopted = coding.is_some() && !task.kind.reduces();
        let adopted = stripes.iter().filter(|_| is_adopted).map(|stripe| {
            // A frame is of the same elements for all ranks.
            stripe.contributes_alike().then(|| slots.next())?
        });
        let adopted = adopted.collect::<Option<_>>()?;
        let comes_back = kept.is_empty() && stripes.iter().any(StripeWork::comes_back);
        let window = match (&coding, comes_back) {
            (Some(_), true) => Window::of_encoded(pace, pool.encoded()),
            (Some(_) | None, false) => Window::unlimited(pace),
            (None, true) => Window::of_elements(pace),
        };
        let outlets = exits.outlets().map(|(exit, _)| Outlet {
            flags: exits.flags(exit),
            ..Outlet::default()
        });
        let mut work = Self {
            seq,
            sums: Sums::of(spec, place.world),
            coding,
            kept,
            adopted,
            element_bytes,
            frame_elements: plan::frame_elements(element_bytes, pace.frame_bytes),
            stripes,
            outlets: outlets.collect(),
            exits,
            window,
            scratch: Scratch::new(pool),
        };
        work.expect_all()?;
        Some(work)
    }

    /// Tells each outlet what will come to it. `None`: there is no such outlet.
    fn expect_all(&mut self) -> Option<()> {
        let Self {
            stripes,
            kept,
            outlets,
            ..
        } = self;
        let forwarded = stripes.iter().flat_map(|stripe| {
            let onward = |flow: &Flow| (stripe.onward_of(flow.handling), flow.bytes());
            stripe.flows.iter().map(onward)
        });
        for (places, bytes) in forwarded.chain(kept.iter().map(Kept::told)) {
            for onward in places {
                let outlet = outlets.get_mut(usize::from(onward.outlet))?;
                outlet.expect(*onward, bytes);
            }
        }
        Some(())
    }

    /// Changes how much of its window the own contribution may fill. Returns what it was before.
    pub(crate) const fn set_share(&mut self, share: Share) -> Share {
        self.window.set_share(share)
    }

    /// Do frames stay on this machine, as far as those tell that have come back?
    pub(crate) const fn is_local(&self) -> bool {
        self.window.is_local()
    }

    /// To which exit and on which lane each outlet leads, by its number.
    pub(crate) fn outlets(&self) -> impl Iterator<Item = (usize, u16)> + '_ {
        self.exits.outlets()
    }

    /// Into how many stripes the buffer is cut.
    pub(crate) fn stripes(&self) -> usize {
        self.stripes.len()
    }

    /// In how many sequences of adjoining pieces the result is written.
    pub(crate) fn slots(&self) -> usize {
        let of_kept = self.kept.iter().filter(|kept| kept.is_result()).count();
        self.adopted.len() + of_kept + self.stripes.iter().map(StripeWork::slots).sum::<usize>()
    }

    fn sources(&self) -> impl Iterator<Item = &Source> {
        let sources = self.stripes.iter().flat_map(|stripe| &stripe.sources);
        sources.filter(|source| source.to_receive > 0)
    }

    /// May anything that this rank has to send come on this lane?
    pub(crate) fn expects_on(&self, rank: u32, lane: u16) -> bool {
        self.sources().any(|source| {
            source.rank == rank && source.arrives_on.is_none_or(|arrives| arrives == lane)
        })
    }

    /// How many bytes of elements have to arrive from this rank.
    pub(crate) fn expected_from(&self, rank: u32) -> u64 {
        let from_there = self.sources().filter(|source| source.rank == rank);
        from_there.map(|source| source.to_receive).sum()
    }

    /// Does anything have to arrive from this rank?
    pub(crate) fn expects_from(&self, rank: u32) -> bool {
        self.sources().any(|source| source.rank == rank)
    }

    /// The step whose elements from this rank are missing, counted from 1, and the number of steps in which elements
    /// arrive. Of several stripes, the one that is furthest behind.
    pub(crate) fn step_from(&self, rank: u32) -> Option<(u32, u32)> {
        let behind = self.stripes.iter().filter_map(|stripe| {
            let source = (stripe.sources.iter())
                .position(|source| source.rank == rank && source.to_receive > 0)?;
            let steps = (1..).zip(&stripe.flows);
            let from_there = steps.filter(|(_, flow)| flow.source == source);
            let missing = from_there
                .clone()
                .find(|(_, flow)| !flow.rest.is_empty())
                .or_else(|| from_there.last());
            let (step, _) = missing?;
            Some((step, u32::try_from(stripe.flows.len()).ok()?))
        });
        behind.min()
    }

    /// The steps of which frames are missing, each with the rank that sends it. In place of the step `None`: a frame has
    /// begun to arrive, so its sender has it.
    pub(crate) fn missing(&self) -> impl Iterator<Item = (Option<u32>, u32)> + '_ {
        self.stripes.iter().flat_map(|stripe| {
            let steps = (0..).zip(&stripe.flows);
            let missing = steps.filter(|(_, flow)| !flow.rest.is_empty());
            let missing = missing.filter_map(|(step, flow)| {
                let source = stripe.sources.get(flow.source)?;
                Some((Some(step), source.rank))
            });
            let sources = (0..).zip(&stripe.sources);
            let begun = sources.filter(|(number, source)| {
                let flows = stripe.flows.iter().filter(|flow| flow.source == *number);
                source.to_receive > flows.map(Flow::bytes).sum()
            });
            missing.chain(begun.map(|(_, source)| (None, source.rank)))
        })
    }

    /// Does anything have to arrive from this rank that it sends without waiting for others? From none: then
    /// what others have to send may be missing because of any of them.
    pub(crate) fn lacks_contribution_of(&self, rank: u32) -> bool {
        self.sources()
            .any(|source| source.rank == rank && source.at_once > 0)
    }

    /// Does anything have to arrive?
    pub(crate) fn expects_any(&self) -> bool {
        self.sources().next().is_some()
    }

    /// Has anything to leave by this outlet that may leave?
    pub(crate) fn has_outgoing(&self, outlet: u16) -> bool {
        let waiting = self.outlets.get(usize::from(outlet));
        waiting.is_some_and(|waiting| waiting.has_next() || self.next_own_for(outlet).is_some())
    }

    /// Has anything to leave by this outlet, at once or later?
    pub(crate) fn sends(&self, outlet: u16) -> bool {
        let waiting = self.outlets.get(usize::from(outlet));
        waiting.is_some_and(|waiting| {
            waiting.sends() || self.stripes.iter().any(|stripe| stripe.has_for(outlet))
        })
    }

    /// Is there anything that may leave by this outlet but has not?
    pub(crate) fn waits_to_send(&self, outlet: u16) -> bool {
        let waiting = self.outlets.get(usize::from(outlet));
        waiting.is_some_and(|waiting| waiting.leaving > 0) || self.has_outgoing(outlet)
    }

    /// The whole result is here, and everything that others need has left.
    pub(crate) fn is_done(&self) -> bool {
        let contributed = self.next_own(|own| !own.rest.is_empty()).is_none();
        contributed && !self.expects_any() && !self.outlets.iter().any(Outlet::sends)
    }

    /// The first own contribution of this kind that has not left: its stripe, and its number there.
    fn next_own(&self, is_meant: impl Fn(&Own) -> bool) -> Option<(u16, usize)> {
        let is_next = |own: &Own| !own.rest.is_empty() && is_meant(own);
        let mut stripes = (0..).zip(&self.stripes);
        stripes.find_map(|(number, stripe)| {
            let nth = stripe.own.iter().position(is_next)?;
            Some((number, nth))
        })
    }

    /// The own contribution that may leave next by this outlet.
    fn next_own_for(&self, outlet: u16) -> Option<(u16, usize)> {
        let waiting = self.outlets.get(usize::from(outlet))?;
        let may_leave = |own: &Own| own.is_for(outlet) && waiting.is_complete(own.onward.with);
        self.next_own(may_leave).filter(|_| self.window.is_open())
    }

    fn outlet(&mut self, number: u16) -> Result<&mut Outlet, Defect> {
        self.outlets
            .get_mut(usize::from(number))
            .ok_or(Defect::here())
    }

    /// Most bytes of elements of a frame.
    fn piece_bytes(&self) -> u64 {
        match &self.coding {
            Some(_) => ENCODED_FRAME_ELEMENTS.saturating_mul(self.element_bytes as u64),
            None => self.frame_bytes(),
        }
    }

    /// Most bytes of a frame that is not encoded.
    const fn frame_bytes(&self) -> u64 {
        self.frame_elements
            .saturating_mul(self.element_bytes as u64)
    }

    /// Received frames that wait in memory of their own.
    #[cfg(test)]
    pub(crate) fn held(&self, lane: u16) -> usize {
        self.outlets[usize::from(lane)].held
    }

    /// Received frames that wait in the memory of the result.
    #[cfg(test)]
    pub(crate) fn set_aside(&self, lane: u16) -> usize {
        let waiting = self.outlets[usize::from(lane)].outbox.iter();
        waiting
            .filter(|(_, out)| matches!(out.body, Body::Aside(_)))
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
