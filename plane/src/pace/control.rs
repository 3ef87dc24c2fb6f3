//! Which congestion control the lanes to other machines have, if the transport leaves the choice.
//!
//! One that paces by a model of the path fills a path that loses packets at random, where one that takes each loss for
//! a full queue carries next to nothing. If the path loses none and a collective is a burst of some hundred kilobytes
//! per link, the model hardly learns anything, overfills the queue with the burst, and the burst takes up to twice as
//! long (docs/collectives.md, "Sites"). No address tells which it is, so the loss-based one is tried at times, and
//! held as long as it carries more.
//!
//! All links of a peer have the same one, because a collective over many of them takes as long as the slowest one:
//! alone, none would gain. For the same reason the peers of a run try at the same time, and measure the same: from the
//! beginning of a collective to its verdict, so until all are done. They need no messages for that: all of them begin
//! anew when their links change, count collectives that run one after the other alike, and try again at round numbers.
//! The model is also taken back if it carries as much, so a peer that alone holds a loss-based one, which gains
//! nothing, gives it up.
//!
//! A loss-based one may carry a fortieth where packets are lost. So it is given up in the middle of a collective that
//! takes much longer than those before, before a larger one, and if collectives that can be compared become rare.

use std::mem::Discriminant;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pccl_core::element::{CollectiveKind, CollectiveSpec, Quantization};
use pccl_core::id::Seq;
use pccl_core::plan::Algorithm;
use pccl_core::transport::CongestionControl;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use super::trial::{NANOS_PER_SECOND, Rate, TEACHES_FROM, Trial, Verdict, rate};

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

/// What is known is forgotten after so many collectives that cannot be compared.
const FORGOTTEN_AFTER: u32 = 16;

/// If nothing could be tried in so many collectives, hardly anything will be.
const UNDECIDED_AFTER: u32 = 16;

/// The choice of a peer.
#[derive(Debug, Default)]
pub(crate) struct ControlChoice {
    trials: Mutex<Trials>,
    /// The last collective whose run ended here, until it is stopped.
    awaited: Mutex<Option<Awaited>>,
}

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

/// A collective that all ranks have begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timed {
    pub(crate) seq: Seq,
    pub(crate) load: Load,
    pub(crate) begun: Instant,
    /// It began alone, and takes as long as the others of its load.
    pub(crate) is_comparable: bool,
}

/// A collective that has ended here, and perhaps not elsewhere.
#[derive(Debug)]
struct Awaited {
    timed: Timed,
    /// What gives the loss-based one up if the collective takes too long.
    guard: Option<AbortHandle>,
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.guard.iter().for_each(AbortHandle::abort);
    }
}

impl ControlChoice {
    /// What lanes should have at this moment.
    pub(crate) fn wanted(&self) -> CongestionControl {
        self.trials().wanted()
    }

    /// Other links stand, or the same ones in another group. Nothing is known about them, and all peers of the group
    /// begin anew.
    pub(crate) fn links_changed(&self) {
        *self.trials() = Trials::default();
        *self.awaited() = None;
    }

    /// Is nothing tried, and will nothing be soon? Until then, what is carried tells nothing about anything else.
    pub(crate) fn is_settled(&self) -> bool {
        self.trials().is_settled()
    }

    /// A collective begins. Those that are not comparable are not alone, wait for others to be told, or have ended here
    /// before they have elsewhere.
    pub(crate) fn begins(&self, load: Load, is_comparable: bool) {
        self.trials().begins(load, is_comparable);
    }

    /// When a collective has taken so long that a loss-based one is to blame, if so many have run at once. `None`: the
    /// lanes have none.
    pub(crate) fn overdue_at(&self, timed: &Timed, at_once: usize) -> Option<Instant> {
        let limit = self.trials().limit(timed.load)?;
        let times = u32::try_from(at_once).unwrap_or(u32::MAX).max(1);
        timed.begun.checked_add(limit.checked_mul(times)?)
    }

    /// A collective has exceeded its limit. What it takes tells nothing about what lanes have from here on.
    pub(crate) fn give_up(&self, seq: Seq) {
        tracing::debug!(%seq, "a loss-based congestion control is given up");
        if let Some(awaited) = self.awaited().as_mut() {
            awaited.timed.is_comparable = false;
        }
        self.trials().give_up(seq.0);
    }

    /// The run of a collective has ended here, so its last bytes are in the lanes. If it becomes overdue elsewhere,
    /// the loss-based one is given up, and `steer` is called, which has to change the lanes. Must be called in a tokio
    /// runtime. `at_once`: how many collectives run.
    pub(crate) fn awaits(
        self: &Arc<Self>,
        timed: Timed,
        at_once: impl Fn() -> usize + Send + 'static,
        steer: impl FnOnce() + Send + 'static,
    ) {
        let overdue_at = self.overdue_at(&timed, at_once());
        let guard = overdue_at.map(|mut at| {
            let choice = Arc::clone(self);
            let guard = tokio::spawn(async move {
                loop {
                    sleep_until(at).await;
                    match choice.overdue_at(&timed, at_once()) {
                        // Others have begun since.
                        Some(later) if later > at => at = later,
                        Some(_) => break,
                        None => return,
                    }
                }
                choice.give_up(timed.seq);
                steer();
            });
            guard.abort_handle()
        });
        *self.awaited() = Some(Awaited { timed, guard });
    }

