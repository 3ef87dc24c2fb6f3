//! The search for better rings: edges are measured in rotations, a solver looks for rings, their edges are
//! probed all at once, and they are connected.

use std::collections::{BTreeMap, BTreeSet};

use pccl_core::id::{GroupId, PeerId, Round};
use pccl_core::messages::ToPeer;
use pccl_core::paths::RingReport;
use pccl_core::states::ConnectionState;
use pccl_core::topology::Ring;

use super::rings::{Purpose, is_permutation};
use super::seen::Seen;
use super::{Peers, Reference, RingEdge};

/// What a solver found for each group. `None`: nothing.
type Found = BTreeMap<GroupId, Option<Ring>>;

/// A search for better rings. It concerns every accepted peer.
#[derive(Clone, Debug)]
pub(super) enum Search {
    Measuring {
        /// Nobody was told of the one before the first.
        rotation: Round,
        /// Sender and receiver.
        asked: BTreeSet<RingEdge>,
        lacking: Peers,
        /// Whose reports about this rotation mean nothing.
        excused: Peers,
        failed: Peers,
        /// The rings whose edges are probed all at once, and those for which that was done before.
        loaded: Vec<Found>,
        slow: Peers,
    },
    Solving {
        round: Round,
        lacking: BTreeSet<GroupId>,
        found: Found,
        /// What was found before their edges were probed all at once.
        loaded: Vec<Found>,
        slow: Peers,
    },
    /// The rings are being connected.
    Connecting,
}

impl Reference {
    /// When every accepted peer waits in `optimize_topology`, edges are measured.
    pub(super) fn search_begins(&mut self, seen: &Seen) -> bool {
        if self.accepted.is_empty() || self.optimizing_by_itself() != self.accepted {
            return false;
        }
        self.optimizing.clear();
        if !self.measures(Vec::new(), Peers::new(), seen) {
            self.search = Some(self.solving(Vec::new(), Peers::new(), seen));
        }
        true
    }

    /// Whether another rotation is handed out. `slow`: who measures no more.
    fn measures(&mut self, loaded: Vec<Found>, slow: Peers, seen: &Seen) -> bool {
        let members = self.accepted.clone();
        let asked = seen.probes(&members);
        let (round, probes) = (Round(0), Vec::new());
        let lacking: Peers = asked.iter().flat_map(|(from, to)| [*from, *to]).collect();
        let is_alone = lacking.len() == 2 * asked.len();
        assert!(is_alone || !loaded.is_empty(), "{asked:?} share a peer");
        assert!(lacking.is_disjoint(&slow), "{slow:?} measure no more");
        for (from, to) in &asked {
            assert_eq!(self.peers[from].group, self.peers[to].group);
        }
        if asked.is_empty() {
            return false;
        }
        assert!(
            is_alone || loaded.len() <= 2,
            "rings are probed under load twice at most"
        );
        self.tell_all(lacking.iter().copied(), &ToPeer::Probe { round, probes });
        self.search = Some(Search::Measuring {
            rotation: seen.round_of_probes(&members),
            asked,
            lacking,
            excused: Peers::new(),
            failed: Peers::new(),
            loaded,
            slow,
        });
        true
    }

    fn solving(&self, loaded: Vec<Found>, slow: Peers, seen: &Seen) -> Search {
        let asked: BTreeSet<GroupId> = seen.questions.keys().copied().collect();
        let choice = self.groups_with_a_choice();
        match loaded.is_empty() {
            true => assert_eq!(asked, choice, "every group with a choice is solved"),
            false => assert!(asked.is_subset(&choice), "{asked:?} of {choice:?}"),
        }
        Search::Solving {
            round: seen.questions.values().next().copied().unwrap_or_default(),
            lacking: asked,
            found: Found::new(),
            loaded,
            slow,
        }
    }

    pub(super) fn measured(&mut self, peer: PeerId, round: Round, to: PeerId, seen: &Seen) -> bool {
        match &self.search {
            Some(Search::Measuring {
                rotation,
                asked,
                lacking,
                excused,
                ..
            }) if *rotation == round => {
                // Whom it measured may be gone.
                let is_there = self.peers.contains_key(&to);
                let is_asked = asked.contains(&(peer, to)) && lacking.contains(&peer);
                !is_there || excused.contains(&peer) || is_asked
            }
            _ => self.is_known(peer, round, seen),
        }
    }

