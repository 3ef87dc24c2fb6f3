//! The loop of the documentation of `ErrorFeedback`.
//! Below the marker it is word for word what stands there.

use super::compute;

pub(super) fn run(master: &str, weights: &mut Vec<f32>) -> Result<(), Error> {
    train(master, weights).map(drop)
}

// From here on: word for word.
use pccl::{Communicator, ElementType, Error, ErrorFeedback, Quantization, Reduce};

fn train(master: &str, weights: &mut Vec<f32>) -> Result<u64, Error> {
    let to_bytes = Quantization::MinMax {
        to: ElementType::U8,
    };
    let average = Reduce::avg().quantize(to_bytes);
    let mut feedback = ErrorFeedback::new();
    let rounds = Communicator::builder(master).rounds();
    rounds.run(weights, |round| {
        if round.revision() == 1000 {
            return Ok(round.end());
        }
        let mut step = compute(round.state());
        round.retry(|| round.all_reduce_with_feedback(&mut step, average, &mut feedback))?;
        Ok(round.commit(|weights| {
            weights.iter_mut().zip(&step).for_each(|(w, s)| *w -= s);
        }))
    })
}
