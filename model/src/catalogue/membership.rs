//! Joining, the training loops, groups, signs of life.

use super::programs::{
    ASK_FIRST, CONNECT, POPULAR, PUMP, PUMP_NEWCOMER, README, README_TWICE, REDUCE, STUBBORN, SYNC,
    TRAIN, TRAIN_FROM_REDUCE, TRAIN_FROM_SYNC, TRAIN_TWICE, UPDATE_AND_ASK, UPDATE_OPTIMIZE,
    UPDATE_REDUCE, UPDATE_REDUCE_TWICE, UPDATE_TWICE_REDUCE,
};
use super::{
    DEATHS_AND_BREAKS, DEATHS_AND_CUTS, DEATHS_AND_REFUSALS, by_halves, holding, holding_outside,
    in_group, in_step, inside, only, outside, scenario, with_beats,
};
use crate::milestone::Milestone as M;
use crate::scenario::{Fault, Scenario};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        with_beats(scenario(
            "beats-2",
            "signs of life among everything else",
            1,
            vec![inside(&UPDATE_REDUCE), outside(&REDUCE)],
            &[M::Admitted, M::Committed],
        )),
        with_beats(scenario(
            "beats-sync",
            "signs of life while shared state moves",
            1,
            vec![holding(&POPULAR, 1), holding(&POPULAR, 2)],
            &[M::ContentMoved, M::SyncFailed],
        )),
        with_beats(scenario(
            "beats-optimize",
            "signs of life while a better ring is looked for",
            1,
            vec![inside(&UPDATE_OPTIMIZE); 2],
            &[M::Optimized],
        )),
        with_beats(scenario(
            "beats-pump",
            "signs of life while peers ask",
            0,
            vec![inside(&PUMP); 2],
            &[M::ToldNobodyPending, M::Committed],
        )),
        in_step(scenario(
            "train-2",
            "the training loop",
            2,
            vec![inside(&TRAIN); 2],
            &[
                M::Committed,
                M::Aborted,
                M::Recovered,
                M::WiredAgain,
                M::ThrownOut,
            ],
        )),
        in_step(only(
            DEATHS_AND_REFUSALS,
            scenario(
                "train-3",
                "the training loop of three",
                1,
                vec![inside(&TRAIN); 3],
                &[M::Committed, M::Aborted, M::Recovered, M::ContentKept],
            ),
        )),
        in_step(only(
            DEATHS_AND_REFUSALS,
            scenario(
                "join-1-of-2",
                "a newcomer to one that trains",
                2,
                vec![inside(&TRAIN_TWICE), outside(&TRAIN)],
                &[
                    M::Admitted,
                    M::AdmittedAlone,
                    M::WiredAgain,
                    M::Committed,
                    M::ContentMoved,
                ],
            ),
        )),
        in_step(only(
            DEATHS_AND_REFUSALS,
            scenario(
                "join-1-of-3",
                "a newcomer to two that train",
                1,
                vec![inside(&TRAIN_TWICE), inside(&TRAIN_TWICE), outside(&TRAIN)],
                &[
                    M::Admitted,
                    M::WiredAgain,
                    M::Committed,
                    M::RevisionAdvanced,
                ],
            ),
        )),
        in_step(only(
            &[Fault::Crash],
            scenario(
                "readme-3",
                "the loop of the README, with a newcomer",
                1,
                vec![
                    inside(&README_TWICE),
                    inside(&README_TWICE),
                    outside(&README),
                ],
                &[
                    M::Admitted,
                    M::Committed,
                    M::Aborted,
                    M::Recovered,
                    M::ContentMoved,
                    M::RevisionAdvanced,
                ],
            ),
        )),
        in_step(scenario(
            "join-2-of-3",
            "two newcomers at once",
            1,
            vec![
                inside(&UPDATE_REDUCE),
                outside(&UPDATE_REDUCE),
                outside(&UPDATE_REDUCE),
            ],
            &[M::Admitted, M::WiredAgain, M::Committed],
        )),
        in_step(scenario(
            "join-all",
            "three find an empty run",
            1,
            vec![outside(&UPDATE_REDUCE_TWICE); 3],
            &[M::Admitted, M::AdmittedAlone, M::WiredAgain],
        )),
        scenario(
            "join-all-and-go",
            "two find an empty run, and nothing works",
            2,
            vec![outside(&CONNECT); 2],
            &[M::AdmittedAlone, M::LeftAtTheEnd],
        ),
        scenario(
            "pump-2",
            "asynchronous training: ask while a reduce runs",
            1,
            vec![inside(&PUMP); 2],
            &[M::Committed, M::Aborted, M::ToldNobodyPending],
        ),
        only(
            DEATHS_AND_REFUSALS,
            scenario(
                "pump-join",
                "asynchronous training that a newcomer joins",
                1,
                vec![inside(&PUMP), inside(&PUMP), outside(&PUMP_NEWCOMER)],
                &[
                    M::Committed,
                    M::ToldPending,
                    M::ToldNobodyPending,
                    M::Admitted,
                ],
            ),
        ),
        only(
            DEATHS_AND_BREAKS,
            scenario(
                "groups-2-1",
                "two groups: newcomers concern both, losses only their own",
                2,
                vec![
                    inside(&UPDATE_REDUCE),
                    inside(&UPDATE_REDUCE),
                    in_group(1, inside(&UPDATE_REDUCE)),
                ],
                &[M::Committed, M::Aborted, M::Recovered],
            ),
        ),
        scenario(
            "groups-join",
            "a newcomer that founds a second group",
            1,
            vec![
                inside(&UPDATE_REDUCE),
                inside(&UPDATE_REDUCE),
                in_group(1, outside(&REDUCE)),
            ],
            &[M::Committed, M::Admitted],
        ),
        scenario(
            "join-and-ask",
            "two newcomers to one: the first asks for an update when the second has been let in",
            0,
            vec![
                inside(&UPDATE_TWICE_REDUCE),
                outside(&UPDATE_AND_ASK),
                outside(&REDUCE),
            ],
            &[M::Admitted, M::ToldPending, M::Committed],
        ),
        scenario(
            "pump-out-of-step",
            "one asks whether anybody waits while the other updates",
            1,
            vec![inside(&ASK_FIRST), inside(&UPDATE_REDUCE)],
            &[M::ToldPending, M::Committed],
        ),
        scenario(
            "out-of-step-2",
            "two that are at different places of one loop",
            1,
            vec![inside(&TRAIN_TWICE), inside(&TRAIN_FROM_REDUCE)],
            &[M::GaveWay, M::Committed],
        ),
        scenario(
            "out-of-step-3",
            "three that are at different places of one loop",
            0,
            vec![
                inside(&TRAIN),
                inside(&TRAIN_FROM_SYNC),
                inside(&TRAIN_FROM_REDUCE),
            ],
            &[M::GaveWay, M::Committed],
        ),
    ]
    .into_iter()
    .chain(beside_other_calls())
    .collect()
}

