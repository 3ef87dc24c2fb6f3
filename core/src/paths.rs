//! Measurements of the paths between peers, and estimates of rings.
//!
//! Every directed edge of a ring carries 2·S·(N−1)/N bytes of a reduce of S bytes. A streaming ring takes the time of
//! that many bytes at the rate of its slowest edge, and in addition the time of 2·(N−1) hops. A hop takes the latency
//! of its edge and the time of one frame.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::PeerId;
use crate::topology::Ring;

/// Bytes of the frame in the time of a hop.
pub(crate) const FRAME_BYTES: u64 = 256 * 1024;

/// The measurement of one directed edge.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Measurement {
    /// The rate that the sender reached. Zero if the edge cannot be used.
    pub bytes_per_s: u64,
    /// The round-trip time in microseconds, on an idle path.
    pub round_trip_us: u32,
}

impl Measurement {
    /// Takes the better value of each field.
    pub(crate) fn widen(&mut self, other: Self) {
        self.bytes_per_s = self.bytes_per_s.max(other.bytes_per_s);
        self.round_trip_us = self.round_trip_us.min(other.round_trip_us);
    }

    /// Half a round trip, in nanoseconds.
    #[must_use]
    pub fn latency_ns(self) -> u64 {
        u64::from(self.round_trip_us).saturating_mul(500)
    }

    /// The time of a hop in nanoseconds: the latency, and the transfer of one frame.
    #[must_use]
    pub fn hop_ns(self) -> u64 {
        let bytes = FRAME_BYTES.saturating_mul(1_000_000_000);
        self.latency_ns()
            .saturating_add(bytes.checked_div(self.bytes_per_s).unwrap_or(u64::MAX))
    }
}

/// The estimate of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RingEstimate {
    /// The rate of the slowest edge, which is the bottleneck.
    pub bytes_per_s: u64,
    /// The time of one frame once around the ring, in nanoseconds.
    pub round_ns: u64,
    /// Number of peers.
    pub world_size: u32,
}

impl RingEstimate {
    /// The estimate of a ring. `None` if one of its edges is not measured or cannot be used, or if it has no edges.
    #[must_use]
    pub fn of(ring: &Ring, edge: impl Fn((PeerId, PeerId)) -> Option<Measurement>) -> Option<Self> {
        let mut bytes_per_s = u64::MAX;
        let mut round_ns: u64 = 0;
        for ends in ring.edges() {
            let known = edge(ends).filter(|known| known.bytes_per_s > 0)?;
            bytes_per_s = bytes_per_s.min(known.bytes_per_s);
            round_ns = round_ns.saturating_add(known.hop_ns());
        }
        let world_size = u32::try_from(ring.world_size()).ok()?;
        (world_size > 1).then_some(Self {
            bytes_per_s,
            round_ns,
            world_size,
        })
    }

    /// The estimated time of a reduce of this many bytes.
    #[must_use]
    pub fn reduce_time(&self, bytes: u64) -> Duration {
        let world = u128::from(self.world_size.max(1));
        let steps = 2 * world.saturating_sub(1);
        let carried = u128::from(bytes) * steps * 1_000_000_000 / world;
        let streaming = carried / u128::from(self.bytes_per_s.max(1));
        let hops = u128::from(self.round_ns) * steps / world;
        Duration::from_nanos(u64::try_from(streaming + hops).unwrap_or(u64::MAX))
    }

    /// Whether this ring takes at least `percent` percent less time than `other` for a reduce of this many bytes.
    #[must_use]
    pub fn is_worth(&self, percent: u8, other: &Self, bytes: u64) -> bool {
        let (own, other) = (self.reduce_time(bytes), other.reduce_time(bytes));
        let most = other.saturating_mul(u32::from(100_u8.saturating_sub(percent)));
        own < other && own.saturating_mul(100) <= most
    }
}

