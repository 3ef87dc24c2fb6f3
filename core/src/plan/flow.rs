//! What a plan consists of: what a rank contributes, what arrives, what is kept, and where each of them goes.

use core::ops::Range;

use super::two_level::{self, Seat};
use super::{back, circulant, forth};

/// Where frames go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Over the link to this rank.
    pub rank: u32,
    /// The number of the step, which frames carry: the receiver knows by it which flow they are of.
    pub step: u32,
}

/// Where a flow goes: to no rank, one, or several, each at most once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Targets<'a>(Left<'a>);

/// What is left of targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Left<'a> {
    #[default]
    None,
    One(Target),
    /// The ranks that follow at these distances, under steps that grow with them.
    Following {
        world: u32,
        rank: u32,
        distances: (u32, u32),
        step: u32,
    },
    /// A chunk of the all-gather in rounds, which is the one of this index here, in the rounds before this one. The
    /// steps of the all-gather follow the first.
    Rounds {
        world: u32,
        rank: u32,
        index: u32,
        before: u32,
        first: u32,
    },
    /// Whom a rank of two levels tells the result of a shard, from this number on.
    Told {
        seat: Seat<'a>,
        reduces: bool,
        shard: u32,
        nth: u32,
    },
}

impl<'a> Targets<'a> {
    pub(super) const NONE: Self = Self(Left::None);

    pub(super) const fn one(target: Target) -> Self {
        Self(Left::One(target))
    }

    /// All others, the next rank first, under the steps from `step` on.
    pub(super) const fn all_others(world: u32, rank: u32, step: u32) -> Self {
        Self(Left::Following {
            world,
            rank,
            distances: (1, world),
            step,
        })
    }

    /// Those that get a chunk in the rounds of an all-gather before this one.
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

    /// Those that a rank of two levels tells the result of a shard.
    pub(super) const fn told(seat: Seat<'a>, reduces: bool, shard: u32) -> Self {
        let nth = 0;
        Self(Left::Told {
            seat,
            reduces,
            shard,
            nth,
        })
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
        }
    }
}

/// What a rank sends of its own elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Contribution {
    /// Elements of the buffer. They may be none; then no frame is sent.
    pub range: Range<u64>,
    /// Where they go.
    pub to: Target,
}

/// Terms of a sum that are kept until all of them are here, and then added.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kept<'a> {
    /// Elements of the buffer: these of each term.
    pub range: Range<u64>,
    /// How many terms there are, the own contribution among them.
    pub terms: u32,
    /// When the own contribution is added, from 0.
    pub own_turn: u32,
    /// Whether the sum is the result: then it is written there, and an average divided. Else it lacks
    /// contributions, and just goes on.
    pub is_result: bool,
    /// Where the sum goes.
    pub told: Targets<'a>,
}

/// A flow that arrives.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Arrival<'a> {
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
    /// Where it goes on, as it is once the action is done.
    pub onward: Targets<'a>,
    /// Whether it tells, byte by byte, how far contributions have come that left alone: it is what became of the own one,
    /// or of that of the next rank, which is of the same length but for an element.
    pub comes_back: bool,
    /// Whether its sender sends it as soon as it begins, without waiting for what others send. If it does not come, its
    /// sender or the link is to blame, and nobody behind them.
    pub sent_at_once: bool,
}

/// What to do with what arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The own contribution is added to it. The sum goes on; nothing is written to the result.
    Combine,
    /// The own contribution is the last that it lacks: once that is added, and an average divided by the
    /// number of contributors, it is the result, and is written there.
    Finish,
    /// As [`Finish`](Self::Finish), but the result is that of another rank: it goes on, and is not written.
    Complete,
    /// It is the result, and is written there.
    Copy,
    /// It is nothing to this rank, and goes on as it came.
    Pass,
    /// It is a term of a sum, which is kept until all of its terms are here. Then all are added, the own
    /// contribution among them, in the order of their turns, and go where the [sum](Kept) goes. What arrived goes
    /// on as it came.
    Keep {
        /// Of which sum, by its number in [`Plan::kept`](super::Plan::kept).
        sum: u32,
        /// When it is added, from 0.
        turn: u32,
    },
}

/// What has to be done with each element of a flow before it is overwritten. A neighbour that sends too early
/// would otherwise destroy a contribution that is still needed. Frames of different steps alternate, so it is
/// each element for which this counts, not the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum After {
    /// Nothing.
    Nothing,
    /// The same element has left, as a part of the own contribution of this number, from 0 in the order of
    /// [`Plan::contributions`](super::Plan::contributions): what arrives is its result.
    Contribution(u32),
    /// The same element has arrived in this step.
    Arrival(u32),
    /// The same element was added in the sum of this number: what arrives is its result.
    Sum(u32),
}

impl Action {
    /// Whether the result is written, at the place of what arrives.
    #[must_use]
    pub const fn writes_result(self) -> bool {
        match self {
            Self::Finish | Self::Copy => true,
            Self::Combine | Self::Complete | Self::Pass | Self::Keep { .. } => false,
        }
    }

    /// Whether the own contribution is added to what arrives.
    #[must_use]
    pub const fn adds(self) -> bool {
        match self {
            Self::Combine | Self::Finish | Self::Complete => true,
            Self::Copy | Self::Pass | Self::Keep { .. } => false,
        }
    }

    /// Whether all contributions are in the sum, once the own one is added: then an average is divided.
    #[must_use]
    pub const fn completes(self) -> bool {
        match self {
            Self::Finish | Self::Complete => true,
            Self::Combine | Self::Copy | Self::Pass | Self::Keep { .. } => false,
        }
    }
}
