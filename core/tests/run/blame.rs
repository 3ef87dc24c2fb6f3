//! Edges that do not come up, told by hand: a master alone, followed by the reference, and peers that say
//! whatever the story wants.

use std::collections::{BTreeMap, BTreeSet};

use pccl_core::id::{ConnId, GroupId, PeerId, ProtocolVersion, Round};
use pccl_core::master::{Master, MasterConfig, MasterInput, MasterOutput, MasterTimer};
use pccl_core::messages::{Hello, ToMaster, ToPeer};
use pccl_core::states::ConnectionState;
use pccl_core::topology::{BrokenEdges, LaneFailure, Ring};

use crate::reference::Shadow;

#[derive(Clone)]
struct Desk {
    master: Master,
    shadow: Shadow,
    /// The newest round of orders.
    round: Round,
    /// Whom each is to send to, by the last order that named one.
    next: BTreeMap<u64, u64>,
}

impl Desk {
    /// A run whose peers 1 to n are accepted, on one ring in this order.
    fn with_accepted_peers(n: u64) -> Self {
        let mut desk = Self {
            master: Master::new(MasterConfig::default()),
            shadow: Shadow::new(MasterConfig::default()),
            round: Round(0),
            next: BTreeMap::new(),
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
            ToPeer::EstablishRing { round, next, .. } => {
                self.round = *round;
                let next = next.map(|order| (peer.0, order.with.0));
                self.next.extend(next);
            }
            ToPeer::Probe { round, .. } => self.round = *round,
            _ => {}
        }
    }

    fn next_of(&self, peer: u64) -> Option<u64> {
        self.next.get(&peer).copied()
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
            let broken = BrokenEdges::NONE;
            self.says(peer, ToMaster::UpdateTopology { broken });
        }
    }

    fn up(&mut self, peer: u64) {
        let round = self.round;
        self.says(peer, ToMaster::EdgesEstablished { round });
    }

    /// All that have something to connect say that it is.
    fn all_up(&mut self, peers: impl IntoIterator<Item = u64>) {
        for peer in peers {
            if self.connects(peer) {
                self.up(peer);
            }
        }
    }

    fn fails(&mut self, peer: u64, with: u64, failure: LaneFailure) {
        let (round, with) = (self.round, PeerId(with));
        self.says(
            peer,
            ToMaster::EdgeFailed {
                round,
                with,
                failure,
            },
        );
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

    desk.up(3);
    desk.up(2);
    desk.wiring_is_overdue();

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

    desk.up(3);
    desk.wiring_is_overdue();

    assert!(desk.present().contains(&1));
    assert!(!desk.present().contains(&3));
}

/// Peer 4 does the same for as long as it is let: each time it is set apart from another one.
#[test]
fn an_accepted_peer_that_never_opens_lanes_is_the_one_that_goes_in_the_end() {
    let mut desk = Desk::with_accepted_peers(4);
    let broken = BrokenEdges {
        to_next: true,
        from_previous: false,
    };
    desk.says(4, ToMaster::UpdateTopology { broken });
    desk.update([1, 2, 3]);

    while desk.present().len() == 4 {
        desk.up(4);
        let waits = desk.next_of(4);
        let honest = (1..=3).filter(|peer| Some(*peer) != waits);
        desk.all_up(honest);
        desk.wiring_is_overdue();
        if desk.present().len() == 4 {
            desk.pause_ends();
        }
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
    desk.fails(2, 1, LaneFailure::TimedOut);
    desk.pause_ends();

    desk.update(1..=4);

    let connect_again = (1..=4).filter(|peer| desk.connects(*peer));
    assert_eq!(connect_again.count(), 0);
    assert_eq!(desk.ring(), before);
}

/// Five pairs, one after the other.
#[test]
fn five_pairs_that_fail_once_each_cost_nobody_its_membership() {
    let mut desk = Desk::with_accepted_peers(20);
    let broken = BrokenEdges {
        to_next: true,
        from_previous: true,
    };
    for peer in 1..=20 {
        desk.says(peer, ToMaster::UpdateTopology { broken });
    }
    let mut failed = BTreeSet::new();

    for _ in 0..5 {
        let is_new = |peer: &u64| !failed.contains(peer);
        let pair = desk
            .next
            .iter()
            .find(|(one, other)| is_new(one) && is_new(other));
        let (one, other) = pair.map(|(one, other)| (*one, *other)).unwrap();
        failed.extend([one, other]);
        desk.fails(one, other, LaneFailure::TimedOut);
        desk.pause_ends();
    }
    desk.all_up(1..=20);

    assert_eq!(desk.present().len(), 20);
    assert!(!desk.connects(1), "the ring stands");
}

/// Peer 5 fails with one after the other; the last edge to fail is one of others.
#[test]
fn who_failed_most_often_goes_and_not_who_failed_last() {
    let mut desk = Desk::with_accepted_peers(8);
    let broken = BrokenEdges {
        to_next: true,
        from_previous: true,
    };
    for peer in 1..=8 {
        desk.says(peer, ToMaster::UpdateTopology { broken });
    }

    for attempt in 1..=5 {
        let (one, other) = if attempt < 5 {
            (5, desk.next[&5])
        } else {
            let others = desk
                .next
                .iter()
                .find(|(one, other)| **one != 5 && **other != 5);
            others.map(|(one, other)| (*one, *other)).unwrap()
        };
        desk.fails(one, other, LaneFailure::TimedOut);
        if desk.present().len() == 8 {
            desk.pause_ends();
        }
    }

    assert_eq!(desk.present(), [1, 2, 3, 4, 6, 7, 8]);
}
