//! The choice on paths that are formulas.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{LaneChoice, Rate};

const BYTES: u64 = 64 << 20;

/// What a path carries on so many lanes.
type Path = fn(u64) -> Rate;

/// Each lane gets a share of its own, as behind a shaper that counts connections, until the path is full.
fn limited_one_by_one(lanes: u64) -> Rate {
    (lanes * 10_000_000).min(120_000_000)
}

/// One lane fills it, and more of them push each other's packets out of the queue: as measured on the topology
/// `ocean`.
fn filled_by_one(lanes: u64) -> Rate {
    match lanes {
        1 => 30_000_000,
        2 => 29_000_000,
        3..=4 => 27_500_000,
        _ => 24_500_000,
    }
}

/// It makes no difference.
fn whatever(_: u64) -> Rate {
    100_000_000
}

struct Link {
    choice: LaneChoice,
    noise: StdRng,
    /// Of what is measured, in percent.
    noise_percent: i64,
}

impl Link {
    fn new(lanes: u16) -> Self {
        Self::noisy(lanes, 0, 0)
    }

    fn noisy(lanes: u16, noise_percent: i64, seed: u64) -> Self {
        Self {
            choice: LaneChoice::new(lanes, 0),
            noise: StdRng::seed_from_u64(seed),
            noise_percent,
        }
    }

    /// Runs a reduce, and returns on how many lanes.
    fn reduce(&mut self, bytes: u64, path: Path) -> u16 {
        let lanes = self.choice.lanes(bytes);
        let percent = 100
            + self
                .noise
                .random_range(-self.noise_percent..=self.noise_percent);
        let rate = path(lanes.into()) * percent.unsigned_abs() / 100;
        self.choice.carried((bytes, lanes), lanes, rate);
        lanes
    }

    /// Runs so many, and returns on how many lanes each.
    fn reduces(&mut self, count: usize, path: Path) -> Vec<u16> {
        (0..count).map(|_| self.reduce(BYTES, path)).collect()
    }
}

/// What the reduces carried, of what they could have at best. The time of each is what counts.
fn efficiency(lanes: &[u16], path: Path) -> f64 {
    let best = (1..=64).map(path).max().unwrap() as f64;
    let times = lanes
        .iter()
        .map(|lanes| best / path((*lanes).into()) as f64);
    lanes.len() as f64 / times.sum::<f64>()
}

#[test]
fn what_was_carried_with_another_congestion_control_is_not_compared() {
    let mut link = Link::new(8);
    let mut tried = link.reduce(BYTES, whatever);
    while tried == 8 {
        tried = link.reduce(BYTES, whatever);
    }

    link.choice.finds(1);

    assert_eq!(link.choice.lanes(BYTES), 8);
    // The trial begins anew, with what is carried from here on. The first reduce is not compared.
    let lanes = [(); 4].map(|()| link.reduce(BYTES, |lanes| whatever(lanes) * 2));
    assert_eq!(lanes, [8, 8, 8, tried]);
    link.choice.finds(1);
    assert_eq!(link.choice.lanes(BYTES), tried);
}

#[test]
fn a_link_begins_with_all_its_lanes() {
    assert_eq!(Link::new(4).choice.lanes(BYTES), 4);
    assert_eq!(Link::new(1).choice.lanes(BYTES), 1);
}

#[test]
fn where_one_lane_fills_the_path_one_is_left_after_nine_reduces() {
    let lanes = Link::new(4).reduces(12, filled_by_one);
    assert_eq!(lanes, [4, 4, 4, 2, 2, 2, 1, 1, 1, 1, 1, 1]);
}

#[test]
fn where_lanes_are_limited_one_by_one_fewer_are_tried_for_one_reduce_at_a_time() {
    let lanes = Link::new(8).reduces(1000, limited_one_by_one);

    let tried = lanes.iter().filter(|lanes| **lanes != 8).count();
    assert!(tried <= 7, "{tried} of 1000");
    assert!(lanes.iter().all(|lanes| *lanes >= 4));
    assert!(efficiency(&lanes, |lanes| limited_one_by_one(lanes.min(8))) > 0.98);
}

