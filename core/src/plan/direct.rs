//! The plan of [`Algorithm::Direct`](super::Algorithm::Direct), which documents it.

use core::ops::Range;

use super::{Action, After, Contribution, Kept, Plan, Stripe, Targets, back};

pub(super) fn steps(plan: Plan<'_>) -> u32 {
    let others = plan.others();
    match plan.kind.reduces() && plan.kind.gathers() {
        true => rule!(others.saturating_mul(2); ResultsNeverTold => others),
        false => others,
    }
}

/// In a reduce each rank gets its own chunk; in a gather all ranks get the chunk of this rank.
pub(super) fn contribution(plan: Plan<'_>, stripe: Stripe<'_>, nth: u32) -> Contribution {
    let to = plan.target(nth, nth);
    let chunk = match plan.kind.reduces() {
        true => to.rank,
        false => plan.rank,
    };
    Contribution {
        range: stripe.chunk(chunk),
        to,
    }
}

/// The contributions that this rank combines.
pub(super) fn kept(plan: Plan<'_>, stripe: Stripe<'_>) -> Kept<'static> {
    let of_result = match plan.kind.gathers() {
        true => Targets::all_others(plan.world, plan.rank, plan.others()),
        false => Targets::NONE,
    };
    Kept {
        range: stripe.chunk(plan.rank),
        terms: plan.world,
        own_turn: Some(rule!(plan.turn(plan.rank); DirectAddedAsTheyArrive => 0)),
        is_result: true,
        told: rule!(of_result; ResultsNeverTold => Targets::NONE),
        onto: None,
    }
}

/// In both halves the other ranks come in the same order, the previous one first.
pub(super) fn sender(plan: Plan<'_>, step: u32) -> u32 {
    let step = step.checked_sub(plan.others()).unwrap_or(step);
    back(plan.world, plan.rank, step.saturating_add(1))
}

pub(super) fn arrival(
    plan: Plan<'_>,
    stripe: Stripe<'_>,
    step: u32,
) -> (Range<u64>, Action, After) {
    let sender = sender(plan, step);
    if plan.kind.reduces() && step < plan.others() {
        let turn = rule!(plan.turn(sender); DirectAddedAsTheyArrive => step.saturating_add(1));
        let range = stripe.chunk(plan.rank);
        return (range, Action::Keep { sum: 0, turn }, After::Nothing);
    }
    let action = rule!(Action::Copy; ResultAddedAgain => Action::Finish);
    // Contributions go to the next rank first.
    let distance = back(plan.world, sender, plan.rank);
    let after = match plan.kind.reduces() {
        true => After::Contribution(distance.saturating_sub(1)),
        false => After::Nothing,
    };
    (stripe.chunk(sender), action, after)
}
