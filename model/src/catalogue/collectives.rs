//! Collectives: one tag and two, retries, mistakes, leaving in the middle.

use super::programs::{
    CANCEL, CANCEL_AND_GO, CANCEL_THEN_UPDATE, CONNECT, LONGER, ODD, QUIT, REDUCE, REDUCE_TWICE,
    TAGS_12, TAGS_21, TWICE, UPDATE_REDUCE,
};
use super::{DEATHS_AND_BREAKS, free_frames, in_group, inside, only, outside, scenario, small};
use crate::milestone::Milestone as M;
use crate::scenario::{Fault, Scenario};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        free_frames(scenario(
            "reduce-2",
            "two peers reduce twice, and retry what is aborted",
            2,
            vec![inside(&REDUCE_TWICE); 2],
            &[
                M::Committed,
                M::CommittedWithoutOne,
                M::Aborted,
                M::RestoredWhole,
                M::Recovered,
                M::Rewired,
                M::LostMasterUndecided,
                M::NoticedBySilence,
                M::LeftAtTheEnd,
            ],
        )),
        only(
            DEATHS_AND_BREAKS,
            scenario(
                "reduce-3",
                "three peers reduce",
                1,
                vec![inside(&REDUCE); 3],
                &[
                    M::Committed,
                    M::CommittedWithoutOne,
                    M::Aborted,
                    M::RestoredWhole,
                    M::Recovered,
                    M::Rewired,
                    M::WiredAgain,
                ],
            ),
        ),
        small(free_frames(scenario(
            "small-2",
            "two peers reduce buffers that travel whole, and retry what is aborted",
            2,
            vec![inside(&REDUCE); 2],
            &[
                M::Committed,
                M::CommittedWithoutOne,
                M::TravelledWhole,
                M::Aborted,
                M::RestoredWhole,
                M::Recovered,
                M::Rewired,
            ],
        ))),
        small(free_frames(scenario(
            "small-3",
            "three peers reduce buffers that travel whole, and anything may go wrong once",
            1,
            vec![inside(&REDUCE); 3],
            &[
                M::Committed,
                M::CommittedWithoutOne,
                M::TravelledWhole,
                M::Aborted,
                M::RestoredWhole,
                M::Recovered,
                M::Rewired,
            ],
        ))),
        free_frames(scenario(
            "tags-2",
            "two reduces at once, begun in either order",
            1,
            vec![inside(&TAGS_12), inside(&TAGS_21)],
            &[
                M::Committed,
                M::Aborted,
                M::TwoTagsAtOnce,
                M::Recovered,
                M::Rewired,
            ],
        )),
        scenario(
            "tags-3",
            "two reduces at once among three",
            0,
            vec![inside(&TAGS_12), inside(&TAGS_21), inside(&TAGS_12)],
            &[M::Committed, M::TwoTagsAtOnce],
        ),
        scenario(
            "reduce-3-any",
            "three peers reduce, and anything may go wrong once",
            1,
            vec![inside(&REDUCE); 3],
            &[
                M::Committed,
                M::CommittedWithoutOne,
                M::Aborted,
                M::RestoredWhole,
                M::Recovered,
                M::Rewired,
                M::NoticedBySilence,
            ],
        ),
        scenario(
            "groups-2-1-any",
            "two groups, and anything may go wrong once",
            1,
            vec![
                inside(&UPDATE_REDUCE),
                inside(&UPDATE_REDUCE),
                in_group(1, inside(&UPDATE_REDUCE)),
            ],
            &[M::Committed, M::Aborted, M::Recovered],
        ),
        only(
            DEATHS_AND_BREAKS,
            scenario(
                "quit-3",
                "one leaves in the middle of a reduce",
                1,
                vec![inside(&REDUCE), inside(&REDUCE), inside(&QUIT)],
                &[M::Aborted, M::Recovered],
            ),
        ),
        free_frames(scenario(
            "quit-2",
            "one of two leaves in the middle of a reduce",
            2,
            vec![inside(&REDUCE), inside(&QUIT)],
            &[M::Aborted, M::Recovered],
        )),
        free_frames(scenario(
            "cancel-2",
            "one gives a reduce up",
            1,
            vec![inside(&REDUCE), inside(&CANCEL)],
            &[M::Committed, M::Aborted],
        )),
        free_frames(scenario(
            "misuse-2",
            "one starts a tag that is in use",
            1,
            vec![inside(&REDUCE), inside(&TWICE)],
            &[M::Committed, M::Aborted],
        )),
        free_frames(scenario(
            "disagree-2",
            "the two want different things under one tag",
            1,
            vec![inside(&REDUCE), inside(&ODD)],
            &[],
        )),
        only(
            DEATHS_AND_BREAKS,
            free_frames(scenario(
                "withdraw-2",
                "one gives a reduce up while the ring is rebuilt, and goes on",
                1,
                vec![inside(&UPDATE_REDUCE), inside(&CANCEL_AND_GO)],
                &[M::Committed, M::Aborted, M::Rewired],
            )),
        ),
        scenario(
            "withdraw-groups",
            "one gives a reduce up while another group's ring is built",
            0,
            vec![
                inside(&UPDATE_REDUCE),
                inside(&CANCEL_AND_GO),
                in_group(1, outside(&REDUCE)),
                in_group(1, outside(&REDUCE)),
            ],
            &[M::Committed, M::Admitted, M::Consented],
        ),
    ]
    .into_iter()
    .chain(that_hold_up())
    .collect()
}

