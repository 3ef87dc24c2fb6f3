//! Does what the DiLoCo examples train with do what it says? The data is whole, the gradient is the
//! gradient, and simulated peers that come and go learn to read.

#[path = "../examples/support/mod.rs"]
mod support;

use support::digits::{CLASSES, Digits, PIXELS, Samples};
use support::network::{Network, PARAMS};
use support::optim::{AdamW, Nesterov, pseudo_gradient};
use support::recipe::{INITIAL_SEED, ROUNDS, Trainee, late_outer_optimizer, outer_optimizer};

fn digits() -> Digits {
    Digits::load().expect("the data is part of the program")
}

fn images(samples: &Samples) -> Vec<Vec<u32>> {
    samples
        .iter()
        .map(|(image, _)| image.iter().map(|pixel| pixel.to_bits()).collect())
        .collect()
}

#[test]
fn the_data_holds_1797_images_of_ten_digits() {
    let digits = digits();

    let mut counts = [0; CLASSES];
    for samples in [&digits.training, &digits.test] {
        assert_eq!(samples.pixels.len(), samples.len() * PIXELS);
        assert!(
            samples
                .pixels
                .iter()
                .all(|pixel| (0.0..=1.0).contains(pixel))
        );
        for (_, label) in samples.iter() {
            counts[usize::from(label)] += 1;
        }
    }
    assert_eq!(counts, [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]);
    assert_eq!((digits.training.len(), digits.test.len()), (1437, 360));
}

#[test]
fn no_test_image_is_ever_trained_on() {
    let digits = digits();
    let test = images(&digits.test);

    for seed in 0..4 {
        let shard = digits.shard(seed);
        let shard = images(shard.samples());

        assert!(
            shard.iter().all(|image| !test.contains(image)),
            "shard {seed}"
        );
    }
}

#[test]
fn a_shard_depends_on_its_seed_alone() {
    let digits = digits();

    let batch = |seed| digits.shard(seed).next_batch(50);

    assert_eq!(batch(3), batch(3));
    assert_ne!(batch(3), batch(4));
}

#[test]
fn two_shards_cover_most_of_the_training_images() {
    let digits = digits();

    let mut seen: Vec<_> = (0..2)
        .flat_map(|seed| images(digits.shard(seed).samples()))
        .collect();
    seen.sort();
    seen.dedup();

    assert!(
        seen.len() * 10 > digits.training.len() * 7,
        "{} images",
        seen.len()
    );
}

#[test]
fn the_gradient_predicts_how_the_loss_changes() {
    // A unit that switches on or off on the way bends the loss: a small step makes that rare, a
    // large batch makes it weigh little.
    const STEP: f32 = 1e-3;
    let batch = digits().shard(1).next_batch(64);
    let mut network = Network::new(5);
    let (_, gradient) = network.loss_and_gradient(&batch);
    let gradient = gradient.to_vec();

    // Every 23rd parameter: some of each layer's weights and biases.
    for index in (0..PARAMS).step_by(23).chain(PARAMS - CLASSES..PARAMS) {
        let at = network.params()[index];
        let mut loss_at = |value| {
            network.params_mut()[index] = value;
            network.loss_and_gradient(&batch).0
        };
        let slope = (loss_at(at + STEP) - loss_at(at - STEP)) / (2.0 * STEP);
        loss_at(at);

        let error = (slope - gradient[index]).abs();
        assert!(
            error < 1e-3,
            "parameter {index}: {slope} by difference, {}",
            gradient[index]
        );
    }
}

#[test]
fn adamw_goes_one_learning_rate_far_on_its_first_step() {
    let mut params = [1.0, 1.0, 1.0];

    AdamW::new(3, 0.1, 0.5).step(&mut params, &[20.0, -0.001, 0.0]);

    let expected = [0.95 - 0.1, 0.95 + 0.1, 0.95];
    for (param, expected) in params.iter().zip(expected) {
        assert!((param - expected).abs() < 1e-4, "{param} is not {expected}");
    }
}