/// Newcomers that are lost on their way in, and rings that are built while others wait in other calls.
fn beside_other_calls() -> Vec<Scenario> {
    vec![
        by_halves(only(
            DEATHS_AND_CUTS,
            scenario(
                "join-lost",
                "a newcomer to two is lost while its edges come up",
                1,
                vec![
                    inside(&UPDATE_REDUCE),
                    inside(&UPDATE_REDUCE),
                    outside(&REDUCE),
                ],
                &[M::Admitted, M::KeptBesideFresh, M::Committed],
            ),
        )),
        only(
            DEATHS_AND_CUTS,
            scenario(
                "consent-sync",
                "one waits to synchronize while the other admits a newcomer",
                1,
                vec![inside(&TRAIN), inside(&TRAIN_FROM_SYNC), outside(&TRAIN)],
                &[M::Admitted, M::Consented, M::ContentKept, M::Committed],
            ),
        ),
        only(
            DEATHS_AND_CUTS,
            scenario(
                "consent-reduce",
                "one waits to reduce while the other admits a newcomer",
                1,
                vec![inside(&UPDATE_REDUCE), inside(&REDUCE), outside(&REDUCE)],
                &[M::Admitted, M::Consented, M::Committed],
            ),
        ),
        only(
            DEATHS_AND_CUTS,
            scenario(
                "aside-2",
                "a newcomer synchronizes while the only other one reduces, again and again",
                1,
                vec![inside(&STUBBORN), holding_outside(&SYNC, 7)],
                &[M::Admitted, M::GaveWay, M::SetAside, M::ContentMoved],
            ),
        ),
        scenario(
            "aside-3",
            "a newcomer synchronizes while the others reduce, again and again",
            1,
            vec![
                inside(&STUBBORN),
                inside(&STUBBORN),
                holding_outside(&SYNC, 7),
            ],
            &[M::Admitted, M::GaveWay, M::SetAside, M::ContentMoved],
        ),
    ]
}
