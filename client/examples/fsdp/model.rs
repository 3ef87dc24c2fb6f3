//! The task: samples that depend on the seed alone, and a network with one hidden layer that learns what another network
//! does. Only operations that IEEE 754 rounds correctly are used, so that the same bits come out everywhere.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const INPUTS: usize = 32;
const HIDDEN: usize = 256;
const OUTPUTS: usize = 16;

/// Weights and biases of both layers.
pub(crate) const PARAMETERS: usize = INPUTS * HIDDEN + HIDDEN + HIDDEN * OUTPUTS + OUTPUTS;

/// Samples of a step, those of all peers together.
pub(crate) const BATCH: usize = 48;

/// What 1 is in fixed point.
const ONE: f64 = (1_u64 << 32) as f64;

/// A derivative by one sample is clipped to this. The sum of a batch of them fits into an `i64`.
const DERIVATIVE_MAX: f32 = (1 << 24) as f32;

const HELD_OUT: u64 = 256;

/// What the network is to learn.
pub(crate) struct Task {
    seed: u64,
    teacher: Vec<f32>,
}

struct Sample {
    inputs: [f32; INPUTS],
    targets: [f32; OUTPUTS],
}

impl Task {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            seed,
            teacher: parameters(!seed),
        }
    }

    /// The parameters before the first step.
    pub(crate) fn initial(&self) -> Vec<f32> {
        parameters(self.seed)
    }

    /// Adds the gradient of one sample of a step's batch to `sums`.
    ///
    /// The sums are in fixed point. Sums of integers are exact: in whatever order and in however many parts a batch is
    /// added up, the bits are the same.
    pub(crate) fn add_gradient(
        &self,
        parameters: &[f32],
        step: u64,
        index: usize,
        sums: &mut [i64],
    ) {
        let sample = self.sample(step * BATCH as u64 + index as u64);
        let layers = Layers::of(parameters);
        let hidden = layers.hidden(&sample.inputs);
        let errors = sample.errors(&layers, &hidden);
        let hidden_errors = layers.hidden_errors(&hidden, &errors);

        let (weights1, rest) = sums.split_at_mut(INPUTS * HIDDEN);
        let (biases1, rest) = rest.split_at_mut(HIDDEN);
        let (weights2, biases2) = rest.split_at_mut(HIDDEN * OUTPUTS);
        add_products(weights1, &sample.inputs, &hidden_errors);
        add_products(biases1, &[1.0], &hidden_errors);
        add_products(weights2, &hidden, &errors);
        add_products(biases2, &[1.0], &errors);
    }

    /// Mean squared error over samples that nobody trains on.
    pub(crate) fn loss(&self, parameters: &[f32]) -> f32 {
        let layers = Layers::of(parameters);
        let squares = (0..HELD_OUT).map(|index| {
            let sample = self.sample(u64::MAX - index);
            let errors = sample.errors(&layers, &layers.hidden(&sample.inputs));
            errors.iter().map(|error| error * error).sum::<f32>()
        });
        squares.sum::<f32>() / (HELD_OUT as usize * OUTPUTS) as f32
    }

    fn sample(&self, number: u64) -> Sample {
        let seed = self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut random = StdRng::seed_from_u64(seed.wrapping_add(number));
        let inputs = [(); INPUTS].map(|()| random.random_range(-1.0..1.0));
        let teacher = Layers::of(&self.teacher);
        let targets = teacher.outputs(&teacher.hidden(&inputs));
        Sample { inputs, targets }
    }
}

impl Sample {
    fn errors(&self, layers: &Layers<'_>, hidden: &[f32; HIDDEN]) -> [f32; OUTPUTS] {
        let mut errors = layers.outputs(hidden);
        add_scaled(&mut errors, &self.targets, -1.0);
        errors
    }
}

/// The mean gradient of a batch, from its sum in fixed point.
pub(crate) fn mean_of(sum: i64) -> f32 {
    (sum as f64 / (ONE * BATCH as f64)) as f32
}

/// Fresh parameters, the same for the same seed: He's uniform initialization, biases zero.
fn parameters(seed: u64) -> Vec<f32> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut layer = |inputs: usize, outputs: usize| -> Vec<f32> {
        let bound = (6.0 / inputs as f32).sqrt();
        let weights = (0..inputs * outputs).map(|_| random.random_range(-bound..bound));
        weights.chain((0..outputs).map(|_| 0.0)).collect()
    };
    [layer(INPUTS, HIDDEN), layer(HIDDEN, OUTPUTS)].concat()
}

/// The parameters by their meaning. Row `i` of weights holds what input `i` adds to each unit of the next layer.
struct Layers<'a> {
    weights1: &'a [f32],
    biases1: &'a [f32],
    weights2: &'a [f32],
    biases2: &'a [f32],
}

impl<'a> Layers<'a> {
    fn of(parameters: &'a [f32]) -> Self {
        let (weights1, rest) = parameters.split_at(INPUTS * HIDDEN);
        let (biases1, rest) = rest.split_at(HIDDEN);
        let (weights2, biases2) = rest.split_at(HIDDEN * OUTPUTS);
        Self {
            weights1,
            biases1,
            weights2,
            biases2,
        }
    }

    fn hidden(&self, inputs: &[f32; INPUTS]) -> [f32; HIDDEN] {
        let mut sums = [0.0; HIDDEN];
        sums.copy_from_slice(self.biases1);
        for (row, input) in self.weights1.chunks_exact(HIDDEN).zip(inputs) {
            add_scaled(&mut sums, row, *input);
        }
        sums.map(|sum| sum.max(0.0))
    }

    fn outputs(&self, hidden: &[f32; HIDDEN]) -> [f32; OUTPUTS] {
        let mut sums = [0.0; OUTPUTS];
        sums.copy_from_slice(self.biases2);
        for (row, activation) in self.weights2.chunks_exact(OUTPUTS).zip(hidden) {
            add_scaled(&mut sums, row, *activation);
        }
        sums
    }

    /// The derivative of half the squared error by the sums of the hidden layer.
    fn hidden_errors(&self, hidden: &[f32; HIDDEN], errors: &[f32; OUTPUTS]) -> [f32; HIDDEN] {
        let mut hidden_errors = [0.0; HIDDEN];
        let rows = self.weights2.chunks_exact(OUTPUTS);
        for ((error, row), activation) in hidden_errors.iter_mut().zip(rows).zip(hidden) {
            if *activation > 0.0 {
                *error = row.iter().zip(errors).map(|(w, e)| w * e).sum();
            }
        }
        hidden_errors
    }
}

fn add_scaled(sums: &mut [f32], row: &[f32], factor: f32) {
    for (sum, number) in sums.iter_mut().zip(row) {
        *sum += number * factor;
    }
}

/// Adds each product of a number on the left and one on the right, in fixed point.
fn add_products(sums: &mut [i64], left: &[f32], right: &[f32]) {
    for (row, left) in sums.chunks_exact_mut(right.len()).zip(left) {
        for (sum, right) in row.iter_mut().zip(right) {
            let derivative = (left * right).clamp(-DERIVATIVE_MAX, DERIVATIVE_MAX);
            *sum += (f64::from(derivative) * ONE).round() as i64;
        }
    }
}
