//! The plan of [`Algorithm::TwoLevel`](super::Algorithm::TwoLevel), of
//! [`Algorithm::TwoLevelRing`](super::Algorithm::TwoLevelRing) and of
//! [`Algorithm::TwoLevelWhole`](super::Algorithm::TwoLevelWhole), which document it.
//!
//! Steps come in three parts: contributions to the shards of which this rank is the gateway, its own shard first;
//! sums of the other sites, by shard; and results, by shard.

use core::ops::Range;

use super::seat::{Among, Seat, at_without, gateway, place_without};
use super::{Action, After, Contribution, Kept, Plan, Stripe, Target, Targets, Term, back, forth};

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
        let shard = seat.result(result);
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

/// The target of a contribution to a shard: its gateway here.
fn contributed_to(seat: Seat<'_>, shard: u32) -> Target {
    let gateway = seat.other(seat.gateway(shard)).unwrap_or(seat);
    let member = place_without(gateway.place(), seat.place());
    let before = gateway.number(shard).saturating_mul(gateway.neighbours());
    Target {
        rank: gateway.rank(),
        step: before.saturating_add(member),
    }
}

/// The `nth` target of this site's sum of a shard. `None` after the last one.
pub(super) fn summed(seat: Seat<'_>, shard: u32, nth: u32) -> Option<Target> {
    let sites = seat.sites();
    let (rank, last) = match seat.among() {
        Among::Mesh => (shard, 1),
        Among::Ring => (gateway(sites, seat.site_behind(), shard), 1),
        // The site behind this one first: not all send to the same one at the same time.
        Among::Whole => {
            let site = forth(sites.count(), seat.site(), nth.saturating_add(1));
            (gateway(sites, site, shard), seat.other_sites())
        }
    };
    let there = seat.other(rank)?;
    let of_site = match seat.among() {
        Among::Mesh | Among::Whole => place_without(there.site(), seat.site()),
        Among::Ring => 0,
    };
    let place = there.place_of_joined(there.number(shard));
    let sum = place
        .saturating_mul(there.sums_each())
        .saturating_add(of_site);
    (nth < last).then_some(Target {
        rank,
        step: there.terms().saturating_add(sum),
    })
}

