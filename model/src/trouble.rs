//! What went wrong between peers, as a bystander remembers it who saw it happen.
//!
//! Everything here is forgotten when it can no longer explain anything: so almost nothing of it tells two
//! states apart that the master does not tell apart itself.

use std::collections::{BTreeMap, BTreeSet};

use pccl_core::id::{GroupId, PeerId, Round};

/// Two peers, lower number first.
pub type Pair = (PeerId, PeerId);

/// More of anything than this explains no more.
pub const MANY: u8 = 2;

/// What went wrong, and is not mended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Trouble {
    /// Who was to open lanes to whom in an attempt that failed for it, since the two were last connected.
    pub undialled: BTreeSet<(PeerId, PeerId)>,
    /// Those of them of which nothing was said before the time was over.
    pub overdue: BTreeSet<(PeerId, PeerId)>,
    /// Collectives that were aborted because the lanes of these two ended, since one was committed.
    pub breaks: BTreeMap<Pair, u8>,
    /// Edges of standing rings, sender first, of which the master was told that they lost a lane; and whether
    /// it knew when it began to connect another ring.
    pub broken: BTreeMap<(PeerId, PeerId), bool>,
    /// Those of them for which a collective was aborted: however many were, the lanes have ended once.
    pub aborted_for: BTreeSet<(PeerId, PeerId)>,
    /// Transfers that failed, since the group last synchronized, by who was to be given what the other holds.
    pub unfetched: BTreeMap<(PeerId, PeerId), u8>,
    /// Who could not fetch from several at once, since the group last synchronized.
    pub one_at_a_time: BTreeSet<PeerId>,
    /// Who held others up, and stayed, since its group last brought something to an end.
    pub stalled: BTreeSet<PeerId>,
    /// Attempts in which a link of a newcomer did not come up.
    pub strikes: BTreeMap<PeerId, u8>,
    /// Attempts to connect the ring of a group since one was connected.
    pub attempts: BTreeMap<GroupId, Attempts>,
}

/// Attempts to connect a ring.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Attempts {
    /// How many.
    pub count: u8,
    /// Two members could not be connected.
    pub doubted: bool,
    /// The present one.
    pub round: Round,
    /// What it opens, sender first.
    pub links: BTreeMap<(PeerId, PeerId), Opened>,
}

/// A link whose lanes are being opened.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Opened {
    /// The ring does not need them.
    pub is_extra: bool,
    /// The sender opens them.
    pub sender_dials: bool,
    /// The sender has said that they are up.
    pub up_at_sender: bool,
    /// The receiver has.
    pub up_at_receiver: bool,
    /// One of them has said that they did not come up.
    pub failed: bool,
}

impl Opened {
    /// Who was to open them, and to whom.
    #[must_use]
    pub fn dial(&self, (from, to): (PeerId, PeerId)) -> (PeerId, PeerId) {
        if self.sender_dials {
            (from, to)
        } else {
            (to, from)
        }
    }

    /// Both ends have said that they are up.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.up_at_sender && self.up_at_receiver && !self.failed
    }
}

/// Two peers, lower number first.
#[must_use]
pub fn pair(one: PeerId, other: PeerId) -> Pair {
    (one.min(other), one.max(other))
}

/// One more, as far as that matters.
pub fn count(times: &mut u8) {
    *times = times.saturating_add(1).min(MANY);
}

impl Trouble {
    /// Could these two not be connected, as far as is known, whoever was to open the lanes?
    #[must_use]
    pub fn is_undialled(&self, one: PeerId, other: PeerId) -> bool {
        self.undialled.contains(&(one, other)) || self.undialled.contains(&(other, one))
    }

    /// Did something between these two fail?
    #[must_use]
    pub fn is_between(&self, one: PeerId, other: PeerId) -> bool {
        self.is_undialled(one, other) || self.breaks.contains_key(&pair(one, other))
    }

    /// Transfers to a peer that failed.
    #[must_use]
    pub fn unfetched_by(&self, peer: PeerId) -> u8 {
        let times = self.unfetched.iter().filter(|((to, _), _)| *to == peer);
        times.fold(0, |sum, (_, times)| sum.saturating_add(*times))
    }

    /// Pairs that should not be neighbours: could not be connected, or broke under many collectives.
    #[must_use]
    pub fn bad_pairs(&self) -> BTreeSet<Pair> {
        let undialled = self.undialled.iter();
        let undialled = undialled.map(|(one, other)| pair(*one, *other));
        undialled.chain(self.pairs_that_break()).collect()
    }

