//! A queue of deadlines for the driver of a machine.
//!
//! The machines name their timers and give durations; they know no instants. The driver turns `StartTimer { timer,
//! after }` into [`arm`](TimerQueue::arm)`(timer, now + after)`, sleeps until
//! [`next_deadline`](TimerQueue::next_deadline), and passes the timers that [`pop_expired`](TimerQueue::pop_expired)
//! returns to the machine. The queue reads no clock: the driver defines the instants.
//!
//! # Time in which the process stood still
//!
//! Most timers are *patience*: they limit how long a peer is waited for. If a process was stopped, suspended or
//! starved, it wakes up with such timers expired, and with unread answers in its sockets. To read the answers first,
//! a driver calls [`forgive`](TimerQueue::forgive) each time it wakes up, before it pops timers. If a deadline passed
//! unnoticed, all patience is extended by the lost time and a pause for reading. Timers of the process's own duties
//! are not extended.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::{Add, Sub};
use core::time::Duration;

/// If a driver checks its queue this long after the earliest deadline, the process stood still. It then takes the
/// same time to read what has arrived. Longer than any step of a machine or delay of a busy system, and shorter than
/// any patience.
pub const PAUSE: Duration = Duration::from_millis(500);

/// Deadlines by timer: `T` identifies timers, and `I` is an instant. Each timer has at most one deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimerQueue<T: Ord + Copy, I: Ord + Copy> {
    by_deadline: BTreeSet<(I, T)>,
    by_timer: BTreeMap<T, I>,
    /// The last call of `forgive`.
    looked: Option<I>,
}

impl<T: Ord + Copy, I: Ord + Copy> Default for TimerQueue<T, I> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Ord + Copy, I: Ord + Copy> TimerQueue<T, I> {
    /// A queue without timers.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            by_deadline: BTreeSet::new(),
            by_timer: BTreeMap::new(),
            looked: None,
        }
    }

    /// Sets the timer's deadline, and replaces an earlier one.
    pub fn arm(&mut self, timer: T, at: I) {
        self.disarm(timer);
        self.by_timer.insert(timer, at);
        self.by_deadline.insert((at, timer));
    }

    /// Removes the timer's deadline, if it has one.
    pub fn disarm(&mut self, timer: T) {
        if let Some(at) = self.by_timer.remove(&timer) {
            self.by_deadline.remove(&(at, timer));
        }
    }

    /// The earliest deadline. `None` if no timer is armed.
    #[must_use]
    pub fn next_deadline(&self) -> Option<I> {
        self.by_deadline.first().map(|(at, _)| *at)
    }

    /// Removes and returns the earliest timer whose deadline is not after `now`. Timers with the same deadline come
    /// in their own order. Call it until it returns `None`.
    pub fn pop_expired(&mut self, now: I) -> Option<T> {
        let (at, timer) = *self.by_deadline.first()?;
        if at > now {
            return None;
        }
        self.by_deadline.remove(&(at, timer));
        self.by_timer.remove(&timer);
        Some(timer)
    }

    /// Extends all patience by the time in which the process stood still, and returns that time. `None` if it did not
    /// stand still.
    ///
    /// Call it each time the driver wakes up, with the current instant, before [`pop_expired`](Self::pop_expired).
    /// The process stood still if a timer ran out more than `pause` ago (usually [`PAUSE`]), and the driver has not
    /// called `forgive` for as long. A driver that checks the queue, and lets a timer wait, does not stand still. The
    /// lost time is counted from the earliest deadline, or from the last call if that is later.
    ///
    /// Each timer for which `is_patience` returns `true` then runs out later, by the lost time and the pause. A timer
    /// that had run out before gets the pause from now. So no patience ends before `now` plus `pause`, and the driver
    /// first reads what has arrived meanwhile. All other timers are unchanged.
    pub fn forgive<D>(&mut self, now: I, pause: D, is_patience: impl Fn(&T) -> bool) -> Option<D>
    where
        I: Add<D, Output = I> + Sub<I, Output = D>,
        D: Copy + Ord + Add<D, Output = D>,
    {
        let looked = self.looked.replace(now);
        let earliest = self.next_deadline()?;
        let since = looked.map_or(earliest, |looked| looked.max(earliest));
        if since + pause >= now {
            return None;
        }
        let lost = now - since;
        let patience = self.by_timer.iter().filter(|(timer, _)| is_patience(timer));
        let later: Vec<(T, I)> = patience
            .map(|(timer, at)| (*timer, since.max(*at) + (lost + pause)))
            .collect();
        for (timer, at) in later {
            self.arm(timer, at);
        }
        Some(lost)
    }
}

/// The extended limit of a single wait whose limit has passed, for a driver that has no queue for it. `None` if the
/// patience is over; a pause from `now` if the process stood still.
pub fn prolonged<I, D>(limit: I, now: I, pause: D) -> Option<I>
where
    I: Ord + Copy + Add<D, Output = I>,
    D: Copy,
{
    (limit + pause < now).then(|| now + pause)
}

