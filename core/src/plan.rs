//! Data movement of a collective: a [`Plan`] is the exact list for one rank and one operation.
//!
//! A plan consists of *flows*. A flow is a range of the buffer that is sent over one edge under one step number. A
//! rank's part of an operation is
//!
//! 1. its [contributions](Plan::contributions): ranges of its own elements, and the targets of each;
//! 2. its [arrivals](Plan::arrivals): for each the sending rank, the range, the [`Action`], and the targets to which
//!    it is forwarded ([`Arrival::onward`]);
//! 3. its [kept sums](Plan::kept): sums whose terms it keeps until all have arrived, and the targets of each.
//!
//! The data plane executes this list and computes none of it again. The model executes the same list, so a mistake
//! here is a mistake of both.
//!
//! There are several [`Algorithm`]s. [`Algorithm::of`] is the only place that chooses one for a collective, by the
//! known [`Costs`]. An all-reduce consists of a reduce-scatter and an all-gather. Each of them alone is the plan of
//! the collective of that [kind](CollectiveKind).
//!
//! **A frame is forwarded as it arrived or was reduced**, without waiting for the rest of its flow. All other frames
//! that a rank sends belong to its contributions, or to a sum whose terms it has kept. Frames may have to wait for
//! others with which they [leave together](Plan::leaves_with).

mod algorithm;
mod chain;
mod circulant;
mod cost;
mod cut;
mod direct;
mod flow;
mod relay;
mod ring;
mod seat;
#[cfg(test)]
mod tests;
mod tree;
mod turns;
mod two_level;
mod whole;

use crate::element::CollectiveKind;
use crate::site::Sites;
pub use algorithm::{Algorithm, Paths, Pattern, Reach};
pub use cost::{Costs, PathCosts};
pub use cut::{STRIPE_BYTES_MIN, Shards, Stripe, frame_elements, frames, stripes_for};
pub use flow::{Action, After, Arrival, Contribution, Kept, Target, Targets, Term};
use seat::{Among, Seat};
pub use turns::{Turns, is_in_order};

/// One rank's part of an operation. Ranges and elements are those of one stripe of the buffer (see [`Stripe`]). A
/// buffer that is sent whole, directly or in rounds is one stripe.
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
pub struct Plan<'a> {
    kind: CollectiveKind<u32>,
    schedule: Schedule<'a>,
    world: u32,
    rank: u32,
    /// `None`: the order of the ranks.
    turns: Option<&'a Turns>,
}

/// An algorithm, with what it needs to know of the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Schedule<'a> {
    Ring,
    Chain,
    Whole(Pattern),
    Direct,
    Circulant,
    TwoLevel(Seat<'a>),
    Relay,
    /// In two levels if there are sites.
    Tree(Option<&'a Sites>),
}

impl Plan<'static> {
    /// The plan of `rank` in a world of `world` ranks, for an algorithm that does not depend on sites. `None` if
    /// there is no such rank or root, if collectives of this kind never use this algorithm, or if it depends on
    /// sites.
    #[must_use]
    pub fn new(
        kind: CollectiveKind<u32>,
        algorithm: Algorithm,
        world: u32,
        rank: u32,
    ) -> Option<Self> {
        let schedule = match algorithm {
            Algorithm::Ring => Schedule::Ring,
            Algorithm::Chain => Schedule::Chain,
            Algorithm::Whole(pattern) => Schedule::Whole(pattern),
            Algorithm::Direct => Schedule::Direct,
            Algorithm::Circulant => Schedule::Circulant,
            Algorithm::Relay => Schedule::Relay,
            Algorithm::Tree => Schedule::Tree(None),
            Algorithm::TwoLevel | Algorithm::TwoLevelRing | Algorithm::TwoLevelWhole => {
                return None;
            }
        };
        Self::by(schedule, kind, world, rank)
    }
}

