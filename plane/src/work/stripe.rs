//! What is left to do in one stripe, and what waits for one lane.

use std::collections::VecDeque;
use std::ops::Range;

use pccl_core::plan::{Action, After, Arrival, Plan, Stripe, Target};

use super::Exit;
use super::frame::{Body, OutgoingFrame};
use super::kept::Kept;

/// To which ranks frames leave, and on how many lanes to each.
pub(super) struct Exits {
    /// Perhaps with more lanes than are used.
    to: Vec<Exit>,
    /// How many are used.
    lanes: u16,
}

/// Where frames of a flow leave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Onward {
    /// The step under which they do.
    pub(super) step: u32,
    /// The outlet, by its number.
    pub(super) outlet: u16,
    /// With which others: see [`Plan::leaves_with`].
    pub(super) with: Option<u32>,
}

impl Exits {
    /// To these ranks, on as many lanes to each as all have and as there are stripes.
    pub(super) fn new(to: Vec<Exit>, stripes: u16) -> Self {
        let lanes = to.iter().map(|exit| exit.lanes.len()).min();
        let lanes = lanes.and_then(|lanes| u16::try_from(lanes).ok());
        Self {
            to,
            lanes: lanes.unwrap_or(1).clamp(1, stripes.max(1)),
        }
    }

    /// To which rank, by its place among them, and on which lane each outlet leads, by its number.
    pub(super) fn outlets(&self) -> impl Iterator<Item = (usize, u16)> + '_ {
        self.to.iter().enumerate().flat_map(|(number, exit)| {
            let used = exit.lanes.iter().take(usize::from(self.lanes));
            used.map(move |lane| (number, *lane))
        })
    }

    /// Flags of frames that leave by the exit of this number.
    pub(super) fn flags(&self, exit: usize) -> u16 {
        self.to.get(exit).map_or(0, Exit::flags)
    }

    /// Where the frames of a stripe leave to a rank. `None`: there is no lane to it.
    pub(super) fn onward(&self, plan: Plan<'_>, stripe: u16, to: Target) -> Option<Onward> {
        let exit = self.to.iter().position(|exit| exit.rank == to.rank)?;
        let first = u16::try_from(exit).ok()?.checked_mul(self.lanes)?;
        Some(Onward {
            step: to.step,
            outlet: first.checked_add(stripe.checked_rem(self.lanes)?)?,
            with: plan.leaves_with(to.step),
        })
    }
}

/// What arrives and what is contributed in one stripe.
pub(super) struct StripeWork {
    /// By step: the flows that arrive.
    pub(super) flows: Vec<Flow>,
    /// The ranks that send them.
    pub(super) sources: Vec<Source>,
    /// Where they go on.
    pub(super) onward: Vec<Onward>,
    /// The own contributions.
    pub(super) own: Vec<Own>,
}

/// A rank that sends flows of a stripe.
pub(super) struct Source {
    pub(super) rank: u32,
    /// Bytes of elements that have not arrived.
    pub(super) to_receive: u64,
    /// How many of them it sends without waiting for others.
    pub(super) at_once: u64,
    /// The lane on which its frames arrive, which it chose with the first one. On several lanes they could
    /// overtake each other.
    pub(super) arrives_on: Option<u16>,
}

/// A flow of own elements.
pub(super) struct Own {
    /// Bytes that no frame has taken yet.
    pub(super) rest: Range<u64>,
    /// Where they leave.
    pub(super) onward: Onward,
    /// A result is written to the same place, perhaps before they have left.
    pub(super) is_copied: bool,
}

/// A flow that arrives.
pub(super) struct Flow {
    /// The bytes that have not been announced yet.
    pub(super) rest: Range<u64>,
    /// Who sends it: a place among the sources.
    pub(super) source: usize,
    pub(super) after: After,
    pub(super) handling: Handling,
}

/// What is done with each frame of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handling {
    pub(super) action: Action,
    /// Where the result is written: in which sequence of adjoining pieces. Of no use if none is written.
    pub(super) slot: usize,
    /// It tells how far the own contribution has come.
    pub(super) comes_back: bool,
    /// Its sender sends it without waiting for others.
    pub(super) sent_at_once: bool,
    /// Where it goes on: the first of these places among those of its stripe, and how many they are.
    pub(super) onward: (usize, usize),
}

