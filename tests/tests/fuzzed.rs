//! The fuzz targets over their kept inputs, and over some changes of each.

use std::alloc::System;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pccl_tests::fuzz::corpus::kept;
use pccl_tests::fuzz::mutate::mutated;
use pccl_tests::fuzz::{TARGETS, count_allocations_with};
use rand::SeedableRng;
use rand::rngs::StdRng;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Changed inputs for each target.
const CHANGED: u64 = 300;

/// One test, because allocations are those of the whole program.
#[test]
fn no_target_panics_or_allocates_much_on_any_kept_input_or_on_changes_of_one() {
    count_allocations_with(|| ALLOCATOR.stats().bytes_allocated);
    for target in TARGETS {
        let inputs = kept(target.name);
        assert!(!inputs.is_empty(), "{} has no kept inputs", target.name);
        let changed = (0..CHANGED).map(|seed| {
            let mut random = StdRng::seed_from_u64(seed);
            mutated(&inputs, &mut random)
        });
        for input in inputs.iter().cloned().chain(changed) {
            let run = catch_unwind(AssertUnwindSafe(|| (target.run)(&input)));
            assert!(run.is_ok(), "{} on {input:?}", target.name);
        }
    }
}

#[test]
fn each_target_is_a_program_of_libfuzzer() {
    let manifest = include_str!("../libfuzzer/Cargo.toml");
    let programs = manifest.split("[[bin]]").skip(1).filter_map(|bin| {
        let name = bin.split("name = \"").nth(1)?;
        name.split('"').next()
    });
    let targets: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();

    assert_eq!(programs.collect::<Vec<_>>(), targets);
}