/// Number of gateways at other sites to which this gateway of a shard sends the result.
fn far_told(seat: Seat<'_>, shard: u32) -> u32 {
    match seat.among() {
        Among::Mesh if shard == seat.rank() => seat.other_sites(),
        Among::Mesh | Among::Whole => 0,
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
    let step = there.place_of_result(shard);
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
        true => seat.results(),
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
    match seat.is_alone() {
        true => (0..plan.world).map(|shard| seat.sent_alone(shard)).sum(),
        false => plan.world.saturating_sub(seat.shards()),
    }
}

/// The shards of the contributions, in the order of sending: all but those that are added up here, each once, or as
/// often as a rank that is alone sends it. The order is the same for all members of a site. So sums are complete in
/// this order.
///
/// Among a mesh of sites it ascends from the last member, so the sites do not all send to the same one at the same time.
/// In a ring of sites it descends from the first member. If the members of each site follow one another, the sums that
/// begin here come first, and then those that arrive after one step, two steps and so on.
fn contributed(plan: Plan<'_>, seat: Seat<'_>) -> impl Iterator<Item = (u32, u32)> {
    let first = seat.members().first().copied().unwrap_or(plan.rank);
    let last = seat.members().last().copied().unwrap_or(plan.rank);
    let all = (1..=plan.world).map(move |by| match seat.among() {
        Among::Mesh | Among::Whole => forth(plan.world, last, by),
        Among::Ring => back(plan.world, first, by),
    });
    all.flat_map(move |shard| {
        let times = match seat.is_alone() {
            true => seat.sent_alone(shard),
            false => u32::from(seat.gateway(shard) != plan.rank),
        };
        (0..times).map(move |nth| (shard, nth))
    })
}

/// The number of the contribution to a shard.
fn contribution_to(plan: Plan<'_>, seat: Seat<'_>, shard: u32) -> u32 {
    let nth = contributed(plan, seat).position(|(other, _)| other == shard);
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
    let contributed = contributed(plan, seat).nth(nth as usize);
    let (shard, nth) = contributed.unwrap_or((plan.rank, 0));
    let to = match seat.is_alone() {
        true => summed(seat, shard, nth),
        false => Some(contributed_to(seat, shard)),
    };
    Contribution {
        range: stripe.chunk(shard),
        to: to.unwrap_or(plan.target(0, 0)),
    }
}

/// Number of sums that are added up here.
pub(super) fn sums(plan: Plan<'_>, seat: Seat<'_>) -> u32 {
    if !plan.kind.reduces() {
        return 0;
    }
    match (seat.among(), seat.is_alone()) {
        (Among::Mesh | Among::Ring, true) => seat.all_joined(),
        (Among::Mesh | Among::Ring, false) => seat.shards(),
        (Among::Whole, true | false) => sums_of_members(seat).saturating_add(seat.shards()),
    }
}

/// With [`Among::Whole`], number of sums of members of the site. The sums of the sites follow them.
fn sums_of_members(seat: Seat<'_>) -> u32 {
    match seat.is_alone() {
        true => 0,
        false => seat.shards(),
    }
}

/// The sum to which those of other sites are added, for the shard with this number here.
fn sum_of(seat: Seat<'_>, number: u32) -> u32 {
    match (seat.among(), seat.is_alone()) {
        (Among::Mesh | Among::Ring, true) => seat.place_of_joined(number),
        (Among::Mesh | Among::Ring, false) => number,
        (Among::Whole, true | false) => sums_of_members(seat).saturating_add(number),
    }
}

/// The turn in which the `nth` sum of another site is added.
fn turn_of_other(seat: Seat<'_>, shard: u32, nth: u32) -> u32 {
    match seat.among() {
        Among::Mesh | Among::Ring => seat.size().saturating_add(nth),
        Among::Whole => rule!(
            turn_of_site(seat, shard, at_without(seat.site(), nth));
            SitesAddOwnFirst => nth.saturating_add(1)
        ),
    }
}

/// The turn in which the sum of a site is added at all gateways of a shard: that of its home first, and then those of
/// the other sites in their order. So the result has the same bits as with [`Among::Mesh`].
fn turn_of_site(seat: Seat<'_>, shard: u32, site: u32) -> u32 {
    let home = seat.sites().of_rank(shard).unwrap_or(0);
    match site == home {
        true => 0,
        false => place_without(home, site).saturating_add(1),
    }
}

pub(super) fn kept<'a>(plan: Plan<'_>, seat: Seat<'a>, stripe: Stripe<'_>, sum: u32) -> Kept<'a> {
    match seat.among() {
        Among::Mesh | Among::Ring => kept_once(plan, seat, stripe, sum),
        Among::Whole => match sum.checked_sub(sums_of_members(seat)) {
            None => kept_of_members(seat, stripe, sum),
            Some(number) => kept_of_sites(plan, seat, stripe, number),
        },
    }
}

/// The members of the site are added first, in the order of their ranks, and then the sums of the other sites that
/// arrive, in the order of the sites.
fn kept_once<'a>(plan: Plan<'_>, seat: Seat<'a>, stripe: Stripe<'_>, sum: u32) -> Kept<'a> {
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
    let to_next = || summed(seat, shard, 0).map_or(Targets::NONE, Targets::one);
    Kept {
        range: stripe.chunk(shard),
        terms,
        own_turn: Some(rule!(seat.place(); LevelsAddedOwnFirst => 0)),
        is_result,
        told: match is_result {
            true => all_told(plan, seat, shard),
            false => rule!(to_next(); SiteSumsStay => Targets::NONE),
        },
        onto: None,
    }
}

