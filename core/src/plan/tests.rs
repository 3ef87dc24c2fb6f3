//! Plans, executed by all ranks over symbols: what is computed is not numbers but lists of contributors, in
//! the order in which they were added.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use proptest::prelude::TestCaseError;
use proptest::{prop_assert, prop_assert_eq};

use super::*;
use crate::id::{Membership, PeerId};

mod by_hand;
mod choice;
mod cost;
mod cut;
mod flows;
mod levels;
mod ordered;
mod timed;
mod trees;

const GATHER: CollectiveKind<u32> = CollectiveKind::AllGather {
    laid_out_for: Membership(0),
};

/// Plans do not ask for its numbers.
const GATHER_V: CollectiveKind<u32> = CollectiveKind::AllGatherV { own: 0, limit: 0 };

const WHOLE: Algorithm = Algorithm::Whole(Pattern::Ring);

const GATHERED: Algorithm = Algorithm::Whole(Pattern::Circulant);

/// The first two go around a ring, the last two in rounds.
const ALGORITHMS: [Algorithm; 6] = [
    Algorithm::Ring,
    WHOLE,
    Algorithm::Whole(Pattern::Mesh),
    Algorithm::Direct,
    GATHERED,
    Algorithm::Circulant,
];

/// Each algorithm with each kind that takes it; the root is the rank of this number.
fn plans(root: u32) -> Vec<(CollectiveKind<u32>, Algorithm)> {
    let kinds = [
        CollectiveKind::AllReduce,
        CollectiveKind::ReduceScatter,
        GATHER,
        GATHER_V,
        CollectiveKind::Broadcast { root },
        CollectiveKind::Barrier,
    ];
    let others = [
        Algorithm::Chain,
        Algorithm::TwoLevel,
        Algorithm::TwoLevelRing,
        Algorithm::TwoLevelWhole,
        Algorithm::Relay,
        Algorithm::Tree,
    ];
    let algorithms = ALGORITHMS.into_iter().chain(others);
    let all = algorithms.flat_map(|algorithm| kinds.map(|kind| (kind, algorithm)));
    all.filter(|(kind, algorithm)| algorithm.carries(kind))
        .collect()
}

/// The part of a rank in an all-reduce.
fn all_reduce(algorithm: Algorithm, world: u32, rank: u32) -> Option<Plan<'static>> {
    Plan::new(CollectiveKind::AllReduce, algorithm, world, rank)
}

/// Whose contributions an element holds, first added first.
type Sum = Vec<u32>;

/// What all ranks do, and with which elements.
#[derive(Clone, Copy)]
struct Operation<'a> {
    kind: CollectiveKind<u32>,
    algorithm: Algorithm,
    sites: &'a Sites,
    stripe: Stripe<'a>,
    /// `None`: additions are in the order of the ranks.
    turns: Option<&'a Turns>,
}

impl<'a> Operation<'a> {
    fn plan(&self, rank: u32) -> Plan<'a> {
        let plan = Plan::among(self.kind, self.algorithm, self.sites, rank).unwrap();
        match self.turns {
            Some(turns) => plan.in_turns(turns).unwrap(),
            None => plan,
        }
    }

    /// In which order contributions are added, unless sums travel in no turns.
    fn order(&self) -> Sum {
        let mut ranks: Sum = (0..self.world()).collect();
        if let Some(turns) = self.turns {
            ranks.sort_by_key(|rank| turns.of_rank(*rank));
        }
        ranks
    }

    fn world(&self) -> u32 {
        self.sites.world()
    }

    fn elements(&self) -> BTreeSet<u64> {
        match self.algorithm {
            Algorithm::Whole(_) | Algorithm::Chain | Algorithm::Tree => {
                self.stripe.whole().collect()
            }
            Algorithm::TwoLevel if self.kind.root().is_some() => self.stripe.whole().collect(),
            Algorithm::Relay if self.kind.gathers() => self.stripe.whole().collect(),
            Algorithm::Ring
            | Algorithm::Direct
            | Algorithm::Circulant
            | Algorithm::TwoLevel
            | Algorithm::TwoLevelRing
            | Algorithm::TwoLevelWhole
            | Algorithm::Relay => {
                let chunks = (0..self.world()).flat_map(|rank| self.stripe.chunk(rank));
                chunks.collect()
            }
        }
    }

    /// The elements that a rank is to write.
    fn written_by(&self, rank: u32) -> BTreeSet<u64> {
        let own: BTreeSet<u64> = self.stripe.chunk(rank).collect();
        let all = self.elements();
        match self.kind {
            CollectiveKind::AllReduce => all,
            CollectiveKind::ReduceScatter => own,
            CollectiveKind::AllGather { .. } | CollectiveKind::AllGatherV { .. } => &all - &own,
            CollectiveKind::Broadcast { root } if root != rank => all,
            CollectiveKind::Broadcast { .. } | CollectiveKind::Barrier => BTreeSet::new(),
        }
    }

    /// Whose contribution alone an element is to hold. `None`: those of all.
    fn told_by(&self, element: u64) -> Option<u32> {
        match self.kind {
            CollectiveKind::AllReduce | CollectiveKind::ReduceScatter => None,
            CollectiveKind::AllGather { .. } | CollectiveKind::AllGatherV { .. } => {
                (0..self.world()).find(|rank| self.stripe.chunk(*rank).contains(&element))
            }
            CollectiveKind::Broadcast { root } => Some(root),
            CollectiveKind::Barrier => Some(self.world()),
        }
    }
}

