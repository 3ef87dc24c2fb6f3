//! The plan of [`Algorithm::Circulant`](super::Algorithm::Circulant), and of whole buffers in the same pattern. Both
//! are documented there.
//!
//! A chunk has an *index* at each rank: chunk r + i, modulo N, has index i at rank r. So the own chunk has index 0 at
//! each rank, and the plan of a rank depends on indices only. Rounds have numbers from 1 in the order of the
//! reduce-scatter; the all-gather takes them backwards.

use core::ops::Range;

use super::{Action, After, Contribution, Kept, Plan, Stripe, Target, Targets, forth};

/// The distance of the two ranks of a round: ⌈N / 2ʰ⌉. It is also the lowest index of the chunks of the round, at the
/// rank that sends them in the reduce-scatter and receives them in the all-gather.
pub(super) const fn distance(world: u32, round: u32) -> u32 {
    match 1_u64.checked_shl(round) {
        // It is at most `world`.
        Some(parts) => (world as u64).div_ceil(parts) as u32,
        None => 1,
    }
}

/// Number of chunks of a round. At the other one of its two ranks they have the indices below it.
pub(super) const fn chunks_of(world: u32, round: u32) -> u32 {
    distance(world, round.saturating_sub(1)).saturating_sub(distance(world, round))
}

/// The number of rounds, ⌈log₂ N⌉.
const fn rounds(world: u32) -> u32 {
    u32::BITS - world.saturating_sub(1).leading_zeros()
}

/// The round of the chunk with an index: it arrives here in the all-gather, and leaves in the reduce-scatter. For the
/// own chunk, the round after the last.
fn round_of(world: u32, index: u32) -> u32 {
    let mut all = 1..=rounds(world);
    all.find(|round| distance(world, *round) <= index)
        .unwrap_or(rounds(world).saturating_add(1))
}

/// From this index on nothing arrives in the reduce-scatter, and only the own contribution leaves.
const fn first_alone(world: u32) -> u32 {
    world / 2
}

fn chunk(plan: Plan<'_>, stripe: Stripe<'_>, index: u32) -> Range<u64> {
    stripe.chunk(forth(plan.world, plan.rank, index))
}

/// The target of a chunk in the reduce-scatter. The chunks of all earlier rounds are the steps before it.
fn partial_to(plan: Plan<'_>, index: u32) -> Target {
    let round = round_of(plan.world, index);
    let distance = distance(plan.world, round);
    let there = index.saturating_sub(distance);
    Target {
        rank: forth(plan.world, plan.rank, distance),
        step: steps_before(plan.world, round).saturating_add(there),
    }
}

fn steps_before(world: u32, round: u32) -> u32 {
    world.saturating_sub(distance(world, round.saturating_sub(1)))
}

/// The target of a chunk in the all-gather, if there is one.
fn result_to(plan: Plan<'_>, index: u32) -> Targets<'static> {
    let round = round_of(plan.world, index);
    match plan.kind.gathers() {
        true => Targets::rounds((plan.world, plan.rank), index, round, first_gathered(plan)),
        false => Targets::NONE,
    }
}

/// The first step of the all-gather.
const fn first_gathered(plan: Plan<'_>) -> u32 {
    match plan.kind.reduces() {
        true => plan.others(),
        false => 0,
    }
}

pub(super) fn steps(plan: Plan<'_>) -> u32 {
    let phases = u32::from(plan.kind.reduces()) + u32::from(plan.kind.gathers());
    plan.others().saturating_mul(phases)
}

pub(super) fn contributions(plan: Plan<'_>) -> u32 {
    match plan.kind.reduces() {
        true => plan.world.saturating_sub(first_alone(plan.world).max(1)),
        false => u32::try_from(result_to(plan, 0).count()).unwrap_or(u32::MAX),
    }
}

pub(super) fn contribution(plan: Plan<'_>, stripe: Stripe<'_>, nth: u32) -> Contribution {
    if !plan.kind.reduces() {
        let to = result_to(plan, 0).nth(nth as usize);
        return Contribution {
            range: chunk(plan, stripe, 0),
            to: to.unwrap_or(plan.target(0, 0)),
        };
    }
    let index = first_alone(plan.world).max(1).saturating_add(nth);
    Contribution {
        range: chunk(plan, stripe, index),
        to: partial_to(plan, index),
    }
}

pub(super) fn sums(plan: Plan<'_>) -> u32 {
    match plan.kind.reduces() {
        true => first_alone(plan.world),
        false => 0,
    }
}

/// Sum `index` is that of the chunk with this index.
pub(super) fn kept(plan: Plan<'_>, stripe: Stripe<'_>, index: u32) -> Kept<'static> {
    let before = round_of(plan.world, index);
    let arrive = (1..before).filter(|round| index < chunks_of(plan.world, *round));
    let arrive = u32::try_from(arrive.count()).unwrap_or(u32::MAX);
    let is_result = index == 0;
    Kept {
        range: chunk(plan, stripe, index),
        terms: arrive.saturating_add(1),
        own_turn: Some(0),
        is_result,
        told: match is_result {
            true => result_to(plan, 0),
            false => Targets::one(partial_to(plan, index)),
        },
        onto: None,
    }
}

