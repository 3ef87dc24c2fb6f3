//! The two optimizers of DiLoCo, and the pseudo-gradient that stands between them.

/// The inner optimizer: Adam with decoupled weight decay. Its state belongs to one peer.
#[derive(Clone, Debug)]
pub(crate) struct AdamW {
    /// Length of a step.
    pub(crate) learning_rate: f32,
    /// Share of a parameter that a step takes away, as a multiple of the learning rate.
    pub(crate) weight_decay: f32,
    mean: Vec<f32>,
    square: Vec<f32>,
    steps: i32,
}

impl AdamW {
    const MEAN_DECAY: f32 = 0.9;
    const SQUARE_DECAY: f32 = 0.99;
    const EPSILON: f32 = 1e-8;

    /// No steps taken yet, for `params` parameters.
    pub(crate) fn new(params: usize, learning_rate: f32, weight_decay: f32) -> Self {
        let zeros = vec![0.0; params];
        Self {
            learning_rate,
            weight_decay,
            mean: zeros.clone(),
            square: zeros,
            steps: 0,
        }
    }

    /// Moves the parameters against the gradient.
    pub(crate) fn step(&mut self, params: &mut [f32], gradient: &[f32]) {
        self.steps = self.steps.saturating_add(1);
        let mean_share = 1.0 - Self::MEAN_DECAY.powi(self.steps);
        let square_share = 1.0 - Self::SQUARE_DECAY.powi(self.steps);
        let kept = 1.0 - self.learning_rate * self.weight_decay;

        let state = self.mean.iter_mut().zip(&mut self.square);
        for ((param, gradient), (mean, square)) in params.iter_mut().zip(gradient).zip(state) {
            *mean = Self::MEAN_DECAY * *mean + (1.0 - Self::MEAN_DECAY) * gradient;
            *square =
                Self::SQUARE_DECAY * *square + (1.0 - Self::SQUARE_DECAY) * gradient * gradient;
            let step = (*mean / mean_share) / ((*square / square_share).sqrt() + Self::EPSILON);
            *param = *param * kept - self.learning_rate * step;
        }
    }
}

/// How far the inner steps went: outer parameters minus inner ones. Its average over the peers is
/// what [`Nesterov::step`] takes.
pub(crate) fn pseudo_gradient(outer: &[f32], inner: &[f32]) -> Vec<f32> {
    outer
        .iter()
        .zip(inner)
        .map(|(outer, inner)| outer - inner)
        .collect()
}

/// The outer optimizer: gradient descent with Nesterov momentum.
///
/// Its momentum is shared state, like the parameters: a newcomer has to receive both. The same step
/// on the same bits gives the same bits on every peer, as each number is made by a fixed sequence
/// of single operations.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Nesterov {
    /// Length of a step.
    pub(crate) learning_rate: f32,
    /// Share of the momentum that outlives a step.
    pub(crate) decay: f32,
    /// One number per parameter.
    pub(crate) momentum: Vec<f32>,
}

impl Nesterov {
    /// At rest, for `params` parameters.
    pub(crate) fn new(params: usize, learning_rate: f32, decay: f32) -> Self {
        Self {
            learning_rate,
            decay,
            momentum: vec![0.0; params],
        }
    }

    /// Moves the outer parameters against the averaged pseudo-gradient.
    pub(crate) fn step(&mut self, params: &mut [f32], average: &[f32]) {
        for ((param, gradient), momentum) in params.iter_mut().zip(average).zip(&mut self.momentum)
        {
            *momentum = self.decay * *momentum + gradient;
            *param -= self.learning_rate * (gradient + self.decay * *momentum);
        }
    }
}
