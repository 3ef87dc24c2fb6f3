//! The shortest way to a broken claim, for a story that is worth reading.
//!
//! A depth-first search finds long ways. Here the scenario is explored again level by level, so the
//! first broken claim that is met is a nearest one. (stateright's breadth-first search reports the last
//! one met, ignores symmetry, and would have to be run anew for every depth.) Where that takes too
//! long, the long way is made shorter by leaving out what is not needed.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use pccl_model::RunModel;
use pccl_model::state::RunState;
use pccl_model::step::Step;
use stateright::Model;

/// A way, and whether there is none that is shorter.
#[derive(Clone, Debug)]
pub(crate) struct ShortTrace {
    pub(crate) steps: Vec<Step>,
    /// No way with fewer steps breaks any claim.
    pub(crate) is_shortest: bool,
}

/// So many states at most are kept at a time.
const STATES_MAX: usize = 3_000_000;

/// What a search level by level came to.
enum Levels {
    /// The nearest violation.
    Found(Vec<Step>),
    /// There is none within the depth.
    None,
    /// Time or memory ran out.
    GaveUp,
}

/// Shortens a way, for as long as `time` at most.
pub(crate) fn shorten(
    model: &RunModel,
    long: Vec<Step>,
    threads: usize,
    time: Duration,
) -> ShortTrace {
    let begun = Instant::now();
    let short = drop_what_is_not_needed(model, long, begun + time / 4);
    let below = short.len().saturating_sub(1);
    match by_levels(model, below, threads, begun + time) {
        Levels::Found(steps) => ShortTrace {
            steps,
            is_shortest: true,
        },
        Levels::None => ShortTrace {
            steps: short,
            is_shortest: true,
        },
        Levels::GaveUp => ShortTrace {
            steps: short,
            is_shortest: false,
        },
    }
}

/// A state that was reached, and from which one by which step.
type Reached = (RunState, u32, Step);

/// Explores level by level, down to ways of `depth` steps.
fn by_levels(model: &RunModel, depth: usize, threads: usize, until: Instant) -> Levels {
    if model.broken(model.first_state()).is_some() {
        return Levels::Found(Vec::new());
    }
    let mut known = BTreeSet::from([model.first_state().key()]);
    // Every state but the first: from which one, by which step. Numbers count from 1.
    let mut parents: Vec<(u32, Step)> = Vec::new();
    let mut level = vec![(0_u32, model.first_state().clone())];
    for _ in 0..depth {
        let mut next = Vec::new();
        // In pieces, so that time is looked at often enough.
        for piece in level.chunks(4096) {
            for (state, from, step) in expand(model, piece, threads) {
                if !known.insert(state.key()) {
                    continue;
                }
                parents.push((from, step));
                let number = u32::try_from(parents.len()).unwrap_or(u32::MAX);
                if model.broken(&state).is_some() {
                    return Levels::Found(way_to(number, &parents));
                }
                next.push((number, state));
            }
            if Instant::now() >= until || known.len() >= STATES_MAX {
                return Levels::GaveUp;
            }
        }
        if next.is_empty() {
            break;
        }
        level = next;
    }
    Levels::None
}

/// All successors, in a fixed order.
fn expand(model: &RunModel, states: &[(u32, RunState)], threads: usize) -> Vec<Reached> {
    if threads < 2 || states.len() < 64 {
        return successors(model, states);
    }
    let size = states.len().div_ceil(threads);
    std::thread::scope(|scope| {
        let parts: Vec<_> = states
            .chunks(size)
            .map(|part| scope.spawn(move || successors(model, part)))
            .collect();
        let joined = parts.into_iter().map(|part| part.join());
        joined
            .flat_map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

fn successors(model: &RunModel, states: &[(u32, RunState)]) -> Vec<Reached> {
    let mut out = Vec::new();
    let mut steps = Vec::new();
    for (number, state) in states {
        steps.clear();
        model.actions(state, &mut steps);
        for step in &steps {
            let next = model.next_state(state, *step);
            out.extend(next.map(|next| (next, *number, *step)));
        }
    }
    out
}

fn way_to(mut number: u32, parents: &[(u32, Step)]) -> Vec<Step> {
    let mut way = Vec::new();
    while let Some((from, step)) = (number as usize)
        .checked_sub(1)
        .and_then(|at| parents.get(at))
    {
        way.push(*step);
        number = *from;
    }
    way.reverse();
    way
}

/// Leaves steps out, larger pieces first, as long as a claim is broken in the end.
fn drop_what_is_not_needed(model: &RunModel, long: Vec<Step>, until: Instant) -> Vec<Step> {
    leave_out(long, |without| {
        let is_time_left = Instant::now() < until;
        is_time_left.then(|| go(model, without)).flatten()
    })
}

/// Leaves steps out, larger pieces first. `enough` says whether what is left will do, and how much of it.
pub(crate) fn leave_out(
    long: Vec<Step>,
    mut enough: impl FnMut(&[Step]) -> Option<Vec<Step>>,
) -> Vec<Step> {
    let mut short = long;
    let mut size = short.len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        while at < short.len() {
            let without: Vec<Step> = (short.iter().take(at))
                .chain(short.iter().skip(at + size))
                .copied()
                .collect();
            match enough(&without) {
                Some(taken) if taken.len() < short.len() => short = taken,
                Some(_) | None => at += size,
            }
        }
        size /= 2;
    }
    short
}

/// Takes those steps that are possible, until a claim is broken: what was taken. `None`: none is.
fn go(model: &RunModel, steps: &[Step]) -> Option<Vec<Step>> {
    let mut state = model.first_state().clone();
    let mut taken = Vec::new();
    for step in steps {
        if model.broken(&state).is_some() {
            break;
        }
        if take(model, &mut state, *step) {
            taken.push(*step);
        }
    }
    model.broken(&state).map(|_| taken)
}

/// Takes a step. False: it is not possible.
pub(crate) fn take(model: &RunModel, state: &mut RunState, step: Step) -> bool {
    let mut possible = Vec::new();
    model.actions(state, &mut possible);
    let is_possible = possible.contains(&step);
    let next = is_possible.then(|| model.next_state(state, step)).flatten();
    next.map(|next| *state = next).is_some()
}
