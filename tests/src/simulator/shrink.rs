//! Leaves out of a plan what its failure does not need.

use super::plan::{Part, Plan, Without};
use super::{Outcome, simulate};

/// The smallest plan of the seed that was found to fail, as what it leaves out, and its run. The failure may be another
/// one than that of the whole plan. `None`: the seed does not fail.
#[must_use]
pub fn shrink(seed: u64) -> Option<(Without, Outcome)> {
    let mut without = Without::default();
    let mut outcome = simulate(seed, &without, false);
    if outcome.findings.is_empty() {
        return None;
    }
    loop {
        let smaller = smaller_ones(seed, &without);
        let fails = smaller.into_iter().find_map(|less| {
            let outcome = simulate(seed, &less, false);
            (!outcome.findings.is_empty()).then_some((less, outcome))
        });
        match fails {
            Some(found) => (without, outcome) = found,
            None => return Some((without, outcome)),
        }
    }
}

/// The plans that leave out one thing more.
fn smaller_ones(seed: u64, without: &Without) -> Vec<Without> {
    let plan = Plan::draw(seed);
    let mut smaller = Vec::new();
    for fault in (0..plan.faults.len()).filter(|fault| !without.faults.contains(fault)) {
        let mut less = without.clone();
        less.faults.insert(fault);
        smaller.push(less);
    }
    let now = plan.clone().without(without);
    for part in Part::ALL
        .into_iter()
        .filter(|part| !without.parts.contains(part))
    {
        let mut less = without.clone();
        less.parts.insert(part);
        if plan.clone().without(&less) != now {
            smaller.push(less);
        }
    }
    if plan.groups.len().saturating_sub(without.peers) > 2 {
        let mut less = without.clone();
        less.peers += 1;
        smaller.push(less);
    }
    smaller
}
