//! The plan of [`Algorithm::Chain`](super::Algorithm::Chain), which documents it.

use super::{Plan, Targets, back};

pub(super) fn is_root(plan: Plan<'_>, rank: u32) -> bool {
    plan.kind.root() == Some(&rank)
}

/// Only the root contributes.
pub(super) fn contributions(plan: Plan<'_>) -> u32 {
    match is_root(plan, plan.rank) {
        true => plan.others().min(1),
        false => 0,
    }
}

/// Only the root receives nothing.
pub(super) fn steps(plan: Plan<'_>) -> u32 {
    match is_root(plan, plan.rank) {
        true => 0,
        false => u32::from(plan.kind.root().is_some()),
    }
}

/// The chain ends before the root.
pub(super) fn onward(plan: Plan<'_>) -> Targets<'static> {
    match rule!(is_root(plan, plan.next()); ChainEndsEarly => true) {
        true => Targets::NONE,
        false => Targets::one(plan.target(0, 0)),
    }
}

/// The distance behind the root.
pub(super) fn depth(plan: Plan<'_>) -> u32 {
    let root = plan.kind.root();
    root.map_or(0, |root| back(plan.world, plan.rank, *root))
}
