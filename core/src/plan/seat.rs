//! Where a rank stands in a plan in two levels: its site, the shards of which it is the gateway there, and what
//! arrives from other sites.
//!
//! The rank of a shard is its *home*. At each other site one rank is its *gateway*. The shards of the other ranks are
//! assigned to the members of a site in turn, in ascending order, so that all members have as many, give or take one.
//! The home is the gateway at its own site.

use super::{back, forth};
use crate::site::Sites;

/// How sums and results travel from site to site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Among {
    /// Each gateway sends its sum to the home, which sends the result to all gateways.
    Mesh,
    /// From each site to the next one. The sum of a shard begins behind its home and ends there. The result begins at
    /// the home and ends before it.
    Ring,
    /// Each gateway sends its sum to all other gateways, and each of these computes the result. No result travels
    /// between sites.
    Whole,
}

/// One rank among the sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Seat<'a> {
    sites: &'a Sites,
    among: Among,
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
pub(super) fn gateway(sites: &Sites, site: u32, shard: u32) -> u32 {
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
pub(super) const fn place_without(left_out: u32, at: u32) -> u32 {
    match at > left_out {
        true => at.saturating_sub(1),
        false => at,
    }
}

/// The item at position `at` of a list without `left_out`.
pub(super) const fn at_without(left_out: u32, at: u32) -> u32 {
    match at >= left_out {
        true => at.saturating_add(1),
        false => at,
    }
}

/// The least number below `end` that fulfils a condition which all higher ones fulfil as well, or `end`.
fn first_below(end: u32, is_fulfilled: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (0, end);
    while low < high {
        let middle = low.midpoint(high);
        match is_fulfilled(middle) {
            true => high = middle,
            false => low = middle.saturating_add(1),
        }
    }
    low
}

impl<'a> Seat<'a> {
    /// The seat of a rank. `None` if there is no such rank.
    pub(super) fn of(sites: &'a Sites, among: Among, rank: u32) -> Option<Self> {
        let members = sites.members(sites.of_rank(rank)?);
        Some(Self {
            sites,
            among,
            rank,
            members,
            place: members_below(members, rank),
        })
    }

    /// The seat of another rank in the same plan.
    pub(super) fn other(self, rank: u32) -> Option<Self> {
        Self::of(self.sites, self.among, rank)
    }

    pub(super) const fn sites(self) -> &'a Sites {
        self.sites
    }

    pub(super) const fn among(self) -> Among {
        self.among
    }

    pub(super) const fn rank(self) -> u32 {
        self.rank
    }

    pub(super) const fn members(self) -> &'a [u32] {
        self.members
    }

    pub(super) const fn place(self) -> u32 {
        self.place
    }

    pub(super) fn site(self) -> u32 {
        self.sites.of_rank(self.rank).unwrap_or(0)
    }

    /// The site that precedes this one in the ring of the sites.
    pub(super) fn site_before(self) -> u32 {
        back(self.sites.count(), self.site(), 1)
    }

    /// The site that follows.
    pub(super) fn site_behind(self) -> u32 {
        forth(self.sites.count(), self.site(), 1)
    }

    /// The number of members of its site.
    pub(super) fn size(self) -> u32 {
        u32::try_from(self.members.len()).unwrap_or(u32::MAX)
    }

    /// The number of members of its site without it.
    pub(super) fn neighbours(self) -> u32 {
        self.size().saturating_sub(1)
    }

    /// Whether it is alone at its site. Then it is the gateway of every shard, and adds up only sums with terms of other
    /// sites.
    pub(super) fn is_alone(self) -> bool {
        self.size() == 1
    }

    /// Whether the home of a shard is at its site.
    pub(super) fn is_home(self, shard: u32) -> bool {
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
        nth.saturating_add(first_below(self.size(), above))
    }

    /// Number of shards of which it is the gateway, its own included.
    pub(super) fn shards(self) -> u32 {
        let from_here = self.strangers().saturating_sub(self.place);
        from_here.div_ceil(self.size().max(1)).saturating_add(1)
    }

    /// The shard with this number among those of which it is the gateway. Its own is the first.
    pub(super) fn shard(self, number: u32) -> u32 {
        match number.checked_sub(1) {
            None => self.rank,
            Some(turn) => {
                let dealt = turn.saturating_mul(self.size()).saturating_add(self.place);
                self.stranger(dealt)
            }
        }
    }

    /// The number of a shard among those of which it is the gateway.
    pub(super) fn number(self, shard: u32) -> u32 {
        match shard == self.rank {
            true => 0,
            false => {
                let turn = shard.saturating_sub(members_below(self.members, shard));
                turn.checked_div(self.size()).unwrap_or(0).saturating_add(1)
            }
        }
    }

    /// The gateway of a shard at its site.
    pub(super) fn gateway(self, shard: u32) -> u32 {
        gateway(self.sites, self.site(), shard)
    }

    /// Number of contributions of its site that arrive here.
    pub(super) fn terms(self) -> u32 {
        match self.neighbours() {
            0 => 0,
            neighbours => self.shards().saturating_mul(neighbours),
        }
    }

    /// Number of other sites.
    pub(super) fn other_sites(self) -> u32 {
        self.sites.count().saturating_sub(1)
    }

    /// Whether the sum of a shard begins at this site, so that no sum of other sites arrives for it.
    pub(super) fn begins(self, shard: u32) -> bool {
        let is_home = self.is_home(shard);
        match self.among {
            Among::Mesh => !is_home,
            Among::Ring => !is_home && self.sites.of_rank(shard) == Some(self.site_before()),
            Among::Whole => false,
        }
    }

    /// Number of other sites to which its own contribution to a shard goes as the sum of its site. 0 unless it is alone
    /// at its site.
    pub(super) fn sent_alone(self, shard: u32) -> u32 {
        match (self.is_alone(), self.among) {
            (false, Among::Mesh | Among::Ring | Among::Whole) => 0,
            (true, Among::Mesh | Among::Ring) => u32::from(self.begins(shard)),
            (true, Among::Whole) => self.other_sites(),
        }
    }

    /// Number of shards of other ranks with a lower number here whose sums begin at this site.
    fn begun_below(self, number: u32) -> u32 {
        match self.among {
            Among::Mesh => number.saturating_sub(1),
            Among::Whole => 0,
            Among::Ring if self.other_sites() == 0 => 0,
            Among::Ring => {
                let homes = self.sites.members(self.site_before()).iter();
                let here = homes.filter(|home| {
                    self.gateway(**home) == self.rank && self.number(**home) < number
                });
                u32::try_from(here.count()).unwrap_or(u32::MAX)
            }
        }
    }

    /// Number of shards of other ranks with a lower number here to which sums of other sites are added.
    fn joined_below(self, number: u32) -> u32 {
        let others = number.saturating_sub(1);
        others.saturating_sub(self.begun_below(number))
    }

    /// The same of those before its own in the order of the shards.
    fn joined_before_own(self) -> u32 {
        let is_behind = |number: u32| self.shard(number.saturating_add(1)) > self.rank;
        let others = self.shards().saturating_sub(1);
        self.joined_below(first_below(others, is_behind).saturating_add(1))
    }

    /// Number of shards here to which sums of other sites are added, its own included.
    pub(super) fn all_joined(self) -> u32 {
        self.joined_below(self.shards()).saturating_add(1)
    }

    /// The position of a shard, by its number, among those to which sums of other sites are added, in the order of the
    /// shards. This order is the same for all ranks: a rank that takes sums in this order waits for none that waits for
    /// it.
    pub(super) fn place_of_joined(self, number: u32) -> u32 {
        let before_own = self.joined_before_own();
        match number {
            0 => before_own,
            number => at_without(before_own, self.joined_below(number)),
        }
    }

    /// The number of the shard at this position.
    pub(super) fn joined(self, place: u32) -> u32 {
        let own = self.joined_before_own();
        if place == own {
            return 0;
        }
        let nth = place_without(own, place);
        let is_behind = |number: u32| self.joined_below(number.saturating_add(2)) > nth;
        first_below(self.shards().saturating_sub(1), is_behind).saturating_add(1)
    }

    /// Number of sums of other sites that arrive for a shard to which any are added.
    pub(super) fn sums_each(self) -> u32 {
        match self.among {
            Among::Mesh | Among::Whole => self.other_sites(),
            Among::Ring => self.other_sites().min(1),
        }
    }

    /// Number of shards of other ranks whose results arrive in an all-reduce or a gather.
    pub(super) fn results(self) -> u32 {
        let all = self.sites.world();
        match self.among {
            Among::Mesh | Among::Ring => all.saturating_sub(1),
            Among::Whole => all.saturating_sub(self.shards()),
        }
    }

    /// Number of shards below this one whose results do not arrive.
    fn missing_below(self, shard: u32) -> u32 {
        let own = u32::from(self.rank < shard);
        match self.among {
            Among::Mesh | Among::Ring => own,
            Among::Whole => {
                let strangers = shard.saturating_sub(members_below(self.members, shard));
                let dealt = strangers.saturating_sub(self.place);
                own.saturating_add(dealt.div_ceil(self.size().max(1)))
            }
        }
    }

    /// The position of a shard among those whose results arrive, in the order of the shards.
    pub(super) fn place_of_result(self, shard: u32) -> u32 {
        shard.saturating_sub(self.missing_below(shard))
    }

    /// The shard whose result is at this position.
    pub(super) fn result(self, place: u32) -> u32 {
        match self.among {
            Among::Mesh | Among::Ring => at_without(self.rank, place),
            Among::Whole => {
                let is_behind = |shard: u32| self.place_of_result(shard.saturating_add(1)) > place;
                first_below(self.sites.world(), is_behind)
            }
        }
    }

    /// The first step of the results.
    pub(super) fn first_result(self, reduces: bool) -> u32 {
        match reduces {
            true => {
                let sums = self.all_joined().saturating_mul(self.sums_each());
                self.terms().saturating_add(sums)
            }
            false => 0,
        }
    }
}
