//! Connecting rings: who has to report, when a ring stands, what happens when it does not.

use std::collections::{BTreeMap, BTreeSet};

use pccl_core::id::{GroupId, PeerId, Round, Tag};
use pccl_core::messages::{CallFailure, CallKind, CollectiveRefusal, Conflict, ToPeer};
use pccl_core::site::SiteMap;
use pccl_core::topology::{
    BuiltLink, LaneFailure, Layout, LinkId, Ring, Topology, Way, WorldSizes,
};

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
    /// What is to be built. The other links of the new rings stand and are whole.
    edges: BTreeSet<RingEdge>,
    /// Which ends are to open the lanes.
    dialling: BTreeSet<(PeerId, LinkId)>,
    standing: BTreeSet<RingEdge>,
    /// Failed attempts before this one. After one, links that stand may be built again.
    doubts: u32,
    /// Which ends of which links have not said that they are up.
    lacking: BTreeSet<(PeerId, LinkId)>,
    /// What an end reported to have failed.
    failed: BTreeSet<RingEdge>,
    /// Who reported that.
    pub(super) disappointed: Peers,
}

impl Wiring {
    pub(super) fn lacks(&self, peer: PeerId) -> bool {
        self.lacking.iter().any(|(other, _)| *other == peer)
    }

    fn is_up(&self, edge: RingEdge) -> bool {
        let mut ends = ends_of(edge).into_iter();
        !ends.any(|end| self.lacking.contains(&end))
    }

    fn is_open(&self, edge: &RingEdge) -> bool {
        !self.failed.contains(edge) && !self.is_up(*edge)
    }

    /// Nothing is to be waited for any more, and some of it has failed.
    pub(super) fn has_failed(&self) -> bool {
        let mut edges = self.edges.iter();
        !self.failed.is_empty() && !edges.any(|edge| self.is_open(edge))
    }

    fn stands(&self) -> bool {
        self.edges.iter().all(|edge| self.is_up(*edge)) && self.failed.is_empty()
    }
}

impl Reference {
    /// Orders links to be built. Where there is nothing to build, the rings stand at once.
    pub(super) fn connect(&mut self, purpose: Purpose, mut members: Peers, seen: &Seen) {
        let orders = seen.attempt(self.begun);
        // Newcomers that held up two attempts may be left out of the next one.
        members.retain(|peer| {
            let is_left_out = !self.accepted.contains(peer) && !orders.handed.contains(peer);
            assert!(
                !is_left_out || self.suspects.contains(peer),
                "{peer} is left out"
            );
            !is_left_out
        });
        if members.is_empty() {
            self.nobody_is_left_of_the_invited(&orders.handed);
            return;
        }
        self.begun += 1;
        assert_eq!(members, orders.handed, "whom an attempt concerns");
        let edges = orders.edges();
        let whole = |group: &Group| -> Vec<RingEdge> {
            let edges = group.ring.edges();
            edges.filter(|edge| !group.broken.contains(edge)).collect()
        };
        let standing: BTreeSet<RingEdge> = self.groups.values().flat_map(whole).collect();
        let wiring = Wiring {
            round: orders.round(),
            purpose,
            doubts: self.attempts_failed,
            standing,
            lacking: edges.iter().flat_map(|edge| ends_of(*edge)).collect(),
            dialling: orders.dialling(),
            members,
            edges,
            failed: BTreeSet::new(),
            disappointed: Peers::new(),
        };
        let ordered: Peers = wiring.lacking.iter().map(|(peer, _)| *peer).collect();
        for peer in ordered {
            // Whom to connect with is the master's choice.
            let (round, links) = (Round(0), Vec::new());
            let order = ToPeer::EstablishLinks { round, links };
            self.said.push((peer, order));
        }
        if wiring.lacking.is_empty() {
            self.stands(wiring, seen);
        } else {
            self.wirings.push(wiring);
        }
    }

    /// Nobody is accepted, and all that the admission began with are gone or left out: it is over, and others
    /// begin the next one.
    fn nobody_is_left_of_the_invited(&mut self, others: &Peers) {
        let mut others = others.iter();
        let come = others.any(|peer| !self.kept_aside.contains_key(peer));
        assert!(come, "somebody comes in that need not wait");
        self.invited = None;
    }

