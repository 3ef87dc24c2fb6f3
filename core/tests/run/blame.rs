//! Edges that do not come up, told by hand: a master alone, followed by the reference, and peers that say
//! whatever the story wants.

use std::collections::{BTreeMap, BTreeSet};

use pccl_core::id::{ConnId, Epoch, GroupId, PeerId, ProtocolVersion, Round, Seq, Tag};
use pccl_core::master::{Master, MasterConfig, MasterInput, MasterOutput, MasterTimer};
use pccl_core::messages::{Hello, RingOutcome, ToMaster, ToPeer};
use pccl_core::states::{ConnectionPhase, ConnectionState};
use pccl_core::topology::{BrokenEdges, Edge, LaneFailure, Ring};

use crate::reference::Shadow;

#[derive(Clone)]
struct Desk {
    master: Master,
    shadow: Shadow,
    /// The newest round of orders.
    round: Round,
    /// Whom each is to send to, and to receive from, by the orders of that round.
    next: BTreeMap<u64, u64>,
    previous: BTreeMap<u64, u64>,
    refused: BTreeSet<u64>,
    /// Executions that were begun.
    runs: u64,
}

impl Desk {
    /// A run whose peers 1 to n are accepted, on one ring in this order.
    fn with_accepted_peers(n: u64) -> Self {
        let mut desk = Self {
            master: Master::new(MasterConfig::default()),
            shadow: Shadow::new(MasterConfig::default()),
            round: Round(0),
            next: BTreeMap::new(),
            previous: BTreeMap::new(),
            refused: BTreeSet::new(),
            runs: 0,
        };
        for peer in 1..=n {
            desk.registers();
            desk.update(1..peer);
            desk.all_up(1..=peer);
        }
        assert_eq!(desk.ring(), Ring((1..=n).map(PeerId).collect()));
        desk
    }

    fn tell(&mut self, input: MasterInput) {
        let mut out = Vec::new();
        self.master.handle(input.clone(), &mut out);
        self.shadow.follow(&input, &self.master, &out);
        for output in out {
            if let MasterOutput::Send { peer, message } = output {
                self.note(peer, &message);
            }
        }
    }

    fn note(&mut self, peer: PeerId, message: &ToPeer) {
        match message {
            ToPeer::EstablishRing {
                round,
                next,
                previous,
            } => {
                if *round != self.round {
                    self.next.clear();
                    self.previous.clear();
                }
                self.round = *round;
                self.next.extend(next.map(|order| (peer.0, order.with.0)));
                self.previous
                    .extend(previous.map(|order| (peer.0, order.with.0)));
            }
            ToPeer::Refused(_) => drop(self.refused.insert(peer.0)),
            ToPeer::Probe { round, .. } => self.round = *round,
            _ => {}
        }
    }

    fn says(&mut self, peer: u64, message: ToMaster) {
        let peer = PeerId(peer);
        self.tell(MasterInput::Message { peer, message });
    }

    /// The next peer says hello.
    fn registers(&mut self) {
        let hello = Hello {
            protocol: ProtocolVersion::CURRENT,
            group: GroupId(0),
            port: 48149,
            advertise: None,
            lanes: 1,
        };
        let (conn, from) = (ConnId(0), [192, 0, 2, 1].into());
        self.tell(MasterInput::Connected { conn, hello, from });
    }

    fn update(&mut self, peers: impl IntoIterator<Item = u64>) {
        for peer in peers {
            self.updates(peer, BrokenEdges::NONE);
        }
    }

    fn epoch(&self) -> Epoch {
        let view = self.master.view();
        view.epoch(GroupId(0)).expect("somebody is accepted")
    }

    fn updates(&mut self, peer: u64, broken: BrokenEdges) {
        let epoch = self.epoch();
        self.says(peer, ToMaster::UpdateTopology { epoch, broken });
    }

