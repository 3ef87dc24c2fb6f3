//! Links that do not come up, told by hand: a master alone, followed by the reference, and peers that say
//! whatever the story wants.

mod breaks;
mod desk;
mod directions;
mod reaching;

use std::collections::BTreeSet;

use pccl_core::id::PeerId;
use pccl_core::master::{MasterConfig, MasterInput};
use pccl_core::messages::ToMaster;
use pccl_core::paths::Measurement;
use pccl_core::states::ConnectionPhase;
use pccl_core::topology::Ring;

use desk::{Desk, to};

#[test]
fn a_measurement_towards_the_dead_leaves_nothing_behind() {
    let mut desk = Desk::with_accepted_peers(4);
    for peer in 1..=4 {
        desk.says(peer, ToMaster::OptimizeTopology);
    }
    desk.tell(MasterInput::Disconnected { peer: PeerId(4) });
    let before = desk.master.clone();

    let (round, to) = (desk.round, PeerId(4));
    let measured = ToMaster::Measured {
        round,
        to,
        measured: Measurement::default(),
    };
    desk.says(1, measured);

    assert_eq!(desk.master, before);
}

#[test]
fn the_pause_before_another_attempt_doubles_with_each_that_has_failed() {
    let mut desk = Desk::with_accepted_peers(2);
    desk.updates(1, desk.next_broken(1));
    desk.update([2]);

    while desk.present().len() == 2 {
        desk.connect(|_, _| false);
        desk.pause_ends();
    }

    let first = MasterConfig::default().wiring_retry;
    let doubled = (0..).map(|attempt| first * (1 << attempt));
    assert!(desk.pauses.len() > 2, "{:?}", desk.pauses);
    assert!(
        desk.pauses
            .iter()
            .copied()
            .eq(doubled.take(desk.pauses.len()))
    );
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
    desk.updates(4, desk.next_broken(4));
    desk.update([1, 2, 3]);

    let mut attempts = 0;
    while desk.present().len() == 4 {
        attempts += 1;
        assert!(attempts < 20);
        if let Some(waits) = desk.next.get(&4).copied() {
            desk.up(4);
            let honest = (1..=3).filter(|peer| *peer != waits);
            desk.all_up(honest);
            let round = desk.round;
            if let Some(next) = desk.next.get(&waits).copied() {
                let link = to(next);
                desk.says(waits, ToMaster::LinkUp { round, link });
            }
        }
        desk.wiring_is_overdue();
    }

    assert_eq!(desk.present(), [1, 2, 3]);
}

/// The ring from 2 to 1 is faster than the one that stands.
fn better(from: u64, to: u64) -> u64 {
    let is_better = [(2, 1), (1, 3), (3, 4), (4, 2)].contains(&(from, to));
    if is_better { 100_000_000 } else { 10_000_000 }
}

/// What cannot be connected is the other direction of a pair whose link stands.
fn a_better_ring_fails() -> Desk {
    let mut desk = Desk::with_accepted_peers(4);
    optimizes_in_vain(&mut desk);
    desk
}

fn optimizes_in_vain(desk: &mut Desk) {
    for peer in 1..=4 {
        desk.says(peer, ToMaster::OptimizeTopology);
    }
    desk.measures(better);
    desk.solves([2, 1, 3, 4]);
    desk.measures(better);
    // Whichever end opens the lanes.
    desk.connect(|one, other| ![(1, 2), (2, 1)].contains(&(one, other)));
    desk.pause_ends();
}

#[test]
fn a_better_ring_that_cannot_be_connected_does_not_cost_the_standing_one() {
    let before = Desk::with_accepted_peers(4).ring();
    let mut desk = a_better_ring_fails();

    desk.update(1..=4);

    let connect_again = (1..=4).filter(|peer| desk.connects(*peer));
    assert_eq!(connect_again.count(), 0);
    assert_eq!(desk.ring(), before);
}

#[test]
fn a_direction_that_neither_end_could_connect_is_neither_measured_nor_on_a_better_ring() {
    let mut desk = a_better_ring_fails();
    let before = desk.ring();
    desk.update(1..=4);
    // The other end opens the lanes this time.
    optimizes_in_vain(&mut desk);
    desk.update(1..=4);

    for peer in 1..=4 {
        desk.says(peer, ToMaster::OptimizeTopology);
    }
    assert!(!desk.to_measure().contains(&(2, 1)));
    desk.measures(better);
    assert!(!desk.problem.contains_key(&(PeerId(2), PeerId(1))));
    // What was found while the pair was not known to fail.
    desk.solves([2, 1, 3, 4]);
    desk.measures(better);

    assert_eq!(desk.ring(), before);
    assert!((1..=4).all(|peer| !desk.connects(peer)));
}

