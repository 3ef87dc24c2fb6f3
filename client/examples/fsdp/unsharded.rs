//! The same training in one process, without shards and without pccl: what every run has to end with.

use super::model::{BATCH, PARAMETERS, Task};
use super::optimizer::State;

/// The state after so many steps.
pub(crate) fn train(seed: u64, steps: u64) -> State {
    let task = Task::new(seed);
    let mut state = State::new(task.initial());
    for step in 0..steps {
        let mut sums = vec![0; PARAMETERS];
        for index in 0..BATCH {
            task.add_gradient(&state.weights, step, index, &mut sums);
        }
        state.update(&sums, step);
    }
    state
}