/// The outcome of `optimize_topology` for one group.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct RingReport {
    /// The ring before the optimization, without peers that have left.
    pub before: Ring,
    /// The estimate of that ring. `None` if one of its edges could not be measured, or was not, because a group of
    /// fewer than three members has only one ring.
    pub expected_before: Option<RingEstimate>,
    /// The estimate of the ring that is established now. `None` as above.
    pub expected: Option<RingEstimate>,
    /// Upper bound of the bottleneck of all rings of measured edges, in bytes per second. `None` if nothing was
    /// solved.
    pub bound: Option<u64>,
}

impl RingReport {
    /// How much faster the bottleneck of another ring can be at most, by the measurements: 0.03 means three percent.
    /// Zero means that none is faster.
    #[must_use]
    pub fn gap(&self) -> Option<f64> {
        let (bound, expected) = (self.bound?, self.expected?);
        let excess = bound.saturating_sub(expected.bytes_per_s);
        #[expect(clippy::cast_precision_loss, reason = "a ratio for people to read")]
        let gap = excess as f64 / expected.bytes_per_s.max(1) as f64;
        Some(gap)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    const MB: u64 = 1_000_000;

    fn ring(world: u64) -> Ring {
        Ring((0..world).map(PeerId).collect())
    }

    fn edge(bytes_per_s: u64, round_trip_us: u32) -> Measurement {
        Measurement {
            bytes_per_s,
            round_trip_us,
        }
    }

    #[test]
    fn a_ring_is_as_fast_as_its_slowest_edge() {
        let slow = |ends: (PeerId, PeerId)| {
            let rate = if ends.0 == PeerId(2) { 10 } else { 100 };
            Some(edge(rate * MB, 0))
        };

        let estimate = RingEstimate::of(&ring(4), slow).unwrap();

        assert_eq!(estimate.bytes_per_s, 10 * MB);
        // 2 · 1 GB · 3/4 over 10 MB/s.
        let time = estimate.reduce_time(1000 * MB);
        assert!((150.0..150.2).contains(&time.as_secs_f64()), "{time:?}");
    }

    #[test]
    fn small_reduces_take_the_latency_of_all_hops() {
        let estimate = RingEstimate::of(&ring(4), |_| Some(edge(u64::MAX, 100_000))).unwrap();

        assert_eq!(estimate.reduce_time(1), Duration::from_millis(300));
    }

    #[test]
    fn a_ring_with_an_edge_that_nobody_knows_has_no_estimate() {
        let one_is_missing = |ends: (PeerId, PeerId)| (ends.0 != PeerId(1)).then_some(edge(MB, 1));

        assert_eq!(RingEstimate::of(&ring(3), one_is_missing), None);
        assert_eq!(RingEstimate::of(&ring(3), |_| Some(edge(0, 1))), None);
        assert_eq!(RingEstimate::of(&ring(1), |_| Some(edge(MB, 1))), None);
    }

    #[test]
    fn a_ring_is_worth_a_rewiring_from_the_stated_gain_on() {
        let of = |rate| RingEstimate::of(&ring(3), |_| Some(edge(rate * MB, 0))).unwrap();

        assert!(of(200).is_worth(50, &of(100), 1 << 30));
        assert!(of(106).is_worth(5, &of(100), 1 << 30));
        assert!(!of(104).is_worth(5, &of(100), 1 << 30));
        assert!(!of(100).is_worth(0, &of(100), 1 << 30));
        assert!(!of(100).is_worth(5, &of(200), 1 << 30));
    }

    #[test]
    fn the_gap_is_what_another_ring_could_gain() {
        let expected = RingEstimate::of(&ring(3), |_| Some(edge(100, 0)));
        let report = |bound| RingReport {
            before: Ring(vec![]),
            expected_before: None,
            expected,
            bound,
        };

        assert_eq!(report(Some(100)).gap(), Some(0.0));
        assert_eq!(report(Some(103)).gap(), Some(0.03));
        assert_eq!(report(None).gap(), None);
    }
}
