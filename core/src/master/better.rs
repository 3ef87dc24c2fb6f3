//! Better rings that are found in the background.
//!
//! If the immediate answer of the solver is not proved to be the best, the driver continues the same search beside
//! its loop. The best result is kept until the next `update_topology` or `optimize_topology`, and adopted there if it
//! is then worth a rewiring. A search is about one set of members: when a peer joins or leaves, the search ends, and
//! its result is dropped.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::blame::pair;
use super::{Master, MasterOutput, Out};
use crate::id::{GroupId, PeerId, Round};
use crate::topology::Ring;
use crate::tour::Solved;

/// A background search.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Search {
    /// The optimization whose question it answers.
    pub(super) round: Round,
    members: BTreeSet<PeerId>,
    /// The best ring that it has found since.
    pub(super) better: Option<Solved>,
}

impl Master {
    /// Continues the search in the background if the immediate answer is not proved to be the best.
    pub(super) fn search_on(&mut self, round: Round, group: GroupId, out: &mut Out) {
        let steps = self.config.search_steps;
        if steps == 0 {
            return;
        }
        let members = self.accepted_in(group).map(|(peer, _)| peer).collect();
        let search = Search {
            round,
            members,
            better: None,
        };
        self.searches.insert(group, search);
        out.push(MasterOutput::SearchTour {
            round,
            group,
            steps,
        });
    }

    /// The search has found a better ring.
    pub(super) fn tour_improved(&mut self, of: Round, group: GroupId, found: Solved) {
        let Some(search) = self.searches.get_mut(&group) else {
            return;
        };
        let is_late = rule!(search.round != of; SearchOfAnotherRound => false);
        if is_late || !found.ring.is_of(&search.members) {
            return;
        }
        search.better = Some(found);
    }

    /// Ends searches whose members are no longer those of their group. Only groups that a peer has joined or left are
    /// checked.
    pub(super) fn end_stale_searches(&mut self, out: &mut Out) {
        for group in core::mem::take(&mut self.regrouped) {
            let members = self.groups.get(&group).map(|group| &group.members);
            let search = self.searches.get(&group);
            let changed = search.is_some_and(|search| members != Some(&search.members));
            if rule!(changed; StaleSearchAdopted => false) {
                self.end_search(group, out);
            }
        }
    }

    /// Ends the search. Returns the best ring that it has found, if any.
    fn end_search(&mut self, group: GroupId, out: &mut Out) -> Option<Solved> {
        let search = self.searches.remove(&group)?;
        let round = search.round;
        out.push(MasterOutput::EndSearch { round, group });
        search.better
    }

    /// Ends all searches for another optimization, which compares their results with its own.
    pub(super) fn end_searches(&mut self, out: &mut Out) -> Vec<(GroupId, Solved)> {
        let groups: Vec<GroupId> = self.searches.keys().copied().collect();
        let found = groups
            .into_iter()
            .filter_map(|group| Some((group, self.end_search(group, out)?)));
        found.collect()
    }

    /// Rings to adopt with an update of all groups, for these members.
    pub(super) fn take_better(
        &mut self,
        members: &[PeerId],
        out: &mut Out,
    ) -> BTreeMap<GroupId, Ring> {
        let groups: Vec<GroupId> = self.searches.keys().copied().collect();
        let mut rings = BTreeMap::new();
        for group in groups {
            if let Some(ring) = self.better_for(group, members) {
                self.end_search(group, out);
                rings.insert(group, ring);
            }
        }
        rings
    }

    /// The found ring of a group, if all its members will be on it, no two of its neighbours are known to be
    /// unreachable, and it is worth a rewiring.
    fn better_for(&self, group: GroupId, members: &[PeerId]) -> Option<Ring> {
        let better = self.searches.get(&group)?.better.as_ref()?;
        let is_of_group = |peer: &&PeerId| {
            let record = self.peers.get(*peer);
            record.is_some_and(|record| record.group == group)
        };
        let of_group: Vec<PeerId> = members.iter().filter(is_of_group).copied().collect();
        let meant: BTreeSet<PeerId> = of_group.iter().copied().collect();
        let is_of_all = rule!(better.ring.is_of(&meant); StaleSearchAdopted => true);
        let bad = self.bad_pairs(group, &of_group);
        let mut edges = better.ring.edges();
        if !is_of_all
            || self.attempts.contains_key(&group)
            || edges.any(|edge| bad.contains(&pair(edge)))
        {
            return None;
        }
        let estimate = self.estimate(&better.ring)?;
        let present = self.estimate(&Ring(self.in_ring_order(group)));
        let is_worth = present.is_none_or(|present| self.is_worth(&estimate, &present));
        is_worth.then(|| better.ring.clone())
    }
}
