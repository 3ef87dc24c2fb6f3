//! Who moves what in a collective: a [`Plan`] is the exact list for one rank and one operation.
//!
//! A plan consists of *flows*. A flow is a range of the buffer that travels over one edge under one step
//! number. A rank's part of an operation is
//!
//! 1. what it [contributes](Plan::contributions): ranges of its own elements, and where each goes;
//! 2. what [arrives](Plan::arrivals): from which rank, which range, what to do with it ([`Action`]), and
//!    where it goes on ([`Arrival::onward`]);
//! 3. which sums it [keeps](Plan::kept) the terms of until all are there, and where each of them goes then.
//!
//! The data plane executes this list and recomputes nothing, and the model executes the same list: a
//! mistake here is a mistake of both.
//!
//! There are several [`Algorithm`]s, and one place that says which of them a collective takes:
//! [`Algorithm::of`]. What an all-reduce does in two halves, a reduce-scatter and an all-gather, is each of them alone
//! for collectives of those [kinds](CollectiveKind).
//!
//! **What goes on is exactly what arrived**, frame by frame: a frame can be forwarded as soon as it has
//! been reduced or stored, without waiting for the rest of its flow. All other frames that a rank sends are
//! of its contributions, or of a sum of terms that it has kept. Frames may have to wait for others with which they
//! [leave together](Plan::leaves_with).

mod algorithm;
mod chain;
mod circulant;
mod cut;
mod direct;
mod flow;
mod ring;
#[cfg(test)]
mod tests;
mod whole;

use crate::element::CollectiveKind;
pub use algorithm::{Algorithm, Paths, Pattern, Reach};
pub use cut::{STRIPE_BYTES_MIN, Shards, Stripe, frame_elements, frames, stripes_for};
pub use flow::{Action, After, Arrival, Contribution, Kept, Target, Targets};

/// One rank's part of an operation. It names ranks and elements of one stripe of the buffer (see [`Stripe`]); a buffer
/// that travels neither around the [`Ring`](Algorithm::Ring) in chunks nor along the [`Chain`](Algorithm::Chain) is one
/// stripe.
///
/// ```
/// use pccl_core::element::CollectiveKind;
/// use pccl_core::plan::{Action, Algorithm, Plan, Shards};
///
/// let shards = Shards::of_ranks(7, 3);
/// let stripe = shards.stripe(1, 0);
/// let rank_1 = Plan::new(CollectiveKind::AllReduce, Algorithm::Ring, 3, 1).expect("it exists");
/// let contribution = rank_1.contributions(stripe).next().expect("it is not alone");
/// let arrivals = rank_1.arrivals(stripe);
/// let arrivals: Vec<_> = arrivals.map(|flow| (flow.range, flow.action)).collect();
///
/// assert_eq!((contribution.range, contribution.to.rank), (0..3, 2));
/// assert_eq!(
///     arrivals,
///     [
///         (5..7, Action::Combine),
///         (3..5, Action::Finish),
///         (0..3, Action::Copy),
///         (5..7, Action::Copy),
///     ]
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Plan {
    kind: CollectiveKind<u32>,
    algorithm: Algorithm,
    world: u32,
    rank: u32,
}

impl Plan {
    /// The part of `rank` in a world of so many. `None`: there is no such rank or root, or a collective of this kind
    /// never takes this algorithm.
    #[must_use]
    pub fn new(
        kind: CollectiveKind<u32>,
        algorithm: Algorithm,
        world: u32,
        rank: u32,
    ) -> Option<Self> {
        let has_root = kind.root().is_none_or(|root| *root < world);
        if rank >= world || !has_root || !algorithm.carries(&kind) {
            return None;
        }
        Some(Self {
            kind,
            algorithm,
            world,
            rank,
        })
    }

    /// What is done with the buffers.
    #[must_use]
    pub const fn kind(self) -> CollectiveKind<u32> {
        self.kind
    }

