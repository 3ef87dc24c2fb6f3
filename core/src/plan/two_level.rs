//! The plan of [`Algorithm::TwoLevel`](super::Algorithm::TwoLevel), which documents it.
//!
//! The rank of a shard is its *home*. At each other site one rank is its *gateway*. The shards of the other ranks are
//! assigned to the members of a site in turn, in ascending order, so that all members have as many, give or take one.
//! The home is the gateway at its own site.
//!
//! Steps come in three parts: contributions to the shards of which this rank is the gateway, its own shard first;
//! sums of the other sites for its own shard; and results, by shard.

use core::ops::Range;

use super::{Action, After, Contribution, Kept, Plan, Stripe, Target, Targets, forth};
use crate::site::Sites;

/// One rank among the sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Seat<'a> {
    sites: &'a Sites,
    rank: u32,
    /// The ranks of its site.
    members: &'a [u32],
    /// The position of the rank among them.
    place: u32,
}

/// Number of members of a site with a lower rank.
fn members_below(members: &[u32], rank: u32) -> u32 {
    let below = members.partition_point(|member| *member < rank);
    u32::try_from(below).unwrap_or(u32::MAX)
}

/// The gateway of a shard at a site.
fn gateway(sites: &Sites, site: u32, shard: u32) -> u32 {
    let members = sites.members(site);
    let below = members_below(members, shard);
    if members.get(below as usize) == Some(&shard) {
        return shard;
    }
    let turn = shard.saturating_sub(below) as usize;
    let place = turn.checked_rem(members.len()).unwrap_or(0);
    members.get(place).copied().unwrap_or(shard)
}

/// The position in a list without `left_out` of the item that has position `at` with it.
const fn place_without(left_out: u32, at: u32) -> u32 {
    match at > left_out {
        true => at.saturating_sub(1),
        false => at,
    }
}

/// The item at position `at` of a list without `left_out`.
const fn at_without(left_out: u32, at: u32) -> u32 {
    match at >= left_out {
        true => at.saturating_add(1),
        false => at,
    }
}

impl<'a> Seat<'a> {
    /// The seat of a rank. `None` if there is no such rank.
    pub(super) fn of(sites: &'a Sites, rank: u32) -> Option<Self> {
        let members = sites.members(sites.of_rank(rank)?);
        Some(Self {
            sites,
            rank,
            members,
            place: members_below(members, rank),
        })
    }

    pub(super) const fn sites(self) -> &'a Sites {
        self.sites
    }

    fn site(self) -> u32 {
        self.sites.of_rank(self.rank).unwrap_or(0)
    }

    fn size(self) -> u32 {
        u32::try_from(self.members.len()).unwrap_or(u32::MAX)
    }

    /// Whether it is alone at its site. Then it is the gateway of every shard, and adds up only its own.
    fn is_alone(self) -> bool {
        self.size() == 1
    }

    fn is_home(self, shard: u32) -> bool {
        members_below(self.members, shard) != members_below(self.members, shard.saturating_add(1))
    }

    /// Number of ranks at other sites.
    fn strangers(self) -> u32 {
        self.sites.world().saturating_sub(self.size())
    }

    /// The `nth` rank at another site, from 0.
    fn stranger(self, nth: u32) -> u32 {
        // Each member that is not above it moves it up by one.
        let above = |members: u32| {
            let member = self.members.get(members as usize).copied();
            member.is_none_or(|member| member.saturating_sub(members) > nth)
        };
        let (mut low, mut high) = (0, self.size());
        while low < high {
            let middle = low.midpoint(high);
            match above(middle) {
                true => high = middle,
                false => low = middle.saturating_add(1),
            }
        }
        nth.saturating_add(low)
    }

    /// Number of shards of which it is the gateway, its own included.
    fn shards(self) -> u32 {
        let from_here = self.strangers().saturating_sub(self.place);
        from_here.div_ceil(self.size().max(1)).saturating_add(1)
    }

    /// The shard with this number among those of which it is the gateway. Its own is the first.
    fn shard(self, number: u32) -> u32 {
        match number.checked_sub(1) {
            None => self.rank,
            Some(turn) => {
                let dealt = turn.saturating_mul(self.size()).saturating_add(self.place);
                self.stranger(dealt)
            }
        }
    }

    /// The number of a shard among those of which it is the gateway.
    fn number(self, shard: u32) -> u32 {
        match shard == self.rank {
            true => 0,
            false => {
                let turn = shard.saturating_sub(members_below(self.members, shard));
                turn.checked_div(self.size()).unwrap_or(0).saturating_add(1)
            }
        }
    }

    /// The gateway of a shard at its site.
    fn gateway(self, shard: u32) -> u32 {
        gateway(self.sites, self.site(), shard)
    }

    /// Number of contributions of its site that arrive here.
    fn terms(self) -> u32 {
        let others = self.size().saturating_sub(1);
        match others {
            0 => 0,
            others => self.shards().saturating_mul(others),
        }
    }

    /// Number of other sites.
    fn other_sites(self) -> u32 {
        self.sites.count().saturating_sub(1)
    }

    /// The first step of the results.
    fn first_result(self, reduces: bool) -> u32 {
        match reduces {
            true => self.terms().saturating_add(self.other_sites()),
            false => 0,
        }
    }
}

