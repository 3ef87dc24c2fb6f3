//! Peers that live and have nothing more to do, and answers that come late: waits that a deadline ends.

use super::programs::{
    ASK_FIRST, OPTIMIZE, OPTIMIZE_TWICE, REDUCE, REDUCE_AND_REST, REDUCE_TWICE, REDUCE_UPDATE,
    REST, SYNC, UPDATE_REDUCE,
};
use super::{in_group, inside, only, outside, scenario};
use crate::milestone::Milestone as M;
use crate::scenario::{Fault, Scenario};
use crate::script::Program;

/// Losses, and deadlines that pass although nobody hangs.
const LOSSES_AND_DELAYS: &[Fault] = &[Fault::Crash, Fault::HalfOpen, Fault::Late];

pub(super) fn all() -> Vec<Scenario> {
    vec![
        only(
            LOSSES_AND_DELAYS,
            scenario(
                "rest-2",
                "one of two reduces once and rests, the other goes on",
                1,
                vec![inside(&REDUCE_AND_REST), inside(&REDUCE_TWICE)],
                &[M::Committed, M::ThrownOut],
            ),
        ),
        beside_one("rest-update", &UPDATE_REDUCE),
        beside_one("rest-sync", &SYNC),
        beside_one("rest-optimize", &OPTIMIZE),
        beside_one("rest-ask", &ASK_FIRST),
        only(
            LOSSES_AND_DELAYS,
            scenario(
                "rest-groups",
                "one rests in a group of its own: it is waited for in an update, and not in a reduce",
                1,
                vec![
                    in_group(1, inside(&REST)),
                    inside(&REDUCE_UPDATE),
                    inside(&REDUCE_UPDATE),
                ],
                &[M::Committed, M::ThrownOut],
            ),
        ),
        only(
            LOSSES_AND_DELAYS,
            scenario(
                "rest-3",
                "one of three rests while the two others update and reduce",
                1,
                vec![
                    inside(&REST),
                    inside(&UPDATE_REDUCE),
                    inside(&UPDATE_REDUCE),
                ],
                &[M::Committed, M::ThrownOut],
            ),
        ),
        scenario(
            "rest-4",
            "two of four rest, and one deadline after the other ends the wait for them",
            0,
            vec![
                inside(&REST),
                inside(&REST),
                inside(&UPDATE_REDUCE),
                inside(&UPDATE_REDUCE),
            ],
            &[M::Committed, M::ThrownOut],
        ),
        only(
            &[Fault::MuteDialler],
            scenario(
                "mute-wiring",
                "a newcomer to one, and one of the two never opens its lanes",
                1,
                vec![inside(&UPDATE_REDUCE), outside(&REDUCE)],
                &[M::Admitted, M::WiredAgain, M::Committed],
            ),
        ),
        only(
            &[Fault::MuteDialler],
            scenario(
                "mute-wiring-3",
                "a newcomer to two, and one of the three never opens its lanes",
                1,
                vec![
                    inside(&UPDATE_REDUCE),
                    inside(&UPDATE_REDUCE),
                    outside(&REDUCE),
                ],
                &[M::Admitted, M::WiredAgain, M::Committed],
            ),
        ),
        only(
            &[Fault::Late],
            scenario(
                "late-solver",
                "three look for a better ring twice, and the answer to the first comes in the second",
                1,
                vec![inside(&OPTIMIZE_TWICE); 3],
                &[M::Optimized, M::OptimizationFailed],
            ),
        ),
    ]
}

/// One of two rests from the start, and a deadline ends the wait for its vote.
fn beside_one(name: &'static str, calls: &'static Program) -> Scenario {
    let about = "one of two rests, the other calls and waits for its vote";
    let seats = vec![inside(&REST), inside(calls)];
    only(
        LOSSES_AND_DELAYS,
        scenario(name, about, 1, seats, &[M::ThrownOut]),
    )
}
