//! What was measured decides which algorithm a collective takes, as long as the ring stands.

use pccl_core::master::{MasterConfig, MasterTimer};
use pccl_core::paths::Measurement;
use pccl_core::plan::Algorithm;

use crate::world::World;

/// More than travels directly if the paths are not known.
const BYTES: u64 = 8 << 20;

/// So far, at such a rate, that latencies are what a reduce of this size takes.
fn far(_: u64, _: u64, _: bool) -> Option<Measurement> {
    Some(Measurement {
        bytes_per_s: 10_000_000_000,
        round_trip_us: 200_000,
    })
}

/// Four peers, none of which names its site, whose paths are known.
fn measured() -> World {
    let mut world = World::empty(MasterConfig::default());
    world.names = |_| "";
    let mut world = world.with(4);
    assert_eq!(world.reduce(BYTES), Algorithm::Ring);

    world.vote();
    world.goes_on(far);
    assert_eq!(world.reduce(BYTES), Algorithm::Direct);
    world
}

fn age(world: &mut World) {
    world.fires(MasterTimer::MeasurementsAge);
    world.fires(MasterTimer::MeasurementsAge);
}

#[test]
fn what_was_measured_counts_for_the_same_ring_also_when_it_is_out_of_date() {
    let mut world = measured();

    age(&mut world);
    world.update();

    assert_eq!(world.reduce(BYTES), Algorithm::Direct);
}

#[test]
fn a_ring_with_a_newcomer_has_paths_that_nobody_knows() {
    let mut world = measured();

    world.joins(5);
    assert_eq!(world.reduce(BYTES), Algorithm::Ring);

    world.vote();
    world.goes_on(far);
    assert_eq!(world.reduce(BYTES), Algorithm::Direct);
}

#[test]
fn survivors_of_a_loss_go_by_what_is_still_known_and_by_nothing_else() {
    let mut fresh = measured();
    fresh.lose(4);
    fresh.update();
    assert_eq!(fresh.reduce(BYTES), Algorithm::Direct);

    let mut aged = measured();
    age(&mut aged);
    aged.lose(4);
    aged.update();
    assert_eq!(aged.reduce(BYTES), Algorithm::Ring);
}