impl Handling {
    /// Of what arrives, and goes on to these places. `None`: there are more slots than numbers.
    fn of(
        arrival: &Arrival<'_>,
        onward: (usize, usize),
        slots: &mut impl Iterator<Item = usize>,
    ) -> Option<Self> {
        let slot = if arrival.action.writes_result() {
            slots.next()?
        } else {
            usize::MAX
        };
        Some(Self {
            action: arrival.action,
            slot,
            comes_back: arrival.comes_back,
            sent_at_once: arrival.sent_at_once,
            onward,
        })
    }
}

impl StripeWork {
    /// The stripe of this number. `None`: the plan uses a link that is not here.
    pub(super) fn new(
        plan: Plan<'_>,
        (number, elements): (u16, Stripe<'_>),
        element_bytes: u64,
        exits: &Exits,
        slots: &mut impl Iterator<Item = usize>,
    ) -> Option<Self> {
        let in_bytes =
            |elements: Range<u64>| elements.start * element_bytes..elements.end * element_bytes;
        let results = plan.kept(elements).filter(|kept| kept.is_result);
        let results: Vec<Range<u64>> = results.map(|kept| kept.range).collect();
        let mut onward = Vec::new();
        let mut sources: Vec<Source> = Vec::new();
        let mut flows = Vec::with_capacity(plan.steps() as usize);
        for arrival in plan.arrivals(elements) {
            let rest = in_bytes(arrival.range.clone());
            let first = onward.len();
            for to in arrival.onward {
                onward.push(exits.onward(plan, number, to)?);
            }
            let places = (first, onward.len() - first);
            flows.push(Flow {
                source: note_source(&mut sources, arrival.from, &rest, arrival.sent_at_once),
                rest,
                after: arrival.after,
                handling: Handling::of(&arrival, places, slots)?,
            });
        }
        let own = plan.contributions(elements).map(|own| {
            Some(Own {
                is_copied: results.iter().any(|result| overlap(result, &own.range)),
                rest: in_bytes(own.range),
                onward: exits.onward(plan, number, own.to)?,
            })
        });
        Some(Self {
            own: own.collect::<Option<_>>()?,
            onward,
            sources,
            flows,
        })
    }

    /// Whether frames have taken all of the own contribution up to this byte.
    pub(super) fn has_taken_up_to(&self, end: u64) -> bool {
        self.own.iter().all(|own| own.rest.start >= end)
    }

    /// Whether this rank sends the same of its contribution to each rank that it sends any to.
    pub(super) fn contributes_alike(&self) -> bool {
        let mut pairs = self.own.iter().zip(self.own.iter().skip(1));
        pairs.all(|(one, next)| one.rest == next.rest)
    }

    /// Does anything that arrives tell how far the own contribution has come?
    pub(super) fn comes_back(&self) -> bool {
        self.flows.iter().any(|flow| flow.handling.comes_back)
    }

    /// How many of its flows write parts of the result.
    pub(super) fn slots(&self) -> usize {
        let writes = |flow: &&Flow| flow.handling.action.writes_result();
        self.flows.iter().filter(writes).count()
    }

    /// Does any of the own contribution have to leave by this outlet that no frame has taken?
    pub(super) fn has_for(&self, outlet: u16) -> bool {
        self.own.iter().any(|own| own.is_for(outlet))
    }

    /// Up to which byte what arrives may overwrite the buffer. Without this check a neighbour could have
    /// the own contribution overwritten before it was used. `kept`: the sums from the first of this stripe on.
    pub(super) fn ready_up_to(&self, after: After, kept: &[Kept]) -> u64 {
        match after {
            After::Nothing => u64::MAX,
            After::Contribution(nth) => {
                let own = self.own.get(nth as usize);
                own.map_or(0, |own| own.rest.start)
            }
            After::Arrival(step) => {
                let flow = self.flows.get(step as usize);
                flow.map_or(0, |flow| flow.rest.start)
            }
            After::Sum(number) => {
                let sum = kept.get(number as usize);
                sum.map_or(0, Kept::added_up_to)
            }
        }
    }

    /// Where frames of a flow go on.
    pub(super) fn onward_of(&self, handling: Handling) -> &[Onward] {
        let (first, count) = handling.onward;
        let places = self.onward.get(first..).unwrap_or_default();
        places.get(..count).unwrap_or_default()
    }
}

/// The place of a rank among the sources, which owes another flow.
fn note_source(sources: &mut Vec<Source>, rank: u32, owes: &Range<u64>, at_once: bool) -> usize {
    let known = sources.iter().position(|source| source.rank == rank);
    let at = known.unwrap_or_else(|| {
        sources.push(Source {
            rank,
            to_receive: 0,
            at_once: 0,
            arrives_on: None,
        });
        sources.len() - 1
    });
    if let Some(source) = sources.get_mut(at) {
        let bytes = owes.end - owes.start;
        source.to_receive += bytes;
        if at_once {
            source.at_once += bytes;
        }
    }
    at
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start.max(other.start) < one.end.min(other.end)
}

impl Own {
    /// Is there anything left that leaves by this outlet?
    pub(super) fn is_for(&self, outlet: u16) -> bool {
        self.onward.outlet == outlet && !self.rest.is_empty()
    }
}

impl Flow {
    pub(super) const fn bytes(&self) -> u64 {
        self.rest.end - self.rest.start
    }
}

/// Bytes of elements that leave together and are not there yet.
pub(super) struct Missing {
    with: Option<u32>,
    bytes: u64,
}

/// What leaves on one lane.
#[derive(Default)]
pub(super) struct Outlet {
    /// Not yet on its way, oldest first.
    pub(super) outbox: VecDeque<(Option<u32>, OutgoingFrame)>,
    /// How many in the outbox are [`Body::Held`].
    pub(super) held: usize,
    /// What will come to the outbox.
    pub(super) missing: Vec<Missing>,
    /// How many frames were taken for the lane and have not left.
    pub(super) leaving: usize,
    /// Flags of frames that leave, besides those with which they came.
    pub(super) flags: u16,
}

impl Outlet {
    /// So many bytes of elements will come.
    pub(super) fn expect(&mut self, onward: Onward, bytes: u64) {
        let with = onward.with;
        match self.missing.iter_mut().find(|known| known.with == with) {
            Some(missing) => missing.bytes += bytes,
            None => self.missing.push(Missing { with, bytes }),
        }
    }

