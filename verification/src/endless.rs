//! A run that does not end, as a story that does: the way to what is repeated, and that once.

use pccl_model::RunModel;
use pccl_model::step::Step;
use stateright::Model;

use crate::shortest::{leave_out, take};
use crate::walks::STEPS_TO_REST_MAX;

/// How often something is seen before it is held to go on for ever.
const TIMES: usize = 3;

/// A way, of which the last steps are repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endless {
    pub(crate) steps: Vec<Step>,
    /// So many of them, again and again. `None`: the way is only long.
    pub(crate) repeated: Option<usize>,
}

/// The short story of a long way.
///
/// After its last fault some step is taken that is always the same one for a state. If that does not end, the
/// steps before are left out that are not needed for it, and what comes after is told until it repeats itself.
pub(crate) fn in_short(model: &RunModel, long: &[Step]) -> Endless {
    let last_fault = long.iter().rposition(|step| step.is_fault());
    let before: Vec<Step> = long
        .iter()
        .take(last_fault.map_or(0, |at| at + 1))
        .copied()
        .collect();
    let choices = [Choice::First, Choice::Last];
    let endless = choices.iter().find_map(|choice| {
        let needed = needed(model, before.clone(), *choice)?;
        let (taken, after) = go_on(model, &needed, *choice);
        let (until, repeated) = once(&after)?;
        let steps = taken.into_iter().chain(after.into_iter().take(until));
        Some(Endless {
            steps: steps.collect(),
            repeated: Some(repeated),
        })
    });
    endless.unwrap_or_else(|| Endless {
        steps: long.to_vec(),
        repeated: None,
    })
}

/// Which of several possible steps is taken.
#[derive(Clone, Copy, Debug)]
enum Choice {
    First,
    Last,
}

/// Those of the steps without which the run would end, about. `None`: it ends as it is.
fn needed(model: &RunModel, steps: Vec<Step>, choice: Choice) -> Option<Vec<Step>> {
    let is_endless = |steps: &[Step]| go_on(model, steps, choice).1.len() >= STEPS_TO_REST_MAX;
    if !is_endless(&steps) {
        return None;
    }
    let enough = |without: &[Step]| is_endless(without).then(|| without.to_vec());
    Some(leave_out(steps, enough))
}

/// Takes those of the steps that are possible, and goes on without another fault: what was taken of the
/// former, and what came then.
fn go_on(model: &RunModel, steps: &[Step], choice: Choice) -> (Vec<Step>, Vec<Step>) {
    let mut state = model.first_state().clone();
    let (mut taken, mut after) = (Vec::new(), Vec::new());
    for step in steps {
        if take(model, &mut state, *step) {
            taken.push(*step);
        }
    }
    while after.len() < STEPS_TO_REST_MAX && model.broken(&state).is_none() {
        let mut possible = Vec::new();
        model.actions(&state, &mut possible);
        possible.retain(|step| step.is_progress());
        let next = match choice {
            Choice::First => possible.first(),
            Choice::Last => possible.last(),
        };
        let Some(next) = next.copied() else { break };
        take(model, &mut state, next);
        after.push(next);
    }
    (taken, after)
}

/// Until where the steps have to be told for all that is repeated to be told once, and how many these are.
fn once(steps: &[Step]) -> Option<(usize, usize)> {
    let repeats = |size: usize, at: usize| steps.get(at) == steps.get(at + size);
    let is_period = |size: &usize| {
        let first = steps.len().checked_sub(size * TIMES);
        first.is_some_and(|first| (first..steps.len() - size).all(|at| repeats(*size, at)))
    };
    let period = (1..=steps.len() / TIMES).find(is_period)?;
    let begins = (0..steps.len() - period).rfind(|at| !repeats(period, *at));
    Some((begins.map_or(0, |at| at + 1) + period, period))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pccl_model::step::SeatNo;
    use pccl_model::trace::named;

    fn steps(numbers: &[u8]) -> Vec<Step> {
        numbers
            .iter()
            .map(|number| Step::Up(SeatNo(*number)))
            .collect()
    }

    #[test]
    fn what_is_repeated_is_told_once() {
        assert_eq!(once(&steps(&[9, 1, 2, 1, 2, 1, 2])), Some((3, 2)));
        assert_eq!(once(&steps(&[7, 8, 5, 5, 5, 5])), Some((3, 1)));
        assert_eq!(once(&steps(&[1, 2, 3, 4, 5, 6])), None);
    }

    #[test]
    fn a_run_that_ends_is_not_called_endless() {
        let model = RunModel::new(named("reduce-2").expect("a standard scenario"));

        let way = in_short(&model, &steps(&[0, 1]));

        assert_eq!(way.repeated, None);
    }
}
