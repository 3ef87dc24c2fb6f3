//! The input of the ring solver: the members of the ring, and the measurements of the edges.
//!
//! In a large group most edges are estimated. The problem only states which ones, and the solver computes the
//! estimates, because the caller has no time for every pair of a thousand members.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{Costs, CostsError, EdgeCost, Node};
use crate::id::PeerId;
use crate::paths::Measurement;

/// The input of [`solve`](super::solve): the members of the ring, and the quality of its edges.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct TourProblem {
    /// The members of the ring, in their current order.
    pub members: Vec<PeerId>,
    /// The measurements, sender first.
    pub edges: BTreeMap<(PeerId, PeerId), Measurement>,
    /// Edges that were not measured are estimated, except for these: an edge reaches what both ends permit, by the
    /// measurements of each end. `None`: an edge that was not measured cannot be used.
    pub estimated_but: Option<BTreeSet<(PeerId, PeerId)>>,
}

/// The best measurements of the edges on which a member sends, and of those on which it receives.
#[derive(Clone, Copy, Debug, Default)]
struct Limits {
    sends: Option<Measurement>,
    receives: Option<Measurement>,
}

impl TourProblem {
    /// The problem as costs, with a node for each member in their order. The bottleneck term of an edge is 1/rate,
    /// and the sum term is the time of a [hop](Measurement::hop_ns) in nanoseconds. An edge with a rate of zero
    /// cannot be used, nor one that is neither measured nor estimated.
    ///
    /// A hop counts at most [`Costs::sum_limit`], which is more than a minute.
    pub fn costs(&self) -> Result<Costs, CostsError> {
        let limit = Costs::sum_limit(self.members.len());
        let limits = self.limits();
        let of = |node: Node| Some((self.members.get(node.index())?, limits.get(node.index())?));
        Costs::new(self.members.len(), |from, to| {
            let ((from, sender), (to, receiver)) = (of(from)?, of(to)?);
            let measured = self.edges.get(&(*from, *to)).copied();
            let known = measured.or_else(|| {
                let is_open = !self.estimated_but.as_ref()?.contains(&(*from, *to));
                is_open.then(|| estimate(sender, receiver)).flatten()
            })?;
            let bottleneck = time_of(known.bytes_per_s)?;
            let sum = known.hop_ns().min(limit);
            Some(EdgeCost { bottleneck, sum })
        })
    }

    /// The limits of each member, in their order.
    fn limits(&self) -> Vec<Limits> {
        if self.estimated_but.is_none() {
            return self.members.iter().map(|_| Limits::default()).collect();
        }
        let mut limits: BTreeMap<PeerId, Limits> = BTreeMap::new();
        let widen = |limit: &mut Option<Measurement>, known: Measurement| {
            limit.get_or_insert(known).widen(known);
        };
        for ((from, to), known) in &self.edges {
            widen(&mut limits.entry(*from).or_default().sends, *known);
            widen(&mut limits.entry(*to).or_default().receives, *known);
        }
        let of = |member: &PeerId| limits.get(member).copied().unwrap_or_default();
        self.members.iter().map(of).collect()
    }
}

/// The estimate of an edge. `None` if one of its ends has no measurements.
fn estimate(sender: &Limits, receiver: &Limits) -> Option<Measurement> {
    let (sender, receiver) = (sender.sends?, receiver.receives?);
    Some(Measurement {
        bytes_per_s: sender.bytes_per_s.min(receiver.bytes_per_s),
        round_trip_us: sender.round_trip_us.max(receiver.round_trip_us),
    })
}

/// The time of a byte, in units that make the most of the range.
pub(super) fn time_of(bytes_per_s: u64) -> Option<u64> {
    u64::MAX.checked_div(bytes_per_s)
}
