//! The rate of an edge, from what the receiver says has arrived, and when to stop.
//!
//! A connection begins slowly, and what the sender has handed over may still lie in buffers, so only what has
//! arrived counts, and of that only the end: two windows, the last of which is the estimate. When both agree it
//! is stable.

use std::time::Duration;

use pccl_core::wire::PROBE_BYTES_MAX;
use tokio::time::Instant;

/// A measurement takes no longer than this from its first byte on, apart from what is still on its way.
pub(super) const PROBE_TIME: Duration = Duration::from_secs(1);

/// A window is at least so long: schedulers and packets come in bursts.
const WINDOW_MIN: Duration = Duration::from_millis(100);

/// Bytes that may be on their way before anything is known.
pub(super) const IN_FLIGHT_MIN: u64 = 1024 * 1024;

/// How often the receiver says how much has arrived.
pub(super) const REPORT_EVERY: Duration = Duration::from_millis(10);

/// Two windows agree that differ by at most a part in so many.
const STABLE_PART: u64 = 20;

/// What has arrived, and when that was said.
#[derive(Debug)]
pub(super) struct Estimate {
    round_trip: Duration,
    /// In the order of time; what is older than two windows is dropped.
    reports: Vec<(Instant, u64)>,
    begun: Instant,
    /// The rate in the present window, if there are two.
    is_stable: bool,
}

impl Estimate {
    pub(super) fn new(now: Instant, round_trip: Duration) -> Self {
        Self {
            round_trip,
            reports: vec![(now, 0)],
            begun: now,
            is_stable: false,
        }
    }

    /// So long before, as far as the clock goes back.
    fn before(&self, now: Instant, ago: Duration) -> Instant {
        now.checked_sub(ago).unwrap_or(self.begun)
    }

    fn window(&self) -> Duration {
        self.round_trip.max(WINDOW_MIN)
    }

    /// So many bytes have arrived in all.
    pub(super) fn note(&mut self, now: Instant, arrived: u64) {
        self.reports.push((now, arrived));
        let window = self.window();
        self.is_stable = match (
            self.rate_until(now),
            self.rate_until(self.before(now, window)),
        ) {
            (Some(rate), Some(before)) => rate > 0 && rate.abs_diff(before) <= rate / STABLE_PART,
            (_, None) | (None, _) => false,
        };
        let kept = self.before(now, 2 * window + WINDOW_MIN);
        let old = self.reports.iter().filter(|(at, _)| *at < kept).count();
        // The one before the window began is needed.
        self.reports.drain(..old.saturating_sub(1));
    }

    /// Bytes per second in the window that ends then; `None` if it began before the measurement.
    fn rate_until(&self, end: Instant) -> Option<u64> {
        let begin = end.checked_sub(self.window())?;
        let last = |until: Instant| self.reports.iter().rev().find(|(at, _)| *at <= until);
        let ((from, before), (to, after)) = (last(begin)?, last(end)?);
        rate(
            after.saturating_sub(*before),
            to.saturating_duration_since(*from),
        )
    }

    /// Whether the estimate is stable, or the time is over.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.is_stable || now.saturating_duration_since(self.begun) >= PROBE_TIME
    }

    /// Bytes per second: in the last window, or in all of the time where that was shorter.
    pub(super) fn bytes_per_s(&self) -> Option<u64> {
        let (last, arrived) = *self.reports.last()?;
        let (first, before) = *self.reports.first()?;
        let all = rate(
            arrived.saturating_sub(before),
            last.saturating_duration_since(first),
        );
        // A lost packet can hold up a whole window, which says nothing about the edge.
        self.rate_until(last).filter(|rate| *rate > 0).or(all)
    }

    /// How many bytes may have been sent in all: twice what arrives in a round trip is on its way at most, so
    /// that a slow edge is not left with a backlog of seconds, and a fast one doubles its pace with each. Never more
    /// than the receiver [counts](PROBE_BYTES_MAX).
    pub(super) fn allowed(&self, now: Instant) -> u64 {
        let since = self.before(now, self.round_trip + 3 * REPORT_EVERY);
        let arrived = self.reports.last().map_or(0, |(_, arrived)| *arrived);
        let mut earlier = self.reports.iter().rev();
        let earlier = earlier.find(|(at, _)| *at <= since);
        let before = earlier.map_or(0, |(_, arrived)| *arrived);
        let twice = arrived.saturating_sub(before).saturating_mul(2);
        arrived
            .saturating_add(IN_FLIGHT_MIN.max(twice))
            .min(PROBE_BYTES_MAX)
    }
}

