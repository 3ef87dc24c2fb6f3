//! One scenario, explored depth-first until nothing is left, or until a limit.
//!
//! stateright calls a search that was cut short done. Here every state whose successors were
//! generated is counted: a scenario is exhausted when these are all that were found.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pccl_model::RunModel;
use pccl_model::coverage::Coverage;
use pccl_model::milestone::{MILESTONES, Milestone};
use pccl_model::scenario::Scenario;
use pccl_model::state::RunState;
use pccl_model::step::Step;
use pccl_model::trace::Trace;
use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::progress::Progress;

/// Where a search stops before its end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    pub(crate) time: Option<Duration>,
    pub(crate) states: Option<usize>,
}

/// How a search ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Every reachable state was looked at.
    Exhausted,
    /// There are more.
    Cut,
    /// A claim is broken.
    Broken,
}

/// What a search has found.
#[derive(Debug)]
pub(crate) struct Explored {
    pub(crate) scenario: Scenario,
    pub(crate) unique: usize,
    pub(crate) generated: usize,
    pub(crate) depth: usize,
    pub(crate) time: Duration,
    pub(crate) end: End,
    pub(crate) missed: Vec<Milestone>,
    pub(crate) coverage: Arc<Coverage>,
    /// A way to a state in which a claim is broken, seldom the shortest.
    pub(crate) violation: Option<Vec<Step>>,
}

/// A search broke down.
#[derive(Debug, thiserror::Error)]
#[error("a thread of the search panicked; run with RUST_BACKTRACE=1")]
pub(crate) struct SearchPanicked;

/// Explores a scenario.
pub(crate) fn explore(
    scenario: &Scenario,
    threads: usize,
    limits: Limits,
    progress: &mut Progress,
) -> Result<Explored, SearchPanicked> {
    let begun = Instant::now();
    let model = RunModel::new(scenario.clone());
    let coverage = model.coverage();
    let notes = Arc::new(Notes::default());
    let watched = Watched {
        model,
        notes: Arc::clone(&notes),
    };
    let mut checker = watched
        .checker()
        .threads(threads)
        .symmetry_fn(RunState::canonical)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_dfs();
    let handles = checker.handles();
    while !handles.iter().all(std::thread::JoinHandle::is_finished) {
        std::thread::sleep(Duration::from_millis(10));
        let unique = checker.unique_state_count();
        let too_long = limits.time.is_some_and(|limit| begun.elapsed() >= limit);
        let too_many = limits.states.is_some_and(|limit| unique >= limit);
        if too_long || too_many {
            notes.stop.store(true, Ordering::Relaxed);
        }
        progress.show(unique, begun.elapsed());
    }
    for handle in handles {
        handle.join().map_err(|_| SearchPanicked)?;
    }
    let time = begun.elapsed();
    // Before the path is gone again, which counts as well.
    let expanded = notes.expanded.load(Ordering::Relaxed);
    notes.stop.store(false, Ordering::Relaxed);
    let unique = checker.unique_state_count();
    let violation = checker.discovery(HOLDS).map(|path| path.into_actions());
    let end = match &violation {
        Some(_) => End::Broken,
        None if expanded == unique => End::Exhausted,
        None => End::Cut,
    };
    Ok(Explored {
        scenario: scenario.clone(),
        unique,
        generated: checker.state_count(),
        depth: checker.max_depth(),
        time,
        end,
        missed: notes.missed(scenario),
        coverage,
        violation,
    })
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

const HOLDS: &str = "every claim holds";

/// What is noted while the threads explore.
#[derive(Default)]
struct Notes {
    stop: AtomicBool,
    expanded: AtomicUsize,
    /// A bit for each milestone that a step has reached. A step into a state that is known counts.
    reached: AtomicU64,
}

impl Notes {
    fn reach(&self, state: &RunState) {
        let known = self.reached.load(Ordering::Relaxed);
        if state.reached & !known != 0 {
            self.reached.fetch_or(state.reached, Ordering::Relaxed);
        }
    }

    fn missed(&self, scenario: &Scenario) -> Vec<Milestone> {
        let reached = self.reached.load(Ordering::Relaxed);
        let wanted = MILESTONES
            .iter()
            .filter(|wanted| scenario.milestones.contains(wanted));
        wanted
            .copied()
            .filter(|wanted| reached & (1 << *wanted as u32) == 0)
            .collect()
    }
}

/// The run, with one property for all claims: a broken state says itself which.
struct Watched {
    model: RunModel,
    notes: Arc<Notes>,
}

impl Model for Watched {
    type State = RunState;
    type Action = Step;

    fn init_states(&self) -> Vec<RunState> {
        self.model.init_states()
    }

    fn actions(&self, state: &RunState, actions: &mut Vec<Step>) {
        if self.notes.stop.load(Ordering::Relaxed) {
            return;
        }
        self.notes.expanded.fetch_add(1, Ordering::Relaxed);
        self.model.actions(state, actions);
    }

    fn next_state(&self, state: &RunState, step: Step) -> Option<RunState> {
        let next = self.model.next_state(state, step)?;
        self.notes.reach(&next);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always(HOLDS, |watched: &Self, state| {
            watched.model.broken(state).is_none()
        })]
    }
}
