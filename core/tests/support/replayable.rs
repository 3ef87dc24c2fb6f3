//! Random cases that anyone can run again.

use proptest::test_runner::{Config, RngSeed};

/// The same cases each time, so that a red build is red for everybody. `PROPTEST_RNG_SEED` names others and
/// `PROPTEST_CASES` asks for more of them: the long search. What fails is printed as the shortest input
/// that does.
pub(crate) fn replayable(cases: u32) -> Config {
    let default = Config::default();
    let rng_seed = match default.rng_seed {
        RngSeed::Random => RngSeed::Fixed(1),
        RngSeed::Fixed(chosen) => RngSeed::Fixed(chosen),
    };
    Config {
        cases,
        rng_seed,
        max_shrink_iters: 20_000,
        failure_persistence: None,
        ..default
    }
}
