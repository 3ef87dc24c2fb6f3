//! Looking for better rings.

use super::programs::{OPTIMIZE, OPTIMIZE_FIRST, UPDATE_OPTIMIZE};
use super::{inside, only, scenario};
use crate::milestone::Milestone as M;
use crate::scenario::{Fault, Scenario};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        scenario(
            "optimize-2",
            "two have nothing to choose",
            2,
            vec![inside(&OPTIMIZE); 2],
            &[M::Optimized, M::OptimizationFailed],
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
            &[M::Optimized, M::OptimizationFailed],
        ),
        only(
            &[Fault::Mute],
            scenario(
                "mute-optimize",
                "one of three never has its measurements",
                1,
                vec![inside(&OPTIMIZE); 3],
                &[M::Optimized, M::OptimizationFailed, M::Stalled],
            ),
        ),
    ]
}
