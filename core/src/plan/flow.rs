//! The parts of a plan: contributions, arrivals, kept sums, and their targets.

use core::ops::Range;

use super::seat::Seat;
use super::two_level;
use super::{back, circulant, forth, tree};

/// A target of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// The rank. Frames take the link to it.
    pub rank: u32,
    /// The step number that the frames carry. The receiver identifies the flow by it.
    pub step: u32,
}

/// The targets of a flow: no rank, one, or several, each at most once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Targets<'a>(Left<'a>);

/// The remaining targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Left<'a> {
    #[default]
    None,
    One(Target),
    /// The ranks that follow at these distances, under increasing steps.
    Following {
        world: u32,
        rank: u32,
        distances: (u32, u32),
        step: u32,
    },
    /// A chunk of the all-gather in rounds, which has this index here, in the rounds before this one. The steps of
    /// the all-gather follow the first.
    Rounds {
        world: u32,
        rank: u32,
        index: u32,
        before: u32,
        first: u32,
    },
    /// The ranks to which a rank of two levels sends the result of a shard, from this number on.
    Told {
        seat: Seat<'a>,
        reduces: bool,
        shard: u32,
        nth: u32,
    },
    /// The gateways of a shard at other sites, from this number on.
    Gateways {
        seat: Seat<'a>,
        shard: u32,
        nth: u32,
    },
    /// The ranks below one in a tree, from this number on.
    Below {
        place: tree::Place<'a>,
        nth: u32,
    },
}

impl<'a> Targets<'a> {
    pub(super) const NONE: Self = Self(Left::None);

    pub(super) const fn one(target: Target) -> Self {
        Self(Left::One(target))
    }

    /// All other ranks, the next one first, under the steps from `step` on.
    pub(super) const fn all_others(world: u32, rank: u32, step: u32) -> Self {
        Self(Left::Following {
            world,
            rank,
            distances: (1, world),
            step,
        })
    }

    /// The ranks that get a chunk in the rounds of an all-gather before this one.
    pub(super) const fn rounds(
        (world, rank): (u32, u32),
        index: u32,
        before: u32,
        first: u32,
    ) -> Self {
        Self(Left::Rounds {
            world,
            rank,
            index,
            before,
            first,
        })
    }

    /// The ranks to which a rank of two levels sends the result of a shard.
    pub(super) const fn told(seat: Seat<'a>, reduces: bool, shard: u32) -> Self {
        let nth = 0;
        Self(Left::Told {
            seat,
            reduces,
            shard,
            nth,
        })
    }

    /// The gateways of a shard at other sites, which get the sum of this one.
    pub(super) const fn gateways(seat: Seat<'a>, shard: u32) -> Self {
        let nth = 0;
        Self(Left::Gateways { seat, shard, nth })
    }

    /// The ranks below one in a tree.
    pub(super) const fn below(place: tree::Place<'a>) -> Self {
        Self(Left::Below { place, nth: 0 })
    }
}

impl Iterator for Targets<'_> {
    type Item = Target;

    fn next(&mut self) -> Option<Target> {
        match &mut self.0 {
            Left::None => None,
            Left::One(target) => {
                let target = *target;
                self.0 = Left::None;
                Some(target)
            }
            Left::Following {
                world,
                rank,
                distances: (next, end),
                step,
            } => {
                let distance = Some(*next).filter(|distance| distance < end)?;
                let target = Target {
                    rank: forth(*world, *rank, distance),
                    step: *step,
                };
                (*next, *step) = (distance.saturating_add(1), step.saturating_add(1));
                Some(target)
            }
            Left::Rounds {
                world,
                rank,
                index,
                before,
                first,
            } => loop {
                let round = before.checked_sub(1).filter(|round| *round > 0)?;
                *before = round;
                if *index < circulant::chunks_of(*world, round) {
                    let distance = circulant::distance(*world, round);
                    // It is the chunk of this index there, and that of index 1 comes first.
                    let there = index.saturating_add(distance);
                    break Some(Target {
                        rank: back(*world, *rank, distance),
                        step: first.saturating_add(there).saturating_sub(1),
                    });
                }
            },
            Left::Told {
                seat,
                reduces,
                shard,
                nth,
            } => {
                let target = two_level::told(*seat, *reduces, *shard, *nth)?;
                *nth = nth.saturating_add(1);
                Some(target)
            }
            Left::Gateways { seat, shard, nth } => {
                let target = two_level::summed(*seat, *shard, *nth)?;
                *nth = nth.saturating_add(1);
                Some(target)
            }
            Left::Below { place, nth } => {
                let target = tree::target(*place, *nth)?;
                *nth = nth.saturating_add(1);
                Some(target)
            }
        }
    }
}

