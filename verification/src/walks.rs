//! Random walks with more faults than can be explored, and then none: a fair run.
//!
//! In the first part of a walk faults happen now and then. In the second nothing but progress does, any
//! that is possible with the same chance; then the run must come to rest. A state that is met twice in
//! the second part is a circle, in which a run could go on for ever: a failure, as is a broken claim.
//!
//! Where every step is equally likely, one that stays possible is hardly ever put off for long, and what comes
//! long after its time is not met. So in every other walk some kinds of steps have a low priority up to a random
//! step of the first part: they are taken only if nothing else is possible (after Burckhardt et al., A Randomized
//! Scheduler with Probabilistic Guarantees of Finding Bugs, ASPLOS 2010).

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::discriminant;
use std::ops::Range;
use std::time::{Duration, Instant};

use pccl_model::RunModel;
use pccl_model::coverage::Coverage;
use pccl_model::scenario::Scenario;
use pccl_model::step::Step;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use stateright::Model;

use crate::progress::Progress;

/// Faults of a walk: more than a search can afford.
const FAULTS: u8 = 4;

/// The first part takes so many steps at most.
const WILD_STEPS: Range<usize> = 1..120;

/// One in so many kinds of steps is put off, in a walk that puts steps off.
const PUT_OFF_ONE_IN: u64 = 6;

/// The second part does not get longer in a run that comes to rest.
pub(crate) const STEPS_TO_REST_MAX: usize = 1_000;

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalkEnd {
    /// At rest, and all is well.
    Rest,
    /// A claim is broken.
    Broken,
    /// A state was met twice although nothing failed in between.
    Circle,
    /// It went on and on.
    NoEnd,
}

/// A walk that did not end well.
#[derive(Clone, Debug)]
pub(crate) struct Failed {
    pub(crate) scenario: Scenario,
    pub(crate) seed: u64,
    pub(crate) end: WalkEnd,
    pub(crate) steps: Vec<Step>,
}

/// All walks.
#[derive(Debug, Default)]
pub(crate) struct Walked {
    pub(crate) walks: u64,
    pub(crate) steps: usize,
    pub(crate) longest: usize,
    pub(crate) time: Duration,
    pub(crate) failed: Option<Failed>,
    pub(crate) coverage: Coverage,
}

/// The scenario as it is walked through.
pub(crate) fn as_walked(scenario: &Scenario) -> Scenario {
    scenario.clone().with_faults(scenario.faults.max(FAULTS))
}

/// Walks through a scenario with these seeds, until one fails.
pub(crate) fn walk_all(
    scenario: &Scenario,
    seeds: Range<u64>,
    threads: usize,
    progress: &mut Progress,
    into: &mut Walked,
) {
    let begun = Instant::now();
    let model = RunModel::new(as_walked(scenario));
    let parts = walk_in_parts(&model, seeds, threads, UntilFailure::Yes);
    for part in parts {
        into.walks += part.walks;
        into.steps += part.steps;
        into.longest = into.longest.max(part.longest);
        into.failed = into.failed.take().or(part.failed);
    }
    into.time += begun.elapsed();
    progress.say(&format!("{} walks", into.walks));
    into.coverage.merge(&model.coverage());
}

/// The shortest failure among walks with these seeds.
#[cfg(feature = "mutants")]
pub(crate) fn shortest_failure(
    model: &RunModel,
    seeds: Range<u64>,
    threads: usize,
) -> Option<Failed> {
    let parts = walk_in_parts(model, seeds, threads, UntilFailure::No);
    let failed = parts.into_iter().filter_map(|part| part.failed);
    failed.min_by_key(Failed::badness)
}

/// Do walks end with the first that fails?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UntilFailure {
    Yes,
    #[cfg_attr(not(feature = "mutants"), allow(dead_code))]
    No,
}

impl Failed {
    /// A broken claim tells more than a circle, and a short way more than a long one.
    fn badness(&self) -> (bool, usize) {
        (self.end != WalkEnd::Broken, self.steps.len())
    }
}

