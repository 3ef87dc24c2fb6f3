//! Connecting ring edges: orders, reports, blame, and trying again.
//!
//! ```text
//!  start ──▶ EstablishRing to those with an edge to build ──▶ all report up ──▶ conclude
//!    ▲                     │ an edge fails, or a member is lost
//!    └── the ballot counts again ◀── give up ◀── blame: refuse a newcomer, avoid the pair, wait
//! ```
//!
//! An edge of the standing ring that nobody reported broken is kept; every other edge is ordered
//! afresh with a ticket of the round. Old lanes are given up only when the new ring stands, so an
//! attempt that fails changes nothing.
//!
//! **Whose fault is an edge that does not come up?** A newcomer's, where one is involved: it is
//! refused, with what happened, and its neighbours stay; but where it is told that nobody listens at an
//! accepted peer, which may just have died, it is given a second attempt. Two newcomers are first set
//! apart, so that each shows how it gets on with the accepted peers; where that is impossible, or does
//! not help, the one that was dialled goes (a closed port is the usual cause; if the dialler is at
//! fault it fails again, and is next). Between two accepted peers the pair is avoided in the next ring,
//! after a pause in which the master may learn that one of them is gone; after some attempts the one
//! whose edges failed more often is kicked, the later of the two where that does not tell.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::record::{GroupRecord, Stake};
use super::{Master, Out, Scope, send};
use crate::id::{Epoch, GroupId, PeerId, Round};
use crate::messages::{Misdeed, Refusal, ToPeer};
use crate::states::{ConnectionPhase, Event};
use crate::topology::{LaneFailure, LaneOrder, Ring, WorldSizes};
use crate::tour;

/// One attempt to connect the rings of some groups.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Wiring {
    pub(super) scope: Scope,
    rings: BTreeMap<GroupId, PlannedRing>,
    /// Members that have edges to build and have not reported them up.
    pub(super) awaiting: BTreeSet<PeerId>,
    /// An edge failed and nobody was sent away for it: waits for the pause to end.
    pub(super) pausing: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PlannedRing {
    ring: Ring,
    lanes: u16,
    /// Edges to build, sender first.
    fresh: BTreeSet<(PeerId, PeerId)>,
}

/// Failed attempts in a row at one scope.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct Failures {
    pub(super) attempts: u8,
    /// How often an edge of a peer failed.
    by_peer: BTreeMap<PeerId, u32>,
}

impl Failures {
    /// Notes an edge that failed. Returns the end whose edges failed more often, the later peer
    /// where neither's did.
    fn note(&mut self, one: PeerId, other: PeerId) -> PeerId {
        let mut often = |peer: PeerId| {
            let times = self.by_peer.entry(peer).or_default();
            *times = times.saturating_add(1);
            (*times, peer)
        };
        let (one, other) = (often(one), often(other));
        one.max(other).1
    }

    pub(super) fn forget(&mut self, peer: PeerId) {
        self.by_peer.remove(&peer);
    }
}

