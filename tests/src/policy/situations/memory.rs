//! What a group remembers: its revision, its content, its lanes.

use super::super::faults::Fault;
use super::super::network::SeatNo;
use super::super::program::{Program, Rarely, Recovery, Step};
use super::super::seat::{Memory, SeatPlan};
use super::super::time::{MILLISECOND, MINUTE, SECOND};
use super::super::trial::Trial;
use super::super::world::World;
use super::{FAULT, Situation, crew, usual};

/// All of this file.
pub(super) fn situations() -> Vec<Situation> {
    vec![empty_for_a_moment(), claims_the_next(), one_lane_visitor()]
}

/// All connections to the master break. A newcomer that holds nothing comes first, and is told that what the
/// group had is not there; then the holders of revision 1000 come one by one, and are not set back.
fn empty_for_a_moment() -> Situation {
    Situation::new(
        "all connections of the master break, a blank newcomer first, 4 + 1",
        |seed| {
            let mut world = World::new(seed);
            let memory = Memory {
                revision: 1000,
                content: 7,
                bytes: 1 << 20,
            };
            for no in 0..4 {
                let program = usual().reconnecting((5 + no) * SECOND);
                world.seat(SeatPlan {
                    memory,
                    ..SeatPlan::at(no * 50 * MILLISECOND).running(program)
                });
            }
            world.strike(FAULT, Fault::MasterOffline);
            let blank = world.seat(SeatPlan::at(FAULT + 2 * SECOND));
            let trial = Trial::of(world, FAULT).with_faulty([blank]);
            let trial = trial.within(MINUTE).watched(10 * MINUTE);
            trial.checked(|world| {
                let present = world.everybody().filter(|seat| !seat.is_out());
                let oldest = present.map(|seat| seat.memory().revision).min();
                let lost = oldest.filter(|revision| *revision < 1000);
                lost.map(|revision| format!("somebody holds revision {revision}"))
            })
        },
    )
}

/// A group synchronizes at its present revision, and a newcomer says that it holds the next one.
fn claims_the_next() -> Situation {
    Situation::new("a newcomer claims the next revision, 3 + 1 peers", |seed| {
        let mut world = World::new(seed);
        let inner = Step::InnerReduce { tag: 0, bytes: 1 };
        let body = [Step::Update, Step::Sync, Step::Think(SECOND), inner];
        let stays = Program::of(body, Recovery::Top);
        let veterans: Vec<SeatNo> = crew(&mut world, 3, &stays);
        let memory = Memory {
            revision: 1,
            content: 0xbad,
            bytes: 1 << 20,
        };
        let newcomer = world.seat(SeatPlan {
            memory,
            ..SeatPlan::at(FAULT).running(stays)
        });
        let trial = Trial::of(world, FAULT)
            .with_faulty([newcomer])
            .within(MINUTE);
        trial.watched(10 * MINUTE).checked(move |world| {
            let replaced = |seat: &&SeatNo| {
                let overwritten = &world.look(**seat).record().overwritten;
                overwritten.iter().any(|at| *at >= FAULT)
            };
            let replaced = veterans.iter().filter(replaced).count();
            (replaced > 0).then(|| format!("{replaced} veterans overwritten"))
        })
    })
}

/// A visitor that wants one lane comes into a ring of 16 lanes, and leaves again.
fn one_lane_visitor() -> Situation {
    Situation::new(
        "a visitor with one lane in a ring of 16 lanes leaves, 4 + 1",
        |seed| {
            let mut world = World::new(seed);
            for no in 0..4 {
                world.seat(SeatPlan {
                    lanes: 16,
                    ..SeatPlan::at(no * 50 * MILLISECOND)
                });
            }
            let leaves = Step::Once {
                from: FAULT,
                what: Rarely::Leave,
            };
            let reduce = Step::Reduce {
                tag: 0,
                bytes: 1 << 20,
            };
            let body = [
                Step::Update,
                Step::Sync,
                leaves,
                Step::Think(SECOND),
                reduce,
            ];
            let visitor = world.seat(SeatPlan {
                lanes: 1,
                ..SeatPlan::at(30 * SECOND).running(Program::of(body, Recovery::Top))
            });
            let trial = Trial::of(world, FAULT + 5 * SECOND)
                .without([visitor])
                .within(MINUTE);
            trial.watched(10 * MINUTE).checked(|world| {
                let lanes: Vec<u16> = world.everybody().filter_map(|seat| seat.lanes()).collect();
                let whole = lanes.len() == 4 && lanes.iter().all(|lanes| *lanes == 16);
                (!whole).then(|| format!("lanes per link are {lanes:?}"))
            })
        },
    )
}
