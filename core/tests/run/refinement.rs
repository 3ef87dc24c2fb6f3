//! The master against the reference ([`crate::reference`]), which follows every [`Run`](crate::harness::Run)
//! of these tests: long scripts of calls and faults, compared after each input of the master.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngSeed, TestRunner};

use crate::walk::{Move, any_move, play, walk};

/// The same cases in every run, unless `PROPTEST_RNG_SEED` says otherwise. A failure prints the
/// shortest script that fails, with its seed.
fn fixed_cases(cases: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    let rng_seed = match default.rng_seed {
        RngSeed::Random => RngSeed::Fixed(0x5EED),
        chosen @ RngSeed::Fixed(_) => chosen,
    };
    ProptestConfig {
        cases,
        rng_seed,
        max_shrink_iters: 20_000,
        failure_persistence: None,
        ..default
    }
}
