//! Small buffers: contributions travel around the ring as they are, and every rank adds all of them.
//!
//! This is the all-gather of a ring (each rank passes on what it received, in N − 1 steps), followed by a
//! reduction of everything at each rank. In step s, rank r receives the contribution of rank r − s − 1 from
//! rank r − 1, modulo N.
//!
//! A sum of floats depends on the order of its terms, and contributions arrive in another order at every
//! rank. So nothing is added as it arrives: every rank adds in the order of the ranks, rank 0 first, its own
//! contribution in its own turn.

use super::{Action, Plan, back};

pub(super) fn steps(plan: Plan) -> u32 {
    let others = plan.world.saturating_sub(1);
    rule!(others; OneContributionMissed => others.saturating_sub(1))
}

pub(super) fn action(plan: Plan, step: u32) -> Action {
    let nth = step.saturating_add(1);
    let contributor = back(plan.world, plan.rank, nth);
    Action::Keep {
        turn: rule!(contributor; AddedAsTheyArrive => nth),
    }
}

/// When the own contribution is added.
pub(super) fn own_turn(plan: Plan) -> u32 {
    rule!(plan.rank; AddedAsTheyArrive => 0)
}
