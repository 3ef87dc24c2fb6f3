//! Collectives other than all-reduces.

use pccl_core::element::CollectiveKind;
use pccl_core::id::{Membership, PeerId};
use pccl_core::plan::Algorithm;

use super::programs::{OPTIMIZE, REDUCE, REDUCE_TWICE};
use super::{
    DEATHS_AND_BREAKS, free_frames, inside, mesh, of_kind, one_machine, only, scenario, wish_for,
};
use crate::milestone::Milestone as M;
use crate::scenario::{Fault, Scenario};

/// Of three, neither the first nor the last.
const ROOT: CollectiveKind = CollectiveKind::Broadcast { root: PeerId(2) };

/// Users lay the shards out when they call.
const GATHER: CollectiveKind = CollectiveKind::AllGather {
    laid_out_for: Membership(0),
};

/// Users say how many elements they have when they call.
const fn gather_v(limit: u64) -> CollectiveKind {
    CollectiveKind::AllGatherV { own: 0, limit }
}

/// As many elements as each likes.
fn of_lengths() -> Vec<Scenario> {
    vec![
        of_kind(
            gather_v(100),
            free_frames(three(
                "gather-v-3",
                "three peers gather around the ring as much as each has, one may die or a link break",
                &[
                    M::Committed,
                    M::Aborted,
                    M::RestoredWhole,
                    M::Recovered,
                    M::Rewired,
                ],
            )),
        ),
        of_kind(
            gather_v(100),
            mesh(three(
                "mesh-gather-v-3",
                "three peers gather directly as much as each has, one may die or a link break",
                &[M::Committed, M::WentDirectly, M::Aborted, M::Recovered],
            )),
        ),
        of_kind(
            gather_v(2),
            scenario(
                "gather-v-limit-2",
                "two peers want to gather more than they allow; alone each may, if anything goes wrong",
                1,
                vec![inside(&REDUCE); 2],
                &[M::TooLong, M::Committed],
            ),
        ),
        of_kind(
            gather_v(100),
            scenario(
                "optimize-gather-v-3",
                "three find a better ring and gather on it as much as each has",
                0,
                vec![inside(&OPTIMIZE); 3],
                &[M::Optimized, M::Committed],
            ),
        ),
    ]
}

pub(super) fn all() -> Vec<Scenario> {
    let mut all = of_lengths();
    all.extend(of_buffers());
    all
}

fn of_buffers() -> Vec<Scenario> {
    vec![
        of_kind(
            CollectiveKind::ReduceScatter,
            free_frames(three(
                "scatter-3",
                "three peers reduce and scatter around the ring, one may die or a link break",
                &[
                    M::Committed,
                    M::Aborted,
                    M::RestoredWhole,
                    M::Recovered,
                    M::Rewired,
                ],
            )),
        ),
        of_kind(
            GATHER,
            free_frames(three(
                "gather-3",
                "three peers gather around the ring, one may die or a link break",
                &[
                    M::Committed,
                    M::Aborted,
                    M::RestoredWhole,
                    M::Recovered,
                    M::LaidOutAnew,
                ],
            )),
        ),
        of_kind(
            ROOT,
            free_frames(three(
                "broadcast-3",
                "a peer broadcasts to two, one of the three may die or a link break",
                &[
                    M::Committed,
                    M::Aborted,
                    M::RestoredWhole,
                    M::Recovered,
                    M::RootGone,
                ],
            )),
        ),
        // So many bytes take the chain, if nobody wishes for anything else.
        wish_for(
            Algorithm::Tree,
            of_kind(
                ROOT,
                mesh(three(
                    "mesh-broadcast-3",
                    "a peer broadcasts directly to two, one of the three may die or a link break",
                    &[
                        M::Committed,
                        M::WentDirectly,
                        M::Aborted,
                        M::Recovered,
                        M::RootGone,
                    ],
                )),
            ),
        ),
        of_kind(
            CollectiveKind::Barrier,
            scenario(
                "barrier-2",
                "two peers wait for each other twice, and anything may go wrong once",
                1,
                vec![inside(&REDUCE_TWICE); 2],
                &[
                    M::Committed,
                    M::CommittedWithoutOne,
                    M::Aborted,
                    M::Recovered,
                ],
            ),
        ),
        of_kind(
            CollectiveKind::ReduceScatter,
            mesh(three(
                "mesh-scatter-3",
                "three peers reduce and scatter directly, one may die or a link break",
                &[M::Committed, M::WentDirectly, M::Aborted, M::Recovered],
            )),
        ),
        of_kind(
            GATHER,
            mesh(three(
                "mesh-gather-3",
                "three peers gather directly, one may die or a link break",
                &[M::Committed, M::WentDirectly, M::Aborted, M::Recovered],
            )),
        ),
        of_kind(
            CollectiveKind::ReduceScatter,
            one_machine(mesh(only(
                &[Fault::Crash],
                three(
                    "rounds-scatter-3",
                    "three peers of one machine reduce and scatter in rounds, one may die",
                    &[M::Committed, M::WentInRounds, M::Aborted, M::Recovered],
                ),
            ))),
        ),
        of_kind(
            GATHER,
            one_machine(mesh(only(
                &[Fault::Crash],
                three(
                    "rounds-gather-3",
                    "three peers of one machine gather in rounds, and one may die",
                    &[M::Committed, M::WentInRounds, M::Aborted, M::Recovered],
                ),
            ))),
        ),
    ]
}

fn three(name: &'static str, about: &'static str, milestones: &'static [M]) -> Scenario {
    let seats = vec![inside(&REDUCE); 3];
    only(
        DEATHS_AND_BREAKS,
        scenario(name, about, 1, seats, milestones),
    )
}
