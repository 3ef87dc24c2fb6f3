//! Callers that are slow, absent, or out of step: nobody is kicked for them.

use super::super::faults::Fault;
use super::super::network::SeatNo;
use super::super::program::{Program, Rarely, Recovery, Step};
use super::super::seat::SeatPlan;
use super::super::time::{MILLISECOND, MINUTE, Micros, SECOND};
use super::super::trial::Trial;
use super::super::world::World;
use super::admission::held_longer;
use super::{FAULT, Situation, crew, usual, usual_run};

const LONG: Micros = 11 * MINUTE;

const REDUCE: Step = Step::Reduce {
    tag: 0,
    bytes: 1 << 20,
};

/// All of this file.
pub(super) fn situations() -> Vec<Situation> {
    vec![
        fast_among_slow(),
        idle_for_a_moment(),
        dropped_call(),
        loader(),
        not_joined(),
        long_measurements(),
        documented_retry(),
        stubborn_pair(true),
        stubborn_pair(false),
    ]
}

/// The README's loop that computes for eleven minutes.
fn slow_loop() -> Program {
    Program::readme(LONG)
}

/// Commits count that begin when everybody has gone over to what it does from [`FAULT`] on.
fn staged(world: World) -> Trial {
    Trial::of(world, FAULT + 5 * SECOND)
}

fn fast_among_slow() -> Situation {
    Situation::new(
        "one fast peer among 49 that compute for 11 minutes",
        |seed| {
            let mut world = World::new(seed);
            crew(&mut world, 49, &usual().until(FAULT, slow_loop()));
            crew(&mut world, 1, &usual());
            staged(world).within(LONG + MINUTE).watched(40 * MINUTE)
        },
    )
}

/// One group waits in `update_topology`, while others reduce again and again, each idle for a moment
/// between any two: whenever the ballot is looked at, some of them are.
fn idle_for_a_moment() -> Situation {
    let name = "idle for 100 ms at a time beside a ballot of 11 minutes, 2 + 8 x 2 peers";
    Situation::new(name, |seed| {
        let mut world = World::new(seed);
        world.pace.reduce = 50 * MILLISECOND;
        crew(&mut world, 2, &usual());
        let inner = Step::InnerReduce { tag: 1, bytes: 1 };
        let reduce_and_rest = [inner, Step::Think(100 * MILLISECOND)];
        let mut body = vec![Step::Update, Step::Sync, REDUCE];
        body.extend(reduce_and_rest.repeat(3000));
        for group in 1..=8 {
            let mut body = body.clone();
            body.insert(2, Step::Think(u64::from(group) * 30 * MILLISECOND));
            let program = usual().until(FAULT, Program::of(body, Recovery::Top));
            for no in 0..2 {
                let plan = SeatPlan::at(no * 50 * MILLISECOND).running(program.clone());
                world.seat(plan.in_group(group));
            }
        }
        staged(world).within(15 * MINUTE).watched(30 * MINUTE)
    })
}

/// A peer calls `update_topology`, drops the call, and computes like all others.
fn dropped_call() -> Situation {
    Situation::new(
        "a dropped update while all compute for 11 minutes, 4 peers",
        |seed| {
            let mut world = World::new(seed);
            crew(&mut world, 3, &usual().until(FAULT, slow_loop()));
            let drops = Step::Once {
                from: FAULT,
                what: Rarely::UpdateAndDrop,
            };
            let body = [Step::Update, Step::Sync, drops, Step::Think(LONG), REDUCE];
            let dropping = Program::of(body, Recovery::Top);
            crew(&mut world, 1, &usual().until(FAULT, dropping));
            staged(world).within(LONG + MINUTE).watched(40 * MINUTE)
        },
    )
}

/// A newcomer of one group loads data for 11 minutes, and the other group goes on meanwhile.
fn loader() -> Situation {
    Situation::new(
        "a newcomer loads data for 11 minutes, 2 groups of 2",
        |seed| {
            let (mut world, others) = usual_run(seed, 2);
            for no in 0..2 {
                world.seat(SeatPlan::at(no * 50 * MILLISECOND).in_group(1));
            }
            let loads = usual().after([Step::Think(LONG)]);
            world.seat(SeatPlan::at(FAULT).in_group(1).running(loads));
            let trial = Trial::of(world, FAULT)
                .within(LONG + MINUTE)
                .watched(40 * MINUTE);
            trial.checked(move |world| held_longer(world, &others, FAULT, MINUTE))
        },
    )
}

