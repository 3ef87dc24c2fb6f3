//! What the simulator promises: the same seed gives the same run, and what is not as expected is noticed.

use super::faults::Fault;
use super::network::SeatNo;
use super::seat::SeatPlan;
use super::situations::all;
use super::time::{MINUTE, SECOND};
use super::trial::Trial;
use super::world::World;

const FAULT: u64 = 20 * SECOND;

fn run_of(seed: u64, count: usize) -> World {
    let mut world = World::new(seed);
    for _ in 0..count {
        world.seat(SeatPlan::at(0));
    }
    world
}

#[test]
fn one_seed_gives_one_outcome_and_another_seed_other_delays() {
    let told = |seed| {
        let mut world = run_of(seed, 5);
        world.strike(FAULT, Fault::LanesBreak(SeatNo(2)));
        while world.step(2 * FAULT) {}
        let commits = world.log.commits.values();
        commits.map(|commit| commit.told).collect::<Vec<_>>()
    };

    assert_eq!(told(3), told(3));
    assert_ne!(told(3), told(4));
}

#[test]
fn situations_that_are_drawn_come_out_the_same_for_one_seed() {
    let quick = |name: &str| name.contains(" 10 peers, draw 1") || name.contains("NAT");
    let outcomes = || {
        let situations = all().into_iter().filter(|s| quick(&s.name));
        situations.map(|s| s.stage(5).run()).collect::<Vec<_>>()
    };

    assert_eq!(outcomes(), outcomes());
}

#[test]
fn the_survivors_of_a_death_go_on_and_nobody_else_is_lost() {
    let mut world = run_of(1, 4);
    world.strike(FAULT, Fault::Dies(SeatNo(1)));

    let outcome = Trial::of(world, FAULT)
        .without([SeatNo(1)])
        .within(5 * SECOND)
        .run();

    assert_eq!(outcome.wrong, [""; 0]);
    assert_eq!((outcome.healthy_lost, outcome.faulty_lost), (0, 0));
}

#[test]
fn a_run_that_goes_on_too_late_is_noticed() {
    let world = run_of(1, 3);

    let outcome = Trial::of(world, FAULT).within(1).run();

    assert_eq!(outcome.wrong, ["goes on too late"]);
}

#[test]
fn who_stays_that_was_to_go_and_who_goes_that_was_to_stay_are_noticed() {
    let stays = Trial::of(run_of(1, 3), FAULT)
        .without([SeatNo(0)])
        .watched(MINUTE)
        .run();
    let mut world = run_of(1, 3);
    // Nobody reaches the newcomer and it reaches nobody, so it is refused.
    for member in 0..3 {
        let path = super::network::Path::Refused;
        world.strike(0, Fault::Between(SeatNo(member), SeatNo(3), path));
    }
    world.seat(SeatPlan::at(FAULT));
    let goes = Trial::of(world, FAULT).run();

    assert!(stays.wrong.contains(&"1 stay that cannot work".to_owned()));
    assert_eq!((goes.healthy_lost, goes.wrong.len()), (1, 1));
}

#[test]
fn names_of_situations_are_distinct() {
    let names: Vec<String> = all().into_iter().map(|situation| situation.name).collect();
    let distinct: std::collections::BTreeSet<&String> = names.iter().collect();

    assert_eq!(distinct.len(), names.len());
}