impl Wiring {
    fn is_fresh(&self, one: PeerId, other: PeerId) -> bool {
        self.rings
            .values()
            .any(|plan| plan.fresh.contains(&(one, other)) || plan.fresh.contains(&(other, one)))
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
    /// connected side by side.
    fn next_ring(&mut self, group: GroupId, members: &[PeerId]) -> Ring {
        let Some(record) = self.groups.get_mut(&group) else {
            return Ring(members.to_vec());
        };
        let mut order: Vec<PeerId> = record
            .ring
            .0
            .iter()
            .filter(|peer| members.contains(peer))
            .copied()
            .collect();
        order.extend(members.iter().filter(|peer| !record.ring.0.contains(peer)));
        tour::avoid(&order, &record.unreachable).unwrap_or_else(|| {
            // No order avoids them all: what failed may work again.
            record.unreachable.clear();
            Ring(order)
        })
    }

    fn plan_edges(&self, group: GroupId, ring: Ring) -> PlannedRing {
        let standing = self.groups.get(&group);
        let kept = |edge: &(PeerId, PeerId)| {
            standing.is_some_and(|group| {
                !group.broken.contains(edge) && group.ring.next_of(edge.0) == Some(edge.1)
            })
        };
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

    pub(super) fn edges_established(&mut self, peer: PeerId, round: Round, out: &mut Out) {
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

    pub(super) fn edge_failed(
        &mut self,
        peer: PeerId,
        round: Round,
        with: PeerId,
        failure: LaneFailure,
        out: &mut Out,
    ) {
        if !self.is_round_of(peer, round, out) {
            return;
        }
        if !self
            .wirings
            .get(&round)
            .is_some_and(|wiring| wiring.is_fresh(peer, with))
        {
            self.kick(peer, Misdeed::UnknownRound, out);
            return;
        }
        if self.step_or_kick(peer, Event::EdgeFailed, out) {
            self.blame(round, peer, with, failure, out);
        }
    }

    /// Is the report about the wiring that the peer is in? One about an earlier round is late and
    /// means nothing; one about a round that never was is a misdeed.
    fn is_round_of(&mut self, peer: PeerId, round: Round, out: &mut Out) -> bool {
        if round >= self.next_round {
            self.kick(peer, Misdeed::UnknownRound, out);
            return false;
        }
        self.wirings.contains_key(&round)
            && self
                .peers
                .get(&peer)
                .is_some_and(|record| record.round == Some(round))
    }

    fn blame(
        &mut self,
        round: Round,
        reporter: PeerId,
        with: PeerId,
        failure: LaneFailure,
        out: &mut Out,
    ) {
        let at = |peer: PeerId| self.peers.get(&peer).map(|record| record.address);
        match (
            self.is_registered(reporter),
            self.is_registered(with),
            at(with),
        ) {
            (true, true, Some(_)) if self.is_first_attempt(round) => {
                self.avoid(round, reporter, with, out);
            }
            (_, true, Some(at)) => {
                self.refuse(
                    with,
                    Refusal::CannotBeReached {
                        by: reporter,
                        at,
                        failure,
                    },
                    out,
                );
            }
            (true, false, Some(_)) if self.may_be_a_death(round, failure) => {
                self.pause(round);
            }
            (true, false, Some(at)) => {
                self.refuse(
                    reporter,
                    Refusal::CannotReach {
                        peer: with,
                        at,
                        failure,
                    },
                    out,
                );
            }
            (false, false, Some(_)) => self.avoid(round, reporter, with, out),
            // The other end is gone already; losing it gave the attempt up.
            (_, _, None) => {}
        }
    }

    fn is_registered(&self, peer: PeerId) -> bool {
        self.peers
            .get(&peer)
            .is_some_and(|record| record.phase == ConnectionPhase::Registered)
    }

    /// An accepted peer whose machine says that nobody listens may have died a moment ago: then the
    /// newcomer that could not reach it is not at fault. So the first such report only leads to a pause.
    fn may_be_a_death(&self, round: Round, failure: LaneFailure) -> bool {
        let is_quick = match failure {
            LaneFailure::Refused | LaneFailure::Closed => true,
            LaneFailure::TimedOut
            | LaneFailure::Unreachable
            | LaneFailure::BadHandshake
            | LaneFailure::Local => false,
        };
        is_quick && self.is_first_attempt(round)
    }

    fn is_first_attempt(&self, round: Round) -> bool {
        self.wirings.get(&round).is_some_and(|wiring| {
            let failed = self.failures.get(&wiring.scope);
            // One that pauses has been counted.
            failed.map_or(0, |failures| failures.attempts) == u8::from(wiring.pausing)
        })
    }

    /// The attempt is over, and the next one waits a little. True: it has not paused before.
    fn pause(&mut self, round: Round) -> bool {
        let Some(wiring) = self.wirings.get_mut(&round) else {
            return false;
        };
        if core::mem::replace(&mut wiring.pausing, true) {
            return false;
        }
        let failures = self.failures.entry(wiring.scope).or_default();
        failures.attempts = failures.attempts.saturating_add(1);
        true
    }

    /// An edge between two accepted peers, or two newcomers, does not come up: the next ring avoids it.
    fn avoid(&mut self, round: Round, reporter: PeerId, with: PeerId, out: &mut Out) {
        if let Some(group) = self.group_of(reporter) {
            let pair = (reporter.min(with), reporter.max(with));
            group.unreachable.insert(pair);
        }
        // What was measured between them holds no more: the solver would choose the edge again.
        self.bandwidth.remove(&(reporter, with));
        self.bandwidth.remove(&(with, reporter));
        let pauses = self.pause(round);
        let Some(scope) = self.wirings.get(&round).map(|wiring| wiring.scope) else {
            return;
        };
        let failures = self.failures.entry(scope).or_default();
        let goes = failures.note(reporter, with);
        if pauses && failures.attempts >= self.config.wiring_attempts_max {
            self.failures.remove(&scope);
            let stays = if goes == with { reporter } else { with };
            self.kick(goes, Misdeed::Unconnectable { with: stays }, out);
        }
    }

    /// The wiring's time is over: who has not done its part?
    pub(super) fn wiring_overdue(&mut self, round: Round, out: &mut Out) {
        let Some(wiring) = self.wirings.get(&round) else {
            return;
        };
        let waits = |peer: &PeerId| wiring.awaiting.contains(peer);
        // Who only waits to be dialled is not to blame for the silence of the dialler.
        let suspects: BTreeSet<PeerId> = wiring
            .rings
            .values()
            .flat_map(|plan| &plan.fresh)
            .filter(|(from, to)| waits(from) && waits(to))
            .map(|(from, to)| self.dialler(*from, *to))
            .collect();
        let suspects = if suspects.is_empty() {
            wiring.awaiting.clone()
        } else {
            suspects
        };
        // An accepted peer may wait for a newcomer: it goes only where no newcomer is late.
        let (newcomers, accepted): (Vec<_>, Vec<_>) = suspects
            .into_iter()
            .partition(|peer| self.is_registered(*peer));
        let late = if newcomers.is_empty() {
            accepted
        } else {
            newcomers
        };
        for peer in late {
            match self.peers.get(&peer).map(|record| record.phase) {
                Some(ConnectionPhase::Registered) => self.refuse(peer, Refusal::NoReport, out),
                Some(ConnectionPhase::Accepted) => self.kick(peer, Misdeed::NoReport, out),
                None => {}
            }
        }
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
                Stake::Update => self.step(peer, Event::RetryUpdate, out),
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
        let complete = self
            .wirings
            .get(&round)
            .is_some_and(|w| w.awaiting.is_empty() && !w.pausing);
        if !complete {
            return;
        }
        let Some(wiring) = self.wirings.remove(&round) else {
            return;
        };
        self.failures.remove(&wiring.scope);
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
            let group = self.groups.entry(id).or_default();
            group.broken.retain(|edge| !plan.fresh.contains(edge));
            group
                .broken
                .retain(|(from, to)| plan.ring.next_of(*from) == Some(*to));
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
            self.epoch.next()
        }
    }

    pub(super) fn world_sizes(&self, own: GroupId) -> WorldSizes {
        let mut sizes: BTreeMap<GroupId, u32> = BTreeMap::new();
        for (_, record) in self.accepted() {
            *sizes.entry(record.group).or_default() += 1;
        }
        WorldSizes {
            global: sizes.values().sum(),
            group: sizes.get(&own).copied().unwrap_or(0),
            groups: u32::try_from(sizes.len()).unwrap_or(u32::MAX),
            largest_group: sizes.values().copied().max().unwrap_or(0),
        }
    }
}
