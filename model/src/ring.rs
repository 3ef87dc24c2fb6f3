//! One collective at one process, over symbols: a sum is the list of those whose contributions were
//! added. Which contribution goes where, when, and which of the two schedules a collective takes, says
//! the product's own schedule.

use pccl_core::element::CollectiveSpec;
use pccl_core::id::{PeerId, Seq};
use pccl_core::schedule::{Phase, Schedule, Whole, steps};
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
    /// Which step of the schedule.
    pub step: u32,
    /// Which chunk of the buffer, or, where buffers travel whole, whose.
    pub part: u32,
    /// What it holds.
    pub content: Sum,
}

/// One step: the parts that are sent and awaited, and what is done with what arrives.
struct Move {
    sends: u32,
    awaits: u32,
    phase: Phase,
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
    /// Position on the ring, and its size.
    pub rank: u32,
    /// Size of the ring.
    pub world: u32,
    /// How contributions become a result.
    pub schedule: Schedule,
    /// What each chunk of the buffer holds; or, where buffers travel whole, those that are here, in the
    /// order in which they are added.
    pub parts: Vec<Sum>,
}

impl RingRun {
    /// One that begins. `None`: there is no such rank.
    pub(crate) fn new(
        me: PeerId,
        (rank, world): (u32, u32),
        (tag, seq): (u8, Seq),
        spec: &CollectiveSpec,
    ) -> Option<Self> {
        let schedule = Schedule::of(spec, world, WHOLE_BUFFER_MAX);
        let mut run = Self {
            tag,
            seq,
            at: 0,
            rank,
            world,
            schedule,
            parts: vec![Sum::default(); world as usize],
        };
        match schedule {
            Schedule::Ring => run.parts.fill(Sum::of(me)),
            Schedule::Whole => *run.part_mut(rank)? = Sum::of(me),
        }
        Some(run)
    }

    fn step(&self, at: u32) -> Option<Move> {
        match self.schedule {
            Schedule::Ring => {
                let elements = 0..u64::from(self.world);
                let step = steps(self.world, self.rank, elements).nth(at as usize)?;
                Some(Move {
                    sends: u32::try_from(step.send.start).ok()?,
                    awaits: u32::try_from(step.receive.start).ok()?,
                    phase: step.phase,
                })
            }
            Schedule::Whole => {
                let step = Whole::new(self.world, self.rank).step(at)?;
                Some(Move {
                    sends: step.send,
                    awaits: step.receive,
                    phase: Phase::Gather,
                })
            }
        }
    }

    /// How many steps there are.
    pub(crate) fn steps(&self) -> usize {
        match self.schedule {
            Schedule::Ring => steps(self.world, self.rank, 0..0).count(),
            Schedule::Whole => Whole::new(self.world, self.rank).steps().count(),
        }
    }

    /// Where a part is kept.
    fn place(&self, part: u32) -> Option<usize> {
        let place = match self.schedule {
            Schedule::Ring => part,
            Schedule::Whole => Whole::new(self.world, self.rank).turn(part)?,
        };
        Some(place as usize)
    }

    fn part_mut(&mut self, part: u32) -> Option<&mut Sum> {
        let place = self.place(part)?;
        self.parts.get_mut(place)
    }

    /// What is sent in a step. `None`: there is no such step.
    pub(crate) fn frame(&self, at: u32) -> Option<Frame> {
        let part = self.step(at)?.sends;
        Some(Frame {
            seq: self.seq,
            step: at,
            part,
            content: *self.parts.get(self.place(part)?)?,
        })
    }

    /// Has everything arrived?
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.step(self.at).is_none()
    }

    /// Takes the frame that it waits for. False: it is not that one.
    pub(crate) fn take(&mut self, frame: Frame) -> bool {
        let expected = self.step(self.at);
        let expected = expected.filter(|step| frame.step == self.at && frame.part == step.awaits);
        let Some((step, part)) = expected.zip(self.part_mut(frame.part)) else {
            return false;
        };
        *part = match step.phase {
            Phase::Reduce => frame.content.plus(*part),
            Phase::Gather => frame.content,
        };
        self.at += 1;
        true
    }

    /// What the buffer holds at the end: each chunk, or all of it.
    fn result(&self) -> Vec<Sum> {
        match self.schedule {
            Schedule::Ring => self.parts.clone(),
            Schedule::Whole => {
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
        while !runs.iter().all(RingRun::is_done) {
            let sent: Vec<Frame> = runs.iter().filter_map(|run| run.frame(run.at)).collect();
            for (at, run) in runs.iter_mut().enumerate() {
                assert!(run.take(sent[(at + 2) % 3]));
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
    fn small_and_large_buffers_take_different_schedules_to_the_same_terms() {
        for (spec, schedule) in [(SMALL, Schedule::Whole), (LARGE, Schedule::Ring)] {
            for run in run(&spec) {
                assert_eq!(run.schedule, schedule);
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
        let sound = runs[0].frame(0).expect("it sends");

        assert!(!runs[1].take(Frame { step: 1, ..sound }));
        assert!(!runs[1].take(Frame { part: 2, ..sound }));
        assert!(runs[1].take(sound));
    }
}