/// A part of its own elements that a rank sends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Contribution {
    /// Elements of the buffer. If the range is empty, no frame is sent.
    pub range: Range<u64>,
    /// Its target.
    pub to: Target,
}

/// A sum whose terms are kept until all of them have arrived, and then added.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kept<'a> {
    /// Elements of the buffer, the same of each term.
    pub range: Range<u64>,
    /// Number of terms, the own contribution included if it is one.
    pub terms: u32,
    /// The turn in which the own contribution is added, from 0. `None`: it is part of a sum that is a term.
    pub own_turn: Option<u32>,
    /// Whether the sum is the result. If so, it is written to the buffer, and an average is divided. If not, it lacks
    /// contributions, and is only sent.
    pub is_result: bool,
    /// The targets of the sum.
    pub told: Targets<'a>,
    /// The term of another sum of this rank that it is as well.
    pub onto: Option<Term>,
}

/// A term of a sum that is [kept](Action::Keep).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Term {
    /// The sum, by its number in [`Plan::kept`](super::Plan::kept).
    pub sum: u32,
    /// The turn in which it is added, from 0.
    pub turn: u32,
}

/// An arriving flow.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Arrival<'a> {
    /// The step number, from 0 without gaps. Frames carry it.
    pub step: u32,
    /// The rank that sends it.
    pub from: u32,
    /// Elements of the buffer. If the range is empty, no frame arrives.
    pub range: Range<u64>,
    /// What to do with it.
    pub action: Action,
    /// What must have happened to an element before it may be overwritten.
    pub after: After,
    /// The targets to which it is forwarded after the action.
    pub onward: Targets<'a>,
    /// Whether the arrival shows, byte by byte, how far earlier contributions of this rank have come: it is the
    /// result of its own contribution, or of that of the next rank, whose length differs by at most one element.
    pub comes_back: bool,
    /// Whether its sender sends it at the start, without waiting for other ranks. If it does not arrive, its sender
    /// or the link is to blame, and no rank behind them.
    pub sent_at_once: bool,
}

/// What to do with an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Add the own contribution. The sum is forwarded, and nothing is written to the buffer.
    Combine,
    /// Add the own contribution, which is the last one, and divide an average by the number of contributors. Write
    /// the result to the buffer.
    Finish,
    /// As [`Finish`](Self::Finish), but the result is that of another rank: it is forwarded, and not written.
    Complete,
    /// It is the result: write it to the buffer.
    Copy,
    /// Forward it unchanged. This rank does not use it.
    Pass,
    /// It is a term of a sum: keep it until all terms have arrived. Then add all of them, the own contribution included
    /// if it is one, in the order of their turns, and send the sum to the targets of the [sum](Kept). The arrival
    /// itself is forwarded unchanged.
    Keep {
        /// The sum, by its number in [`Plan::kept`](super::Plan::kept).
        sum: u32,
        /// The turn in which it is added, from 0.
        turn: u32,
    },
}

/// What must have happened to each element before an arrival overwrites it. Otherwise a neighbour that sends too
/// early would destroy a contribution that is still needed. Frames of different steps may alternate, so the condition
/// holds for each element, not for the whole flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum After {
    /// Nothing.
    Nothing,
    /// The same element was sent, as part of the own contribution of this number (from 0, in the order of
    /// [`Plan::contributions`](super::Plan::contributions)). The arrival is its result.
    Contribution(u32),
    /// The same element has arrived in this step.
    Arrival(u32),
    /// The same element was added to the sum of this number. The arrival is its result.
    Sum(u32),
}

impl Action {
    /// Whether the result is written at the range of the arrival.
    #[must_use]
    pub const fn writes_result(self) -> bool {
        match self {
            Self::Finish | Self::Copy => true,
            Self::Combine | Self::Complete | Self::Pass | Self::Keep { .. } => false,
        }
    }

    /// Whether the own contribution is added to the arrival.
    #[must_use]
    pub const fn adds(self) -> bool {
        match self {
            Self::Combine | Self::Finish | Self::Complete => true,
            Self::Copy | Self::Pass | Self::Keep { .. } => false,
        }
    }

    /// Whether the sum holds all contributions once the own one is added. An average is then divided.
    #[must_use]
    pub const fn completes(self) -> bool {
        match self {
            Self::Finish | Self::Complete => true,
            Self::Combine | Self::Copy | Self::Pass | Self::Keep { .. } => false,
        }
    }
}
