//! The rate of an edge, from what the receiver says has arrived, and when to stop.
//!
//! A connection begins slowly, and what the sender has handed over may still lie in buffers, so only what has arrived
//! counts, and of that only the end. Its rate grows from round trip to round trip until the path is full, in bursts: two
//! windows in a row are often alike long before. So the rate is known when it has not grown for two windows of two round
//! trips, as BBR judges it as well (Cardwell et al., "BBR: Congestion-Based Congestion Control", 2016).

use std::time::Duration;

use pccl_core::wire::PROBE_BYTES_MAX;
use tokio::time::Instant;

/// A measurement takes no longer than this and [`ROUND_TRIPS_MAX`] from its first byte on, apart from what is still on
/// its way.
pub(super) const PROBE_TIME: Duration = Duration::from_secs(1);

/// Round trips until a connection has filled a path, if it doubles its rate in each: from ten packets to a thousand
/// times as many.
const ROUND_TRIPS_MAX: u32 = 10;

/// A measurement takes no longer than this, however long its round trips are.
const TIME_MAX: Duration = Duration::from_secs(4);

/// A window is at least so long: schedulers and packets come in bursts.
const WINDOW_MIN: Duration = Duration::from_millis(100);

/// Bytes that may be on their way before anything is known.
pub(super) const IN_FLIGHT_MIN: u64 = 1024 * 1024;

/// How often the receiver says how much has arrived.
pub(super) const REPORT_EVERY: Duration = Duration::from_millis(10);

/// The rate has grown if it is greater by a part in so many.
const GROWTH_PART: u64 = 8;

/// What has arrived, and when that was said.
#[derive(Debug)]
pub(super) struct Estimate {
    round_trip: Duration,
    /// In the order of time; what is older than some three windows is dropped.
    reports: Vec<(Instant, u64)>,
    begun: Instant,
    /// The rate when it had grown last, and when that was.
    level: Option<(u64, Instant)>,
}

impl Estimate {
    pub(super) fn new(now: Instant, round_trip: Duration) -> Self {
        Self {
            round_trip,
            reports: vec![(now, 0)],
            begun: now,
            level: None,
        }
    }

    /// So long before, as far as the clock goes back.
    fn before(&self, now: Instant, ago: Duration) -> Instant {
        now.checked_sub(ago).unwrap_or(self.begun)
    }

    /// Two round trips: what a lost packet has held up for one of them arrives in the other.
    fn window(&self) -> Duration {
        (2 * self.round_trip).max(WINDOW_MIN)
    }

    /// So many bytes have arrived in all.
    pub(super) fn note(&mut self, now: Instant, arrived: u64) {
        self.reports.push((now, arrived));
        let rate = self.rate_until(now).unwrap_or(0);
        let level = self.level.map_or(0, |(level, _)| level);
        if rate > level.saturating_add(level / GROWTH_PART) {
            self.level = Some((rate, now));
        }
        let kept = self.before(now, 3 * self.window() + WINDOW_MIN);
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

    /// Whether the rate does not grow any more, or the time is over.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        let longest = PROBE_TIME.saturating_add(ROUND_TRIPS_MAX * self.round_trip);
        let is_late = now.saturating_duration_since(self.begun) >= longest.min(TIME_MAX);
        is_late || self.is_full(now)
    }

    /// Whether the rate has not grown for two windows. Bytes that are held up after a loss say nothing about it.
    fn is_full(&self, now: Instant) -> bool {
        let rate = self.rate_until(now).unwrap_or(0);
        self.level.is_some_and(|(level, grown)| {
            rate >= level / 2 && now.saturating_duration_since(grown) >= 2 * self.window()
        })
    }

