//! Whether bytes move: the one counter that everything increments that moves bytes of a call.
//!
//! Bytes of collectives, of shared state and of measurements count, and arrived content that is hashed.
//! What a call does by itself, waiting above all, does not: the master judges by this whom the others
//! wait for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often bytes have moved. Clones are the same counter.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<AtomicU64>);

impl Progress {
    /// Bytes have moved. Costs an atomic addition.
    #[inline]
    pub fn moved(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Looks at a counter now and then.
#[derive(Debug)]
pub struct Sensor {
    progress: Progress,
    seen: u64,
}

impl Sensor {
    /// What has moved so far is known.
    #[must_use]
    pub fn new(progress: Progress) -> Self {
        let seen = progress.count();
        Self { progress, seen }
    }

    /// Whether bytes have moved since the last look.
    pub fn moved_since_last(&mut self) -> bool {
        let count = self.progress.count();
        let seen = std::mem::replace(&mut self.seen, count);
        seen != count
    }

    /// The counter.
    #[must_use]
    pub const fn progress(&self) -> &Progress {
        &self.progress
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_is_seen_once() {
        let progress = Progress::default();
        progress.moved();
        let mut sensor = Sensor::new(progress.clone());

        let before = sensor.moved_since_last();
        progress.moved();
        progress.moved();
        let looks = [sensor.moved_since_last(), sensor.moved_since_last()];

        assert!(!before);
        assert_eq!(looks, [true, false]);
    }
}
