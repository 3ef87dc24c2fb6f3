//! Work that takes long, and peers that never end it.

use super::super::faults::Fault;
use super::super::network::{Path, SeatNo};
use super::super::program::{Program, Recovery, Step};
use super::super::seat::{Habit, Memory, SeatPlan};
use super::super::time::{MILLISECOND, MINUTE, SECOND};
use super::super::trial::Trial;
use super::super::world::World;
use super::{FAULT, Situation, crew, usual, usual_run};

/// All of this file.
pub(super) fn situations() -> Vec<Situation> {
    vec![
        never_ends_a_reduce(),
        never_ends_a_transfer(),
        pair_without_transfers(),
        long_transfer(),
        long_reduce(2),
        long_reduce(4),
    ]
}

fn never_ends_a_reduce() -> Situation {
    Situation::new("a living peer never ends a reduce, 4 peers", |seed| {
        let (mut world, seats) = usual_run(seed, 4);
        world.strike(FAULT, Fault::Becomes(seats[2], Habit::NeverEndsReduces));
        let trial = Trial::of(world, FAULT).without([seats[2]]);
        trial.within(5 * MINUTE).watched(120 * MINUTE)
    })
}

/// A newcomer that holds nothing, and never says that it has everything.
fn never_ends_a_transfer() -> Situation {
    Situation::new(
        "a living newcomer never ends a transfer, 3 + 1 peers",
        |seed| {
            let (mut world, _) = usual_run(seed, 3);
            let newcomer = world.seat(SeatPlan::at(FAULT));
            world.strike(FAULT, Fault::Becomes(newcomer, Habit::NeverEndsTransfers));
            let trial = Trial::of(world, FAULT).without([newcomer]);
            trial.within(5 * MINUTE).watched(120 * MINUTE)
        },
    )
}

/// The only holder and one of three newcomers, its neighbour in no ring, cannot connect: the others can.
fn pair_without_transfers() -> Situation {
    Situation::new(
        "holder and one requester cannot connect, 1 + 3 peers",
        |seed| {
            let mut world = World::new(seed);
            let memory = Memory {
                revision: 10,
                content: 7,
                bytes: 1 << 20,
            };
            let holder = world.seat(SeatPlan {
                memory,
                ..SeatPlan::at(0)
            });
            let starts = |no: u64| FAULT + no * 50 * MILLISECOND;
            let others: Vec<SeatNo> = (0..3)
                .map(|no| world.seat(SeatPlan::at(starts(no))))
                .collect();
            world.network.set_pair(holder, others[1], Path::Filtered);
            Trial::of(world, FAULT)
                .within(2 * MINUTE)
                .watched(10 * MINUTE)
        },
    )
}

/// One lane with 4 MiB under way at 300 ms: 25 GiB take 32 minutes.
fn long_transfer() -> Situation {
    Situation::new("a newcomer fetches 25 GiB at 300 ms, 2 peers", |seed| {
        let mut world = World::new(seed);
        world.pace.round_trip = 300 * MILLISECOND;
        let state = Memory {
            revision: 10,
            content: 7,
            bytes: 25 << 30,
        };
        let blank = Memory {
            revision: 0,
            content: 0,
            ..state
        };
        for (memory, starts) in [(state, 0), (blank, 5 * SECOND)] {
            world.seat(SeatPlan {
                memory,
                ..SeatPlan::at(starts)
            });
        }
        let trial = Trial::of(world, 5 * SECOND).within(35 * MINUTE);
        trial.watched(120 * MINUTE)
    })
}

/// 40 GB at 100 Mbit/s take 53 minutes between two, and 80 among four.
fn long_reduce(count: usize) -> Situation {
    let name = format!("a reduce of 40 GB at 100 Mbit/s, {count} peers");
    Situation::new(name, move |seed| {
        let mut world = World::new(seed);
        world.pace.bandwidth = 12_500_000;
        let bytes = 40_000_000_000;
        let reduce = Step::Reduce { tag: 0, bytes };
        let body = [Step::Update, Step::Sync, Step::Think(SECOND), reduce];
        let long = Program::of(body, Recovery::Top);
        crew(&mut world, count, &usual().until(FAULT, long));
        let whole = world.pace.reduce_of(bytes, count);
        let trial = Trial::of(world, FAULT + SECOND).within(whole + MINUTE);
        trial.watched(3 * whole)
    })
}