/// What one rank holds of each element of a stripe.
struct Rank<'a> {
    plan: Plan<'a>,
    stripe: Stripe<'a>,
    /// The terms of each sum that is kept, by turn.
    kept: Vec<Vec<Option<Sum>>>,
    /// By element.
    result: BTreeMap<u64, Sum>,
    arrived: Vec<bool>,
}

/// A flow on its way.
struct Sent {
    from: u32,
    to: Target,
    elements: Range<u64>,
    content: Vec<Sum>,
}

fn indices(range: &Range<u64>) -> Range<usize> {
    range.start as usize..range.end as usize
}

impl<'a> Rank<'a> {
    fn new(operation: Operation<'a>, rank: u32) -> Self {
        let plan = operation.plan(rank);
        Self {
            plan,
            stripe: operation.stripe,
            kept: Vec::new(),
            result: BTreeMap::new(),
            arrived: vec![false; plan.steps() as usize],
        }
    }

    fn contribute(&mut self) -> Vec<Sent> {
        for kept in self.plan.kept(self.stripe) {
            let mut terms = vec![None; kept.terms as usize];
            if let Some(turn) = kept.own_turn {
                terms[turn as usize] = Some(vec![self.plan.rank]);
            }
            self.kept.push(terms);
        }
        let own = self.plan.contributions(self.stripe);
        let sent = own.map(|own| Sent {
            from: self.plan.rank,
            to: own.to,
            content: vec![vec![self.plan.rank]; indices(&own.range).len()],
            elements: own.range,
        });
        sent.collect()
    }

    /// Does what the plan says with a flow, and returns what leaves because of it.
    fn take(&mut self, sent: Sent) -> Result<Vec<Sent>, TestCaseError> {
        let flow = self.plan.arrival(self.stripe, sent.to.step);
        let flow = flow.ok_or_else(|| TestCaseError::fail("nobody expects it"))?;
        prop_assert_eq!((flow.from, &flow.range), (sent.from, &sent.elements));
        match flow.after {
            After::Nothing => {}
            After::Contribution(nth) => {
                let own = self.plan.contributions(self.stripe).nth(nth as usize);
                prop_assert_eq!(own.map(|own| own.range), Some(flow.range.clone()));
            }
            After::Arrival(step) => {
                prop_assert!(self.arrived[step as usize], "what it overwrites is needed");
            }
            After::Sum(number) => {
                let kept = self.plan.kept(self.stripe).nth(number as usize);
                prop_assert_eq!(kept.map(|kept| kept.range), Some(flow.range.clone()));
                let is_added = self.kept[number as usize].is_empty();
                prop_assert!(is_added, "what it overwrites is needed");
            }
        }
        let before = core::mem::replace(&mut self.arrived[flow.step as usize], true);
        prop_assert!(!before, "arrived twice");

        let mut content = sent.content;
        if flow.action.adds() {
            content.iter_mut().for_each(|sum| sum.push(self.plan.rank));
        }
        if flow.action.writes_result() {
            self.write(&flow.range, &content)?;
        }
        let onward = flow.onward.map(|to| Sent {
            from: self.plan.rank,
            to,
            elements: flow.range.clone(),
            content: content.clone(),
        });
        let mut leaving: Vec<Sent> = onward.collect();
        if let Action::Keep { sum, turn } = flow.action {
            let term = content.first().cloned().unwrap_or_default();
            leaving.extend(self.keep(Term { sum, turn }, term)?);
        }
        Ok(leaving)
    }

    fn keep(&mut self, term: Term, content: Sum) -> Result<Vec<Sent>, TestCaseError> {
        let place = &mut self.kept[term.sum as usize][term.turn as usize];
        prop_assert_eq!(place.replace(content), None);
        self.combine(term.sum)
    }