impl<'a> Plan<'a> {
    /// The plan of `rank` among ranks at these sites. `None` if there is no such rank or root, or if collectives of
    /// this kind never use this algorithm.
    #[must_use]
    pub fn among(
        kind: CollectiveKind<u32>,
        algorithm: Algorithm,
        sites: &'a Sites,
        rank: u32,
    ) -> Option<Self> {
        let world = sites.world();
        let seat = |among| Seat::of(sites, among, rank).map(Schedule::TwoLevel);
        let schedule = match (algorithm, kind.root()) {
            (Algorithm::TwoLevel, Some(_)) => Schedule::Tree(Some(sites)),
            (Algorithm::TwoLevel, None) => seat(Among::Mesh)?,
            (Algorithm::TwoLevelRing, _) => seat(Among::Ring)?,
            (Algorithm::TwoLevelWhole, _) => seat(Among::Whole)?,
            (
                Algorithm::Ring
                | Algorithm::Chain
                | Algorithm::Whole(_)
                | Algorithm::Direct
                | Algorithm::Circulant
                | Algorithm::Relay
                | Algorithm::Tree,
                _,
            ) => return Plan::new(kind, algorithm, world, rank),
        };
        Self::by(schedule, kind, world, rank)
    }

    fn by(
        schedule: Schedule<'a>,
        kind: CollectiveKind<u32>,
        world: u32,
        rank: u32,
    ) -> Option<Self> {
        let plan = Self {
            kind,
            schedule,
            world,
            rank,
            turns: None,
        };
        let has_root = kind.root().is_none_or(|root| *root < world);
        (rank < world && has_root && plan.algorithm().carries(&kind)).then_some(plan)
    }

    /// The same plan with additions in these turns, if the order is free in the algorithm: in
    /// [`Whole`](Algorithm::Whole), [`Direct`](Algorithm::Direct) and [`Relay`](Algorithm::Relay). Default: the order
    /// of the ranks. `None` if the turns are those of another number of ranks.
    #[must_use]
    pub fn in_turns(self, turns: &'a Turns) -> Option<Self> {
        (turns.world() == self.world as usize).then_some(Self {
            turns: Some(turns),
            ..self
        })
    }

    /// The kind of the collective.
    #[must_use]
    pub const fn kind(self) -> CollectiveKind<u32> {
        self.kind
    }

    /// The algorithm.
    #[must_use]
    pub const fn algorithm(self) -> Algorithm {
        match self.schedule {
            Schedule::Ring => Algorithm::Ring,
            Schedule::Chain => Algorithm::Chain,
            Schedule::Whole(pattern) => Algorithm::Whole(pattern),
            Schedule::Direct => Algorithm::Direct,
            Schedule::Circulant => Algorithm::Circulant,
            Schedule::TwoLevel(seat) => match seat.among() {
                Among::Mesh => Algorithm::TwoLevel,
                Among::Ring => Algorithm::TwoLevelRing,
                Among::Whole => Algorithm::TwoLevelWhole,
            },
            Schedule::Tree(Some(_)) => Algorithm::TwoLevel,
            Schedule::Relay => Algorithm::Relay,
            Schedule::Tree(None) => Algorithm::Tree,
        }
    }

    /// The rank whose part it is.
    #[must_use]
    pub const fn rank(self) -> u32 {
        self.rank
    }

