//! One scenario, explored depth-first until nothing is left, or until a limit.
//!
//! stateright calls a search that was cut short done. Here every state whose successors were
//! generated is counted: a scenario is exhausted when these are all that were found.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pccl_model::RunModel;
use pccl_model::coverage::Coverage;
use pccl_model::milestone::Milestone;
use pccl_model::scenario::Scenario;
use pccl_model::step::Step;
use pccl_model::trace::Trace;
use stateright::{Checker, HasDiscoveries, Model};

use crate::graph::{Key, Shape};
use crate::memory;
use crate::watched::{ENDS, HOLDS, Notes, Watched};

/// Where a search stops before its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) time: Option<Duration>,
    /// Unique states.
    pub(crate) states: usize,
    /// Bytes of the whole process, if the system tells.
    pub(crate) memory: usize,
    /// Steps of a way: a longer one is held to be endless.
    pub(crate) steps: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: None,
            states: 400_000_000,
            memory: 16 << 30,
            steps: 2_000,
        }
    }
}

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Every reachable state was looked at.
    Exhausted,
    /// There are more, and the time was over.
    Cut,
    /// There are more than there may be.
    TooManyStates,
    /// There are more than there is memory for.
    OutOfMemory,
    /// A claim is broken.
    Broken,
    /// A run goes on for ever, or for longer than any should.
    Endless,
}

/// What a search has found.
#[derive(Debug)]
pub(crate) struct Explored {
    pub(crate) scenario: Scenario,
    pub(crate) unique: usize,
    pub(crate) generated: usize,
    pub(crate) depth: usize,
    /// Steps of the longest run, if every run ends and that was looked at.
    pub(crate) longest: Option<u32>,
    /// That the search took.
    pub(crate) time: Duration,
    pub(crate) end: End,
    pub(crate) reached: Vec<Milestone>,
    pub(crate) missed: Vec<Milestone>,
    pub(crate) coverage: Arc<Coverage>,
    /// A way to a state in which a claim is broken, seldom the shortest; or one without end.
    pub(crate) violation: Option<Vec<Step>>,
}

/// A search broke down.
#[derive(Debug, thiserror::Error)]
#[error("a thread of the search panicked; run with RUST_BACKTRACE=1")]
pub(crate) struct SearchPanicked;

/// A search that is over. Whether every run of its scenario ends is still to be looked at.
struct Searched {
    explored: Explored,
    notes: Arc<Notes>,
    first: Key,
}

/// Explores a scenario. `go_on` is told again and again how many unique states have been found, in how much time, and
/// says whether the search goes on.
pub(crate) fn explore(
    scenario: &Scenario,
    threads: usize,
    limits: Limits,
    go_on: &mut dyn FnMut(usize, Duration) -> bool,
) -> Result<Explored, SearchPanicked> {
    search(scenario, threads, limits, go_on).map(Searched::finish)
}

/// Looks at every state of a scenario.
fn search(
    scenario: &Scenario,
    threads: usize,
    limits: Limits,
    go_on: &mut dyn FnMut(usize, Duration) -> bool,
) -> Result<Searched, SearchPanicked> {
    let begun = Instant::now();
    let model = RunModel::new(scenario.clone());
    let coverage = model.coverage();
    let notes = Arc::new(Notes::default());
    let watched = Watched {
        model,
        notes: Arc::clone(&notes),
        longest: limits.steps,
    };
    let first = watched.first().key;
    let mut checker = watched
        .checker()
        .threads(threads)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_dfs();
    let handles = checker.handles();
    let mut cut = None;
    while !handles.iter().all(std::thread::JoinHandle::is_finished) {
        std::thread::sleep(Duration::from_millis(10));
        let unique = checker.unique_state_count();
        cut = cut.or_else(|| limits.reached(unique, begun));
        if !go_on(unique, begun.elapsed()) {
            cut = cut.or(Some(End::Cut));
        }
        if cut.is_some() {
            notes.stop.store(true, Ordering::Relaxed);
        }
    }
    for handle in handles {
        handle.join().map_err(|_| SearchPanicked)?;
    }
    // Before the path is gone again, which counts as well.
    let expanded = notes.expanded.load(Ordering::Relaxed);
    notes.stop.store(false, Ordering::Relaxed);
    let unique = checker.unique_state_count();
    let path = |property| checker.discovery(property).map(|path| path.into_actions());
    let (end, violation) = match (path(HOLDS), path(ENDS)) {
        (Some(steps), _) => (End::Broken, Some(steps)),
        (None, Some(steps)) => (End::Endless, Some(steps)),
        (None, None) if expanded == unique => (End::Exhausted, None),
        (None, None) => (cut.unwrap_or(End::Cut), None),
    };
    let explored = Explored {
        scenario: scenario.clone(),
        unique,
        generated: checker.state_count(),
        depth: checker.max_depth(),
        longest: None,
        time: begun.elapsed(),
        end,
        reached: notes.reached(),
        missed: notes.missed(scenario),
        coverage,
        violation,
    };
    Ok(Searched {
        explored,
        notes,
        first,
    })
}

impl Searched {
    /// Looks for a run that meets a state twice.
    fn finish(self) -> Explored {
        let mut explored = self.explored;
        if explored.violation.is_some() {
            return explored;
        }
        match self.notes.steps.shape(self.first) {
            Shape::Circles(way) => {
                explored.end = End::Endless;
                explored.violation = Some(steps_along(&explored.scenario, &way));
            }
            Shape::Ends { longest } if explored.end == End::Exhausted => {
                explored.longest = Some(longest);
            }
            Shape::Ends { .. } | Shape::Unknown => {}
        }
        explored
    }
}

impl Limits {
    /// Which one is reached.
    fn reached(&self, unique: usize, begun: Instant) -> Option<End> {
        if self.time.is_some_and(|limit| begun.elapsed() >= limit) {
            Some(End::Cut)
        } else if unique >= self.states {
            Some(End::TooManyStates)
        } else if memory::in_use().is_some_and(|bytes| bytes >= self.memory) {
            Some(End::OutOfMemory)
        } else {
            None
        }
    }
}

/// The steps of a way that is known by what stands for its states.
fn steps_along(scenario: &Scenario, way: &[Key]) -> Vec<Step> {
    let model = RunModel::new(scenario.clone());
    let mut state = model.first_state().clone();
    let mut steps = Vec::new();
    for key in way.iter().skip(1) {
        let mut possible = Vec::new();
        model.actions(&state, &mut possible);
        let next = possible.into_iter().find_map(|step| {
            let next = model.next_state(&state, step)?;
            (next.key() == *key).then_some((step, next))
        });
        let Some((step, next)) = next else { break };
        steps.push(step);
        state = next;
    }
    steps
}

/// The trace of some steps of a scenario, as it was explored.
pub(crate) fn trace_of(scenario: &Scenario, steps: Vec<Step>) -> Trace {
    let own = pccl_model::trace::named(scenario.name);
    let peers = u8::try_from(scenario.seats.len()).ok();
    let own_peers = own.as_ref().map(|own| own.seats.len());
    let own_faults = own.as_ref().map(|own| own.faults);
    let mut trace = Trace {
        scenario: scenario.name.to_owned(),
        peers: peers.filter(|_| own_peers != Some(scenario.seats.len())),
        faults: Some(scenario.faults).filter(|faults| own_faults != Some(*faults)),
        mutant: None,
        breaks: None,
        steps,
    };
    trace.breaks = trace.replay().ok().and_then(|replay| replay.broken());
    trace
}
