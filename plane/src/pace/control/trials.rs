//! When what is tried, and what is held: the rules, without a clock and without lanes.

use std::mem::Discriminant;
use std::time::Duration;

use pccl_core::element::{CollectiveKind, CollectiveSpec, Quantization};
use pccl_core::plan::Algorithm;
use pccl_core::transport::CongestionControl;

use crate::pace::trial::{
    NANOS_PER_SECOND, Rate, TEACHES_FROM, Trial, Verdict, is_much_less, rate,
};

/// After a trial in vain, the next one begins after a collective whose number is a multiple of this; after another one
/// in vain, of twice as much, and so on. A power of two, so that peers with different pauses meet. The first pauses are
/// short, because a model may carry less after some ten seconds, when it has measured the round trip anew.
const PAUSE_MIN: u64 = 8;

/// The same after a loss-based one was kept: what the model carries has just been measured.
const PAUSE_KEPT: u64 = 64;

/// The longest pause.
const PAUSE_MAX: u64 = 1024;

/// A loss-based one is kept if it carries at least so many percent of what the model carried.
const LOSS_BASED_CARRIES: u64 = 108;

/// The model is kept if it carries at least so many percent of what a loss-based one carried. If both carry the same,
/// it is the safer one.
const MODEL_CARRIES: u64 = 97;

/// Of the mean of what is carried, the last collective is one part of so many.
const PARTS: u64 = 4;

/// A loss-based one is given up if a collective takes so many times as long as those before. If several run at once,
/// each may take as many times longer.
const OVERDUE: u128 = 3;

/// The same of a collective of another kind or algorithm on as many bytes at most. A ring in a bad order takes four
/// times as long as two levels.
const OTHER_OVERDUE: u128 = 10;

/// What is known is forgotten if more collectives than this have begun since the last one that could be compared.
const FORGOTTEN_AFTER: u32 = 16;

/// If nothing could be tried in so many collectives, hardly anything will be.
const UNDECIDED_AFTER: u32 = 16;

/// Collectives that take as long as each other over the same paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    /// Of the buffer.
    bytes: u64,
    kind: Discriminant<CollectiveKind>,
    quantization: Quantization,
    algorithm: Algorithm,
}

impl Load {
    pub(crate) fn new(spec: &CollectiveSpec, algorithm: Algorithm) -> Self {
        Self {
            bytes: spec.bytes(),
            kind: std::mem::discriminant(&spec.kind),
            quantization: spec.quantization,
            algorithm,
        }
    }
}

/// What is tried, what is held, and what is known.
#[derive(Debug)]
pub(super) struct Trials {
    /// What lanes have while nothing is tried.
    held: CongestionControl,
    /// What is compared. `None`: no collective has ended yet.
    load: Option<Load>,
    /// How many collectives have begun since the last one of this load that was alone until its verdict.
    others: u32,
    stage: Stage,
    /// The mean of what collectives of this load have carried on what is held.
    carries: Option<Rate>,
    /// What a loss-based one carried when it was last decided to hold it.
    decided_at: Option<Rate>,
    /// How many collectives have begun.
    begun: u32,
    /// The bytes of the largest of them.
    largest: u64,
    /// Of which load the last trial was.
    rested: Option<Load>,
    /// The number of the first collective after which a trial may begin.
    rests_until: u64,
    pause: u64,
}

#[derive(Debug)]
enum Stage {
    /// The next collective finds connections that know nothing of the path yet, or that others have changed.
    Cold,
    /// Nothing is tried. The mean of what was carried since the last trial.
    Holding(Option<Rate>),
    /// The other one is tried.
    Trying(Trial),
}

impl Default for Trials {
    fn default() -> Self {
        Self {
            held: CongestionControl::ModelBased,
            load: None,
            others: 0,
            stage: Stage::Cold,
            carries: None,
            decided_at: None,
            begun: 0,
            largest: 0,
            rested: None,
            rests_until: 0,
            pause: PAUSE_MIN,
        }
    }
}

impl Trials {
    pub(super) const fn wanted(&self) -> CongestionControl {
        match self.stage {
            Stage::Cold | Stage::Holding(_) => self.held,
            Stage::Trying(_) => other(self.held),
        }
    }

    pub(super) const fn is_settled(&self) -> bool {
        match self.stage {
            Stage::Cold | Stage::Holding(_) => self.begun >= UNDECIDED_AFTER,
            Stage::Trying(_) => false,
        }
    }

    /// Forgets what has become rare, and what tells nothing about a larger collective.
    pub(super) fn begins(&mut self, seq: u64, load: Load) {
        self.begun = self.begun.saturating_add(1);
        self.others += 1;
        let is_larger = self.load.is_some_and(|known| load.bytes > known.bytes);
        if is_larger || self.others > FORGOTTEN_AFTER {
            self.forget(seq);
        }
        if load.bytes > self.largest {
            self.largest = load.bytes;
            (self.rests_until, self.pause) = (0, PAUSE_MIN);
        }
    }

    /// A trial without a verdict was in vain, and trials that were are not repeated because what they have shown is
    /// forgotten.
    fn forget(&mut self, seq: u64) {
        if matches!(self.stage, Stage::Trying(_)) {
            self.rest(seq);
        }
        let (rests_until, pause) = match self.held {
            CongestionControl::ModelBased => (self.rests_until, self.pause),
            CongestionControl::LossBased => (0, PAUSE_MIN),
        };
        *self = Self {
            begun: self.begun,
            largest: self.largest,
            rested: self.rested,
            rests_until,
            pause,
            ..Self::default()
        };
    }

