//! Looking for better rings.

use super::programs::{
    OPTIMIZE, OPTIMIZE_FIRST, OPTIMIZE_ONLY, OPTIMIZE_SYNC, OPTIMIZE_TWICE, OPTIMIZE_TWICE_REDUCE,
    OPTIMIZE_UPDATE, REDUCE, SYNC, SYNC_AFTER_OPTIMIZE, UPDATE_ON_AND_ON, UPDATE_OPTIMIZE,
};
use super::{inside, large, only, outside, scenario, searches, shared};
use crate::milestone::Milestone as M;
use crate::scenario::{Fault, Scenario};
use crate::script::Program;

/// Updates pass over a call, but not for ever.
fn passed_over(name: &'static str, waits: &'static Program) -> Scenario {
    let about = "one waits in a call while another updates on and on";
    let seats = vec![inside(&UPDATE_ON_AND_ON), inside(waits)];
    scenario(name, about, 0, seats, &[M::GaveWay])
}

pub(super) fn all() -> Vec<Scenario> {
    vec![
        scenario(
            "optimize-2",
            "two have nothing to choose",
            2,
            vec![inside(&OPTIMIZE); 2],
            &[M::Optimized],
        ),
        scenario(
            "optimize-3",
            "three find a better ring and reduce on it",
            1,
            vec![inside(&OPTIMIZE); 3],
            &[M::Optimized, M::OptimizationFailed, M::Committed],
        ),
        scenario(
            "optimize-out-of-step",
            "one optimizes while another updates",
            1,
            vec![inside(&UPDATE_OPTIMIZE), inside(&OPTIMIZE_FIRST)],
            &[M::Optimized],
        ),
        passed_over("passed-over-1", &OPTIMIZE),
        passed_over("passed-over-2", &SYNC),
        passed_over("passed-over-3", &REDUCE),
        scenario(
            "optimize-or-sync",
            "one optimizes while another synchronizes",
            1,
            vec![inside(&OPTIMIZE_SYNC), inside(&SYNC_AFTER_OPTIMIZE)],
            &[M::GaveWay, M::Optimized, M::ContentKept],
        ),
        only(
            &[Fault::Crash, Fault::RefuseDial],
            scenario(
                "consent-optimize",
                "one waits to optimize while the other admits a newcomer",
                1,
                vec![
                    inside(&UPDATE_OPTIMIZE),
                    inside(&OPTIMIZE_FIRST),
                    outside(&OPTIMIZE),
                ],
                &[M::Admitted, M::Consented, M::WiredAgain, M::Optimized],
            ),
        ),
        only(
            &[Fault::Mute],
            scenario(
                "mute-optimize",
                "one of three never has its measurements",
                1,
                vec![inside(&OPTIMIZE_ONLY); 3],
                &[M::Optimized, M::OptimizationFailed],
            ),
        ),
        large(only(
            &[Fault::Crash],
            scenario(
                "optimize-large",
                "four of whose edges some are measured, and then those that the ring wants",
                1,
                vec![inside(&OPTIMIZE_ONLY); 4],
                &[M::Optimized, M::OptimizationFailed, M::EdgesWanted],
            ),
        )),
        only(
            &[Fault::Crash, Fault::Late],
            scenario(
                "optimize-again",
                "three look for a better ring twice: what is known is not measured again",
                1,
                vec![inside(&OPTIMIZE_TWICE); 3],
                &[M::Optimized],
            ),
        ),
        searches(only(
            &[Fault::Crash, Fault::RefuseDial],
            scenario(
                "background-update",
                "a search that goes on finds a better ring for the next update",
                1,
                vec![inside(&OPTIMIZE_UPDATE); 3],
                &[M::Optimized, M::Committed, M::BetterAdopted],
            ),
        )),
        searches(only(
            &[Fault::Crash],
            scenario(
                "background-again",
                "a search that goes on finds a better ring for the next look for one",
                1,
                vec![inside(&OPTIMIZE_TWICE_REDUCE); 3],
                &[M::Optimized, M::Committed],
            ),
        )),
        searches(only(
            &[],
            scenario(
                "background-join",
                "a newcomer makes what a search finds useless",
                0,
                vec![
                    inside(&OPTIMIZE_UPDATE),
                    inside(&OPTIMIZE_UPDATE),
                    inside(&OPTIMIZE_UPDATE),
                    outside(&REDUCE),
                ],
                &[M::Optimized, M::Admitted],
            ),
        )),
        shared(only(
            &[Fault::Crash, Fault::RefuseMeasure],
            scenario(
                "optimize-shared",
                "the edges of a ring are slower together than each by itself",
                1,
                vec![inside(&OPTIMIZE); 3],
                &[M::Optimized, M::OptimizationFailed, M::Committed],
            ),
        )),
        only(
            &[Fault::ClosePort],
            scenario(
                "optimize-port",
                "three look for a better ring, and nobody can reach one of them any more",
                1,
                vec![inside(&OPTIMIZE); 3],
                &[M::Optimized, M::OptimizationFailed],
            ),
        ),
    ]
}
