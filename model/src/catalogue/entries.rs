//! Shared state of two entries, state that does not fit, and groups that go back.

use super::programs::{
    ADVANCE_AND_ADMIT, ADVANCE_THEN_ADMIT, LEAVER, POPULAR, SEND_ONLY, SKIPS, SKIPS_MORE, SYNC,
    SYNC_AGAIN, SYNC_TWICE, SYNC_UPDATE, TAKE,
};
use super::{holding, holding_outside, inside, only, outside, scenario};
use crate::contents::SecondPlan;
use crate::milestone::Milestone as M;
use crate::scenario::{Fault, Scenario, SeatPlan};

/// With another entry, in which all are to be alike.
const fn and_second(content: u8, plan: SeatPlan) -> SeatPlan {
    named("a", content, false, plan)
}

/// With another entry, in which peers may differ.
const fn and_free(content: u8, plan: SeatPlan) -> SeatPlan {
    named("a", content, true, plan)
}

/// With an entry that is called otherwise.
const fn and_other(plan: SeatPlan) -> SeatPlan {
    named("b", 0, false, plan)
}

const fn named(name: &'static str, content: u8, may_differ: bool, plan: SeatPlan) -> SeatPlan {
    SeatPlan {
        second: Some(SecondPlan {
            name,
            content,
            may_differ,
        }),
        ..plan
    }
}

const fn restarting(plan: SeatPlan) -> SeatPlan {
    SeatPlan {
        restart: true,
        ..plan
    }
}

const fn at_revision(revision: u8, plan: SeatPlan) -> SeatPlan {
    SeatPlan { revision, ..plan }
}

pub(super) fn all() -> Vec<Scenario> {
    vec![
        scenario(
            "entries-3",
            "three who differ in one of two entries, each in another",
            1,
            vec![
                and_second(7, holding(&POPULAR, 1)),
                and_second(7, holding(&POPULAR, 2)),
                and_second(8, holding(&POPULAR, 1)),
            ],
            &[
                M::ContentMoved,
                M::PartMoved,
                M::SyncFailed,
                M::RevisionAdvanced,
            ],
        ),
        only(
            &[Fault::Crash],
            scenario(
                "entries-free",
                "two who may differ in one of two entries, and a newcomer",
                1,
                vec![
                    and_free(4, inside(&SYNC_AGAIN)),
                    and_free(5, inside(&SYNC_AGAIN)),
                    and_free(6, outside(&SYNC)),
                ],
                &[M::ContentMoved, M::PartMoved, M::ContentKept, M::Admitted],
            ),
        ),
        scenario(
            "entries-kept",
            "two who may differ in one of two entries, of whom one computes and the other does not",
            0,
            vec![
                and_free(4, inside(&POPULAR)),
                and_free(5, inside(&SYNC_TWICE)),
            ],
            &[M::ContentMoved, M::PartMoved, M::ContentKept],
        ),
        only(
            &[Fault::Crash],
            scenario(
                "entries-differ",
                "one of three has other entries",
                1,
                vec![
                    and_other(holding(&SYNC, 1)),
                    and_second(7, holding(&SYNC, 1)),
                    and_second(7, holding(&SYNC, 1)),
                ],
                &[M::Mismatched, M::ContentKept],
            ),
        ),
        scenario(
            "entries-stranger",
            "a newcomer has other entries",
            0,
            vec![inside(&SYNC_AGAIN), and_second(7, outside(&SYNC))],
            &[M::Mismatched, M::ContentKept, M::Admitted],
        ),
        scenario(
            "entries-majority",
            "two newcomers agree on other entries than the one that was there",
            0,
            vec![
                inside(&SYNC_AGAIN),
                and_second(7, outside(&SYNC)),
                and_second(7, outside(&SYNC)),
            ],
            &[M::Mismatched, M::ContentKept, M::Admitted],
        ),
        scenario(
            "sync-newer",
            "a newcomer is one revision further than the group, which repeats its own",
            0,
            vec![
                inside(&SYNC_AGAIN),
                at_revision(1, holding_outside(&SYNC, 7)),
            ],
            &[M::ContentMoved, M::Admitted],
        ),
        scenario(
            "restart-all",
            "the only one that holds the reached revision goes away, and both would go back",
            1,
            vec![
                restarting(inside(&ADVANCE_AND_ADMIT)),
                restarting(outside(&SYNC)),
            ],
            &[M::Restarted, M::ContentMoved, M::Admitted],
        ),
        scenario(
            "restart-one",
            "nobody holds the reached revision any more, and one of two would go back",
            0,
            vec![
                inside(&LEAVER),
                restarting(outside(&SYNC)),
                holding_outside(&SYNC, 1),
            ],
            &[M::SyncFailed, M::Admitted],
        ),
        scenario(
            "sync-ahead",
            "a newcomer is ahead of the group",
            0,
            vec![inside(&ADVANCE_AND_ADMIT), at_revision(9, outside(&SYNC))],
            &[M::ContentKept, M::Admitted, M::ThrownOut],
        ),
        scenario(
            "sync-behind",
            "a newcomer that only sends is behind the group",
            0,
            vec![inside(&ADVANCE_AND_ADMIT), outside(&SEND_ONLY)],
            &[M::ContentKept, M::Admitted, M::SyncFailed],
        ),
        scenario(
            "sync-skips",
            "two compute twice between two synchronizations",
            0,
            vec![inside(&SKIPS); 2],
            &[M::ContentKept, M::SyncFailed],
        ),
        scenario(
            "entries-late",
            "two who may differ in one of two entries let a newcomer in, one of them when it has computed",
            0,
            vec![
                and_free(4, inside(&ADVANCE_THEN_ADMIT)),
                and_free(5, inside(&SYNC_AGAIN)),
                and_free(6, outside(&SYNC)),
            ],
            &[M::ContentMoved, M::PartMoved, M::Admitted],
        ),
        scenario(
            "entries-described",
            "one of three describes an entry otherwise, and calls it the same",
            0,
            vec![
                and_second(7, inside(&SYNC)),
                and_second(7, inside(&SYNC)),
                and_free(7, inside(&SYNC)),
            ],
            &[M::Mismatched],
        ),
        scenario(
            "sync-skips-apart",
            "two compute between two synchronizations, twice and three times",
            0,
            vec![inside(&SKIPS), inside(&SKIPS_MORE)],
            &[M::SyncFailed],
        ),
        scenario(
            "sync-outage",
            "two newcomers hold different content, and the only one that they could ask goes",
            0,
            vec![
                inside(&SYNC_UPDATE),
                outside(&SYNC),
                holding_outside(&SYNC, 7),
            ],
            &[M::ContentMoved],
        ),
        scenario(
            "restart-receiver",
            "one that would go back and one that only takes, and nobody holds the reached revision any more",
            0,
            vec![inside(&LEAVER), restarting(outside(&SYNC)), outside(&TAKE)],
            &[M::SyncFailed],
        ),
        scenario(
            "restart-ahead",
            "a newcomer is far ahead of the group, and both would go on from anywhere",
            0,
            vec![
                restarting(inside(&ADVANCE_AND_ADMIT)),
                restarting(at_revision(9, outside(&SYNC))),
            ],
            &[M::ContentMoved],
        ),
    ]
}
