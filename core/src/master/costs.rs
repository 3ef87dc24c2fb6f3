//! The known costs of the paths of a group, for the choice of an algorithm.

use alloc::collections::BTreeMap;

use super::Master;
use crate::id::PeerId;
use crate::paths::Measurement;
use crate::plan::{Costs, PathCosts};
use crate::site::found::FoundSites;
use crate::topology::Ring;

/// Statistics of the paths of one kind.
#[derive(Default)]
struct Seen {
    slowest: Option<Measurement>,
    /// The best rate of each member.
    best: BTreeMap<PeerId, u64>,
}

impl Seen {
    fn look_at(&mut self, from: PeerId, path: Measurement) {
        let worse = self.slowest.map_or(path, |slowest| Measurement {
            bytes_per_s: slowest.bytes_per_s.min(path.bytes_per_s),
            round_trip_us: slowest.round_trip_us.max(path.round_trip_us),
        });
        self.slowest = Some(worse);
        let best = self.best.entry(from).or_default();
        *best = (*best).max(path.bytes_per_s);
    }

    fn costs(&self) -> Option<PathCosts> {
        Some(PathCosts {
            slowest: self.slowest?,
            member_bytes_per_s: *self.best.values().min()?,
        })
    }
}

impl Master {
    /// The known costs of the paths between the members of a ring. `None` if too little is known, or if the group is
    /// so large that it has only the links of its ring, so that no choice depends on the costs.
    pub(super) fn costs_of(&self, ring: &Ring, found: &FoundSites) -> Option<Costs> {
        if !self.may_have_mesh(ring, found) {
            return None;
        }
        let estimate = self.estimate(ring)?;
        let map = self.sites_on(ring, found);
        let sites = map.sites();
        let (mut near, mut far) = (Seen::default(), Seen::default());
        let ranks = || (0..).zip(ring.0.iter().copied());
        for (from_rank, from) in ranks() {
            for (to_rank, to) in ranks().filter(|(_, to)| *to != from) {
                let is_near = sites.of_rank(from_rank) == sites.of_rank(to_rank);
                let paths = if is_near { &mut near } else { &mut far };
                // A mesh takes every path, so each has to be known, and to be of use.
                let path = self.known.of((from, to));
                paths.look_at(from, path.filter(|path| path.bytes_per_s > 0)?);
            }
        }
        let latencies = ring.edges().filter_map(|edge| self.known.of(edge));
        let ring_latency_ns = latencies.map(Measurement::latency_ns).sum();
        let (near, far) = (near.costs(), far.costs());
        let members = (0..sites.count()).map(|site| sites.members(site).len());
        Some(Costs {
            ring: estimate,
            ring_latency_ns,
            near: near.or(far)?,
            far: far.or(near)?,
            sites: sites.count(),
            site_members_min: u32::try_from(members.min()?).unwrap_or(u32::MAX),
        })
    }
}
