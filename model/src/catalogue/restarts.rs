//! A master that dies and is followed by another one, which goes on from its journal.

use super::programs::{
    POPULAR, REDUCE, REDUCE_TWICE, REDUCE_UPDATE, TRAIN, UPDATE_OPTIMIZE, UPDATE_REDUCE,
};
use super::{holding, inside, only, outside, scenario, with_beats};
use crate::milestone::Milestone as M;
use crate::scenario::{Fault, Scenario};

const RESTARTS: &[Fault] = &[Fault::RestartMaster];
const RESTARTS_AND_DEATHS: &[Fault] = &[Fault::RestartMaster, Fault::Crash];
const RESTARTS_AND_REFUSALS: &[Fault] = &[
    Fault::RestartMaster,
    Fault::RefuseDial,
    Fault::RefuseMeasure,
];

pub(super) fn all() -> Vec<Scenario> {
    vec![
        only(
            RESTARTS,
            scenario(
                "restart-reduce",
                "another master goes on while two reduce twice",
                1,
                vec![inside(&REDUCE_TWICE); 2],
                &[M::CameBack, M::HeardAgain, M::Committed],
            ),
        ),
        only(
            RESTARTS_AND_DEATHS,
            scenario(
                "restart-crash",
                "another master goes on while two reduce, and one of them dies",
                2,
                vec![inside(&REDUCE); 2],
                &[M::CameBack, M::HeardAgain, M::Committed, M::Aborted],
            ),
        ),
        only(
            RESTARTS_AND_REFUSALS,
            scenario(
                "restart-join",
                "another master goes on while a newcomer is admitted",
                1,
                vec![inside(&REDUCE_UPDATE), outside(&UPDATE_REDUCE)],
                &[M::CameBack, M::HeardAgain, M::Admitted],
            ),
        ),
        only(
            RESTARTS,
            scenario(
                "restart-sync",
                "another master goes on while shared state moves",
                1,
                vec![holding(&POPULAR, 1), holding(&POPULAR, 2)],
                &[M::CameBack, M::HeardAgain, M::ContentMoved],
            ),
        ),
        only(
            RESTARTS_AND_REFUSALS,
            scenario(
                "restart-optimize",
                "another master goes on while a better ring is looked for",
                1,
                vec![inside(&UPDATE_OPTIMIZE); 2],
                &[M::CameBack, M::HeardAgain, M::Optimized],
            ),
        ),
        with_beats(only(
            RESTARTS,
            scenario(
                "restart-beats",
                "another master goes on while signs of life are given",
                1,
                vec![inside(&REDUCE); 2],
                &[M::CameBack, M::HeardAgain, M::Committed],
            ),
        )),
        only(
            RESTARTS,
            scenario(
                "restart-3",
                "another master goes on while three train",
                1,
                vec![inside(&TRAIN); 3],
                &[M::CameBack, M::HeardAgain, M::Committed],
            ),
        ),
    ]
}
