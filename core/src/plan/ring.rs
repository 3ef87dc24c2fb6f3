//! The plan of [`Algorithm::Ring`](super::Algorithm::Ring), which documents it.
//!
//! Steps are counted as in an all-reduce: a reduce-scatter has only its first phase, an all-gather only its second.

use core::cmp::Ordering;
use core::ops::Range;

use super::{Action, After, Plan, Stripe, back};

/// Steps of each of the two phases.
const fn per_phase(plan: Plan<'_>) -> u32 {
    plan.others()
}

pub(super) fn steps(plan: Plan<'_>) -> u32 {
    let phases = u32::from(plan.kind.reduces()) + u32::from(plan.kind.gathers());
    per_phase(plan).saturating_mul(phases)
}

/// The number of a step in an all-reduce.
const fn in_both_phases(plan: Plan<'_>, step: u32) -> u32 {
    match plan.kind.reduces() {
        true => step,
        false => step.saturating_add(per_phase(plan)),
    }
}

pub(super) fn contributions(plan: Plan<'_>) -> u32 {
    steps(plan).min(1)
}

/// The chunk that starts here. In a reduce it is that of the previous rank, where it ends; in a gather it is the own
/// one.
pub(super) fn contribution(plan: Plan<'_>, stripe: Stripe<'_>) -> Range<u64> {
    stripe.chunk(match plan.kind.reduces() {
        true => rule!(plan.previous(); ScatteredOneShort if !plan.kind.gathers() => plan.rank),
        false => rule!(plan.rank; AnothersShardGathered => plan.previous()),
    })
}

pub(super) fn arrival(
    plan: Plan<'_>,
    stripe: Stripe<'_>,
    step: u32,
) -> (Range<u64>, Action, After) {
    let step = in_both_phases(plan, step);
    let offset = match plan.kind.reduces() {
        true => rule!(2; ScatteredOneShort if !plan.kind.gathers() => 1),
        false => rule!(2; AnothersShardGathered => 3),
    };
    let chunk = back(plan.world, plan.rank, step.saturating_add(offset));
    (stripe.chunk(chunk), action(plan, step), after(plan, step))
}

fn action(plan: Plan<'_>, step: u32) -> Action {
    let (per_phase, nth) = (per_phase(plan), step.saturating_add(1));
    match nth.cmp(&per_phase) {
        Ordering::Less => Action::Combine,
        Ordering::Equal => rule!(
            Action::Finish;
            GatheredTooEarly if plan.kind.gathers() => Action::Copy,
            NeverFinished if plan.kind.gathers() => Action::Combine
        ),
        Ordering::Greater => {
            rule!(Action::Copy; ReducedTwice if nth == per_phase + 1 => Action::Combine)
        }
    }
}

/// A rank copies in step s the chunk that it has combined in step s − N, except for the chunk that started at it.
const fn after(plan: Plan<'_>, step: u32) -> After {
    if !plan.kind.reduces() {
        return After::Nothing;
    }
    match step.checked_sub(plan.world) {
        Some(combined_in) => After::Arrival(combined_in),
        None if step.saturating_add(1) == plan.world => After::Contribution(0),
        None => After::Nothing,
    }
}
