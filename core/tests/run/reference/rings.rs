//! Connecting rings: who has to report, when a ring stands, what happens when it does not.

use std::collections::{BTreeMap, BTreeSet};

use pccl_core::id::{GroupId, PeerId, Round};
use pccl_core::messages::{Misdeed, Refusal, ToPeer};
use pccl_core::topology::{LaneFailure, Ring, Topology, WorldSizes};

use super::seen::Seen;
use super::{Group, Peers, Reference, RingEdge, UNCONNECTABLE};

/// Why a ring is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Everybody has called `update_topology`.
    Update,
    /// Everybody of the group waits to reduce.
    Rewire,
    /// A better ring was found.
    Better,
}

/// One attempt at connecting rings.
#[derive(Clone, Debug)]
pub(super) struct Wiring {
    pub(super) round: Round,
    pub(super) purpose: Purpose,
    /// Whom it concerns, newcomers included.
    pub(super) members: Peers,
    /// What is to be built. The other edges of the new rings stand and are whole.
    edges: BTreeSet<RingEdge>,
    /// Who is to open their lanes, and to whom.
    dials: BTreeSet<RingEdge>,
    standing: BTreeSet<RingEdge>,
    /// Who could not be connected with somebody. Only their standing edges may be built again.
    suspects: Peers,
    /// Who has edges to build and has not reported them up.
    pub(super) lacking: Peers,
    /// Who reported that they do not come up: this attempt leads to nothing.
    pub(super) failed: Peers,
    /// Nobody reported that, but it is known.
    pub(super) is_given_up: bool,
}

impl Reference {
    /// Orders edges to be built. Where there is nothing to build, the rings stand at once.
    pub(super) fn connect(&mut self, purpose: Purpose, members: Peers, seen: &Seen) {
        let edges = seen.ordered_edges(&members);
        let whole = |group: &Group| -> Vec<RingEdge> {
            let edges = group.ring.edges();
            edges.filter(|edge| !group.broken.contains(edge)).collect()
        };
        let standing: BTreeSet<RingEdge> = self.groups.values().flat_map(whole).collect();
        let wiring = Wiring {
            round: seen.round_of_orders(&members),
            purpose,
            standing: &standing - &self.begun,
            suspects: self.suspects(),
            lacking: edges.iter().flat_map(|(from, to)| [*from, *to]).collect(),
            dials: seen.dials(&members),
            members,
            edges,
            failed: Peers::new(),
            is_given_up: false,
        };
        self.begun.extend(&wiring.edges);
        for peer in &wiring.lacking {
            // Whom to connect with is the master's choice.
            let round = Round(0);
            let (lanes, next, previous) = (0, None, None);
            let order = ToPeer::EstablishRing {
                round,
                lanes,
                next,
                previous,
            };
            self.said.push((*peer, order));
        }
        if wiring.lacking.is_empty() {
            self.stands(wiring, seen);
        } else {
            self.wirings.push(wiring);
        }
    }

    fn suspects(&self) -> Peers {
        let ends = self.failed_pairs.iter();
        ends.flat_map(|(one, other)| [*one, *other]).collect()
    }

    /// The rings stand: exactly the members are part of the run, and each is told its group's ring.
    fn stands(&mut self, wiring: Wiring, seen: &Seen) {
        let mut by_group: BTreeMap<GroupId, Peers> = BTreeMap::new();
        for peer in &wiring.members {
            let group = self.peers[peer].group;
            by_group.entry(group).or_default().insert(*peer);
        }
        let rings: BTreeMap<GroupId, (Ring, u16)> = (by_group.iter())
            .map(|(group, members)| {
                let ring = seen.ring_of(members);
                wiring.check_ring(&ring);
                if let Some(present) = self.groups.get(group) {
                    wiring.check_change(&present.ring, &ring);
                }
                (
                    *group,
                    (ring.clone(), self.lanes_of(*group, &ring, &wiring)),
                )
            })
            .collect();
        let is_unchanged = |(group, (ring, lanes)): (&GroupId, &(Ring, u16))| {
            let group = self.groups.get(group);
            group.is_some_and(|g| g.epoch == self.epoch && g.ring == *ring && g.lanes == *lanes)
        };
        // A ring that was built anew is another one, and another ring is another epoch.
        if !wiring.edges.is_empty() || !rings.iter().all(is_unchanged) {
            self.epoch = self.epoch.next();
        }
        for (id, (ring, lanes)) in rings {
            let neighbours: BTreeSet<RingEdge> = ring.edges().map(in_order).collect();
            self.failed_pairs = &self.failed_pairs - &neighbours;
            let group = self.groups.entry(id).or_default();
            group.broken = &ring.edges().collect() & &group.broken;
            group.broken = &group.broken - &wiring.edges;
            (group.ring, group.lanes, group.epoch) = (ring, lanes, self.epoch);
        }
        self.begun
            .retain(|(from, _)| !wiring.members.contains(from));
        self.accepted.extend(&wiring.members);
        if wiring.purpose != Purpose::Rewire {
            self.updating.clear();
            self.invited = None;
        }
        for peer in &wiring.members {
            let topology = self.topology_of(*peer);
            self.tell(*peer, ToPeer::TopologyEstablished(topology));
        }
        if wiring.purpose == Purpose::Better {
            self.conclude_search(true);
        }
    }

