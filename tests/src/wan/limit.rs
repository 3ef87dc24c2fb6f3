//! A rate with a queue in front of it, of so many bytes; what does not fit is dropped.

use super::units::{Nanos, Rate, SECOND};

/// How fast, and how much may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Bits per second.
    pub rate: Rate,
    /// Bytes that wait or are on their way out, at most. A packet that finds nobody in front of it passes
    /// whatever its size.
    pub queue: u64,
}

/// A limit at work.
#[derive(Clone, Debug)]
pub struct Gate {
    limit: Limit,
    /// When all that was admitted will have left.
    free: Nanos,
    /// What has been left out of `free`, in parts of a nanosecond as many as the rate's bits per second: a
    /// rate is exact over any time.
    rest: u64,
}

/// Bits of a byte in a nanosecond, which is what a packet's bytes are counted in.
const BITS: u64 = 8 * SECOND;

impl Gate {
    /// Idle since ever.
    pub const fn new(limit: Limit) -> Self {
        Self {
            limit,
            free: 0,
            rest: 0,
        }
    }

    /// When a packet that comes now will have left, or none if the queue is full. Instants must not go
    /// back.
    pub fn admit(&mut self, now: Nanos, bytes: u32) -> Option<Nanos> {
        if self.is_idle(now) {
            self.free = now;
            self.rest = 0;
        } else if self.waiting(now) + u64::from(bytes) > self.limit.queue {
            return None;
        }
        let rate = self.limit.rate.0;
        let time = u64::from(bytes) * BITS + self.rest;
        self.free += time / rate;
        self.rest = time % rate;
        Some(self.free)
    }

    /// Whether all that was admitted has left.
    pub const fn is_idle(&self, now: Nanos) -> bool {
        now >= self.free
    }

    /// Bytes that have not left yet.
    fn waiting(&self, now: Nanos) -> u64 {
        let time = u128::from(self.free.saturating_sub(now));
        let bytes = time * u128::from(self.limit.rate.0) / u128::from(BITS);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: u32 = 1500;

    fn gate(mbit: u64, queue: u64) -> Gate {
        Gate::new(Limit {
            rate: Rate::mbit(mbit),
            queue,
        })
    }

    #[test]
    fn a_packet_takes_its_length_over_the_rate() {
        let mut gate = gate(100, 3000);

        assert_eq!(gate.admit(5_000, PACKET), Some(125_000));
        assert_eq!(gate.admit(5_000, PACKET), Some(245_000));
    }

    #[test]
    fn a_rate_is_exact_over_a_long_run_even_if_a_packet_takes_no_whole_nanoseconds() {
        let mut gate = Gate::new(Limit {
            rate: Rate(700_000_011),
            queue: u64::MAX,
        });
        let mut last = 0;

        for _ in 0..700_000_011_u64 / 1001 {
            last = gate.admit(0, 1001).unwrap();
        }

        let exact = u128::from(700_000_011_u64 / 1001) * 1001 * u128::from(BITS) / 700_000_011;
        assert_eq!(u128::from(last), exact);
    }

    #[test]
    fn a_queue_drops_what_does_not_fit_and_has_room_again_when_something_has_left() {
        let mut gate = gate(100, 4500);

        let admitted = (0..5).filter(|_| gate.admit(0, PACKET).is_some()).count();

        assert_eq!(admitted, 3);
        assert_eq!(gate.admit(119_000, PACKET), None);
        assert!(gate.admit(120_001, PACKET).is_some());
    }

    #[test]
    fn a_packet_alone_passes_whatever_its_size() {
        let mut gate = gate(100, 100);

        assert!(gate.admit(0, PACKET).is_some());
        assert_eq!(gate.admit(0, 40), None);
    }
}
