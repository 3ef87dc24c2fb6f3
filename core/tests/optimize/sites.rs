//! Sites that nobody names: they are found by an optimization, and told to all with the ring.

use pccl_core::id::{Epoch, PeerId};
use pccl_core::master::{MasterConfig, MasterTimer};
use pccl_core::paths::Measurement;

use crate::world::{GROUP, World, fast};

/// Peers 1 to n, none of which names its site.
fn unnamed(n: u64) -> World {
    let mut world = World::empty(MasterConfig::rings_only());
    world.names = |_| "";
    world.with(n)
}

/// The same, between whom two sites were found: that of the first two, and that of the others.
fn with_sites(n: u64) -> World {
    let mut world = unnamed(n);
    world.vote();
    world.goes_on(two_and_the_rest);
    world
}

/// An edge inside a site or between two. Rings differ in their latencies alone.
fn edge(is_inside: bool) -> Option<Measurement> {
    let round_trip_us = if is_inside { 300 } else { 40_000 };
    fast(10_000_000_000).map(|edge| Measurement {
        round_trip_us,
        ..edge
    })
}

fn two_and_the_rest(from: u64, to: u64, _: bool) -> Option<Measurement> {
    edge((from <= 2) == (to <= 2))
}

/// The first three and the others.
fn three_and_the_rest(from: u64, to: u64, _: bool) -> Option<Measurement> {
    edge((from <= 3) == (to <= 3))
}

fn epoch(world: &World) -> Epoch {
    world.master.view().epoch(GROUP).unwrap()
}

fn age(world: &mut World) {
    world.fires(MasterTimer::MeasurementsAge);
    world.fires(MasterTimer::MeasurementsAge);
}

#[test]
fn an_optimization_finds_the_sites_that_nobody_names_and_tells_all_members_the_same() {
    let mut world = unnamed(4);
    assert_eq!(world.sites(), ["", "", "", ""]);
    let before = epoch(&world);

    world.vote();
    world.goes_on(two_and_the_rest);

    // The ring is as it was. With the sites there is another epoch all the same.
    assert_eq!(world.ring(), [1, 2, 3, 4]);
    assert_eq!(world.sites(), ["~1", "~1", "~3", "~3"]);
    assert!(epoch(&world) > before);
}

#[test]
fn the_sites_are_told_with_a_better_ring_in_its_order() {
    let alternating = |from: u64, to: u64, _: bool| edge(from % 2 == to % 2);
    let mut world = unnamed(6);

    world.vote();
    world.goes_on(alternating);

    let of = |peer: &u64| if peer % 2 == 1 { "~1" } else { "~2" };
    let expected: Vec<&str> = world.ring().iter().map(of).collect();
    assert_eq!(world.sites(), expected);
    // It enters and leaves each site once.
    let behind = expected.iter().cycle().skip(1);
    assert_eq!(
        expected.iter().zip(behind).filter(|(a, b)| a != b).count(),
        2
    );
}

#[test]
fn nothing_is_found_if_anybody_names_its_site() {
    let mut world = World::empty(MasterConfig::rings_only());
    world.names = |peer| if peer == 4 { "eu" } else { "" };
    let mut world = world.with(4);
    let before = epoch(&world);

    world.vote();
    world.goes_on(two_and_the_rest);

    assert_eq!(world.sites(), ["", "", "", "eu"]);
    assert_eq!(epoch(&world), before);
}

#[test]
fn nothing_is_found_on_one_machine_or_where_all_are_near() {
    let mut crowded = World::empty(MasterConfig::rings_only());
    crowded.names = |_| "";
    crowded.machines = |_| 7;
    let mut crowded = crowded.with(4);
    crowded.vote();
    crowded.goes_on(two_and_the_rest);
    assert_eq!(crowded.sites(), ["", "", "", ""]);

    let mut near = unnamed(4);
    near.vote();
    near.goes_on(|_, _, _| edge(true));
    assert_eq!(near.sites(), ["", "", "", ""]);
}

#[test]
fn a_newcomer_is_at_a_site_of_its_own_until_the_next_optimization() {
    let mut world = with_sites(4);

    world.joins(5);
    assert_eq!(world.sites(), ["~1", "~1", "~3", "~3", "~5"]);
    world.joins(6);
    assert_eq!(world.sites(), ["~1", "~1", "~3", "~3", "~5", "~6"]);

    world.vote();
    world.goes_on(two_and_the_rest);
    assert_eq!(world.sites(), ["~1", "~1", "~3", "~3", "~3", "~3"]);
}

