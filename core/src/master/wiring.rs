//! Connecting ring edges: orders, reports, and trying again.
//!
//! ```text
//!  start ──▶ EstablishRing to those with an edge to build ──▶ all report up ──▶ conclude
//!    ▲                     │ an edge fails, or a member is lost
//!    └── the ballot counts again ◀── give up ◀── blame: refuse a newcomer, avoid the pair, wait
//! ```
//!
//! An edge of the standing ring that nobody reported broken is kept, unless one of its ends may be one
//! that cannot be connected; every other edge is ordered afresh with a ticket of the round. Old lanes
//! are given up only when the new ring stands, so an attempt that fails changes nothing.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::record::{GroupRecord, Stake};
use super::{Master, Out, Scope, send};
use crate::id::{Epoch, GroupId, PeerId, Round};
use crate::messages::ToPeer;
use crate::states::{ConnectionPhase, Event};
use crate::topology::{LaneOrder, Ring, WorldSizes};
use crate::tour;

/// One attempt to connect the rings of some groups.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Wiring {
    pub(super) scope: Scope,
    pub(super) rings: BTreeMap<GroupId, PlannedRing>,
    /// Members that have edges to build and have not reported them up.
    pub(super) awaiting: BTreeSet<PeerId>,
    /// An edge failed and nobody was sent away for it: waits for the pause to end.
    pub(super) pausing: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PlannedRing {
    ring: Ring,
    lanes: u16,
    /// Edges to build, sender first.
    fresh: BTreeSet<(PeerId, PeerId)>,
}

impl Wiring {
    /// Edges to build, of all groups, sender first.
    pub(super) fn fresh(&self) -> impl Iterator<Item = &(PeerId, PeerId)> {
        self.rings.values().flat_map(|plan| &plan.fresh)
    }

    pub(super) fn is_fresh(&self, one: PeerId, other: PeerId) -> bool {
        self.fresh()
            .any(|edge| *edge == (one, other) || *edge == (other, one))
    }
}

impl Master {
    /// Orders the rings of `members`. `better`: rings to adopt, where the solver found some.
    pub(super) fn start_wiring(
        &mut self,
        scope: Scope,
        members: &[PeerId],
        better: Option<&BTreeMap<GroupId, Ring>>,
        out: &mut Out,
    ) {
        let round = self.take_round();
        let rings = self.plan_rings(members, better);
        let awaiting: BTreeSet<PeerId> = rings
            .values()
            .flat_map(|plan| &plan.fresh)
            .flat_map(|(a, b)| [*a, *b])
            .collect();
        for peer in members {
            self.step(*peer, Event::RingHandedOut, out);
            if let Some(record) = self.peers.get_mut(peer) {
                record.round = Some(round);
            }
            if !awaiting.contains(peer) {
                self.step(*peer, Event::EdgesUp, out);
            }
        }
        for plan in rings.values() {
            self.order_edges(round, plan, out);
        }
        let wiring = Wiring {
            scope,
            rings,
            awaiting,
            pausing: false,
        };
        self.wirings.insert(round, wiring);
        self.conclude_if_complete(round, out);
    }

    fn plan_rings(
        &mut self,
        members: &[PeerId],
        better: Option<&BTreeMap<GroupId, Ring>>,
    ) -> BTreeMap<GroupId, PlannedRing> {
        let mut by_group: BTreeMap<GroupId, Vec<PeerId>> = BTreeMap::new();
        for peer in members {
            if let Some(record) = self.peers.get(peer) {
                by_group.entry(record.group).or_default().push(*peer);
            }
        }
        by_group
            .into_iter()
            .map(|(group, members)| {
                let ring = better.and_then(|rings| rings.get(&group)).cloned();
                let ring = ring.unwrap_or_else(|| self.next_ring(group, &members));
                (group, self.plan_edges(group, ring))
            })
            .collect()
    }

    /// The present ring without the departed, newcomers at its end, and no pair that could not be
    /// connected side by side, unless its edge stands.
    fn next_ring(&mut self, group: GroupId, members: &[PeerId]) -> Ring {
        let standing = self.groups.get(&group);
        let on_ring = standing.map_or(&[][..], |record| &record.ring.0);
        let newcomers = members.iter().filter(|peer| !on_ring.contains(peer));
        let present = on_ring.iter().filter(|peer| members.contains(peer));
        let order: Vec<PeerId> = present.chain(newcomers).copied().collect();
        let stands = |(one, other): (PeerId, PeerId)| {
            standing
                .is_some_and(|group| group.can_keep((one, other)) || group.can_keep((other, one)))
        };
        let concerned = self.unreachable_among(members).into_iter();
        let apart = concerned.filter(|pair| !stands(*pair)).collect();
        tour::avoid(&order, &apart).unwrap_or_else(|| {
            let ring = Ring(order);
            self.try_all_again(group, &ring, &apart);
            ring
        })
    }

    fn unreachable_among(&self, members: &[PeerId]) -> BTreeSet<(PeerId, PeerId)> {
        let pairs = self.unreachable.iter().copied();
        pairs
            .filter(|(one, other)| members.contains(one) && members.contains(other))
            .collect()
    }

