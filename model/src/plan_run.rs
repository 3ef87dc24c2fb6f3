//! One collective at one process, over symbols: a sum is the list of those whose contributions were
//! added. What goes where, when, and what is done with it, is the product's own plan.

use std::ops::Range;
use std::sync::{LazyLock, Mutex, PoisonError};

use pccl_core::element::CollectiveKind;
use pccl_core::id::{Membership, PeerId, Seq};
use pccl_core::lengths::Lengths;
use pccl_core::plan::{
    Action, After, Algorithm, Arrival, Plan, Shards, Stripe, Target, Targets, Term,
};
use pccl_core::site::Sites;
use pccl_core::topology::Way;

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

/// What an execution is told: what is done, how many elements each rank contributes, and how.
pub type Told<'a, Root> = (CollectiveKind<Root>, &'a Lengths, Algorithm);

/// One execution that runs here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PlanRun {
    /// The user's name for it.
    pub tag: u8,
    /// Its number.
    pub seq: Seq,
    /// The step whose frame it waits for.
    pub at: u32,
    /// What it does.
    pub plan: Plan<'static>,
    /// The contributions of all ranks, if each has its own number of elements. Else each has one.
    gathers: Option<&'static Shards>,
    /// The process's own contribution.
    own: Sum,
    /// What each chunk of the buffer holds.
    parts: Vec<Sum>,
    /// Terms that are kept and are here, of each sum, in the order in which they are added.
    kept: Vec<Vec<Option<Sum>>>,
}

impl PlanRun {
    /// One that begins. `None`: there is no such rank or root, or the lengths are not those of the ranks and of what
    /// this one has.
    pub(crate) fn new(
        me: PeerId,
        (rank, sites): (u32, Sites),
        (tag, seq): (u8, Seq),
        (kind, lengths, algorithm): Told<'_, u32>,
    ) -> Option<Self> {
        let world = sites.world();
        let plan = Plan::among(kind, algorithm, known(sites), rank)?;
        let own = Sum::of(me);
        let gathers = match kind.own_and_limit() {
            None => None,
            Some((has, _)) => Some(gathered(lengths, (rank, world), has)?),
        };
        let mut kept = Vec::new();
        for sum in plan.kept(stripe(plan, gathers)) {
            let mut terms = vec![None; sum.terms as usize];
            if let Some(turn) = sum.own_turn {
                *terms.get_mut(turn as usize)? = Some(own);
            }
            kept.push(terms);
        }
        let parts = match gathers {
            None => world as usize,
            Some(_) => usize::try_from(lengths.total()?).ok()?,
        };
        let mut run = Self {
            tag,
            seq,
            at: 0,
            plan,
            gathers,
            own,
            parts: vec![own; parts],
            kept,
        };
        run.pass_over_nothing();
        Some(run)
    }

