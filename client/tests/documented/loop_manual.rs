//! The loop of README and of the library's documentation that handles errors itself.
//! Below the marker it is word for word what stands there.

use super::compute;

pub(super) fn run(master: &str, weights: &mut [f32]) -> Result<(), Error> {
    train(master, weights, 0)
}

// From here on: word for word.
use pccl::{Communicator, Error, Next, Reduce, SharedState, SyncStrategy};

fn train(master: &str, weights: &mut [f32], mut revision: u64) -> Result<(), Error> {
    let builder = Communicator::builder(master);
    let mut comm = builder.clone().connect()?;
    while revision < 1000 {
        let Err(error) = round(&mut comm, weights, &mut revision) else {
            continue;
        };
        match error.next() {
            // Nothing has changed, and the next round makes all calls again, in the order of all peers.
            Next::CallAgain | Next::StartRoundAgain | Next::MakeOtherCallFirst(_) => {}
            Next::Reconnect => comm = builder.clone().connect()?,
            _ => return Err(error),
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
