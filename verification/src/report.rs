//! What a whole run has shown, and whether that is enough.

use std::fmt;
use std::time::Duration;

use pccl_model::claim::{CLAIMS, Claim};
use pccl_model::coverage::{Cell, Coverage};
use serde::Serialize;

use crate::pinned::{Difference, Pinned};
use crate::search::{End, Explored};
use crate::walks::{Failed, WalkEnd, Walked};
use crate::words::count;

/// A run of the program.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) explored: Vec<Explored>,
    pub(crate) walked: Option<Walked>,
    /// All searches together.
    pub(crate) took: Duration,
    /// All standard scenarios were explored as they are: what no test reaches is missing.
    pub(crate) is_whole: bool,
    /// A cut was asked for.
    pub(crate) may_be_cut: bool,
    /// What the scenarios are known to come to.
    pub(crate) pinned: Pinned,
    /// They are to be held to it.
    pub(crate) is_held_to_pinned: bool,
}

/// Why the run is no success.
pub(crate) enum Failure {
    Broken(&'static str, Option<Claim>),
    /// A run that does not end.
    Endless(&'static str),
    Cut(&'static str),
    TooManyStates(&'static str, usize),
    OutOfMemory(&'static str, usize),
    /// Every scenario says whether all of its runs end.
    EndNotShown(&'static str),
    /// The scenario, the milestone, and which scenarios are known to reach it.
    Missed(&'static str, &'static str, Vec<String>),
    /// Other counts than those that are pinned.
    Differs(&'static str, Difference),
    NeverTaken(String, Vec<String>),
    /// A message that may arrive in this state never did.
    NeverMet(Cell, Vec<String>),
    /// One that cannot arrive there did.
    Surprise(Cell),
    Walk(Failed),
}

impl Report {
    /// What all scenarios together have seen.
    pub(crate) fn coverage(&self) -> Coverage {
        let all = Coverage::default();
        for explored in &self.explored {
            all.merge(&explored.coverage);
        }
        all
    }

    /// The same, and what the walks have met: they begin with fixed seeds, so it is the same each time.
    pub(crate) fn met(&self) -> Coverage {
        let all = self.coverage();
        if let Some(walked) = &self.walked {
            all.merge(&walked.coverage);
        }
        all
    }

    pub(crate) fn unique(&self) -> usize {
        self.explored.iter().map(|known| known.unique).sum()
    }

    pub(crate) fn generated(&self) -> usize {
        self.explored.iter().map(|known| known.generated).sum()
    }

    /// Everything that keeps the run from being a success.
    pub(crate) fn failures(&self) -> Vec<Failure> {
        let mut failures = Vec::new();
        for explored in &self.explored {
            failures.extend(self.failures_of(explored));
        }
        if self.is_whole && failures.is_empty() {
            let never = self.coverage().never_taken().into_iter();
            failures.extend(never.map(|row| {
                let names = self.pinned.that_take(&row);
                Failure::NeverTaken(row, names)
            }));
            let gaps = self.met().gaps().into_iter();
            failures.extend(gaps.map(|cell| {
                let names = self.pinned.that_meet(&cell.to_string());
                Failure::NeverMet(cell, names)
            }));
        }
        let surprises = self.met().surprises();
        failures.extend(surprises.into_iter().map(Failure::Surprise));
        let failed = self
            .walked
            .iter()
            .filter_map(|walked| walked.failed.clone());
        failures.extend(failed.map(Failure::Walk));
        failures
    }

    fn failures_of(&self, explored: &Explored) -> Vec<Failure> {
        let name = explored.scenario.name;
        match explored.end {
            End::Broken => vec![Failure::Broken(name, explored.broken())],
            End::Endless => vec![Failure::Endless(name)],
            End::TooManyStates => vec![Failure::TooManyStates(name, explored.unique)],
            End::OutOfMemory if !self.may_be_cut => {
                vec![Failure::OutOfMemory(name, explored.unique)]
            }
            End::Cut if !self.may_be_cut => vec![Failure::Cut(name)],
            End::Cut | End::OutOfMemory => Vec::new(),
            End::Exhausted => {
                let missed = explored.missed.iter().map(|missed| {
                    let sentence = missed.sentence();
                    Failure::Missed(name, sentence, self.pinned.that_reach(sentence))
                });
                let is_open = explored.longest.is_none() && !self.may_be_cut;
                let open = is_open.then_some(Failure::EndNotShown(name));
                let pinned = self.is_held_to_pinned.then_some(&self.pinned);
                let differs = pinned.and_then(|pinned| pinned.difference(explored));
                let differs = differs.map(|known| Failure::Differs(name, known));
                missed.chain(open).chain(differs).collect()
            }
        }
    }
}

/// Where to look for what used to be met.
fn used_to(names: &[String]) -> String {
    if names.is_empty() {
        return String::new();
    }
    format!("; known to do so: {}", names.join(", "))
}

impl Explored {
    /// The claim that is broken.
    pub(crate) fn broken(&self) -> Option<Claim> {
        let steps = self.violation.clone()?;
        crate::search::trace_of(&self.scenario, steps).breaks
    }

    /// Claims that no explored state breaks. Where the search was cut it says so elsewhere.
    pub(crate) fn held(&self) -> usize {
        let is_broken = matches!(self.end, End::Broken | End::Endless);
        CLAIMS.len() - usize::from(is_broken)
    }

    pub(crate) fn reached(&self) -> usize {
        self.scenario.milestones.len() - self.missed.len()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken(scenario, claim) => {
                let sentence = claim.map_or("a claim", Claim::sentence);
                write!(f, "{scenario}: this is broken: {sentence}")
            }
            Self::Cut(scenario) => write!(f, "{scenario}: was not explored to its end"),
            Self::Endless(scenario) => write!(f, "{scenario}: a run does not end"),
            Self::TooManyStates(scenario, states) => write!(
                f,
                "{scenario}: at {} states there is no end in sight: something is done again and again, or the scenario has grown",
                count(*states)
            ),
            Self::OutOfMemory(scenario, states) => write!(
                f,
                "{scenario}: after {} states the memory that may be used is full (--memory)",
                count(*states)
            ),
            Self::EndNotShown(scenario) => {
                write!(
                    f,
                    "{scenario}: too many steps to tell whether every run ends"
                )
            }
            Self::Missed(scenario, milestone, names) => write!(
                f,
                "{scenario}: this was never reached: {milestone}{}",
                used_to(names)
            ),
            Self::Differs(scenario, difference) => write!(f, "{scenario}: {difference}"),
            Self::NeverTaken(transition, names) => write!(
                f,
                "no scenario takes this transition: {transition}{}",
                used_to(names)
            ),
            Self::NeverMet(cell, names) => {
                write!(f, "in no scenario: {cell}{}", used_to(names))
            }
            Self::Surprise(cell) => write!(
                f,
                "{cell} was held to be impossible ({})",
                cell.why_never.unwrap_or_default()
            ),
            Self::Walk(failed) => {
                let what = match failed.end {
                    WalkEnd::Rest => "ended well",
                    WalkEnd::Broken => "breaks a claim",
                    WalkEnd::Circle => "goes round in a circle without another fault",
                    WalkEnd::NoEnd => "does not come to rest without another fault",
                };
                write!(
                    f,
                    "{}: the walk of seed {} {what}",
                    failed.scenario.name, failed.seed
                )
            }
        }
    }
}

/// The figures of one scenario, for programs.
#[derive(Serialize)]
pub(crate) struct Figures {
    scenario: &'static str,
    peers: usize,
    faults: u8,
    unique_states: usize,
    generated_states: usize,
    deepest_path: usize,
    longest_run: Option<u32>,
    seconds: f64,
    states_per_second: usize,
    exhaustive: bool,
    claims_held: usize,
    claims: usize,
    milestones_reached: usize,
    milestones: usize,
    transitions_taken: usize,
    transitions: usize,
    broken: Option<&'static str>,
}

/// The figures of a run, for programs.
#[derive(Serialize)]
pub(crate) struct AllFigures {
    version: &'static str,
    success: bool,
    failures: Vec<String>,
    unique_states: usize,
    seconds: f64,
    chance_of_a_collision: f64,
    transitions_taken: usize,
    transitions: usize,
    never_taken: Vec<String>,
    message_pairs_met: usize,
    message_pairs: usize,
    walks: u64,
    steps_of_walks: usize,
    scenarios: Vec<Figures>,
}

impl Report {
    /// All figures.
    pub(crate) fn figures(&self) -> AllFigures {
        let failures = self.failures();
        let coverage = self.coverage();
        let largest = self.explored.iter().map(|known| known.unique);
        AllFigures {
            version: env!("CARGO_PKG_VERSION"),
            success: failures.is_empty(),
            failures: failures.iter().map(Failure::to_string).collect(),
            unique_states: self.unique(),
            seconds: self.took.as_secs_f64(),
            chance_of_a_collision: largest.map(crate::words::chance_of_collision).sum(),
            transitions_taken: coverage.taken(),
            transitions: coverage.rows_in_all(),
            never_taken: coverage.never_taken(),
            message_pairs_met: coverage.pairs_in_all() - self.met().gaps().len(),
            message_pairs: coverage.pairs_in_all(),
            walks: self.walked.as_ref().map_or(0, |walked| walked.walks),
            steps_of_walks: self.walked.as_ref().map_or(0, |walked| walked.steps),
            scenarios: self.explored.iter().map(figures).collect(),
        }
    }
}

fn figures(explored: &Explored) -> Figures {
    Figures {
        scenario: explored.scenario.name,
        peers: explored.scenario.seats.len(),
        faults: explored.scenario.faults,
        unique_states: explored.unique,
        generated_states: explored.generated,
        deepest_path: explored.depth,
        longest_run: explored.longest,
        seconds: explored.time.as_secs_f64(),
        states_per_second: crate::words::per_second(explored.unique, explored.time),
        exhaustive: explored.end == End::Exhausted,
        claims_held: explored.held(),
        claims: CLAIMS.len(),
        milestones_reached: explored.reached(),
        milestones: explored.scenario.milestones.len(),
        transitions_taken: explored.coverage.taken(),
        transitions: explored.coverage.rows_in_all(),
        broken: explored.broken().map(Claim::sentence),
    }
}
