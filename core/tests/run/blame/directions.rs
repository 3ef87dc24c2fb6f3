//! Peers that cannot be reached, peers that cannot reach others, and pairs that cannot be connected, drawn at
//! random: nobody is lost if there is a ring.

use std::collections::BTreeSet;

use pccl_core::id::PeerId;
use pccl_core::master::MasterInput;
use pccl_core::states::ConnectionPhase;
use pccl_core::topology::BrokenLinks;

use super::desk::Desk;

/// A source of numbers (SplitMix64).
struct Draws(u64);

impl Draws {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end
    }
}

/// Which peers cannot open lanes to which.
#[derive(Debug, Default)]
struct Network {
    blocked: BTreeSet<(u64, u64)>,
}

impl Network {
    fn works(&self, dialler: u64, dialled: u64) -> bool {
        !self.blocked.contains(&(dialler, dialled))
    }

    fn connects(&self, one: u64, other: u64) -> bool {
        self.works(one, other) || self.works(other, one)
    }

    /// Nobody reaches it.
    fn hides(&mut self, peer: u64, of: u64) {
        let others = (1..=of).filter(|other| *other != peer);
        self.blocked.extend(others.map(|other| (other, peer)));
    }

    /// It reaches nobody.
    fn silences(&mut self, peer: u64, of: u64) {
        let others = (1..=of).filter(|other| *other != peer);
        self.blocked.extend(others.map(|other| (peer, other)));
    }

    fn parts(&mut self, one: u64, other: u64) {
        self.blocked.extend([(one, other), (other, one)]);
    }

    fn of_pairs(draws: &mut Draws, of: u64) -> Self {
        let mut network = Self::default();
        for _ in 0..draws.below(of) {
            let (one, other) = (1 + draws.below(of), 1 + draws.below(of));
            if one != other {
                network.parts(one, other);
            }
        }
        network
    }

    /// Pairs that cannot be connected, and perhaps a peer that cannot be reached, one that reaches nobody, or
    /// both.
    fn draw(seed: u64, of: u64) -> Self {
        let mut draws = Draws(seed);
        let mut network = Self::of_pairs(&mut draws, of);
        match draws.below(4) {
            0 => network.hides(1 + draws.below(of), of),
            1 => network.silences(1 + draws.below(of), of),
            2 => {
                network.hides(1 + draws.below(of), of);
                network.silences(1 + draws.below(of), of);
            }
            _ => {}
        }
        network
    }

    /// Whether these can stand on a ring.
    fn has_ring(&self, members: &[u64]) -> bool {
        match members {
            [] | [_] => true,
            [first, rest @ ..] => self.leads_back(*first, *first, rest),
        }
    }

    fn leads_back(&self, first: u64, here: u64, rest: &[u64]) -> bool {
        if rest.is_empty() {
            return self.connects(here, first);
        }
        (0..rest.len()).any(|at| {
            let mut rest = rest.to_vec();
            let next = rest.remove(at);
            self.connects(here, next) && self.leads_back(first, next, &rest)
        })
    }
}

fn accepted(desk: &Desk) -> Vec<u64> {
    let peers = desk.master.view().peers();
    let accepted = peers.filter(|(_, peer)| peer.phase() == ConnectionPhase::Accepted);
    accepted.map(|(peer, _)| peer.0).collect()
}

/// All of the present ring vote to update, and say that both of their links are broken if `all_break`.
fn update(desk: &mut Desk, all_break: bool) {
    let broken = |peer| match all_break {
        true => (peer, desk.both_broken(peer)),
        false => (peer, BrokenLinks::NONE),
    };
    let votes: Vec<_> = accepted(desk).into_iter().map(broken).collect();
    for (peer, broken) in votes {
        desk.updates(peer, broken);
    }
}

#[test]
fn accepted_peers_stay_if_there_is_a_ring_that_the_network_allows() {
    for size in 3..=7 {
        for seed in 0..400 {
            let network = Network::draw(seed, size);
            if !network.has_ring(&(1..=size).collect::<Vec<_>>()) {
                continue;
            }
            let mut desk = Desk::with_accepted_peers(size);
            update(&mut desk, true);

            let attempts = desk.connect_all(|from, to| network.works(from, to));

            let present = desk.present().len() as u64;
            assert_eq!(present, size, "of {size}, seed {seed}: {network:?}");
            assert!(attempts <= 12, "{attempts} attempts of {size}, seed {seed}");
        }
    }
}

