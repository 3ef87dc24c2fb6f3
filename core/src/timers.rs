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

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn pop_all(queue: &mut TimerQueue<char, u64>, now: u64) -> Vec<char> {
        core::iter::from_fn(|| queue.pop_expired(now)).collect()
    }

    #[test]
    fn timers_fire_in_the_order_of_their_deadlines_and_ties_in_their_own() {
        let mut queue = TimerQueue::new();
        queue.arm('c', 5);
        queue.arm('b', 7);
        queue.arm('a', 7);
        queue.arm('d', 8);

        assert_eq!(queue.next_deadline(), Some(5));
        assert_eq!(pop_all(&mut queue, 4), []);
        assert_eq!(pop_all(&mut queue, 7), ['c', 'a', 'b']);
        assert_eq!(queue.next_deadline(), Some(8));
    }

    #[test]
    fn a_timer_that_is_armed_again_fires_once_and_later() {
        let mut queue = TimerQueue::new();
        queue.arm('a', 5);
        queue.arm('a', 9);

        assert_eq!(pop_all(&mut queue, 8), []);
        assert_eq!(pop_all(&mut queue, 100), ['a']);
    }

    #[test]
    fn a_timer_that_is_disarmed_does_not_fire() {
        let mut queue = TimerQueue::new();
        queue.arm('a', 5);
        queue.disarm('a');
        queue.disarm('b');

        assert_eq!(queue.next_deadline(), None);
        assert_eq!(pop_all(&mut queue, 5), []);
    }

    proptest! {
        #[test]
        fn the_queue_fires_what_a_plain_list_would(
            orders in vec((0..6_u8, proptest::option::of(0..20_u64)), 0..40), now in 0..20_u64
        ) {
            let mut queue = TimerQueue::new();
            let mut list: Vec<(u64, u8)> = Vec::new();
            for (timer, at) in orders {
                list.retain(|(_, known)| *known != timer);
                match at {
                    Some(at) => {
                        queue.arm(timer, at);
                        list.push((at, timer));
                    }
                    None => queue.disarm(timer),
                }
            }
            list.sort_unstable();

            prop_assert_eq!(queue.next_deadline(), list.first().map(|(at, _)| *at));
            let due = list.iter().filter(|(at, _)| *at <= now).map(|(_, timer)| *timer);
            let fired = core::iter::from_fn(|| queue.pop_expired(now));
            prop_assert!(fired.eq(due));
        }
    }
}
