//! The search for better rings: all measure, a solver looks for rings, and they are connected.

use std::collections::{BTreeMap, BTreeSet};

use pccl_core::id::{GroupId, PeerId, Round};
use pccl_core::messages::ToPeer;
use pccl_core::states::ConnectionState;
use pccl_core::topology::Ring;

use super::rings::{Purpose, is_permutation};
use super::seen::Seen;
use super::{Peers, Reference, RingEdge};

/// A search for better rings. It concerns every accepted peer.
#[derive(Clone, Debug)]
pub(super) enum Search {
    Measuring {
        round: Round,
        /// Sender and receiver.
        asked: BTreeSet<RingEdge>,
        lacking: Peers,
        failed: Peers,
    },
    Solving {
        round: Round,
        lacking: BTreeSet<GroupId>,
        /// `None`: none was found.
        found: BTreeMap<GroupId, Option<Ring>>,
    },
    /// The rings are being connected.
    Connecting { round: Round },
}

impl Reference {
    /// When every accepted peer waits in `optimize_topology`, each measures.
    pub(super) fn search_begins(&mut self, seen: &Seen) -> bool {
        if self.accepted.is_empty() || self.optimizing_by_itself() != self.accepted {
            return false;
        }
        let measuring = std::mem::take(&mut self.optimizing);
        let (round, probes) = (Round(0), Vec::new());
        self.tell_all(measuring.iter().copied(), &ToPeer::Probe { round, probes });
        self.search = Some(Search::Measuring {
            round: seen.round_of_probes(&measuring),
            asked: seen.probes(&measuring),
            lacking: measuring,
            failed: Peers::new(),
        });
        true
    }

    pub(super) fn measured(&mut self, peer: PeerId, round: Round, to: PeerId, seen: &Seen) -> bool {
        match &self.search {
            Some(Search::Measuring {
                round: present,
                asked,
                lacking,
                ..
            }) if *present == round => {
                // Whom it measured may be gone.
                let is_there = self.peers.contains_key(&to);
                !is_there || (asked.contains(&(peer, to)) && lacking.contains(&peer))
            }
            _ => self.is_known(peer, round, seen),
        }
    }

    pub(super) fn probes_done(&mut self, peer: PeerId, done: Round, ok: bool, seen: &Seen) -> bool {
        match &mut self.search {
            Some(Search::Measuring {
                round,
                lacking,
                failed,
                ..
            }) if *round == done => {
                let is_first = lacking.remove(&peer);
                if is_first && !ok {
                    failed.insert(peer);
                }
                is_first
            }
            Some(Search::Solving { round, .. } | Search::Connecting { round, .. }) => {
                *round != done && self.is_known(peer, done, seen)
            }
            Some(Search::Measuring { .. }) | None => self.is_known(peer, done, seen),
        }
    }

    pub(super) fn solved(&mut self, solved: Round, group: GroupId, ring: &Option<Ring>) {
        if let Some(Search::Solving {
            round,
            lacking,
            found,
        }) = &mut self.search
            && *round == solved
            && lacking.remove(&group)
        {
            found.insert(group, ring.clone());
        }
    }

    /// All have measured: where somebody could not, the rings stay. All groups are solved: where some ring
    /// was not found, or is not that of its group any more, the rings stay.
    pub(super) fn search_goes_on(&mut self, seen: &Seen) -> bool {
        match &self.search {
            Some(Search::Measuring {
                round,
                lacking,
                failed,
                ..
            }) if lacking.is_empty() => {
                let (round, failed) = (*round, !failed.is_empty());
                if failed {
                    self.conclude_search(false);
                } else {
                    let (lacking, found) = (self.groups_with_a_choice(), BTreeMap::new());
                    assert_eq!(
                        seen.questions, lacking,
                        "every group with a choice is solved"
                    );
                    self.search = Some(Search::Solving {
                        round,
                        lacking,
                        found,
                    });
                }
                true
            }
            Some(Search::Solving {
                round,
                lacking,
                found,
            }) if lacking.is_empty() => {
                let fits = |(group, ring): (&GroupId, &Option<Ring>)| {
                    let ring = ring.as_ref();
                    ring.is_some_and(|ring| is_permutation(ring, &self.members(*group)))
                };
                if found.iter().all(fits) {
                    self.search = Some(Search::Connecting { round: *round });
                    self.connect(Purpose::Better, self.accepted.clone(), seen);
                } else {
                    self.conclude_search(false);
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
        self.tell_all(
            everybody,
            &ToPeer::OptimizationConcluded { improved_or_kept },
        );
    }

    /// It ends with the last peer that waits for it.
    pub(super) fn search_loses(&mut self, peer: PeerId) {
        self.search.take_if(|_| self.accepted.is_empty());
        if let Some(Search::Measuring { lacking, .. }) = &mut self.search {
            lacking.remove(&peer);
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
            Self::Measuring { .. } | Self::Solving { .. } | Self::Connecting { .. } => {
                ConnectionState::VoteCompleteTopologyOptimization
            }
        }
    }
}