    /// Those of them that are not worth another attempt: both ends have tried.
    #[must_use]
    pub fn dead_pairs(&self) -> BTreeSet<Pair> {
        let both_ways = self.undialled.iter();
        let both_ways = both_ways.filter(|(one, other)| self.undialled.contains(&(*other, *one)));
        let both_ways = both_ways.map(|(one, other)| pair(*one, *other));
        both_ways.chain(self.pairs_that_break()).collect()
    }

    fn pairs_that_break(&self) -> impl Iterator<Item = Pair> + '_ {
        let many = self.breaks.iter().filter(|(_, times)| **times >= MANY);
        many.map(|(pair, _)| *pair)
    }

    /// These two were connected.
    pub fn connected(&mut self, one: PeerId, other: PeerId) {
        for dial in [(one, other), (other, one)] {
            self.undialled.remove(&dial);
            self.overdue.remove(&dial);
        }
    }

    /// Forgets whoever is none of these.
    pub fn keep(&mut self, is_there: impl Fn(PeerId) -> bool) {
        let both = |(one, other): &(PeerId, PeerId)| is_there(*one) && is_there(*other);
        self.undialled.retain(both);
        self.overdue.retain(both);
        self.breaks.retain(|ends, _| both(ends));
        self.broken.retain(|ends, _| both(ends));
        self.aborted_for.retain(both);
        self.unfetched.retain(|ends, _| both(ends));
        self.one_at_a_time.retain(|peer| is_there(*peer));
        self.stalled.retain(|peer| is_there(*peer));
        self.strikes.retain(|peer, _| is_there(*peer));
        for attempts in self.attempts.values_mut() {
            attempts.links.retain(|ends, _| both(ends));
        }
    }
}

/// Is there a ring of these in which no two of these pairs are neighbours?
#[must_use]
pub fn is_a_ring_left(members: &[PeerId], bad: &BTreeSet<Pair>) -> bool {
    match members {
        [] => false,
        [_] => true,
        [first, others @ ..] => goes_round(*first, *first, others, bad),
    }
}

/// From here through all of these, and back to the first.
fn goes_round(first: PeerId, here: PeerId, left: &[PeerId], bad: &BTreeSet<Pair>) -> bool {
    let fits = |next: PeerId| !bad.contains(&pair(here, next));
    if left.is_empty() {
        return fits(first);
    }
    left.iter().any(|next| {
        let others: Vec<PeerId> = left.iter().filter(|p| *p != next).copied().collect();
        fits(*next) && goes_round(first, *next, &others, bad)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(u64, u64)]) -> BTreeSet<Pair> {
        let pairs = pairs.iter();
        pairs
            .map(|(one, other)| pair(PeerId(*one), PeerId(*other)))
            .collect()
    }

    #[test]
    fn a_ring_of_four_keeps_one_pair_apart_and_one_of_three_does_not() {
        let four = [1, 2, 3, 4].map(PeerId);

        assert!(is_a_ring_left(&four, &pairs(&[(1, 2)])));
        assert!(is_a_ring_left(&four, &pairs(&[(1, 2), (3, 4)])));
        assert!(!is_a_ring_left(&four, &pairs(&[(1, 2), (1, 3)])));
        assert!(!is_a_ring_left(&four[..3], &pairs(&[(1, 2)])));
        assert!(is_a_ring_left(&four[..3], &pairs(&[])));
        assert!(!is_a_ring_left(&four[..2], &pairs(&[(1, 2)])));
        assert!(is_a_ring_left(&four[..1], &pairs(&[(1, 2)])));
    }

    #[test]
    fn a_pair_is_dead_when_both_have_tried_or_it_breaks_again_and_again() {
        let (one, two, three) = (PeerId(1), PeerId(2), PeerId(3));
        let mut trouble = Trouble::default();
        trouble.undialled.insert((two, one));
        trouble.breaks.insert(pair(two, three), 1);

        assert_eq!(trouble.bad_pairs(), pairs(&[(1, 2)]));
        assert_eq!(trouble.dead_pairs(), pairs(&[]));

        trouble.undialled.insert((one, two));
        trouble.breaks.insert(pair(two, three), 2);

        assert_eq!(trouble.dead_pairs(), pairs(&[(1, 2), (2, 3)]));

        trouble.keep(|peer| peer != one);

        assert_eq!(trouble.bad_pairs(), pairs(&[(2, 3)]));
    }
}
