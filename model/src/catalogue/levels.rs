//! Collectives in two levels: inside each site, among the sites, and inside again.

use pccl_core::element::CollectiveKind;
use pccl_core::id::Membership;

use super::programs::REDUCE;
use super::{DEATHS_AND_BREAKS, at_site, inside, mesh, of_kind, only, scenario};
use crate::milestone::Milestone as M;
use crate::scenario::Scenario;

/// Users lay the shards out when they call.
const GATHER: CollectiveKind = CollectiveKind::AllGather {
    laid_out_for: Membership(0),
};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        three(
            "levels-3",
            "two peers of one site and one of another reduce, one may die or a link break",
        ),
        of_kind(
            CollectiveKind::ReduceScatter,
            three(
                "levels-scatter-3",
                "two peers of one site and one of another reduce and scatter, one may die or a link break",
            ),
        ),
        of_kind(
            GATHER,
            three(
                "levels-gather-3",
                "two peers of one site and one of another gather, one may die or a link break",
            ),
        ),
        mesh(only(
            &[],
            scenario(
                "levels-4",
                "two peers of each of two sites reduce",
                0,
                [0, 0, 1, 1]
                    .map(|site| at_site(site, inside(&REDUCE)))
                    .into(),
                &[M::Committed, M::WentInLevels],
            ),
        )),
    ]
}

fn three(name: &'static str, about: &'static str) -> Scenario {
    let seats = [0, 0, 1].map(|site| at_site(site, inside(&REDUCE)));
    let milestones = &[M::Committed, M::WentInLevels, M::Aborted, M::Recovered];
    mesh(only(
        DEATHS_AND_BREAKS,
        scenario(name, about, 1, seats.into(), milestones),
    ))
}
