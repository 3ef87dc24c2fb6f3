//! The numbers of the training run, and one peer's part in a round of it.

use super::digits::{DamagedData, Digits, Shard};
use super::network::{Network, PARAMS};
use super::optim::{AdamW, Nesterov, pseudo_gradient};

/// Seed of the initial parameters. Peers that start with the same ones have nothing to transfer.
pub(crate) const INITIAL_SEED: u64 = 8;
/// Steps that a peer takes alone between two averages.
pub(crate) const INNER_STEPS: usize = 30;
/// Images in each of these steps.
pub(crate) const BATCH: usize = 96;
/// Rounds after which the network reads about 97 % of the test images.
pub(crate) const ROUNDS: u64 = 40;

const INNER_LEARNING_RATE: f32 = 4e-3;
const WEIGHT_DECAY: f32 = 0.1;
const OUTER_LEARNING_RATE: f32 = 0.7;
// Long training runs take 0.9, which needs more than our few rounds to come to rest.
const OUTER_MOMENTUM: f32 = 0.6;
const LATE_OUTER_LEARNING_RATE: f32 = 0.4;
const LATE_OUTER_MOMENTUM: f32 = 0.3;

/// The outer optimizer at rest, for averages that arrive in the round in which they were made.
pub(crate) fn outer_optimizer() -> Nesterov {
    Nesterov::new(PARAMS, OUTER_LEARNING_RATE, OUTER_MOMENTUM)
}

/// The outer optimizer at rest, for averages that arrive a round late, while the peers train on.
///
/// It takes shorter steps and remembers fewer of them: what it hears of, it has partly mended already. With long steps
/// every round overshoots more than the one before, and the network learns nothing.
pub(crate) fn late_outer_optimizer() -> Nesterov {
    Nesterov::new(PARAMS, LATE_OUTER_LEARNING_RATE, LATE_OUTER_MOMENTUM)
}

/// What one peer has for itself: its data, its network, and the state of its inner optimizer.
///
/// The inner optimizer's state is kept from round to round, as its running averages are worth more
/// than those of a few steps, and it is nobody else's business: a newcomer starts without.
#[derive(Debug)]
pub(crate) struct Trainee {
    digits: Digits,
    shard: Shard,
    network: Network,
    optimizer: AdamW,
}

impl Trainee {
    /// A peer that trains on the shard with this seed. No two peers should have the same.
    ///
    /// # Errors
    /// The data that is compiled in is damaged.
    pub(crate) fn new(shard_seed: u64) -> Result<Self, DamagedData> {
        let digits = Digits::load()?;
        let shard = digits.shard(shard_seed);
        let optimizer = AdamW::new(PARAMS, INNER_LEARNING_RATE, WEIGHT_DECAY);
        Ok(Self {
            digits,
            shard,
            network: Network::new(INITIAL_SEED),
            optimizer,
        })
    }

    /// Trains from the outer parameters for [`INNER_STEPS`] steps. Returns the pseudo-gradient and
    /// the mean loss on the way.
    ///
    /// # Panics
    /// Unless `outer` holds [`PARAMS`] numbers.
    pub(crate) fn inner_phase(&mut self, outer: &[f32]) -> (Vec<f32>, f32) {
        self.network.params_mut().copy_from_slice(outer);
        let mut losses = 0.0;
        for _ in 0..INNER_STEPS {
            let batch = self.shard.next_batch(BATCH);
            losses += self.network.train_step(&mut self.optimizer, &batch);
        }
        (
            pseudo_gradient(outer, self.network.params()),
            losses / INNER_STEPS as f32,
        )
    }

    /// Share of the test images, which no peer trains on, that these parameters read correctly.
    ///
    /// # Panics
    /// Unless `outer` holds [`PARAMS`] numbers.
    pub(crate) fn test_accuracy(&mut self, outer: &[f32]) -> f32 {
        self.network.params_mut().copy_from_slice(outer);
        self.network.accuracy(&self.digits.test)
    }
}