    /// As many lanes as every member would like; an edge that stands gets no further ones.
    fn lanes_of(&self, group: GroupId, ring: &Ring, wiring: &Wiring) -> u16 {
        let keeps_edges = ring.edges().any(|edge| !wiring.edges.contains(&edge));
        let standing = self.groups.get(&group).filter(|_| keeps_edges);
        let wished = ring.0.iter().map(|peer| self.peers[peer].lanes);
        let lanes = wished.chain(standing.map(|group| group.lanes));
        lanes.min().unwrap()
    }

    fn topology_of(&self, peer: PeerId) -> Topology {
        let own = self.peers[&peer].group;
        let sizes = self.groups.keys().map(|group| self.members(*group).len());
        let size = |number: usize| u32::try_from(number).unwrap();
        let group = &self.groups[&own];
        Topology {
            epoch: group.epoch,
            ring: group.ring.clone(),
            lanes: group.lanes,
            world: WorldSizes {
                global: size(self.accepted.len()),
                group: size(self.members(own).len()),
                groups: size(self.groups.len()),
                largest_group: size(sizes.max().unwrap()),
            },
        }
    }

    pub(super) fn edges_up(&mut self, peer: PeerId, round: Round, seen: &Seen) -> bool {
        let Some(wiring) = self.wiring_of(peer, round) else {
            return self.is_known(peer, round, seen);
        };
        let is_taken = !wiring.failed.contains(&peer) && wiring.lacking.remove(&peer);
        let stands = |wiring: &mut Wiring| wiring.lacking.is_empty() && !wiring.is_given_up;
        let standing: Vec<Wiring> = self.wirings.extract_if(.., stands).collect();
        for wiring in standing {
            self.stands(wiring, seen);
        }
        is_taken
    }

    /// Nobody else than the two ends may have to go for an edge, and no accepted peer where the other is a
    /// newcomer, unless its own machine gave out, as it said itself.
    pub(super) fn edge_failed(
        &mut self,
        peer: PeerId,
        round: Round,
        with: PeerId,
        failure: LaneFailure,
        seen: &Seen,
    ) -> bool {
        let Some(wiring) = self.wiring_of(peer, round) else {
            return self.is_known(peer, round, seen);
        };
        let edges = [(peer, with), (with, peer)];
        let is_expected = edges.iter().any(|edge| wiring.edges.contains(edge))
            && wiring.lacking.contains(&peer)
            && wiring.failed.insert(peer);
        if is_expected {
            self.somebody_pays(peer, with, failure, seen);
        }
        is_expected
    }

    fn somebody_pays(&mut self, peer: PeerId, with: PeerId, failure: LaneFailure, seen: &Seen) {
        self.failed_pairs.insert(in_order((peer, with)));
        let ends = [peer, with];
        let suspects = &self.suspects() & &seen.lost;
        let to_blame = ends.iter().find(|end| seen.lost.contains(end));
        if let (None, Some(suspect)) = (to_blame, suspects.first()) {
            // What speaks against it is older.
            let (refusal, misdeed) = UNCONNECTABLE;
            self.is_sent_away(*suspect, refusal, misdeed);
        }
        if let Some(to_blame) = to_blame {
            let both_accepted = ends.iter().all(|end| self.accepted.contains(end));
            let is_own_fault = *to_blame == peer && failure == LaneFailure::Local;
            assert!(both_accepted || is_own_fault || !self.accepted.contains(to_blame));
            let (refusal, misdeed) = UNCONNECTABLE;
            self.is_sent_away(*to_blame, refusal, misdeed);
        }
    }

    fn wiring_of(&mut self, peer: PeerId, round: Round) -> Option<&mut Wiring> {
        let mut wirings = self.wirings.iter_mut();
        wirings.find(|wiring| wiring.round == round && wiring.members.contains(&peer))
    }