fn walk_in_parts(
    model: &RunModel,
    seeds: Range<u64>,
    threads: usize,
    until: UntilFailure,
) -> Vec<Walked> {
    std::thread::scope(|scope| {
        let parts: Vec<_> = (0..threads)
            .map(|first| {
                let mine = seeds.clone().skip(first).step_by(threads);
                scope.spawn(move || walk_some(model, mine, until))
            })
            .collect();
        let joined = parts.into_iter().map(|part| part.join());
        joined
            .map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

fn walk_some(model: &RunModel, seeds: impl Iterator<Item = u64>, until: UntilFailure) -> Walked {
    let mut walked = Walked::default();
    for seed in seeds {
        let (end, steps) = walk(model, seed);
        walked.walks += 1;
        walked.steps += steps.len();
        walked.longest = walked.longest.max(steps.len());
        if end == WalkEnd::Rest {
            continue;
        }
        let failed = Failed {
            scenario: model.scenario().clone(),
            seed,
            end,
            steps,
        };
        let known = walked.failed.take();
        walked.failed = known
            .into_iter()
            .chain([failed])
            .min_by_key(Failed::badness);
        if until == UntilFailure::Yes {
            break;
        }
    }
    walked
}

/// One walk.
pub(crate) fn walk(model: &RunModel, seed: u64) -> (WalkEnd, Vec<Step>) {
    let mut random = StdRng::seed_from_u64(seed);
    let wild = random.random_range(WILD_STEPS);
    // One in so many steps is a fault, where one is possible.
    let rarity = random.random_range(3..30_u32);
    // The walk puts some kinds of steps off until then.
    let puts_off = if random.random() {
        random.random_range(0..wild)
    } else {
        0
    };
    let mut state = model.first_state().clone();
    let mut way = Vec::new();
    let mut met = BTreeSet::new();
    loop {
        if model.broken(&state).is_some() {
            return (WalkEnd::Broken, way);
        }
        let healing = way.len() >= wild;
        if healing && !met.insert(state.key()) {
            return (WalkEnd::Circle, way);
        }
        if met.len() > STEPS_TO_REST_MAX {
            return (WalkEnd::NoEnd, way);
        }
        let mut steps = Vec::new();
        model.actions(&state, &mut steps);
        let (faults, mut progress): (Vec<Step>, Vec<Step>) =
            steps.into_iter().partition(|step| step.is_fault());
        if healing {
            progress.retain(|step| step.is_progress());
        } else if way.len() < puts_off {
            let (late, others): (Vec<_>, Vec<_>) =
                progress.iter().partition(|step| is_put_off(**step, seed));
            progress = if others.is_empty() { late } else { others };
        }
        let fails = !healing && !faults.is_empty() && random.random_ratio(1, rarity);
        let from = if fails { &faults } else { &progress };
        let Some(step) = pick(from, &mut random) else {
            return (WalkEnd::Rest, way);
        };
        let Some(next) = model.next_state(&state, step) else {
            return (WalkEnd::Rest, way);
        };
        state = next;
        way.push(step);
    }
}

/// Whether steps of this kind have a low priority in the walk with this seed.
fn is_put_off(step: Step, seed: u64) -> bool {
    let mut hasher = DefaultHasher::new();
    (discriminant(&step), seed).hash(&mut hasher);
    hasher.finish().is_multiple_of(PUT_OFF_ONE_IN)
}

fn pick(steps: &[Step], random: &mut StdRng) -> Option<Step> {
    if steps.is_empty() {
        return None;
    }
    steps.get(random.random_range(0..steps.len())).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pccl_model::trace::named;

    #[test]
    fn a_walk_is_the_same_for_the_same_seed() {
        let scenario = named("reduce-2").map(|scenario| as_walked(&scenario));
        let model = RunModel::new(scenario.expect("a standard scenario"));

        let (end, steps) = walk(&model, 7);

        assert_eq!(end, WalkEnd::Rest);
        assert_eq!(walk(&model, 7).1, steps);
    }
}