#[test]
fn nesterov_looks_ahead_along_its_momentum() {
    let mut outer = Nesterov::new(1, 0.5, 0.5);
    let mut params = [10.0];

    outer.step(&mut params, &[4.0]);
    assert_eq!(
        (params[0], outer.momentum[0]),
        (10.0 - 0.5 * (4.0 + 0.5 * 4.0), 4.0)
    );

    outer.step(&mut params, &[0.0]);
    assert_eq!(
        (params[0], outer.momentum[0]),
        (7.0 - 0.5 * (0.5 * 2.0), 2.0)
    );
}

#[test]
fn the_pseudo_gradient_points_from_the_inner_parameters_to_the_outer() {
    assert_eq!(pseudo_gradient(&[3.0, 1.0], &[1.0, 2.0]), [2.0, -1.0]);
}

/// Peers in one process, averaging without a network.
struct Simulation {
    peers: Vec<Trainee>,
    next_seed: u64,
    params: Vec<f32>,
    outer: Nesterov,
    /// Each peer's pseudo-gradient is averaged a round after it was made.
    late: bool,
    on_the_way: Option<Vec<f32>>,
}

impl Simulation {
    fn of(peers: usize, first_seed: u64, late: bool) -> Self {
        let mut simulation = Self {
            peers: Vec::new(),
            next_seed: first_seed,
            params: Network::new(INITIAL_SEED).params().to_vec(),
            outer: if late {
                late_outer_optimizer()
            } else {
                outer_optimizer()
            },
            late,
            on_the_way: None,
        };
        simulation.resize(peers);
        simulation
    }

    /// Lets the oldest peers die, or newcomers join, until there are this many.
    fn resize(&mut self, peers: usize) {
        self.peers.drain(..self.peers.len().saturating_sub(peers));
        while self.peers.len() < peers {
            self.peers
                .push(Trainee::new(self.next_seed).expect("whole data"));
            self.next_seed += 1;
        }
    }

    fn round(&mut self) {
        let mut average = vec![0.0; PARAMS];
        for peer in &mut self.peers {
            let (pseudo_gradient, _) = peer.inner_phase(&self.params);
            for (sum, value) in average.iter_mut().zip(pseudo_gradient) {
                *sum += value;
            }
        }
        let peers = self.peers.len() as f32;
        average.iter_mut().for_each(|sum| *sum /= peers);

        let arrived = if self.late {
            self.on_the_way.replace(average)
        } else {
            Some(average)
        };
        if let Some(average) = arrived {
            self.outer.step(&mut self.params, &average);
        }
    }

    fn accuracy(&mut self) -> f32 {
        let params = &self.params;
        self.peers
            .first_mut()
            .expect("somebody")
            .test_accuracy(params)
    }
}

#[test]
fn two_peers_learn_to_read_nineteen_digits_of_twenty() {
    let mut simulation = Simulation::of(2, 0, false);

    for _ in 0..ROUNDS {
        simulation.round();
    }

    assert!(simulation.accuracy() >= 0.95, "{}", simulation.accuracy());
}

#[test]
fn peers_that_die_and_join_do_not_keep_the_others_from_learning() {
    let mut simulation = Simulation::of(3, 100, false);

    for round in 0..ROUNDS {
        simulation.resize([3, 2, 4, 1, 3][(round / 4 % 5) as usize]);
        simulation.round();
    }

    assert!(simulation.accuracy() >= 0.95, "{}", simulation.accuracy());
}

#[test]
fn averages_that_come_a_round_late_still_teach() {
    let mut simulation = Simulation::of(3, 200, true);

    for round in 0..ROUNDS {
        simulation.resize([3, 2, 4, 1, 3][(round / 4 % 5) as usize]);
        simulation.round();
    }

    assert!(simulation.accuracy() >= 0.95, "{}", simulation.accuracy());
}
