//! Connecting links: orders, reports, and retries.
//!
//! ```text
//!  start ──▶ EstablishLinks to those with a link to build ──▶ every link is up ──▶ conclude
//!    ▲                     │ every link is decided, and some have failed
//!    └── the ballot counts again ◀── blame: who goes? ◀── pause
//! ```
//!
//! An established link that was not reported broken is kept. Every other link is ordered again, with a ticket of the
//! round. Each end of a link reports it. An attempt continues until every link is decided, so that one attempt finds
//! all links that cannot be connected. Old lanes are dropped only when the new ring is established, so an attempt
//! that fails changes nothing.
//!
//! A small group gets a *mesh*: a link from each member to each other one, those of the ring included. The other
//! links are ordered, kept and rebuilt like those of the ring, but no peer is evicted for them. If one does not come
//! up, the ring is used alone, and no mesh is tried as long as both ends of that link are members.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::attempt::{PlannedRing, Report, Wiring};
use super::blame::{Pair, pair};
use super::record::{GroupRecord, Stake, StandingLink};
use super::{Master, Out, Scope, send};
use crate::id::{Epoch, GroupId, PeerId, Round};
use crate::messages::{Misdeed, ToPeer};
use crate::site::found::FoundSites;
use crate::states::{ConnectionPhase, ConnectionState, Event};
use crate::topology::{LaneFailure, LaneOrder, LinkId, LinkOrder, Ring, Way};

impl Master {
    /// Orders the rings of `members`. `better`: rings to adopt, if the solver found some.
    pub(super) fn start_wiring(
        &mut self,
        scope: Scope,
        members: &[PeerId],
        better: Option<&BTreeMap<GroupId, Ring>>,
        out: &mut Out,
    ) {
        let found = match (scope, better) {
            (Scope::Everybody, None) => Some(self.take_better(members, out)),
            (Scope::Everybody | Scope::Group(_), _) => None,
        };
        let round = self.take_round();
        let rings = self.plan_rings(round, members, better.or(found.as_ref()));
        let wiring = Wiring::new(scope, round, rings, |from, to| self.dialler(from, to));
        for peer in members {
            self.enter_wiring(*peer, round, out);
            if !wiring.awaits(*peer) {
                self.step(*peer, Event::LinksUp, out);
            }
        }
        self.order_links(round, &wiring, out);
        self.wirings.insert(round, wiring);
        self.conclude_if_complete(round, out);
    }

    /// Notes the state to which the peer returns, and orders its links.
    fn enter_wiring(&mut self, peer: PeerId, round: Round, out: &mut Out) {
        let Some(state) = self.state_of(peer) else {
            return;
        };
        if state == ConnectionState::CollectiveCommunicationsRunning {
            self.step(peer, Event::RingFoundStale, out);
        }
        if let Some(record) = self.record_mut(peer) {
            record.round = Some(round);
            record.stake = stake_in(state);
        }
        self.step(peer, Event::RingHandedOut, out);
    }

