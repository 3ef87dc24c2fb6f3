//! Edges on which nothing arrives, by themselves and under load, and peers that are too slow.

use std::collections::BTreeSet;

use pccl_core::id::PeerId;
use pccl_core::master::{MasterConfig, MasterInput, MasterTimer};
use pccl_core::paths::Measurement;
use pccl_core::tour;

use crate::world::{GROUP, World, downhill, fast};

/// The ring that edges by themselves promise.
pub(crate) const FIRST: [(u64, u64); 4] = [(1, 4), (4, 3), (3, 2), (2, 1)];

/// The pairs that were ordered in all rotations.
fn ordered(world: &World) -> BTreeSet<(u64, u64)> {
    world.rotations.iter().flatten().copied().collect()
}

fn loads(world: &World) -> usize {
    let all_at_once = world.rotations.iter();
    all_at_once.filter(|rotation| rotation.len() == 4).count()
}

fn neighbours(world: &World) -> BTreeSet<(u64, u64)> {
    let ring = world.ring();
    let behind = ring.iter().cycle().skip(1);
    ring.iter().copied().zip(behind.copied()).collect()
}

#[test]
fn a_ring_with_an_edge_that_nobody_reports_under_load_is_not_adopted() {
    let dies_under_load = |from: u64, to: u64, is_loaded: bool| {
        let is_dead = is_loaded && (from, to) == (3, 2);
        (!is_dead).then(|| downhill(from, to, false)).flatten()
    };
    let mut world = World::of(4, MasterConfig::rings_only());

    world.vote();
    world.goes_on(dies_under_load);

    assert!(!neighbours(&world).contains(&(3, 2)), "{:?}", world.ring());
    assert!(world.report().expected.is_some());
}

#[test]
fn an_edge_on_which_nothing_arrives_under_load_cannot_be_used() {
    let nothing = |from: u64, to: u64, is_loaded: bool| match (from, to) {
        (3, 2) if is_loaded => fast(0),
        _ => downhill(from, to, false),
    };
    let mut world = World::of(4, MasterConfig::rings_only());

    world.vote();
    world.goes_on(nothing);

    assert!(!neighbours(&world).contains(&(3, 2)), "{:?}", world.ring());
}

#[test]
fn the_second_ring_is_probed_under_load_too_and_never_a_third() {
    // Whatever is probed with others has a quarter, so the second ring is slower than promised as well.
    let mut seen = BTreeSet::new();
    let mut world = World::of(4, MasterConfig::rings_only());
    world.vote();
    let edge = |from: u64, to: u64, is_loaded: bool| {
        let alone = downhill(from, to, false).unwrap().bytes_per_s;
        fast(if is_loaded { alone / 50 } else { alone })
    };

    world.goes_on(edge);

    seen.extend(
        world
            .rotations
            .iter()
            .filter(|rotation| rotation.len() == 4),
    );
    assert_eq!(seen.len(), 2, "two rings");
    assert_eq!(loads(&world), 2);
}

#[test]
fn of_two_rings_the_one_is_kept_that_is_faster_under_load() {
    // The first ring has 5 MB/s under load, and what is left promises 10, but has 1.
    let edge = |from: u64, to: u64, is_loaded: bool| match (downhill(from, to, false), is_loaded) {
        (alone, false) => alone,
        (_, true) if FIRST.contains(&(from, to)) => fast(5_000_000),
        (_, true) => fast(1_000_000),
    };
    let mut world = World::of(4, MasterConfig::rings_only());

    world.vote();
    world.goes_on(edge);

    assert_eq!(loads(&world), 2);
    assert_eq!(world.ring(), [1, 4, 3, 2]);
    assert_eq!(world.report().expected.unwrap().bytes_per_s, 5_000_000);
}

/// Nothing arrives from 1 to 3.
fn holed(from: u64, to: u64, is_loaded: bool) -> Option<Measurement> {
    let is_hole = (from, to) == (1, 3);
    (!is_hole).then(|| downhill(from, to, is_loaded)).flatten()
}

#[test]
fn an_edge_whose_probe_has_failed_is_not_probed_again_until_that_is_out_of_date() {
    let mut world = World::of(4, MasterConfig::rings_only());
    world.vote();
    world.goes_on(holed);
    assert!(ordered(&world).contains(&(1, 3)));

    world.vote();
    world.goes_on(holed);
    assert!(world.rotations.is_empty(), "{:?}", world.rotations);

    world.fires(MasterTimer::MeasurementsAge);
    world.fires(MasterTimer::MeasurementsAge);
    world.vote();
    world.goes_on(holed);
    assert!(ordered(&world).contains(&(1, 3)));
}

#[test]
fn who_was_too_slow_is_not_asked_to_probe_under_load() {
    let mut world = World::of(4, MasterConfig::rings_only());
    world.vote();
    world.goes_on(downhill);
    // All is known; one direction is forgotten, as nobody reports it in time.
    world.fires(MasterTimer::MeasurementsAge);
    world.fires(MasterTimer::MeasurementsAge);
    world.vote();
    let mut slow = None;
    while world.reports.is_empty() {
        let others = world.probes.keys().copied();
        let others: Vec<PeerId> = others.filter(|peer| Some(*peer) != slow).collect();
        if let Some(slow) = slow {
            assert!(!world.probes.contains_key(&slow), "{:?}", world.rotations);
        }
        // The last rotation of single edges is the fifth.
        if slow.is_none() && world.rotations.len() == 6 {
            let peer = others[0];
            slow = Some(peer);
            world.probes.remove(&peer);
            world.fires(MasterTimer::Late(peer));
        } else if let Some(peer) = others.first() {
            world.reports(*peer, &downhill);
        } else {
            let (round, problem) = world.questions.remove(0);
            let (group, found) = (GROUP, tour::solve(&problem));
            world.tell(MasterInput::TourSolved {
                round,
                group,
                found,
            });
        }
    }

    assert!(world.report().expected.is_some());
    assert!(world.gone.is_empty());
}
