//! What is left to do in one stripe, and what waits for one lane.

use std::collections::VecDeque;
use std::ops::Range;

use pccl_core::element::CollectiveSpec;
use pccl_core::plan::{self, Action, After, Algorithm, Plan, Target};

use super::Place;
use super::frame::{Body, Outgoing};

/// What arrives and what is contributed in one stripe.
pub(super) struct StripeWork {
    /// By step: the flows that arrive.
    pub(super) flows: Vec<Flow>,
    /// Bytes of elements that have not arrived.
    pub(super) to_receive: u64,
    /// How many of them go on.
    pub(super) to_forward: u64,
    /// Bytes of the own contribution that no frame has taken yet.
    pub(super) own: Range<u64>,
    /// The step under which they leave.
    pub(super) own_step: u32,
    /// The lane on which its frames arrive, which the previous rank chose with the first one. On
    /// several lanes they could overtake each other.
    pub(super) arrives_on: Option<u16>,
}

/// A flow that arrives.
pub(super) struct Flow {
    /// The bytes that have not been announced yet.
    pub(super) rest: Range<u64>,
    pub(super) after: After,
    pub(super) handling: Handling,
}

/// What is done with each frame of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handling {
    pub(super) action: Action,
    /// Where the result is written: in which sequence of adjoining pieces. Of no use if none is written.
    pub(super) slot: usize,
    /// It is of the own contribution, which has been all around the ring.
    pub(super) comes_back: bool,
    /// The step under which it goes on. `None`: it does not.
    pub(super) onward: Option<u32>,
}

impl StripeWork {
    /// All stripes of a buffer, each of at least so many bytes. `None`: the plan uses other edges than those of
    /// the ring.
    pub(super) fn all(
        spec: &CollectiveSpec,
        plan: Plan,
        place: Place,
        least: u64,
    ) -> Option<Vec<Self>> {
        let count = match plan.algorithm() {
            Algorithm::Ring => plan::stripes_for(spec.count, spec.element, place.lanes, least),
            Algorithm::Whole => 1,
        };
        let element_bytes = spec.element.size() as u64;
        let mut slots = 0..;
        (0..count)
            .map(|number| plan::stripe_range(spec.count, count, number))
            .map(|elements| Self::new(plan, &elements, element_bytes, &mut slots))
            .collect()
    }

    fn new(
        plan: Plan,
        elements: &Range<u64>,
        element_bytes: u64,
        slots: &mut impl Iterator<Item = usize>,
    ) -> Option<Self> {
        let in_bytes =
            |elements: Range<u64>| elements.start * element_bytes..elements.end * element_bytes;
        let to_next = |to: Target| (to.rank == plan.next()).then_some(to.step);
        let flows = plan.arrivals(elements).map(|flow| {
            let comes_back = flow.comes_back();
            let onward = match flow.onward {
                Some(to) => Some(to_next(to)?),
                None => None,
            };
            let slot = if flow.action.writes_result() {
                slots.next()?
            } else {
                usize::MAX
            };
            (flow.from == plan.previous()).then(|| Flow {
                rest: in_bytes(flow.range),
                after: flow.after,
                handling: Handling {
                    action: flow.action,
                    slot,
                    comes_back,
                    onward,
                },
            })
        });
        let flows: Vec<Flow> = flows.collect::<Option<_>>()?;
        let (own, own_step) = match plan.contribution(elements) {
            Some(own) => (in_bytes(own.range), to_next(own.to)?),
            None => (0..0, 0),
        };
        let forwarded = flows.iter().filter(|flow| flow.goes_on());
        Some(Self {
            to_receive: flows.iter().map(Flow::bytes).sum(),
            to_forward: forwarded.map(Flow::bytes).sum(),
            flows,
            own,
            own_step,
            arrives_on: None,
        })
    }

    /// How many of its flows write parts of the result.
    pub(super) fn slots(&self) -> usize {
        let writes = |flow: &&Flow| flow.handling.action.writes_result();
        self.flows.iter().filter(writes).count()
    }

    /// Up to which byte what arrives may overwrite the buffer. Without this check a neighbour could have
    /// the own contribution overwritten before it was used.
    pub(super) fn ready_up_to(&self, after: After) -> u64 {
        match after {
            After::Nothing => u64::MAX,
            After::Contribution => self.own.start,
            After::Arrival(step) => {
                let flow = self.flows.get(step as usize);
                flow.map_or(0, |flow| flow.rest.start)
            }
        }
    }
}

impl Flow {
    const fn bytes(&self) -> u64 {
        self.rest.end - self.rest.start
    }

    const fn goes_on(&self) -> bool {
        self.handling.onward.is_some()
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
