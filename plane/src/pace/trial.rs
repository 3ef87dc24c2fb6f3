//! A trial: a few collectives run in another way, and it is kept if they carry enough.

use std::time::Duration;

/// Bytes per second.
pub(crate) type Rate = u64;

/// What a collective that took less time carries is a matter of the scheduler more than of the path.
pub(crate) const TEACHES_FROM: Duration = Duration::from_millis(50);

pub(super) const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// Collectives whose mean decides about a trial.
const SAMPLES: u64 = 2;

/// A trial ends at the first collective that carries less than so many percent of what was carried before.
const HOPELESS: u64 = 80;

/// The same of the first collective of a trial, which does not count: lanes that were idle find out about the path, and
/// those that are to carry what others did need time to grow. BBR doubles its rate in some 25 round trips
/// (Cardwell et al., "BBR: Congestion-Based Congestion Control", 2016).
const HOPELESS_AT_FIRST: u64 = 60;

/// The path is another one if it carries so many times as much, or as little, as halves: one and a half.
const CHANGED_HALVES: u64 = 3;

/// Is a rate so much less than another one that the path has changed?
pub(super) fn is_much_less(rate: Rate, than: Rate) -> bool {
    u128::from(than) * 2 > u128::from(rate) * u128::from(CHANGED_HALVES)
}

/// So many bytes in this time.
pub(crate) fn rate(bytes: u64, took: Duration) -> Rate {
    let rate = u128::from(bytes) * NANOS_PER_SECOND / took.as_nanos().max(1);
    Rate::try_from(rate).unwrap_or(Rate::MAX)
}

/// A trial in progress.
#[derive(Debug)]
pub(super) struct Trial {
    /// It is kept if it carries so many percent of what was carried before.
    enough: u64,
    /// What was carried before.
    against: Rate,
    /// Collectives so far, and the sum of what those carried that count.
    collectives: u64,
    sum: u64,
}

/// What a trial has shown.
pub(super) enum Verdict {
    /// What was tried is held from here on. It carries this.
    Kept(Rate),
    InVain,
}

impl Trial {
    pub(super) const fn new(enough: u64, against: Rate) -> Self {
        Self {
            enough,
            against,
            collectives: 0,
            sum: 0,
        }
    }

    /// What was carried before.
    pub(super) const fn against(&self) -> Rate {
        self.against
    }

    /// If the next collective carries less than so many percent of what was carried before, the trial is in vain.
    pub(super) const fn hopeless(&self) -> u64 {
        match self.collectives {
            0 => HOPELESS_AT_FIRST,
            _ => HOPELESS,
        }
    }

    /// Another collective has ended. `None`: it is not decided yet.
    pub(super) fn carried(&mut self, rate: Rate) -> Option<Verdict> {
        if !self.is_at_least(self.hopeless(), rate) {
            return Some(Verdict::InVain);
        }
        self.collectives += 1;
        if self.collectives == 1 {
            return None;
        }
        self.sum = self.sum.saturating_add(rate);
        if self.collectives <= SAMPLES {
            return None;
        }
        let rate = self.sum / SAMPLES;
        Some(if self.is_at_least(self.enough, rate) {
            Verdict::Kept(rate)
        } else {
            Verdict::InVain
        })
    }

    /// Is it at least so many percent of what was carried before?
    fn is_at_least(&self, percent: u64, rate: Rate) -> bool {
        u128::from(rate) * 100 >= u128::from(self.against) * u128::from(percent)
    }
}