    /// Says that all that it has to connect is up.
    fn up(&mut self, peer: u64) {
        let ends = [
            (self.next.contains_key(&peer), Edge::ToNext),
            (self.previous.contains_key(&peer), Edge::FromPrevious),
        ];
        let round = self.round;
        for (_, edge) in ends.into_iter().filter(|(is_ordered, _)| *is_ordered) {
            self.says(peer, ToMaster::EdgeUp { round, edge });
        }
    }

    /// Connects what can be, where the sender opens lanes, until every edge is up or has failed.
    fn connect(&mut self, works: impl Fn(u64, u64) -> bool) {
        let round = self.round;
        for (from, to) in self.next.clone() {
            if works(from, to) {
                let edge = Edge::ToNext;
                self.says(from, ToMaster::EdgeUp { round, edge });
                let edge = Edge::FromPrevious;
                self.says(to, ToMaster::EdgeUp { round, edge });
            } else {
                self.fails(from, LaneFailure::TimedOut);
            }
        }
    }

    /// Attempts follow each other until a ring stands. Returns how many there were.
    fn connect_all(&mut self, works: impl Fn(u64, u64) -> bool) -> usize {
        for attempts in 1..200 {
            self.connect(&works);
            let pause = MasterTimer::RetryWiring(self.round);
            if !self.master.view().timers().any(|timer| timer == pause) {
                return attempts;
            }
            self.pause_ends();
        }
        panic!("no ring stands");
    }

    /// All that have something to connect say that it is.
    fn all_up(&mut self, peers: impl IntoIterator<Item = u64>) {
        for peer in peers {
            if self.connects(peer) {
                self.up(peer);
            }
        }
    }

    /// The edge on which it is to send does not come up.
    fn fails(&mut self, peer: u64, failure: LaneFailure) {
        let (round, edge) = (self.round, Edge::ToNext);
        let failed = ToMaster::EdgeFailed {
            round,
            edge,
            failure,
        };
        self.says(peer, failed);
    }

    /// The time for connecting is over.
    fn wiring_is_overdue(&mut self) {
        self.tell(MasterInput::TimerFired(MasterTimer::Wiring(self.round)));
    }

    fn pause_ends(&mut self) {
        self.tell(MasterInput::TimerFired(MasterTimer::RetryWiring(
            self.round,
        )));
    }

    fn connects(&self, peer: u64) -> bool {
        let peer = self.master.view().peer(PeerId(peer));
        peer.is_some_and(|peer| peer.state() == ConnectionState::ConnectingToPeers)
    }

    fn ring(&self) -> Ring {
        let ring = self.master.view().ring(GroupId(0));
        ring.expect("somebody is accepted").clone()
    }

    /// Who is connected, registered or accepted.
    fn present(&self) -> Vec<u64> {
        let peers = self.master.view().peers();
        peers.map(|(peer, _)| peer.0).collect()
    }
}

#[test]
fn a_measurement_towards_the_dead_leaves_nothing_behind() {
    let mut desk = Desk::with_accepted_peers(4);
    for peer in 1..=4 {
        desk.says(peer, ToMaster::OptimizeTopology);
    }
    desk.tell(MasterInput::Disconnected { peer: PeerId(4) });
    let before = desk.master.clone();

    let (round, to, kbit_per_s) = (desk.round, PeerId(4), 1);
    let measured = ToMaster::Bandwidth {
        round,
        to,
        kbit_per_s,
    };
    desk.says(1, measured);

    assert_eq!(desk.master, before);
}

/// Peer 3 answers where it is dialled, dials nobody, and says that all is well: peer 1 waits for it.
#[test]
fn who_says_that_lanes_are_up_that_it_never_opened_pays_and_not_who_waited_for_them() {
    let mut desk = Desk::with_accepted_peers(2);
    desk.registers();
    desk.update([1, 2]);

    while desk.present().contains(&3) {
        let waits = desk.next[&3];
        desk.up(3);
        desk.all_up((1..=2).filter(|peer| *peer != waits));
        desk.wiring_is_overdue();
    }

    assert_eq!(desk.present(), [1, 2]);
    assert_eq!(desk.ring(), Ring(vec![PeerId(1), PeerId(2)]));
}

