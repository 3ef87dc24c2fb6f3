//! Outcomes as lines of a table.

use super::time::{Micros, show};
use super::trial::Outcome;

/// What stands above the columns.
#[must_use]
pub fn head() -> String {
    row(&[
        "situation",
        "goes on after",
        "expected",
        "lost: healthy",
        "faulty",
        "rings",
        "failed",
        "",
    ])
}

/// One situation, with the time in which it had to go on.
#[must_use]
pub fn line(name: &str, outcome: &Outcome, within: Micros, may_lose: usize) -> String {
    let goes_on = match (outcome.goes_on, outcome.in_circles) {
        (Some(time), _) => show(time),
        (None, true) => format!("in circles for {}", show(outcome.watched)),
        (None, false) => format!("never within {}", show(outcome.watched)),
    };
    let verdict = if outcome.wrong.is_empty() {
        "ok".to_owned()
    } else {
        format!("FAILED: {}", outcome.wrong.join("; "))
    };
    row(&[
        name,
        &goes_on,
        &format!("<= {}, lost <= {may_lose}", show(within)),
        &outcome.healthy_lost.to_string(),
        &outcome.faulty_lost.to_string(),
        &outcome.rings.to_string(),
        &outcome.failed_calls.to_string(),
        &verdict,
    ])
}

fn row(cells: &[&str; 8]) -> String {
    let [
        name,
        goes_on,
        expected,
        healthy,
        faulty,
        rings,
        failed,
        verdict,
    ] = cells;
    format!(
        "{name:<78} {goes_on:>23} {expected:>24} {healthy:>14} {faulty:>7} {rings:>6} {failed:>7}  {verdict}"
    )
}
