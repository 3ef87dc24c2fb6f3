//! A way through a run, as text that is read, compared, copied and gone again.
//!
//! ```text
//! # found by the search                     a comment
//! scenario: reduce-2
//! faults: 1                                 only where it is not the scenario's own
//! breaks: no input panics                   only where it breaks a claim
//! call 1
//! up 1
//! ```
//!
//! The same in one line, to be copied into a test: `reduce-2 faults=1: call 1; up 1`.

use std::fmt;
use std::str::FromStr;

use stateright::Model;
use thiserror::Error;

use crate::RunModel;
use crate::catalogue::{deep, standard};
use crate::claim::{CLAIMS, Claim};
use crate::scenario::{Frames, Scenario};
use crate::state::RunState;
use crate::step::{NotAStep, Step};

/// After so many steps without a fault, something goes round in circles.
const STEPS_TO_REST_MAX: usize = 10_000;

/// A way through a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The name of the scenario.
    pub scenario: String,
    /// How many processes, where it is not the scenario's number.
    pub peers: Option<u8>,
    /// How many faults may happen, where it is not the scenario's number.
    pub faults: Option<u8>,
    /// The mistake in core with which it was found.
    pub mutant: Option<String>,
    /// The claim that its last step breaks.
    pub breaks: Option<Claim>,
    /// What happens.
    pub steps: Vec<Step>,
}

/// Why a text is no trace, or cannot be gone.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TraceError {
    /// The text names no scenario.
    #[error("a trace begins with `scenario: NAME`, or with `NAME:` where it is one line")]
    NoScenario,
    /// There is no scenario of this name.
    #[error("there is no scenario `{0}`")]
    UnknownScenario(String),
    /// The value of a line or of a word at the beginning cannot be read.
    #[error("`{0}` says nothing that a trace knows")]
    UnknownHeader(String),
    /// No claim is worded like this.
    #[error("no claim says: {0}")]
    UnknownClaim(String),
    /// A line is no step.
    #[error(transparent)]
    NotAStep(#[from] NotAStep),
    /// A step cannot happen where the trace has it.
    #[error(
        "step {number}, `{step}`, cannot happen there; what can is: {}",
        listed(.possible)
    )]
    NotPossible {
        /// Which one, from 1.
        number: usize,
        /// The step.
        step: Step,
        /// What could happen.
        possible: Vec<Step>,
    },
    /// The run does not come to rest after the trace.
    #[error("after the trace the run goes on for ever")]
    NoRest,
}

fn listed(steps: &[Step]) -> String {
    let steps: Vec<String> = steps.iter().map(Step::to_string).collect();
    if steps.is_empty() {
        "nothing".to_owned()
    } else {
        steps.join("; ")
    }
}

/// The scenario of this name, whether standard or deep.
#[must_use]
pub fn named(name: &str) -> Option<Scenario> {
    let mut all = standard().into_iter().chain(deep());
    all.find(|scenario| scenario.name == name)
}

/// A trace that was gone.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The run.
    pub model: RunModel,
    /// What happened, and the state after it.
    pub moments: Vec<(Step, RunState)>,
    /// Steps that could not happen, by their number from 1.
    pub left_out: Vec<(usize, Step)>,
}

impl Replay {
    fn begin(model: RunModel) -> Self {
        Self {
            model,
            moments: Vec::new(),
            left_out: Vec::new(),
        }
    }

    /// The state after the last step.
    #[must_use]
    pub fn last_state(&self) -> &RunState {
        let last = self.moments.last();
        last.map_or(self.model.first_state(), |(_, state)| state)
    }

    /// The claim that is broken at the end.
    #[must_use]
    pub fn broken(&self) -> Option<Claim> {
        self.model.broken(self.last_state())
    }

    /// What can happen next.
    #[must_use]
    pub fn possible(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        self.model.actions(self.last_state(), &mut steps);
        steps
    }

    /// Takes a step, where it is possible.
    fn take(&mut self, step: Step) -> bool {
        if !self.possible().contains(&step) {
            return false;
        }
        let after = self.model.next_state(self.last_state(), step);
        let moment = after.map(|state| (step, state));
        self.moments.extend(moment);
        true
    }

    /// Whatever can happen by itself happens, the first first.
    fn come_to_rest(&mut self) -> Result<(), TraceError> {
        for _ in 0..STEPS_TO_REST_MAX {
            let possible = self.possible();
            let Some(step) = possible.into_iter().find(|step| step.is_progress()) else {
                return Ok(());
            };
            self.take(step);
        }
        Err(TraceError::NoRest)
    }
}

