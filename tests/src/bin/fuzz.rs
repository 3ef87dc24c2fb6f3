//! Fuzzes the targets of [`pccl_tests::fuzz`] without coverage: mutates kept inputs, for a time or a number of inputs.
//!
//! An input that makes a target panic is printed, and written to `fuzz-finding-TARGET` in the current folder.

use std::alloc::System;
use std::any::Any;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use pccl_tests::fuzz::corpus::kept;
use pccl_tests::fuzz::mutate::mutated;
use pccl_tests::fuzz::{TARGETS, Target, count_allocations_with, target};
use rand::SeedableRng;
use rand::rngs::StdRng;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Inputs of a target between two looks at the clock.
const BATCH: u64 = 64;

/// How long each target is fuzzed before it is the turn of the next one.
const TURN: Duration = Duration::from_secs(2);

/// Gives bytes to everything that reads bytes of others, and to both machines.
#[derive(Clone, Debug, Parser)]
struct Arguments {
    /// A target, or `all`.
    #[arg(long, default_value = "all")]
    target: String,
    /// How long, for all targets together.
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,
    /// Where all inputs come from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// A target, and what became of it.
struct Work {
    target: Target,
    inputs: Vec<Vec<u8>>,
    random: StdRng,
    done: u64,
    busy: Duration,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    count_allocations_with(|| ALLOCATOR.stats().bytes_allocated);
    let targets = match arguments.target.as_str() {
        "all" => TARGETS.to_vec(),
        name => target(name).into_iter().collect(),
    };
    if targets.is_empty() {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!(
            "there is no target {:?}; there are: {}",
            arguments.target,
            names.join(", ")
        );
        return ExitCode::FAILURE;
    }
    println!("seed {}", arguments.seed);
    let mut works: Vec<Work> = targets
        .into_iter()
        .zip(arguments.seed..)
        .map(|(target, seed)| Work::new(target, seed))
        .collect();
    let end = Instant::now() + Duration::from_secs_f64(60.0 * arguments.minutes);
    let mut turn = 0;
    let count = works.len();
    while Instant::now() < end {
        let until = end.min(Instant::now() + TURN);
        if let Err(found) = works[turn % count].fuzz(until) {
            eprintln!("{found}");
            return ExitCode::FAILURE;
        }
        turn += 1;
    }
    for work in works {
        let (name, done) = (work.target.name, work.done);
        println!(
            "{name:<15} {done:>12} inputs in {:>7.1} s",
            work.busy.as_secs_f64()
        );
    }
    ExitCode::SUCCESS
}

impl Work {
    fn new(target: Target, seed: u64) -> Self {
        let mut inputs = kept(target.name);
        inputs.push(Vec::new());
        Self {
            target,
            inputs,
            random: StdRng::seed_from_u64(seed),
            done: 0,
            busy: Duration::ZERO,
        }
    }

    /// Fuzzes until then. The error names the input that has found something.
    fn fuzz(&mut self, until: Instant) -> Result<(), String> {
        let begun = Instant::now();
        while Instant::now() < until {
            for _ in 0..BATCH {
                let input = mutated(&self.inputs, &mut self.random);
                let run = catch_unwind(AssertUnwindSafe(|| (self.target.run)(&input)));
                run.map_err(|panic| self.found(&input, panic.as_ref()))?;
                self.done += 1;
            }
        }
        self.busy += begun.elapsed();
        Ok(())
    }

    fn found(&self, input: &[u8], panic: &dyn Any) -> String {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let name = self.target.name;
        let file = format!("fuzz-finding-{name}");
        let kept = fs::write(&file, input).map_or("could not be written", |()| "has the input");
        format!(
            "{name}: {}\n{file} {kept}: {input:?}",
            text.unwrap_or("a panic")
        )
    }
}
