//! One fuzz target under libFuzzer: that with the name of the program.
#![no_main]

use std::alloc::System;

use libfuzzer_sys::fuzz_target;
use pccl_tests::fuzz::{count_allocations_with, target};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fuzz_target!(
    init: count_allocations_with(|| ALLOCATOR.stats().bytes_allocated),
    |data: &[u8]| {
        let target = target(env!("CARGO_BIN_NAME")).expect("each program has the name of a target");
        (target.run)(data);
    }
);
