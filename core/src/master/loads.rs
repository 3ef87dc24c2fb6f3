//! Rings under load: all their edges are probed at the same time, because edges that share a link are slower together
//! than each by itself.
//!
//! A ring that is slower under load is solved once more, with these measurements, and the second ring is probed under
//! load as well. Each ring is judged by its own probe. An edge that was ordered and has no result cannot be used, as
//! in any rotation, and neither can its ring.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::optimize::Solving;
use super::probes::Rotation;
use super::probing::Probing;
use super::{Master, Out};
use crate::id::GroupId;
use crate::paths::RingEstimate;
use crate::tour::Solved;

/// Rings to be probed under load.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Load {
    rings: BTreeMap<GroupId, Promised>,
    /// The rings that these replace, which were probed before.
    before: Vec<(GroupId, Loaded)>,
    /// Whether rings that are slower than expected may be solved once more.
    is_first: bool,
}

/// A ring, and the bottleneck that its edges promise. `None` if not all of them are known.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Promised {
    solved: Solved,
    bytes_per_s: Option<u64>,
}

/// A ring, and its estimate by the measurements at the time of its probe. `None` if one of its edges cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Loaded {
    pub(super) solved: Solved,
    pub(super) estimate: Option<RingEstimate>,
}

impl Master {
    /// A ring with its estimate by the known measurements.
    pub(super) fn as_known(&self, solved: &Solved) -> Loaded {
        Loaded {
            solved: solved.clone(),
            estimate: self.estimate(&solved.ring),
        }
    }

    /// Whether all edges of these rings were probed at the same time before.
    pub(super) fn is_load_known(&self, solved: &BTreeMap<GroupId, Solved>) -> bool {
        let mut edges = solved.values().flat_map(|solved| solved.ring.edges());
        edges.all(|edge| self.known.is_under_load(edge))
    }

    /// The load of the found rings, and of the rings of the other groups, which were probed before: all that will be
    /// used at the same time.
    pub(super) fn load_of(&self, solving: &Solving) -> Load {
        let before = solving.loaded.iter().flatten();
        let mut rings: BTreeMap<GroupId, Solved> = before
            .map(|(group, loaded)| (*group, loaded.solved.clone()))
            .collect();
        rings.extend(solving.solved.clone());
        let promised = rings.into_iter().map(|(group, solved)| {
            let bytes_per_s = self.estimate(&solved.ring).map(|known| known.bytes_per_s);
            let promised = Promised {
                solved,
                bytes_per_s,
            };
            (group, promised)
        });
        let before = solving.loaded.iter().flatten();
        let replaced = before.filter(|(group, _)| solving.solved.contains_key(group));
        Load {
            rings: promised.collect(),
            before: replaced.cloned().collect(),
            is_first: solving.loaded.is_none(),
        }
    }

    /// The candidates after this probe, the last ring of each group at the end.
    pub(super) fn found(&self, solving: &Solving) -> Vec<(GroupId, Loaded)> {
        let solved = solving.solved.iter();
        let solved = solved.map(|(group, solved)| (*group, self.as_known(solved)));
        let loaded = solving.loaded.iter().flatten().cloned();
        loaded.chain(solved).collect()
    }

    /// Probes all edges of the rings at the same time.
    pub(super) fn load(&mut self, load: Load, out: &mut Out) {
        let rings = load.rings.values().map(|promised| &promised.solved.ring);
        let edges: Rotation = rings.flat_map(|ring| ring.edges()).collect();
        let probing = Probing {
            load: Some(load),
            rest: [edges].into(),
            ..Probing::default()
        };
        self.probe(probing, out);
    }

    /// Solves once more for groups whose rings are slower under load than their edges promised.
    pub(super) fn judge(&mut self, load: Load, out: &mut Out) {
        let may_be_solved = rule!(load.is_first; LoadProbedAgain => true);
        let is_slower = |promised: &Promised| {
            let estimate = self.estimate(&promised.solved.ring);
            let is_less = |of: RingEstimate| {
                let promised = promised.bytes_per_s;
                promised.is_none_or(|promised| of.bytes_per_s < promised)
            };
            estimate.is_none_or(is_less)
        };
        // Those of the departed are not solved: the search ends.
        let slower = load.rings.iter().filter(|(group, promised)| {
            is_slower(promised) && self.is_of_all(**group, &promised.solved.ring)
        });
        let groups: BTreeSet<GroupId> = match may_be_solved {
            true => slower.map(|(group, _)| *group).collect(),
            false => BTreeSet::new(),
        };
        let judged = load.rings.iter();
        let judged = judged.map(|(group, promised)| (*group, self.as_known(&promised.solved)));
        let solving = Solving {
            loaded: Some(load.before.iter().cloned().chain(judged).collect()),
            may_load: load.is_first,
            ..Solving::default()
        };
        self.solve(groups, solving, out);
    }
}
