//! Newcomers that are lost while they are admitted: `cargo run --release -p pccl-tests --bin admissions`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use pccl_tests::losses::{Loop, Loss, Outcome, lose_all};
use pccl_tests::processes::Trouble;
use pccl_tests::readme::Program;
use pccl_tests::roles::Role;
use pccl_tests::talk::Nanos;
use pccl_tests::times::quantile;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

/// Numbers of peers that go on, one run after the other.
const VETERANS: [usize; 3] = [2, 3, 4];

/// Loses newcomers at each point of their admission, by a kill and by a cut of their connection to the
/// master, and measures how long the peers of the run need until all of them have the result of a reduce
/// that began after it. Exit code 0 only if all of them always do, in time, with right results.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    role: Option<Role>,
    /// Newcomers to lose
    #[arg(long, default_value_t = 200)]
    times: usize,
    /// In which order
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Milliseconds that the others may take
    #[arg(long, default_value_t = 1000)]
    within_ms: u64,
    /// Lose newcomers and veterans at each point of the README's first program, not at those of an admission
    #[arg(long)]
    readme: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(role) = &arguments.role {
        return role.run();
    }
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("admissions: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<bool, Trouble> {
    let program: PathBuf = std::env::current_exe()?;
    let (of, cells) = match arguments.readme {
        true => (Loop::Readme(Program::Run), Loss::of_readme()),
        false => (Loop::Usual, Loss::of_admission()),
    };
    let mut losses: Vec<Loss> = cells.into_iter().cycle().take(arguments.times).collect();
    losses.shuffle(&mut StdRng::seed_from_u64(arguments.seed));
    let mut outcomes: Vec<Outcome> = Vec::new();
    let each = losses.len().div_ceil(VETERANS.len()).max(1);
    for (part, peers) in losses.chunks(each).zip(VETERANS) {
        eprintln!("{} losses beside {peers} veterans", part.len());
        outcomes.extend(lose_all(&program, of, peers, part, |outcome| {
            if let Err(trouble) = &outcome.recovery {
                eprintln!("{}: {trouble}", outcome.loss);
            }
        })?);
    }
    let limit = Duration::from_millis(arguments.within_ms);
    println!("{}", table(&outcomes, limit));
    let in_time = outcomes.iter().filter(|outcome| is_in_time(outcome, limit));
    Ok(in_time.count() == outcomes.len())
}

fn is_in_time(outcome: &Outcome, limit: Duration) -> bool {
    let took = outcome.recovery.as_ref().ok();
    took.is_some_and(|took| Duration::from_nanos(*took) <= limit)
}

fn table(outcomes: &[Outcome], limit: Duration) -> String {
    let mut cells: BTreeMap<Loss, Vec<&Outcome>> = BTreeMap::new();
    for outcome in outcomes {
        cells.entry(outcome.loss).or_default().push(outcome);
    }
    let mut lines = vec![
        "From a loss to the result of a reduce that began after it, at the last of the others"
            .to_owned(),
        String::new(),
        format!("{:56} times  went on  median ms  max ms", "lost"),
    ];
    for (loss, outcomes) in &cells {
        lines.push(line(&loss.to_string(), outcomes.iter().copied()));
    }
    lines.push(line("all", outcomes.iter()));
    let in_time = outcomes.iter().filter(|outcome| is_in_time(outcome, limit));
    lines.push(format!(
        "\n{} of {} within {limit:?}",
        in_time.count(),
        outcomes.len()
    ));
    lines.join("\n")
}

fn line<'a>(name: &str, outcomes: impl Iterator<Item = &'a Outcome>) -> String {
    let outcomes: Vec<&Outcome> = outcomes.collect();
    let took = outcomes
        .iter()
        .filter_map(|outcome| outcome.recovery.as_ref().ok().copied());
    let took: Vec<Nanos> = took.collect();
    let ms = |share| quantile(took.iter().copied(), share) as f64 / 1e6;
    format!(
        "{name:56} {:5} {:8} {:10.1} {:7.1}",
        outcomes.len(),
        took.len(),
        ms(0.5),
        ms(1.0)
    )
}
