//! The loop of the documentation of `Rounds::run_async`.
//! Below the marker it is word for word what stands there.

use super::compute;

pub(super) fn run(master: &str, weights: &mut Vec<f32>) -> Result<(), Error> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(train(master, weights)).map(drop)
}

// From here on: word for word.
use pccl::{Communicator, Error, Reduce};

async fn train(master: &str, weights: &mut Vec<f32>) -> Result<u64, Error> {
    let rounds = Communicator::builder(master).rounds();
    rounds
        .run_async(weights, async |round| {
            if round.revision() == 1000 {
                return Ok(round.end());
            }
            let mut step = compute(round.state());
            round
                .retry_async(async || round.all_reduce_async(&mut step, Reduce::avg()).await)
                .await?;
            Ok(round.commit(|weights| {
                weights.iter_mut().zip(&step).for_each(|(w, s)| *w -= s);
            }))
        })
        .await
}
