//! Who moves what in a collective: a [`Plan`] is the exact list for one rank and one operation.
//!
//! A plan consists of *flows*. A flow is a range of the buffer that travels over one edge under one step
//! number. A rank's part of an operation is
//!
//! 1. what it [contributes](Plan::contributions): ranges of its own elements, and where each goes;
//! 2. what [arrives](Plan::arrivals): from which rank, which range, what to do with it ([`Action`]), and
//!    where it goes on ([`Arrival::onward`]);
//! 3. if contributions are [kept](Plan::kept) until all are there: whom it [tells](Plan::told) the result.
//!
//! The data plane executes this list and recomputes nothing, and the model executes the same list: a
//! mistake here is a mistake of both.
//!
//! There are three [`Algorithm`]s, and one place that says which of them a collective takes:
//! [`Algorithm::of`].
//!
//! **What goes on is exactly what arrived**, frame by frame: a frame can be forwarded as soon as it has
//! been reduced or stored, without waiting for the rest of its flow. All other frames that a rank sends are
//! of its contributions, or of a result that it tells.

use core::ops::Range;

use serde::{Deserialize, Serialize};

use crate::element::{CollectiveSpec, Quantization};
use crate::wire::{DIRECT_BUFFER_MAX, FRAME_PAYLOAD_MAX, WHOLE_BUFFER_MAX};

mod cut;
mod direct;
mod ring;
#[cfg(test)]
mod tests;
mod whole;

pub use cut::{STRIPE_BYTES_MIN, chunk_range, frame_elements, frames, stripe_range, stripes_for};

/// Between which members of a group there are links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Reach {
    /// From each rank to the next one.
    Ring,
    /// From each rank to each other one.
    Mesh,
}

/// How the contributions to a collective become its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Algorithm {
    /// In chunks that are reduced on their way around the ring, and whose results are passed on: a
    /// reduce-scatter, followed by an all-gather.
    ///
    /// A stripe is cut into N chunks ([`chunk_range`]); chunk c starts its journey at rank c. In step s, rank r
    /// sends chunk r − s to rank r + 1 and receives chunk r − s − 1 from rank r − 1, all modulo N. In the first
    /// N − 1 steps what arrives is combined with the receiver's own elements; in the last of these it becomes
    /// the result. In the N − 1 steps after them the result replaces the receiver's elements. What is sent in
    /// step s + 1 is exactly what was received in step s, also across the change between the two.
    ///
    /// The algorithm is that of Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
    /// workstations" (2009). Every rank sends 2·(N − 1)/N of the buffer in all, which is the least possible.
    Ring,
    /// Whole: each rank gets the contribution of each other one and adds them all by itself.
    ///
    /// Over a mesh each rank sends its buffer to each other rank: in step s, rank r receives the contribution of
    /// rank r − s − 1, modulo N, from that rank. Around a ring it is the all-gather of a ring: the same arrives
    /// in step s from rank r − 1, and each rank passes on what it received.
    ///
    /// A sum of floats depends on the order of its terms, and contributions arrive in another order at every
    /// rank. So nothing is added as it arrives: every rank adds in the order of the ranks, rank 0 first, its own
    /// contribution in its own turn.
    ///
    /// Every rank sends N − 1 buffers, in one latency over a mesh and N − 1 around a ring: the better choice if a
    /// step costs more than the bytes.
    Whole(Reach),
    /// Directly, over a mesh: a reduce-scatter in which each rank sends each other rank its part, followed by an
    /// all-gather in which each rank sends the result of its part to all others.
    ///
    /// The buffer is cut into N chunks ([`chunk_range`]); rank r combines chunk r. In step s of the first N − 1,
    /// rank r receives chunk r of rank r − s − 1, modulo N, and keeps it. Once all are there it adds them in the
    /// order of the ranks, rank 0 first, its own in its own turn. In the N − 1 steps after these it receives, in
    /// the same order, the result of chunk r − s − 1 from rank r − s − 1.
    ///
    /// It sends as few bytes as [`Ring`](Self::Ring) does and takes two latencies in place of 2·(N − 1). The
    /// order of the additions depends on nothing but the ranks.
    Direct,
}