    fn plan_rings(
        &self,
        round: Round,
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
                (group, self.plan_links(round, group, ring))
            })
            .collect()
    }

    /// Whether these members get links beside those of their ring: they are few, no two of them are known to be
    /// unreachable, and the last attempt at the ring did not fail.
    fn wants_mesh(&self, group: GroupId, ring: &Ring, found: &FoundSites) -> bool {
        let is_member = |peer: &PeerId| ring.0.contains(peer);
        let stands_between = |(one, other): &Pair| is_member(one) && is_member(other);
        self.may_have_mesh(ring, found)
            && !self.attempts.contains_key(&group)
            && !self.unlinked.iter().any(stands_between)
            && self.bad_pairs(group, &ring.0).is_empty()
    }

    /// Whether they are few enough for links beside those of their ring.
    pub(super) fn may_have_mesh(&self, ring: &Ring, found: &FoundSites) -> bool {
        let world = ring.world_size();
        let at_sites = || self.sites_on(ring, found).sites().has_two_levels();
        world <= usize::from(self.config.mesh_max)
            || world <= usize::from(self.config.sites_mesh_max) && at_sites()
    }

    /// The links that are kept, and those that are built in this round. A link that is not part of the ring gets one
    /// lane, because direct exchanges are small. If it already has more lanes, it is kept unchanged.
    fn plan_links(&self, round: Round, group: GroupId, ring: Ring) -> PlannedRing {
        let standing = self.groups.get(&group).filter(|_| !self.is_doubtful(group));
        let wish = |peer: PeerId| self.peers.get(&peer).map_or(1, |record| record.lanes);
        let planned = |link: (PeerId, PeerId), lanes: u16| {
            let kept = standing.filter(|group| {
                rule!(
                    group.can_keep(link);
                    WholeRingRebuilt => group.broken.is_empty() && group.can_keep(link),
                    OtherGroupRebuiltAsWell => group.can_keep(link)
                        && self.groups.values().all(|group| group.broken.is_empty())
                )
            });
            let kept = kept.and_then(|group| group.links.get(&link).copied());
            let kept = kept.filter(|kept| kept.lanes >= lanes);
            let built = round;
            (link, kept.unwrap_or(StandingLink { built, lanes }))
        };
        let wished = |link: (PeerId, PeerId)| {
            let lanes = rule!(wish(link.0).min(wish(link.1)); LanesOfOneEnd => wish(link.0));
            planned(link, lanes)
        };
        let of_ring = ring.edges().map(wished);
        let mut links: BTreeMap<_, _> = of_ring.collect();
        let found = self.found_for(round, group, &ring.0);
        if self.wants_mesh(group, &ring, &found) {
            for link in ring.pairs().filter(|link| !ring.has_edge(*link)) {
                links.extend([planned(link, 1)]);
            }
        }
        PlannedRing { ring, links, found }
    }

    fn order_links(&self, round: Round, wiring: &Wiring, out: &mut Out) {
        let mut orders: BTreeMap<PeerId, Vec<LinkOrder>> = BTreeMap::new();
        let planned = wiring.rings.values().flat_map(|plan| &plan.links);
        for ((from, to), link) in planned.filter(|(_, link)| link.built == round) {
            let Some((ours, theirs)) = self.lane_orders(round, *from, *to, link.lanes) else {
                continue;
            };
            for (peer, way, lanes) in [(*from, Way::Out, ours), (*to, Way::In, theirs)] {
                let of_peer = orders.entry(peer).or_default();
                of_peer.push(LinkOrder { way, lanes });
            }
        }
        for (peer, mut links) in orders {
            links.sort_unstable_by_key(LinkOrder::link);
            send(out, peer, ToPeer::EstablishLinks { round, links });
        }
    }

    /// The orders of lanes between two peers for both ends: first for `from`, then for `to`.
    pub(super) fn lane_orders(
        &self,
        round: Round,
        from: PeerId,
        to: PeerId,
        lanes: u16,
    ) -> Option<(LaneOrder, LaneOrder)> {
        let ticket = rule!(
            self.config.tickets.mint(round, from, to);
            OneTicketForBothWays => self.config.tickets.mint(round, from.min(to), from.max(to))
        );
        let (sender, receiver) = (self.peers.get(&from)?, self.peers.get(&to)?);
        let from_dials = self.dialler(from, to) == from;
        let ours = LaneOrder {
            with: to,
            ticket,
            dial: from_dials
                .then_some(rule!(receiver.address; OwnAddressDialled => sender.address)),
            lanes,
            identity: rule!(receiver.identity; OwnIdentityNamed => sender.identity),
        };
        let theirs = LaneOrder {
            with: from,
            ticket,
            dial: rule!(!from_dials; BothEndsDial => true).then_some(sender.address),
            lanes,
            identity: rule!(sender.identity; ListenerToldOfNoIdentity => None),
        };
        Some((ours, theirs))
    }

    pub(super) fn link_up(&mut self, peer: PeerId, of: Round, link: LinkId, out: &mut Out) {
        let round = rule!(of; StaleEdgesUpTaken => self.present_round(peer).unwrap_or(of));
        self.link_reported(peer, round, link, Report::Up, out);
    }

    pub(super) fn link_failed(
        &mut self,
        peer: PeerId,
        round: Round,
        link: LinkId,
        failure: LaneFailure,
        out: &mut Out,
    ) {
        self.link_reported(peer, round, link, Report::Failed(failure), out);
    }

    fn link_reported(
        &mut self,
        peer: PeerId,
        round: Round,
        link: LinkId,
        report: Report,
        out: &mut Out,
    ) {
        if !self.is_round_of(peer, round, out) {
            return;
        }
        let wiring = self.wirings.get(&round);
        let ends = wiring.and_then(|wiring| wiring.link_at(peer, link));
        // That lanes did not come up is said by the end that was to open them, and not by the other one: its
        // word would make a repetition of what an honest dialler says.
        let may_say = |(from, to): &(PeerId, PeerId)| match report {
            Report::Up => true,
            Report::Failed(_) => {
                let wiring = self.wirings.get(&round);
                wiring.is_some_and(|wiring| wiring.ends((*from, *to)).dialler == peer)
            }
        };
        let Some(ends) = ends.filter(may_say) else {
            self.kick(peer, Misdeed::UnknownRound, out);
            return;
        };
        let Some(wiring) = self.wirings.get_mut(&round) else {
            return;
        };
        // Whatever still comes in after the deadline is late and means nothing.
        if !wiring.note(ends, link.way, report) {
            if wiring.open > 0 {
                self.kick(peer, Misdeed::DuplicateVote, out);
            }
            return;
        }
        match report {
            Report::Failed(_) if self.fails_for(round, ends) => {
                if self.connects(peer) {
                    self.step(peer, Event::LinkFailed, out);
                }
            }
            // The other end may have waited for nothing but this link.
            Report::Up | Report::Failed(_) => {
                self.step_if_up(ends.0, round, out);
                self.step_if_up(ends.1, round, out);
            }
        }
        self.conclude_if_complete(round, out);
    }

    fn fails_for(&self, round: Round, link: (PeerId, PeerId)) -> bool {
        let wiring = self.wirings.get(&round);
        wiring.is_some_and(|wiring| wiring.fails_for(link))
    }

    fn connects(&self, peer: PeerId) -> bool {
        self.state_of(peer) == Some(ConnectionState::ConnectingToPeers)
    }

    /// Moves the peer if it has all links that its ring needs, and awaits no others.
    fn step_if_up(&mut self, peer: PeerId, round: Round, out: &mut Out) {
        let awaited = self.wirings.get(&round).is_some_and(|w| w.awaits(peer));
        if self.connects(peer) && !awaited {
            self.step(peer, Event::LinksUp, out);
        }
    }

    #[cfg(feature = "mutants")]
    fn present_round(&self, peer: PeerId) -> Option<Round> {
        self.peers.get(&peer)?.round
    }

    /// Whether the report is about the wiring in which the peer is. A report about an earlier round is late, and is
    /// ignored.
    fn is_round_of(&mut self, peer: PeerId, round: Round, out: &mut Out) -> bool {
        self.was_ordered(peer, round, out)
            && self.wirings.contains_key(&round)
            && self
                .peers
                .get(&peer)
                .is_some_and(|record| record.round == Some(round))
    }

    /// A member of a wiring has departed: the attempt cannot succeed, and a better one can start at once.
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

    /// The wiring's time is over. Unreported links have failed.
    pub(super) fn wiring_overdue(&mut self, round: Round, out: &mut Out) {
        let Some(wiring) = self.wirings.get_mut(&round) else {
            return;
        };
        wiring.close();
        if wiring.has_failed() {
            self.wiring_failed(round, out);
            return;
        }
        for (peer, _) in self.members_of(round) {
            self.step_if_up(peer, round, out);
        }
        self.conclude_if_complete(round, out);
    }

    /// The attempt has failed, and the pause after it is over: another one begins, perhaps without some peers.
    pub(super) fn wiring_failed(&mut self, round: Round, out: &mut Out) {
        if let Some(wiring) = self.wirings.get(&round).cloned() {
            self.blame(&wiring, out);
        }
        self.give_up_wiring(round, out);
    }

    /// Ends an attempt without a new ring: all peers return to where they voted, and keep their links.
    pub(super) fn give_up_wiring(&mut self, round: Round, out: &mut Out) {
        let Some(wiring) = self.wirings.remove(&round) else {
            return;
        };
        #[cfg(feature = "mutants")]
        if rule!(false; GivenUpEdgesAnnounced => true) {
            self.keep_edges_of(&wiring);
        }
        for (peer, stake) in self.members_of(round) {
            if let Some(record) = self.record_mut(peer) {
                record.round = None;
            }
            match stake {
                Stake::Admission => self.step(peer, Event::RetryAdmission, out),
                Stake::Update => {
                    rule!(self.step(peer, Event::RetryUpdate, out); RetryForgotten => {});
                }
                Stake::Sync => self.step(peer, Event::RetrySync, out),
                Stake::Vote => self.step(peer, Event::RetryOptimize, out),
                Stake::Rewire => self.step(peer, Event::RetryRewire, out),
                Stake::Optimization => {
                    let is_done = rule!(false; FailedOptimizationCalledDone => true);
                    let report = is_done.then(|| self.report_for(peer));
                    self.optimization_concluded_for(peer, report, out);
                }
            }
        }
        if self.drop_optimization_of(round) {
            // It is not repeated, so nothing adds up that somebody would have to go for.
            for group in wiring.rings.keys() {
                self.attempts.remove(group);
            }
        }
    }

    #[cfg(feature = "mutants")]
    fn keep_edges_of(&mut self, wiring: &Wiring) {
        let is_up =
            |link: &(PeerId, PeerId)| wiring.links.get(link).is_some_and(|link| link.is_up());
        for (group, plan) in &wiring.rings {
            let Some(group) = self.groups.get_mut(group) else {
                continue;
            };
            for (link, lanes) in plan.links.iter().filter(|(link, _)| is_up(link)) {
                group.broken.remove(link);
                group.aborted_for.remove(link);
                group.links.insert(*link, *lanes);
            }
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
        let Some(wiring) = self.wirings.get_mut(&round) else {
            return;
        };
        let is_complete = rule!(wiring.open == 0; RingBeforeLastReport => wiring.open <= 1);
        if wiring.pausing || !is_complete {
            return;
        }
        if wiring.has_failed() {
            wiring.pausing = true;
            return;
        }
        if let Some(wiring) = self.wirings.remove(&round) {
            self.conclude_wiring(round, wiring, out);
        }
    }

    /// The rings are established.
    fn conclude_wiring(&mut self, round: Round, mut wiring: Wiring, out: &mut Out) {
        self.do_without(&mut wiring);
        if wiring.scope == Scope::Everybody {
            self.end_admission();
        }
        self.clear_edges(&wiring);
        let (members, before) = (self.members_of(round), self.epoch);
        self.adopt_rings(wiring);
        for (peer, _) in &members {
            self.accept(*peer);
        }
        self.announce_rings(&members, before, out);
        let mut updating = members.iter().filter(|(_, stake)| *stake == Stake::Update);
        let updating = updating.next().map(|(peer, _)| *peer);
        for (peer, stake) in &members {
            self.leave_wiring(*peer, *stake, out);
        }
        if let Some(updating) = updating {
            self.pass_over(&members, updating, out);
        }
        self.drop_optimization_of(round);
    }

    /// If a link is missing, there is no mesh, and the ring is used alone.
    fn do_without(&mut self, wiring: &mut Wiring) {
        let missing: BTreeSet<(PeerId, PeerId)> = wiring.missing().collect();
        self.unlinked.extend(missing.iter().copied().map(pair));
        for plan in wiring.rings.values_mut() {
            let PlannedRing { ring, links, .. } = plan;
            if missing.iter().any(|link| links.contains_key(link)) {
                links.retain(|link, _| ring.has_edge(*link));
            }
        }
    }

    fn leave_wiring(&mut self, peer: PeerId, stake: Stake, out: &mut Out) {
        match stake {
            Stake::Admission | Stake::Update => self.step(peer, Event::RingStands, out),
            Stake::Sync => self.step(peer, Event::RingStandsForSync, out),
            Stake::Vote => self.step(peer, Event::RingStandsForOptimize, out),
            Stake::Rewire => self.step(peer, Event::RingStandsForCollectives, out),
            Stake::Optimization => {
                self.step(peer, Event::RingStands, out);
                let report = Some(self.report_for(peer));
                send(out, peer, ToPeer::OptimizationConcluded { report });
            }
        }
    }

    /// A member of an established ring is part of the run.
    fn accept(&mut self, peer: PeerId) {
        let Some(record) = self.record_mut(peer) else {
            return;
        };
        record.round = None;
        if record.phase == ConnectionPhase::Registered {
            record.phase = ConnectionPhase::Accepted;
            record.rests = record.stake == Stake::Admission;
        }
        if rule!(false; WhoWithdrewRests => record.stake == Stake::Admission) {
            record.rests = true;
        }
        let (id, aside) = (record.group, record.aside.take());
        let group = self.groups.entry(id).or_default();
        if group.members.insert(peer) {
            group.find_ready();
            self.regrouped.insert(id);
        }
        group.come_back(peer, aside);
    }

    fn adopt_rings(&mut self, wiring: Wiring) {
        let epoch = self.epoch_for(&wiring);
        self.epoch = epoch;
        for (id, plan) in wiring.rings {
            self.attempts.remove(&id);
            self.dirty.insert(id);
            let costs = self.costs_of(&plan.ring, &plan.found);
            let group = self.groups.entry(id).or_default();
            let is_kept = |link: &(PeerId, PeerId)| {
                let built = |links: &BTreeMap<_, StandingLink>| links.get(link).map(|l| l.built);
                built(&group.links) == built(&plan.links)
            };
            let broken: BTreeSet<_> = group.broken.iter().copied().filter(is_kept).collect();
            group.aborted_for.retain(|link| broken.contains(link));
            group.broken = rule!(broken; EdgeKeptThoughBroken => BTreeSet::new());
            group.epoch = rule!(
                epoch;
                EpochOfOneGroup if group.ring == plan.ring && group.links == plan.links => group.epoch
            );
            // What was known of these paths is better than nothing, though it is out of date.
            let are_same = group.ring == plan.ring && group.found == plan.found;
            group.costs = costs.or(group.costs.filter(|_| are_same));
            group.ring = plan.ring;
            group.links = plan.links;
            group.found = plan.found;
            // All members have dropped what they began ahead on the ring before.
            group.void = group.reserved;
            rule!(group.begun = None; ReservationOutlivesRing => {});
        }
    }

    /// The current epoch if every ring and its sites are unchanged and all groups share it, otherwise the next one.
    fn epoch_for(&self, wiring: &Wiring) -> Epoch {
        let unchanged = |(id, plan): (&GroupId, &PlannedRing)| {
            self.groups.get(id).is_some_and(|group: &GroupRecord| {
                rule!(group.epoch == self.epoch; OlderEpochIsPresent => true)
                    && group.ring == plan.ring
                    && group.links == plan.links
                    && rule!(group.found == plan.found; FoundSitesUntold => true)
            })
        };
        if rule!(wiring.rings.iter().all(unchanged); EpochRaisedForNothing => false) {
            self.epoch
        } else {
            rule!(self.epoch.next(); EpochNotRaised => self.epoch)
        }
    }
}

/// The state to which a peer in this state returns if an attempt is given up.
fn stake_in(state: ConnectionState) -> Stake {
    match state {
        ConnectionState::VoteAcceptNewPeers => Stake::Update,
        ConnectionState::VoteSyncSharedState => Stake::Sync,
        ConnectionState::VoteOptimizeTopology => Stake::Vote,
        ConnectionState::VoteNoNewPeersEstablishP2p
        | ConnectionState::CollectiveCommunicationsRunning => Stake::Rewire,
        ConnectionState::VoteCompleteTopologyOptimization => Stake::Optimization,
        // From the others no ring is handed out.
        ConnectionState::Idle
        | ConnectionState::ConnectingToPeers
        | ConnectionState::ConnectingToPeersFailed
        | ConnectionState::WaitingForOtherPeers
        | ConnectionState::OptimizeTopology
        | ConnectionState::OptimizeTopologyFailed
        | ConnectionState::DistributeSharedState
        | ConnectionState::RequestSharedState
        | ConnectionState::VoteCompleteSharedStateSync => Stake::Admission,
    }
}
