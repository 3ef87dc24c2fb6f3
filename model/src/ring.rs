//! One collective at one process, over symbols: a sum is the list of those whose contributions were
//! added. What goes where, when, and what is done with it, is the product's own plan.

use std::ops::Range;

use pccl_core::element::CollectiveSpec;
use pccl_core::id::{PeerId, Seq};
use pccl_core::plan::{Action, After, Algorithm, Arrival, Plan, Target};
use pccl_core::topology::Way;
use pccl_core::wire::WHOLE_BUFFER_MAX;

/// Terms that a [`Sum`] remembers.
const TERMS_MAX: u32 = 16;

/// A sum of contributions that remembers their order, as a sum of floats does: four bits for each
/// term, the first one highest, from one on by the peers' numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sum(u64);

impl Sum {
    /// More terms than can be remembered; no sum of a run has so many.
    const TOO_LONG: Self = Self(u64::MAX);

    /// One peer's contribution. Of the first fifteen peers of a run no two are alike.
    #[must_use]
    pub fn of(peer: PeerId) -> Self {
        Self(peer.0 % 15 + 1)
    }

    /// This sum, and the other's terms added to it one by one.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        if self.terms() + other.terms() > TERMS_MAX {
            return Self::TOO_LONG;
        }
        let shifted = self.0.checked_shl(other.terms() * 4).unwrap_or(0);
        Self(shifted | other.0)
    }

    /// The contributions of these, added in this order.
    #[must_use]
    pub fn of_all(peers: &[PeerId]) -> Self {
        let add = |sum: Self, peer: &PeerId| sum.plus(Self::of(*peer));
        peers.iter().fold(Self::default(), add)
    }

    /// Are these its terms, each exactly once, in whatever order?
    #[must_use]
    pub fn has_each_once(self, peers: &[PeerId]) -> bool {
        self.sorted() == Self::of_all(peers).sorted()
    }

    fn terms(self) -> u32 {
        (u64::BITS - self.0.leading_zeros()).div_ceil(4)
    }

    fn sorted(self) -> Vec<u64> {
        let mut terms: Vec<u64> = (0..self.terms())
            .map(|at| self.0 >> (at * 4) & 15)
            .collect();
        terms.sort_unstable();
        terms
    }
}

/// What travels on a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Which execution.
    pub seq: Seq,
    /// Which step of the plan.
    pub step: u32,
    /// Which chunk of the buffer; the first if it is all of it. Peers that disagree about their ranks then
    /// differ in what they commit, not in what they take.
    pub part: u64,
    /// What it holds.
    pub content: Sum,
}

/// One execution that runs here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RingRun {
    /// The user's name for it.
    pub tag: u8,
    /// Its number.
    pub seq: Seq,
    /// The step whose frame it waits for.
    pub at: u32,
    /// What it does.
    pub plan: Plan,
    /// The process's own contribution.
    own: Sum,
    /// What each chunk of the buffer holds; or, if contributions are kept, those that are here, in the
    /// order in which they are added.
    parts: Vec<Sum>,
}

impl RingRun {
    /// One that begins. `None`: there is no such rank.
    pub(crate) fn new(
        me: PeerId,
        (rank, world): (u32, u32),
        (tag, seq): (u8, Seq),
        spec: &CollectiveSpec,
    ) -> Option<Self> {
        let algorithm = Algorithm::of(spec, world, WHOLE_BUFFER_MAX);
        let plan = Plan::new(algorithm, world, rank)?;
        let own = Sum::of(me);
        let mut parts = vec![Sum::default(); world as usize];
        match plan.own_turn() {
            None => parts.fill(own),
            Some(turn) => *parts.get_mut(turn as usize)? = own,
        }
        Some(Self {
            tag,
            seq,
            at: 0,
            plan,
            own,
            parts,
        })
    }

    /// Chunks of one element each.
    fn elements(&self) -> Range<u64> {
        0..u64::from(self.plan.world())
    }

    fn arrival(&self) -> Option<Arrival> {
        self.plan.arrival(&self.elements(), self.at)
    }

    /// How many steps there are.
    pub(crate) fn steps(&self) -> u32 {
        self.plan.steps()
    }

    /// The first frames that are sent, and to which rank: of the own contribution.
    pub(crate) fn first_frames(&self) -> Vec<(u32, Frame)> {
        let contribution = self.plan.contribution(&self.elements());
        let first = contribution.map(|own| self.frame(own.to, own.range.start, self.own));
        first.into_iter().collect()
    }

    const fn frame(&self, to: Target, part: u64, content: Sum) -> (u32, Frame) {
        let frame = Frame {
            seq: self.seq,
            step: to.step,
            part,
            content,
        };
        (to.rank, frame)
    }

    /// The rank that sends the frame that it waits for.
    pub(crate) fn awaits(&self) -> Option<u32> {
        self.arrival().map(|arrival| arrival.from)
    }

    /// Whether it sends to this rank, or receives from it, at any time.
    pub(crate) fn uses(&self, way: Way, with: u32) -> bool {
        let elements = self.elements();
        let contribution = self.plan.contribution(&elements);
        let mut arrivals = self.plan.arrivals(&elements);
        match way {
            Way::In => arrivals.any(|arrival| arrival.from == with),
            Way::Out => {
                contribution.is_some_and(|own| own.to.rank == with)
                    || arrivals.any(|arrival| arrival.onward.is_some_and(|to| to.rank == with))
            }
        }
    }

