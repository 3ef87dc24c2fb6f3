//! The plan of [`Algorithm::TwoLevel`](super::Algorithm::TwoLevel) and of
//! [`Algorithm::TwoLevelRing`](super::Algorithm::TwoLevelRing), which document it.
//!
//! Steps come in three parts: contributions to the shards of which this rank is the gateway, its own shard first;
//! sums of the other sites, by shard; and results, by shard.

use core::ops::Range;

use super::seat::{Among, Seat, at_without, gateway, place_without};
use super::{Action, After, Contribution, Kept, Plan, Stripe, Target, Targets, back, forth};

/// The arrival of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// A contribution of another member of the site, by its position, to the shard of this number here.
    Term { number: u32, member: u32 },
    /// The sum of another site for the shard of this number here. Of the sums that arrive for it, it is the `nth`.
    Sum { number: u32, nth: u32 },
    /// The result of this shard.
    Result { shard: u32 },
}

fn part(plan: Plan<'_>, seat: Seat<'_>, step: u32) -> Part {
    let first_result = seat.first_result(plan.kind.reduces());
    if let Some(result) = step.checked_sub(first_result) {
        let shard = at_without(plan.rank, result);
        return Part::Result { shard };
    }
    if let Some(sum) = step.checked_sub(seat.terms()) {
        let each = seat.sums_each().max(1);
        return Part::Sum {
            number: seat.joined(sum.checked_div(each).unwrap_or(0)),
            nth: sum.checked_rem(each).unwrap_or(0),
        };
    }
    let neighbours = seat.neighbours().max(1);
    let member = step.checked_rem(neighbours).unwrap_or(0);
    Part::Term {
        number: step.checked_div(neighbours).unwrap_or(0),
        member: at_without(seat.place(), member),
    }
}

/// The target of a contribution to a shard: its gateway here, or that of this rank's sum if no other rank adds.
fn contributed_to(seat: Seat<'_>, shard: u32) -> Target {
    if seat.is_alone() {
        return sum_to(seat, shard);
    }
    let gateway = seat.other(seat.gateway(shard)).unwrap_or(seat);
    let member = place_without(gateway.place(), seat.place());
    let before = gateway.number(shard).saturating_mul(gateway.neighbours());
    Target {
        rank: gateway.rank(),
        step: before.saturating_add(member),
    }
}

/// The target of this site's sum of a shard whose home is at another site.
fn sum_to(seat: Seat<'_>, shard: u32) -> Target {
    let rank = match seat.among() {
        Among::Mesh => shard,
        Among::Ring => gateway(seat.sites(), seat.site_behind(), shard),
    };
    let there = seat.other(rank).unwrap_or(seat);
    let nth = match seat.among() {
        Among::Mesh => place_without(there.site(), seat.site()),
        Among::Ring => 0,
    };
    let place = there.place_of_joined(there.number(shard));
    let sum = place.saturating_mul(there.sums_each()).saturating_add(nth);
    Target {
        rank,
        step: there.terms().saturating_add(sum),
    }
}

/// Number of gateways at other sites to which this gateway of a shard sends the result.
fn far_told(seat: Seat<'_>, shard: u32) -> u32 {
    match seat.among() {
        Among::Mesh if shard == seat.rank() => seat.other_sites(),
        Among::Mesh => 0,
        Among::Ring => {
            let is_last = seat.sites().of_rank(shard) == Some(seat.site_behind());
            let goes_on = rule!(!is_last; SiteRingStops => !is_last && seat.rank() == shard);
            u32::from(goes_on)
        }
    }
}

/// The `nth` target of the result of a shard at its gateway: first the gateways at other sites, then the other members
/// of its site. `None` after the last one.
pub(super) fn told(seat: Seat<'_>, reduces: bool, shard: u32, nth: u32) -> Option<Target> {
    let rank = match nth.checked_sub(far_told(seat, shard)) {
        // The site behind this one first: not all homes begin with the same.
        None => {
            let sites = seat.sites();
            let site = forth(sites.count(), seat.site(), nth.saturating_add(1));
            gateway(sites, site, shard)
        }
        Some(member) => {
            let place = at_without(seat.place(), member);
            *seat.members().get(place as usize)?
        }
    };
    let there = seat.other(rank)?;
    let step = place_without(rank, shard);
    Some(Target {
        rank,
        step: there.first_result(reduces).saturating_add(step),
    })
}