    /// Who was to open lanes to another one that waits too goes; of accepted peers only where no newcomer
    /// does. Where all that were to open lanes say that they have, and the other end of some waits still,
    /// the edge has failed; so it has where one end is a newcomer, and only accepted peers are silent.
    /// Only where nobody says so does one go that was to open no lanes to anybody who waits.
    pub(super) fn wiring_is_overdue(&mut self, round: Round, seen: &Seen) {
        let mut wirings = self.wirings.iter_mut();
        let wiring = wirings.find(|wiring| wiring.round == round).unwrap();
        let waits = |peer: &PeerId| wiring.lacking.contains(peer);
        let waited_for = wiring.dials.iter().filter(|(_, to)| waits(to));
        let (silent, others): (Vec<RingEdge>, _) = waited_for.partition(|(from, _)| waits(from));
        let is_newcomer = |peer: &PeerId| !self.accepted.contains(peer);
        let mut contradicted = others;
        if !silent.is_empty() {
            contradicted.retain(|(from, to)| is_newcomer(from) || is_newcomer(to));
        }
        if !contradicted.is_empty() && !silent.iter().any(|(from, _)| is_newcomer(from)) {
            wiring.is_given_up = true;
            // Which of them the master goes by is its choice.
            self.failed_pairs
                .extend(contradicted.iter().copied().map(in_order));
            let lost = |end: &PeerId| seen.lost.contains(end);
            let pays = contradicted
                .iter()
                .find(|(from, to)| lost(from) || lost(to));
            if let Some((from, to)) = pays.copied() {
                self.somebody_pays(to, from, LaneFailure::TimedOut, seen);
            }
            return;
        }
        let suspects: Peers = match silent.is_empty() {
            true => wiring.lacking.clone(),
            false => silent.into_iter().map(|(from, _)| from).collect(),
        };
        let newcomers = &suspects - &self.accepted;
        let late = match newcomers.is_empty() {
            true => suspects,
            false => newcomers,
        };
        for peer in late {
            self.is_sent_away(peer, Refusal::NoReport, Misdeed::NoReport);
        }
    }

    /// The attempt has come to nothing. Everybody is where it was before; a search for better rings ends
    /// with it.
    pub(super) fn give_up(&mut self, which: impl Fn(&Wiring) -> bool) {
        let given_up: Vec<Wiring> = self.wirings.extract_if(.., |w| which(w)).collect();
        if given_up.iter().any(|w| w.purpose == Purpose::Better) {
            self.conclude_search(false);
        }
    }

    /// Without one of its members an attempt cannot succeed.
    pub(super) fn rings_lose(&mut self, peer: PeerId) {
        self.give_up(|wiring| wiring.members.contains(&peer));
        self.search_loses(peer);
    }
}

impl Wiring {
    /// What was ordered is on the ring, and what was not ordered stood.
    fn check_ring(&self, ring: &Ring) {
        let of_group = |(from, _): &&RingEdge| ring.rank_of(*from).is_some();
        let built: BTreeSet<RingEdge> = self.edges.iter().filter(of_group).copied().collect();
        let edges: BTreeSet<RingEdge> = ring.edges().collect();
        assert!(built.is_subset(&edges), "{built:?} on {ring:?}");
        let mut rebuilt = built.intersection(&self.standing);
        let is_suspect = |peer| self.suspects.contains(peer);
        assert!(
            rebuilt.all(|(from, to)| is_suspect(from) || is_suspect(to)),
            "{built:?} stood: {:?}",
            self.standing
        );
        let kept = &edges - &built;
        assert!(
            kept.is_subset(&self.standing),
            "{kept:?} did not stand: {:?}",
            self.standing
        );
    }

    /// A ring that is whole is not changed for anything but a better one or another member.
    fn check_change(&self, present: &Ring, next: &Ring) {
        let (one, other): (Peers, Peers) = (
            present.0.iter().copied().collect(),
            next.0.iter().copied().collect(),
        );
        let is_whole = one == other && present.edges().all(|edge| self.standing.contains(&edge));
        if is_whole && self.purpose != Purpose::Better {
            assert_eq!(present, next, "it was whole");
            let built = next.edges().find(|edge| self.edges.contains(edge));
            assert_eq!(built, None, "it was whole");
        }
    }
}

/// Whichever way it leads.
fn in_order((one, other): RingEdge) -> RingEdge {
    (one.min(other), one.max(other))
}

pub(super) fn is_permutation(ring: &Ring, members: &Peers) -> bool {
    let on_ring: Peers = ring.0.iter().copied().collect();
    on_ring == *members && ring.0.len() == members.len()
}
