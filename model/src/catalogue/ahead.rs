//! Collectives that are called again, and begin before all have called them.

use pccl_core::element::CollectiveKind;
use pccl_core::id::PeerId;

use super::programs::{
    AGAIN_12, AGAIN_21, AGAIN_AND_AGAIN, AGAIN_ASKED_BACK, AGAIN_ODD, REDUCE, REDUCE_TWICE,
    UPDATE_BETWEEN,
};
use super::{
    DEATHS_AND_BREAKS, begins_ahead, free_frames, in_group, inside, of_kind, only, outside,
    scenario, small,
};
use crate::milestone::Milestone as M;
use crate::scenario::{Fault, Scenario};

/// A root has done its part before the others call.
const ROOT: CollectiveKind = CollectiveKind::Broadcast { root: PeerId(1) };

pub(super) fn all() -> Vec<Scenario> {
    let all = vec![
        only(
            DEATHS_AND_BREAKS,
            free_frames(scenario(
                "ahead-2",
                "two peers reduce twice, the second time ahead, and one may die or a link break",
                2,
                vec![inside(&REDUCE_TWICE); 2],
                &[
                    M::Committed,
                    M::CommittedWithoutOne,
                    M::BegunAhead,
                    M::AheadConfirmed,
                    M::BegunInVain,
                    M::VotedAhead,
                    M::Aborted,
                    M::Recovered,
                    M::Rewired,
                ],
            )),
        ),
        small(only(
            &[Fault::Crash],
            scenario(
                "ahead-3",
                "three peers reduce twice, the second time ahead, and one may die",
                1,
                vec![inside(&REDUCE_TWICE); 3],
                &[M::Committed, M::AheadConfirmed, M::BegunInVain, M::Aborted],
            ),
        )),
        free_frames(scenario(
            "ahead-tags-2",
            "two peers repeat a reduce beside another, begun in either order",
            0,
            vec![inside(&AGAIN_12), inside(&AGAIN_21)],
            &[M::Committed, M::BegunAhead, M::BegunInVain],
        )),
        free_frames(scenario(
            "ahead-cancel-2",
            "one gives up what it has begun ahead, and calls it once more",
            0,
            vec![inside(&AGAIN_AND_AGAIN), inside(&REDUCE_TWICE)],
            &[M::Committed, M::BegunAhead, M::AheadConfirmed],
        )),
        free_frames(scenario(
            "ahead-ask-back-2",
            "one asks for its vote to start back when it may have voted on the outcome",
            0,
            vec![inside(&AGAIN_ASKED_BACK), inside(&REDUCE_TWICE)],
            &[M::Committed, M::BegunAhead, M::VotedAhead, M::AskedBack],
        )),
        free_frames(of_kind(
            ROOT,
            scenario(
                "ahead-root-tags-2",
                "a root has voted that it is done, and another collective commences first",
                0,
                vec![inside(&AGAIN_12), inside(&AGAIN_21)],
                &[M::Committed, M::BegunAhead, M::VotedAhead, M::BegunInVain],
            ),
        )),
        only(
            &[Fault::BreakLink],
            of_kind(
                ROOT,
                scenario(
                    "ahead-root-update-2",
                    "a root may vote that it is done when the other has had a broken link built anew",
                    1,
                    vec![inside(&REDUCE_TWICE), inside(&UPDATE_BETWEEN)],
                    &[M::Committed, M::BegunAhead, M::VotedAhead, M::BegunInVain],
                ),
            ),
        ),
        free_frames(scenario(
            "ahead-odd-2",
            "one wants something else than what the other has begun ahead",
            0,
            vec![inside(&REDUCE_TWICE), inside(&AGAIN_ODD)],
            &[M::Committed, M::BegunAhead, M::BegunInVain],
        )),
        free_frames(scenario(
            "ahead-update-2",
            "one lets a newcomer in while the other has begun ahead",
            0,
            vec![
                inside(&REDUCE_TWICE),
                inside(&UPDATE_BETWEEN),
                outside(&REDUCE),
            ],
            &[M::Committed, M::BegunAhead, M::BegunInVain, M::Admitted],
        )),
        scenario(
            "ahead-groups",
            "two groups repeat their reduces, and share one count of executions",
            0,
            vec![
                inside(&REDUCE_TWICE),
                inside(&REDUCE_TWICE),
                in_group(1, inside(&REDUCE_TWICE)),
                in_group(1, inside(&REDUCE_TWICE)),
            ],
            &[M::Committed, M::AheadConfirmed],
        ),
        only(
            &[Fault::RestartMaster],
            scenario(
                "ahead-restart-2",
                "a master goes on from its journal while peers have begun ahead",
                1,
                vec![inside(&REDUCE_TWICE); 2],
                &[M::Committed, M::BegunAhead, M::CameBack],
            ),
        ),
    ];
    all.into_iter().map(begins_ahead).collect()
}
