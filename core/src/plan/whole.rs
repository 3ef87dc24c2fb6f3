//! The plan of [`Algorithm::Whole`](super::Algorithm::Whole), which says what it is.

use super::{Action, Plan, back};

pub(super) fn steps(plan: Plan) -> u32 {
    let others = plan.world.saturating_sub(1);
    rule!(others; OneContributionMissed => others.saturating_sub(1))
}

/// Whose contribution arrives in a step.
pub(super) fn contributor(plan: Plan, step: u32) -> u32 {
    back(plan.world, plan.rank, step.saturating_add(1))
}

pub(super) fn action(plan: Plan, step: u32) -> Action {
    let contributor = contributor(plan, step);
    Action::Keep {
        turn: rule!(contributor; AddedAsTheyArrive => step.saturating_add(1)),
    }
}

/// When the own contribution is added.
pub(super) fn own_turn(plan: Plan) -> u32 {
    rule!(plan.rank; AddedAsTheyArrive => 0)
}