/// Each of them can be connected with all members but one: who fails twice with everybody that it meets is
/// refused.
#[test]
fn newcomers_come_in_if_there_is_a_ring_with_them_that_the_network_allows() {
    for (members, newcomers) in [(2, 1), (3, 1), (4, 1), (3, 2), (5, 2), (4, 3)] {
        let size = members + newcomers;
        for seed in 0..300 {
            let network = Network::of_pairs(&mut Draws(seed), size);
            let works = |from: u64, to: u64| from.max(to) <= members || network.works(from, to);
            let mut standing = Network::default();
            let edges = network.blocked.iter().copied();
            standing.blocked = edges.filter(|(from, to)| !works(*from, *to)).collect();
            let has_places = |newcomer: u64| {
                let others = (1..=members).filter(|other| standing.connects(newcomer, *other));
                others.count() as u64 + 1 >= members
            };
            let all_have_places = (members + 1..=size).all(has_places);
            if !all_have_places || !standing.has_ring(&(1..=size).collect::<Vec<_>>()) {
                continue;
            }
            let mut desk = Desk::with_accepted_peers(members);
            for _ in 0..newcomers {
                desk.registers();
            }
            for _ in 0..6 {
                update(&mut desk, false);
                desk.connect_all(works);
            }

            let present = accepted(&desk).len() as u64;
            assert_eq!(
                present, size,
                "{members} + {newcomers}, seed {seed}: {standing:?}"
            );
        }
    }
}

/// Peer 4 can be reached and reaches nobody.
#[test]
fn a_newcomer_that_cannot_open_lanes_and_can_be_reached_comes_in() {
    let mut network = Network::default();
    network.silences(4, 4);
    let mut desk = Desk::with_accepted_peers(3);
    desk.registers();

    update(&mut desk, false);
    desk.connect_all(|from, to| network.works(from, to));

    assert_eq!(accepted(&desk), [1, 2, 3, 4]);
}

/// Three newcomers that reach nobody are refused. What they said of the others does not keep out the fourth,
/// that reaches others and cannot be reached.
#[test]
fn what_newcomers_say_that_reach_nobody_does_not_speak_against_those_they_missed() {
    let mut network = Network::default();
    for peer in 4..=6 {
        network.silences(peer, 7);
        network.hides(peer, 7);
    }
    network.hides(7, 7);
    let mut desk = Desk::with_accepted_peers(3);
    for newcomer in 4..=7 {
        desk.registers();
        let updates = if newcomer == 7 { 1 } else { 3 };
        for _ in 0..updates {
            update(&mut desk, false);
            let attempts = desk.connect_all(|from, to| network.works(from, to));
            assert!(attempts <= 3, "{attempts} attempts for {newcomer}");
        }
        assert_eq!(accepted(&desk).contains(&newcomer), newcomer == 7);
    }

    assert_eq!(accepted(&desk), [1, 2, 3, 7]);
}

/// No two of them can be connected; each can be connected to the others.
#[test]
fn of_newcomers_behind_one_router_as_many_come_in_as_can_be_kept_apart() {
    for (members, newcomers) in [(2, 2), (5, 5), (5, 10), (3, 20)] {
        let mut network = Network::default();
        for one in members + 1..=members + newcomers {
            for other in members + 1..one {
                network.parts(one, other);
            }
        }
        let mut desk = Desk::with_accepted_peers(members);
        for _ in 0..newcomers {
            desk.registers();
        }
        for _ in 0..6 {
            update(&mut desk, false);
            desk.connect_all(|from, to| network.works(from, to));
        }

        let present = accepted(&desk);
        assert!(
            (1..=members).all(|peer| present.contains(&peer)),
            "{present:?}"
        );
        let fit = members.min(newcomers);
        assert_eq!(
            present.len() as u64,
            members + fit,
            "{members} + {newcomers}"
        );
    }
}

/// A place becomes free when another one leaves.
#[test]
fn a_newcomer_that_was_refused_for_want_of_a_place_comes_in_when_there_is_one() {
    let mut network = Network::default();
    network.parts(2, 3);
    network.parts(3, 1);
    let mut desk = Desk::with_accepted_peers(2);
    desk.registers();
    update(&mut desk, false);
    desk.connect_all(|from, to| network.works(from, to));
    assert_eq!(accepted(&desk), [1, 2]);

    desk.tell(MasterInput::Disconnected { peer: PeerId(2) });
    desk.registers();
    update(&mut desk, false);
    desk.connect_all(|from, to| network.works(from, to));

    assert_eq!(accepted(&desk), [1, 4]);
}