    /// How the contributions become the result.
    #[must_use]
    pub const fn algorithm(self) -> Algorithm {
        self.algorithm
    }

    /// Whose part it is.
    #[must_use]
    pub const fn rank(self) -> u32 {
        self.rank
    }

    /// The number of ranks.
    #[must_use]
    pub const fn world(self) -> u32 {
        self.world
    }

    /// What the rank sends of its own elements of a stripe. Nothing in a world of one, whose buffer is the
    /// result already.
    pub fn contributions(
        self,
        stripe: Stripe<'_>,
    ) -> impl Iterator<Item = Contribution> + Clone + use<'_> {
        let count = match self.algorithm {
            Algorithm::Ring => ring::contributions(self),
            Algorithm::Chain => chain::contributions(self),
            Algorithm::Whole(pattern) => whole::contributions(self, pattern),
            Algorithm::Direct => self.others(),
            Algorithm::Circulant => circulant::contributions(self),
        };
        (0..count).map(move |nth| match self.algorithm {
            Algorithm::Ring => Contribution {
                range: ring::contribution(self, stripe),
                to: self.target(0, 0),
            },
            Algorithm::Chain => Contribution {
                range: stripe.whole(),
                to: self.target(0, 0),
            },
            Algorithm::Whole(pattern) => Contribution {
                range: stripe.whole(),
                to: whole::contribution_to(self, pattern, nth),
            },
            Algorithm::Direct => direct::contribution(self, stripe, nth),
            Algorithm::Circulant => circulant::contribution(self, stripe, nth),
        })
    }

    /// How many flows arrive.
    #[must_use]
    pub fn steps(self) -> u32 {
        match self.algorithm {
            Algorithm::Ring => ring::steps(self),
            Algorithm::Chain => chain::steps(self),
            Algorithm::Whole(_) => whole::steps(self),
            Algorithm::Direct => direct::steps(self),
            Algorithm::Circulant => circulant::steps(self),
        }
    }

    /// What arrives in a stripe, by step.
    pub fn arrivals(self, stripe: Stripe<'_>) -> impl Iterator<Item = Arrival> + Clone + use<'_> {
        (0..self.steps()).map(move |step| self.at(stripe, step))
    }

    /// What arrives in one step. `None`: there is no such step.
    #[must_use]
    pub fn arrival(self, stripe: Stripe<'_>, step: u32) -> Option<Arrival> {
        (step < self.steps()).then(|| self.at(stripe, step))
    }

    /// The sums whose terms are [kept](Action::Keep), by number. None if what arrives is used at once.
    pub fn kept(self, stripe: Stripe<'_>) -> impl Iterator<Item = Kept> + Clone + use<'_> {
        let count = match self.algorithm {
            Algorithm::Ring | Algorithm::Chain => 0,
            Algorithm::Whole(_) | Algorithm::Direct => u32::from(self.kind.reduces()),
            Algorithm::Circulant => circulant::sums(self),
        };
        (0..count).filter_map(move |number| match self.algorithm {
            Algorithm::Ring | Algorithm::Chain => None,
            Algorithm::Whole(_) => Some(whole::kept(self, stripe)),
            Algorithm::Direct => Some(direct::kept(self, stripe)),
            Algorithm::Circulant => Some(circulant::kept(self, stripe, number)),
        })
    }

    /// With which others a flow of this step leaves: all frames to one rank whose steps give the same number go into
    /// one message, once the last of them is there. `None`: each leaves as soon as it is there.
    #[must_use]
    pub const fn leaves_with(self, step: u32) -> Option<u32> {
        match self.algorithm {
            Algorithm::Ring
            | Algorithm::Chain
            | Algorithm::Whole(Pattern::Ring | Pattern::Mesh)
            | Algorithm::Direct => None,
            Algorithm::Whole(Pattern::Circulant) => Some(0),
            Algorithm::Circulant if step < self.others() => Some(0),
            Algorithm::Circulant => Some(1),
        }
    }

    /// The rank that this one sends to in a ring.
    #[must_use]
    pub fn next(self) -> u32 {
        forth(self.world, self.rank, 1)
    }

    /// The rank that this one receives from in a ring.
    #[must_use]
    pub fn previous(self) -> u32 {
        back(self.world, self.rank, 1)
    }

    const fn others(self) -> u32 {
        self.world.saturating_sub(1)
    }

    fn at(self, stripe: Stripe<'_>, step: u32) -> Arrival {
        let (range, action, after) = match self.algorithm {
            Algorithm::Ring => ring::arrival(self, stripe, step),
            Algorithm::Chain => (stripe.whole(), Action::Copy, After::Nothing),
            Algorithm::Whole(pattern) => {
                let action = whole::action(self, pattern, step);
                (stripe.whole(), action, After::Nothing)
            }
            Algorithm::Direct => direct::arrival(self, stripe, step),
            Algorithm::Circulant => circulant::arrival(self, stripe, step),
        };
        let (from, onward) = match self.algorithm {
            Algorithm::Ring | Algorithm::Whole(Pattern::Ring) => {
                (self.previous(), self.around(step))
            }
            Algorithm::Chain => (self.previous(), chain::onward(self)),
            Algorithm::Whole(pattern @ Pattern::Mesh) => {
                (whole::contributor(self, pattern, step), Targets::NONE)
            }
            Algorithm::Whole(Pattern::Circulant) => (
                circulant::gathered_from(self, step),
                circulant::gathered_to(self, circulant::gathered(step)),
            ),
            Algorithm::Direct => (direct::sender(self, step), Targets::NONE),
            Algorithm::Circulant => (
                circulant::source(self, step).0,
                circulant::onward(self, step),
            ),
        };
        Arrival {
            step,
            from,
            range,
            action,
            after,
            onward,
            comes_back: self.comes_back(step, after),
            sent_at_once: self.is_sent_at_once(step),
        }
    }

    fn is_sent_at_once(self, step: u32) -> bool {
        match self.algorithm {
            Algorithm::Ring | Algorithm::Whole(Pattern::Ring) => step == 0,
            Algorithm::Chain => chain::is_root(self, self.previous()),
            Algorithm::Whole(Pattern::Mesh) => true,
            Algorithm::Whole(Pattern::Circulant) => circulant::gathered_at_once(self, step),
            Algorithm::Direct => step < self.others(),
            Algorithm::Circulant => circulant::is_sent_at_once(self, step),
        }
    }

    /// In a half of an all-reduce nothing comes back. What arrives last is of the next rank, and in the end as much.
    fn comes_back(self, step: u32, after: After) -> bool {
        let is_last = step.saturating_add(1) == self.steps();
        match after {
            After::Contribution(_) => true,
            After::Nothing | After::Arrival(_) | After::Sum(_) => {
                let is_half = self.kind.reduces() != self.kind.gathers();
                self.algorithm == Algorithm::Ring && is_half && is_last
            }
        }
    }

    /// Where what arrives in a step goes on around a ring.
    fn around(self, step: u32) -> Targets {
        let last = self.steps().saturating_sub(1);
        if step >= last {
            return Targets::NONE;
        }
        Targets::one(self.target(0, step.saturating_add(1)))
    }

    /// The rank that follows at this distance, from 0 for the next one.
    fn target(self, nth: u32, step: u32) -> Target {
        Target {
            rank: forth(self.world, self.rank, nth.saturating_add(1)),
            step,
        }
    }
}

/// `rank − by` modulo `world`.
fn back(world: u32, rank: u32, by: u32) -> u32 {
    let by = by.checked_rem(world).unwrap_or(0);
    if rank >= by {
        rank - by
    } else {
        world - (by - rank)
    }
}

/// `rank + by` modulo `world`.
fn forth(world: u32, rank: u32, by: u32) -> u32 {
    let by = by.checked_rem(world).unwrap_or(0);
    back(world, rank, world - by)
}