    fn elements(&self) -> Stripe<'static> {
        stripe(self.plan, self.gathers)
    }

    fn arrival(&self) -> Option<Arrival<'static>> {
        self.plan.arrival(self.elements(), self.at)
    }

    /// Who has nothing sends no frame.
    fn pass_over_nothing(&mut self) {
        while self.arrival().is_some_and(|next| next.range.is_empty()) {
            self.at += 1;
        }
    }

    /// How many steps there are.
    pub(crate) fn steps(&self) -> u32 {
        self.plan.steps()
    }

    /// The first frames that are sent, and to which rank: of the own contribution.
    pub(crate) fn first_frames(&self) -> Vec<(u32, Frame)> {
        let contributions = self.plan.contributions(self.elements());
        let some = contributions.filter(|own| !own.range.is_empty());
        let first = some.map(|own| self.frame(own.to, own.range.start, self.own));
        first.collect()
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
        let contributions = self.plan.contributions(elements);
        let mut contributions = contributions.filter(|own| !own.range.is_empty());
        let arrivals = self.plan.arrivals(elements);
        let mut arrivals = arrivals.filter(|arrival| !arrival.range.is_empty());
        match way {
            Way::In => arrivals.any(|arrival| arrival.from == with),
            Way::Out => {
                let leads_there = |mut targets: Targets<'_>| targets.any(|to| to.rank == with);
                contributions.any(|own| own.to.rank == with)
                    || arrivals.any(|arrival| leads_there(arrival.onward))
                    || self.plan.kept(elements).any(|kept| leads_there(kept.told))
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
        let onward = arrival.onward.map(|to| self.frame(to, frame.part, content));
        let mut leaving: Vec<(u32, Frame)> = onward.collect();
        match arrival.action {
            Action::Combine | Action::Complete | Action::Pass => {}
            Action::Finish | Action::Copy => self.write(&arrival.range, content),
            Action::Keep { sum, turn } => {
                let kept = self.keep(Term { sum, turn }, content);
                leaving.extend(kept.ok_or(frame)?);
            }
        }
        self.at += 1;
        self.pass_over_nothing();
        Ok(leaving)
    }

    /// Keeps a term. Adds all of its sum, if they are here; returns what is sent on. `None`: there is no such term.
    fn keep(&mut self, term: Term, content: Sum) -> Option<Vec<(u32, Frame)>> {
        let terms = self.kept.get_mut(term.sum as usize)?;
        *terms.get_mut(term.turn as usize)? = Some(content);
        let kept = self.plan.kept(self.elements()).nth(term.sum as usize)?;
        let Some(sum) = self.sum(term.sum) else {
            return Some(Vec::new());
        };
        if kept.is_result {
            self.write(&kept.range, sum);
        }
        let told = kept.told;
        let told = told.map(|to| self.frame(to, kept.range.start, sum));
        let mut leaving: Vec<(u32, Frame)> = told.collect();
        if let Some(onto) = kept.onto {
            leaving.extend(self.keep(onto, sum)?);
        }
        Some(leaving)
    }

    fn write(&mut self, range: &Range<u64>, content: Sum) {
        for (part, holds) in (0..).zip(&mut self.parts) {
            if range.contains(&part) {
                *holds = content;
            }
        }
    }

    /// A sum of kept terms, once all of them are here.
    fn sum(&self, number: u32) -> Option<Sum> {
        let terms = self.kept.get(number as usize)?;
        let all: Vec<Sum> = terms.iter().copied().collect::<Option<_>>()?;
        Some(all.into_iter().fold(Sum::default(), Sum::plus))
    }

    /// The own contribution leaves when the execution begins, and what arrives does so in turn.
    fn may_overwrite(&self, after: After) -> bool {
        match after {
            After::Nothing | After::Contribution(_) => true,
            After::Arrival(step) => step < self.at,
            After::Sum(number) => self.sum(number).is_some(),
        }
    }

    /// Does the buffer hold what it should: where it was reduced the contribution of each rank exactly once, and else
    /// that of the rank that has told it? And were the shards that are gathered laid out for these ranks?
    #[must_use]
    pub fn holds_each_once(&self, ranks: &[PeerId]) -> bool {
        let holds = |(part, sum): (usize, &Sum)| match self.told_by(part) {
            Some(rank) => ranks.get(rank).is_some_and(|peer| *sum == Sum::of(*peer)),
            None => sum.has_each_once(ranks),
        };
        let laid_out_for = self.plan.kind().laid_out_for();
        let is_laid_out = laid_out_for.is_none_or(|peers| peers == Membership::of(ranks));
        let world = self.plan.world() as usize;
        is_laid_out && ranks.len() == world && self.parts.iter().enumerate().all(holds)
    }

    /// Whose contribution alone a part of the buffer is to hold. `None`: those of all.
    fn told_by(&self, part: usize) -> Option<usize> {
        let own = self.plan.rank() as usize;
        match self.plan.kind() {
            CollectiveKind::AllReduce => None,
            CollectiveKind::ReduceScatter => (part != own).then_some(own),
            CollectiveKind::AllGather { .. } => Some(part),
            CollectiveKind::AllGatherV { .. } => {
                let contains = |rank: &u32| self.elements().chunk(*rank).contains(&(part as u64));
                let rank = (0..self.plan.world()).find(contains);
                Some(rank.map_or(usize::MAX, |rank| rank as usize))
            }
            CollectiveKind::Broadcast { root } => Some(root as usize),
            CollectiveKind::Barrier => Some(own),
        }
    }

    /// Was everything that was added added in the order that is the same everywhere? From rank 0 on; around a ring a
    /// chunk ends at the rank of its number, and in rounds it is begun by those whose part of it leaves first.
    pub(crate) fn adds_in_order(&self, ranks: &[PeerId]) -> bool {
        let in_order = |(part, sum): (usize, &Sum)| {
            let (before, from_first) = match self.plan.algorithm() {
                Algorithm::Ring => ranks.split_at((part + 1).min(ranks.len())),
                Algorithm::Whole(_)
                | Algorithm::Direct
                | Algorithm::Chain
                | Algorithm::Relay
                | Algorithm::Tree => ranks.split_at(0),
                Algorithm::Circulant => {
                    return *sum == Sum::of_all(&in_rounds(ranks, (part, 0)));
                }
                Algorithm::TwoLevel | Algorithm::TwoLevelRing | Algorithm::TwoLevelWhole => {
                    let sites = self.plan.sites();
                    let is_ring = self.plan.algorithm() == Algorithm::TwoLevelRing;
                    let order = sites.map(|sites| by_site(ranks, (sites, is_ring), part));
                    return order.is_some_and(|order| *sum == Sum::of_all(&order));
                }
            };
            *sum == Sum::of_all(from_first).plus(Sum::of_all(before))
        };
        let mut reduced = self.parts.iter().enumerate();
        reduced.all(|(part, sum)| self.told_by(part).is_some() || in_order((part, sum)))
    }
}

/// In which order the contributions to a shard are added in two levels: those of the site of its rank first. If sums go
/// around a ring of the sites, what arrives there from the site before begins with the contributions of that one.
fn by_site(ranks: &[PeerId], (sites, is_ring): (&Sites, bool), shard: usize) -> Vec<PeerId> {
    let home = u32::try_from(shard)
        .ok()
        .and_then(|rank| sites.of_rank(rank));
    let count = sites.count();
    let before = |by| home.map(|home| (home + count - by) % count);
    let order: Vec<u32> = match is_ring {
        true => (0..count).filter_map(before).collect(),
        false => {
            let others = (0..count).filter(|site| Some(*site) != home);
            home.into_iter().chain(others).collect()
        }
    };
    let members = order.into_iter().flat_map(|site| sites.members(site));
    members.map(|rank| ranks[*rank as usize]).collect()
}

/// Whose contributions a rank has added, in their order, when it sends the chunk that lies so many ranks ahead of it
/// in the reduce-scatter in rounds; of its own chunk, when that is done. From round to round the distance halves.
fn in_rounds(ranks: &[PeerId], (rank, ahead): (usize, usize)) -> Vec<PeerId> {
    let mut added = vec![ranks[rank]];
    let mut before = ranks.len();
    loop {
        let distance = before.div_ceil(2);
        if before <= 1 || ahead >= distance {
            return added;
        }
        if ahead + distance < before {
            let from = (rank + ranks.len() - distance) % ranks.len();
            added.extend(in_rounds(ranks, (from, ahead + distance)));
        }
        before = distance;
    }
}

/// Members that a group of a scenario has at most.
const WORLD_MAX: u32 = 15;

/// Elements that they gather at most.
const ELEMENTS_MAX: u64 = 100;

/// A buffer with a shard of one element for each rank, in the order of the ranks; by the number of ranks. It is no part
/// of what is explored.
static BUFFERS: LazyLock<Vec<Shards>> = LazyLock::new(|| {
    let buffer = |world| Shards::of_ranks(u64::from(world), world);
    (0..=WORLD_MAX).map(buffer).collect()
});

/// The one value of this arrangement, for as long as the process lives: plans are part of a state, and there are few
/// arrangements.
fn known(sites: Sites) -> &'static Sites {
    static KNOWN: Mutex<Vec<&'static Sites>> = Mutex::new(Vec::new());
    let mut all = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = all.iter().find(|known| ***known == sites) {
        return known;
    }
    let known = Box::leak(Box::new(sites));
    all.push(known);
    known
}

