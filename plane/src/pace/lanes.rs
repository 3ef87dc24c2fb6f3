//! How many lanes of a link a reduce takes.
//!
//! Lanes that are limited one by one carry more together: by a shaper that counts connections, by the buffer of a
//! socket, or by a congestion control that takes every loss for a full queue. Lanes of which one fills the path carry
//! less together: they push each other's packets out of its queue. One number of lanes does not tell which it is, so
//! another one is tried at times, half as many or twice as many, and kept if it carries more: hill climbing, with
//! pauses that grow while nothing is gained. A link begins with all its lanes, because too many cost a tenth, and
//! too few cost a multiple.
//!
//! The sender of a link decides by itself, for each reduce: whoever receives takes a stripe from whichever lane it
//! comes on. A link that does not hold a reduce up shows no difference and ends with few lanes, as few as do not hold
//! it up. Small reduces have ended before a path is full, so each power of two of bytes has a choice of its own.

use std::collections::BTreeMap;

use super::trial::{Rate, Trial, Verdict, is_much_less};

/// Reduces between two trials, at first. Twice as many after each trial in vain.
const PAUSE_MIN: u32 = 16;

/// Most reduces between two trials.
const PAUSE_MAX: u32 = 1024;

/// Links of one ring pause for different times, so that few trials of one are judged by what comes of another one's.
/// The first ones fall together, and those after a change of a path that all of them feel.
const STAGGERS: u32 = 8;

/// Fewer lanes are kept if they carry at least so many percent of what more did: they leave more of the queue to
/// everybody else on the path.
const FEWER_CARRY: u64 = 95;

/// More lanes are kept if they carry at least so many percent of what fewer did.
const MORE_CARRY: u64 = 108;

/// If the path is another one, the next trial is at most so many reduces away.
const PAUSE_AFTER_CHANGE: u32 = 8;

/// What is known about a link.
#[derive(Debug)]
pub(crate) struct LaneChoice {
    most: u16,
    /// By how many parts of [`STAGGERS`] its pauses are longer.
    stagger: u32,
    /// By the power of two of a reduce's bytes.
    by_size: BTreeMap<u32, Trials>,
    /// How often its lanes had been given another congestion control.
    changes: u32,
}

impl LaneChoice {
    /// Of a link of so many lanes, about which nothing is known, to the peer of this number.
    pub(crate) const fn new(most: u16, peer: u64) -> Self {
        Self {
            most,
            stagger: (peer % STAGGERS as u64) as u32,
            by_size: BTreeMap::new(),
            changes: 0,
        }
    }

    /// How many lanes the next reduce of so many bytes takes. It takes fewer if it has fewer stripes.
    pub(crate) fn lanes(&self, bytes: u64) -> u16 {
        let known = self.by_size.get(&size_of(bytes));
        known.map_or_else(|| self.held_near(size_of(bytes)), Trials::lanes)
    }

    /// A reduce of so many bytes and stripes has ended that was alone, and took long enough to tell anything. Of one
    /// on another number of lanes than it would take at this moment nothing is learned.
    pub(crate) fn carried(&mut self, (bytes, stripes): (u64, u16), lanes: u16, rate: Rate) {
        let begins = Trials::new(self.most, self.held_near(size_of(bytes)), self.stagger);
        let trials = self.by_size.entry(size_of(bytes)).or_insert(begins);
        if trials.lanes().min(stripes) == lanes {
            trials.carried(rate);
        }
    }

    /// Its lanes have been given another congestion control so often. What was carried before is not compared with what
    /// will be.
    pub(crate) fn finds(&mut self, changes: u32) {
        if self.changes != changes {
            self.changes = changes;
            let trials = self.by_size.values_mut();
            trials.for_each(|trials| trials.stage = Stage::Cold);
        }
    }

    /// How many lanes the nearest smaller size holds, or else the nearest larger one.
    fn held_near(&self, size: u32) -> u16 {
        let smaller = self.by_size.range(..=size).next_back();
        let nearest = smaller.or_else(|| self.by_size.range(size..).next());
        nearest.map_or(self.most, |(_, trials)| trials.held)
    }
}

const fn size_of(bytes: u64) -> u32 {
    u64::BITS - bytes.leading_zeros()
}

/// In which way a trial differs from what is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Fewer,
    More,
}

