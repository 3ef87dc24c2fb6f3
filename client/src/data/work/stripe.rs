//! What is left to do in one stripe, and what waits for one lane.

use std::collections::VecDeque;
use std::ops::Range;

use pccl_core::element::CollectiveSpec;
use pccl_core::schedule;

use super::Place;
use super::frame::{Body, Outgoing};

/// What arrives and what is contributed in one stripe.
pub(super) struct StripeWork {
    /// By step: the bytes that have not been announced yet.
    pub(super) expected: Vec<Range<u64>>,
    /// Bytes of elements that have not arrived.
    pub(super) to_receive: u64,
    /// How many of them arrive in the last step, and are not forwarded.
    pub(super) last_step: u64,
    /// Bytes of the own contribution that no frame has taken yet.
    pub(super) own: Range<u64>,
    /// The lane on which its frames arrive, which the previous rank chose with the first one. On
    /// several lanes they could overtake each other.
    pub(super) arrives_on: Option<u16>,
}

impl StripeWork {
    /// All stripes of a buffer, each of at least so many bytes.
    pub(super) fn all(spec: &CollectiveSpec, place: Place, least_bytes: u64) -> Vec<Self> {
        let count = schedule::stripes_for(spec.count, spec.element, place.lanes, least_bytes);
        let stripes = (0..count).map(|number| schedule::stripe_range(spec.count, count, number));
        let element_bytes = spec.element.size() as u64;
        stripes
            .map(|elements| Self::new(place, elements, element_bytes))
            .collect()
    }

    fn new(place: Place, elements: Range<u64>, element_bytes: u64) -> Self {
        let in_bytes =
            |elements: Range<u64>| elements.start * element_bytes..elements.end * element_bytes;
        let steps = schedule::steps(place.world, place.rank, elements);
        let own = steps.clone().next().map_or(0..0, |first| first.send);
        let expected: Vec<Range<u64>> = steps.map(|step| in_bytes(step.receive)).collect();
        Self {
            to_receive: expected.iter().map(|range| range.end - range.start).sum(),
            last_step: expected.last().map_or(0, |last| last.end - last.start),
            expected,
            own: in_bytes(own),
            arrives_on: None,
        }
    }

    /// Up to which byte of the chunk that arrives in `step` this rank has contributed: no result can
    /// be longer than that. Without this check a neighbour could have the own contribution overwritten
    /// before it was used.
    pub(super) fn contributed(&self, step: usize, world: usize) -> u64 {
        match step.checked_sub(world) {
            Some(reduced_in) => self.expected.get(reduced_in).map_or(0, |range| range.start),
            None if step + 1 == world => self.own.start,
            None => u64::MAX,
        }
    }
}

/// What leaves on one lane.
#[derive(Default)]
pub(super) struct Outlet {
    /// Received and not yet on its way, oldest first.
    pub(super) outbox: VecDeque<Outgoing>,
    /// How many in the outbox are [`Body::Held`].
    pub(super) held: usize,
    /// A frame was taken for the lane and has not left.
    pub(super) leaving: bool,
}

impl Outlet {
    pub(super) fn push(&mut self, outgoing: Outgoing) {
        self.held += usize::from(matches!(outgoing.body, Body::Held(_)));
        self.outbox.push_back(outgoing);
    }

    pub(super) fn pop(&mut self) -> Option<Outgoing> {
        let outgoing = self.outbox.pop_front()?;
        self.held -= usize::from(matches!(outgoing.body, Body::Held(_)));
        Some(outgoing)
    }

    /// Is anything here, or on its way into the lane?
    pub(super) fn sends(&self) -> bool {
        self.leaving || !self.outbox.is_empty()
    }
}