impl Trace {
    /// What is explored: the scenario, with as many processes and faults as the trace says.
    ///
    /// # Errors
    /// There is no scenario of this name.
    pub fn scenario(&self) -> Result<Scenario, TraceError> {
        let unknown = || TraceError::UnknownScenario(self.scenario.clone());
        let mut found = named(&self.scenario).ok_or_else(unknown)?;
        // Whatever can happen where frames are taken in turn can happen where they are not.
        found.frames = Frames::Free;
        if let Some(peers) = self.peers {
            found = found.with_peers(usize::from(peers));
        }
        if let Some(faults) = self.faults {
            found = found.with_faults(faults);
        }
        Ok(found)
    }

    /// Goes the way, step by step. Nothing happens after a claim was broken.
    ///
    /// # Errors
    /// The scenario is unknown, or a step is not possible where the trace has it.
    pub fn replay(&self) -> Result<Replay, TraceError> {
        let mut replay = Replay::begin(RunModel::new(self.scenario()?));
        for (at, step) in self.steps.iter().enumerate() {
            if !replay.take(*step) {
                return Err(TraceError::NotPossible {
                    number: at + 1,
                    step: *step,
                    possible: replay.possible(),
                });
            }
        }
        Ok(replay)
    }

    /// Goes the way as far as there is one, then lets the run come to rest without another fault:
    /// what a test does with the trace of a mistake that is mended. Steps that only the mistake made
    /// possible are left out.
    ///
    /// # Errors
    /// The scenario is unknown, or the run does not come to rest.
    pub fn follow(&self) -> Result<Replay, TraceError> {
        let mut replay = Replay::begin(RunModel::new(self.scenario()?));
        for (at, step) in self.steps.iter().enumerate() {
            if !replay.take(*step) {
                replay.left_out.push((at + 1, *step));
            }
        }
        replay.come_to_rest()?;
        Ok(replay)
    }

    /// Everything in one line, but for the mutant and the claim.
    #[must_use]
    pub fn line(&self) -> String {
        let mut head = self.scenario.clone();
        if let Some(peers) = self.peers {
            head += &format!(" peers={peers}");
        }
        if let Some(faults) = self.faults {
            head += &format!(" faults={faults}");
        }
        let steps: Vec<String> = self.steps.iter().map(Step::to_string).collect();
        format!("{head}: {}", steps.join("; "))
    }

    fn of(scenario: &str) -> Self {
        Self {
            scenario: scenario.trim().to_owned(),
            peers: None,
            faults: None,
            mutant: None,
            breaks: None,
            steps: Vec::new(),
        }
    }

    fn take_header(&mut self, name: &str, value: &str) -> Result<(), TraceError> {
        let unknown = || TraceError::UnknownHeader(format!("{name}: {value}"));
        let number = || value.parse().map_err(|_| unknown());
        match name {
            "peers" => self.peers = Some(number()?),
            "faults" => self.faults = Some(number()?),
            "mutant" => self.mutant = Some(value.to_owned()),
            "breaks" => {
                let found = CLAIMS.iter().find(|claim| claim.sentence() == value);
                let claim = found.ok_or_else(|| TraceError::UnknownClaim(value.to_owned()))?;
                self.breaks = Some(*claim);
            }
            _ => return Err(unknown()),
        }
        Ok(())
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "scenario: {}", self.scenario)?;
        if let Some(peers) = self.peers {
            writeln!(f, "peers: {peers}")?;
        }
        if let Some(faults) = self.faults {
            writeln!(f, "faults: {faults}")?;
        }
        if let Some(mutant) = &self.mutant {
            writeln!(f, "mutant: {mutant}")?;
        }
        if let Some(claim) = self.breaks {
            writeln!(f, "breaks: {}", claim.sentence())?;
        }
        for step in &self.steps {
            writeln!(f, "{step}")?;
        }
        Ok(())
    }
}

impl FromStr for Trace {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<Self, TraceError> {
        let said = |line: &'_ str| line.split('#').next().unwrap_or("").trim().to_owned();
        let lines: Vec<String> = text.lines().map(said).collect();
        let mut lines = lines.iter().filter(|line| !line.is_empty());
        let (head, rest) = lines
            .next()
            .and_then(|line| line.split_once(':'))
            .ok_or(TraceError::NoScenario)?;
        if head != "scenario" {
            return one_line(head, rest);
        }
        let mut trace = Self::of(rest);
        for line in lines {
            match line.split_once(':') {
                Some((name, value)) => trace.take_header(name.trim(), value.trim())?,
                None => trace.steps.push(line.parse()?),
            }
        }
        Ok(trace)
    }
}

fn one_line(head: &str, steps: &str) -> Result<Trace, TraceError> {
    let mut words = head.split_whitespace();
    let mut trace = Trace::of(words.next().ok_or(TraceError::NoScenario)?);
    for word in words {
        let (name, value) = word
            .split_once('=')
            .ok_or_else(|| TraceError::UnknownHeader(word.to_owned()))?;
        trace.take_header(name, value)?;
    }
    let steps = steps.split(';').map(str::trim);
    for step in steps.filter(|step| !step.is_empty()) {
        trace.steps.push(step.parse()?);
    }
    Ok(trace)
}