    /// How long a collective may take. `None`: lanes should have the model.
    pub(super) fn limit(&self, load: Load) -> Option<Duration> {
        let is_limited = self.wanted() == CongestionControl::LossBased;
        let rate = self.carries.filter(|_| is_limited)?;
        let known = self.load?;
        let expected = |bytes: u64| u128::from(bytes) * NANOS_PER_SECOND / u128::from(rate.max(1));
        let nanos = match &self.stage {
            Stage::Trying(trial) if load == known => {
                expected(known.bytes) * 100 / u128::from(trial.hopeless())
            }
            Stage::Cold | Stage::Holding(_) if load == known => expected(known.bytes) * OVERDUE,
            // No larger ones run on it. Latency does not shrink with the bytes.
            Stage::Cold | Stage::Holding(_) | Stage::Trying(_) => {
                expected(known.bytes) * OTHER_OVERDUE
            }
        };
        Some(Duration::from_nanos(
            u64::try_from(nanos).unwrap_or(u64::MAX),
        ))
    }

    /// A collective that was alone took this time. One that took less than a trial is worth tells nothing, unless it
    /// is one.
    pub(super) fn took(&mut self, seq: u64, load: Load, took: Duration) {
        if took >= TEACHES_FROM || matches!(self.stage, Stage::Trying(_)) {
            self.carried(seq, load, rate(load.bytes, took));
        } else if self.load == Some(load) {
            self.others = 0;
        }
    }

    fn carried(&mut self, seq: u64, load: Load, rate: Rate) {
        if !self.compares(seq, load) {
            return;
        }
        self.others = 0;
        match &mut self.stage {
            Stage::Cold => self.stage = Stage::Holding(None),
            Stage::Holding(None) => self.stage = Stage::Holding(Some(rate)),
            Stage::Holding(Some(mean)) => {
                *mean = *mean - *mean / PARTS + rate / PARTS;
                let mean = *mean;
                self.held_carried(seq, mean, rate);
            }
            Stage::Trying(trial) => {
                let against = trial.against();
                match trial.carried(rate) {
                    None => {}
                    Some(Verdict::Kept(rate)) => self.kept(seq, rate),
                    Some(Verdict::InVain) => {
                        self.decided_at = Some(against);
                        self.rest(seq);
                    }
                }
            }
        }
    }

    /// Are collectives of this load compared? Larger ones take the place of smaller ones.
    fn compares(&mut self, seq: u64, load: Load) -> bool {
        let compared = self.load.filter(|compared| load.bytes <= compared.bytes);
        match compared {
            Some(compared) => compared == load,
            None => {
                self.forget(seq);
                self.load = Some(load);
                if self.rested != Some(load) {
                    // What was in vain for others may not be for these.
                    let soon = multiple_after(seq, PAUSE_KEPT);
                    self.rests_until = self.rests_until.min(soon);
                    self.pause = self.pause.min(PAUSE_KEPT);
                }
                true
            }
        }
    }

    /// What is held has carried this in the mean, and this the last time.
    fn held_carried(&mut self, seq: u64, mean: Rate, last: Rate) {
        self.carries = Some(mean);
        if self.held == CongestionControl::LossBased {
            self.doubt(seq, mean);
        }
        if seq < self.rests_until {
            return;
        }
        let (enough, against) = match other(self.held) {
            // One that took long for another reason before is none for it.
            CongestionControl::LossBased => (LOSS_BASED_CARRIES, mean.max(last)),
            CongestionControl::ModelBased => (MODEL_CARRIES, mean),
        };
        self.stage = Stage::Trying(Trial::new(enough, against));
    }

    /// A loss-based one that carries much less than when it was decided to hold it is doubted soon.
    fn doubt(&mut self, seq: u64, mean: Rate) {
        let decided_at = *self.decided_at.get_or_insert(mean);
        if is_much_less(mean, decided_at) {
            self.decided_at = Some(mean);
            self.pause = PAUSE_MIN;
            self.rests_until = self.rests_until.min(multiple_after(seq, PAUSE_MIN));
        }
    }

    fn kept(&mut self, seq: u64, rate: Rate) {
        self.held = other(self.held);
        self.carries = Some(rate);
        self.decided_at = Some(rate);
        self.pause = match self.held {
            CongestionControl::LossBased => PAUSE_KEPT,
            CongestionControl::ModelBased => PAUSE_MIN,
        };
        self.rest(seq);
    }

    pub(super) fn give_up(&mut self, seq: u64) {
        if self.wanted() == CongestionControl::LossBased {
            if self.held == CongestionControl::LossBased {
                // Trials of the model were in vain until then.
                self.pause = PAUSE_MIN;
            }
            self.held = CongestionControl::ModelBased;
            self.rest(seq);
        }
    }

    /// Tries nothing until the next multiple of the pause.
    fn rest(&mut self, seq: u64) {
        self.stage = Stage::Cold;
        self.rested = self.load;
        self.rests_until = multiple_after(seq, self.pause);
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }
}

const fn multiple_after(seq: u64, pause: u64) -> u64 {
    (seq / pause + 1).saturating_mul(pause)
}

const fn other(control: CongestionControl) -> CongestionControl {
    match control {
        CongestionControl::ModelBased => CongestionControl::LossBased,
        CongestionControl::LossBased => CongestionControl::ModelBased,
    }
}

#[cfg(test)]
mod tests;
