//! The plan of [`Algorithm::Tree`](super::Algorithm::Tree), and of a broadcast in [two
//! levels](super::Algorithm::TwoLevel), which document it.
//!
//! In two levels there is one tree among the sites, whose members are the gateways, and one inside each site, from its
//! gateway. Without sites there is one tree of all ranks. In a tree of n, each member has a *number*: its distance
//! behind the root of the tree, modulo n.

use super::{Plan, Target, Targets, back, forth};
use crate::site::Sites;

/// One rank in the tree of a broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place<'a> {
    sites: Option<&'a Sites>,
    world: u32,
    root: u32,
    rank: u32,
}

/// The number of the parent in a tree. `None`: it is the root.
const fn parent(number: u32) -> Option<u32> {
    match number.checked_sub(1) {
        None => None,
        Some(below) => Some(number & below),
    }
}

/// How many children a number has in a tree of `size`. They are at the distances 1, 2, 4 and so on behind it.
pub(super) const fn children(number: u32, size: u32) -> u32 {
    let behind = size.saturating_sub(number);
    let end = match number {
        0 => behind,
        _ if 1 << number.trailing_zeros() < behind => 1 << number.trailing_zeros(),
        _ => behind,
    };
    // The powers of two below it.
    match end {
        0 => 0,
        end => u32::BITS - (end - 1).leading_zeros(),
    }
}

/// The number of the `nth` child, the farthest one first. `None` after the last one.
fn child(number: u32, size: u32, nth: u32) -> Option<u32> {
    let last = children(number, size).checked_sub(1)?;
    let distance = 1_u32.checked_shl(last.checked_sub(nth)?)?;
    Some(number.saturating_add(distance))
}

/// A tree inside a site: its members, and the position of the gateway among them.
#[derive(Clone, Copy)]
struct Inside<'a> {
    members: &'a [u32],
    gateway: u32,
}

impl Inside<'_> {
    fn size(self) -> u32 {
        u32::try_from(self.members.len()).unwrap_or(u32::MAX)
    }

    fn number(self, rank: u32) -> u32 {
        back(self.size(), position(self.members, rank), self.gateway)
    }

    fn rank(self, number: u32) -> Option<u32> {
        let at = forth(self.size(), self.gateway, number);
        self.members.get(at as usize).copied()
    }
}

/// The position of a member among the members of its site.
fn position(members: &[u32], rank: u32) -> u32 {
    let below = members.partition_point(|member| *member < rank);
    u32::try_from(below).unwrap_or(u32::MAX)
}

impl<'a> Place<'a> {
    /// `None` if the collective has no root.
    fn of(plan: Plan<'_>, sites: Option<&'a Sites>) -> Option<Self> {
        Some(Self {
            sites,
            world: plan.world,
            root: *plan.kind.root()?,
            rank: plan.rank,
        })
    }

    /// The number of the site of a rank in the tree of the sites, whose root is that of the broadcast's root.
    fn site_number(self, sites: &Sites, rank: u32) -> u32 {
        let site = |rank| sites.of_rank(rank).unwrap_or(0);
        back(sites.count(), site(rank), site(self.root))
    }

    /// The tree inside the site with this number in the tree of the sites. The root is the gateway of its own site, and
    /// the first rank that of each other one.
    fn inside(self, sites: &'a Sites, number: u32) -> Inside<'a> {
        let first = sites.of_rank(self.root).unwrap_or(0);
        let members = sites.members(forth(sites.count(), first, number));
        let gateway = match number {
            0 => position(members, self.root),
            _ => 0,
        };
        Inside { members, gateway }
    }

    fn parent(self) -> Option<u32> {
        let Some(sites) = self.sites else {
            let number = parent(back(self.world, self.rank, self.root))?;
            return Some(forth(self.world, self.root, number));
        };
        let site = self.site_number(sites, self.rank);
        let inside = self.inside(sites, site);
        match parent(inside.number(self.rank)) {
            Some(number) => inside.rank(number),
            None => self.inside(sites, parent(site)?).rank(0),
        }
    }

    /// The `nth` rank to which this one sends: in two levels the gateways of other sites first. `None` after the last
    /// one.
    fn nth_child(self, nth: u32) -> Option<u32> {
        let Some(sites) = self.sites else {
            let number = back(self.world, self.rank, self.root);
            let child = child(number, self.world, nth)?;
            return Some(forth(self.world, self.root, child));
        };
        let site = self.site_number(sites, self.rank);
        let inside = self.inside(sites, site);
        let number = inside.number(self.rank);
        let far = match number {
            0 => children(site, sites.count()),
            _ => 0,
        };
        match nth.checked_sub(far) {
            None => {
                let site = child(site, sites.count(), nth)?;
                self.inside(sites, site).rank(0)
            }
            Some(near) => inside.rank(child(number, inside.size(), near)?),
        }
    }
}

/// The `nth` target of the buffer, which is the first and only flow that arrives there.
pub(super) fn target(place: Place<'_>, nth: u32) -> Option<Target> {
    let rank = place.nth_child(nth)?;
    Some(Target { rank, step: 0 })
}

fn targets<'a>(plan: Plan<'_>, sites: Option<&'a Sites>) -> Targets<'a> {
    Place::of(plan, sites).map_or(Targets::NONE, Targets::below)
}

/// Only the root contributes, to each of its children.
pub(super) fn contributions(plan: Plan<'_>, sites: Option<&Sites>) -> u32 {
    match plan.kind.root() == Some(&plan.rank) {
        true => u32::try_from(targets(plan, sites).count()).unwrap_or(u32::MAX),
        false => 0,
    }
}

pub(super) fn contribution_to(plan: Plan<'_>, sites: Option<&Sites>, nth: u32) -> Target {
    let to = Place::of(plan, sites).and_then(|place| target(place, nth));
    to.unwrap_or(plan.target(0, 0))
}

/// The sender of the buffer.
pub(super) fn source(plan: Plan<'_>, sites: Option<&Sites>) -> u32 {
    let parent = Place::of(plan, sites).and_then(Place::parent);
    parent.unwrap_or(plan.rank)
}

/// Number of ranks above this one.
pub(super) fn depth(plan: Plan<'_>, sites: Option<&Sites>) -> u32 {
    let (mut place, mut depth) = (Place::of(plan, sites), 0_u32);
    while let Some((here, rank)) = place.and_then(|here| Some((here, here.parent()?))) {
        place = Some(Place { rank, ..here });
        depth = depth.saturating_add(1);
    }
    depth
}

pub(super) fn onward<'a>(plan: Plan<'_>, sites: Option<&'a Sites>) -> Targets<'a> {
    rule!(targets(plan, sites); TreeEndsEarly => Targets::NONE)
}