#[test]
fn a_newcomer_that_names_its_site_ends_those_that_were_found() {
    let mut world = with_sites(4);
    world.names = |_| "eu";

    world.joins(5);
    assert_eq!(world.sites(), ["", "", "", "", "eu"]);

    // They do not come back by themselves.
    world.lose(5);
    world.update();
    assert_eq!(world.sites(), ["", "", "", ""]);
}

#[test]
fn the_survivors_of_a_death_keep_their_sites_with_the_next_ring() {
    let mut world = with_sites(4);

    world.lose(1);
    assert_eq!(world.master.view().sites(GROUP).unwrap().sites().count(), 2);
    world.update();

    assert_eq!(world.ring(), [2, 3, 4]);
    assert_eq!(world.sites(), ["~1", "~3", "~3"]);
}

#[test]
fn sites_are_over_when_the_last_peer_of_all_but_one_is_gone() {
    let mut world = with_sites(4);

    world.lose(1);
    world.lose(2);
    world.update();
    assert_eq!(world.sites(), ["", ""]);

    // Whether the newcomer is near or far is not known.
    world.joins(5);
    assert_eq!(world.sites(), ["", "", ""]);
}

#[test]
fn a_measurement_that_is_out_of_date_changes_no_sites() {
    let mut world = with_sites(4);
    let before = epoch(&world);

    age(&mut world);
    world.update();

    assert_eq!(world.sites(), ["~1", "~1", "~3", "~3"]);
    assert_eq!(epoch(&world), before);
}

#[test]
fn the_next_optimization_finds_the_sites_anew_and_all_are_told_in_one_epoch() {
    let mut world = with_sites(5);
    let first = epoch(&world);

    world.vote();
    world.goes_on(two_and_the_rest);
    assert_eq!(epoch(&world), first, "it has found the same");

    age(&mut world);
    world.vote();
    world.goes_on(three_and_the_rest);
    assert_eq!(world.sites(), ["~1", "~1", "~1", "~4", "~4"]);
    assert!(epoch(&world) > first);

    age(&mut world);
    world.vote();
    world.goes_on(|_, _, _| edge(true));
    assert_eq!(world.sites(), ["", "", "", "", ""]);
}

#[test]
fn an_optimization_that_fails_changes_no_sites() {
    let mut world = with_sites(4);
    let before = epoch(&world);
    age(&mut world);

    world.vote();
    // Nothing arrives at the fourth, so there is no ring.
    world.goes_on(|from, to, _| match to {
        4 => fast(0),
        _ => three_and_the_rest(from, to, false),
    });

    assert!(world.reports.values().all(Option::is_none));
    assert_eq!(world.sites(), ["~1", "~1", "~3", "~3"]);
    assert_eq!(epoch(&world), before);
}

#[test]
fn a_death_in_any_rotation_leaves_the_survivors_with_the_same_sites() {
    for reports in 0..14 {
        for victim in 1..=4 {
            let mut world = with_sites(4);
            age(&mut world);
            world.vote();
            for _ in 0..reports {
                if let Some(peer) = world.probes.keys().next().copied() {
                    world.reports(peer, &three_and_the_rest);
                }
            }
            world.lose(victim);
            // Whose other end has died is not waited for: it never reports.
            let alive = |world: &World, peer: PeerId| world.master.view().peer(peer).is_some();
            assert!(world.ring().iter().any(|peer| alive(&world, PeerId(*peer))));
            world.probes.retain(|peer, _| {
                let known = world.master.view().peer(*peer).map(|peer| peer.state());
                known == Some(pccl_core::states::ConnectionState::OptimizeTopology)
            });
            world.goes_on(three_and_the_rest);
            world.update();

            let told = world.sites();
            assert_eq!(told.len(), 3, "after {reports} reports");
            let master = world.master.view().sites(GROUP).unwrap();
            let known: Vec<&str> = master.by_rank().map(|site| site.as_str()).collect();
            assert_eq!(told, known, "peer {victim} after {reports} reports");
        }
    }
}

#[test]
fn a_large_group_of_which_a_part_is_measured_has_the_same_sites() {
    let mut world = unnamed(40);

    world.vote();
    world.goes_on(|from, to, _| edge((from <= 15) == (to <= 15)));

    assert!(world.master.view().measured().count() < 40 * 39 / 3);
    let of = |peer: &u64| if *peer <= 15 { "~1" } else { "~16" };
    let expected: Vec<&str> = world.ring().iter().map(of).collect();
    assert_eq!(world.sites(), expected);
}
