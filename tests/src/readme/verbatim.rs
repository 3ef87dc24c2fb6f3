//! The loop shown in the README and in the library's documentation, as a module that can be run.
//! `tests/readme_loop.rs` checks that everything below the marker matches them word for word.

use super::compute;

pub(super) fn run(master: &str, weights: Vec<f32>, revision: u64) -> Result<(), Error> {
    train(master, weights, revision)
}

// From here on: word for word.
use pccl::{Communicator, Error, Reduce, SharedState, SyncStrategy};

fn train(master: &str, mut weights: Vec<f32>, mut revision: u64) -> Result<(), Error> {
    let mut comm = Communicator::builder(master).connect()?;
    while revision < 1000 {
        match round(&mut comm, &mut weights, &mut revision) {
            Err(error) if !error.is_retryable() => return Err(error),
            _ => {} // a call that failed has changed nothing: the next round repeats it
        }
    }
    Ok(())
}

fn round(comm: &mut Communicator, weights: &mut [f32], revision: &mut u64) -> Result<(), Error> {
    comm.update_topology()?; // newcomers come in here
    let mut state = SharedState::at(*revision);
    state.entry("weights", weights)?;
    comm.sync_shared_state(&mut state, SyncStrategy::EnforcePopular)?;
    *revision = state.revision;

    let mut step = compute(weights);
    comm.all_reduce(&mut step, Reduce::avg())?;
    weights.iter_mut().zip(&step).for_each(|(w, s)| *w -= s);
    *revision += 1;
    Ok(())
}
