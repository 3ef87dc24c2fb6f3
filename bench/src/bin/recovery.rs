//! How long recovery takes: `cargo run --release -p pccl-bench --bin recovery`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use pccl_bench::recovery::{Outcome, STAGES, Setting, measure};
use pccl_tests::over::Over;
use pccl_tests::processes::Swarm;
use pccl_tests::roles::Role;
use pccl_tests::talk::Nanos;
use pccl_tests::times::quantile;

const KIB_4: usize = 4 * 1024 / size_of::<f32>();
const MIB_4: usize = 4 * 1024 * 1024 / size_of::<f32>();

/// What the median and the worst recovery should stay below.
const GOAL_MS: (f64, f64) = (6.0, 30.0);

/// Kills peers in the middle of a reduce and measures how long the others need until their next one
/// is committed: 3 peers that reduce 4 KiB, and 4 peers that reduce 4 MiB.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    role: Option<Role>,
    /// Kills of each setting
    #[arg(long, default_value_t = 50)]
    kills: usize,
    /// What the runs go over; of several, one after the other for each setting
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Over::Tcp])]
    transport: Vec<Over>,
    /// Only this setting: 0 or 1
    #[arg(long)]
    only: Option<usize>,
    /// Write all figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(role) = &arguments.role {
        return role.run();
    }
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("recovery: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let program = std::env::current_exe()?;
    let settings = [
        Setting {
            peers: 3,
            elements: KIB_4,
        },
        Setting {
            peers: 4,
            elements: MIB_4,
        },
    ];
    let mut outcomes = Vec::new();
    for (index, setting) in settings.into_iter().enumerate() {
        if arguments.only.is_none_or(|only| only == index) {
            for over in &arguments.transport {
                outcomes.push(one(&program, *over, setting, arguments.kills)?);
            }
        }
    }
    println!("{}", table(&outcomes));
    for outcome in &outcomes {
        println!("{}", breakdown(outcome));
    }
    if let Some(file) = &arguments.json {
        std::fs::write(file, serde_json::to_vec_pretty(&outcomes)?)?;
    }
    Ok(())
}

fn one(
    program: &Path,
    over: Over,
    setting: Setting,
    kills: usize,
) -> Result<Outcome, Box<dyn std::error::Error>> {
    let told = |done: usize| {
        if done.is_multiple_of(10) {
            eprintln!(
                "{} peers over {}, {}: {done} of {kills} kills",
                setting.peers,
                over.name(),
                size(setting)
            );
        }
    };
    let mut swarm = Swarm::of(program).over(over);
    Ok(measure(&mut swarm, setting, kills, told)?)
}

fn table(outcomes: &[Outcome]) -> String {
    let (median, worst) = GOAL_MS;
    let mut lines = vec![
        "From a SIGKILL in mid-reduce to the next committed reduce of all others, in ms".to_owned(),
        format!(
            "(goal: median below {median}, worst below {worst}); beside it the median of undisturbed reduces"
        ),
        "of the same peers in the same run, and how many of those the median recovery takes"
            .to_owned(),
        String::new(),
        "peers  over      size  kills   median      p90    worst   undisturbed  ratio".to_owned(),
    ];
    for outcome in outcomes {
        let totals = || outcome.recoveries.iter().map(|recovery| recovery.total);
        let median = quantile(totals(), 0.5);
        let floor = quantile(outcome.undisturbed.iter().copied(), 0.5);
        lines.push(format!(
            "{:5} {:>5} {:>9} {:6} {:8.2} {:8.2} {:8.2} {:13.3} {:6.1}",
            outcome.setting.peers,
            outcome.over.name(),
            size(outcome.setting),
            outcome.recoveries.len(),
            ms(median),
            ms(quantile(totals(), 0.9)),
            ms(quantile(totals(), 1.0)),
            ms(floor),
            median as f64 / floor.max(1) as f64,
        ));
    }
    lines.join("\n")
}

/// Where the time goes: each stage by itself, so medians do not add up exactly.
fn breakdown(outcome: &Outcome) -> String {
    let line = |name: &str, took: Vec<Nanos>| {
        let median = ms(quantile(took.iter().copied(), 0.5));
        let worst = ms(quantile(took, 1.0));
        format!("  {name:38} {median:8.2} {worst:8.2}")
    };
    let recoveries = &outcome.recoveries;
    let mut lines = vec![format!(
        "\n{} peers over {}, {}: stages, in ms    median    worst",
        outcome.setting.peers,
        outcome.over.name(),
        size(outcome.setting)
    )];
    for (index, (stage, _)) in STAGES.iter().enumerate() {
        let took = recoveries
            .iter()
            .filter_map(|r| r.stages.get(index).copied());
        lines.push(line(stage, took.collect()));
    }
    let exits = recoveries.iter().map(|recovery| recovery.exit);
    lines.push(line(
        "beside it: kill to end of the process",
        exits.collect(),
    ));
    lines.push(line(
        "beside it: undisturbed reduce",
        outcome.undisturbed.clone(),
    ));
    lines.join("\n")
}

fn size(setting: Setting) -> String {
    let kib = setting.elements * size_of::<f32>() / 1024;
    if kib < 1024 {
        format!("{kib} KiB")
    } else {
        format!("{} MiB", kib / 1024)
    }
}

fn ms(nanos: Nanos) -> f64 {
    nanos as f64 / 1e6
}