/// Contributions of these lengths, for as long as the process lives: there are few of them. `None`: they are not those
/// of so many ranks, or not of one that has so many elements, or no run gathers so many.
fn gathered(lengths: &Lengths, (rank, world): (u32, u32), own: u64) -> Option<&'static Shards> {
    static KNOWN: Mutex<Vec<(Lengths, &'static Shards)>> = Mutex::new(Vec::new());
    if lengths.0.len() != world as usize || lengths.0.get(rank as usize) != Some(&own) {
        return None;
    }
    let mut all = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, shards)) = all.iter().find(|(known, _)| known == lengths) {
        return Some(shards);
    }
    lengths.total().filter(|total| *total <= ELEMENTS_MAX)?;
    let shards: &'static Shards = Box::leak(Box::new(Shards::of_lengths(lengths)?));
    all.push((lengths.clone(), shards));
    Some(shards)
}

fn stripe(plan: Plan<'_>, gathers: Option<&'static Shards>) -> Stripe<'static> {
    let shards = gathers.unwrap_or_else(|| &BUFFERS[plan.world() as usize]);
    shards.stripe(1, 0)
}

#[cfg(test)]
mod tests {
    use pccl_core::plan::Pattern;

    use super::*;

    const WHOLE: Algorithm = Algorithm::Whole(Pattern::Ring);

    const PEERS: [PeerId; 3] = [PeerId(4), PeerId(1), PeerId(7)];

    /// What each of them contributes if it may choose.
    const LENGTHS: [u64; 3] = [2, 0, 3];

