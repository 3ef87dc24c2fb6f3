//! A small network that reads digits: one hidden layer, trained by hand-written backpropagation.
//!
//! All parameters lie in one vector, because that is what a collective wants. A framework would be
//! more than this task needs: it takes minutes to compile, and its threads would contend with those
//! of the other peers on the same machine.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::digits::{CLASSES, PIXELS, Samples};
use super::optim::AdamW;

/// Units of the hidden layer.
pub(crate) const HIDDEN: usize = 128;

/// Number of parameters: weights and biases of both layers.
pub(crate) const PARAMS: usize = PIXELS * HIDDEN + HIDDEN + HIDDEN * CLASSES + CLASSES;

/// The parameters, and scratch space for training.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    params: Vec<f32>,
    gradient: Vec<f32>,
}

impl Network {
    /// Fresh parameters, the same for the same seed: He's uniform initialization, biases zero.
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut network = Self {
            params: vec![0.0; PARAMS],
            gradient: vec![0.0; PARAMS],
        };
        let layers = LayersMut::of(&mut network.params);
        for (weights, inputs) in [(layers.weights1, PIXELS), (layers.weights2, HIDDEN)] {
            let bound = (6.0 / inputs as f32).sqrt();
            weights.fill_with(|| rng.random_range(-bound..bound));
        }
        network
    }

    /// The [`PARAMS`] parameters.
    pub(crate) fn params(&self) -> &[f32] {
        &self.params
    }

    /// The parameters, to be overwritten after an outer step.
    pub(crate) fn params_mut(&mut self) -> &mut [f32] {
        &mut self.params
    }

    /// One step of the inner optimizer on one batch. Returns the mean loss before the step.
    pub(crate) fn train_step(&mut self, optimizer: &mut AdamW, batch: &Samples) -> f32 {
        let loss = self.backward(batch);
        optimizer.step(&mut self.params, &self.gradient);
        loss
    }

    /// Mean cross entropy over the samples and its gradient, one number per parameter.
    pub(crate) fn loss_and_gradient(&mut self, samples: &Samples) -> (f32, &[f32]) {
        let loss = self.backward(samples);
        (loss, &self.gradient)
    }

    /// Share of the samples that the network reads correctly, from 0 to 1.
    pub(crate) fn accuracy(&self, samples: &Samples) -> f32 {
        let layers = Layers::of(&self.params);
        let right = samples.iter().filter(|(image, label)| {
            let scores = layers.scores(&layers.hidden(image));
            let best = (0..CLASSES).max_by(|a, b| scores[*a].total_cmp(&scores[*b]));
            best == Some(usize::from(*label))
        });
        right.count() as f32 / samples.len() as f32
    }

    /// Leaves the gradient of the mean loss in `self.gradient` and returns that loss.
    fn backward(&mut self, samples: &Samples) -> f32 {
        self.gradient.fill(0.0);
        let layers = Layers::of(&self.params);
        let gradient = LayersMut::of(&mut self.gradient);
        let share = 1.0 / samples.len() as f32;
        let mut loss = 0.0;
        for (image, label) in samples.iter() {
            let hidden = layers.hidden(image);
            let probabilities = softmax(layers.scores(&hidden));
            let label = usize::from(label);
            loss -= probabilities[label].max(f32::MIN_POSITIVE).ln() * share;

            // The derivative of the loss by the scores.
            let mut errors = probabilities.map(|probability| probability * share);
            errors[label] -= share;
            add_scaled(gradient.biases2, &errors, 1.0);
            let rows = gradient.weights2.as_chunks_mut::<CLASSES>().0;
            for (row, activation) in rows.iter_mut().zip(&hidden) {
                add_scaled(row, &errors, *activation);
            }

            let hidden_errors = layers.hidden_errors(&hidden, &errors);
            add_scaled(gradient.biases1, &hidden_errors, 1.0);
            let rows = gradient.weights1.as_chunks_mut::<HIDDEN>().0;
            for (row, pixel) in rows.iter_mut().zip(image) {
                add_scaled(row, &hidden_errors, *pixel);
            }
        }
        loss
    }
}

/// The parameters by their meaning. Weights lie by input: row `i` holds what input `i` adds to each
/// unit of the next layer.
struct Layers<'a> {
    weights1: &'a [f32],
    biases1: &'a [f32],
    weights2: &'a [f32],
    biases2: &'a [f32],
}

impl<'a> Layers<'a> {
    fn of(params: &'a [f32]) -> Self {
        let (weights1, rest) = params.split_at(PIXELS * HIDDEN);
        let (biases1, rest) = rest.split_at(HIDDEN);
        let (weights2, biases2) = rest.split_at(HIDDEN * CLASSES);
        Self {
            weights1,
            biases1,
            weights2,
            biases2,
        }
    }

    /// Activations of the hidden layer.
    fn hidden(&self, image: &[f32; PIXELS]) -> [f32; HIDDEN] {
        let mut sums = [0.0; HIDDEN];
        sums.copy_from_slice(self.biases1);
        for (row, pixel) in self.weights1.as_chunks::<HIDDEN>().0.iter().zip(image) {
            add_scaled(&mut sums, row, *pixel);
        }
        sums.map(|sum| sum.max(0.0))
    }

    /// One score per digit; the greatest is the answer.
    fn scores(&self, hidden: &[f32; HIDDEN]) -> [f32; CLASSES] {
        let mut scores = [0.0; CLASSES];
        scores.copy_from_slice(self.biases2);
        for (row, activation) in self.weights2.as_chunks::<CLASSES>().0.iter().zip(hidden) {
            add_scaled(&mut scores, row, *activation);
        }
        scores
    }

    /// The derivative of the loss by the sums of the hidden layer.
    fn hidden_errors(&self, hidden: &[f32; HIDDEN], errors: &[f32; CLASSES]) -> [f32; HIDDEN] {
        let mut hidden_errors = [0.0; HIDDEN];
        let rows = self.weights2.as_chunks::<CLASSES>().0;
        for ((error, row), activation) in hidden_errors.iter_mut().zip(rows).zip(hidden) {
            if *activation > 0.0 {
                *error = row
                    .iter()
                    .zip(errors)
                    .map(|(weight, error)| weight * error)
                    .sum();
            }
        }
        hidden_errors
    }
}

/// The same division of a vector that is being written.
struct LayersMut<'a> {
    weights1: &'a mut [f32],
    biases1: &'a mut [f32],
    weights2: &'a mut [f32],
    biases2: &'a mut [f32],
}

impl<'a> LayersMut<'a> {
    fn of(params: &'a mut [f32]) -> Self {
        let (weights1, rest) = params.split_at_mut(PIXELS * HIDDEN);
        let (biases1, rest) = rest.split_at_mut(HIDDEN);
        let (weights2, biases2) = rest.split_at_mut(HIDDEN * CLASSES);
        Self {
            weights1,
            biases1,
            weights2,
            biases2,
        }
    }
}

/// `sums[i] += row[i] * by`. A factor of zero, half of all pixels and activations, costs nothing.
fn add_scaled(sums: &mut [f32], row: &[f32], by: f32) {
    if by == 0.0 {
        return;
    }
    for (sum, value) in sums.iter_mut().zip(row) {
        *sum += value * by;
    }
}

/// Probabilities from scores.
fn softmax(scores: [f32; CLASSES]) -> [f32; CLASSES] {
    let greatest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers = scores.map(|score| (score - greatest).exp());
    let sum: f32 = powers.iter().sum();
    powers.map(|power| power / sum)
}