/// Two peers start two reduces in opposite orders, and on `NotJoined` go on with the next.
fn not_joined() -> Situation {
    Situation::new(
        "two reduces in opposite orders (NotJoined), 2 peers",
        |seed| {
            let mut world = World::new(seed);
            let [one, two] = [1, 2].map(|tag| Step::InnerReduce { tag, bytes: 1 });
            for order in [[one, two], [two, one]] {
                let crossed = Program::of(order, Recovery::NextStep);
                crew(&mut world, 1, &usual().until(FAULT, crossed));
            }
            staged(world).within(12 * MINUTE).watched(40 * MINUTE)
        },
    )
}

/// Measurements take minutes, rotation after rotation.
fn long_measurements() -> Situation {
    Situation::new(
        "280 peers measure for minutes in optimize_topology",
        |seed| {
            let mut world = World::new(seed);
            world.pace.probe = 14 * SECOND;
            let optimizes = Step::Once {
                from: FAULT,
                what: Rarely::Optimize,
            };
            let body = [
                Step::Update,
                Step::Sync,
                optimizes,
                Step::Think(SECOND),
                REDUCE,
            ];
            crew(&mut world, 280, &Program::of(body, Recovery::Top));
            // The first commits after the fault may begin before the measurements do.
            Trial::of(world, FAULT + 30 * SECOND)
                .within(10 * MINUTE)
                .watched(30 * MINUTE)
        },
    )
}

/// The loop of the client's documentation, with a newcomer at the door when a reduce is aborted.
fn documented_retry() -> Situation {
    Situation::new(
        "documented retry, a newcomer at the door of an aborted reduce, 3 + 1",
        |seed| {
            let mut world = World::new(seed);
            world.pace.reduce = 5 * SECOND;
            let program = Program::readme(100 * MILLISECOND).recovering(Recovery::UpdateFirst);
            let seats: Vec<SeatNo> = crew(&mut world, 3, &program);
            let in_a_reduce = FAULT + 3 * SECOND;
            world.seat(SeatPlan::at(in_a_reduce - 100 * MILLISECOND).running(program));
            world.strike(in_a_reduce, Fault::LanesBreak(seats[0]));
            let trial = Trial::of(world, in_a_reduce)
                .within(20 * SECOND)
                .watched(10 * MINUTE);
            trial.checked(move |world| too_many_conflicts(world, in_a_reduce, 10))
        },
    )
}

/// One that updates and reduces, and a newcomer that synchronizes, or one that has before: both answer every
/// conflict by the same call. Who reduces goes on, and the other one waits for it.
fn stubborn_pair(is_newcomer: bool) -> Situation {
    let who = if is_newcomer {
        "a newcomer"
    } else {
        "a veteran"
    };
    let name = format!("one only reduces beside {who} that only synchronizes, 1 + 1");
    Situation::new(name, move |seed| {
        let mut world = World::new(seed);
        let inner = Step::InnerReduce { tag: 0, bytes: 1 };
        let reduces = Program::of([Step::Update, inner], Recovery::Top);
        crew(&mut world, 1, &usual().until(FAULT, reduces));
        let syncs = Program::of([Step::Sync, Step::Think(10 * MILLISECOND)], Recovery::Top);
        let other = world.seat(if is_newcomer {
            SeatPlan::at(FAULT).running(syncs)
        } else {
            SeatPlan::at(50 * MILLISECOND).running(usual().until(FAULT, syncs))
        });
        let trial = Trial::of(world, FAULT + 5 * SECOND).with_faulty([other]);
        trial.within(10 * SECOND).watched(2 * MINUTE)
    })
}

fn too_many_conflicts(world: &World, since: Micros, limit: usize) -> Option<String> {
    let of = |seat: &super::super::seat::Seat| {
        let conflicts = seat.record().conflicts.iter();
        conflicts.filter(|at| **at >= since).count()
    };
    let most = world.everybody().map(of).max().unwrap_or(0);
    (most > limit).then(|| format!("{most} conflicts of one peer (<= {limit})"))
}
