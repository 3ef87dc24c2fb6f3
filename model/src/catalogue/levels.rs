//! Collectives in two levels: inside each site, among the sites, and inside again.

use pccl_core::element::CollectiveKind;
use pccl_core::id::{Membership, PeerId};
use pccl_core::plan::Algorithm;

use super::programs::{OPTIMIZE, OPTIMIZE_UPDATE, REDUCE};
use super::{
    DEATHS_AND_BREAKS, at_site, inside, mesh, of_kind, only, outside, scenario, wish_for,
    with_remote,
};
use crate::milestone::Milestone as M;
use crate::scenario::{Fault, Scenario};

/// Users lay the shards out when they call.
const GATHER: CollectiveKind = CollectiveKind::AllGather {
    laid_out_for: Membership(0),
};

/// The root is alone at its site: the gateway of the other one sends to the third peer.
const ROOT: CollectiveKind = CollectiveKind::Broadcast { root: PeerId(3) };

pub(super) fn all() -> Vec<Scenario> {
    vec![
        // Between two sites an all-reduce has all sums at both, if nobody wishes for anything else.
        wish_for(
            Algorithm::TwoLevel,
            three(
                "levels-3",
                "two peers of one site and one of another reduce, one may die or a link break",
            ),
        ),
        wish_for(
            Algorithm::TwoLevelWhole,
            Scenario {
                milestones: &[M::Committed, M::SummedAtAllSites, M::Aborted, M::Recovered],
                ..three(
                    "levels-whole-3",
                    "two peers of one site and one of another have both sums, one may die or a link break",
                )
            },
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
        // So many bytes take the chain, if nobody wishes for anything else.
        wish_for(
            Algorithm::TwoLevel,
            of_kind(
                ROOT,
                Scenario {
                    milestones: &[
                        M::Committed,
                        M::WentInLevels,
                        M::Aborted,
                        M::Recovered,
                        M::RootGone,
                    ],
                    ..three(
                        "levels-broadcast-3",
                        "a peer broadcasts to two of another site, one of the three may die or a link break",
                    )
                },
            ),
        ),
        // So few bytes travel directly, if nobody wishes for anything else.
        wish_for(
            Algorithm::TwoLevel,
            with_remote(
                &[3],
                mesh(only(
                    &[Fault::Crash],
                    scenario(
                        "levels-found-3",
                        "of three that name no site one is found to be far away, and they reduce in two levels",
                        1,
                        vec![inside(&OPTIMIZE); 3],
                        &[M::Optimized, M::Committed, M::WentInLevels, M::Recovered],
                    ),
                )),
            ),
        ),
        with_remote(
            &[3],
            mesh(only(
                &[],
                scenario(
                    "levels-found-join",
                    "a newcomer to three between whom two sites are found",
                    0,
                    vec![
                        inside(&OPTIMIZE_UPDATE),
                        inside(&OPTIMIZE_UPDATE),
                        inside(&OPTIMIZE_UPDATE),
                        outside(&REDUCE),
                    ],
                    &[M::Optimized, M::Admitted, M::WentInLevels],
                ),
            )),
        ),
        wish_for(
            Algorithm::TwoLevel,
            four(
                "levels-4",
                "two peers of each of two sites reduce",
                [0, 0, 1, 1],
                &[M::Committed, M::WentInLevels],
            ),
        ),
        wish_for(
            Algorithm::TwoLevelWhole,
            four(
                "levels-whole-4",
                "two peers of one site and one of each of two others have the sums of all sites",
                [0, 0, 1, 2],
                &[M::Committed, M::SummedAtAllSites],
            ),
        ),
        // So few bytes take the other plan in two levels, if nobody wishes for anything else.
        wish_for(
            Algorithm::TwoLevelRing,
            four(
                "levels-ring-4",
                "two peers of one site and one of each of two others reduce around a ring of the sites",
                [0, 0, 1, 2],
                &[M::Committed, M::WentFromSiteToSite],
            ),
        ),
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

/// Without faults: with one, four peers are too many to explore.
fn four(
    name: &'static str,
    about: &'static str,
    sites: [u8; 4],
    milestones: &'static [M],
) -> Scenario {
    let seats = sites.map(|site| at_site(site, inside(&REDUCE)));
    mesh(only(
        &[],
        scenario(name, about, 0, seats.into(), milestones),
    ))
}
