//! Timers that run, as a log shows them.
//!
//! A log has no instants. But a machine that runs gives signs of life, and each takes its time: so the
//! number of them says how much time has gone by at least. A timer that runs out before enough of
//! them were due has not taken its time.
//!
//! It is a bound, not a clock. A driver may be late with a sign of life by as much as it takes between
//! two, and does not notice that it stood still for less than [`PAUSE`]. Whatever is shorter than one
//! such step cannot be judged.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::time::Duration;

use pccl_core::timers::PAUSE;

use super::rule::{Rule, Unsound};

/// The timers of one machine.
pub(super) struct Timers<T> {
    /// The one of the signs of life.
    beat: T,
    running: BTreeMap<T, Started>,
    /// Of those that a driver has taken out together: not handed in yet.
    due: BTreeSet<T>,
    expiring: bool,
    beats: u64,
    pace: Pace,
    /// Counts how often signs of life were begun.
    series: u64,
}

/// How the signs of life come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    None,
    Every(Duration),
    /// One was given; the next one is started at once, or none.
    Given,
}

#[derive(Clone, Copy)]
struct Started {
    after: Duration,
    /// How many signs of life there had been, in which series of them.
    beats: u64,
    series: Option<u64>,
}

/// How a timer runs out.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fired {
    Soundly,
    /// It does not run.
    NotRunning,
    /// There were fewer signs of life than so many.
    Early {
        beats: u64,
        due: u64,
    },
}

impl Fired {
    /// As a judgement of the input in which this timer ran out.
    pub(super) fn judged(self, timer: impl Debug) -> Result<(), Unsound> {
        match self {
            Self::Soundly => Ok(()),
            Self::NotRunning => {
                let what = format!("{timer:?} runs out and was not running");
                Err((Rule::TimersRun, what))
            }
            Self::Early { beats, due } => {
                let what = format!("{timer:?} runs out after {beats} signs of life of {due}");
                Err((Rule::TimersTakeTheirTime, what))
            }
        }
    }
}

impl<T: Ord + Copy> Timers<T> {
    /// None runs.
    pub(super) fn new(beat: T) -> Self {
        Self {
            beat,
            running: BTreeMap::new(),
            due: BTreeSet::new(),
            expiring: false,
            beats: 0,
            pace: Pace::None,
            series: 0,
        }
    }

    pub(super) fn start(&mut self, timer: T, after: Duration) {
        if timer == self.beat {
            if self.pace == Pace::None {
                self.series += 1;
            }
            self.pace = Pace::Every(after);
        }
        let series = match self.pace {
            Pace::None => None,
            Pace::Every(_) | Pace::Given => Some(self.series),
        };
        let started = Started {
            after,
            beats: self.beats,
            series,
        };
        self.running.insert(timer, started);
    }

    pub(super) fn stop(&mut self, timer: T) {
        self.running.remove(&timer);
        if timer == self.beat {
            self.pace = Pace::None;
        }
    }

    /// All that run may be taken out together from here on, and are handed in one after the other.
    pub(super) fn begin_to_expire(&mut self) {
        if !std::mem::replace(&mut self.expiring, true) {
            self.due = self.running.keys().copied().collect();
        }
    }

    /// Something else is handed in.
    pub(super) fn end_to_expire(&mut self) {
        self.expiring = false;
        self.due.clear();
    }

    /// A timer runs out.
    pub(super) fn fires(&mut self, timer: T) -> Fired {
        let started = self.running.remove(&timer);
        let was_due = self.due.remove(&timer);
        if timer == self.beat {
            self.beats += 1;
            self.pace = match self.pace {
                Pace::None => Pace::None,
                Pace::Every(_) | Pace::Given => Pace::Given,
            };
        }
        match started {
            None if was_due => Fired::Soundly,
            None => Fired::NotRunning,
            Some(started) => self.in_time(timer, started),
        }
    }

    fn in_time(&self, timer: T, started: Started) -> Fired {
        let Pace::Every(period) = self.pace else {
            return Fired::Soundly;
        };
        if timer == self.beat || started.series != Some(self.series) {
            return Fired::Soundly;
        }
        let slowest = (2 * period + PAUSE).as_millis().max(1);
        let due = (started.after.as_millis() / slowest).saturating_sub(1);
        let due = u64::try_from(due).unwrap_or(u64::MAX);
        let beats = self.beats - started.beats;
        if beats < due {
            Fired::Early { beats, due }
        } else {
            Fired::Soundly
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn beating() -> Timers<char> {
        let mut timers = Timers::new('B');
        timers.start('B', SECOND);
        timers
    }

    fn beat(timers: &mut Timers<char>) {
        assert_eq!(timers.fires('B'), Fired::Soundly);
        timers.start('B', SECOND);
    }

    #[test]
    fn a_timer_that_was_not_started_or_was_stopped_does_not_run_out() {
        let mut timers = beating();
        timers.start('a', SECOND);
        timers.stop('a');

        assert_eq!(timers.fires('a'), Fired::NotRunning);
        assert_eq!(timers.fires('b'), Fired::NotRunning);
    }

    #[test]
    fn a_timer_runs_out_once() {
        let mut timers = beating();
        timers.start('a', SECOND);

        assert_eq!(timers.fires('a'), Fired::Soundly);
        assert_eq!(timers.fires('a'), Fired::NotRunning);
    }

    #[test]
    fn what_was_taken_out_together_is_handed_in_although_the_first_of_them_stops_the_others() {
        let mut timers = beating();
        timers.start('a', SECOND);
        timers.begin_to_expire();

        assert_eq!(timers.fires('a'), Fired::Soundly);
        timers.stop('B');
        assert_eq!(timers.fires('B'), Fired::Soundly);
        assert_eq!(timers.fires('B'), Fired::NotRunning);
    }

    #[test]
    fn a_minute_is_not_over_before_most_signs_of_life_of_it_were_given() {
        let mut timers = beating();
        timers.start('a', 60 * SECOND);
        beat(&mut timers);

        assert!(matches!(timers.fires('a'), Fired::Early { beats: 1, .. }));
    }

    #[test]
    fn a_minute_is_over_after_sixty_signs_of_life_and_also_after_half_as_many() {
        for beats in [60, 30] {
            let mut timers = beating();
            timers.start('a', 60 * SECOND);
            (0..beats).for_each(|_| beat(&mut timers));

            assert_eq!(timers.fires('a'), Fired::Soundly, "{beats}");
        }
    }

    #[test]
    fn where_no_signs_of_life_are_given_nothing_is_known_of_the_time() {
        let mut timers = Timers::new('B');
        timers.start('a', 60 * SECOND);
        assert_eq!(timers.fires('a'), Fired::Soundly);

        let mut timers = beating();
        timers.start('a', 60 * SECOND);
        timers.stop('B');
        timers.start('B', SECOND);
        assert_eq!(timers.fires('a'), Fired::Soundly);
    }
}
