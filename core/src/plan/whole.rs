//! The plan of [`Algorithm::Whole`](super::Algorithm::Whole), which documents it.

use super::{Action, Kept, Pattern, Plan, Stripe, Target, Targets, back, circulant, forth};

pub(super) fn steps(plan: Plan<'_>) -> u32 {
    let others = plan.others();
    rule!(others; OneContributionMissed => others.saturating_sub(1))
}

/// Number of times that the own contribution is sent.
pub(super) fn contributions(plan: Plan<'_>, pattern: Pattern) -> u32 {
    match pattern {
        Pattern::Ring => plan.others().min(1),
        Pattern::Mesh => steps(plan),
        Pattern::Circulant => {
            u32::try_from(circulant::gathered_to(plan, 0).count()).unwrap_or(u32::MAX)
        }
    }
}

/// The targets of the own contribution.
pub(super) fn contribution_to(plan: Plan<'_>, pattern: Pattern, nth: u32) -> Target {
    let in_turn = plan.target(nth, nth);
    match pattern {
        Pattern::Ring | Pattern::Mesh => in_turn,
        Pattern::Circulant => {
            let mut targets = circulant::gathered_to(plan, 0);
            targets.nth(nth as usize).unwrap_or(in_turn)
        }
    }
}

/// The rank whose contribution arrives in a step.
pub(super) fn contributor(plan: Plan<'_>, pattern: Pattern, step: u32) -> u32 {
    match pattern {
        Pattern::Ring | Pattern::Mesh => back(plan.world, plan.rank, step.saturating_add(1)),
        Pattern::Circulant => forth(plan.world, plan.rank, circulant::gathered(step)),
    }
}

pub(super) fn action(plan: Plan<'_>, pattern: Pattern, step: u32) -> Action {
    let contributor = contributor(plan, pattern, step);
    Action::Keep {
        sum: 0,
        turn: rule!(plan.turn(contributor); AddedAsTheyArrive => step.saturating_add(1)),
    }
}

pub(super) fn kept(plan: Plan<'_>, stripe: Stripe<'_>) -> Kept<'static> {
    Kept {
        range: stripe.whole(),
        terms: plan.world,
        own_turn: Some(rule!(plan.turn(plan.rank); AddedAsTheyArrive => 0)),
        is_result: true,
        told: Targets::NONE,
        onto: None,
    }
}