    /// Bytes per second: the median of the windows that have ended during the last two and in which anything arrived,
    /// because a lost packet can hold up everything just before the end, and what it has held up then arrives at once.
    /// If nothing arrived in any of them, or if there was no whole window, the rate in all of the time.
    pub(super) fn bytes_per_s(&self) -> Option<u64> {
        let (last, arrived) = *self.reports.last()?;
        let since = self.before(last, 2 * self.window());
        let late = self.reports.iter().filter(|(at, _)| *at >= since);
        let rates = late.filter_map(|(at, _)| self.rate_until(*at));
        let mut rates: Vec<u64> = rates.filter(|rate| *rate > 0).collect();
        rates.sort_unstable();
        let median = rates.get(rates.len() / 2).copied();
        median.or_else(|| rate(arrived, last.saturating_duration_since(self.begun)))
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
    fn a_steady_edge_is_known_after_three_windows() {
        let (time, rate) = run(MS, |time| bytes(50_000_000, time));

        assert_eq!(rate, 50_000_000);
        assert!(time <= 350 * MS, "{time:?}");
    }

    #[test]
    fn a_slow_start_does_not_count() {
        // Nothing for 300 ms, then 10 MB/s.
        let arrived = |time: Duration| bytes(10_000_000, time.saturating_sub(300 * MS));

        let (time, rate) = run(MS, arrived);

        assert_eq!(rate, 10_000_000);
        assert!((400 * MS..700 * MS).contains(&time), "{time:?}");
    }

    /// Seen over an ocean: 58 KB in the first round trip and nearly as many in the second, then twice as many in each,
    /// up to 30 MB/s.
    #[test]
    fn bursts_that_are_alike_before_the_path_is_full_do_not_end_it() {
        const BURSTS: [u64; 9] = [58, 60, 120, 240, 480, 960, 1920, 3000, 3000];
        let arrived = |time: Duration| {
            let round_trips = usize::try_from(time.as_millis() / 100).unwrap();
            let bursts = BURSTS.iter().chain(std::iter::repeat(&3000));
            bursts.take(round_trips).sum::<u64>() * 1000
        };

        let (time, rate) = run(100 * MS, arrived);

        assert!((24_000_000..=31_500_000).contains(&rate), "{rate}");
        assert!(time <= 1500 * MS, "{time:?}");
    }

    #[test]
    fn a_lost_packet_that_holds_up_everything_at_the_end_is_not_what_the_path_carries() {
        // Nothing until 800 ms before the time is over, then 10 MB/s, and nothing in the last two round trips.
        let end = PROBE_TIME + 100 * ROUND_TRIPS_MAX * MS;
        let arrived = |time: Duration| {
            let flowing = time.min(end - 200 * MS);
            bytes(10_000_000, flowing.saturating_sub(end - 800 * MS))
        };

        let (_, rate) = run(100 * MS, arrived);

        assert!((8_000_000..=10_000_000).contains(&rate), "{rate}");
    }

    #[test]
    fn what_a_lost_packet_has_held_up_is_not_the_rate_when_it_arrives() {
        // 10 MB/s from the start, of which 100 ms are held up and arrive at once, again and again.
        let arrived = |time: Duration| {
            let steps = time.as_millis() / 100;
            bytes(10_000_000, u32::try_from(steps).unwrap() * 100 * MS)
        };

        let (_, rate) = run(100 * MS, arrived);

        assert_eq!(rate, 10_000_000);
    }

    #[test]
    fn a_path_that_goes_dead_is_slow() {
        // 10 MB/s for 220 ms, too short to be known, then nothing.
        let arrived = |time: Duration| bytes(10_000_000, time.min(220 * MS));

        let (time, rate) = run(10 * MS, arrived);

        assert_eq!(time, PROBE_TIME + 10 * ROUND_TRIPS_MAX * MS);
        assert!(rate < 3_000_000, "{rate}");
    }

    #[test]
    fn what_never_settles_ends_with_the_time() {
        // It doubles every 50 ms.
        let arrived = |time: Duration| 1000 << (time.as_millis() / 50);

        let (time, rate) = run(MS, arrived);

        assert_eq!(time, PROBE_TIME + ROUND_TRIPS_MAX * MS);
        assert!(rate > 1000);
    }

    #[test]
    fn no_round_trip_is_so_long_that_a_measurement_does_not_end() {
        let (time, _) = run(1000 * MS, |_| 0);

        assert_eq!(time, TIME_MAX);
    }

    #[test]
    fn an_edge_on_which_nothing_arrives_has_no_rate() {
        let (time, rate) = run(MS, |_| 0);

        assert_eq!((time, rate), (PROBE_TIME + ROUND_TRIPS_MAX * MS, 0));
    }

    #[test]
    fn a_window_in_which_nothing_arrives_does_not_make_an_edge_unusable() {
        // It doubles every 50 ms, until a packet has to be sent again.
        let arrived = |time: Duration| 1000 << (time.min(700 * MS).as_millis() / 50);

        let (time, rate) = run(200 * MS, arrived);

        assert_eq!(time, PROBE_TIME + 200 * ROUND_TRIPS_MAX * MS);
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