    /// All ranks of one collective, each taking in what the others send, step by step.
    fn run(kind: CollectiveKind<u32>, algorithm: Algorithm) -> Vec<PlanRun> {
        let sites = Sites::of([0, 1, 0]);
        let lengths = match kind.own_and_limit() {
            None => Lengths::NONE,
            Some(_) => Lengths(LENGTHS.to_vec()),
        };
        let begins = |(rank, peer): (u32, &PeerId)| {
            let kind = match kind {
                CollectiveKind::AllGatherV { limit, .. } => CollectiveKind::AllGatherV {
                    own: LENGTHS[rank as usize],
                    limit,
                },
                other => other,
            };
            let told = (kind, &lengths, algorithm);
            PlanRun::new(*peer, (rank, sites.clone()), (1, Seq(1)), told)
        };
        let mut runs: Vec<PlanRun> = (0..).zip(&PEERS).filter_map(begins).collect();
        let mut sent: Vec<(u32, Frame)> = runs.iter().flat_map(PlanRun::first_frames).collect();
        while !sent.is_empty() {
            let is_next = |(to, frame): &(u32, Frame)| runs[*to as usize].at == frame.step;
            let at = sent.iter().position(is_next).unwrap();
            let (to, frame) = sent.remove(at);
            sent.extend(runs[to as usize].take(frame).unwrap());
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
    fn every_plan_leads_to_the_same_terms() {
        for algorithm in [
            Algorithm::Ring,
            WHOLE,
            Algorithm::Whole(Pattern::Mesh),
            Algorithm::Whole(Pattern::Circulant),
            Algorithm::Direct,
            Algorithm::Circulant,
            Algorithm::TwoLevel,
            Algorithm::TwoLevelRing,
            Algorithm::TwoLevelWhole,
            Algorithm::Relay,
        ] {
            for run in run(CollectiveKind::AllReduce, algorithm) {
                assert!(run.is_done());
                assert!(run.holds_each_once(&PEERS));
                assert!(run.adds_in_order(&PEERS));
                assert!(!run.adds_in_order(&[PEERS[1], PEERS[0], PEERS[2]]));
                assert!(!run.holds_each_once(&PEERS[..2]));
            }
        }
    }

    #[test]
    fn every_kind_leads_to_what_it_promises() {
        let root = CollectiveKind::Broadcast { root: 1 };
        let gather = CollectiveKind::AllGather {
            laid_out_for: Membership::of(&PEERS),
        };
        let of_lengths = CollectiveKind::AllGatherV { own: 0, limit: 9 };
        let cases = [
            (of_lengths, Algorithm::Ring),
            (of_lengths, Algorithm::Direct),
            (of_lengths, Algorithm::Circulant),
            (of_lengths, Algorithm::TwoLevel),
            (of_lengths, Algorithm::TwoLevelRing),
            (CollectiveKind::ReduceScatter, Algorithm::Ring),
            (CollectiveKind::ReduceScatter, Algorithm::Direct),
            (CollectiveKind::ReduceScatter, Algorithm::Circulant),
            (CollectiveKind::ReduceScatter, Algorithm::TwoLevel),
            (CollectiveKind::ReduceScatter, Algorithm::TwoLevelRing),
            (CollectiveKind::ReduceScatter, Algorithm::Relay),
            (gather, Algorithm::Ring),
            (gather, Algorithm::Direct),
            (gather, Algorithm::Circulant),
            (gather, Algorithm::TwoLevel),
            (gather, Algorithm::TwoLevelRing),
            (root, Algorithm::Chain),
            (root, Algorithm::Tree),
            (root, Algorithm::TwoLevel),
            (CollectiveKind::Barrier, Algorithm::Ring),
        ];
        for (kind, algorithm) in cases {
            for run in run(kind, algorithm) {
                assert!(run.is_done(), "{kind} {algorithm:?}");
                assert!(run.holds_each_once(&PEERS), "{kind} {algorithm:?}");
                assert!(run.adds_in_order(&PEERS), "{kind} {algorithm:?}");
                assert!(!run.holds_each_once(&PEERS[..2]));
            }
        }
        let gathered = &run(gather, Algorithm::Ring)[0];
        assert!(!gathered.holds_each_once(&[PEERS[1], PEERS[0], PEERS[2]]));
    }

    #[test]
    fn a_frame_of_another_step_or_part_is_refused() {
        let mut runs: Vec<PlanRun> = (0..2)
            .filter_map(|rank| {
                let what = (CollectiveKind::AllReduce, &Lengths::NONE, WHOLE);
                PlanRun::new(
                    PEERS[rank as usize],
                    (rank, Sites::one(3)),
                    (1, Seq(1)),
                    what,
                )
            })
            .collect();
        let (to, sound) = runs[0].first_frames()[0];
        assert_eq!(to, 1);

        assert!(runs[1].take(Frame { step: 1, ..sound }).is_err());
        assert!(runs[1].take(Frame { part: 2, ..sound }).is_err());
        assert!(runs[1].take(sound).is_ok());
    }
}