fn rate(bytes: u64, time: Duration) -> Option<u64> {
    let nanos = u64::try_from(time.as_nanos())
        .ok()
        .filter(|nanos| *nanos > 0)?;
    let rate = u128::from(bytes) * 1_000_000_000 / u128::from(nanos);
    u64::try_from(rate).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Reports every 10 ms; says when it is over, and what was found.
    fn run(round_trip: Duration, arrived: impl Fn(Duration) -> u64) -> (Duration, u64) {
        let begun = Instant::now() + Duration::from_secs(60);
        let mut estimate = Estimate::new(begun, round_trip);
        let mut time = Duration::ZERO;
        loop {
            time += REPORT_EVERY;
            estimate.note(begun + time, arrived(time));
            if estimate.is_over(begun + time) {
                return (time, estimate.bytes_per_s().unwrap());
            }
        }
    }

    fn bytes(rate: u64, time: Duration) -> u64 {
        rate * u64::try_from(time.as_micros()).unwrap() / 1_000_000
    }

    #[test]
    fn a_steady_edge_is_known_after_two_windows() {
        let (time, rate) = run(MS, |time| bytes(50_000_000, time));

        assert_eq!(rate, 50_000_000);
        assert!(time <= 250 * MS, "{time:?}");
    }

    #[test]
    fn a_slow_start_does_not_count() {
        // Nothing for 300 ms, then 10 MB/s.
        let arrived = |time: Duration| bytes(10_000_000, time.saturating_sub(300 * MS));

        let (time, rate) = run(MS, arrived);

        assert_eq!(rate, 10_000_000);
        assert!((400 * MS..600 * MS).contains(&time), "{time:?}");
    }

    #[test]
    fn what_never_settles_ends_with_the_time() {
        // It doubles every 50 ms.
        let arrived = |time: Duration| 1000 << (time.as_millis() / 50);

        let (time, rate) = run(MS, arrived);

        assert_eq!(time, PROBE_TIME);
        assert!(rate > 1000);
    }

    #[test]
    fn an_edge_on_which_nothing_arrives_has_no_rate() {
        let (time, rate) = run(MS, |_| 0);

        assert_eq!((time, rate), (PROBE_TIME, 0));
    }

    #[test]
    fn a_window_in_which_nothing_arrives_does_not_make_an_edge_unusable() {
        // It doubles every 50 ms, until a packet has to be sent again.
        let arrived = |time: Duration| 1000 << (time.min(700 * MS).as_millis() / 50);

        let (time, rate) = run(200 * MS, arrived);

        assert_eq!(time, PROBE_TIME);
        assert!(rate > 0);
    }

    #[test]
    fn counts_that_cannot_be_are_survived() {
        let begun = Instant::now() + Duration::from_secs(60);
        let mut estimate = Estimate::new(begun, MS);
        for (step, arrived) in [10, 5, u64::MAX, 0, u64::MAX].into_iter().enumerate() {
            let now = begun + REPORT_EVERY * u32::try_from(step).unwrap();
            estimate.note(now, arrived);
            assert!(estimate.allowed(now) <= PROBE_BYTES_MAX);
            estimate.bytes_per_s();
        }
    }

    #[test]
    fn what_is_on_its_way_follows_what_arrives() {
        let begun = Instant::now() + Duration::from_secs(60);
        let mut estimate = Estimate::new(begun, 70 * MS);
        assert_eq!(estimate.allowed(begun), IN_FLIGHT_MIN);

        for step in 1..=50 {
            let time = step * REPORT_EVERY;
            estimate.note(begun + time, bytes(100_000_000, time));
        }

        let now = begun + 500 * MS;
        // Twice what arrives in 100 ms.
        assert_eq!(estimate.allowed(now), 50_000_000 + 20_000_000);
    }
}
