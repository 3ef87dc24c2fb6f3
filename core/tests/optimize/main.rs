//! Looking for better rings, told by a master alone: what is measured when, what is adopted, and what is kept.

mod background;
mod costs;
mod failures;
mod sites;
mod world;

use std::collections::BTreeSet;

use pccl_core::id::PeerId;
use pccl_core::master::{MasterConfig, MasterInput, MasterTimer};
use pccl_core::messages::ToMaster;
use pccl_core::paths::Measurement;
use pccl_core::states::ConnectionState;
use pccl_core::topology::Ring;
use pccl_core::tour;

use world::{GROUP, World, downhill, fast};

#[test]
fn each_edge_is_measured_by_itself_and_then_all_of_the_ring_at_once() {
    let mut world = World::of(4, MasterConfig::rings_only());

    world.vote();
    world.goes_on(downhill);

    let all_at_once = world.rotations.pop().unwrap();
    assert_eq!(world.rotations.len(), 6);
    for rotation in &world.rotations {
        let busy: BTreeSet<u64> = rotation
            .iter()
            .flat_map(|(from, to)| [*from, *to])
            .collect();
        assert_eq!(busy.len(), 2 * rotation.len(), "{rotation:?}");
    }
    let edges: BTreeSet<_> = world.rotations.iter().flatten().collect();
    assert_eq!(edges.len(), 12);
    assert_eq!(all_at_once.len(), 4);
    assert_eq!(world.ring(), [1, 4, 3, 2]);
}

#[test]
fn the_sites_are_told_in_the_order_of_the_ring_also_of_a_better_one_and_after_a_join_and_a_loss() {
    let mut world = World::of(4, MasterConfig::rings_only());
    assert_eq!(world.sites(), ["eu", "eu", "", "us"]);

    world.vote();
    world.goes_on(downhill);
    assert_eq!(world.ring(), [1, 4, 3, 2]);
    assert_eq!(world.sites(), ["eu", "us", "", "eu"]);

    world.joins(5);
    assert_eq!(world.ring(), [1, 4, 3, 2, 5]);
    assert_eq!(world.sites(), ["eu", "us", "", "eu", "us"]);

    world.lose(1);
    world.update();
    assert_eq!(world.ring(), [4, 3, 2, 5]);
    assert_eq!(world.sites(), ["us", "", "eu", "us"]);
}

#[test]
fn the_report_says_what_the_ring_was_and_what_can_be_expected() {
    let mut world = World::of(4, MasterConfig::rings_only());

    world.vote();
    world.goes_on(downhill);

    let report = world.report();
    assert_eq!(report.before, Ring([1, 2, 3, 4].map(PeerId).to_vec()));
    assert_eq!(report.expected_before.unwrap().bytes_per_s, 10_000_000);
    assert_eq!(report.expected.unwrap().bytes_per_s, 100_000_000);
    assert_eq!(report.gap(), Some(0.0));
    let (before, after) = (report.expected_before.unwrap(), report.expected.unwrap());
    assert!(before.reduce_time(1 << 30) > 9 * after.reduce_time(1 << 30));
}

#[test]
fn edges_are_measured_on_as_many_lanes_as_a_link_would_have() {
    let mut world = World::of(3, MasterConfig::rings_only());

    world.vote();

    let (peer, (_, probes)) = world.probes.first_key_value().unwrap();
    let lanes = |peer: u64| 4 + u16::try_from(peer % 3).unwrap();
    let with = probes[0].lanes.with;
    assert_eq!(probes[0].lanes.lanes, lanes(peer.0).min(lanes(with.0)));
}

#[test]
fn what_is_known_is_not_measured_again_until_it_is_out_of_date() {
    let mut world = World::of(4, MasterConfig::rings_only());
    world.vote();
    world.goes_on(downhill);

    world.vote();
    world.goes_on(downhill);
    assert!(world.rotations.is_empty(), "{:?}", world.rotations);
    assert_eq!(world.report().expected_before, world.report().expected);

    world.fires(MasterTimer::MeasurementsAge);
    world.fires(MasterTimer::MeasurementsAge);
    world.vote();
    world.goes_on(downhill);
    assert_eq!(world.rotations.len(), 7);
}

#[test]
fn nothing_is_forgotten_while_it_is_counted_on() {
    let mut world = World::of(3, MasterConfig::rings_only());
    world.vote();
    let peer = *world.probes.first_key_value().unwrap().0;
    let other = world.probes[&peer].1[0].lanes.with;
    world.reports(peer, &downhill);
    world.reports(other, &downhill);

    for _ in 0..3 {
        world.fires(MasterTimer::MeasurementsAge);
    }
    world.goes_on(downhill);

    assert!(world.report().expected.is_some());
}

#[test]
fn who_never_reports_has_no_edges_and_nobody_goes_for_it() {
    let mut world = World::of(4, MasterConfig::rings_only());
    world.vote();
    while world.reports.is_empty() {
        if world.probes.len() == 1 && world.probes.contains_key(&PeerId(3)) {
            world.probes.clear();
            world.fires(MasterTimer::Late(PeerId(3)));
        } else if let Some(peer) = world.probes.keys().copied().find(|peer| peer.0 != 3) {
            world.reports(peer, &downhill);
        } else {
            let (round, problem) = world.questions.remove(0);
            assert!(problem.edges.values().all(|edge| edge.bytes_per_s > 0));
            let found = tour::solve(&problem);
            let group = GROUP;
            world.tell(MasterInput::TourSolved {
                round,
                group,
                found,
            });
        }
    }

    assert!(world.reports.values().all(Option::is_none));
    assert!(world.gone.is_empty());
    // It was given up once, not for each of its edges.
    assert!(world.rotations.len() <= 6, "{:?}", world.rotations);
}

