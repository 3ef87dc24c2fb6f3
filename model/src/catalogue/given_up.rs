//! Calls that are given up, and calls that wait: for what was given up, and for their turn.

use super::programs::{
    ASK_REDUCE, CANCEL_AND_AGAIN, OPTIMIZE, OPTIMIZE_DROPPED, QUESTION_DROPPED, REDUCE, SYNC,
    SYNC_DROPPED, SYNC_DROPPED_AND_AGAIN, SYNC_UPDATE, TAGS_13, TAGS_123, TAGS_123_WITHOUT_2,
    UPDATE_DROPPED, UPDATE_REDUCE,
};
use super::{DEATHS_AND_BREAKS, free_frames, holding, inside, only, scenario, small};
use crate::milestone::Milestone as M;
use crate::scenario::{Fault, Scenario, SeatPlan};
use crate::script::Program;

/// A peer that has one collective in flight at a time.
const fn one_by_one(program: &'static Program) -> SeatPlan {
    SeatPlan {
        collectives_max: 1,
        ..inside(program)
    }
}

pub(super) fn all() -> Vec<Scenario> {
    vec![
        free_frames(scenario(
            "dropped-reduce-2",
            "one gives a reduce up and makes it again at once",
            1,
            vec![inside(&REDUCE), inside(&CANCEL_AND_AGAIN)],
            &[M::Committed, M::Aborted, M::WaitedForGivenUp],
        )),
        scenario(
            "dropped-update-2",
            "one gives an update up and makes it again",
            1,
            vec![inside(&UPDATE_REDUCE), inside(&UPDATE_DROPPED)],
            &[M::Committed, M::AnsweredTheNext],
        ),
        scenario(
            "dropped-question-2",
            "one gives a question up and asks again",
            1,
            vec![inside(&ASK_REDUCE), inside(&QUESTION_DROPPED)],
            &[M::Committed, M::ToldNobodyPending],
        ),
        scenario(
            "dropped-sync-2",
            "one gives a synchronization up, and updates",
            1,
            vec![holding(&SYNC_UPDATE, 1), holding(&SYNC_DROPPED, 2)],
            &[M::WaitedForGivenUp, M::GivenUpInTransfer, M::SyncFailed],
        ),
        only(
            &[Fault::Crash, Fault::BreakFetch],
            scenario(
                "dropped-sync-3",
                "one of three gives a synchronization up, and synchronizes",
                1,
                vec![
                    holding(&SYNC, 1),
                    holding(&SYNC, 2),
                    holding(&SYNC_DROPPED_AND_AGAIN, 2),
                ],
                &[
                    M::ContentMoved,
                    M::WaitedForGivenUp,
                    M::GivenUpInTransfer,
                    M::SyncFailed,
                ],
            ),
        ),
        scenario(
            "dropped-optimize-2",
            "one gives an optimization up, and reduces",
            1,
            vec![inside(&OPTIMIZE), inside(&OPTIMIZE_DROPPED)],
            &[M::Committed, M::WaitedForGivenUp, M::Optimized],
        ),
        only(
            DEATHS_AND_BREAKS,
            small(scenario(
                "turns-2",
                "two peers reduce three times, one reduce after the other",
                1,
                vec![one_by_one(&TAGS_123); 2],
                &[M::Committed, M::Aborted, M::WaitedForItsTurn],
            )),
        ),
        only(
            DEATHS_AND_BREAKS,
            small(scenario(
                "turns-given-up-2",
                "one gives a reduce up that waits for its turn",
                0,
                vec![one_by_one(&TAGS_123_WITHOUT_2), inside(&TAGS_13)],
                &[M::Committed, M::WaitedForItsTurn],
            )),
        ),
    ]
}
