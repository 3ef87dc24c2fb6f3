//! Synchronizing: every strategy, and every way to differ.

use super::programs::{ADVANCE_AND_ADMIT, POPULAR, RECEIVE, SEND, SYNC, SYNC_AGAIN, TRAIN};
use super::{
    from_several, holding, holding_outside, in_step, inside, only, outside, revised, scenario,
};
use crate::milestone::Milestone as M;
use crate::scenario::{Fault, Scenario};

pub(super) fn all() -> Vec<Scenario> {
    let all: &'static [M] = &[
        M::ContentMoved,
        M::ContentKept,
        M::SyncFailed,
        M::RevisionAdvanced,
    ];
    vec![
        scenario(
            "sync-2",
            "two with different content",
            2,
            vec![holding(&POPULAR, 1), holding(&POPULAR, 2)],
            all,
        ),
        scenario(
            "sync-3",
            "three, of whom two hold the same",
            2,
            vec![
                holding(&POPULAR, 1),
                holding(&POPULAR, 2),
                holding(&POPULAR, 2),
            ],
            all,
        ),
        scenario(
            "sync-tie",
            "three who all hold something else",
            1,
            vec![
                holding(&POPULAR, 3),
                holding(&POPULAR, 2),
                holding(&POPULAR, 1),
            ],
            all,
        ),
        scenario(
            "sync-send",
            "one sends, two take",
            1,
            vec![
                holding(&POPULAR, 1),
                holding(&POPULAR, 1),
                holding(&SEND, 2),
            ],
            &[
                M::ContentMoved,
                M::ContentKept,
                M::SyncFailed,
                M::RevisionAdvanced,
                M::SenderServed,
            ],
        ),
        scenario(
            "sync-lost",
            "the only one that holds the reached revision goes away",
            1,
            vec![inside(&ADVANCE_AND_ADMIT), outside(&SYNC)],
            &[M::SyncFailed, M::ContentMoved, M::Admitted],
        ),
        scenario(
            "sync-senders-differ",
            "two send-only peers hold different content",
            1,
            vec![holding(&SEND, 1), holding(&SEND, 2)],
            &[M::SyncFailed],
        ),
        scenario(
            "sync-receive",
            "one only takes, although it has company",
            1,
            vec![
                holding(&POPULAR, 1),
                holding(&RECEIVE, 2),
                holding(&RECEIVE, 2),
            ],
            &[
                M::ContentMoved,
                M::ContentKept,
                M::SyncFailed,
                M::RevisionAdvanced,
                M::ReceiverTook,
            ],
        ),
        scenario(
            "sync-nobody-sends",
            "all only take",
            1,
            vec![holding(&RECEIVE, 1), holding(&RECEIVE, 2)],
            &[M::SyncFailed],
        ),
        scenario(
            "sync-older",
            "one holds an older revision",
            1,
            vec![
                revised(&POPULAR, 1, 3),
                revised(&POPULAR, 2, 5),
                revised(&POPULAR, 2, 5),
            ],
            &[M::ContentMoved, M::RevisionAdvanced],
        ),
        in_step(scenario(
            "sync-join",
            "a newcomer takes what the others have",
            1,
            vec![inside(&TRAIN), holding_outside(&TRAIN, 7)],
            &[M::ContentMoved, M::Admitted],
        )),
        only(
            &[Fault::BreakFetch],
            scenario(
                "unfetchable-3",
                "one of two cannot fetch from the only holder",
                2,
                vec![
                    holding(&SYNC_AGAIN, 1),
                    holding(&SYNC_AGAIN, 2),
                    holding(&SYNC_AGAIN, 3),
                ],
                &[M::ContentMoved, M::SyncFailed, M::SetAside],
            ),
        ),
        only(
            &[Fault::Crash, Fault::BreakFetch],
            from_several(scenario(
                "holders-3",
                "one of three fetches from both others",
                2,
                vec![
                    holding(&SYNC_AGAIN, 1),
                    holding(&SYNC_AGAIN, 1),
                    holding(&SYNC_AGAIN, 2),
                ],
                &[M::ContentMoved, M::SyncFailed, M::TookFromSeveral],
            )),
        ),
        only(
            &[Fault::BreakFetch],
            from_several(in_step(scenario(
                "holders-join",
                "a newcomer fetches from both others",
                2,
                vec![inside(&TRAIN), inside(&TRAIN), holding_outside(&TRAIN, 7)],
                &[M::ContentMoved, M::Admitted, M::TookFromSeveral],
            ))),
        ),
        only(
            &[Fault::Mute],
            scenario(
                "mute-sync",
                "one of three never comes to the end of its transfers",
                1,
                vec![
                    holding(&POPULAR, 1),
                    holding(&POPULAR, 2),
                    holding(&POPULAR, 2),
                ],
                &[M::ContentMoved, M::SyncFailed, M::Stalled],
            ),
        ),
    ]
}