/// Peer 3 as before; and peer 2, that peer 1 has dialled, says nothing at all.
#[test]
fn two_newcomers_together_do_not_cost_an_accepted_peer_its_membership_either() {
    let mut desk = Desk::with_accepted_peers(1);
    desk.registers();
    desk.registers();
    desk.update([1]);

    while desk.connects(1) {
        desk.up(3);
        desk.wiring_is_overdue();
    }

    assert!(desk.present().contains(&1));
}

/// Peer 4 does the same for as long as it is let: each time it is set apart from another one.
#[test]
fn an_accepted_peer_that_never_opens_lanes_is_the_one_that_goes_in_the_end() {
    let mut desk = Desk::with_accepted_peers(4);
    let broken = BrokenEdges {
        to_next: true,
        from_previous: false,
    };
    desk.updates(4, broken);
    desk.update([1, 2, 3]);

    let mut attempts = 0;
    while desk.present().len() == 4 {
        attempts += 1;
        assert!(attempts < 20);
        if let Some(waits) = desk.next.get(&4).copied() {
            desk.up(4);
            let honest = (1..=3).filter(|peer| *peer != waits);
            desk.all_up(honest);
            let edge = Edge::ToNext;
            let round = desk.round;
            if desk.next.contains_key(&waits) {
                desk.says(waits, ToMaster::EdgeUp { round, edge });
            }
        }
        desk.wiring_is_overdue();
    }

    assert_eq!(desk.present(), [1, 2, 3]);
}

/// What could not be connected was the other direction of a pair whose edge stands.
#[test]
fn a_better_ring_that_cannot_be_connected_does_not_cost_the_standing_one() {
    let mut desk = Desk::with_accepted_peers(4);
    let before = desk.ring();
    for peer in 1..=4 {
        desk.says(peer, ToMaster::OptimizeTopology);
    }
    let (round, group) = (desk.round, GroupId(0));
    for peer in 1..=4 {
        desk.says(peer, ToMaster::ProbesDone { round, ok: true });
    }
    let ring = Some(Ring([2, 1, 3, 4].map(PeerId).to_vec()));
    desk.tell(MasterInput::TourSolved { round, group, ring });
    desk.connect(|from, to| (from, to) != (2, 1));
    desk.pause_ends();

    desk.update(1..=4);

    let connect_again = (1..=4).filter(|peer| desk.connects(*peer));
    assert_eq!(connect_again.count(), 0);
    assert_eq!(desk.ring(), before);
}

/// All members of a run say that both of their edges are broken.
fn all_edges_broken(size: u64) -> Desk {
    let mut desk = Desk::with_accepted_peers(size);
    let broken = BrokenEdges {
        to_next: true,
        from_previous: true,
    };
    for peer in 1..=size {
        desk.updates(peer, broken);
    }
    desk
}

/// A fifth of all pairs, by the seed.
fn is_blocked(seed: u64, one: u64, other: u64) -> bool {
    let (low, high) = (one.min(other), one.max(other));
    let mixed = (seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (low << 32 | high))
        .wrapping_mul(0xD6E8_FEB8_6659_FD93);
    (mixed >> 40).is_multiple_of(5)
}

/// Whether each peer has two neighbours left: of so many it is enough.
fn a_ring_exists(seed: u64, size: u64) -> bool {
    (1..=size).all(|one| {
        let others = (1..=size).filter(|other| *other != one && !is_blocked(seed, one, *other));
        others.count() > 1
    })
}

#[test]
fn an_outage_of_a_fifth_of_all_pairs_costs_nobody_its_membership() {
    for (size, seed) in [(10, 30), (30, 20), (100, 6)] {
        for seed in 0..seed {
            let mut desk = all_edges_broken(size);

            let attempts = desk.connect_all(|from, to| !is_blocked(seed, from, to));

            if desk.present().len() as u64 != size && !a_ring_exists(seed, size) {
                continue;
            }
            assert_eq!(desk.present().len() as u64, size, "of {size}, seed {seed}");
            assert!(attempts <= 20, "{attempts} attempts of {size}, seed {seed}");
        }
    }
}

