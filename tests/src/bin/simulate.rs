//! Simulated runs: `cargo run --release -p pccl-tests --bin simulate -- --seeds 10000`.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use pccl_tests::simulator::hangs::Hangs;
use pccl_tests::simulator::shrink::shrink;
use pccl_tests::simulator::{Counts, Outcome, Without, simulate};

/// Plays whole runs of the real master and the real client code under virtual time, with faults that are drawn from a
/// seed. Prints the story of each seed that fails, less what the failure does not need. Exit code 0: all is well.
#[derive(Debug, Parser)]
struct Arguments {
    /// The first seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many seeds, from that one on
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Play each seed twice, and compare the traces
    #[arg(long)]
    twice: bool,
    /// Print the whole story, also if all is well
    #[arg(long)]
    tell: bool,
    /// Print what the library logs (as RUST_LOG says)
    #[arg(long)]
    log: bool,
    /// Print the whole plan of a seed that fails, not a smaller one
    #[arg(long)]
    whole: bool,
    /// End with the first seed that fails
    #[arg(long)]
    first: bool,
    /// Seeds at a time
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// A seed that takes more seconds than this, by the clock on the wall, hangs: the program ends with exit code 3
    #[arg(long, default_value_t = 120)]
    hangs_after: u64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.log {
        let filter = tracing_subscriber::EnvFilter::from_default_env();
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .without_time()
            .init();
    }
    let begun = Instant::now();
    let tally = play_all(&arguments);
    let took = begun.elapsed();
    let Tally {
        counts,
        lasted,
        failed,
        played,
    } = tally;
    let hours = lasted.as_secs_f64() / 3600.0;
    println!(
        "{} of {played} seeds failed; {hours:.1} hours in {:.1} s ({:.0} hours per minute); {counts:?}",
        failed.len(),
        took.as_secs_f64(),
        hours / took.as_secs_f64() * 60.0
    );
    if !failed.is_empty() {
        println!("failed: {failed:?}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// What came of all seeds.
#[derive(Default)]
struct Tally {
    counts: Counts,
    lasted: Duration,
    failed: Vec<u64>,
    played: u64,
}

fn play_all(arguments: &Arguments) -> Tally {
    let next = AtomicU64::new(arguments.seed);
    let end = arguments.seed.saturating_add(arguments.seeds);
    let tally = Mutex::new(Tally::default());
    let hangs = Hangs::watch(Duration::from_secs(arguments.hangs_after));
    thread::scope(|scope| {
        for _ in 0..arguments.threads.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let outcome = play(seed, arguments, &hangs);
                    let mut tally = tally.lock().unwrap_or_else(|p| p.into_inner());
                    tally.add(seed, &outcome);
                    if arguments.first && !outcome.findings.is_empty() {
                        next.store(end, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    tally.into_inner().unwrap_or_else(|p| p.into_inner())
}

fn play(seed: u64, arguments: &Arguments, hangs: &Hangs) -> Outcome {
    let without = Without::default();
    let mut outcome = hangs.play(seed, || simulate(seed, &without, arguments.twice));
    if arguments.twice {
        let again = hangs.play(seed, || simulate(seed, &without, true));
        if again.traced != outcome.traced {
            let pairs = again.traced.steps.iter().zip(&outcome.traced.steps);
            let same = pairs.take_while(|(one, other)| one == other).count();
            let line = again.traced.lines.iter().zip(&outcome.traced.lines);
            let line = line.clone().find(|(one, other)| one != other);
            outcome.findings.push(format!(
                "another run of the same seed differs from event {same} of {} on, in the story at {line:?}",
                outcome.traced.events
            ));
        }
    }
    if arguments.tell {
        println!("{}", story(&outcome));
    }
    if !outcome.findings.is_empty() {
        println!("seed {seed} FAILED: {:?}", outcome.findings);
        let smaller = (!arguments.whole).then(|| shrink(seed)).flatten();
        if let Some((without, smaller)) = smaller {
            println!("the same seed without {without:?}:\n{}", story(&smaller));
        }
    }
    outcome
}

/// The plan, and what has happened.
fn story(outcome: &Outcome) -> String {
    let mut lines = vec![format!("{:#?}", outcome.plan)];
    lines.extend(outcome.traced.lines.iter().cloned());
    lines.push(format!(
        "{:?} {:?} hash {:x}",
        outcome.counts, outcome.lasted, outcome.traced.hash
    ));
    lines.extend(
        outcome
            .findings
            .iter()
            .map(|finding| format!("FOUND: {finding}")),
    );
    lines.join("\n")
}

impl Tally {
    fn add(&mut self, seed: u64, outcome: &Outcome) {
        self.played += 1;
        self.lasted += outcome.lasted;
        let (all, one) = (&mut self.counts, outcome.counts);
        all.steps += one.steps;
        all.commits += one.commits;
        all.errors += one.errors;
        all.losses += one.losses;
        all.faults += one.faults;
        all.tasks = all.tasks.max(one.tasks);
        all.pipes = all.pipes.max(one.pipes);
        if !outcome.findings.is_empty() {
            self.failed.push(seed);
        }
    }
}