impl Algorithm {
    /// The algorithm that a collective takes in a world of so many whose links reach so far. What is quantized
    /// takes the ring. A buffer travels whole if it is of at most [`WHOLE_BUFFER_MAX`] bytes and so small that
    /// those of all ranks fit into one frame ([`FRAME_PAYLOAD_MAX`]): a rank keeps them all until it adds. One of
    /// at most [`DIRECT_BUFFER_MAX`] bytes travels directly if there is a mesh.
    ///
    /// In a world of two the ring is the mesh, and nothing is gained beyond it.
    ///
    /// The master asks here, and tells the participants what it was told. Of the links of a group on one machine it
    /// counts only the ring for more than [`DIRECT_WITHIN_MACHINE_MAX`](crate::wire::DIRECT_WITHIN_MACHINE_MAX) bytes.
    #[must_use]
    pub fn of(spec: &CollectiveSpec, world: u32, reach: Reach) -> Self {
        let bytes = spec.count.saturating_mul(spec.element.size() as u64);
        let all = bytes.saturating_mul(u64::from(world));
        let reach = if world > 2 { reach } else { Reach::Ring };
        let travels_whole = bytes <= WHOLE_BUFFER_MAX && all <= FRAME_PAYLOAD_MAX as u64;
        match (spec.quantization, reach) {
            (Quantization::None, _) if travels_whole => Self::Whole(reach),
            (Quantization::None, Reach::Mesh) if bytes <= DIRECT_BUFFER_MAX => Self::Direct,
            (
                Quantization::None
                | Quantization::MinMax { .. }
                | Quantization::ZeroPointScale { .. }
                | Quantization::Blockwise4,
                Reach::Ring | Reach::Mesh,
            ) => Self::Ring,
        }
    }

    /// Which links it needs.
    #[must_use]
    pub const fn reach(self) -> Reach {
        match self {
            Self::Ring => Reach::Ring,
            Self::Whole(reach) => reach,
            Self::Direct => Reach::Mesh,
        }
    }
}

/// One rank's part of an operation. It names ranks and elements of one stripe of the buffer (see
/// [`stripe_range`]); a buffer that travels [`Whole`](Algorithm::Whole) or [`Direct`](Algorithm::Direct)ly is
/// one stripe.
///
/// ```
/// use pccl_core::plan::{Action, Algorithm, Plan};
///
/// let rank_1 = Plan::new(Algorithm::Ring, 3, 1).expect("it exists");
/// let contribution = rank_1.contributions(&(0..7)).next().expect("it is not alone");
/// let arrivals = rank_1.arrivals(&(0..7));
/// let arrivals: Vec<_> = arrivals.map(|flow| (flow.range, flow.action)).collect();
///
/// assert_eq!((contribution.range, contribution.to.rank), (3..5, 2));
/// assert_eq!(
///     arrivals,
///     [
///         (0..3, Action::Combine),
///         (5..7, Action::Finish),
///         (3..5, Action::Copy),
///         (0..3, Action::Copy),
///     ]
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Plan {
    algorithm: Algorithm,
    world: u32,
    rank: u32,
}

/// Where frames go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Over the link to this rank.
    pub rank: u32,
    /// The number of the step, which frames carry: the receiver knows by it which flow they are of.
    pub step: u32,
}

/// What a rank sends of its own elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Contribution {
    /// Elements of the buffer. They may be none; then no frame is sent.
    pub range: Range<u64>,
    /// Where they go.
    pub to: Target,
}

/// Which contributions are kept until all are there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kept {
    /// Elements of the buffer: these of each rank.
    pub range: Range<u64>,
    /// When the own one is added, from 0.
    pub own_turn: u32,
}

/// A flow that arrives.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Arrival {
    /// The number of its step, from 0 without gaps; frames carry it.
    pub step: u32,
    /// The rank that sends it.
    pub from: u32,
    /// Elements of the buffer. They may be none; then no frame arrives.
    pub range: Range<u64>,
    /// What to do with it.
    pub action: Action,
    /// What has to be done with an element before it may be overwritten.
    pub after: After,
    /// Where it goes on, as it is once the action is done. `None`: nowhere.
    pub onward: Option<Target>,
}

/// What to do with what arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The own contribution is added to it. The sum goes on; nothing is written to the result.
    Combine,
    /// The own contribution is the last that it lacks: once that is added, and an average divided by the
    /// number of contributors, it is the result, and is written there.
    Finish,
    /// It is the result, and is written there.
    Copy,
    /// It is another rank's contribution, which is kept until all are here. Then all are added, the own one
    /// among them, in the order of their turns, an average is divided, and that is the result, which is
    /// [told](Plan::told). What arrived goes on as it came.
    Keep {
        /// When it is added, from 0.
        turn: u32,
    },
}

impl Arrival {
    /// Whether it is what became of an own contribution.
    #[must_use]
    pub const fn comes_back(&self) -> bool {
        match self.after {
            After::Contribution(_) => true,
            After::Nothing | After::Arrival(_) => false,
        }
    }
}

