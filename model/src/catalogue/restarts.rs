//! A master that dies and is followed by another one, which goes on from its journal.

use super::programs::{
    OPTIMIZE_ONLY, POPULAR, REDUCE, REDUCE_TWICE, REDUCE_UPDATE, TRAIN, UPDATE_REDUCE,
};
use super::{holding, inside, only, outside, scenario};
use crate::milestone::Milestone as M;
use crate::scenario::{Fault, Scenario};

const RESTARTS: &[Fault] = &[Fault::RestartMaster];
const RESTARTS_AND_DEATHS: &[Fault] = &[Fault::RestartMaster, Fault::Crash];
const RESTARTS_AND_REFUSALS: &[Fault] = &[Fault::RestartMaster, Fault::RefuseDial, Fault::Crash];

pub(super) fn all() -> Vec<Scenario> {
    vec![
        only(
            RESTARTS,
            scenario(
                "restart-reduce",
                "another master goes on while two reduce twice",
                2,
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
                2,
                vec![inside(&REDUCE_UPDATE), outside(&UPDATE_REDUCE)],
                &[M::CameBack, M::HeardAgain, M::Admitted],
            ),
        ),
        only(
            RESTARTS_AND_DEATHS,
            scenario(
                "restart-sync",
                "another master goes on while shared state moves",
                2,
                vec![holding(&POPULAR, 1), holding(&POPULAR, 2)],
                &[M::CameBack, M::HeardAgain, M::ContentMoved],
            ),
        ),
        only(
            &[Fault::RestartMaster, Fault::RefuseMeasure],
            scenario(
                "restart-optimize",
                "another master goes on while three look for a better ring",
                2,
                vec![inside(&OPTIMIZE_ONLY); 3],
                &[M::CameBack, M::HeardAgain, M::Optimized],
            ),
        ),
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
