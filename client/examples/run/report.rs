//! The closing table, and whether everything in it holds.

use std::path::Path;
use std::process::ExitCode;

use comfy_table::Table;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use serde_json::{Value, json};

use super::plan::Plan;
use super::supervisor::{Fate, Member, Outcome};
use super::talk::Final;

/// What a run must reach on the held-back fifth of the digits.
const ACCURACY_MIN: f32 = 0.95;

/// Prints the tables, writes the file, and decides.
pub(crate) fn conclude(
    program: &str,
    plan: &Plan,
    outcome: &Outcome,
    json_to: Option<&Path>,
) -> ExitCode {
    println!("{}", members_table(outcome));
    if !outcome.losses.is_empty() {
        println!("{}", losses_table(outcome));
    }
    if !outcome.master_losses.is_empty() {
        println!("{}", master_losses_table(outcome));
    }
    if let Some(table) = overlap_table(outcome) {
        println!("{table}");
    }
    let complaints = complaints(plan, outcome);
    for complaint in &complaints {
        println!("FAILED: {complaint}");
    }
    if complaints.is_empty() {
        let survivors = plan.survivors();
        let (kills, joins) = (plan.chaos.kills, plan.chaos.joins);
        println!(
            "ok: {survivors} peers over {} hold the same bits after {} rounds, {kills} kills and {joins} joins, in \
             {:.1} s{}",
            outcome.over,
            plan.chaos.rounds,
            outcome.seconds,
            master_kills(outcome) + &optimizations(plan, outcome)
        );
    }
    let written = json_to.map(|path| std::fs::write(path, for_machines(outcome, &complaints)));
    if let Some(Err(error)) = &written {
        eprintln!("{program}: the JSON file could not be written: {error}");
    }
    let all_well = complaints.is_empty() && !matches!(written, Some(Err(_)));
    if all_well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// As it stands at the end of a sentence.
fn master_kills(outcome: &Outcome) -> String {
    match outcome.master_losses.len() {
        0 => String::new(),
        count => format!("; the master was killed {count} times"),
    }
}

/// As it stands at the end of a sentence.
fn optimizations(plan: &Plan, outcome: &Outcome) -> String {
    let count = outcome.optimizations;
    let inside = plan.kills_in_optimizations();
    match plan.optimize {
        true => format!("; optimized {count} times, {inside} of the kills in the middle of it"),
        false => String::new(),
    }
}

fn finished(outcome: &Outcome) -> impl Iterator<Item = &Final> {
    outcome
        .members
        .iter()
        .filter_map(|member| match &member.fate {
            Fate::Finished(result) => Some(result),
            Fate::Killed { .. } | Fate::Failed(_) => None,
        })
}

/// Everything that does not hold, in words.
fn complaints(plan: &Plan, outcome: &Outcome) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut demand = |holds: bool, otherwise: String| {
        if !holds {
            complaints.push(otherwise);
        }
    };
    let (survivors, expected) = (finished(outcome).count(), plan.survivors());
    demand(
        survivors == expected,
        format!("{survivors} peers finished, not {expected}"),
    );
    demand(
        !plan.optimize || outcome.optimizations > 0,
        "the topology was never optimized".into(),
    );
    let kills = outcome.losses.len();
    demand(
        kills == plan.chaos.kills as usize,
        format!("{kills} kills happened"),
    );
    let (master_kills, planned) = (outcome.master_losses.len(), plan.master_kills.len());
    demand(
        master_kills == planned,
        format!("the master was killed {master_kills} times, not {planned}"),
    );
    let all_back = outcome
        .master_losses
        .iter()
        .all(|l| l.next_round_ms.is_some());
    demand(
        all_back,
        "no round was completed after a kill of the master".into(),
    );
    let joins = outcome
        .members
        .iter()
        .filter(|m| m.joined_in_round > 0 && m.peer.is_some());
    let joins = joins.count();
    demand(
        joins == plan.chaos.joins as usize,
        format!("{joins} peers joined"),
    );
    let failed = outcome
        .members
        .iter()
        .filter(|m| matches!(m.fate, Fate::Failed(_)))
        .count();
    demand(failed == 0, format!("{failed} processes failed"));
    let mut hashes: Vec<&str> = finished(outcome)
        .map(|result| result.hash.as_str())
        .collect();
    hashes.sort_unstable();
    hashes.dedup();
    demand(
        hashes.len() == 1,
        format!("{} different states at the end", hashes.len()),
    );
    let all_rounds = finished(outcome).all(|result| result.rounds == plan.chaos.rounds);
    demand(all_rounds, "not everybody reached the last round".into());
    let accurate = finished(outcome).all(|result| result.accuracy >= ACCURACY_MIN);
    demand(
        accurate,
        format!("test accuracy below {} %", 100.0 * ACCURACY_MIN),
    );
    complaints
}

