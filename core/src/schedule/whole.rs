//! The schedule of small buffers: who sends whose contribution in which step, and in which order all
//! are added.

use super::back;

#[cfg(test)]
mod tests;

/// One rank's part of an operation of which every contribution travels whole.
///
/// This is the all-gather of a ring (each rank passes on what it received, in N − 1 steps), followed by
/// a reduction of everything at each rank. It takes half as many steps as [`steps`](super::steps), but
/// every rank sends N − 1 buffers where those send 2·(N − 1)/N of one: the better choice where a step
/// costs more than the bytes.
///
/// In step s, rank r sends the contribution of rank r − s to rank r + 1 and receives that of rank
/// r − s − 1 from rank r − 1, all modulo N. As in the ring's schedule, what is sent in step s + 1 is
/// exactly what was received in step s, only step 0 sends the own contribution, and what is received
/// in the last step is not forwarded.
///
/// A sum of floats depends on the order of its terms, and contributions arrive in another order at
/// every rank. So nothing is added as it arrives: **every rank adds in the order of the ranks**, rank 0
/// first, its own contribution in its own turn. An average is that sum, divided once at the end.
///
/// ```
/// use pccl_core::schedule::Whole;
///
/// let rank_1 = Whole::new(3, 1);
/// let sent: Vec<u32> = rank_1.steps().map(|step| step.send).collect();
/// let received: Vec<u32> = rank_1.steps().map(|step| step.receive).collect();
///
/// assert_eq!((sent, received), (vec![1, 0], vec![0, 2])); // whose contributions
/// assert_eq!(rank_1.turn(2), Some(2)); // rank 2's is added last
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Whole {
    world: u32,
    rank: u32,
}

/// One step of one rank. What is sent and received is one rank's whole contribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WholeStep {
    /// Its number, from 0; frames carry it. Frames with the same number are sent by one rank and
    /// received by the next.
    pub step: u32,
    /// Whose contribution to send to the next rank.
    pub send: u32,
    /// Whose contribution to expect from the previous rank.
    pub receive: u32,
}

impl Whole {
    /// The part of `rank` in a world of so many. A rank that does not exist has no steps and no turns.
    #[must_use]
    pub const fn new(world: u32, rank: u32) -> Self {
        Self { world, rank }
    }

    /// All steps, in order: one fewer than there are ranks.
    pub fn steps(self) -> impl Iterator<Item = WholeStep> + Clone {
        (0..self.count()).map(move |step| self.at(step))
    }

    /// One step. `None`: there is no such step.
    #[must_use]
    pub fn step(self, step: u32) -> Option<WholeStep> {
        (step < self.count()).then(|| self.at(step))
    }

    /// When the contribution of rank `of` is added, from 0: every rank adds in the order of the ranks.
    /// `None`: there is no such rank, here or there.
    #[must_use]
    pub fn turn(self, of: u32) -> Option<u32> {
        let exists = of < self.world && self.rank < self.world;
        exists.then_some(rule!(of; AddedAsTheyArrive => back(self.world, self.rank, of)))
    }

    /// How many steps there are.
    fn count(self) -> u32 {
        if self.rank >= self.world {
            return 0;
        }
        rule!(self.world - 1; OneContributionMissed => self.world.saturating_sub(2))
    }

    fn at(self, step: u32) -> WholeStep {
        WholeStep {
            step,
            send: back(self.world, self.rank, step),
            receive: back(self.world, self.rank, step.saturating_add(1)),
        }
    }
}
