//! Pauses between attempts: each twice as long as the one before.

use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;

/// The first pause.
const FIRST: Duration = Duration::from_millis(50);

/// The longest.
const LONGEST: Duration = Duration::from_secs(2);

/// The pauses of one series of attempts.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
    longest: Duration,
}

impl Backoff {
    /// 50 ms first, 2 s at most.
    pub(crate) const fn new() -> Self {
        Self::up_to(LONGEST)
    }

    /// 50 ms first, and this long at most.
    pub(crate) const fn up_to(longest: Duration) -> Self {
        Self {
            next: FIRST,
            longest,
        }
    }

    /// How long to pause before the next attempt.
    pub(crate) fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        pause
    }

    /// The same, between half as long and one and a half times: many that were sent away together do
    /// not come again together.
    pub(crate) fn uneven_pause(&mut self, random: &mut StdRng) -> Duration {
        let pause = self.pause();
        pause / 2 + pause * (random.next_u32() % 1024) / 1024
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let mut backoff = Backoff::new();

        let pauses: Vec<u128> = (0..8).map(|_| backoff.pause().as_millis()).collect();

        assert_eq!(pauses, [50, 100, 200, 400, 800, 1600, 2000, 2000]);
    }

    #[test]
    fn peers_of_different_seeds_pause_for_different_times() {
        let pauses = [1, 2].map(|seed| {
            let mut random = StdRng::seed_from_u64(seed);
            Backoff::new().uneven_pause(&mut random)
        });

        assert_ne!(pauses[0], pauses[1]);
        assert!(
            pauses
                .iter()
                .all(|pause| *pause >= FIRST / 2 && *pause < FIRST * 3 / 2)
        );
    }
}