/// Nothing connects the two sites any more; their members stand on the ring as the case says.
#[test]
fn of_two_sites_that_are_cut_off_from_each_other_the_larger_one_goes_on_whole() {
    type Site = fn(u64) -> bool;
    let cases: [(&str, Site); 3] = [
        ("one after the other", |peer| peer <= 51),
        ("alternating", |peer| peer % 2 == 0 || peer == 1),
        ("mixed", |peer| (peer * 7919) % 101 % 2 == 0),
    ];
    for (name, in_first) in cases {
        let mut desk = all_edges_broken(100);
        let first: Vec<u64> = (1..=100).filter(|peer| in_first(*peer)).collect();
        let second: Vec<u64> = (1..=100).filter(|peer| !in_first(*peer)).collect();
        let larger = match first.len() > second.len() {
            true => first,
            false => second,
        };

        let attempts = desk.connect_all(|from, to| in_first(from) == in_first(to));

        assert_eq!(desk.present(), larger, "{name}");
        // The last one meets no time-out.
        assert!(attempts <= 6, "{name}: {attempts} attempts");
    }
}

#[test]
fn of_accepted_peers_one_that_is_cut_off_goes_and_no_other() {
    for size in [3, 4, 8, 30] {
        for sick in [1, 2, size] {
            let mut desk = all_edges_broken(size);

            let attempts = desk.connect_all(|from, to| from != sick && to != sick);

            let others: Vec<u64> = (1..=size).filter(|peer| *peer != sick).collect();
            assert_eq!(desk.present(), others, "{sick} of {size}");
            assert!(attempts <= 6, "{attempts} attempts, {sick} of {size}");
        }
    }
}

/// They can open lanes to others, and nobody can to them.
#[test]
fn fifty_unreachable_newcomers_hold_up_an_update_for_two_attempts() {
    for accepted in [1, 2, 10] {
        let mut desk = Desk::with_accepted_peers(accepted);
        for _ in 0..50 {
            desk.registers();
        }
        let present: Vec<u64> = (1..=accepted).collect();
        let in_the_run = |desk: &Desk| desk.ring().0.iter().map(|peer| peer.0).collect::<Vec<_>>();

        desk.update(1..=accepted);
        let first = desk.connect_all(|_, to| to <= accepted);
        assert_eq!(in_the_run(&desk), present);
        desk.update(1..=accepted);
        let second = desk.connect_all(|_, to| to <= accepted);

        assert!(first <= 3 && second <= 2, "{first} and {second} attempts");
        assert_eq!(in_the_run(&desk), present);
        assert_eq!(desk.refused.len(), 50, "all were told");
    }
}

/// The first peer of the run can open lanes, and nobody can to it.
#[test]
fn an_accepted_peer_that_nobody_can_reach_learns_it_from_the_second_newcomer() {
    let mut desk = Desk::with_accepted_peers(1);
    let works = |_, to| to != 1;
    desk.registers();
    desk.update([1]);
    desk.connect_all(works);
    assert_eq!(desk.present(), [1], "it may be the newcomer's fault");

    desk.registers();
    desk.update([1]);
    desk.connect_all(works);

    assert_eq!(desk.present(), [3]);
}

/// Its port was closed later; the edge to it stands. Ten newcomers find other places.
#[test]
fn newcomers_find_places_beside_an_accepted_peer_that_cannot_be_reached_any_more() {
    for sick in 1..=4 {
        let mut desk = Desk::with_accepted_peers(4);
        for _ in 0..10 {
            desk.registers();
        }

        desk.update(1..=4);
        desk.connect_all(|_, to| to != sick);

        assert_eq!(desk.ring().0.len(), 14, "sick is {sick}");
    }
}