    /// No order keeps these pairs apart: what failed may work again. All edges of their ends are
    /// connected afresh, so that one that nobody reaches any more fails with both its neighbours, and
    /// each of them with it alone.
    fn try_all_again(&mut self, group: GroupId, ring: &Ring, apart: &BTreeSet<(PeerId, PeerId)>) {
        self.unreachable = &self.unreachable - &self.unreachable_among(&ring.0);
        let ends = apart.iter().flat_map(|(one, other)| [*one, *other]);
        if let Some(group) = self.groups.get_mut(&group) {
            group.distrust(&ends.collect(), ring);
        }
    }

    fn plan_edges(&self, group: GroupId, ring: Ring) -> PlannedRing {
        let standing = self.groups.get(&group);
        let kept = |edge: &(PeerId, PeerId)| standing.is_some_and(|group| group.can_keep(*edge));
        let fresh: BTreeSet<_> = ring.edges().filter(|edge| !kept(edge)).collect();
        let wished = ring
            .0
            .iter()
            .filter_map(|peer| self.peers.get(peer))
            .map(|peer| peer.lanes);
        let keeps_any = ring.edges().any(|edge| kept(&edge));
        let standing_lanes = standing.filter(|_| keeps_any).map(|group| group.lanes);
        let lanes = wished.chain(standing_lanes).min().unwrap_or(1);
        PlannedRing { ring, lanes, fresh }
    }

    fn order_edges(&self, round: Round, plan: &PlannedRing, out: &mut Out) {
        let mut orders: BTreeMap<PeerId, (Option<LaneOrder>, Option<LaneOrder>)> = BTreeMap::new();
        for (from, to) in &plan.fresh {
            let Some((ours, theirs)) = self.lane_orders(round, *from, *to) else {
                continue;
            };
            orders.entry(*from).or_default().0 = Some(ours);
            orders.entry(*to).or_default().1 = Some(theirs);
        }
        for (peer, (next, previous)) in orders {
            let lanes = plan.lanes;
            send(
                out,
                peer,
                ToPeer::EstablishRing {
                    round,
                    lanes,
                    next,
                    previous,
                },
            );
        }
    }

    /// Orders for both ends of lanes between two peers: first for `from`, then for `to`.
    pub(super) fn lane_orders(
        &self,
        round: Round,
        from: PeerId,
        to: PeerId,
    ) -> Option<(LaneOrder, LaneOrder)> {
        let ticket = self.config.tickets.mint(round, from, to);
        let address_of = |peer: PeerId| self.peers.get(&peer).map(|record| record.address);
        let (from_at, to_at) = (address_of(from)?, address_of(to)?);
        let from_dials = self.dialler(from, to) == from;
        let ours = LaneOrder {
            with: to,
            ticket,
            dial: from_dials.then_some(to_at),
        };
        let theirs = LaneOrder {
            with: from,
            ticket,
            dial: (!from_dials).then_some(from_at),
        };
        Some((ours, theirs))
    }

    /// Who opens the lanes between two peers: the sender, unless the receiver is known by a loopback
    /// address only, where nobody but peers of the master's machine can open any. Such a receiver
    /// opens them itself, so both kinds of peers work in one run.
    pub(super) fn dialler(&self, from: PeerId, to: PeerId) -> PeerId {
        let is_loopback = |peer: PeerId| {
            self.peers
                .get(&peer)
                .is_some_and(|record| record.address.ip().is_loopback())
        };
        if is_loopback(to) && !is_loopback(from) {
            to
        } else {
            from
        }
    }

    pub(super) fn edges_established(&mut self, peer: PeerId, of: Round, out: &mut Out) {
        let round = rule!(of; StaleEdgesUpTaken => self.present_round(peer).unwrap_or(of));
        if !self.is_round_of(peer, round, out) {
            return;
        }
        if self.step_or_kick(peer, Event::EdgesUp, out) {
            if let Some(wiring) = self.wirings.get_mut(&round) {
                wiring.awaiting.remove(&peer);
            }
            self.conclude_if_complete(round, out);
        }
    }

    #[cfg(feature = "mutants")]
    fn present_round(&self, peer: PeerId) -> Option<Round> {
        self.peers.get(&peer)?.round
    }

    /// Is the report about the wiring that the peer is in? One about an earlier round is late and
    /// means nothing.
    pub(super) fn is_round_of(&mut self, peer: PeerId, round: Round, out: &mut Out) -> bool {
        self.was_ordered(peer, round, out)
            && self.wirings.contains_key(&round)
            && self
                .peers
                .get(&peer)
                .is_some_and(|record| record.round == Some(round))
    }

    /// A member of a wiring is gone: the attempt cannot succeed, and a better one can start at once.
    pub(super) fn wirings_lose(&mut self, peer: PeerId, out: &mut Out) {
        let concerned: Vec<Round> = self
            .wirings
            .iter()
            .filter(|(_, wiring)| {
                wiring
                    .rings
                    .values()
                    .any(|plan| plan.ring.0.contains(&peer))
            })
            .map(|(round, _)| *round)
            .collect();
        for round in concerned {
            self.give_up_wiring(round, out);
        }
    }