/// All members of a run say that both of their links are broken.
fn all_edges_broken(size: u64) -> Desk {
    let mut desk = Desk::with_accepted_peers(size);
    let broken: Vec<_> = (1..=size)
        .map(|peer| (peer, desk.both_broken(peer)))
        .collect();
    for (peer, broken) in broken {
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
    type Origin = fn(u64) -> bool;
    let cases: [(&str, Origin); 3] = [
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
        assert!(attempts <= 5, "{name}: {attempts} attempts");
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

/// They can open lanes to others, and nobody can to them. Who stands between others is a member all the
/// same; the rest is refused.
#[test]
fn fifty_unreachable_newcomers_hold_up_an_update_for_two_attempts() {
    for accepted in [1, 2, 10] {
        let mut desk = Desk::with_accepted_peers(accepted);
        for _ in 0..50 {
            desk.registers();
        }
        let in_the_run = |desk: &Desk| desk.ring().0.iter().map(|peer| peer.0).collect::<Vec<_>>();

        for _ in 0..12 {
            desk.update(in_the_run(&desk));
            let attempts = desk.connect_all(|_, to| to <= accepted);
            assert!(attempts <= 3, "{attempts} attempts, {accepted} accepted");
        }

        let members: BTreeSet<u64> = in_the_run(&desk).into_iter().collect();
        assert!((1..=accepted).all(|peer| members.contains(&peer)));
        let newcomers = members.iter().filter(|peer| **peer > accepted);
        assert!(newcomers.count() as u64 <= accepted);
        let told: BTreeSet<u64> = desk.refused.union(&members).copied().collect();
        assert_eq!(told.len() as u64, accepted + 50, "all were told");
    }
}

/// The first peer of the run can open lanes, and nobody can to it.
#[test]
fn an_accepted_peer_that_nobody_can_reach_opens_lanes_itself_and_newcomers_come_in() {
    let mut desk = Desk::with_accepted_peers(1);
    for newcomer in 2..=5 {
        desk.registers();
        desk.update(1..newcomer);
        let attempts = desk.connect_all(|_, to| to != 1);
        assert!(attempts <= 2, "{attempts} attempts for {newcomer}");
    }

    assert_eq!(desk.present(), [1, 2, 3, 4, 5]);
    assert_eq!(desk.ring().0.len(), 5);
}

/// As before, and it cannot open lanes either: which of the two it is, the second newcomer tells.
#[test]
fn an_accepted_peer_that_reaches_nobody_goes_for_the_second_newcomer() {
    let mut desk = Desk::with_accepted_peers(1);
    let works = |from, to| from != 1 && to != 1;
    for _ in 0..2 {
        desk.registers();
        desk.update([1]);
        desk.connect_all(works);
    }

    assert_eq!(desk.present(), [3]);
}

/// Nobody reaches peers 3 and 4, which reach the others; the two cannot be neighbours.
#[test]
fn newcomers_that_nobody_reaches_come_in_between_those_that_they_reach() {
    let mut desk = Desk::with_accepted_peers(2);
    desk.registers();
    desk.registers();

    desk.update([1, 2]);
    let attempts = desk.connect_all(|_, to| to <= 2);

    assert_eq!(desk.ring().0.len(), 4);
    assert!(attempts <= 2, "{attempts} attempts");
}

/// Its port was closed later; the link to it stands. Ten newcomers find other places.
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

/// Members of several sites alternate on the ring, so that no ring is left before those of one site were
/// ever side by side. One site stays whole.
#[test]
fn of_several_sites_that_are_cut_off_from_each_other_one_goes_on_whole() {
    for (sites, of_each) in [(3, 2), (3, 3), (3, 4), (3, 10), (4, 10), (5, 10), (6, 10)] {
        let mut desk = all_edges_broken(sites * of_each);

        let attempts = desk.connect_all(|from, to| from % sites == to % sites);

        let present = desk.present();
        let expected: Vec<u64> = (0..of_each).map(|at| sites * at + present[0]).collect();
        assert_eq!(present, expected, "{sites} sites, {of_each} of each");
        assert!(
            attempts <= 20,
            "{attempts} attempts, {sites} sites, {of_each} of each"
        );
    }
}
