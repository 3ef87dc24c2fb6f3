//! Groups beside each other, and calls that exclude each other.

use super::programs::{
    ASK_FIRST, OPTIMIZE, OPTIMIZE_SYNC, REDUCE, REST, STUBBORN, STUBBORN_REDUCE, SYNC,
    SYNC_AFTER_OPTIMIZE, SYNC_THEN_YIELD, THREE_CALLS, THREE_FROM_REDUCE, THREE_FROM_SYNC,
};
use super::{holding, holding_outside, in_group, inside, only, outside, revised, scenario, small};
use crate::milestone::Milestone as M;
use crate::scenario::{Fault, Scenario};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        scenario(
            "groups-alone",
            "two groups of one, each of which synchronizes when it likes, at its own revision",
            0,
            vec![holding(&SYNC, 1), in_group(1, revised(&SYNC, 2, 3))],
            &[M::ContentKept],
        ),
        scenario(
            "groups-ask",
            "one asks whether anybody waits while another group synchronizes",
            0,
            vec![
                inside(&ASK_FIRST),
                in_group(1, inside(&SYNC)),
                in_group(1, inside(&SYNC)),
            ],
            &[M::ToldNobodyPending, M::ContentKept],
        ),
        only(
            &[Fault::Crash],
            small(scenario(
                "groups-sync",
                "one group synchronizes while another one reduces, and one dies",
                1,
                vec![
                    holding(&SYNC, 1),
                    holding(&SYNC, 2),
                    in_group(1, inside(&REDUCE)),
                    in_group(1, inside(&REDUCE)),
                ],
                &[M::ContentMoved, M::SyncFailed, M::Committed, M::LostBeside],
            )),
        ),
        only(
            &[Fault::Crash],
            scenario(
                "groups-optimize",
                "two groups optimize, of which one synchronizes as well",
                1,
                vec![
                    inside(&OPTIMIZE_SYNC),
                    inside(&SYNC_AFTER_OPTIMIZE),
                    in_group(1, inside(&OPTIMIZE)),
                ],
                &[M::GaveWay, M::Optimized, M::ContentKept, M::Committed],
            ),
        ),
        scenario(
            "three-calls",
            "one optimizes, one synchronizes, one reduces",
            0,
            vec![
                inside(&THREE_CALLS),
                inside(&THREE_FROM_SYNC),
                inside(&THREE_FROM_REDUCE),
            ],
            &[M::GaveWay, M::Optimized, M::ContentKept, M::Committed],
        ),
        only(
            &[Fault::Crash],
            scenario(
                "aside-both",
                "two newcomers synchronize while the only other one reduces, again and again",
                1,
                vec![
                    inside(&STUBBORN),
                    holding_outside(&SYNC, 7),
                    holding_outside(&SYNC, 7),
                ],
                &[M::Admitted, M::GaveWay, M::SetAside, M::ContentMoved],
            ),
        ),
        scenario(
            "sync-yields",
            "one synchronizes while the only newcomer reduces, again and again",
            1,
            vec![inside(&SYNC_THEN_YIELD), outside(&STUBBORN_REDUCE)],
            &[M::GaveWay, M::Committed],
        ),
        only(
            &[Fault::Late],
            small(scenario(
                "rest-beside",
                "two of three rest, and another group waits for nobody",
                1,
                vec![
                    inside(&REDUCE),
                    inside(&REST),
                    inside(&REST),
                    in_group(1, inside(&REDUCE)),
                ],
                &[M::Committed],
            )),
        ),
        scenario(
            "groups-founder",
            "one asks whether anybody waits, and the founder of a second group does",
            0,
            vec![inside(&ASK_FIRST), in_group(1, outside(&REDUCE))],
            &[M::ToldPending, M::Admitted],
        ),
    ]
}