    /// The rings stand: exactly the members are part of the run, and each is told its group's ring.
    fn stands(&mut self, wiring: Wiring, seen: &Seen) {
        let mut by_group: BTreeMap<GroupId, Peers> = BTreeMap::new();
        for peer in &wiring.members {
            let group = self.peers[peer].group;
            by_group.entry(group).or_default().insert(*peer);
        }
        let rings: BTreeMap<GroupId, Ring> = (by_group.iter())
            .map(|(group, members)| {
                let present = self.groups.get(group).map(|group| &group.ring);
                let ring = seen.ring_of(members, present);
                wiring.check_ring(&ring);
                if let Some(present) = self.groups.get(group) {
                    wiring.check_change(&present.ring, &ring);
                }
                (*group, ring)
            })
            .collect();
        let is_unchanged = |(group, ring): (&GroupId, &Ring)| {
            let group = self.groups.get(group);
            group.is_some_and(|group| group.epoch == self.epoch && group.ring == *ring)
        };
        let (before, asked) = (self.epoch, &self.updating & &wiring.members);
        // A ring that was built anew is another one, and another ring is another epoch.
        if !wiring.edges.is_empty() || !rings.iter().all(is_unchanged) {
            self.epoch = self.epoch.next();
        }
        self.connects(&wiring);
        self.attempts_failed = 0;
        for (id, ring) in rings {
            let wish = |peer: &PeerId| self.peers[peer].lanes;
            let built = |edge: &RingEdge| (wiring.round, wish(&edge.0).min(wish(&edge.1)));
            let group = self.groups.entry(id).or_default();
            let lanes = |edge: RingEdge| match wiring.edges.contains(&edge) {
                true => (edge, built(&edge)),
                false => (edge, group.edges[&edge]),
            };
            group.edges = ring.edges().map(lanes).collect();
            let kept: BTreeSet<RingEdge> = ring.edges().collect();
            group.broken = &kept & &group.broken;
            group.broken = &group.broken - &wiring.edges;
            (group.ring, group.epoch) = (ring, self.epoch);
            (group.repeat, group.void) = (None, group.reserved);
        }
        let newcomers = &wiring.members - &self.accepted;
        for (peer, vote) in std::mem::take(&mut self.aside) {
            match newcomers.contains(&peer) {
                true => {
                    let group = self.peers[&peer].group;
                    let group = self.groups.get_mut(&group).unwrap();
                    group.offers.insert(peer, vote);
                }
                false => drop(self.aside.insert(peer, vote)),
            }
        }
        let waits = |peer: &PeerId| {
            let mut groups = self.groups.values();
            groups.any(|group| group.offers.contains_key(peer))
        };
        let rests: Peers = newcomers.into_iter().filter(|peer| !waits(peer)).collect();
        self.resting.extend(rests);
        self.accepted.extend(&wiring.members);
        // Whoever voted to update while the ring was repaired cannot tell one ring from the other.
        self.updating = &self.updating - &wiring.members;
        if wiring.purpose != Purpose::Rewire {
            self.updating.clear();
            self.invited = None;
            self.kept_aside.retain(|_, updates| {
                *updates -= 1;
                *updates > 0
            });
        }
        if let Some(first) = asked.first() {
            self.passes_over(&wiring.members, *first);
        }
        for peer in &wiring.members {
            // Where nothing has changed only those are told who asked.
            if self.epoch == before && !asked.contains(peer) {
                continue;
            }
            let topology = self.topology_of(*peer);
            let group = &self.groups[&self.peers[peer].group];
            let built = |link: LinkId, edge: RingEdge| {
                let (built, _) = group.edges[&edge];
                BuiltLink { link, built }
            };
            // Those on which it sends come first; a ring has one of each kind at most.
            let next = topology.ring.next_of(*peer);
            let to_next = next.map(|next| built(LinkId::to(next), (*peer, next)));
            let previous = topology.ring.previous_of(*peer);
            let from_previous = previous.map(|before| built(LinkId::from(before), (before, *peer)));
            let layout = Layout(to_next.into_iter().chain(from_previous).collect());
            self.tell(*peer, ToPeer::TopologyEstablished { topology, layout });
        }
        if wiring.purpose == Purpose::Better {
            self.conclude_search(true);
        }
    }