fn name(member: &Member) -> String {
    member
        .peer
        .map_or_else(|| "never joined".into(), |peer| format!("peer {peer}"))
}

fn members_table(outcome: &Outcome) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header([
        "",
        "joined",
        "end",
        "state hash",
        "rounds",
        "of these here",
        "test accuracy",
        "sent",
        "received",
    ]);
    for member in &outcome.members {
        let mut row = vec![name(member), format!("round {}", member.joined_in_round)];
        match &member.fate {
            Fate::Finished(result) => row.extend([
                "finished".into(),
                result.hash.clone(),
                result.rounds.to_string(),
                result.rounds_here.to_string(),
                format!("{:.2} %", 100.0 * result.accuracy),
                mebibytes(result.bytes_sent),
                mebibytes(result.bytes_received),
            ]),
            Fate::Killed { round, how } => row.push(format!("killed, round {round} ({how})")),
            Fate::Failed(reason) => row.push(format!("FAILED: {reason}")),
        }
        table.add_row(row);
    }
    table
}

fn losses_table(outcome: &Outcome) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header([
        "killed",
        "round",
        "moment",
        "failed calls seen",
        "time lost",
        "kill to next round",
    ]);
    for loss in &outcome.losses {
        let next_round = loss
            .next_round_ms
            .map_or_else(|| "-".into(), |ms| format!("{ms:.0} ms"));
        table.add_row([
            format!("peer {}", loss.peer),
            loss.round.to_string(),
            loss.how.clone(),
            loss.failures_seen.to_string(),
            format!("{:.1} ms", loss.lost_ms),
            next_round,
        ]);
    }
    table
}

fn master_losses_table(outcome: &Outcome) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header([
        "killed",
        "round",
        "kill to next master",
        "kill to next round",
    ]);
    let shown = |ms: Option<f64>| ms.map_or_else(|| "-".into(), |ms| format!("{ms:.0} ms"));
    for loss in &outcome.master_losses {
        table.add_row([
            "the master".into(),
            loss.round.to_string(),
            shown(loss.back_ms),
            shown(loss.next_round_ms),
        ]);
    }
    table
}

/// Where reduces ran beside the training: how much of their time anybody waited for them.
fn overlap_table(outcome: &Outcome) -> Option<Table> {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header([
        "",
        "reduces",
        "over when awaited",
        "from start to end",
        "waited for",
    ]);
    for member in &outcome.members {
        if let Fate::Finished(Final {
            overlap: Some(overlap),
            ..
        }) = &member.fate
        {
            table.add_row([
                name(member),
                overlap.reduces.to_string(),
                overlap.over_when_awaited.to_string(),
                format!("{:.1} ms", overlap.in_flight_ms),
                format!("{:.1} ms", overlap.waited_ms),
            ]);
        }
    }
    (!table.is_empty()).then_some(table)
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.2} MiB", bytes as f64 / (1 << 20) as f64)
}

fn for_machines(outcome: &Outcome, complaints: &[String]) -> String {
    let peers: Vec<Value> = outcome.members.iter().map(member_json).collect();
    let losses: Vec<Value> = outcome
        .losses
        .iter()
        .map(|loss| {
            json!({
                "peer": loss.peer, "round": loss.round, "moment": loss.how,
                "failed_calls_seen": loss.failures_seen, "lost_ms": loss.lost_ms,
                "next_round_ms": loss.next_round_ms,
            })
        })
        .collect();
    let master_losses: Vec<Value> = outcome
        .master_losses
        .iter()
        .map(|loss| {
            json!({
                "round": loss.round, "back_ms": loss.back_ms, "next_round_ms": loss.next_round_ms,
            })
        })
        .collect();
    let all = json!({
        "ok": complaints.is_empty(), "complaints": complaints, "seconds": outcome.seconds,
        "peers": peers, "losses": losses, "master_losses": master_losses,
    });
    format!("{all:#}\n")
}

fn member_json(member: &Member) -> Value {
    let (peer, joined_in_round) = (member.peer, member.joined_in_round);
    match &member.fate {
        Fate::Finished(result) => json!({
            "peer": peer, "joined_in_round": joined_in_round, "end": "finished",
            "result": result,
        }),
        Fate::Killed { round, how } => json!({
            "peer": peer, "joined_in_round": joined_in_round, "end": "killed",
            "round": round, "moment": how,
        }),
        Fate::Failed(reason) => json!({
            "peer": peer, "joined_in_round": joined_in_round, "end": "failed", "reason": reason,
        }),
    }
}
