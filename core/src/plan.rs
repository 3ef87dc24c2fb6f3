//! Who moves what in a collective: a [`Plan`] is the exact list for one rank and one operation.
//!
//! A plan consists of *flows*. A flow is a range of the buffer that travels over one edge under one step
//! number. A rank's part of an operation is
//!
//! 1. what it [contributes](Plan::contribution): a range of its own elements, and where it goes;
//! 2. what [arrives](Plan::arrivals): from which rank, which range, what to do with it ([`Action`]), and
//!    where it goes on ([`Arrival::onward`]).
//!
//! The data plane executes this list and recomputes nothing, and the model executes the same list: a
//! mistake here is a mistake of both.
//!
//! There are two [`Algorithm`]s, both around a ring, and one place that says which of them a collective
//! takes: [`Algorithm::of`].
//!
//! **What goes on is exactly what arrived**, frame by frame: a frame can be forwarded as soon as it has
//! been reduced or stored, without waiting for the rest of its flow. All other frames that a rank sends are
//! of its contribution.

use core::ops::Range;

use crate::element::{CollectiveSpec, Quantization};
use crate::wire::FRAME_PAYLOAD_MAX;

mod cut;
mod ring;
#[cfg(test)]
mod tests;
mod whole;

pub use cut::{STRIPE_BYTES_MIN, chunk_range, frame_elements, frames, stripe_range, stripes_for};

/// How the contributions to a collective become its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    /// Whole, around the ring: the all-gather of a ring (each rank passes on what it received, in N − 1 steps),
    /// followed by a reduction of everything at each rank.
    ///
    /// In step s, rank r receives the contribution of rank r − s − 1 from rank r − 1, modulo N. A sum of floats
    /// depends on the order of its terms, and contributions arrive in another order at every rank. So nothing
    /// is added as it arrives: every rank adds in the order of the ranks, rank 0 first, its own contribution in
    /// its own turn.
    ///
    /// It takes half as many steps as [`Ring`](Self::Ring), but every rank sends N − 1 buffers: the better
    /// choice if a step costs more than the bytes.
    Whole,
}

impl Algorithm {
    /// The algorithm that a collective takes in a world of so many. A buffer travels whole if it is of at
    /// most `whole_bytes_max` bytes, not quantized, and so small that those of all ranks fit into one frame
    /// ([`FRAME_PAYLOAD_MAX`]): a rank keeps them all until it adds.
    ///
    /// Ranks that do not come to the same do not understand each other's frames. They do if `spec` and
    /// `world` are what the master has told them and `whole_bytes_max` is
    /// [`WHOLE_BUFFER_MAX`](crate::wire::WHOLE_BUFFER_MAX).
    #[must_use]
    pub fn of(spec: &CollectiveSpec, world: u32, whole_bytes_max: u64) -> Self {
        let bytes = spec.count.saturating_mul(spec.element.size() as u64);
        let all = bytes.saturating_mul(u64::from(world));
        let is_small = bytes <= whole_bytes_max && all <= FRAME_PAYLOAD_MAX as u64;
        if is_small && spec.quantization == Quantization::None {
            Self::Whole
        } else {
            Self::Ring
        }
    }
}

/// One rank's part of an operation. It names ranks and elements of one stripe of the buffer (see
/// [`stripe_range`]); a buffer that travels [`Whole`](Algorithm::Whole) is one stripe.
///
/// ```
/// use pccl_core::plan::{Action, Algorithm, Plan};
///
/// let rank_1 = Plan::new(Algorithm::Ring, 3, 1).expect("it exists");
/// let contribution = rank_1.contribution(&(0..7)).expect("it is not alone");
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
    /// Over the edge to this rank.
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
    /// among them, in the order of their turns, an average is divided, and that is the result. It goes on
    /// as it came.
    Keep {
        /// When it is added, from 0.
        turn: u32,
    },
}

impl Arrival {
    /// Whether it is what became of the own contribution, back from its way through all ranks.
    #[must_use]
    pub fn comes_back(&self) -> bool {
        self.after == After::Contribution
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
    /// The same element has left, as a part of the own contribution: what arrives is its result.
    Contribution,
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

    /// What the rank sends of its own elements of a stripe. `None` in a world of one, whose buffer is the
    /// result already.
    #[must_use]
    pub fn contribution(self, stripe: &Range<u64>) -> Option<Contribution> {
        if self.steps() == 0 {
            return None;
        }
        let range = match self.algorithm {
            Algorithm::Ring => ring::contribution(self, stripe),
            Algorithm::Whole => stripe.clone(),
        };
        let to = self.forward(0);
        Some(Contribution { range, to })
    }

    /// How many flows arrive.
    #[must_use]
    pub fn steps(self) -> u32 {
        match self.algorithm {
            Algorithm::Ring => ring::steps(self),
            Algorithm::Whole => whole::steps(self),
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

    /// When the own contribution is added, from 0, if all are [kept](Action::Keep). `None`: they are not.
    #[must_use]
    pub fn own_turn(self) -> Option<u32> {
        match self.algorithm {
            Algorithm::Ring => None,
            Algorithm::Whole => Some(whole::own_turn(self)),
        }
    }

    /// The rank that this one sends to.
    #[must_use]
    pub const fn next(self) -> u32 {
        let next = self.rank.saturating_add(1);
        if next < self.world { next } else { 0 }
    }

    /// The rank that this one receives from.
    #[must_use]
    pub fn previous(self) -> u32 {
        back(self.world, self.rank, 1)
    }

    fn at(self, stripe: &Range<u64>, step: u32) -> Arrival {
        let last = self.steps().saturating_sub(1);
        let (range, action, after) = match self.algorithm {
            Algorithm::Ring => ring::arrival(self, stripe, step),
            Algorithm::Whole => (stripe.clone(), whole::action(self, step), After::Nothing),
        };
        Arrival {
            step,
            from: self.previous(),
            range,
            action,
            after,
            onward: (step < last).then(|| self.forward(step.saturating_add(1))),
        }
    }

    const fn forward(self, step: u32) -> Target {
        Target {
            rank: self.next(),
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
