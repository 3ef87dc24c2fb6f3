//! AdamW, on all parameters or on a shard of them.

use std::ops::Range;

use super::model::mean_of;

const LEARNING_RATE: f32 = 3e-3;
const WEIGHT_DECAY: f32 = 0.01;
const MEAN_DECAY: f32 = 0.9;
const SQUARE_DECAY: f32 = 0.99;
const EPSILON: f32 = 1e-8;

/// Three numbers for each parameter: twelve bytes.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) weights: Vec<f32>,
    /// Running average of the gradient.
    pub(crate) mean: Vec<f32>,
    /// Running average of its square.
    pub(crate) square: Vec<f32>,
}

impl State {
    /// Before the first step.
    pub(crate) fn new(weights: Vec<f32>) -> Self {
        let zeros = vec![0.0; weights.len()];
        Self {
            weights,
            mean: zeros.clone(),
            square: zeros,
        }
    }

    /// The state of these parameters alone.
    pub(crate) fn part(&self, range: Range<usize>) -> Self {
        Self {
            weights: self.weights[range.clone()].to_vec(),
            mean: self.mean[range.clone()].to_vec(),
            square: self.square[range].to_vec(),
        }
    }

    /// Moves the weights against the gradient of step `step`, counted from 0.
    pub(crate) fn update(&mut self, sums: &[i64], step: u64) {
        let mean_share = 1.0 - power(MEAN_DECAY, step + 1);
        let square_share = 1.0 - power(SQUARE_DECAY, step + 1);
        let averages = self.mean.iter_mut().zip(&mut self.square);
        for ((weight, sum), (mean, square)) in self.weights.iter_mut().zip(sums).zip(averages) {
            let gradient = mean_of(*sum);
            *mean = MEAN_DECAY * *mean + (1.0 - MEAN_DECAY) * gradient;
            *square = SQUARE_DECAY * *square + (1.0 - SQUARE_DECAY) * gradient * gradient;
            let direction = (*mean / mean_share) / ((*square / square_share).sqrt() + EPSILON);
            *weight -= LEARNING_RATE * (direction + WEIGHT_DECAY * *weight);
        }
    }

    /// The first number whose bits differ from those of `expected`, in words. `None`: all bits are equal.
    pub(crate) fn difference(&self, expected: &Self) -> Option<String> {
        let parts = [
            ("weight", &self.weights, &expected.weights),
            ("mean", &self.mean, &expected.mean),
            ("square", &self.square, &expected.square),
        ];
        parts.into_iter().find_map(|(name, these, those)| {
            if these.len() != those.len() {
                return Some(format!("it has {} of each {name}", these.len()));
            }
            let mut pairs = these.iter().zip(those);
            let at = pairs.position(|(this, that)| this.to_bits() != that.to_bits())?;
            Some(format!("{name} {at} is {}, not {}", these[at], those[at]))
        })
    }
}

/// Unlike `powi`, the same bits on every machine.
fn power(base: f32, exponent: u64) -> f32 {
    (0..exponent).fold(1.0, |power, _| power * base)
}
