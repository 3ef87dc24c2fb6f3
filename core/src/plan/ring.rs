//! The plan of [`Algorithm::Ring`](super::Algorithm::Ring), which says what it is.

use core::cmp::Ordering;
use core::ops::Range;

use super::{Action, After, Plan, back, chunk_range};

/// Steps of each of the two phases.
const fn per_phase(plan: Plan) -> u32 {
    plan.world.saturating_sub(1)
}

pub(super) fn steps(plan: Plan) -> u32 {
    per_phase(plan).saturating_mul(2)
}

/// The chunk that starts here.
pub(super) fn contribution(plan: Plan, stripe: &Range<u64>) -> Range<u64> {
    chunk_range(stripe, plan.world, plan.rank)
}

pub(super) fn arrival(plan: Plan, stripe: &Range<u64>, step: u32) -> (Range<u64>, Action, After) {
    let chunk = back(plan.world, plan.rank, step.saturating_add(1));
    let range = chunk_range(stripe, plan.world, chunk);
    (range, action(plan, step), after(plan, step))
}

fn action(plan: Plan, step: u32) -> Action {
    let (per_phase, nth) = (per_phase(plan), step.saturating_add(1));
    match nth.cmp(&per_phase) {
        Ordering::Less => Action::Combine,
        Ordering::Equal => rule!(
            Action::Finish;
            GatheredTooEarly => Action::Copy,
            NeverFinished => Action::Combine
        ),
        Ordering::Greater => {
            rule!(Action::Copy; ReducedTwice if nth == per_phase + 1 => Action::Combine)
        }
    }
}

/// The chunk that a rank copies in step s it has combined in step s − N, except for the one that started at
/// it.
const fn after(plan: Plan, step: u32) -> After {
    match step.checked_sub(plan.world) {
        Some(combined_in) => After::Arrival(combined_in),
        None if step.saturating_add(1) == plan.world => After::Contribution(0),
        None => After::Nothing,
    }
}