/// Edges and peers that live and are of no use.
fn that_hold_up() -> Vec<Scenario> {
    vec![
        only(
            &[Fault::BlackHole],
            free_frames(scenario(
                "black-hole-2",
                "two peers between whom lanes come up and carry nothing",
                1,
                vec![inside(&REDUCE_TWICE); 2],
                &[M::Aborted, M::Recovered, M::ThrownOut],
            )),
        ),
        only(
            &[Fault::BlackHole],
            scenario(
                "black-hole-3",
                "three peers, of whom two cannot be neighbours",
                1,
                vec![inside(&REDUCE_TWICE); 3],
                &[M::Aborted, M::Recovered, M::ThrownOut],
            ),
        ),
        only(
            &[Fault::BlackHole],
            small(scenario(
                "black-hole-4",
                "four peers, of whom two cannot be neighbours, and nobody has to go",
                1,
                vec![inside(&REDUCE); 4],
                &[M::Aborted, M::Recovered, M::Rewired],
            )),
        ),
        only(
            &[Fault::ClosePort, Fault::BreakLink],
            free_frames(scenario(
                "port-2",
                "two peers, one of whom nobody can reach any more",
                2,
                vec![inside(&REDUCE); 2],
                &[M::Aborted, M::Recovered, M::WiredAgain],
            )),
        ),
        only(
            &[Fault::Mute, Fault::Crash],
            free_frames(scenario(
                "mute-2",
                "two peers, one of whom never votes on an outcome",
                2,
                vec![inside(&REDUCE); 2],
                &[M::Aborted, M::Recovered, M::Stalled],
            )),
        ),
        only(
            &[Fault::Mute],
            scenario(
                "mute-3",
                "three peers, one of whom never votes on an outcome",
                1,
                vec![inside(&REDUCE); 3],
                &[M::Aborted, M::Recovered, M::Stalled],
            ),
        ),
        scenario(
            "disagree-3",
            "two of three want something else, each in another respect",
            0,
            vec![inside(&REDUCE), inside(&LONGER), inside(&ODD)],
            &[],
        ),
        only(
            &[Fault::BreakLink],
            small(scenario(
                "withdraw-3",
                "two give a reduce up while the ring is rebuilt, and then let a newcomer in",
                1,
                vec![
                    inside(&CANCEL_THEN_UPDATE),
                    inside(&CANCEL_THEN_UPDATE),
                    outside(&CONNECT),
                ],
                &[M::Admitted, M::Rewired],
            )),
        ),
    ]
}