/// The trials of one size.
#[derive(Debug)]
struct Trials {
    most: u16,
    stagger: u32,
    /// How many lanes are taken while nothing is tried.
    held: u16,
    stage: Stage,
    /// What was carried when a trial was last decided.
    decided_at: Option<Rate>,
    /// Reduces until the next trial.
    rest: u32,
    /// Of how many reduces the next rest will be.
    pause: u32,
    /// Of the next trial.
    way: Way,
}

#[derive(Debug)]
enum Stage {
    /// The first reduce finds connections that know nothing of the path yet.
    Cold,
    /// As many lanes as are held. What the last reduce carried.
    Holding(Option<Rate>),
    Trying {
        lanes: u16,
        way: Way,
        trial: Trial,
    },
}

impl Trials {
    const fn new(most: u16, held: u16, stagger: u32) -> Self {
        Self {
            most,
            held,
            stagger,
            stage: Stage::Cold,
            decided_at: None,
            rest: 0,
            pause: PAUSE_MIN,
            way: Way::Fewer,
        }
    }

    const fn lanes(&self) -> u16 {
        match &self.stage {
            Stage::Cold | Stage::Holding(_) => self.held,
            Stage::Trying { lanes, .. } => *lanes,
        }
    }

    fn carried(&mut self, rate: Rate) {
        match &mut self.stage {
            Stage::Cold => self.stage = Stage::Holding(None),
            Stage::Holding(last) => {
                let before = last.replace(rate);
                if let Some(before) = before {
                    self.held_carried(u64::midpoint(before, rate));
                }
            }
            Stage::Trying { lanes, way, trial } => {
                let (tried, against) = ((*lanes, *way), trial.against());
                if let Some(verdict) = trial.carried(rate) {
                    self.decided(tried, against, verdict);
                }
            }
        }
    }

    /// What was held has carried this in the last two reduces.
    fn held_carried(&mut self, rate: Rate) {
        let decided_at = *self.decided_at.get_or_insert(rate);
        if is_changed(decided_at, rate) {
            self.decided_at = Some(rate);
            self.pause = PAUSE_MIN;
            self.rest = self.rest.min(PAUSE_AFTER_CHANGE);
        }
        match self.rest.checked_sub(1) {
            Some(rest) => self.rest = rest,
            None => self.try_next(rate),
        }
    }

    /// Tries another number, if there is one: in the way whose turn it is, or else in the other one.
    fn try_next(&mut self, against: Rate) {
        let turned = self.way.turned();
        let next = self.next(self.way).map(|lanes| (self.way, lanes));
        let next = next.or_else(|| self.next(turned).map(|lanes| (turned, lanes)));
        if let Some((way, lanes)) = next {
            let enough = match way {
                Way::Fewer => FEWER_CARRY,
                Way::More => MORE_CARRY,
            };
            let trial = Trial::new(enough, against);
            self.stage = Stage::Trying { lanes, way, trial };
        }
    }

    /// The next number of lanes in this way.
    fn next(&self, way: Way) -> Option<u16> {
        let next = match way {
            Way::Fewer => self.held.div_ceil(2),
            Way::More => self.held.saturating_mul(2).min(self.most),
        };
        (next != self.held).then_some(next)
    }

    fn decided(&mut self, (lanes, way): (u16, Way), against: Rate, verdict: Verdict) {
        self.stage = Stage::Holding(None);
        match verdict {
            Verdict::Kept(rate) => {
                self.held = lanes;
                self.decided_at = Some(rate);
                self.pause = PAUSE_MIN;
                self.way = way;
                if self.next(way).is_some() {
                    // Little losses of one step after the other would add up.
                    return self.try_next(rate.max(against));
                }
            }
            Verdict::InVain => self.decided_at = Some(against),
        }
        self.way = way.turned();
        self.rest = self.pause + self.pause * self.stagger / STAGGERS;
        self.pause = self.pause.saturating_mul(2).min(PAUSE_MAX);
    }
}

impl Way {
    const fn turned(self) -> Self {
        match self {
            Self::Fewer => Self::More,
            Self::More => Self::Fewer,
        }
    }
}

fn is_changed(before: Rate, after: Rate) -> bool {
    is_much_less(before.min(after), before.max(after))
}

#[cfg(test)]
mod tests;
