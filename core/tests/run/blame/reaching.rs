//! Peers that only some can reach, or that reach others in one direction only.

use std::collections::BTreeSet;

use pccl_core::id::PeerId;
use pccl_core::master::{MasterConfig, MasterInput};
use pccl_core::topology::LaneFailure;

use super::all_edges_broken;
use super::desk::Desk;

/// Peer 1 reaches 3, which reaches 2, which reaches 1. Their ring goes the other way round, where every link
/// fails and so nobody is the only one that cannot be reached.
#[test]
fn of_three_that_reach_each_other_one_way_round_only_nobody_goes() {
    let mut desk = all_edges_broken(3);

    let attempts = desk.connect_all(|from, to| [(1, 3), (3, 2), (2, 1)].contains(&(from, to)));

    assert_eq!(desk.present(), [1, 2, 3]);
    assert!(attempts <= 3, "{attempts} attempts");
}

/// Each of them stands between two that it reaches.
#[test]
fn as_many_newcomers_that_nobody_reaches_come_in_as_there_are_places_between_others() {
    for accepted in 2..=8 {
        let mut desk = Desk::with_accepted_peers(accepted);
        for _ in 0..accepted {
            desk.registers();
        }

        desk.update(1..=accepted);
        let attempts = desk.connect_all(|_, to| to <= accepted);

        assert_eq!(desk.ring().0.len() as u64, 2 * accepted);
        assert!(attempts <= 3, "{attempts} attempts, {accepted} accepted");
    }
}

/// Nobody answers at its address, or another process does. It can open lanes to all others.
#[test]
fn a_peer_opens_its_lanes_itself_whatever_keeps_those_of_others_from_it() {
    let unanswered = [
        LaneFailure::Refused,
        LaneFailure::TimedOut,
        LaneFailure::Unreachable,
        LaneFailure::Untrusted,
    ];
    for failure in unanswered {
        let mut desk = Desk::with_accepted_peers(1);
        desk.failure = failure;
        for newcomer in 2..=5 {
            desk.registers();
            desk.update(1..newcomer);
            let attempts = desk.connect_all(|_, to| to != 1);
            assert!(attempts <= 2, "{failure:?}: {attempts} attempts");
        }

        assert_eq!(desk.present(), [1, 2, 3, 4, 5], "{failure:?}");
    }
}

/// Nobody reaches peer 5, and there is no ring with it: it is refused, and the ring of the others stands.
#[test]
fn a_newcomer_for_whom_there_is_no_place_costs_nobody_else_its_place() {
    let reaches = |from: u64, to: u64| {
        let pairs = [(1, 3), (2, 4), (3, 1), (4, 2), (4, 3), (5, 1), (5, 4)];
        pairs.contains(&(from, to))
    };
    let mut desk = Desk::with_accepted_peers(3);
    for _ in [4, 5] {
        desk.registers();
        for _ in 0..8 {
            let members: Vec<u64> = desk.ring().0.iter().map(|peer| peer.0).collect();
            desk.update(members);
            desk.connect_all(reaches);
        }
    }

    let ring: BTreeSet<PeerId> = desk.ring().0.into_iter().collect();
    assert_eq!(ring, [1, 2, 3, 4].map(PeerId).into());
}

/// Nobody reaches peers 1 and 3. Peer 3 is left out when the third attempt shows that peer 1 does not reach
/// peer 4 either.
#[test]
fn no_member_of_a_ring_that_stands_goes_for_pairs_with_newcomers() {
    let mut desk = Desk::of(
        2,
        MasterConfig {
            wiring_attempts_max: 2,
            ..MasterConfig::rings_only()
        },
    );
    let before = desk.ring();
    desk.registers();
    desk.registers();

    desk.update([1, 2]);
    for _ in 0..2 {
        desk.connect(|_, to| to == 2 || to == 4);
        desk.pause_ends();
    }
    desk.connect_all(|from, to| to == 2 || (from, to) == (2, 4));

    assert_eq!(desk.ring(), before);
    assert!(desk.present().starts_with(&[1, 2]), "{:?}", desk.present());
}

/// Nobody reaches these newcomers, and they reach nobody.
fn newcomers_in_vain(desk: &mut Desk, accepted: u64, count: u64) {
    for _ in 0..count {
        desk.registers();
        let newcomer = desk.present().last().copied().unwrap_or_default();
        desk.update(1..=accepted);
        desk.connect_all(|from, to| from != newcomer && to != newcomer);
        assert!(desk.refused.contains(&newcomer));
    }
}

/// Those that are left say that all their links are broken.
fn all_edges_break(desk: &mut Desk) {
    let present = desk.present().into_iter();
    let broken: Vec<_> = present.map(|peer| (peer, desk.both_broken(peer))).collect();
    for (peer, both) in broken {
        desk.updates(peer, both);
    }
}

/// Later one of the accepted peers is cut off from two of the other three.
#[test]
fn newcomers_that_come_in_vain_cost_none_of_those_its_membership_that_they_did_not_reach() {
    for sick in 1..=4 {
        for (newcomers, still_reaches) in [(1, 0), (10, 0), (10, 1), (10, 2)] {
            let mut desk = Desk::with_accepted_peers(4);
            newcomers_in_vain(&mut desk, 4, newcomers);
            let others: Vec<u64> = (1..=4).filter(|peer| *peer != sick).collect();
            let reached = others[still_reaches];

            all_edges_break(&mut desk);
            desk.connect_all(|from, to| {
                let concerns_sick = from == sick || to == sick;
                !concerns_sick || from == reached || to == reached
            });

            assert_eq!(desk.present(), others, "{sick} reaches {reached} alone");
        }
    }
}

/// Peer 4 opens lanes to peer 5 in vain, and to peer 6. Later peers 2 and 4 cannot be connected, and peer 2 opens
/// none: one of them has to go.
#[test]
fn what_speaks_against_a_peer_is_forgotten_when_it_opens_lanes_to_another() {
    let mut desk = Desk::with_accepted_peers(4);
    newcomers_in_vain(&mut desk, 4, 1);
    desk.registers();
    desk.update(1..=4);
    desk.connect_all(|_, _| true);
    for peer in [6, 1].map(PeerId) {
        desk.tell(MasterInput::Disconnected { peer });
    }

    all_edges_break(&mut desk);
    desk.connect_all(|from, to| from != 2 && (from, to) != (4, 2));

    // Peer 2 did not reach peer 5 either, and has reached nobody since.
    assert_eq!(desk.present(), [3, 4]);
}
