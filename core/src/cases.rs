//! Random cases of unit tests: the same ones each time, and first those that have failed before.

use proptest::test_runner::Config;

#[path = "../tests/support/replayable.rs"]
mod replayable;

/// This many cases. `PROPTEST_RNG_SEED` selects others.
pub(crate) fn cases(count: u32) -> Config {
    Config {
        failure_persistence: Config::default().failure_persistence,
        ..replayable::replayable(count)
    }
}
