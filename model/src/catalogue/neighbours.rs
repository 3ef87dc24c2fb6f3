//! Pairs that cannot be neighbours, where there are others, and groups that are none of each other's business.

use super::programs::{
    CONNECT, REDUCE, REDUCE_TWICE, TAGS_12, TAGS_21, UPDATE, UPDATE_REDUCE, UPDATE_TWICE,
};
use super::{by_halves, in_group, inside, only, outside, scenario, small};
use crate::milestone::Milestone as M;
use crate::scenario::{Fault, Scenario};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        by_halves(only(
            &[Fault::RefuseDial, Fault::Late],
            scenario(
                "halves-2",
                "lanes that come up at one end, or too late",
                2,
                vec![inside(&UPDATE_REDUCE), outside(&REDUCE)],
                &[M::Admitted, M::WiredAgain, M::Committed],
            ),
        )),
        only(
            &[Fault::BreakLink, Fault::RefuseDial],
            small(scenario(
                "cut-off-2",
                "two that cannot be connected any more, whoever tries",
                3,
                vec![inside(&REDUCE); 2],
                &[M::Aborted, M::Recovered, M::WiredAgain, M::ThrownOut],
            )),
        ),
        only(
            &[Fault::Late],
            small(scenario(
                "late-2",
                "two that are slow now and then",
                2,
                vec![inside(&REDUCE_TWICE); 2],
                &[M::Committed, M::Aborted, M::Recovered, M::ThrownOut],
            )),
        ),
        only(
            &[Fault::Late],
            small(scenario(
                "not-joined-2",
                "two of whom each waits for the other to begin something else",
                1,
                vec![inside(&TAGS_12), inside(&TAGS_21)],
                &[M::Committed, M::GaveWay],
            )),
        ),
        only(
            &[Fault::RefuseDial],
            scenario(
                "refuse-4",
                "a newcomer to three of whom it cannot be connected with each",
                2,
                vec![
                    inside(&UPDATE),
                    inside(&UPDATE),
                    inside(&UPDATE),
                    outside(&CONNECT),
                ],
                &[M::Admitted, M::WiredAgain, M::RoutedAround],
            ),
        ),
        only(
            &[Fault::ClosePort],
            scenario(
                "port-4",
                "a newcomer to three, one of whom nobody can reach any more",
                1,
                vec![
                    inside(&UPDATE),
                    inside(&UPDATE),
                    inside(&UPDATE),
                    outside(&CONNECT),
                ],
                &[M::Admitted, M::WiredAgain, M::RoutedAround],
            ),
        ),
        only(
            &[Fault::BreakLink, Fault::RefuseDial],
            scenario(
                "break-4",
                "four peers, an edge of whose ring breaks and is not connected again",
                2,
                vec![inside(&UPDATE); 4],
                &[M::WiredAgain, M::RoutedAround],
            ),
        ),
        only(
            &[Fault::BreakLink],
            small(scenario(
                "groups-2-2",
                "two groups of two, and an edge of one of them breaks",
                1,
                vec![
                    inside(&UPDATE_REDUCE),
                    inside(&UPDATE_REDUCE),
                    in_group(1, inside(&UPDATE)),
                    in_group(1, inside(&UPDATE)),
                ],
                &[M::Committed],
            )),
        ),
        by_halves(only(
            &[Fault::Late, Fault::RefuseDial],
            scenario(
                "halves-3",
                "a newcomer to two, and lanes that come up at one end, or too late",
                2,
                vec![inside(&UPDATE), inside(&UPDATE), outside(&CONNECT)],
                &[M::Admitted, M::WiredAgain],
            ),
        )),
        only(
            &[Fault::ClosePort],
            scenario(
                "ports-4",
                "two newcomers to two, some of whom nobody can reach any more",
                2,
                vec![
                    inside(&UPDATE),
                    inside(&UPDATE),
                    outside(&CONNECT),
                    outside(&CONNECT),
                ],
                &[M::Admitted, M::WiredAgain],
            ),
        ),
        only(
            &[Fault::RefuseDial],
            scenario(
                "left-out-3",
                "a newcomer to two that let others in twice, and cannot be connected the first time",
                2,
                vec![
                    inside(&UPDATE_TWICE),
                    inside(&UPDATE_TWICE),
                    outside(&REDUCE),
                ],
                &[M::Admitted, M::WiredAgain],
            ),
        ),
    ]
}
