//! Rings that are found while nobody waits.

use pccl_core::id::{PeerId, Round};
use pccl_core::master::{MasterConfig, MasterInput, MasterTimer};
use pccl_core::topology::Ring;
use pccl_core::tour::{Solved, TourProblem};

use crate::world::{GROUP, World, downhill, fast};

/// The solver has not found anything better yet.
fn not_yet(problem: &TourProblem) -> Option<Solved> {
    Some(Solved {
        ring: Ring(problem.members.clone()),
        bound: 100_000_000,
        is_optimal: false,
    })
}

fn reversed(problem: &[u64]) -> Ring {
    Ring(problem.iter().rev().map(|peer| PeerId(*peer)).collect())
}

/// The immediate answer is the present ring; a search goes on.
fn searching(n: u64) -> World {
    let mut world = World::of(n, MasterConfig::rings_only());
    world.vote();
    world.goes_on_with(downhill, not_yet);
    assert_eq!(world.searches.len(), 1);
    assert_eq!(world.ring(), (1..=n).collect::<Vec<_>>());
    world
}

fn improved(world: &World, round: Round) -> MasterInput {
    MasterInput::TourImproved {
        round,
        group: GROUP,
        found: Solved {
            ring: reversed(&world.ring()),
            bound: 100_000_000,
            is_optimal: true,
        },
    }
}

#[test]
fn a_better_ring_that_is_found_in_the_background_is_adopted_by_the_next_update() {
    let mut world = searching(4);

    world.tell(improved(&world, world.searches[0]));
    assert_eq!(world.ring(), [1, 2, 3, 4]);
    world.update();

    assert_eq!(world.ring(), [4, 3, 2, 1]);
    assert!(world.searches.is_empty());
}

#[test]
fn it_is_not_adopted_if_it_is_hardly_better() {
    let hardly = |from: u64, to: u64, _: bool| fast(if from > to { 104 } else { 100 } * 1_000_000);
    let mut world = World::of(4, MasterConfig::rings_only());
    world.vote();
    world.goes_on_with(hardly, not_yet);

    world.tell(improved(&world, world.searches[0]));
    world.update();

    assert_eq!(world.ring(), [1, 2, 3, 4]);
    assert_eq!(world.searches.len(), 1, "it may find a better one yet");
}

#[test]
fn it_is_adopted_by_the_next_optimization_too() {
    let mut world = searching(4);
    world.tell(improved(&world, world.searches[0]));

    world.vote();
    world.goes_on_with(downhill, not_yet);

    assert_eq!(world.ring(), [4, 3, 2, 1]);
}

#[test]
fn it_is_dropped_when_a_peer_goes_or_comes() {
    let mut world = searching(4);
    world.tell(improved(&world, world.searches[0]));
    world.lose(2);
    assert!(world.searches.is_empty());
    world.update();
    assert_eq!(world.ring(), [1, 3, 4]);

    let mut world = searching(4);
    world.tell(improved(&world, world.searches[0]));
    world.joins(5);
    assert_eq!(world.ring(), [1, 2, 3, 4, 5]);
    assert!(world.searches.is_empty());
}

#[test]
fn what_a_search_finds_after_its_end_means_nothing() {
    let mut world = searching(4);
    let ended = world.searches[0];
    world.vote();
    world.goes_on_with(downhill, not_yet);
    assert_ne!(world.searches[0], ended);
    let before = world.master.clone();

    world.tell(improved(&world, ended));

    assert_eq!(world.master, before);
}

#[test]
fn a_ring_whose_edges_are_out_of_date_is_not_adopted() {
    let mut world = searching(4);
    world.tell(improved(&world, world.searches[0]));
    world.fires(MasterTimer::MeasurementsAge);
    world.fires(MasterTimer::MeasurementsAge);

    world.update();

    assert_eq!(world.ring(), [1, 2, 3, 4]);
}