    /// Has everything arrived?
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.at >= self.plan.steps()
    }

    /// Takes the frame that it waits for; returns what is sent on, and to which rank. `Err`: it is not that one.
    pub(crate) fn take(&mut self, frame: Frame) -> Result<Vec<(u32, Frame)>, Frame> {
        let arrival = self.arrival().ok_or(frame)?;
        let fits = frame.step == arrival.step && frame.part == arrival.range.start;
        if !fits || !self.may_overwrite(arrival.after) {
            return Err(frame);
        }
        let content = if arrival.action.adds() {
            frame.content.plus(self.own)
        } else {
            frame.content
        };
        let place = match arrival.action {
            Action::Combine => None,
            Action::Finish | Action::Copy => Some(usize::try_from(frame.part).map_err(|_| frame)?),
            Action::Keep { turn } => Some(turn as usize),
        };
        if let Some(place) = place {
            *self.parts.get_mut(place).ok_or(frame)? = content;
        }
        self.at += 1;
        let onward = arrival.onward.map(|to| self.frame(to, frame.part, content));
        Ok(onward.into_iter().collect())
    }

    /// The own contribution leaves when the execution begins, and what arrives does so in turn.
    const fn may_overwrite(&self, after: After) -> bool {
        match after {
            After::Nothing | After::Contribution => true,
            After::Arrival(step) => step < self.at,
        }
    }

    /// What the buffer holds at the end: each chunk, or all of it.
    fn result(&self) -> Vec<Sum> {
        match self.plan.algorithm() {
            Algorithm::Ring => self.parts.clone(),
            Algorithm::Whole => {
                let add = |sum: Sum, part: &Sum| sum.plus(*part);
                vec![self.parts.iter().fold(Sum::default(), add)]
            }
        }
    }

    /// Does the result hold the contribution of each rank exactly once?
    pub(crate) fn holds_each_once(&self, ranks: &[PeerId]) -> bool {
        self.result().iter().all(|sum| sum.has_each_once(ranks))
    }

    /// Was everything added in the order that is the same everywhere? A chunk is begun by the rank of
    /// its number; buffers that travelled whole are added from rank 0 on.
    pub(crate) fn adds_in_order(&self, ranks: &[PeerId]) -> bool {
        let in_order = |(first, sum): (usize, &Sum)| {
            let (before, from_first) = ranks.split_at(first.min(ranks.len()));
            *sum == Sum::of_all(from_first).plus(Sum::of_all(before))
        };
        self.result().iter().enumerate().all(in_order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{LARGE, SMALL};

    const PEERS: [PeerId; 3] = [PeerId(4), PeerId(1), PeerId(7)];

    /// All ranks of one collective, each taking in what the one before it sends.
    fn run(spec: &CollectiveSpec) -> Vec<RingRun> {
        let begins =
            |(rank, peer): (u32, &PeerId)| RingRun::new(*peer, (rank, 3), (1, Seq(1)), spec);
        let mut runs: Vec<RingRun> = (0..).zip(&PEERS).filter_map(begins).collect();
        let mut sent: Vec<(u32, Frame)> = runs.iter().flat_map(RingRun::first_frames).collect();
        while !sent.is_empty() {
            let arrived = std::mem::take(&mut sent);
            for (to, frame) in arrived {
                sent.extend(runs[to as usize].take(frame).unwrap());
            }
        }
        runs
    }

    #[test]
    fn a_sum_knows_its_terms_and_their_order() {
        let [a, b, c] = PEERS.map(Sum::of);
        let sum = a.plus(b).plus(c);

        assert_eq!(sum, Sum::of_all(&PEERS));
        assert_ne!(sum, b.plus(a).plus(c));
        assert!(b.plus(a).plus(c).has_each_once(&PEERS));
        assert!(!sum.plus(a).has_each_once(&PEERS));
        assert!(!a.plus(b).has_each_once(&PEERS));
    }

    #[test]
    fn a_sum_that_is_too_long_is_no_sum_of_anybody() {
        let long = Sum::of_all(&[PeerId(3); 17]);

        assert_eq!(long, Sum::TOO_LONG);
        assert!(!long.has_each_once(&[PeerId(3)]));
        assert_eq!(Sum::of_all(&[PeerId(3); 16]).terms(), 16);
    }

    #[test]
    fn small_and_large_buffers_take_different_plans_to_the_same_terms() {
        for (spec, algorithm) in [(SMALL, Algorithm::Whole), (LARGE, Algorithm::Ring)] {
            for run in run(&spec) {
                assert!(run.is_done());
                assert_eq!(run.plan.algorithm(), algorithm);
                assert!(run.holds_each_once(&PEERS));
                assert!(run.adds_in_order(&PEERS));
                assert!(!run.adds_in_order(&[PEERS[1], PEERS[0], PEERS[2]]));
                assert!(!run.holds_each_once(&PEERS[..2]));
            }
        }
    }

    #[test]
    fn a_frame_of_another_step_or_part_is_refused() {
        let mut runs: Vec<RingRun> = (0..2)
            .filter_map(|rank| RingRun::new(PEERS[rank as usize], (rank, 3), (1, Seq(1)), &SMALL))
            .collect();
        let (to, sound) = runs[0].first_frames()[0];
        assert_eq!(to, 1);

        assert!(runs[1].take(Frame { step: 1, ..sound }).is_err());
        assert!(runs[1].take(Frame { part: 2, ..sound }).is_err());
        assert!(runs[1].take(sound).is_ok());
    }
}