    /// Adds what is kept for a sum, if all of it is here, and sends it where it goes.
    fn combine(&mut self, number: u32) -> Result<Vec<Sent>, TestCaseError> {
        let kept = self.plan.kept(self.stripe).nth(number as usize).unwrap();
        let terms = &mut self.kept[number as usize];
        let Some(all) = terms.iter().cloned().collect::<Option<Vec<Sum>>>() else {
            return Ok(Vec::new());
        };
        *terms = Vec::new();
        let sum = all.concat();
        let content = vec![sum.clone(); indices(&kept.range).len()];
        if kept.is_result {
            self.write(&kept.range, &content)?;
        }
        let told = kept.told.map(|to| Sent {
            from: self.plan.rank,
            to,
            elements: kept.range.clone(),
            content: content.clone(),
        });
        let mut leaving: Vec<Sent> = told.collect();
        if let Some(onto) = kept.onto {
            prop_assert_eq!(self.range_of(onto.sum), kept.range);
            leaving.extend(self.keep(onto, sum)?);
        }
        Ok(leaving)
    }

    /// The elements of a sum that is kept.
    fn range_of(&self, sum: u32) -> Range<u64> {
        let mut kept = self.plan.kept(self.stripe);
        kept.nth(sum as usize).unwrap().range
    }

    fn write(&mut self, range: &Range<u64>, content: &[Sum]) -> Result<(), TestCaseError> {
        for (element, sum) in range.clone().zip(content) {
            let before = self.result.insert(element, sum.clone());
            prop_assert_eq!(before, None, "written twice");
        }
        Ok(())
    }

    /// What every element that was written holds at the end. `None`: something is missing.
    fn result(self) -> Option<BTreeMap<u64, Sum>> {
        let is_whole = self.arrived.iter().all(|arrived| *arrived);
        is_whole.then_some(self.result)
    }
}

/// Takes all ranks through their plans: in turn, or, in a `hurry`, as far as one flow comes before another
/// moves. Those between the same two ranks keep their order.
fn simulate(
    operation: Operation<'_>,
    hurry: bool,
) -> Result<Vec<BTreeMap<u64, Sum>>, TestCaseError> {
    let mut ranks: Vec<Rank<'_>> = (0..operation.world())
        .map(|rank| Rank::new(operation, rank))
        .collect();
    let mut links: Vec<VecDeque<Sent>> = Vec::new();
    links.resize_with(ranks.len(), VecDeque::new);
    for rank in &mut ranks {
        for sent in rank.contribute() {
            links[sent.to.rank as usize].push_back(sent);
        }
    }
    let mut last = 0;
    while links.iter().any(|link| !link.is_empty()) {
        let at = if hurry {
            last
        } else {
            (last + 1) % ranks.len()
        };
        last = (0..ranks.len())
            .map(|by| (at + by) % ranks.len())
            .find(|at| !links[*at].is_empty())
            .unwrap();
        let sent = links[last].pop_front().unwrap();
        for leaving in ranks[last].take(sent)? {
            last = leaving.to.rank as usize;
            links[last].push_back(leaving);
        }
    }
    let results: Option<Vec<BTreeMap<u64, Sum>>> = ranks.into_iter().map(Rank::result).collect();
    results.ok_or_else(|| TestCaseError::fail("a part of the result is missing"))
}

/// Every rank writes what the kind promises and nothing else: where contributions are combined, each of them once,
/// added in the same order everywhere; in that of the turns, unless sums travel in no turns.
fn keeps_its_promise(operation: Operation<'_>, hurry: bool) -> Result<(), TestCaseError> {
    let order = operation.order();
    if operation.world() == 1 {
        return Ok(()); // its buffer is the result, and nothing is written
    }
    let results = simulate(operation, hurry)?;
    let mut known: BTreeMap<u64, Sum> = BTreeMap::new();
    for (rank, result) in (0..).zip(&results) {
        let written: BTreeSet<u64> = result.keys().copied().collect();
        prop_assert_eq!(written, operation.written_by(rank));
        for (element, sum) in result {
            let first = known.entry(*element).or_insert_with(|| sum.clone());
            prop_assert_eq!(&*first, sum, "another order of additions");
            if let Some(rank) = operation.told_by(*element) {
                prop_assert_eq!(&[rank][..], &sum[..]);
                continue;
            }
            let (mut sum, mut order) = (sum.clone(), order.clone());
            if matches!(
                operation.algorithm,
                Algorithm::Ring
                    | Algorithm::Circulant
                    | Algorithm::TwoLevel
                    | Algorithm::TwoLevelRing
                    | Algorithm::TwoLevelWhole
            ) {
                sum.sort_unstable();
                order.sort_unstable();
            }
            prop_assert_eq!(sum, order);
        }
    }
    Ok(())
}

