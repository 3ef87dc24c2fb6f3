//! How regularly somebody is heard, and so how long a silence means that they are gone.
//!
//! A fixed limit of silence is too long on a quiet network, or too short on one that loses packets in bursts: a
//! connection then says nothing until its system sends again, and each time that fails it waits twice as long. How long
//! such gaps are shows in the gaps so far, whatever their cause: lost packets, a busy machine, a process that computes.
//! So the driver of each end notes when anything arrives, and asks for a [limit](Rhythm::limit) that fits:
//!
//! ```text
//! silence + 4 round trips, or 3 times the longest gap of the last minute, whichever is more; at most 4 times silence
//! ```
//!
//! Nobody who was heard with gaps of less than a third of the limit gets more than the limit and the round trips.
//!
//! It reads no clock: the driver defines the instants.

use core::ops::Sub;
use core::time::Duration;

/// A gap counts for this long, and for twice as long at most.
pub const WINDOW: Duration = Duration::from_secs(60);

/// A silence has to be this many times as long as the longest gap before it. A system that sends again after a loss
/// waits twice as long each time.
pub const GAPS: u32 = 3;

/// A system needs a few round trips to see that packets were lost, and to send them again.
pub const ROUND_TRIPS: u32 = 4;

/// No silence lasts longer than this many times the configured limit.
pub const LIMITS_MAX: u32 = 4;

/// When somebody was heard.
///
/// ```
/// use core::time::Duration;
/// use pccl_core::rhythm::Rhythm;
///
/// let ms = Duration::from_millis;
/// let silence = ms(2000);
/// let mut rhythm = Rhythm::new(ms(0));
/// rhythm.heard(ms(400));
/// assert_eq!(rhythm.limit(silence), silence);
/// // Packets were lost.
/// rhythm.heard(ms(1900));
/// assert_eq!(rhythm.limit(silence), ms(4500));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rhythm<I> {
    last: I,
    /// When the current window began.
    since: I,
    /// The longest gap of the current window.
    longest: Duration,
    /// The longest gap of the window before it.
    longest_before: Duration,
    round_trip: Duration,
}

impl<I: Copy + Sub<Output = Duration>> Rhythm<I> {
    /// Somebody was heard at this instant, and never before.
    #[must_use]
    pub const fn new(now: I) -> Self {
        Self {
            last: now,
            since: now,
            longest: Duration::ZERO,
            longest_before: Duration::ZERO,
            round_trip: Duration::ZERO,
        }
    }

    /// Something has arrived.
    pub fn heard(&mut self, now: I) {
        let gap = now - self.last;
        self.last = now;
        if now - self.since >= WINDOW {
            self.since = now;
            self.longest_before = core::mem::take(&mut self.longest);
        }
        self.longest = self.longest.max(gap);
    }

    /// The time until this instant counts as no gap: nobody listened.
    pub const fn excuse(&mut self, now: I) {
        self.last = now;
    }

    /// An answer took this long.
    pub const fn answered_after(&mut self, round_trip: Duration) {
        self.round_trip = round_trip;
    }

    /// What was learned over the connection before this one. The time between the two is a gap.
    pub fn follow(&mut self, before: &Self) {
        let gap = self.last - before.last;
        self.since = before.since;
        self.longest = before.longest.max(gap);
        self.longest_before = before.longest_before;
        self.round_trip = self.round_trip.max(before.round_trip);
    }

    /// When something arrived last.
    pub const fn last(&self) -> I {
        self.last
    }

    /// After how long a silence they are given up, if the limit of the run is `silence`.
    #[must_use]
    pub fn limit(&self, silence: Duration) -> Duration {
        let by_gaps = self.longest.max(self.longest_before).saturating_mul(GAPS);
        let by_round_trips = silence.saturating_add(self.round_trip.saturating_mul(ROUND_TRIPS));
        let most = silence.saturating_mul(LIMITS_MAX);
        by_gaps.max(by_round_trips).min(most)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const SILENCE: Duration = Duration::from_secs(2);

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Heard so often, with these gaps.
    fn heard(gaps: &[u64]) -> Rhythm<Duration> {
        let mut rhythm = Rhythm::new(ms(0));
        let mut now = ms(0);
        for gap in gaps {
            now += ms(*gap);
            rhythm.heard(now);
        }
        rhythm
    }

    #[test]
    fn who_is_heard_as_agreed_has_the_limit_of_the_run() {
        assert_eq!(heard(&[]).limit(SILENCE), SILENCE);
        assert_eq!(heard(&[400, 410, 660]).limit(SILENCE), SILENCE);
    }

    #[test]
    fn who_was_heard_late_before_gets_three_times_that_and_no_more_than_four_limits() {
        assert_eq!(heard(&[400, 1000, 400]).limit(SILENCE), ms(3000));
        assert_eq!(heard(&[400, 7000, 400]).limit(SILENCE), 4 * SILENCE);
    }

    #[test]
    fn who_is_far_away_gets_some_round_trips_more() {
        let mut rhythm = heard(&[400]);

        rhythm.answered_after(ms(300));

        assert_eq!(rhythm.limit(SILENCE), ms(3200));
    }

    #[test]
    fn a_gap_is_forgotten_after_one_or_two_minutes() {
        let mut gaps = [1000].to_vec();
        gaps.extend([400; 100]);
        assert_eq!(heard(&gaps).limit(SILENCE), ms(3000));
        gaps.extend([400; 200]);
        assert_eq!(heard(&gaps).limit(SILENCE), SILENCE);
    }

    #[test]
    fn time_in_which_nobody_listened_is_no_gap() {
        let mut rhythm = heard(&[400]);

        rhythm.excuse(ms(5000));
        rhythm.heard(ms(5400));

        assert_eq!((rhythm.limit(SILENCE), rhythm.last()), (SILENCE, ms(5400)));
    }

    #[test]
    fn time_without_a_connection_is_a_gap_and_what_was_known_stays_known() {
        let mut before = heard(&[400, 800]);
        before.answered_after(ms(50));
        let mut after = Rhythm::new(ms(1300));
        after.follow(&before);
        assert_eq!(after.limit(SILENCE), ms(2400));

        let mut after = Rhythm::new(ms(2200));
        after.follow(&before);
        assert_eq!(after.limit(SILENCE), ms(3000));
    }

    proptest! {
        #![proptest_config(crate::cases::cases(256))]

        #[test]
        fn the_limit_is_never_shorter_than_that_of_the_run_and_never_longer_than_four(
            gaps in vec(0..20_000_u64, 0..40), silence in 1..10_000_u64, round_trip in 0..5000_u64
        ) {
            let mut rhythm = heard(&gaps);
            rhythm.answered_after(ms(round_trip));

            let limit = rhythm.limit(ms(silence));

            prop_assert!(limit >= ms(silence) && limit <= ms(4 * silence));
        }
    }
}
