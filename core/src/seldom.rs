//! Rate limiting of log lines that remote peers can cause: one now and then for each cause, with a count of the
//! others.
//!
//! It reads no clock: the driver defines the instants.

use alloc::collections::BTreeMap;
use core::ops::Add;
use core::time::Duration;

/// Minimum time between two lines of one cause.
pub const SILENCE: Duration = Duration::from_secs(10);

/// Decides which lines to log, by cause.
///
/// ```
/// use core::time::Duration;
/// use pccl_core::seldom::{SILENCE, Seldom};
///
/// let mut seldom = Seldom::default();
/// let second = Duration::from_secs;
/// assert_eq!(seldom.another("rain", second(0)), Some(1));
/// assert_eq!(seldom.another("rain", second(1)), None);
/// assert_eq!(seldom.another("snow", second(1)), Some(1));
/// assert_eq!(seldom.another("rain", SILENCE), Some(2));
/// ```
#[derive(Clone, Debug)]
pub struct Seldom<Cause, Instant>(BTreeMap<Cause, Unsaid<Instant>>);

/// The events since the last line.
#[derive(Clone, Debug)]
struct Unsaid<Instant> {
    since: Option<Instant>,
    times: u64,
}

impl<Cause, Instant> Default for Seldom<Cause, Instant> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<Cause: Ord, Instant: Copy + Ord + Add<Duration, Output = Instant>> Seldom<Cause, Instant> {
    /// Counts an event at the instant `now`. If a line is due, returns the number of events for which it stands.
    pub fn another(&mut self, cause: Cause, now: Instant) -> Option<u64> {
        let nothing = Unsaid {
            since: None,
            times: 0,
        };
        let unsaid = self.0.entry(cause).or_insert(nothing);
        unsaid.times = unsaid.times.saturating_add(1);
        if unsaid.since.is_some_and(|since| now < since + SILENCE) {
            return None;
        }
        unsaid.since = Some(now);
        Some(core::mem::take(&mut unsaid.times))
    }
}