fn all_told<'a>(plan: Plan<'_>, seat: Seat<'a>, shard: u32) -> Targets<'a> {
    match plan.kind.gathers() {
        true => Targets::told(seat, plan.kind.reduces(), shard),
        false => Targets::NONE,
    }
}

pub(super) fn steps(plan: Plan<'_>, seat: Seat<'_>) -> u32 {
    let results = match plan.kind.gathers() {
        true => plan.others(),
        false => 0,
    };
    seat.first_result(plan.kind.reduces())
        .saturating_add(results)
}

/// Number of contributions that this rank sends.
pub(super) fn contributions(plan: Plan<'_>, seat: Seat<'_>) -> u32 {
    if !plan.kind.reduces() {
        let told = all_told(plan, seat, plan.rank).count();
        return u32::try_from(told).unwrap_or(u32::MAX);
    }
    plan.world.saturating_sub(sums(plan, seat))
}

/// The shards of the contributions, in the order of sending: all but those that are added up here. The order is the
/// same for all members of a site. So sums are complete in this order.
///
/// Among a mesh of sites it ascends from the last member, so the sites do not all send to the same one at the same time.
/// In a ring of sites it descends from the first member. If the members of each site follow one another, the sums that
/// begin here come first, and then those that arrive after one step, two steps and so on.
fn contributed(plan: Plan<'_>, seat: Seat<'_>) -> impl Iterator<Item = u32> {
    let first = seat.members().first().copied().unwrap_or(plan.rank);
    let last = seat.members().last().copied().unwrap_or(plan.rank);
    let all = (1..=plan.world).map(move |by| match seat.among() {
        Among::Mesh => forth(plan.world, last, by),
        Among::Ring => back(plan.world, first, by),
    });
    all.filter(move |shard| match seat.is_alone() {
        true => seat.begins(*shard),
        false => seat.gateway(*shard) != plan.rank,
    })
}

/// The number of the contribution to a shard.
fn contribution_to(plan: Plan<'_>, seat: Seat<'_>, shard: u32) -> u32 {
    let nth = contributed(plan, seat).position(|other| other == shard);
    nth.and_then(|nth| u32::try_from(nth).ok())
        .unwrap_or(u32::MAX)
}

pub(super) fn contribution(
    plan: Plan<'_>,
    seat: Seat<'_>,
    stripe: Stripe<'_>,
    nth: u32,
) -> Contribution {
    if !plan.kind.reduces() {
        let to = told(seat, false, plan.rank, nth);
        return Contribution {
            range: stripe.chunk(plan.rank),
            to: to.unwrap_or(plan.target(0, 0)),
        };
    }
    let shard = contributed(plan, seat).nth(nth as usize);
    let shard = shard.unwrap_or(plan.rank);
    Contribution {
        range: stripe.chunk(shard),
        to: contributed_to(seat, shard),
    }
}

/// Number of sums that are added up here.
pub(super) fn sums(plan: Plan<'_>, seat: Seat<'_>) -> u32 {
    match (plan.kind.reduces(), seat.is_alone()) {
        (false, _) => 0,
        (true, true) => seat.all_joined(),
        (true, false) => seat.shards(),
    }
}

/// The sum of the shard with this number here.
fn sum_of(seat: Seat<'_>, number: u32) -> u32 {
    match seat.is_alone() {
        true => seat.place_of_joined(number),
        false => number,
    }
}