    /// Who waits in another call than an update has been passed over by it; the eighth time all of its group
    /// that wait in that call give way.
    fn passes_over(&mut self, members: &Peers, peer: PeerId) {
        for waiting in members {
            let id = self.peers[waiting].group;
            let syncs = self.groups[&id].offers.contains_key(waiting);
            let optimizes = self.optimizing.contains(waiting);
            if !syncs && !optimizes && !self.only_waits_to_start(*waiting) {
                continue;
            }
            let passed = self.passed.entry(*waiting).or_default();
            *passed += 1;
            if *passed < 8 {
                continue;
            }
            if syncs {
                self.offers_give_way(id, CallKind::UpdateTopology, peer);
            } else if optimizes {
                let losers = &self.members(id) & &self.optimizing;
                self.optimizing = &self.optimizing - &losers;
                let conflict = Conflict {
                    yours: CallKind::OptimizeTopology,
                    theirs: CallKind::UpdateTopology,
                    peer,
                };
                self.tell_all(losers, &ToPeer::CallFailed(CallFailure::Conflict(conflict)));
            } else {
                let conflict = Conflict {
                    yours: CallKind::Collective,
                    theirs: CallKind::UpdateTopology,
                    peer,
                };
                let tags: Vec<Tag> = self.groups[&id].starting.keys().copied().collect();
                for tag in tags {
                    self.refuse(id, tag, &CollectiveRefusal::Conflict(conflict));
                }
            }
        }
    }

    /// Pairs that were connected have not failed.
    fn connects(&mut self, wiring: &Wiring) {
        let up = wiring
            .edges
            .iter()
            .filter(|edge| wiring.is_up(**edge) && !wiring.failed.contains(edge));
        for edge in up {
            self.failed_pairs.remove(&in_order(*edge));
        }
    }

    fn topology_of(&self, peer: PeerId) -> Topology {
        let own = self.peers[&peer].group;
        let sizes = self.groups.keys().map(|group| self.members(*group).len());
        let size = |number: usize| u32::try_from(number).unwrap();
        let group = &self.groups[&own];
        Topology {
            epoch: group.epoch,
            ring: group.ring.clone(),
            sites: SiteMap::new(group.ring.0.iter().map(|peer| &self.peers[peer].site)),
            lanes: group
                .edges
                .values()
                .map(|(_, lanes)| *lanes)
                .max()
                .unwrap_or(1),
            within_machine: {
                let addresses = group.ring.0.iter().map(|peer| self.peers[peer].address);
                addresses.collect::<BTreeSet<_>>().len() <= 1
            },
            world: WorldSizes {
                global: size(self.accepted.len()),
                group: size(self.members(own).len()),
                groups: size(self.groups.len()),
                largest_group: size(sizes.max().unwrap()),
            },
            // Nobody has one in these runs.
            names: Vec::new(),
        }
    }

    /// Each end reports each of its links once.
    pub(super) fn link_reported(
        &mut self,
        peer: PeerId,
        round: Round,
        end: LinkId,
        failure: Option<LaneFailure>,
        seen: &Seen,
    ) -> bool {
        let Some(wiring) = self.wiring_of(peer, round) else {
            return self.is_known(peer, round, seen);
        };
        let mut edges = wiring.edges.iter().copied();
        let Some(edge) = edges.find(|edge| ends_of(*edge).contains(&(peer, end))) else {
            return false;
        };
        // Only who was to open the lanes can say that they did not come up.
        if failure.is_some() && !wiring.dialling.contains(&(peer, end)) {
            return false;
        }
        if wiring.has_failed() && !wiring.lacking.contains(&(peer, end)) {
            // It is late, and repeats itself: the master has ceased to listen.
            return true;
        }
        let has_failed_there =
            wiring.failed.contains(&edge) && wiring.dialling.contains(&(peer, end));
        let is_first = match failure {
            None => {
                let is_contradicted = has_failed_there && !wiring.has_failed();
                !is_contradicted && wiring.lacking.remove(&(peer, end))
            }
            Some(_) => {
                let is_open = wiring.lacking.contains(&(peer, end));
                is_open && (wiring.failed.insert(edge) || wiring.has_failed())
            }
        };
        if is_first && failure.is_some() {
            wiring.disappointed.insert(peer);
        }
        let standing: Vec<Wiring> = self.wirings.extract_if(.., |w| w.stands()).collect();
        for wiring in standing {
            self.stands(wiring, seen);
        }
        is_first
    }

    fn wiring_of(&mut self, peer: PeerId, round: Round) -> Option<&mut Wiring> {
        let mut wirings = self.wirings.iter_mut();
        wirings.find(|wiring| wiring.round == round && wiring.members.contains(&peer))
    }