/// The arrival of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// A contribution of another member of the site, by its position, to the shard of this number here.
    Term { number: u32, member: u32 },
    /// The sum of another site for the own shard.
    Sum { site: u32 },
    /// The result of this shard.
    Result { shard: u32 },
}

fn part(plan: Plan<'_>, seat: Seat<'_>, step: u32) -> Part {
    let first_result = seat.first_result(plan.kind.reduces());
    if let Some(result) = step.checked_sub(first_result) {
        let shard = at_without(plan.rank, result);
        return Part::Result { shard };
    }
    if let Some(site) = step.checked_sub(seat.terms()) {
        let site = at_without(seat.site(), site);
        return Part::Sum { site };
    }
    let others = seat.size().saturating_sub(1).max(1);
    let member = step.checked_rem(others).unwrap_or(0);
    Part::Term {
        number: step.checked_div(others).unwrap_or(0),
        member: at_without(seat.place, member),
    }
}

/// The target of a contribution to a shard: its gateway here, or its home if no other rank adds.
fn contributed_to(seat: Seat<'_>, shard: u32) -> Target {
    if seat.is_alone() {
        return sum_to(seat, shard);
    }
    let gateway = Seat::of(seat.sites, seat.gateway(shard)).unwrap_or(seat);
    let others = seat.size().saturating_sub(1);
    let member = place_without(gateway.place, seat.place);
    Target {
        rank: gateway.rank,
        step: (gateway.number(shard).saturating_mul(others)).saturating_add(member),
    }
}

/// The target of this site's sum of a shard whose home is at another site.
fn sum_to(seat: Seat<'_>, shard: u32) -> Target {
    let home = Seat::of(seat.sites, shard).unwrap_or(seat);
    let site = place_without(home.site(), seat.site());
    Target {
        rank: shard,
        step: home.terms().saturating_add(site),
    }
}

/// The `nth` target of the result of a shard: first the gateways at other sites, if this rank is the home; then the
/// other members of its site, if it is the gateway. `None` after the last one.
pub(super) fn told(seat: Seat<'_>, reduces: bool, shard: u32, nth: u32) -> Option<Target> {
    let is_home = shard == seat.rank;
    let far = match is_home {
        true => seat.other_sites(),
        false => 0,
    };
    let rank = match nth.checked_sub(far) {
        // The site behind this one first: not all homes begin with the same.
        None => {
            let site = forth(seat.sites.count(), seat.site(), nth.saturating_add(1));
            gateway(seat.sites, site, shard)
        }
        Some(member) => {
            let place = at_without(seat.place, member);
            *seat.members.get(place as usize)?
        }
    };
    let there = Seat::of(seat.sites, rank)?;
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
    match seat.is_alone() {
        true => plan.others(),
        false => plan.world.saturating_sub(seat.shards()),
    }
}

/// The shards of the contributions, in the order of sending: all but those that are added up here. The order is the
/// same for all members of a site, and begins after its last one. So sums are complete in this order, and the sites
/// do not all send to the same one at the same time.
fn contributed(plan: Plan<'_>, seat: Seat<'_>) -> impl Iterator<Item = u32> {
    let last = seat.members.last().copied().unwrap_or(plan.rank);
    let all = (1..=plan.world).map(move |by| forth(plan.world, last, by));
    all.filter(move |shard| match seat.is_alone() {
        true => *shard != plan.rank,
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
        (true, true) => 1,
        (true, false) => seat.shards(),
    }
}

/// Sum `number` is that of the shard with this number. The members of the site are added first, in the order of their
/// ranks, and then the sums of the other sites, in the order of the sites.
pub(super) fn kept<'a>(
    plan: Plan<'_>,
    seat: Seat<'a>,
    stripe: Stripe<'_>,
    number: u32,
) -> Kept<'a> {
    let shard = seat.shard(number);
    let is_result = number == 0;
    let terms = match is_result {
        true => seat.size().saturating_add(seat.other_sites()),
        false => seat.size(),
    };
    Kept {
        range: stripe.chunk(shard),
        terms,
        own_turn: rule!(seat.place; LevelsAddedOwnFirst => 0),
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
            let member = seat.members.get(member as usize);
            (member.copied().unwrap_or(plan.rank), true)
        }
        Part::Sum { site } => {
            let is_contribution = seat.sites.members(site).len() == 1;
            (gateway(seat.sites, site, plan.rank), is_contribution)
        }
        Part::Result { shard } => {
            let gateway = seat.gateway(shard);
            let from = match seat.is_home(shard) || gateway == plan.rank {
                true => shard,
                false => gateway,
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
                LevelsAddedOwnFirst if member < seat.place => member.saturating_add(1)
            );
            let action = Action::Keep { sum: number, turn };
            (stripe.chunk(seat.shard(number)), action, After::Nothing)
        }
        Part::Sum { site } => {
            let turn = place_without(seat.site(), site).saturating_add(seat.size());
            let action = Action::Keep { sum: 0, turn };
            (stripe.chunk(plan.rank), action, After::Nothing)
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
    match !seat.is_alone() && seat.gateway(shard) == plan.rank {
        true => After::Sum(seat.number(shard)),
        false => After::Contribution(contribution_to(plan, seat, shard)),
    }
}

/// The targets of an arrival: results of other sites are forwarded to the members of this one.
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
