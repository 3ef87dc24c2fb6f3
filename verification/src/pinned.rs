//! What the standard scenarios are known to come to: a change of the protocol or of the model shows as other
//! numbers, and is meant or a mistake.
//!
//! `pinned.json` holds, for each scenario, how many states and steps there are, how long its longest run is,
//! and which milestones it reaches; and for each transition and each arrival of a message the scenarios in
//! which it is met. `--pin` writes it anew.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use pccl_model::coverage::Coverage;
use serde::{Deserialize, Serialize};

use crate::report::Report;
use crate::search::{End, Explored, Limits};
use crate::words::count;

/// So many scenarios are named for what is met in many.
const NAMED_MAX: usize = 3;

/// A scenario may become so many times as large, or its runs as long, before the search is stopped.
const GROWTH: usize = 2;

/// However small it is.
const STATES_MIN: usize = 1_000_000;

/// However short its runs are: a way that the search tries is not always the longest, and signs of life on
/// their way count.
pub(crate) const STEPS_MIN: usize = 400;

/// What one scenario comes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts {
    pub(crate) states: usize,
    pub(crate) generated: usize,
    pub(crate) longest: Option<u32>,
    pub(crate) milestones: Vec<String>,
}

/// What all of them come to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pinned {
    scenarios: BTreeMap<String, Counts>,
    transitions: BTreeMap<String, Vec<String>>,
    messages: BTreeMap<String, Vec<String>>,
}

/// A scenario that comes to something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Difference {
    /// Nothing is pinned.
    Unknown,
    /// Another number, and what it is the number of.
    Number {
        what: &'static str,
        pinned: usize,
        found: usize,
    },
}

impl Pinned {
    /// As this program was built with it.
    pub(crate) fn known() -> serde_json::Result<Self> {
        serde_json::from_str(include_str!("../pinned.json"))
    }

    /// Where it is written.
    pub(crate) fn file() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("pinned.json")
    }

    /// What a whole run has come to.
    pub(crate) fn of(report: &Report) -> Self {
        let mut pinned = Self::default();
        for explored in &report.explored {
            let name = explored.scenario.name;
            pinned.scenarios.insert(name.to_owned(), counts(explored));
            note(
                &mut pinned.transitions,
                name,
                explored.coverage.rows_taken(),
            );
            note(&mut pinned.messages, name, messages(&explored.coverage));
        }
        pinned
    }

    /// Unique states of a scenario; 0 if nothing is pinned.
    pub(crate) fn states(&self, scenario: &str) -> usize {
        self.scenarios.get(scenario).map_or(0, |known| known.states)
    }

    /// Where a search stops because there is more than there can be.
    pub(crate) fn limits(&self, scenario: &str, limits: Limits) -> Limits {
        let Some(known) = self.scenarios.get(scenario) else {
            return limits;
        };
        let longest = known
            .longest
            .map_or(limits.steps, |longest| longest as usize);
        Limits {
            states: (known.states * GROWTH).max(STATES_MIN),
            steps: (longest * GROWTH).max(STEPS_MIN),
            ..limits
        }
    }

    /// Whether a scenario comes to what is pinned.
    pub(crate) fn difference(&self, explored: &Explored) -> Option<Difference> {
        if explored.end != End::Exhausted {
            return None;
        }
        let Some(known) = self.scenarios.get(explored.scenario.name) else {
            return Some(Difference::Unknown);
        };
        let longest = |longest: Option<u32>| longest.map_or(0, |longest| longest as usize);
        let numbers = [
            ("unique states", known.states, explored.unique),
            ("generated states", known.generated, explored.generated),
            (
                "steps of the longest run",
                longest(known.longest),
                longest(explored.longest),
            ),
        ];
        let mut differences = numbers
            .into_iter()
            .filter(|(_, pinned, found)| pinned != found);
        let (what, pinned, found) = differences.next()?;
        Some(Difference::Number {
            what,
            pinned,
            found,
        })
    }

    /// The scenarios that are known to reach a milestone.
    pub(crate) fn that_reach(&self, milestone: &str) -> Vec<String> {
        let reach = |counts: &Counts| counts.milestones.iter().any(|known| known == milestone);
        let all = self.scenarios.iter().filter(|(_, counts)| reach(counts));
        let mut names: Vec<(usize, &String)> =
            all.map(|(name, counts)| (counts.states, name)).collect();
        names.sort();
        let names = names.into_iter().take(NAMED_MAX);
        names.map(|(_, name)| name.clone()).collect()
    }

    /// The scenarios that are known to take a transition.
    pub(crate) fn that_take(&self, transition: &str) -> Vec<String> {
        self.transitions
            .get(transition)
            .cloned()
            .unwrap_or_default()
    }

    /// The scenarios in which a message is known to arrive in a state.
    pub(crate) fn that_meet(&self, message: &str) -> Vec<String> {
        self.messages.get(message).cloned().unwrap_or_default()
    }
}

fn counts(explored: &Explored) -> Counts {
    let milestones = explored.reached.iter();
    Counts {
        states: explored.unique,
        generated: explored.generated,
        longest: explored.longest,
        milestones: milestones
            .map(|known| known.sentence().to_owned())
            .collect(),
    }
}

fn messages(coverage: &Coverage) -> Vec<String> {
    coverage.met().iter().map(ToString::to_string).collect()
}

/// Scenarios come in the order of their size: the first ones are named.
fn note(known: &mut BTreeMap<String, Vec<String>>, name: &str, what: Vec<String>) {
    for one in what {
        let names = known.entry(one).or_default();
        if names.len() < NAMED_MAX {
            names.push(name.to_owned());
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("no counts are pinned: if it is as it should be, --pin"),
            Self::Number {
                what,
                pinned,
                found,
            } => write!(
                f,
                "{} {what}, and {} are pinned: if the change is meant, --pin",
                count(*found),
                count(*pinned)
            ),
        }
    }
}