/// Whether a step is one of the all-gather.
const fn is_gathered(plan: Plan<'_>, step: u32) -> bool {
    step >= first_gathered(plan) && plan.kind.gathers()
}

/// The sender of a flow, and the index of its chunk here.
pub(super) fn source(plan: Plan<'_>, step: u32) -> (u32, u32) {
    let world = plan.world;
    if let Some(index) = step.checked_sub(first_gathered(plan))
        && is_gathered(plan, step)
    {
        let index = index.saturating_add(1);
        let distance = distance(world, round_of(world, index));
        return (forth(world, plan.rank, distance), index);
    }
    let (round, index) = summed(world, step);
    (super::back(world, plan.rank, distance(world, round)), index)
}

/// The round and the index of a step of the reduce-scatter.
fn summed(world: u32, step: u32) -> (u32, u32) {
    let mut all = (1..=rounds(world)).rev();
    let round = all.find(|round| steps_before(world, *round) <= step);
    let round = round.unwrap_or(1);
    (round, step.saturating_sub(steps_before(world, round)))
}

pub(super) fn arrival(
    plan: Plan<'_>,
    stripe: Stripe<'_>,
    step: u32,
) -> (Range<u64>, Action, After) {
    let (_, index) = source(plan, step);
    let range = chunk(plan, stripe, index);
    if is_gathered(plan, step) {
        let contributed = index.checked_sub(first_alone(plan.world).max(1));
        let after = match (plan.kind.reduces(), contributed) {
            (true, Some(nth)) => After::Contribution(nth),
            (true, None) => After::Sum(index),
            (false, Some(_) | None) => After::Nothing,
        };
        let action = rule!(Action::Copy; RoundsAddResultsAgain => Action::Finish);
        return (range, action, after);
    }
    // In an earlier round than its own, of each the one more.
    let (turn, _) = summed(plan.world, step);
    (range, Action::Keep { sum: index, turn }, After::Nothing)
}

/// The targets to which an arrival is forwarded.
pub(super) fn onward(plan: Plan<'_>, step: u32) -> Targets<'static> {
    let (_, index) = source(plan, step);
    match is_gathered(plan, step) {
        true => result_to(plan, index),
        false => Targets::NONE,
    }
}

/// Whether a message has only contributions of its sender, and no sum of the reduce-scatter.
pub(super) fn is_sent_at_once(plan: Plan<'_>, step: u32) -> bool {
    if is_gathered(plan, step) {
        return !plan.kind.reduces() && gathered_at_once(plan, step);
    }
    let (round, _) = summed(plan.world, step);
    distance(plan.world, round) >= first_alone(plan.world)
}

/// Whether a message of a separate all-gather has only the own chunk of its sender.
pub(super) fn gathered_at_once(plan: Plan<'_>, step: u32) -> bool {
    let round = round_of(plan.world, gathered(step));
    chunks_of(plan.world, round) == 1
}

/// The index of the chunk that arrives in a step of a separate all-gather.
pub(super) const fn gathered(step: u32) -> u32 {
    step.saturating_add(1)
}

/// The sender of a step of a separate all-gather.
pub(super) fn gathered_from(plan: Plan<'_>, step: u32) -> u32 {
    let round = round_of(plan.world, gathered(step));
    forth(plan.world, plan.rank, distance(plan.world, round))
}

/// The targets of the chunk with an index in a separate all-gather.
pub(super) fn gathered_to(plan: Plan<'_>, index: u32) -> Targets<'static> {
    let round = round_of(plan.world, index);
    Targets::rounds((plan.world, plan.rank), index, round, 0)
}