#[cfg(test)]
mod tests {
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

    /// Uppercase timers are the process's own.
    fn is_patience(timer: &char) -> bool {
        timer.is_lowercase()
    }

    #[test]
    fn patience_that_ended_while_the_process_stood_still_goes_on_by_the_time_lost_and_a_pause() {
        let mut queue = TimerQueue::new();
        queue.arm('a', 100);
        queue.arm('b', 130);

        let lost = queue.forgive(170, 5, is_patience);

        assert_eq!(lost, Some(70));
        assert_eq!(pop_all(&mut queue, 174), []);
        assert_eq!(pop_all(&mut queue, 204), ['a']);
        assert_eq!(pop_all(&mut queue, 205), ['b']);
    }

    #[test]
    fn what_the_process_itself_has_to_do_is_done_as_soon_as_it_goes_on() {
        let mut queue = TimerQueue::new();
        queue.arm('H', 100);
        queue.arm('a', 130);

        assert_eq!(queue.forgive(170, 5, is_patience), Some(70));

        assert_eq!(pop_all(&mut queue, 170), ['H']);
        assert_eq!(queue.next_deadline(), Some(205));
    }

    #[test]
    fn a_single_wait_gets_a_pause_where_its_limit_passed_longer_ago() {
        assert_eq!(prolonged(100_u64, 105, 5), None);
        assert_eq!(prolonged(100_u64, 106, 5), Some(111));
    }

    #[test]
    fn a_driver_that_is_late_by_no_more_than_a_pause_forgives_nothing() {
        let mut queue = TimerQueue::new();
        queue.arm('a', 100);

        assert_eq!(queue.forgive(105, 5, is_patience), None);
        assert_eq!(pop_all(&mut queue, 105), ['a']);
    }

    #[test]
    fn a_process_that_had_nothing_to_do_did_not_stand_still() {
        let mut queue = TimerQueue::new();
        assert_eq!(queue.forgive(0, 5, is_patience), None);
        queue.arm('a', 100);

        assert_eq!(queue.forgive(99, 5, is_patience), None);
        assert_eq!(queue.next_deadline(), Some(100));
    }

    #[test]
    fn a_driver_that_looks_and_lets_a_timer_wait_forgives_nothing() {
        let mut queue = TimerQueue::new();
        queue.arm('a', 100);

        let lost: Vec<Option<u64>> = (100..120)
            .map(|now| queue.forgive(now, 5, is_patience))
            .collect();

        assert_eq!(lost, [None; 20]);
        assert_eq!(pop_all(&mut queue, 120), ['a']);
    }

    #[test]
    fn patience_that_was_let_wait_when_the_process_stopped_gets_a_pause() {
        let mut queue = TimerQueue::new();
        queue.arm('a', 100);
        assert_eq!(queue.forgive(104, 5, is_patience), None);

        assert_eq!(queue.forgive(170, 5, is_patience), Some(66));

        assert_eq!(queue.next_deadline(), Some(175));
    }

    proptest! {
        #![proptest_config(crate::cases::cases(256))]

        #[test]
        fn forgiving_moves_all_patience_alike_and_never_leaves_any_due(
            timers in vec((0..12_u8, 0..200_u64), 0..12),
            looked in proptest::option::of(0..200_u64),
            later in 0..200_u64,
            pause in 0..20_u64,
        ) {
            let own = |timer: &u8| timer.is_multiple_of(3);
            let mut queue = TimerQueue::new();
            for (timer, at) in timers {
                queue.arm(timer, at);
            }
            if let Some(looked) = looked {
                // Whatever it says: nothing is known of the time before the first look.
                queue.forgive(looked, pause, |_| false);
            }
            let now = looked.unwrap_or(0) + later;
            let before = queue.clone();

            let lost = queue.forgive(now, pause, |timer| !own(timer));

            let earliest = before.next_deadline();
            let since = earliest.map(|at| looked.map_or(at, |looked| looked.max(at)));
            let gap = since.map(|since| now.saturating_sub(since));
            prop_assert_eq!(lost, gap.filter(|gap| *gap > pause));
            prop_assert_eq!(queue.by_timer.len(), before.by_timer.len());
            for (timer, at) in &before.by_timer {
                let moved = queue.by_timer[timer];
                match lost {
                    Some(_) if !own(timer) => {
                        prop_assert!(moved >= now + pause);
                        prop_assert!(moved - now <= pause + at.saturating_sub(since.unwrap()));
                    }
                    _ => prop_assert_eq!(moved, *at),
                }
            }
            // The order of patience is kept, ties may arise.
            for (one, at) in before.by_timer.iter().filter(|(timer, _)| !own(timer)) {
                for (other, then) in before.by_timer.iter().filter(|(timer, _)| !own(timer)) {
                    prop_assert!(at > then || queue.by_timer[one] <= queue.by_timer[other]);
                }
            }
            // A second look at the same moment finds nothing more to forgive.
            prop_assert_eq!(queue.forgive(now, pause, |timer| !own(timer)), None);
        }

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