#[test]
fn in_every_small_world_every_plan_keeps_the_promise_of_its_kind() {
    for (kind, algorithm) in plans(0) {
        for world in 1..=9 {
            let sites = Sites::of((0..world).map(|rank| rank * 5 % 11 % 3));
            for count in 0..=20 {
                let shards = Shards::of_ranks(count, world);
                let peers: Vec<PeerId> =
                    (0..world).map(|n| PeerId(u64::from(n * 5 % 11))).collect();
                let others = Shards::of_peers(count, &peers);
                for (stripe, hurry) in [
                    (shards.stripe(1, 0), false),
                    (shards.stripe(1, 0), true),
                    (others.stripe(3, 1), false),
                ] {
                    let operation = Operation {
                        kind,
                        algorithm,
                        sites: &sites,
                        stripe,
                        turns: None,
                    };
                    keeps_its_promise(operation, hurry).unwrap();
                }
            }
        }
    }
}

#[test]
fn more_peers_than_elements_still_reduce() {
    for count in 0..4 {
        let shards = Shards::of_ranks(count, 64);
        let operation = Operation {
            kind: CollectiveKind::AllReduce,
            algorithm: Algorithm::Ring,
            sites: &Sites::one(64),
            stripe: shards.stripe(1, 0),
            turns: None,
        };
        keeps_its_promise(operation, false).unwrap();
    }
}

#[test]
fn buffers_that_travel_whole_are_added_in_the_order_of_the_ranks() {
    let order: Vec<u32> = (0..5).collect();
    let shards = Shards::of_ranks(1, 5);
    for pattern in [Pattern::Ring, Pattern::Mesh, Pattern::Circulant] {
        let operation = Operation {
            kind: CollectiveKind::AllReduce,
            algorithm: Algorithm::Whole(pattern),
            sites: &Sites::one(5),
            stripe: shards.stripe(1, 0),
            turns: None,
        };
        let results = simulate(operation, false).unwrap();
        assert_eq!(results, vec![BTreeMap::from([(0, order.clone())]); 5]);
    }
}

#[test]
fn a_peer_alone_has_nothing_to_do_and_who_does_not_exist_no_plan() {
    for algorithm in ALGORITHMS {
        let alone = all_reduce(algorithm, 1, 0).unwrap();
        assert_eq!(alone.steps(), 0);
        assert_eq!(
            alone
                .contributions(Shards::of_ranks(10, 1).stripe(1, 0))
                .count(),
            0
        );
        assert_eq!(all_reduce(algorithm, 0, 0), None);
        assert_eq!(all_reduce(algorithm, 3, 3), None);
        assert_eq!(
            all_reduce(algorithm, 3, 0)
                .unwrap()
                .arrival(Shards::of_ranks(1, 3).stripe(1, 0), 4),
            None
        );
    }
}

/// All that a rank sends: where it goes, and which elements it is of.
fn sends(operation: Operation<'_>, rank: u32) -> Vec<(Target, Range<u64>)> {
    let (plan, stripe) = (operation.plan(rank), operation.stripe);
    let own = plan.contributions(stripe).map(|own| (own.to, own.range));
    let arrivals = plan.arrivals(stripe);
    let onward = arrivals.flat_map(|flow| flow.onward.map(move |to| (to, flow.range.clone())));
    let sums = plan.kept(stripe);
    let sums = sums.flat_map(|kept| kept.told.map(move |to| (to, kept.range.clone())));
    own.chain(onward).chain(sums).collect()
}

fn only_contribution(plan: Plan<'_>, stripe: Stripe<'_>) -> Contribution {
    let all: Vec<Contribution> = plan.contributions(stripe).collect();
    assert_eq!(all.len(), 1);
    all[0].clone()
}

#[test]
fn the_largest_world_overflows_nothing() {
    // Beyond it the steps of most plans have no numbers.
    let world = u32::MAX / 2;
    // Nobody has a shard: that many would not fit into memory.
    let shards = Shards::of_ranks(u64::MAX, 0);
    let stripe = shards.stripe(1, 0);
    for algorithm in ALGORITHMS {
        let last = all_reduce(algorithm, world, world - 1).unwrap();
        let flow = last.arrival(stripe, last.steps() - 1).unwrap();

        assert!(flow.from < world - 1);
        assert_eq!(flow.onward.count(), 0);
        let kept = last.kept(stripe).next();
        let has_turn = |kept: Kept<'_>| kept.own_turn.is_some_and(|turn| turn < kept.terms);
        assert!(kept.is_none_or(has_turn));
        let first = last.contributions(stripe).next().unwrap();
        assert!(first.to.rank < world - 1);
    }
    for algorithm in ALGORITHMS {
        let last = all_reduce(algorithm, u32::MAX, u32::MAX - 1).unwrap();
        assert!(last.arrival(stripe, last.steps() - 1).is_some());
        assert!(last.contributions(stripe).next().is_some());
    }
}