/// The sum of the members of the site, in the order of their ranks.
fn kept_of_members<'a>(seat: Seat<'a>, stripe: Stripe<'_>, number: u32) -> Kept<'a> {
    let shard = seat.shard(number);
    Kept {
        range: stripe.chunk(shard),
        terms: seat.size(),
        own_turn: Some(seat.place()),
        is_result: false,
        told: Targets::gateways(seat, shard),
        onto: Some(Term {
            sum: sum_of(seat, number),
            turn: rule!(turn_of_site(seat, shard, seat.site()); SitesAddOwnFirst => 0),
        }),
    }
}

/// The sums of all sites.
fn kept_of_sites<'a>(plan: Plan<'_>, seat: Seat<'a>, stripe: Stripe<'_>, number: u32) -> Kept<'a> {
    let shard = seat.shard(number);
    Kept {
        range: stripe.chunk(shard),
        terms: seat.sites().count(),
        own_turn: seat.is_alone().then(|| {
            let turn = turn_of_site(seat, shard, seat.site());
            rule!(turn; SitesAddOwnFirst => 0)
        }),
        is_result: true,
        told: all_told(plan, seat, shard),
        onto: None,
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
                Among::Mesh | Among::Whole => at_without(seat.site(), nth),
                Among::Ring => seat.site_before(),
            };
            let shard = seat.shard(number);
            let from = gateway(seat.sites(), site, shard);
            let is_contribution = |from: Seat<'_>| from.sent_alone(shard) > 0;
            (from, seat.other(from).is_some_and(is_contribution))
        }
        Part::Result { shard } => {
            let is_gateway = seat.gateway(shard) == plan.rank;
            let from = match seat.among() {
                Among::Mesh if is_gateway => shard,
                Among::Ring if is_gateway => gateway(seat.sites(), seat.site_before(), shard),
                Among::Mesh | Among::Ring | Among::Whole => seat.gateway(shard),
            };
            (from, from == shard && !plan.kind.reduces())
        }
    }
}

/// How many ranks wait, one for the other, before a step is sent here. Behind what a site of one rank sends at once, as
/// if that site were larger.
pub(super) fn waits(plan: Plan<'_>, seat: Seat<'_>, step: u32) -> u32 {
    let (_, sent_at_once) = source(plan, seat, step);
    if sent_at_once {
        return 0;
    }
    let sites = seat.sites().count();
    let behind = |shard: u32| {
        let home = seat.sites().of_rank(shard).unwrap_or(0);
        back(sites, seat.site(), home)
    };
    match part(plan, seat, step) {
        Part::Term { .. } => 0,
        Part::Sum { number, .. } => match seat.among() {
            Among::Mesh | Among::Whole => 1,
            // It begins at the site behind the home, and comes home last.
            Among::Ring => match behind(seat.shard(number)) {
                0 => sites.saturating_sub(1),
                sites_behind => sites_behind.saturating_sub(1),
            },
        },
        Part::Result { shard } => {
            let at_home = match (plan.kind.reduces(), seat.among()) {
                (false, Among::Mesh | Among::Ring | Among::Whole) => 0,
                (true, Among::Mesh | Among::Whole) => 2,
                (true, Among::Ring) => sites,
            };
            let from_home = match seat.among() {
                Among::Whole => 0,
                Among::Mesh => behind(shard).min(1),
                Among::Ring => behind(shard),
            };
            let is_gateway = from_home > 0 && seat.gateway(shard) == plan.rank;
            at_home
                .saturating_add(from_home)
                .saturating_sub(u32::from(is_gateway))
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
            let shard = seat.shard(number);
            let turn = turn_of_other(seat, shard, nth);
            let sum = sum_of(seat, number);
            let range = stripe.chunk(shard);
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
        true => seat.sent_alone(shard) > 0,
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
