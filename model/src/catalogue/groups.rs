//! Groups beside each other, and calls that exclude each other.

use super::programs::{
    OPTIMIZE, OPTIMIZE_SYNC, REDUCE, STUBBORN_REDUCE, SYNC, SYNC_AFTER_OPTIMIZE, SYNC_THEN_YIELD,
    THREE_CALLS, THREE_FROM_REDUCE, THREE_FROM_SYNC,
};
use super::{holding, in_group, inside, only, outside, scenario, small};
use crate::milestone::Milestone as M;
use crate::scenario::{Fault, Scenario};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        scenario(
            "groups-alone",
            "two groups of one, each of which synchronizes when it likes",
            0,
            vec![holding(&SYNC, 1), in_group(1, holding(&SYNC, 2))],
            &[M::ContentKept],
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
        scenario(
            "sync-yields",
            "one synchronizes while the only newcomer reduces, again and again",
            1,
            vec![inside(&SYNC_THEN_YIELD), outside(&STUBBORN_REDUCE)],
            &[M::GaveWay, M::Committed],
        ),
    ]
}