#[test]
fn a_late_report_means_nothing() {
    let mut world = World::of(3, MasterConfig::rings_only());
    world.vote();
    let peer = *world.probes.first_key_value().unwrap().0;
    let (round, probes) = world.probes.remove(&peer).unwrap();
    world.fires(MasterTimer::Late(peer));
    let before = world.master.clone();

    let (to, measured) = (probes[0].lanes.with, fast(5).unwrap());
    world.says(
        peer,
        ToMaster::Measured {
            round,
            to,
            measured,
        },
    );
    world.says(peer, ToMaster::ProbesDone { round, ok: true });

    assert_eq!(world.master, before);
    assert!(world.gone.is_empty());
}

#[test]
fn a_death_in_any_rotation_leaves_the_survivors_with_a_ring_of_theirs() {
    for reports in 0..14 {
        for victim in 1..=4 {
            let mut world = World::of(4, MasterConfig::rings_only());
            world.vote();
            for _ in 0..reports {
                if let Some(peer) = world.probes.keys().next().copied() {
                    world.reports(peer, &downhill);
                }
            }
            world.lose(victim);
            // Whose other end has died is not waited for: it never reports.
            world.probes.retain(|peer, _| {
                let known = world.master.view().peer(*peer).map(|peer| peer.state());
                known == Some(ConnectionState::OptimizeTopology)
            });
            world.goes_on(downhill);

            assert!(!world.reports.is_empty(), "after {reports} reports");
            assert_eq!(world.gone.len(), 1);
            let known = world.master.view().measured();
            let of_the_dead = |(from, to): (PeerId, PeerId)| from.0 == victim || to.0 == victim;
            assert!(!known.map(|(edge, _)| edge).any(of_the_dead));
        }
    }
}

/// The edges of a ring share a link: together each has a quarter.
fn shared(from: u64, to: u64, is_loaded: bool) -> Option<Measurement> {
    let alone = downhill(from, to, is_loaded)?;
    let rate = alone.bytes_per_s;
    fast(if is_loaded { rate / 4 } else { rate })
}

#[test]
fn a_ring_that_is_slower_under_load_is_solved_once_more_and_the_better_one_is_kept() {
    let mut world = World::of(4, MasterConfig::rings_only());

    world.vote();
    world.goes_on(shared);

    let loads = world
        .rotations
        .iter()
        .filter(|rotation| rotation.len() == 4);
    assert_eq!(loads.count(), 1);
    // A quarter of what it has alone is still more than any other ring promises.
    assert_eq!(world.ring(), [1, 4, 3, 2]);
    assert_eq!(world.report().expected.unwrap().bytes_per_s, 25_000_000);
}

#[test]
fn a_ring_that_collapses_under_load_gives_way_to_another() {
    let collapses = |from: u64, to: u64, is_loaded: bool| match downhill(from, to, false) {
        // The edges of the ring that they promise share a link.
        _ if is_loaded && failures::FIRST.contains(&(from, to)) => fast(1_000_000),
        alone => alone,
    };
    let mut world = World::of(4, MasterConfig::rings_only());

    world.vote();
    world.goes_on(collapses);

    assert_ne!(world.ring(), [1, 4, 3, 2]);
    assert_eq!(world.report().expected.unwrap().bytes_per_s, 10_000_000);
}

#[test]
fn a_ring_that_is_hardly_better_is_not_worth_a_rewiring() {
    let hardly = |from: u64, to: u64, _: bool| fast(if from > to { 104 } else { 100 } * 1_000_000);
    let mut world = World::of(4, MasterConfig::rings_only());

    world.vote();
    world.goes_on(hardly);

    assert_eq!(world.ring(), [1, 2, 3, 4]);
    assert!(world.reports.values().all(Option::is_some));
}

#[test]
fn of_a_large_group_a_few_edges_of_each_peer_are_measured_and_those_that_a_ring_wants() {
    // Whatever one peer sends is slow, and every third edge is fast.
    let edge = |from: u64, to: u64, _: bool| {
        let rate = if from.abs_diff(to).is_multiple_of(3) {
            100
        } else {
            20
        };
        fast(if from == 7 { 19 } else { rate } * 1_000_000)
    };
    let mut world = World::of(40, MasterConfig::rings_only());

    world.vote();
    world.goes_on(edge);

    let measured: usize = world.rotations.iter().map(BTreeSet::len).sum();
    assert!(measured <= 40 * (3 + 3 + 1), "{measured} measurements");
    assert!(
        world.rotations.len() < 24,
        "{} rotations",
        world.rotations.len()
    );
    let expected = world.report().expected.unwrap();
    assert_eq!(expected.bytes_per_s, 19_000_000);
    let before = world.report().expected_before.unwrap();
    assert!(expected.round_ns <= before.round_ns);
}