    /// The attempt is judged: whatever was not reported up has failed, and somebody may have to go for it.
    /// Whom the master sends away is its choice; but a newcomer has to have a failed pair, or to be
    /// cut off, and an accepted peer goes only if no ring is left, neither with newcomers nor without, or much
    /// has failed in vain.
    pub(super) fn wiring_fails(&mut self, round: Round, seen: &Seen) {
        let mut wirings = self.wirings.iter();
        let Some(wiring) = wirings.find(|wiring| wiring.round == round).cloned() else {
            return;
        };
        self.connects(&wiring);
        self.attempts_failed += 1;
        let failed = wiring
            .edges
            .iter()
            .filter(|edge| !wiring.is_up(**edge) || wiring.failed.contains(edge));
        self.failed_pairs.extend(failed.copied().map(in_order));
        self.suspects
            .extend(self.failed_pairs.iter().flat_map(|pair| [pair.0, pair.1]));
        for lost in &seen.lost {
            let group = self.peers[lost].group;
            let mut of_group = wiring.members.clone();
            of_group.retain(|peer| self.peers.get(peer).is_some_and(|p| p.group == group));
            let is_newcomer = !self.accepted.contains(lost);
            let many = self.failed_pairs.len() >= 8;
            let accepted = &of_group & &self.accepted;
            // One that is alone has a ring of its own, and nobody on it.
            let leaves_a_ring = accepted.len() > 1 && self.a_ring_is_left(group, &accepted);
            assert!(
                is_newcomer && self.suspects.contains(lost)
                    || many
                    || !leaves_a_ring && !self.a_ring_is_left(group, &of_group),
                "{lost} goes for {:?}",
                self.failed_pairs
            );
        }
        for lost in &seen.lost {
            let (refusal, misdeed) = UNCONNECTABLE;
            self.is_sent_away(*lost, refusal, misdeed);
        }
        self.give_up(|wiring| wiring.round == round);
    }

    /// Is there a ring of these without a pair that has failed, standing links apart, or that broke under
    /// two collectives?
    pub(super) fn a_ring_is_left(&self, group: GroupId, members: &Peers) -> bool {
        let whole = |edge: RingEdge| {
            let group = self.groups.get(&group);
            group.is_some_and(|g| g.edges.contains_key(&edge) && !g.broken.contains(&edge))
        };
        let breaks = |pair: RingEdge| {
            let breaks = self.groups.get(&group).and_then(|g| g.breaks.get(&pair));
            breaks.is_some_and(|(times, _)| *times >= 2)
        };
        let fits = |one: PeerId, other: PeerId| {
            let pair = in_order((one, other));
            !self.failed_pairs.contains(&pair) && !breaks(pair)
        };
        let standing = self.groups.get(&group).map(|group| &group.ring);
        let standing = standing.filter(|_| self.attempts_failed < 1);
        if standing.is_some_and(|ring| is_permutation(ring, members) && ring.edges().all(whole)) {
            return true;
        }
        let Some(first) = members.first() else {
            return true;
        };
        let rest: Vec<PeerId> = members.iter().skip(1).copied().collect();
        rest.is_empty() || leads_back(*first, *first, &rest, &fits)
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
        assert!(
            built.is_disjoint(&self.standing) || self.doubts > 0,
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
        if is_whole && self.purpose != Purpose::Better && self.doubts < 1 {
            assert_eq!(present, next, "it was whole");
            let built = next.edges().find(|edge| self.edges.contains(edge));
            assert_eq!(built, None, "it was whole");
        }
    }
}

/// A way from `here` through all of the rest back to `first`.
fn leads_back(
    first: PeerId,
    here: PeerId,
    rest: &[PeerId],
    fits: &impl Fn(PeerId, PeerId) -> bool,
) -> bool {
    if rest.is_empty() {
        return fits(here, first);
    }
    (0..rest.len()).any(|at| {
        let mut rest = rest.to_vec();
        let next = rest.remove(at);
        fits(here, next) && leads_back(first, next, &rest, fits)
    })
}

/// What its two ends call a link.
pub(super) fn ends_of((from, to): RingEdge) -> [(PeerId, LinkId); 2] {
    let link = |way, with| LinkId { way, with };
    [(from, link(Way::Out, to)), (to, link(Way::In, from))]
}

/// Whichever way it leads.
pub(super) fn in_order((one, other): RingEdge) -> RingEdge {
    (one.min(other), one.max(other))
}

pub(super) fn is_permutation(ring: &Ring, members: &Peers) -> bool {
    let on_ring: Peers = ring.0.iter().copied().collect();
    on_ring == *members && ring.0.len() == members.len()
}