/// The members of the site are added first, in the order of their ranks, and then the sums of the other sites that
/// arrive, in the order of the sites.
pub(super) fn kept<'a>(plan: Plan<'_>, seat: Seat<'a>, stripe: Stripe<'_>, sum: u32) -> Kept<'a> {
    let number = match seat.is_alone() {
        true => seat.joined(sum),
        false => sum,
    };
    let shard = seat.shard(number);
    let is_result = number == 0;
    let terms = match seat.begins(shard) {
        true => seat.size(),
        false => seat.size().saturating_add(seat.sums_each()),
    };
    Kept {
        range: stripe.chunk(shard),
        terms,
        own_turn: rule!(seat.place(); LevelsAddedOwnFirst => 0),
        is_result,
        told: match is_result {
            true => all_told(plan, seat, shard),
            false => rule!(Targets::one(sum_to(seat, shard)); SiteSumsStay => Targets::NONE),
        },
    }
}

/// The sender, and whether it sends without waiting for others.
pub(super) fn source(plan: Plan<'_>, seat: Seat<'_>, step: u32) -> (u32, bool) {
    match part(plan, seat, step) {
        Part::Term { member, .. } => {
            let member = seat.members().get(member as usize);
            (member.copied().unwrap_or(plan.rank), true)
        }
        Part::Sum { number, nth } => {
            let site = match seat.among() {
                Among::Mesh => at_without(seat.site(), nth),
                Among::Ring => seat.site_before(),
            };
            let shard = seat.shard(number);
            let from = gateway(seat.sites(), site, shard);
            let is_contribution = |from: Seat<'_>| from.is_alone() && from.begins(shard);
            (from, seat.other(from).is_some_and(is_contribution))
        }
        Part::Result { shard } => {
            let is_gateway = seat.gateway(shard) == plan.rank;
            let from = match (seat.is_home(shard), seat.among()) {
                (true, _) => shard,
                (false, Among::Mesh) if is_gateway => shard,
                (false, Among::Ring) if is_gateway => {
                    gateway(seat.sites(), seat.site_before(), shard)
                }
                (false, Among::Mesh | Among::Ring) => seat.gateway(shard),
            };
            (from, from == shard && !plan.kind.reduces())
        }
    }
}

pub(super) fn arrival(
    plan: Plan<'_>,
    seat: Seat<'_>,
    stripe: Stripe<'_>,
    step: u32,
) -> (Range<u64>, Action, After) {
    match part(plan, seat, step) {
        Part::Term { number, member } => {
            let turn = rule!(
                member;
                LevelsAddedOwnFirst if member < seat.place() => member.saturating_add(1)
            );
            let action = Action::Keep { sum: number, turn };
            (stripe.chunk(seat.shard(number)), action, After::Nothing)
        }
        Part::Sum { number, nth } => {
            let turn = seat.size().saturating_add(nth);
            let sum = sum_of(seat, number);
            let range = stripe.chunk(seat.shard(number));
            (range, Action::Keep { sum, turn }, After::Nothing)
        }
        Part::Result { shard } => {
            let after = match plan.kind.reduces() {
                true => overwritten(plan, seat, shard),
                false => After::Nothing,
            };
            let action = rule!(Action::Copy; LevelsAddResultsAgain => Action::Finish);
            (stripe.chunk(shard), action, after)
        }
    }
}

/// What must have happened to the own elements of a shard before its result overwrites them.
fn overwritten(plan: Plan<'_>, seat: Seat<'_>, shard: u32) -> After {
    let is_sent = match seat.is_alone() {
        true => seat.begins(shard),
        false => seat.gateway(shard) != plan.rank,
    };
    match is_sent {
        true => After::Contribution(contribution_to(plan, seat, shard)),
        false => After::Sum(sum_of(seat, seat.number(shard))),
    }
}

/// The targets of an arrival: results of other sites are forwarded.
pub(super) fn onward<'a>(plan: Plan<'_>, seat: Seat<'a>, step: u32) -> Targets<'a> {
    match part(plan, seat, step) {
        Part::Term { .. } | Part::Sum { .. } => Targets::NONE,
        Part::Result { shard } => {
            let comes_from_afar = !seat.is_home(shard) && seat.gateway(shard) == plan.rank;
            match comes_from_afar {
                true => rule!(all_told(plan, seat, shard); SiteResultsStay => Targets::NONE),
                false => Targets::NONE,
            }
        }
    }
}