impl Action {
    /// Whether the result is written, at the place of what arrives.
    #[must_use]
    pub const fn writes_result(self) -> bool {
        match self {
            Self::Finish | Self::Copy => true,
            Self::Combine | Self::Keep { .. } => false,
        }
    }

    /// Whether the own contribution is added to what arrives.
    #[must_use]
    pub const fn adds(self) -> bool {
        match self {
            Self::Combine | Self::Finish => true,
            Self::Copy | Self::Keep { .. } => false,
        }
    }
}

/// What has to be done with each element of a flow before it is overwritten. A neighbour that sends too early
/// would otherwise destroy a contribution that is still needed. Frames of different steps alternate, so it is
/// each element for which this counts, not the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum After {
    /// Nothing.
    Nothing,
    /// The same element has left, as a part of the own contribution of this number, from 0 in the order of
    /// [`Plan::contributions`]: what arrives is its result.
    Contribution(u32),
    /// The same element has arrived in this step.
    Arrival(u32),
}

impl Plan {
    /// The part of `rank` in a world of so many. `None`: there is no such rank.
    #[must_use]
    pub const fn new(algorithm: Algorithm, world: u32, rank: u32) -> Option<Self> {
        if rank >= world {
            return None;
        }
        Some(Self {
            algorithm,
            world,
            rank,
        })
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
        stripe: &Range<u64>,
    ) -> impl Iterator<Item = Contribution> + Clone + use<> {
        let stripe = stripe.clone();
        let others = self.others();
        let count = match self.algorithm {
            Algorithm::Ring | Algorithm::Whole(Reach::Ring) => others.min(1),
            Algorithm::Whole(Reach::Mesh) => self.steps(),
            Algorithm::Direct => others,
        };
        (0..count).map(move |nth| {
            let to = self.target(nth, nth);
            let range = match self.algorithm {
                Algorithm::Ring => ring::contribution(self, &stripe),
                Algorithm::Whole(_) => stripe.clone(),
                Algorithm::Direct => direct::part(self, &stripe, to.rank),
            };
            Contribution { range, to }
        })
    }

    /// How many flows arrive.
    #[must_use]
    pub fn steps(self) -> u32 {
        match self.algorithm {
            Algorithm::Ring => ring::steps(self),
            Algorithm::Whole(_) => whole::steps(self),
            Algorithm::Direct => direct::steps(self),
        }
    }

    /// What arrives in a stripe, by step.
    pub fn arrivals(self, stripe: &Range<u64>) -> impl Iterator<Item = Arrival> + Clone + use<> {
        let stripe = stripe.clone();
        (0..self.steps()).map(move |step| self.at(&stripe, step))
    }

    /// What arrives in one step. `None`: there is no such step.
    #[must_use]
    pub fn arrival(self, stripe: &Range<u64>, step: u32) -> Option<Arrival> {
        (step < self.steps()).then(|| self.at(stripe, step))
    }

    /// Which contributions are [kept](Action::Keep). `None`: what arrives is used at once.
    #[must_use]
    pub fn kept(self, stripe: &Range<u64>) -> Option<Kept> {
        let (range, own_turn) = match self.algorithm {
            Algorithm::Ring => return None,
            Algorithm::Whole(_) => (stripe.clone(), whole::own_turn(self)),
            Algorithm::Direct => direct::kept(self, stripe),
        };
        Some(Kept { range, own_turn })
    }

    /// Where the result of what is kept goes.
    pub fn told(self) -> impl Iterator<Item = Target> + Clone + use<> {
        let count = match self.algorithm {
            Algorithm::Ring | Algorithm::Whole(_) => 0,
            Algorithm::Direct => direct::told(self),
        };
        let first = self.others();
        (0..count).map(move |nth| self.target(nth, first.saturating_add(nth)))
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

    fn at(self, stripe: &Range<u64>, step: u32) -> Arrival {
        let last = self.steps().saturating_sub(1);
        let (range, action, after) = match self.algorithm {
            Algorithm::Ring => ring::arrival(self, stripe, step),
            Algorithm::Whole(_) => (stripe.clone(), whole::action(self, step), After::Nothing),
            Algorithm::Direct => direct::arrival(self, stripe, step),
        };
        let (from, goes_on) = match self.algorithm {
            Algorithm::Ring | Algorithm::Whole(Reach::Ring) => (self.previous(), step < last),
            Algorithm::Whole(Reach::Mesh) => (whole::contributor(self, step), false),
            Algorithm::Direct => (direct::sender(self, step), false),
        };
        Arrival {
            step,
            from,
            range,
            action,
            after,
            onward: goes_on.then(|| self.target(0, step.saturating_add(1))),
        }
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
