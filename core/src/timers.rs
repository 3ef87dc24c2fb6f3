//! A queue of deadlines, for whoever drives a machine.
//!
//! The machines name their timers and say how long they take; they know no instants. A driver turns
//! `StartTimer { timer, after }` into [`arm`](TimerQueue::arm)`(timer, now + after)`, sleeps until
//! [`next_deadline`](TimerQueue::next_deadline), and hands what
//! [`pop_expired`](TimerQueue::pop_expired) returns back to the machine. The queue reads no clock:
//! instants are whatever the driver counts in.

use alloc::collections::{BTreeMap, BTreeSet};

/// Deadlines by timer: `T` names timers, `I` is an instant. Each timer has at most one deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimerQueue<T: Ord + Copy, I: Ord + Copy> {
    by_deadline: BTreeSet<(I, T)>,
    by_timer: BTreeMap<T, I>,
}

impl<T: Ord + Copy, I: Ord + Copy> Default for TimerQueue<T, I> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Ord + Copy, I: Ord + Copy> TimerQueue<T, I> {
    /// A queue in which no timer is armed.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            by_deadline: BTreeSet::new(),
            by_timer: BTreeMap::new(),
        }
    }

    /// Sets the timer's deadline. One that it had is forgotten.
    pub fn arm(&mut self, timer: T, at: I) {
        self.disarm(timer);
        self.by_timer.insert(timer, at);
        self.by_deadline.insert((at, timer));
    }

    /// Forgets the timer's deadline, if it has one.
    pub fn disarm(&mut self, timer: T) {
        if let Some(at) = self.by_timer.remove(&timer) {
            self.by_deadline.remove(&(at, timer));
        }
    }

    /// When to look again; `None` where no timer is armed.
    #[must_use]
    pub fn next_deadline(&self) -> Option<I> {
        self.by_deadline.first().map(|(at, _)| *at)
    }

    /// Takes out the earliest timer whose deadline is not after `now`; timers with the same deadline
    /// come in their own order. Call it until it says `None`.
    pub fn pop_expired(&mut self, now: I) -> Option<T> {
        let (at, timer) = *self.by_deadline.first()?;
        if at > now {
            return None;
        }
        self.by_deadline.remove(&(at, timer));
        self.by_timer.remove(&timer);
        Some(timer)
    }
}
