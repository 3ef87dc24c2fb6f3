//! Rings under load: all their edges are probed at the same time, because edges that share a link are slower
//! together than each by itself.
//!
//! A ring that is slower so is solved once more, with what was found, and the second ring is probed under load as
//! well: each is judged by what it did when it was probed. An edge that was ordered and has no result cannot be
//! used, as in any rotation, and neither can its ring.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::optimize::Solving;
use super::probes::Rotation;
use super::probing::Probing;
use super::{Master, Out};
use crate::id::GroupId;
use crate::paths::RingEstimate;
use crate::tour::Solved;

/// Rings that are probed under load.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Load {
    rings: BTreeMap<GroupId, Promised>,
    /// Rings that these take the place of, which were probed before.
    before: Vec<(GroupId, Loaded)>,
    /// Whether those that are slower than promised may be solved once more.
    is_first: bool,
}

/// A ring, and the bottleneck that its edges promise. `None`: not all of them are known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Promised {
    solved: Solved,
    bytes_per_s: Option<u64>,
}

/// A ring, and what can be expected of it by what was known of its edges when it was probed. `None`: one of them
/// cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Loaded {
    pub(super) solved: Solved,
    pub(super) estimate: Option<RingEstimate>,
}

impl Master {
    /// A ring by what is known of its edges.
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

    /// What was found, beside the rings of the other groups, which have been probed before: all that will be
    /// in use at the same time.
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

    /// What there is to choose from after this, the last ring of each group at the end.
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

    /// Groups whose rings are slower under load than their edges promised are solved once more.
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
