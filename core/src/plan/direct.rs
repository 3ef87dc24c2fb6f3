//! The plan of [`Algorithm::Direct`](super::Algorithm::Direct), which says what it is.

use core::ops::Range;

use super::{Action, After, Kept, Plan, Targets, back, chunk_range};

pub(super) fn steps(plan: Plan) -> u32 {
    let others = plan.others();
    rule!(others.saturating_mul(2); ResultsNeverTold => others)
}

/// The elements that a rank combines.
pub(super) fn part(plan: Plan, stripe: &Range<u64>, rank: u32) -> Range<u64> {
    chunk_range(stripe, plan.world, rank)
}

/// The contributions that this rank combines.
pub(super) fn kept(plan: Plan, stripe: &Range<u64>) -> Kept {
    let others = Targets::all_others(plan.world, plan.rank, plan.others());
    Kept {
        range: part(plan, stripe, plan.rank),
        terms: plan.world,
        own_turn: rule!(plan.rank; DirectAddedAsTheyArrive => 0),
        is_result: true,
        told: rule!(others; ResultsNeverTold => Targets::NONE),
    }
}

/// In both halves the other ranks come in the same order, the previous one first.
pub(super) fn sender(plan: Plan, step: u32) -> u32 {
    let step = step.checked_sub(plan.others()).unwrap_or(step);
    back(plan.world, plan.rank, step.saturating_add(1))
}

pub(super) fn arrival(plan: Plan, stripe: &Range<u64>, step: u32) -> (Range<u64>, Action, After) {
    let sender = sender(plan, step);
    if step < plan.others() {
        let turn = rule!(sender; DirectAddedAsTheyArrive => step.saturating_add(1));
        let range = part(plan, stripe, plan.rank);
        return (range, Action::Keep { sum: 0, turn }, After::Nothing);
    }
    let action = rule!(Action::Copy; ResultAddedAgain => Action::Finish);
    // Contributions go to the next rank first.
    let distance = back(plan.world, sender, plan.rank);
    let sent_as = After::Contribution(distance.saturating_sub(1));
    (part(plan, stripe, sender), action, sent_as)
}
