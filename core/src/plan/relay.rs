//! The plan of [`Algorithm::Relay`](super::Algorithm::Relay), which documents it.
//!
//! Sums go around the ring in *laps*, which begin and end at the rank of the first turn. A stripe is sent in *parts*:
//! one part for a gather, one chunk per rank for a scatter. A rank counts its steps lap by lap, and within a lap part
//! by part. After the last turn the parts are results. The first part is the chunk whose home is farthest from there,
//! so that each rank gets only the first parts, and no step is left out.

use core::ops::Range;

use super::{Action, After, Contribution, Plan, Stripe, Targets, back, forth};

/// A step: the number of the rank's passage, and the part.
#[derive(Clone, Copy)]
struct Passage {
    lap: u32,
    part: u32,
}

impl Passage {
    fn of(plan: Plan<'_>, step: u32) -> Self {
        let parts = parts(plan).max(1);
        Self {
            lap: step / parts,
            part: step % parts,
        }
    }
}

const fn parts(plan: Plan<'_>) -> u32 {
    match plan.kind.gathers() {
        true => 1,
        false => plan.world,
    }
}

/// How far a rank is behind the rank of the first turn.
fn behind_first(plan: Plan<'_>, rank: u32) -> u32 {
    let (first, _) = plan.ends();
    back(plan.world, rank, first)
}

/// How far a rank is behind the rank of the last turn.
fn behind_last(plan: Plan<'_>, rank: u32) -> u32 {
    let (_, last) = plan.ends();
    back(plan.world, rank, last)
}

fn is_first(plan: Plan<'_>) -> bool {
    behind_first(plan, plan.rank) == 0
}

/// Number of passages in which a rank receives sums. In the later ones it receives results.
fn with_sums(plan: Plan<'_>) -> u32 {
    let (_, last) = plan.ends();
    let (own, of_last) = (behind_first(plan, plan.rank), behind_first(plan, last));
    let in_last_lap = u32::from(own > 0 && own <= of_last);
    plan.lap(last).saturating_add(in_last_lap)
}

/// Number of results that a rank receives.
fn results(plan: Plan<'_>) -> u32 {
    match (behind_last(plan, plan.rank), plan.kind.gathers()) {
        (0, _) => 0,
        (_, true) => 1,
        (behind, false) => plan.world.saturating_sub(behind),
    }
}

pub(super) fn steps(plan: Plan<'_>) -> u32 {
    match plan.others() {
        0 => 0,
        _ => with_sums(plan)
            .saturating_mul(parts(plan))
            .saturating_add(results(plan)),
    }
}

/// Only the rank of the first turn contributes; the others add.
pub(super) fn contributions(plan: Plan<'_>) -> u32 {
    match is_first(plan) && plan.others() > 0 {
        true => parts(plan),
        false => 0,
    }
}

pub(super) fn contribution(plan: Plan<'_>, stripe: Stripe<'_>, nth: u32) -> Contribution {
    Contribution {
        range: range(plan, stripe, nth),
        to: plan.target(0, nth),
    }
}

/// The rank of a part's chunk.
fn home(plan: Plan<'_>, part: u32) -> u32 {
    let (_, last) = plan.ends();
    forth(plan.world, last, plan.others().saturating_sub(part))
}

fn range(plan: Plan<'_>, stripe: Stripe<'_>, part: u32) -> Range<u64> {
    match plan.kind.gathers() {
        true => stripe.whole(),
        false => stripe.chunk(home(plan, part)),
    }
}

/// Whether a part ends here as a result.
fn is_result_here(plan: Plan<'_>, part: u32) -> bool {
    plan.kind.gathers() || home(plan, part) == plan.rank
}

/// The turn of the own contribution. The rank of the first turn adds nothing.
fn own_turn(plan: Plan<'_>) -> Option<u32> {
    (!is_first(plan)).then(|| plan.lap(plan.rank))
}

fn action(plan: Plan<'_>, Passage { lap, part }: Passage) -> Action {
    let is_result = is_result_here(plan, part);
    if lap >= with_sums(plan) {
        return if is_result {
            Action::Copy
        } else {
            Action::Pass
        };
    }
    if own_turn(plan) != Some(lap) {
        return Action::Pass;
    }
    match (behind_last(plan, plan.rank), is_result) {
        (0, true) => Action::Finish,
        (0, false) => Action::Complete,
        (_, _) => Action::Combine,
    }
}

pub(super) fn arrival(
    plan: Plan<'_>,
    stripe: Stripe<'_>,
    step: u32,
) -> (Range<u64>, Action, After) {
    let passage = Passage::of(plan, step);
    let action = action(plan, passage);
    let after = match (action, own_turn(plan)) {
        (Action::Copy, Some(lap)) => After::Arrival(step_at(plan, lap, passage.part)),
        (Action::Copy, None) => After::Contribution(passage.part),
        (
            Action::Combine
            | Action::Finish
            | Action::Complete
            | Action::Pass
            | Action::Keep { .. },
            _,
        ) => After::Nothing,
    };
    (range(plan, stripe, passage.part), action, after)
}

/// An arrival is forwarded around the ring, unless it is a result that is at home or has been everywhere.
pub(super) fn onward(plan: Plan<'_>, step: u32) -> Targets<'static> {
    let passage = Passage::of(plan, step);
    let has_been_everywhere = behind_last(plan, plan.rank) == plan.others();
    let ends = match (action(plan, passage), plan.kind.gathers()) {
        (Action::Copy, true) => has_been_everywhere,
        (Action::Copy | Action::Finish, false) => true,
        (Action::Finish, true)
        | (Action::Combine | Action::Complete | Action::Pass | Action::Keep { .. }, _) => false,
    };
    match ends {
        true => Targets::NONE,
        false => Targets::one(plan.target(0, step_of_next(plan, passage))),
    }
}

const fn step_at(plan: Plan<'_>, lap: u32, part: u32) -> u32 {
    lap.saturating_mul(parts(plan)).saturating_add(part)
}

/// The passages of the rank of the first turn are the ends of laps, those of the others within.
fn step_of_next(plan: Plan<'_>, Passage { lap, part }: Passage) -> u32 {
    let lap = lap.saturating_add(u32::from(is_first(plan)));
    step_at(plan, lap, part)
}

/// Only the first lap begins with contributions.
pub(super) fn is_sent_at_once(plan: Plan<'_>, step: u32) -> bool {
    behind_first(plan, plan.rank) == 1 && Passage::of(plan, step).lap == 0
}