    /// Of what was to come, so many bytes of elements are here.
    pub(super) fn push(&mut self, onward: Onward, mut outgoing: OutgoingFrame, bytes: u64) {
        let with = onward.with;
        if let Some(missing) = self.missing.iter_mut().find(|known| known.with == with) {
            missing.bytes = missing.bytes.saturating_sub(bytes);
        }
        outgoing.header.flags |= self.flags;
        self.held += usize::from(matches!(outgoing.body, Body::Held(_)));
        self.outbox.push_back((with, outgoing));
    }

    /// Is everything here that comes to the outbox and leaves together with this?
    pub(super) fn is_complete(&self, with: Option<u32>) -> bool {
        let lacks = |known: &Missing| known.with == with && known.bytes > 0;
        with.is_none() || !self.missing.iter().any(lacks)
    }

    fn next(&self) -> Option<usize> {
        let mut waiting = self.outbox.iter();
        waiting.position(|(with, _)| self.is_complete(*with))
    }

    /// Is anything in the outbox that may leave?
    pub(super) fn has_next(&self) -> bool {
        self.next().is_some()
    }

    pub(super) fn pop(&mut self) -> Option<OutgoingFrame> {
        let (_, outgoing) = self.outbox.remove(self.next()?)?;
        self.held -= usize::from(matches!(outgoing.body, Body::Held(_)));
        Some(outgoing)
    }

    /// Is anything here, on its way into the lane, or yet to come?
    pub(super) fn sends(&self) -> bool {
        self.leaving > 0
            || !self.outbox.is_empty()
            || self.missing.iter().any(|known| known.bytes > 0)
    }
}
