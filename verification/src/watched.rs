//! What is explored, as stateright sees it: the model, states that know what stands for them, and notes of
//! all that the threads meet.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use pccl_model::RunModel;
use pccl_model::milestone::{MILESTONES, Milestone};
use pccl_model::scenario::Scenario;
use pccl_model::state::RunState;
use pccl_model::step::Step;
use stateright::{Model, Property};

use crate::graph::{Key, Steps};

/// The property of states in which no claim is broken.
pub(crate) const HOLDS: &str = "every claim holds";

/// The property of ways that are not suspiciously long.
pub(crate) const ENDS: &str = "every run ends";

/// A state, and how it was come by.
#[derive(Clone)]
pub(crate) struct Known {
    pub(crate) run: RunState,
    /// The same for states that differ in nothing but the order of interchangeable seats: what stateright
    /// takes for equal.
    pub(crate) key: Key,
    /// Steps on the way on which it was met first, but for signs of life.
    depth: usize,
}

impl Known {
    fn new(run: RunState, depth: usize) -> Self {
        let key = run.key();
        Self { run, key, depth }
    }
}

impl Hash for Known {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.key);
    }
}

impl PartialEq for Known {
    fn eq(&self, other: &Self) -> bool {
        self.run == other.run
    }
}

/// What is noted while the threads explore.
#[derive(Default)]
pub(crate) struct Notes {
    /// No more is looked at.
    pub(crate) stop: AtomicBool,
    /// States whose successors were generated.
    pub(crate) expanded: AtomicUsize,
    /// A bit for each milestone that a step has reached. A step into a state that is known counts.
    reached: AtomicU64,
    /// The steps between states.
    pub(crate) steps: Steps,
}

impl Notes {
    fn reach(&self, state: &RunState) {
        let known = self.reached.load(Ordering::Relaxed);
        if state.reached & !known != 0 {
            self.reached.fetch_or(state.reached, Ordering::Relaxed);
        }
    }

    /// All that were reached, whether the scenario promises them or not.
    pub(crate) fn reached(&self) -> Vec<Milestone> {
        let reached = self.reached.load(Ordering::Relaxed);
        let all = MILESTONES.iter().copied();
        all.filter(|known| reached & (1_u64 << *known as u32) != 0)
            .collect()
    }

    pub(crate) fn missed(&self, scenario: &Scenario) -> Vec<Milestone> {
        let reached = self.reached();
        let wanted = scenario.milestones.iter().copied();
        wanted.filter(|wanted| !reached.contains(wanted)).collect()
    }
}

/// The run, with one property for all claims: a broken state says itself which.
pub(crate) struct Watched {
    pub(crate) model: RunModel,
    pub(crate) notes: Arc<Notes>,
    /// Longer ways are held to be endless.
    pub(crate) longest: usize,
}

impl Watched {
    pub(crate) fn first(&self) -> Known {
        Known::new(self.model.first_state().clone(), 0)
    }
}

impl Model for Watched {
    type State = Known;
    type Action = Step;

    fn init_states(&self) -> Vec<Known> {
        vec![self.first()]
    }

    fn actions(&self, state: &Known, actions: &mut Vec<Step>) {
        if self.notes.stop.load(Ordering::Relaxed) {
            return;
        }
        self.notes.expanded.fetch_add(1, Ordering::Relaxed);
        self.model.actions(&state.run, actions);
    }

    fn next_state(&self, state: &Known, step: Step) -> Option<Known> {
        let next = self.model.next_state(&state.run, step)?;
        self.notes.reach(&next);
        let next = Known::new(next, state.depth + usize::from(!step.is_beat()));
        self.notes.steps.note(state.key, next.key, step.is_beat());
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(HOLDS, |watched: &Self, state: &Known| {
                watched.model.broken(&state.run).is_none()
            }),
            Property::always(ENDS, |watched: &Self, state: &Known| {
                state.depth <= watched.longest
            }),
        ]
    }
}