    /// A collective is stopped, mostly because its verdict is known. `was_alone`: no other one has begun since.
    pub(crate) fn stopped(&self, seq: Seq, was_alone: bool) {
        let awaited = self.awaited().take_if(|awaited| awaited.timed.seq == seq);
        let Some(awaited) = awaited else {
            return;
        };
        let Timed { load, begun, .. } = awaited.timed;
        if awaited.timed.is_comparable && was_alone {
            self.trials().took(seq.0, load, begun.elapsed());
        }
    }

    fn trials(&self) -> MutexGuard<'_, Trials> {
        self.trials.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn awaited(&self) -> MutexGuard<'_, Option<Awaited>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct Trials {
    /// What lanes have while nothing is tried.
    held: CongestionControl,
    /// What is compared. `None`: no collective has ended yet.
    load: Option<Load>,
    /// How many collectives that cannot be compared have begun since the last one that can.
    others: u32,
    stage: Stage,
    /// The mean of what collectives of this load have carried on what is held.
    carries: Option<Rate>,
    /// How many collectives have begun.
    begun: u32,
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
            begun: 0,
            rests_until: 0,
            pause: PAUSE_MIN,
        }
    }
}

impl Trials {
    const fn wanted(&self) -> CongestionControl {
        match self.stage {
            Stage::Cold | Stage::Holding(_) => self.held,
            Stage::Trying(_) => other(self.held),
        }
    }

    const fn is_settled(&self) -> bool {
        match self.stage {
            Stage::Cold | Stage::Holding(_) => self.begun >= UNDECIDED_AFTER,
            Stage::Trying(_) => false,
        }
    }

    /// Forgets what has become rare, and what tells nothing about a larger collective.
    fn begins(&mut self, load: Load, is_comparable: bool) {
        self.begun = self.begun.saturating_add(1);
        if is_comparable && self.load == Some(load) {
            self.others = 0;
            return;
        }
        self.others += 1;
        let is_larger = self.load.is_some_and(|known| load.bytes > known.bytes);
        if is_larger || self.others > FORGOTTEN_AFTER {
            self.forget();
        }
    }

    fn forget(&mut self) {
        *self = Self {
            begun: self.begun,
            ..Self::default()
        };
    }

    fn limit(&self, load: Load) -> Option<Duration> {
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

    /// A collective took this time. One that took less than a trial is worth tells nothing, unless it is one.
    fn took(&mut self, seq: u64, load: Load, took: Duration) {
        if took >= TEACHES_FROM || matches!(self.stage, Stage::Trying(_)) {
            self.carried(seq, load, rate(load.bytes, took));
        }
    }

    fn carried(&mut self, seq: u64, load: Load, rate: Rate) {
        if !self.compares(load) {
            return;
        }
        match &mut self.stage {
            Stage::Cold => self.stage = Stage::Holding(None),
            Stage::Holding(mean) => {
                let before = mean.replace(rate);
                if let Some(before) = before {
                    let rate = before - before / PARTS + rate / PARTS;
                    self.stage = Stage::Holding(Some(rate));
                    self.held_carried(seq, rate);
                }
            }
            Stage::Trying(trial) => match trial.carried(rate) {
                None => {}
                Some(Verdict::Kept(rate)) => self.kept(seq, rate),
                Some(Verdict::InVain) => self.rest(seq),
            },
        }
    }

    /// Are collectives of this load compared? Larger ones take the place of smaller ones.
    fn compares(&mut self, load: Load) -> bool {
        let compared = self.load.filter(|compared| load.bytes <= compared.bytes);
        match compared {
            Some(compared) => compared == load,
            None => {
                self.forget();
                self.load = Some(load);
                true
            }
        }
    }

    /// What is held has carried this lately.
    fn held_carried(&mut self, seq: u64, rate: Rate) {
        self.carries = Some(rate);
        if seq >= self.rests_until {
            let enough = match other(self.held) {
                CongestionControl::LossBased => LOSS_BASED_CARRIES,
                CongestionControl::ModelBased => MODEL_CARRIES,
            };
            self.stage = Stage::Trying(Trial::new(enough, rate));
        }
    }

    fn kept(&mut self, seq: u64, rate: Rate) {
        self.held = other(self.held);
        self.carries = Some(rate);
        self.pause = match self.held {
            CongestionControl::LossBased => PAUSE_KEPT,
            CongestionControl::ModelBased => PAUSE_MIN,
        };
        self.rest(seq);
    }

    fn give_up(&mut self, seq: u64) {
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
        self.stage = Stage::Holding(None);
        self.rests_until = (seq / self.pause + 1).saturating_mul(self.pause);
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }
}

const fn other(control: CongestionControl) -> CongestionControl {
    match control {
        CongestionControl::ModelBased => CongestionControl::LossBased,
        CongestionControl::LossBased => CongestionControl::ModelBased,
    }
}

#[cfg(test)]
mod tests;
