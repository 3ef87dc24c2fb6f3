//! Meshes: links between all members of a group, and collectives for which each sends to each.

use super::programs::{REDUCE, UPDATE_REDUCE};
use super::{
    DEATHS_AND_BREAKS, in_step, inside, mesh, one_machine, only, outside, scenario, small,
};
use crate::milestone::Milestone as M;
use crate::scenario::{Fault, Scenario, SeatPlan};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        mesh(only(
            DEATHS_AND_BREAKS,
            scenario(
                "mesh-3",
                "three peers reduce directly",
                1,
                vec![inside(&REDUCE); 3],
                &[
                    M::Committed,
                    M::CommittedWithoutOne,
                    M::WentDirectly,
                    M::Aborted,
                    M::RestoredWhole,
                    M::Recovered,
                    M::Rewired,
                ],
            ),
        )),
        mesh(in_step(only(
            &[Fault::RefuseDial],
            scenario(
                "mesh-unlinked-3",
                "a newcomer to two, and one link cannot be connected",
                1,
                newcomer_to_two(),
                &[M::Admitted, M::Committed, M::WentDirectly, M::RingAlone],
            ),
        ))),
        mesh(in_step(only(
            &[Fault::Crash],
            small(scenario(
                "mesh-join-3",
                "a newcomer to two, all send what is small to each other, and one may die",
                1,
                newcomer_to_two(),
                &[M::Admitted, M::WentDirectly, M::Aborted, M::Recovered],
            )),
        ))),
        mesh(in_step(only(
            &[Fault::Late],
            scenario(
                "mesh-late-3",
                "a newcomer to two, and a deadline passes although everybody works",
                1,
                newcomer_to_two(),
                &[M::Admitted, M::Committed, M::WentDirectly, M::RingAlone],
            ),
        ))),
        mesh(in_step(only(
            &[Fault::RefuseDial],
            scenario(
                "mesh-4",
                "a newcomer to three, and one link cannot be connected",
                1,
                vec![
                    inside(&UPDATE_REDUCE),
                    inside(&UPDATE_REDUCE),
                    inside(&UPDATE_REDUCE),
                    outside(&UPDATE_REDUCE),
                ],
                &[M::Admitted, M::Committed, M::WentDirectly, M::RingAlone],
            ),
        ))),
        one_machine(mesh(only(
            DEATHS_AND_BREAKS,
            scenario(
                "rounds-3",
                "three peers of one machine reduce in rounds, one may die or a link break",
                1,
                vec![inside(&REDUCE); 3],
                &[
                    M::Committed,
                    M::WentInRounds,
                    M::Aborted,
                    M::Recovered,
                    M::Rewired,
                ],
            ),
        ))),
        one_machine(mesh(in_step(only(
            &[Fault::Crash],
            small(scenario(
                "rounds-whole-3",
                "three peers of one machine gather what is small in rounds, and one may die",
                1,
                vec![inside(&REDUCE); 3],
                &[M::Committed, M::TravelledWhole, M::Aborted, M::Recovered],
            )),
        )))),
    ]
}

fn newcomer_to_two() -> Vec<SeatPlan> {
    vec![
        inside(&UPDATE_REDUCE),
        inside(&UPDATE_REDUCE),
        outside(&UPDATE_REDUCE),
    ]
}