    /// The sites of the ranks. `None` if the algorithm does not depend on them.
    #[must_use]
    pub const fn sites(self) -> Option<&'a Sites> {
        match self.schedule {
            Schedule::Ring
            | Schedule::Chain
            | Schedule::Whole(_)
            | Schedule::Direct
            | Schedule::Circulant
            | Schedule::Relay => None,
            Schedule::TwoLevel(seat) => Some(seat.sites()),
            Schedule::Tree(sites) => sites,
        }
    }

    /// The number of ranks.
    #[must_use]
    pub const fn world(self) -> u32 {
        self.world
    }

    /// The parts of its own elements of a stripe that the rank sends. None in a world of one, whose buffer is the
    /// result already.
    pub fn contributions<'s>(
        self,
        stripe: Stripe<'s>,
    ) -> impl Iterator<Item = Contribution> + Clone + use<'a, 's> {
        let count = match self.schedule {
            Schedule::Ring => ring::contributions(self),
            Schedule::Chain => chain::contributions(self),
            Schedule::Whole(pattern) => whole::contributions(self, pattern),
            Schedule::Direct => self.others(),
            Schedule::Circulant => circulant::contributions(self),
            Schedule::TwoLevel(seat) => two_level::contributions(self, seat),
            Schedule::Relay => relay::contributions(self),
            Schedule::Tree(sites) => tree::contributions(self, sites),
        };
        (0..count).map(move |nth| match self.schedule {
            Schedule::Ring => Contribution {
                range: ring::contribution(self, stripe),
                to: self.target(0, 0),
            },
            Schedule::Chain => Contribution {
                range: stripe.whole(),
                to: self.target(0, 0),
            },
            Schedule::Whole(pattern) => Contribution {
                range: stripe.whole(),
                to: whole::contribution_to(self, pattern, nth),
            },
            Schedule::Direct => direct::contribution(self, stripe, nth),
            Schedule::Circulant => circulant::contribution(self, stripe, nth),
            Schedule::TwoLevel(seat) => two_level::contribution(self, seat, stripe, nth),
            Schedule::Relay => relay::contribution(self, stripe, nth),
            Schedule::Tree(sites) => Contribution {
                range: stripe.whole(),
                to: tree::contribution_to(self, sites, nth),
            },
        })
    }

    /// Number of flows that arrive.
    #[must_use]
    pub fn steps(self) -> u32 {
        match self.schedule {
            Schedule::Ring => ring::steps(self),
            Schedule::Chain | Schedule::Tree(_) => chain::steps(self),
            Schedule::Whole(_) => whole::steps(self),
            Schedule::Direct => direct::steps(self),
            Schedule::Circulant => circulant::steps(self),
            Schedule::TwoLevel(seat) => two_level::steps(self, seat),
            Schedule::Relay => relay::steps(self),
        }
    }

    /// The arrivals in a stripe, by step.
    pub fn arrivals<'s>(
        self,
        stripe: Stripe<'s>,
    ) -> impl Iterator<Item = Arrival<'a>> + Clone + use<'a, 's> {
        (0..self.steps()).map(move |step| self.at(stripe, step))
    }

    /// The arrival of one step. `None` if there is no such step.
    #[must_use]
    pub fn arrival(self, stripe: Stripe<'_>, step: u32) -> Option<Arrival<'a>> {
        (step < self.steps()).then(|| self.at(stripe, step))
    }

    /// The sums whose terms are [kept](Action::Keep), by number. None if all arrivals are used at once.
    pub fn kept<'s>(
        self,
        stripe: Stripe<'s>,
    ) -> impl Iterator<Item = Kept<'a>> + Clone + use<'a, 's> {
        let count = match self.schedule {
            Schedule::Ring | Schedule::Chain | Schedule::Relay | Schedule::Tree(_) => 0,
            Schedule::Whole(_) | Schedule::Direct => u32::from(self.kind.reduces()),
            Schedule::Circulant => circulant::sums(self),
            Schedule::TwoLevel(seat) => two_level::sums(self, seat),
        };
        (0..count).filter_map(move |number| match self.schedule {
            Schedule::Ring | Schedule::Chain | Schedule::Relay | Schedule::Tree(_) => None,
            Schedule::Whole(_) => Some(whole::kept(self, stripe)),
            Schedule::Direct => Some(direct::kept(self, stripe)),
            Schedule::Circulant => Some(circulant::kept(self, stripe, number)),
            Schedule::TwoLevel(seat) => Some(two_level::kept(self, seat, stripe, number)),
        })
    }

    /// The group of flows with which a flow of this step leaves. All frames to one rank whose steps have the same
    /// group are sent in one message, once the last of them is complete. `None`: each frame is sent as soon as it is
    /// complete.
    #[must_use]
    pub const fn leaves_with(self, step: u32) -> Option<u32> {
        match self.schedule {
            Schedule::Ring
            | Schedule::Chain
            | Schedule::Whole(Pattern::Ring | Pattern::Mesh)
            | Schedule::Direct
            | Schedule::TwoLevel(_)
            | Schedule::Relay
            | Schedule::Tree(_) => None,
            Schedule::Whole(Pattern::Circulant) => Some(0),
            Schedule::Circulant if step < self.others() => Some(0),
            Schedule::Circulant => Some(1),
        }
    }

    /// Along a chain, down a tree and in two levels: how many ranks wait, one for the other, until the elements of this
    /// step can be sent here. 0 if their sender has them at the start. With other algorithms always 0.
    #[must_use]
    pub fn waits(self, step: u32) -> u32 {
        match self.schedule {
            Schedule::Chain => chain::depth(self).saturating_sub(1),
            Schedule::Tree(sites) => tree::depth(self, sites).saturating_sub(1),
            Schedule::TwoLevel(seat) => two_level::waits(self, seat, step),
            Schedule::Ring
            | Schedule::Whole(_)
            | Schedule::Direct
            | Schedule::Circulant
            | Schedule::Relay => 0,
        }
    }

    /// The rank to which this one sends in a ring.
    #[must_use]
    pub fn next(self) -> u32 {
        forth(self.world, self.rank, 1)
    }

    /// The rank from which this one receives in a ring.
    #[must_use]
    pub fn previous(self) -> u32 {
        back(self.world, self.rank, 1)
    }

    const fn others(self) -> u32 {
        self.world.saturating_sub(1)
    }

    fn at(self, stripe: Stripe<'_>, step: u32) -> Arrival<'a> {
        let (range, action, after) = match self.schedule {
            Schedule::Ring => ring::arrival(self, stripe, step),
            Schedule::Chain | Schedule::Tree(_) => (stripe.whole(), Action::Copy, After::Nothing),
            Schedule::Whole(pattern) => {
                let action = whole::action(self, pattern, step);
                (stripe.whole(), action, After::Nothing)
            }
            Schedule::Direct => direct::arrival(self, stripe, step),
            Schedule::Circulant => circulant::arrival(self, stripe, step),
            Schedule::TwoLevel(seat) => two_level::arrival(self, seat, stripe, step),
            Schedule::Relay => relay::arrival(self, stripe, step),
        };
        let (from, onward) = match self.schedule {
            Schedule::Ring | Schedule::Whole(Pattern::Ring) => (self.previous(), self.around(step)),
            Schedule::Chain => (self.previous(), chain::onward(self)),
            Schedule::Relay => (self.previous(), relay::onward(self, step)),
            Schedule::Whole(pattern @ Pattern::Mesh) => {
                (whole::contributor(self, pattern, step), Targets::NONE)
            }
            Schedule::Whole(Pattern::Circulant) => (
                circulant::gathered_from(self, step),
                circulant::gathered_to(self, circulant::gathered(step)),
            ),
            Schedule::Direct => (direct::sender(self, step), Targets::NONE),
            Schedule::Circulant => (
                circulant::source(self, step).0,
                circulant::onward(self, step),
            ),
            Schedule::TwoLevel(seat) => (
                two_level::source(self, seat, step).0,
                two_level::onward(self, seat, step),
            ),
            Schedule::Tree(sites) => (tree::source(self, sites), tree::onward(self, sites)),
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
        match self.schedule {
            Schedule::Ring | Schedule::Whole(Pattern::Ring) => step == 0,
            Schedule::Chain => chain::is_root(self, self.previous()),
            Schedule::Tree(sites) => chain::is_root(self, tree::source(self, sites)),
            Schedule::Whole(Pattern::Mesh) => true,
            Schedule::Whole(Pattern::Circulant) => circulant::gathered_at_once(self, step),
            Schedule::Direct => step < self.others(),
            Schedule::Circulant => circulant::is_sent_at_once(self, step),
            Schedule::TwoLevel(seat) => two_level::source(self, seat, step).1,
            Schedule::Relay => relay::is_sent_at_once(self, step),
        }
    }

    /// Nothing comes back in one half of an all-reduce. On a ring the last arrivals are of the next rank, and in the
    /// end as many bytes, unless shards have different lengths. With relay and scatter a part comes back.
    fn comes_back(self, step: u32, after: After) -> bool {
        let is_last = step.saturating_add(1) == self.steps();
        match after {
            After::Contribution(_) => self.schedule != Schedule::Relay || self.kind.gathers(),
            After::Nothing | After::Arrival(_) | After::Sum(_) => {
                let is_half = self.kind.reduces() != self.kind.gathers();
                let is_balanced = self.kind.own_and_limit().is_none();
                self.schedule == Schedule::Ring && is_half && is_balanced && is_last
            }
        }
    }

    /// The turn in which the contribution of a rank is added, from 0.
    fn turn(self, rank: u32) -> u32 {
        self.turns.map_or(rank, |turns| turns.of_rank(rank))
    }

    /// The ranks of the first and the last turn.
    const fn ends(self) -> (u32, u32) {
        match self.turns {
            Some(turns) => turns.ends(),
            None => (0, self.others()),
        }
    }

    /// How often a walk around the ring from turn to turn has started a new lap before that of a rank.
    fn lap(self, rank: u32) -> u32 {
        self.turns.map_or(0, |turns| turns.lap(rank))
    }

    /// The targets of an arrival that is forwarded around a ring.
    fn around(self, step: u32) -> Targets<'a> {
        let last = self.steps().saturating_sub(1);
        if step >= last {
            return Targets::NONE;
        }
        Targets::one(self.target(0, step.saturating_add(1)))
    }

    /// The rank at this distance behind this one, from 0 for the next one.
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