#[test]
fn two_newcomers_behind_one_router_both_come_in_where_a_ring_keeps_them_apart() {
    for accepted in 1..=4 {
        let mut desk = Desk::with_accepted_peers(accepted);
        desk.registers();
        desk.registers();
        let (one, other) = (accepted + 1, accepted + 2);
        let works = |from, to| (from, to) != (one, other) && (from, to) != (other, one);

        for _ in 0..2 {
            desk.update(1..=accepted);
            desk.connect_all(works);
            let newcomers = [one, other].into_iter();
            let idle = |peer: &u64| {
                let peer = desk.master.view().peer(PeerId(*peer));
                peer.is_some_and(|peer| peer.phase() == ConnectionPhase::Accepted)
            };
            let admitted: Vec<u64> = newcomers.filter(idle).collect();
            desk.update(admitted);
        }

        let expected = if accepted > 1 { 2 } else { 1 };
        assert_eq!(desk.ring().0.len() as u64, accepted + expected);
    }
}

/// The reduce of a group of this size is aborted, as peer 2 has lost an edge.
fn reduce_breaks(desk: &mut Desk, size: u64, says: impl Fn(&Desk) -> Option<(u64, BrokenEdges)>) {
    let (tag, broken) = (Tag(1), BrokenEdges::NONE);
    let present = desk.present();
    for peer in 1..=size {
        if present.contains(&peer) {
            let spec = crate::harness::ring_spec();
            let epoch = desk.epoch();
            let vote = ToMaster::InitiateCollective {
                tag,
                spec,
                epoch,
                broken,
            };
            desk.says(peer, vote);
        }
    }
    if present.iter().any(|peer| desk.connects(*peer)) {
        desk.connect_all(|_, _| true);
    }
    desk.runs += 1;
    let seq = Seq(desk.runs);
    let complaint = says(desk);
    if let Some((peer, broken)) = complaint {
        let outcome = RingOutcome::LaneLost;
        desk.says(
            peer,
            ToMaster::CompleteCollective {
                seq,
                outcome,
                broken,
            },
        );
        return;
    }
    for peer in present {
        let outcome = RingOutcome::Done;
        desk.says(
            peer,
            ToMaster::CompleteCollective {
                seq,
                outcome,
                broken,
            },
        );
    }
}

/// The lanes from peer 2 to peer 3 come up, and carry nothing.
#[test]
fn an_edge_that_carries_nothing_is_routed_around() {
    for size in [4, 8, 30] {
        let mut desk = Desk::with_accepted_peers(size);
        let carries_nothing = |desk: &Desk| {
            let edge = BrokenEdges {
                to_next: true,
                from_previous: false,
            };
            let next = desk.ring().next_of(PeerId(2));
            (next == Some(PeerId(3))).then_some((2, edge))
        };

        let mut aborts = 0;
        while carries_nothing(&desk).is_some() {
            reduce_breaks(&mut desk, size, carries_nothing);
            aborts += 1;
            if aborts == 2 {
                reduce_breaks(&mut desk, size, carries_nothing);
            }
            assert!(aborts < 4);
        }

        assert_eq!(desk.present().len() as u64, size, "nobody goes");
    }
}

/// Peer 2 says of each reduce that it has lost a lane, and does not say which.
#[test]
fn who_loses_lanes_each_time_is_the_one_that_goes() {
    for size in [3, 4, 8] {
        let mut desk = Desk::with_accepted_peers(size);

        let mut aborts = 0;
        while desk.present().contains(&2) {
            reduce_breaks(&mut desk, size, |_| Some((2, BrokenEdges::NONE)));
            aborts += 1;
            assert!(aborts < 40, "of {size}");
        }

        assert_eq!(desk.present().len() as u64, size - 1, "after {aborts}");
        reduce_breaks(&mut desk, size, |_| None);
    }
}

/// An edge breaks now and then, and works in between.
#[test]
fn an_edge_that_breaks_now_and_then_stays_on_the_ring() {
    let mut desk = Desk::with_accepted_peers(4);
    let before = desk.ring();
    let edge = BrokenEdges {
        to_next: true,
        from_previous: false,
    };

    for _ in 0..10 {
        reduce_breaks(&mut desk, 4, |_| Some((2, edge)));
        reduce_breaks(&mut desk, 4, |_| None);
    }

    assert_eq!(desk.ring(), before);
    assert_eq!(desk.present(), [1, 2, 3, 4]);
}
