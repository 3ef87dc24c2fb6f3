//! The bytes between a sender and a receiver.

use std::collections::VecDeque;

use tokio::time::Instant;

use crate::path::Flipping;

/// Bytes in order: first those that have arrived, then those that still fly.
#[derive(Default)]
pub(super) struct Transit {
    bytes: VecDeque<u8>,
    /// How many arrive when.
    flights: VecDeque<(Instant, usize)>,
    /// All of them together.
    flying: usize,
}

impl Transit {
    /// Adds bytes that arrive then. `None`: with what is ahead of them, or at once.
    pub(super) fn put(&mut self, bytes: &[u8], due: Option<Instant>, flips: Option<&mut Flipping>) {
        let before = self.bytes.len();
        self.bytes.extend(bytes);
        if let Some(flips) = flips {
            flips.pass(self.bytes.range_mut(before..));
        }
        // Nothing overtakes.
        let Some(due) = due.max(self.last_due()) else {
            return;
        };
        self.flying += bytes.len();
        match self.flights.back_mut() {
            Some((last, count)) if *last == due => *count += bytes.len(),
            _ => self.flights.push_back((due, bytes.len())),
        }
    }

    /// Moves what has arrived to the front of `into`.
    pub(super) fn take(&mut self, into: &mut [u8]) -> usize {
        self.land();
        let count = into.len().min(self.bytes.len() - self.flying);
        let (first, second) = self.bytes.as_slices();
        let of_first = first.len().min(count);
        let (front, back) = into[..count].split_at_mut(of_first);
        front.copy_from_slice(&first[..of_first]);
        back.copy_from_slice(&second[..count - of_first]);
        self.bytes.drain(..count);
        count
    }

    fn land(&mut self) {
        if self.flights.is_empty() {
            return;
        }
        let now = Instant::now();
        while let Some((due, count)) = self.flights.front()
            && *due <= now
        {
            self.flying -= count;
            self.flights.pop_front();
        }
    }

    /// When the next bytes arrive.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.flights.front().map(|(due, _)| *due)
    }

    /// When the last ones do.
    pub(super) fn last_due(&self) -> Option<Instant> {
        self.flights.back().map(|(due, _)| *due)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