    /// Ends an attempt without a new ring: everybody is back where it voted, and what it had stands.
    pub(super) fn give_up_wiring(&mut self, round: Round, out: &mut Out) {
        let Some(wiring) = self.wirings.remove(&round) else {
            return;
        };
        for (peer, stake) in self.members_of(round) {
            if let Some(record) = self.peers.get_mut(&peer) {
                record.round = None;
            }
            match stake {
                Stake::Admission => self.step(peer, Event::RetryAdmission, out),
                Stake::Update => {
                    rule!(self.step(peer, Event::RetryUpdate, out); RetryForgotten => {});
                }
                Stake::Rewire => self.step(peer, Event::RetryRewire, out),
                Stake::Optimization => self.optimization_concluded_for(peer, false, out),
            }
        }
        if self.drop_optimization_of(round) {
            // It is not repeated, so nothing adds up that somebody would have to go for.
            self.failures.remove(&wiring.scope);
        }
    }

    fn members_of(&self, round: Round) -> Vec<(PeerId, Stake)> {
        self.peers
            .iter()
            .filter(|(_, record)| record.round == Some(round))
            .map(|(peer, record)| (*peer, record.stake))
            .collect()
    }

    fn conclude_if_complete(&mut self, round: Round, out: &mut Out) {
        let complete = self.wirings.get(&round).is_some_and(|w| {
            rule!(w.awaiting.is_empty(); RingBeforeLastReport => w.awaiting.len() <= 1)
                && !w.pausing
        });
        if !complete {
            return;
        }
        let Some(wiring) = self.wirings.remove(&round) else {
            return;
        };
        self.failures.remove(&wiring.scope);
        if wiring.scope == Scope::Everybody {
            self.admission_closed_at = None;
        }
        let members = self.members_of(round);
        for (peer, _) in &members {
            if let Some(record) = self.peers.get_mut(peer) {
                record.phase = ConnectionPhase::Accepted;
                record.round = None;
            }
        }
        self.adopt_rings(wiring);
        for (peer, stake) in members {
            self.announce_ring(peer, out);
            match stake {
                Stake::Admission | Stake::Update => self.step(peer, Event::RingStands, out),
                Stake::Rewire => self.collectives_go_on(peer, out),
                Stake::Optimization => {
                    self.step(peer, Event::RingStands, out);
                    send(
                        out,
                        peer,
                        ToPeer::OptimizationConcluded {
                            improved_or_kept: true,
                        },
                    );
                }
            }
        }
        self.drop_optimization_of(round);
    }

    fn adopt_rings(&mut self, wiring: Wiring) {
        let epoch = self.epoch_for(&wiring);
        self.epoch = epoch;
        for (id, plan) in wiring.rings {
            let are_neighbours = |one: PeerId, other| plan.ring.next_of(one) == Some(other);
            self.unreachable.retain(|(one, other)| {
                !are_neighbours(*one, *other) && !are_neighbours(*other, *one)
            });
            let group = self.groups.entry(id).or_default();
            rule!(
                group.broken.retain(|edge| !plan.fresh.contains(edge));
                EdgeKeptThoughBroken => group.broken.clear()
            );
            group
                .broken
                .retain(|(from, to)| plan.ring.next_of(*from) == Some(*to));
            group.distrusted.clear();
            group.ring = plan.ring;
            group.lanes = plan.lanes;
            group.epoch = epoch;
        }
    }

    /// The present epoch where every ring is what it was and all groups share it; else the next.
    fn epoch_for(&self, wiring: &Wiring) -> Epoch {
        let unchanged = |(id, plan): (&GroupId, &PlannedRing)| {
            self.groups.get(id).is_some_and(|group: &GroupRecord| {
                group.epoch == self.epoch
                    && group.ring == plan.ring
                    && group.lanes == plan.lanes
                    && plan.fresh.is_empty()
            })
        };
        if wiring.rings.iter().all(unchanged) {
            self.epoch
        } else {
            rule!(self.epoch.next(); EpochNotRaised => self.epoch)
        }
    }

    pub(super) fn world_sizes(&self, own: GroupId) -> WorldSizes {
        let mut sizes: BTreeMap<GroupId, u32> = BTreeMap::new();
        for (_, record) in self.accepted() {
            *sizes.entry(record.group).or_default() += 1;
        }
        WorldSizes {
            global: sizes.values().sum(),
            group: rule!(sizes.get(&own).copied().unwrap_or(0); WorldCountsRegistered => {
                let of_group = self.peers.values().filter(|record| record.group == own);
                u32::try_from(of_group.count()).unwrap_or(u32::MAX)
            }),
            groups: u32::try_from(sizes.len()).unwrap_or(u32::MAX),
            largest_group: sizes.values().copied().max().unwrap_or(0),
        }
    }
}