#[test]
fn where_it_makes_no_difference_one_lane_is_left() {
    let lanes = Link::new(16).reduces(100, whatever);
    assert_eq!(lanes[15..24], [1; 9]);
}

#[test]
fn a_path_that_begins_to_limit_its_lanes_one_by_one_gets_more_of_them() {
    let mut link = Link::new(8);
    link.reduces(50, filled_by_one);
    assert_eq!(link.choice.lanes(BYTES), 1);

    let lanes = link.reduces(30, limited_one_by_one);

    assert_eq!(lanes[19..], [8; 11], "{lanes:?}");
}

#[test]
fn a_path_whose_lanes_begin_to_be_in_each_others_way_gets_fewer_of_them() {
    let mut link = Link::new(8);
    link.reduces(50, limited_one_by_one);
    assert_eq!(link.choice.lanes(BYTES), 8);

    let lanes = link.reduces(40, filled_by_one);

    assert_eq!(lanes.last(), Some(&1), "{lanes:?}");
}

#[test]
fn with_a_tenth_of_noise_the_choice_is_near_the_best_on_every_path() {
    const SEEDS: u64 = 50;
    for (path, least, on_average) in [
        (limited_one_by_one as Path, 0.9, 0.93),
        (filled_by_one, 0.85, 0.95),
        (whatever, 0.99, 0.99),
    ] {
        let mut sum = 0.0;
        for seed in 0..SEEDS {
            let lanes = Link::noisy(16, 10, seed).reduces(300, path);
            let got = efficiency(&lanes, path);
            assert!(got > least, "seed {seed}: {got}, {lanes:?}");
            sum += got;
        }
        assert!(sum / SEEDS as f64 > on_average, "{sum}");
    }
}

#[test]
fn each_size_has_a_choice_of_its_own_and_begins_with_that_of_the_nearest() {
    let mut link = Link::new(4);
    link.reduces(10, filled_by_one);
    assert_eq!(link.choice.lanes(BYTES), 1);
    assert_eq!(link.choice.lanes(BYTES / 4), 1);

    for _ in 0..30 {
        link.reduce(BYTES / 4, limited_one_by_one);
    }

    assert_eq!(link.choice.lanes(BYTES / 4), 4);
    assert_eq!(link.choice.lanes(BYTES), 1);
}

#[test]
fn a_reduce_on_another_number_of_lanes_than_would_be_taken_teaches_nothing() {
    let mut link = Link::new(4);
    link.reduces(3, filled_by_one);
    assert_eq!(link.choice.lanes(BYTES), 2);

    link.choice.carried((BYTES, 4), 4, 1);
    link.choice.carried((BYTES, 4), 1, u64::MAX);

    assert_eq!(link.choice.lanes(BYTES), 2);
}

#[test]
fn a_reduce_of_fewer_stripes_than_lanes_teaches_as_well() {
    let mut choice = LaneChoice::new(16, 0);
    for _ in 0..20 {
        let lanes = choice.lanes(BYTES).min(4);
        choice.carried((BYTES, 4), lanes, filled_by_one(lanes.into()));
    }

    assert_eq!(choice.lanes(BYTES), 1);
}

#[test]
fn losses_of_a_twentieth_do_not_add_up_from_one_number_to_the_next() {
    fn a_little_less_each_time(lanes: u64) -> Rate {
        match lanes {
            1 => 81_500_000,
            2 => 85_700_000,
            3..=4 => 90_300_000,
            5..=8 => 95_500_000,
            _ => 100_000_000,
        }
    }

    let lanes = Link::new(16).reduces(30, a_little_less_each_time);

    assert_eq!(lanes[9..27], [8; 18], "{lanes:?}");
}

#[test]
fn any_rates_leave_a_number_between_one_and_all() {
    let mut seed = StdRng::seed_from_u64(11);
    let mut choice = LaneChoice::new(7, 7);
    for _ in 0..10_000 {
        let bytes = seed.random::<u64>() >> seed.random_range(0..64);
        let rate = seed.random::<u64>() >> seed.random_range(0..64);
        let lanes = choice.lanes(bytes);
        assert!((1..=7).contains(&lanes));
        choice.carried((bytes, lanes), lanes, rate);
    }
}
