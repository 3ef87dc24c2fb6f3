//! The first program of README and of the library's documentation.
//! Below the marker it is word for word what stands there.

use super::compute;

pub(super) fn run(master: &str, weights: &mut Vec<f32>) -> Result<(), Error> {
    train(master, weights).map(drop)
}

// From here on: word for word.
use pccl::{Communicator, Error, Reduce};

fn train(master: &str, weights: &mut Vec<f32>) -> Result<u64, Error> {
    let rounds = Communicator::builder(master).rounds();
    rounds.run(weights, |round| {
        if round.revision() == 1000 {
            return Ok(round.end());
        }
        let mut step = compute(round.state());
        round.retry(|| round.all_reduce(&mut step, Reduce::avg()))?;
        Ok(round.commit(|weights| {
            weights.iter_mut().zip(&step).for_each(|(w, s)| *w -= s);
        }))
    })
}
