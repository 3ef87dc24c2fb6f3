//! What the master chose: read from what it said, and checked to be one choice.

use std::collections::{BTreeMap, BTreeSet};

use pccl_core::id::{ContentHash, EntryIndex, GroupId, PeerId, Round, Ticket};
use pccl_core::master::MasterOutput;
use pccl_core::messages::ToPeer;
use pccl_core::shared_state::{SyncPlan, SyncRole};
use pccl_core::topology::{LinkOrder, Ring, Way};

use super::orders::Orders;
use super::rings::is_permutation;
use super::{Peers, RingEdge};

/// The free choices in what a master did about one input.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Who is no longer part of the run.
    pub(super) lost: Peers,
    /// Groups whose rings a solver is asked for.
    pub(super) questions: BTreeMap<GroupId, Round>,
    /// The newest round that anybody was told of.
    pub(super) newest: Round,
    /// Attempts at connecting rings, in the order in which they began.
    pub(super) attempts: Vec<Orders>,
    /// In the order in which they were told: a repair may follow an update at once, or the other way round.
    rings: BTreeMap<PeerId, Vec<Ring>>,
    probes: BTreeMap<PeerId, (Round, Vec<LinkOrder>)>,
    plans: BTreeMap<PeerId, SyncPlan>,
}

impl Seen {
    pub(super) fn in_outputs(out: &[MasterOutput]) -> Self {
        let mut seen = Self {
            attempts: Orders::in_outputs(out),
            ..Self::default()
        };
        for output in out {
            match output {
                MasterOutput::Lost { peer, .. } => {
                    seen.lost.insert(*peer);
                }
                MasterOutput::SolveTour { round, group, .. } => {
                    seen.questions.insert(*group, *round);
                }
                MasterOutput::Send { peer, message } => seen.note(*peer, message),
                _ => {}
            }
        }
        seen
    }

    fn note(&mut self, peer: PeerId, message: &ToPeer) {
        match message {
            ToPeer::EstablishLinks { round, .. } => self.newest = self.newest.max(*round),
            ToPeer::TopologyEstablished { topology, .. } => {
                let told = self.rings.entry(peer).or_default();
                told.push(topology.ring.clone());
            }
            ToPeer::Probe { round, probes } => {
                self.probes.insert(peer, (*round, probes.clone()));
                self.newest = self.newest.max(*round);
            }
            ToPeer::SharedStatePlan(plan) => {
                self.plans.insert(peer, plan.clone());
                self.newest = self.newest.max(plan.round);
            }
            ToPeer::SharedStateConcluded { round, .. } => self.newest = self.newest.max(*round),
            _ => {}
        }
    }

    /// The attempt at connecting rings that began as the `nth`.
    pub(super) fn attempt(&self, nth: usize) -> &Orders {
        let attempt = self.attempts.get(nth);
        attempt.expect("an attempt at connecting rings begins")
    }

    /// The ring that these were told, or that they have: a permutation of them.
    pub(super) fn ring_of(&self, members: &Peers, present: Option<&Ring>) -> Ring {
        let told = members.iter().filter_map(|peer| self.rings.get(peer));
        let rings: Vec<&Ring> = told
            .filter_map(|told| told.iter().find(|ring| is_permutation(ring, members)))
            .collect();
        let ring = rings.first().copied().or(present);
        let ring = ring.expect("newcomers are told their ring").clone();
        assert!(
            rings.iter().all(|other| **other == ring),
            "one ring: {rings:?}"
        );
        assert!(is_permutation(&ring, members), "{ring:?} of {members:?}");
        ring
    }

    pub(super) fn round_of_probes(&self, members: &Peers) -> Round {
        let of_members = self
            .probes
            .iter()
            .filter(|(peer, _)| members.contains(peer));
        one_of(of_members.map(|(_, (round, _))| *round))
    }

    /// From whom to whom is to be measured. Both ends are told, with the same ticket and lanes, and one dials.
    pub(super) fn probes(&self, members: &Peers) -> BTreeSet<RingEdge> {
        let mut ends: BTreeMap<RingEdge, Vec<(Ticket, u16, bool)>> = BTreeMap::new();
        let of_members = (self.probes.iter()).filter(|(peer, _)| members.contains(peer));
        for (peer, (_, probes)) in of_members {
            for LinkOrder { way, lanes } in probes {
                let edge = match way {
                    Way::Out => (*peer, lanes.with),
                    Way::In => (lanes.with, *peer),
                };
                let end = (lanes.ticket, lanes.lanes, lanes.dial.is_some());
                ends.entry(edge).or_default().push(end);
            }
        }
        for (edge, ends) in &ends {
            let [(ticket, lanes, dials), (other, as_many, dials_too)] = ends[..] else {
                panic!("{edge:?} has the ends {ends:?}");
            };
            assert_eq!((ticket, lanes), (other, as_many), "{edge:?}");
            assert_ne!(dials, dials_too, "one end of {edge:?} dials");
        }
        ends.into_keys().collect()
    }

    pub(super) fn round_of_plan(&self, members: &Peers) -> Round {
        let of_members = self.plans.iter().filter(|(peer, _)| members.contains(peer));
        one_of(of_members.map(|(_, plan)| plan.round))
    }

    /// From whom a peer is to fetch.
    pub(super) fn sources_of(&self, peer: PeerId) -> Vec<PeerId> {
        match self.plans.get(&peer).map(|plan| &plan.role) {
            Some(SyncRole::Request { from, .. }) => from.iter().map(|order| order.with).collect(),
            Some(SyncRole::Distribute { .. }) | None => Vec::new(),
        }
    }

    /// Who lacks something is told holders to fetch it from, and those holders to serve it.
    pub(super) fn check_serving(
        &self,
        holders: &Peers,
        fetched: &BTreeMap<PeerId, Vec<(EntryIndex, ContentHash)>>,
    ) {
        let role = |peer: &PeerId| self.plans.get(peer).map(|plan| &plan.role);
        let asked = fetched.keys().flat_map(|peer| match role(peer) {
            Some(SyncRole::Request { from, .. }) => from
                .iter()
                .map(|order| (order.ticket, *peer, order.with))
                .collect(),
            Some(SyncRole::Distribute { .. }) | None => Vec::new(),
        });
        let served = holders.iter().flat_map(|holder| match role(holder) {
            Some(SyncRole::Distribute { to }) => to
                .iter()
                .map(|order| (order.ticket, order.with, *holder))
                .collect(),
            Some(SyncRole::Request { .. }) | None => Vec::new(),
        });
        let asked: BTreeSet<_> = asked.collect();
        assert_eq!(
            asked,
            served.collect(),
            "who asks is served by whom it asks"
        );
        let lacking = fetched.iter().filter(|(_, entries)| !entries.is_empty());
        let lacking: BTreeSet<&PeerId> = lacking.map(|(peer, _)| peer).collect();
        let asking = asked.iter().map(|(_, peer, _)| peer);
        assert_eq!(lacking, asking.collect(), "{fetched:?} {:?}", self.plans);
    }
}

/// The round that all were told; none where nobody was told any.
pub(super) fn one_of(rounds: impl Iterator<Item = Round>) -> Round {
    let rounds: BTreeSet<Round> = rounds.collect();
    assert!(rounds.len() < 2, "one round: {rounds:?}");
    rounds.first().copied().unwrap_or_default()
}
