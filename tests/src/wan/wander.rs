//! Jitter: how far a way's delay is from its mean, as time goes on.
//!
//! The deviation goes in straight lines between points that are drawn at random, so far apart that it never
//! falls faster than time passes: packets keep their order, and the mean stays the mean however many there
//! are. (An own deviation for each packet, put back into order, would give the greatest one to all.)

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::units::Nanos;

/// Points are this far apart at least.
const STRIDE: Nanos = 10_000_000;

/// A deviation that wanders.
#[derive(Debug)]
pub struct Wander {
    reach: i64,
    stride: Nanos,
    /// The stretch that the latest packet was in: its number, and its two ends.
    stretch: u64,
    ends: (i64, i64),
    rng: StdRng,
}

impl Wander {
    /// Up to `reach` to either side.
    pub fn new(reach: Nanos, seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let reach = i64::try_from(reach).unwrap_or(i64::MAX / 8);
        let ends = (draw(&mut rng, reach), draw(&mut rng, reach));
        Self {
            reach,
            stride: STRIDE.max(reach.unsigned_abs() * 4),
            stretch: 0,
            ends,
            rng,
        }
    }

    /// The deviation at that instant. Instants must not go back.
    pub fn at(&mut self, now: Nanos) -> i64 {
        if self.reach == 0 {
            return 0;
        }
        while self.stretch < now / self.stride {
            self.stretch += 1;
            self.ends = (self.ends.1, draw(&mut self.rng, self.reach));
        }
        let (from, to) = self.ends;
        let part = (now % self.stride) as f64 / self.stride as f64;
        from + ((to - from) as f64 * part) as i64
    }
}

fn draw(rng: &mut StdRng, reach: i64) -> i64 {
    if reach == 0 {
        return 0;
    }
    rng.random_range(-reach..=reach)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deviation_stays_within_reach_has_no_mean_and_never_falls_faster_than_time_passes() {
        const REACH: i64 = 5_000_000;
        println!("seed 3");
        let mut wander = Wander::new(REACH.unsigned_abs(), 3);
        let (mut sum, mut last, mut widest) = (0.0, i64::MIN / 2, 0);

        for step in 0..1_000_000_i64 {
            let now = step * 100_000;
            let deviation = wander.at(now.unsigned_abs());
            assert!(deviation.abs() <= REACH);
            assert!(now + deviation >= last);
            last = now + deviation;
            widest = widest.max(deviation.abs());
            sum += deviation as f64;
        }

        assert!((sum / 1e6).abs() < 0.05 * REACH as f64);
        assert!(widest > REACH * 9 / 10);
    }

    #[test]
    fn without_reach_there_is_no_deviation() {
        assert_eq!(Wander::new(0, 1).at(123_456_789_012), 0);
    }
}
