//! Proves that our checks can fail: `cargo run -p pccl-tests --bin mistakes -- drivers`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use pccl_tests::mistakes::copy::Copy;
use pccl_tests::mistakes::trial::{Bench, Verdict};
use pccl_tests::mistakes::{DRIVERS, FoundBy, LIMITS, Mistake};

/// Makes mistakes by hand, one after the other, in a copy of the workspace below the target directory, and runs the
/// check that has to see each. At the end the checks run without a mistake, and must see nothing. Exit code 0: every
/// mistake was found.
#[derive(Debug, Parser)]
struct Arguments {
    /// Which list
    #[arg(value_enum, default_value_t = Which::All)]
    which: Which,
    /// Only the mistakes of these names
    #[arg(long)]
    only: Vec<String>,
    /// Print the mistakes, and make none
    #[arg(long)]
    list: bool,
    /// Simulate with optimization
    #[arg(long)]
    release: bool,
}

/// A list of mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Which {
    /// In the code around the machines
    Drivers,
    /// Limits that are not there
    Limits,
    /// All lists
    All,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let chosen = choose(&arguments);
    if arguments.list {
        for mistake in &chosen {
            println!(
                "{:<50} {} {:?}",
                mistake.name, mistake.file, mistake.found_by
            );
        }
        return ExitCode::SUCCESS;
    }
    if chosen.is_empty() {
        eprintln!("there is no such mistake");
        return ExitCode::FAILURE;
    }
    let bench = match bench(arguments.release) {
        Ok(bench) => bench,
        Err(error) => {
            eprintln!("the workspace cannot be copied: {error}");
            return ExitCode::FAILURE;
        }
    };
    let (found, most) = try_all(&bench, &chosen);
    let is_healthy = try_healthy(&bench, &chosen, most);
    println!("{found} of {} mistakes were found", chosen.len());
    match found == chosen.len() && is_healthy {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn choose(arguments: &Arguments) -> Vec<&'static Mistake> {
    let lists: &[&[Mistake]] = match arguments.which {
        Which::Drivers => &[DRIVERS],
        Which::Limits => &[LIMITS],
        Which::All => &[DRIVERS, LIMITS],
    };
    let is_chosen = |mistake: &&Mistake| {
        let only = &arguments.only;
        only.is_empty() || only.iter().any(|name| name == mistake.name)
    };
    lists
        .iter()
        .flat_map(|list| *list)
        .filter(is_chosen)
        .collect()
}

fn bench(is_release: bool) -> std::io::Result<Bench> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| workspace.join("target"));
    std::fs::create_dir_all(&target)?;
    let home = target.canonicalize()?.join("mistakes");
    Ok(Bench {
        copy: Copy::of(&workspace, &home.join("workspace"))?,
        target: home.join("target"),
        is_release,
        cargo: std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()),
    })
}

/// How many were found, and after how many seeds at most.
fn try_all(bench: &Bench, chosen: &[&Mistake]) -> (usize, u64) {
    let (mut found, mut most) = (0, 0);
    for mistake in chosen {
        let begun = Instant::now();
        match bench.try_out(mistake) {
            Ok((verdict, took)) => {
                found += usize::from(verdict.is_found());
                most = most.max(verdict.seeds().unwrap_or(0));
                tell(mistake.name, &verdict, took, begun.elapsed());
            }
            Err(error) => println!("{:<50} ERROR: {error}", mistake.name),
        }
    }
    (found, most)
}

/// Whether the checks see nothing where there is no mistake.
fn try_healthy(bench: &Bench, chosen: &[&Mistake], seeds: u64) -> bool {
    let mut checks: Vec<FoundBy> = Vec::new();
    for mistake in chosen {
        if !checks.contains(&mistake.found_by) {
            checks.push(mistake.found_by);
        }
    }
    let mut is_healthy = true;
    for check in checks {
        let name = match check {
            FoundBy::Simulator => format!("no mistake, {seeds} seeds"),
            FoundBy::Test { test, .. } => format!("no mistake, {test}"),
        };
        match bench.check(check, seeds) {
            Ok((Verdict::NotFound, took)) => println!("{name:<50} nothing is found ({took:.0?})"),
            Ok((verdict, _)) => {
                is_healthy = false;
                println!("{name:<50} WITHOUT A MISTAKE: {verdict}");
            }
            Err(error) => {
                is_healthy = false;
                println!("{name:<50} ERROR: {error}");
            }
        }
    }
    is_healthy
}

fn tell(name: &str, verdict: &Verdict, took: Duration, with_build: Duration) {
    const WIDTH: usize = 200;
    let verdict: String = verdict.to_string().chars().take(WIDTH).collect();
    println!("{name:<50} {verdict} ({took:.1?}; with the build {with_build:.0?})");
}
