//! What is printed about a search.

use std::fmt;
use std::time::Duration;

use pccl_core::tour::{Node, Objective, Search, SearchResult};
use serde::Serialize;

use super::input::Input;

/// What the search has found and proven, in the file's units.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    nodes: usize,
    outcome: Outcome,
    objective: &'static str,
    ring: Option<Ring>,
    steps: u64,
    seconds: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Optimal,
    Found,
    NotFound,
    Impossible,
}

#[derive(Debug, Serialize)]
struct Ring {
    #[serde(skip)]
    order: Vec<Node>,
    tour: Vec<String>,
    sum: f64,
    bottleneck: f64,
    sum_bound: f64,
    sum_gap_percent: Option<f64>,
    /// Only where the bottleneck matters.
    bottleneck_bound: Option<f64>,
    bottleneck_gap_percent: Option<f64>,
}

impl Report {
    pub(crate) fn new(
        input: &Input,
        search: &Search,
        objective: Objective,
        time: Duration,
    ) -> Self {
        let (outcome, ring) = match search.result() {
            SearchResult::NotFound => (Outcome::NotFound, None),
            SearchResult::Impossible => (Outcome::Impossible, None),
            SearchResult::Found(found) => {
                let of = |units: u64| units as f64 / input.scale as f64;
                let has_bottleneck = objective == Objective::Bottleneck;
                let (cost, bound) = (found.cost, found.bound);
                let name = |node: &Node| input.names[node.index()].clone();
                let ring = Ring {
                    tour: found.ring.iter().map(name).collect(),
                    order: found.ring,
                    sum: of(cost.sum),
                    bottleneck: of(cost.bottleneck),
                    sum_bound: of(bound.sum),
                    sum_gap_percent: percent(cost.sum, bound.sum),
                    bottleneck_bound: has_bottleneck.then(|| of(bound.bottleneck)),
                    bottleneck_gap_percent: has_bottleneck
                        .then(|| percent(cost.bottleneck, bound.bottleneck))
                        .flatten(),
                };
                match found.is_optimal {
                    true => (Outcome::Optimal, Some(ring)),
                    false => (Outcome::Found, Some(ring)),
                }
            }
        };
        Self {
            nodes: input.count(),
            outcome,
            objective: match objective {
                Objective::Sum => "sum",
                Objective::Bottleneck => "bottleneck",
            },
            ring,
            steps: search.steps(),
            seconds: time.as_secs_f64(),
        }
    }

    /// The ring; empty if there is none.
    pub(crate) fn nodes(&self) -> &[Node] {
        self.ring.as_ref().map_or(&[], |ring| &ring.order)
    }
}

/// How far above the bound; `None` if that is not a number.
fn percent(cost: u64, bound: u64) -> Option<f64> {
    match (cost, bound) {
        (0, 0) => Some(0.0),
        (_, 0) => None,
        (cost, bound) => Some(100.0 * (cost - bound) as f64 / bound as f64),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.ring {
            Some(ring) => {
                writeln!(f, "tour        {}", ring.tour.join(" "))?;
                if let Some(bound) = ring.bottleneck_bound {
                    let gap = Gap(ring.bottleneck_gap_percent);
                    writeln!(f, "bottleneck  {} (bound {bound}: {gap})", ring.bottleneck)?;
                } else {
                    writeln!(f, "bottleneck  {}", ring.bottleneck)?;
                }
                let gap = Gap(ring.sum_gap_percent);
                writeln!(
                    f,
                    "sum         {} (bound {}: {gap})",
                    ring.sum, ring.sum_bound
                )?;
            }
            None if self.outcome == Outcome::Impossible => {
                writeln!(f, "proven: every ring has an unreachable edge")?;
            }
            None => writeln!(f, "no ring without unreachable edges was found")?,
        }
        let (nodes, steps, seconds) = (self.nodes, self.steps, self.seconds);
        writeln!(f, "{nodes} nodes, {steps} steps, {seconds:.3} s")
    }
}

/// A proven gap.
struct Gap(Option<f64>);

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(0.0) => write!(f, "optimal"),
            Some(gap) => write!(f, "at most {gap:.2} % above it"),
            None => write!(f, "no gap proven"),
        }
    }
}
