//! What the simulator promises: the same seed gives the same run, and what is not as expected is noticed.

use std::collections::BTreeSet;

use super::faults::Fault;
use super::network::{Path, SeatNo};
use super::program::Program;
use super::seat::{Habit, SeatPlan};
use super::situations::all;
use super::time::{MINUTE, SECOND, show};
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

/// Whoever is sent away may come back, from the same address: its user starts it again.
#[test]
fn a_run_goes_on_between_the_returns_of_a_peer_that_has_to_go_each_time() {
    type Wrong = fn(&mut World, SeatNo);
    let cases: [(&str, Wrong); 3] = [
        ("it reports a loss of each reduce", |world, seat| {
            world.strike(0, Fault::Becomes(seat, Habit::ReportsLoss));
        }),
        ("it never ends a reduce", |world, seat| {
            world.strike(0, Fault::Becomes(seat, Habit::NeverEndsReduces));
        }),
        ("it reaches nobody, and nobody reaches it", |world, seat| {
            for member in 0..4 {
                let path = Path::Filtered;
                world.strike(0, Fault::Between(SeatNo(member), seat, path));
            }
        }),
    ];
    for (name, wrong) in cases {
        let mut world = run_of(1, 4);
        let program = Program::readme(SECOND).returning(SECOND);
        let returns = world.seat(SeatPlan::at(FAULT).running(program));
        wrong(&mut world, returns);

        while world.look(returns).record().sent_away.len() < 100 && world.step(48 * 60 * MINUTE) {}

        let rounds = rounds_of(&world, returns);
        assert_eq!(rounds.len(), 99, "{name}");
        let longest = rounds.iter().map(|(time, _)| *time).max().unwrap_or(0);
        let fewest = rounds.iter().map(|(_, commits)| *commits).min();
        let failed = world.look(SeatNo(0)).record().failed.len();
        println!(
            "{name}: 100 times in {}, at most {} each, {failed} calls of another failed",
            show(world.now() - FAULT),
            show(longest),
        );
        assert!((0..4).all(|no| !world.look(SeatNo(no)).is_out()), "{name}");
        assert!(fewest.is_some_and(|commits| commits > 0), "{name}");
        // What it costs does not grow with the number of returns.
        let time = |rounds: &[(u64, usize)]| rounds.iter().map(|(time, _)| *time).sum::<u64>();
        let (first, last) = (time(&rounds[..40]), time(&rounds[59..]));
        assert!(last <= 2 * first, "{name}: {first} became {last}");
    }
}

/// How long it took from each time that a peer was sent away to the next, and how often the other four committed
/// meanwhile.
fn rounds_of(world: &World, returns: SeatNo) -> Vec<(u64, usize)> {
    let others: BTreeSet<SeatNo> = (0..4).map(SeatNo).collect();
    let commits = world.log.commits.values();
    let commits = commits.filter(|commit| others.is_subset(&commit.by));
    let commits: Vec<u64> = commits.map(|commit| commit.told).collect();
    let away = &world.look(returns).record().sent_away;
    let rounds = away.windows(2).map(|two| {
        let within = commits.iter().filter(|at| (two[0]..two[1]).contains(at));
        (two[1] - two[0], within.count())
    });
    rounds.collect()
}

#[test]
fn names_of_situations_are_distinct() {
    let names: Vec<String> = all().into_iter().map(|situation| situation.name).collect();
    let distinct: std::collections::BTreeSet<&String> = names.iter().collect();

    assert_eq!(distinct.len(), names.len());
}