    pub(super) fn probes_done(&mut self, peer: PeerId, done: Round, ok: bool, seen: &Seen) -> bool {
        match &mut self.search {
            Some(Search::Measuring {
                rotation,
                lacking,
                failed,
                excused,
                ..
            }) if *rotation == done => {
                let is_first = lacking.remove(&peer);
                if is_first && !ok {
                    failed.insert(peer);
                }
                is_first || excused.contains(&peer)
            }
            _ => self.is_known(peer, done, seen),
        }
    }

    pub(super) fn solved(&mut self, solved: Round, group: GroupId, ring: Option<&Ring>) {
        if let Some(Search::Solving {
            round,
            lacking,
            found,
            ..
        }) = &mut self.search
            && *round == solved
            && lacking.remove(&group)
        {
            found.insert(group, ring.cloned());
        }
    }

    /// All have measured: where somebody could not, the rings stay. All groups are solved: where some ring
    /// was not found, or is not that of its group any more, the rings stay.
    pub(super) fn search_goes_on(&mut self, seen: &Seen) -> bool {
        match self.search.clone() {
            Some(Search::Measuring {
                rotation,
                lacking,
                failed,
                loaded,
                slow,
                ..
            }) if lacking.is_empty() => {
                let is_next = seen.round_of_probes(&self.accepted) > rotation;
                if !failed.is_empty() {
                    self.conclude_search(false);
                } else if !is_next || !self.measures(loaded.clone(), slow.clone(), seen) {
                    self.search = Some(self.solving(loaded, slow, seen));
                }
                true
            }
            Some(Search::Solving {
                lacking,
                found,
                loaded,
                slow,
                ..
            }) if lacking.is_empty() => {
                let fits = |(group, ring): (&GroupId, &Option<Ring>)| {
                    let ring = ring.as_ref();
                    ring.is_some_and(|ring| is_permutation(ring, &self.members(*group)))
                };
                let is_found = |(_, ring): &(&GroupId, &Option<Ring>)| ring.is_some();
                let fit = match loaded.is_empty() {
                    true => found.iter().all(fits),
                    false => {
                        let before = loaded.iter().flatten();
                        before.chain(found.iter().filter(is_found)).all(fits)
                    }
                };
                let with_found = loaded.iter().chain([&found]).cloned().collect();
                if !fit {
                    self.conclude_search(false);
                } else if !self.measures(with_found, slow, seen) {
                    self.search = Some(Search::Connecting);
                    self.connect(Purpose::Better, self.accepted.clone(), seen);
                }
                true
            }
            _ => false,
        }
    }

    /// A ring of one or two is what it is.
    fn groups_with_a_choice(&self) -> BTreeSet<GroupId> {
        let mut groups: BTreeSet<GroupId> = self.groups.keys().copied().collect();
        groups.retain(|group| self.members(*group).len() > 2);
        groups
    }

    pub(super) fn conclude_search(&mut self, improved_or_kept: bool) {
        self.search = None;
        let everybody = self.accepted.clone();
        let report = improved_or_kept.then(RingReport::default);
        self.tell_all(everybody, &ToPeer::OptimizationConcluded { report });
    }

    /// It ends with the last peer that waits for it. Who has nobody left to measure with is not waited for.
    pub(super) fn search_loses(&mut self, peer: PeerId) {
        self.search.take_if(|_| self.accepted.is_empty());
        let Some(Search::Measuring {
            asked,
            lacking,
            excused,
            ..
        }) = &mut self.search
        else {
            return;
        };
        lacking.remove(&peer);
        let is_there = |peer: &PeerId| self.peers.contains_key(peer);
        let left = asked
            .iter()
            .filter(|(from, to)| is_there(from) && is_there(to));
        let left: Peers = left.flat_map(|(from, to)| [*from, *to]).collect();
        excused.extend(lacking.difference(&left));
        lacking.retain(|peer| left.contains(peer));
    }

    /// It takes too long to measure.
    pub(super) fn measures_no_more(&mut self, peer: PeerId) {
        if let Some(Search::Measuring {
            lacking,
            excused,
            slow,
            ..
        }) = &mut self.search
        {
            lacking.remove(&peer);
            excused.insert(peer);
            slow.insert(peer);
        }
    }
}

impl Search {
    pub(super) fn state_of(&self, peer: PeerId) -> ConnectionState {
        match self {
            Self::Measuring { lacking, .. } if lacking.contains(&peer) => {
                ConnectionState::OptimizeTopology
            }
            Self::Measuring { failed, .. } if failed.contains(&peer) => {
                ConnectionState::OptimizeTopologyFailed
            }
            Self::Measuring { .. } | Self::Solving { .. } | Self::Connecting => {
                ConnectionState::VoteCompleteTopologyOptimization
            }
        }
    }
}
