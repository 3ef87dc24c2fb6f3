//! The master's policy under virtual time: `cargo run --release -p pccl-tests --bin policy`.

use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;

use clap::Parser;
use pccl_tests::policy::situations::{Situation, all};
use pccl_tests::policy::table;

/// Tries situations in which things go wrong, with the real machines and a virtual clock: how long until
/// the run goes on, and who is lost. Exit code 0 only if everything is as expected.
#[derive(Debug, Parser)]
struct Arguments {
    /// Where everything that is drawn comes from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds, from that one on
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Only situations whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// Print every message of these situations
    #[arg(long)]
    tell: bool,
    /// Situations at a time
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let wanted = |situation: &Situation| situation.name.contains(&arguments.only);
    let mut failed = 0;
    let mut tried = 0;
    for seed in arguments.seed..arguments.seed.saturating_add(arguments.seeds) {
        println!("seed {seed}\n{}", table::head());
        let names: Vec<usize> = (0..all().len()).filter(|no| wanted(&all()[*no])).collect();
        tried += names.len();
        failed += try_all(&names, seed, &arguments);
    }
    println!("{failed} of {tried} situations are not as expected");
    if failed == 0 && tried > 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Tries them on several threads, prints a line of each in their order, and counts those that failed.
fn try_all(numbers: &[usize], seed: u64, arguments: &Arguments) -> usize {
    let next = Mutex::new(0);
    let printed = Mutex::new(Printer::default());
    let take = || {
        let mut next = next.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *next += 1;
        *next - 1
    };
    thread::scope(|scope| {
        for _ in 0..arguments.threads.max(1) {
            scope.spawn(|| {
                let situations = all();
                loop {
                    let place = take();
                    let Some(number) = numbers.get(place) else {
                        return;
                    };
                    let (line, ok) = try_one(&situations[*number], seed, arguments.tell);
                    let mut printed = printed.lock().unwrap_or_else(|p| p.into_inner());
                    printed.add(place, line, ok);
                }
            });
        }
    });
    let printed = printed.into_inner().unwrap_or_else(|p| p.into_inner());
    printed.failed
}

fn try_one(situation: &Situation, seed: u64, tell: bool) -> (String, bool) {
    let mut trial = situation.stage(seed);
    trial.world.tells = tell;
    let (within, may_lose) = (trial.within, trial.may_lose);
    let outcome = trial.run();
    let line = table::line(&situation.name, &outcome, within, may_lose);
    (line, outcome.wrong.is_empty())
}

/// Prints lines in their order, whichever is ready first.
#[derive(Default)]
struct Printer {
    waiting: std::collections::BTreeMap<usize, String>,
    next: usize,
    failed: usize,
}

impl Printer {
    fn add(&mut self, place: usize, line: String, ok: bool) {
        self.failed += usize::from(!ok);
        self.waiting.insert(place, line);
        while let Some(line) = self.waiting.remove(&self.next) {
            println!("{line}");
            self.next += 1;
        }
    }
}
