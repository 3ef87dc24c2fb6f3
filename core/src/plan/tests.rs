//! Plans, executed by all ranks over symbols: what is computed is not numbers but lists of contributors, in
//! the order in which they were added.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use proptest::prelude::*;

use super::*;

mod choice;
mod cut;

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

/// Whose contributions an element holds, first added first.
type Sum = Vec<u32>;

/// What one rank holds of each element of a stripe.
struct Rank {
    plan: Plan,
    /// The terms of each sum that is kept, by turn.
    kept: Vec<Vec<Option<Sum>>>,
    /// Of the elements of the stripe.
    result: Vec<Option<Sum>>,
    stripe: Range<u64>,
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

impl Rank {
    fn new(algorithm: Algorithm, world: u32, rank: u32, stripe: &Range<u64>) -> Self {
        let plan = Plan::new(algorithm, world, rank).unwrap();
        Self {
            plan,
            kept: Vec::new(),
            result: vec![None; indices(stripe).len()],
            stripe: stripe.clone(),
            arrived: vec![false; plan.steps() as usize],
        }
    }

    fn contribute(&mut self) -> Vec<Sent> {
        for kept in self.plan.kept(&self.stripe) {
            let mut terms = vec![None; kept.terms as usize];
            terms[kept.own_turn as usize] = Some(vec![self.plan.rank]);
            self.kept.push(terms);
        }
        let own = self.plan.contributions(&self.stripe);
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
        let flow = self.plan.arrival(&self.stripe, sent.to.step);
        let flow = flow.ok_or_else(|| TestCaseError::fail("nobody expects it"))?;
        prop_assert_eq!((flow.from, &flow.range), (sent.from, &sent.elements));
        match flow.after {
            After::Nothing => {}
            After::Contribution(nth) => {
                let own = self.plan.contributions(&self.stripe).nth(nth as usize);
                prop_assert_eq!(own.map(|own| own.range), Some(flow.range.clone()));
            }
            After::Arrival(step) => {
                prop_assert!(self.arrived[step as usize], "what it overwrites is needed");
            }
            After::Sum(number) => {
                let kept = self.plan.kept(&self.stripe).nth(number as usize);
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
            let place = &mut self.kept[sum as usize][turn as usize];
            prop_assert_eq!(place.replace(term), None);
            leaving.extend(self.combine(sum)?);
        }
        Ok(leaving)
    }

    /// Adds what is kept for a sum, if all of it is here, and sends it where it goes.
    fn combine(&mut self, number: u32) -> Result<Vec<Sent>, TestCaseError> {
        let kept = self.plan.kept(&self.stripe).nth(number as usize).unwrap();
        let terms = &mut self.kept[number as usize];
        let Some(all) = terms.iter().cloned().collect::<Option<Vec<Sum>>>() else {
            return Ok(Vec::new());
        };
        *terms = Vec::new();
        let content = vec![all.concat(); indices(&kept.range).len()];
        if kept.is_result {
            self.write(&kept.range, &content)?;
        }
        let told = kept.told.map(|to| Sent {
            from: self.plan.rank,
            to,
            elements: kept.range.clone(),
            content: content.clone(),
        });
        Ok(told.collect())
    }

    fn write(&mut self, range: &Range<u64>, content: &[Sum]) -> Result<(), TestCaseError> {
        for (element, sum) in range.clone().zip(content) {
            let place = (element - self.stripe.start) as usize;
            prop_assert_eq!(sum.len() as u32, self.plan.world, "not the whole sum");
            let before = self.result[place].replace(sum.clone());
            prop_assert_eq!(before, None, "written twice");
        }
        Ok(())
    }

    /// What every element holds at the end. `None`: something is missing.
    fn result(self) -> Option<Vec<Sum>> {
        let is_whole = self.arrived.iter().all(|arrived| *arrived);
        let result: Option<Vec<Sum>> = self.result.into_iter().collect();
        result.filter(|_| is_whole)
    }
}

/// Takes all ranks through their plans: in turn, or, in a `hurry`, as far as one flow comes before another
/// moves. Those between the same two ranks keep their order.
fn simulate(
    algorithm: Algorithm,
    world: u32,
    stripe: &Range<u64>,
    hurry: bool,
) -> Result<Vec<Vec<Sum>>, TestCaseError> {
    let mut ranks: Vec<Rank> = (0..world)
        .map(|rank| Rank::new(algorithm, world, rank, stripe))
        .collect();
    let mut links: Vec<VecDeque<Sent>> = Vec::new();
    links.resize_with(world as usize, VecDeque::new);
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
    let results: Option<Vec<Vec<Sum>>> = ranks.into_iter().map(Rank::result).collect();
    results.ok_or_else(|| TestCaseError::fail("a part of the result is missing"))
}

/// Every rank ends with every contribution once in each element, added in the same order everywhere; in that
/// of the ranks, unless sums travel.
fn is_an_all_reduce(
    algorithm: Algorithm,
    world: u32,
    stripe: &Range<u64>,
    hurry: bool,
) -> Result<(), TestCaseError> {
    let everybody: Vec<u32> = (0..world).collect();
    if world == 1 {
        return Ok(()); // its buffer is the result, and nothing is written
    }
    let results = simulate(algorithm, world, stripe, hurry)?;
    for result in &results {
        prop_assert_eq!(result, &results[0], "another order of additions");
        for sum in result {
            let mut sorted = sum.clone();
            if matches!(algorithm, Algorithm::Ring | Algorithm::Circulant) {
                sorted.sort_unstable();
            }
            prop_assert_eq!(&sorted, &everybody);
        }
    }
    Ok(())
}

#[test]
fn in_every_small_world_everybody_ends_with_every_contribution_once_by_every_plan() {
    for algorithm in ALGORITHMS {
        for world in 1..=9 {
            for count in 0..=20 {
                for hurry in [false, true] {
                    is_an_all_reduce(algorithm, world, &(0..count), hurry).unwrap();
                    is_an_all_reduce(algorithm, world, &(7..7 + count), hurry).unwrap();
                }
            }
        }
    }
}

#[test]
fn more_peers_than_elements_still_reduce() {
    for count in 0..4 {
        is_an_all_reduce(Algorithm::Ring, 64, &(0..count), false).unwrap();
    }
}

#[test]
fn buffers_that_travel_whole_are_added_in_the_order_of_the_ranks() {
    let order: Vec<u32> = (0..5).collect();

    for pattern in [Pattern::Ring, Pattern::Mesh, Pattern::Circulant] {
        let results = simulate(Algorithm::Whole(pattern), 5, &(0..1), false).unwrap();

        assert_eq!(results, vec![vec![order.clone()]; 5]);
    }
}

#[test]
fn a_peer_alone_has_nothing_to_do_and_who_does_not_exist_no_plan() {
    for algorithm in ALGORITHMS {
        let alone = Plan::new(algorithm, 1, 0).unwrap();
        assert_eq!(alone.steps(), 0);
        assert_eq!(alone.contributions(&(0..10)).count(), 0);
        assert_eq!(Plan::new(algorithm, 0, 0), None);
        assert_eq!(Plan::new(algorithm, 3, 3), None);
        assert_eq!(
            Plan::new(algorithm, 3, 0).unwrap().arrival(&(0..1), 4),
            None
        );
    }
}

/// All that a rank sends: where it goes, and which elements it is of.
fn sends(
    algorithm: Algorithm,
    (world, rank): (u32, u32),
    stripe: &Range<u64>,
) -> Vec<(Target, Range<u64>)> {
    let plan = Plan::new(algorithm, world, rank).unwrap();
    let own = plan.contributions(stripe).map(|own| (own.to, own.range));
    let arrivals = plan.arrivals(stripe);
    let onward = arrivals.flat_map(|flow| flow.onward.map(move |to| (to, flow.range.clone())));
    let sums = plan.kept(stripe);
    let sums = sums.flat_map(|kept| kept.told.map(move |to| (to, kept.range.clone())));
    own.chain(onward).chain(sums).collect()
}

fn only_contribution(plan: Plan, stripe: &Range<u64>) -> Contribution {
    let all: Vec<Contribution> = plan.contributions(stripe).collect();
    assert_eq!(all.len(), 1);
    all[0].clone()
}

#[test]
fn the_ring_of_three_ranks_is_the_published_one() {
    let rank_1 = Plan::new(Algorithm::Ring, 3, 1).unwrap();
    let to = |step| Target { rank: 2, step };

    let own = only_contribution(rank_1, &(0..7));
    let flows: Vec<_> = rank_1
        .arrivals(&(0..7))
        .map(|mut flow| {
            (
                flow.step,
                flow.range,
                flow.action,
                flow.after,
                flow.onward.next(),
            )
        })
        .collect();

    assert_eq!((own.range, own.to), (3..5, to(0)));
    assert_eq!(
        flows,
        [
            (0, 0..3, Action::Combine, After::Nothing, Some(to(1))),
            (1, 5..7, Action::Finish, After::Nothing, Some(to(2))),
            (2, 3..5, Action::Copy, After::Contribution(0), Some(to(3))),
            (3, 0..3, Action::Copy, After::Arrival(0), None),
        ]
    );
}

#[test]
fn four_contributions_that_travel_whole_are_an_all_gather() {
    let rank_1 = Plan::new(WHOLE, 4, 1).unwrap();
    let flows: Vec<_> = rank_1
        .arrivals(&(0..7))
        .map(|mut flow| {
            (
                flow.from,
                flow.range,
                flow.action,
                flow.onward.next().map(|to| to.step),
            )
        })
        .collect();

    assert_eq!(
        flows,
        [
            (0, 0..7, Action::Keep { sum: 0, turn: 0 }, Some(1)),
            (0, 0..7, Action::Keep { sum: 0, turn: 3 }, Some(2)),
            (0, 0..7, Action::Keep { sum: 0, turn: 2 }, None),
        ]
    );
}

#[test]
fn over_a_mesh_what_travels_whole_comes_from_whom_it_is_of() {
    let rank_1 = Plan::new(Algorithm::Whole(Pattern::Mesh), 4, 1).unwrap();

    let sent: Vec<_> = rank_1.contributions(&(0..7)).collect();
    let flows = rank_1.arrivals(&(0..7));
    let flows: Vec<_> = flows
        .map(|mut flow| (flow.from, flow.action, flow.onward.next()))
        .collect();

    let to = |rank, step| Target { rank, step };
    assert!(sent.iter().all(|own| own.range == (0..7)));
    let sent: Vec<Target> = sent.iter().map(|own| own.to).collect();
    assert_eq!(sent, [to(2, 0), to(3, 1), to(0, 2)]);
    let keep = |turn| Action::Keep { sum: 0, turn };
    assert_eq!(
        flows,
        [(0, keep(0), None), (3, keep(3), None), (2, keep(2), None)]
    );
}

#[test]
fn three_ranks_that_exchange_directly_combine_a_part_each() {
    let rank_1 = Plan::new(Algorithm::Direct, 3, 1).unwrap();
    let to = |rank, step| Target { rank, step };

    let sent: Vec<_> = rank_1
        .contributions(&(0..7))
        .map(|own| (own.range, own.to))
        .collect();
    let kept: Vec<Kept> = rank_1.kept(&(0..7)).collect();
    let flows: Vec<_> = rank_1
        .arrivals(&(0..7))
        .map(|flow| (flow.from, flow.range, flow.action, flow.after))
        .collect();

    assert_eq!(sent, [(5..7, to(2, 0)), (0..3, to(0, 1))]);
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0].told.collect::<Vec<_>>(), [to(2, 2), to(0, 3)]);
    assert_eq!((&kept[0].range, kept[0].own_turn), (&(3..5), 1));
    assert_eq!((kept[0].terms, kept[0].is_result), (3, true));
    assert_eq!(
        flows,
        [
            (0, 3..5, Action::Keep { sum: 0, turn: 0 }, After::Nothing),
            (2, 3..5, Action::Keep { sum: 0, turn: 2 }, After::Nothing),
            (0, 0..3, Action::Copy, After::Contribution(1)),
            (2, 5..7, Action::Copy, After::Contribution(0)),
        ]
    );
}

#[test]
fn the_largest_world_overflows_nothing() {
    // Beyond it the steps of most plans have no numbers.
    let world = u32::MAX / 2;
    for algorithm in ALGORITHMS {
        let last = Plan::new(algorithm, world, world - 1).unwrap();
        let flow = last.arrival(&(0..u64::MAX), last.steps() - 1).unwrap();

        assert!(flow.from < world - 1);
        assert_eq!(flow.onward.count(), 0);
        let kept = last.kept(&(0..u64::MAX)).next();
        assert!(kept.is_none_or(|kept| kept.own_turn < kept.terms));
        let first = last.contributions(&(0..u64::MAX)).next().unwrap();
        assert!(first.to.rank < world - 1);
    }
    for algorithm in ALGORITHMS {
        let last = Plan::new(algorithm, u32::MAX, u32::MAX - 1).unwrap();
        assert!(last.arrival(&(0..u64::MAX), last.steps() - 1).is_some());
        assert!(last.contributions(&(0..u64::MAX)).next().is_some());
    }
}

proptest! {
    #![proptest_config(crate::cases::cases(200))]

    #[test]
    fn every_plan_adds_each_contribution_once_in_one_order(
        algorithm in prop::sample::select(&ALGORITHMS[..]), world in 1..=64_u32, count in 0..300_u64,
        stripes in 1..=9_u16, stripe in any::<u16>(), hurry in any::<bool>()
    ) {
        let stripe = stripe_range(count, stripes, stripe % stripes);
        is_an_all_reduce(algorithm, world, &stripe, hurry)?;
    }

    #[test]
    fn nothing_is_overwritten_before_it_was_contributed(
        world in 2..=64_u32, rank in 0..64_u32, count in 64..10_000_u64
    ) {
        let plan = Plan::new(Algorithm::Ring, world, rank % world).unwrap();
        let own = only_contribution(plan, &(0..count)).range;
        let flows: Vec<Arrival> = plan.arrivals(&(0..count)).collect();

        for flow in flows.iter().filter(|flow| flow.action == Action::Copy) {
            if flow.range == own {
                prop_assert_eq!(flow.after, After::Contribution(0));
                prop_assert!(flow.comes_back());
            } else {
                let combined = flows
                    .iter()
                    .find(|known| known.range == flow.range && known.action.adds());
                let step = combined.map(|known| known.step);
                prop_assert_eq!(Some(flow.after), step.map(After::Arrival));
            }
        }
    }

    #[test]
    fn steps_have_no_gaps_and_what_goes_around_a_ring_bears_the_next_number(
        algorithm in prop::sample::select(&ALGORITHMS[..]), world in 2..=300_u32, rank in 0..300_u32
    ) {
        let plan = Plan::new(algorithm, world, rank % world).unwrap();
        let last = plan.steps() - 1;

        for (at, mut flow) in (0..).zip(plan.arrivals(&(0..1000))) {
            prop_assert_eq!(flow.step, at);
            prop_assert_eq!(plan.arrival(&(0..1000), at), Some(flow.clone()));
            if algorithm.reach() == Reach::Ring {
                let step = (at < last).then_some(at + 1);
                prop_assert_eq!(flow.onward.next().map(|to| to.step), step);
                prop_assert_eq!(flow.onward.next(), None);
            }
        }
    }

    /// Who sends what a rank expects means that rank by it.
    #[test]
    fn each_flow_has_one_counterpart(
        algorithm in prop::sample::select(&ALGORITHMS[..]), world in 2..=32_u32, rank in 0..32_u32,
        count in 0..10_000_u64
    ) {
        let (rank, stripe) = (rank % world, 0..count);
        let sent: Vec<Vec<_>> = (0..world).map(|rank| sends(algorithm, (world, rank), &stripe)).collect();
        let plan = Plan::new(algorithm, world, rank).unwrap();

        for flow in plan.arrivals(&stripe) {
            let to = Target { rank, step: flow.step };
            let meant = sent[flow.from as usize].iter().filter(|(known, _)| *known == to);
            let meant: Vec<_> = meant.map(|(_, range)| range.clone()).collect();
            prop_assert_eq!(meant, [flow.range]);
        }
        let to_rank = sent.iter().flatten().filter(|(to, _)| to.rank == rank);
        prop_assert_eq!(to_rank.count(), plan.steps() as usize);
    }

    /// What leaves together leaves once all of it is there.
    #[test]
    fn what_is_sent_at_once_are_contributions_that_leave_with_nothing_but_contributions(
        algorithm in prop::sample::select(&ALGORITHMS[..]), world in 2..=32_u32, rank in 0..32_u32
    ) {
        let (rank, stripe) = (rank % world, 0..1000);
        let sender_of = |flow: &Arrival| Plan::new(algorithm, world, flow.from).unwrap();
        for flow in Plan::new(algorithm, world, rank).unwrap().arrivals(&stripe) {
            let sender = sender_of(&flow);
            let own: Vec<Target> = sender.contributions(&stripe).map(|own| own.to).collect();
            let with = sender.leaves_with(flow.step);
            let leaves_with_it = |to: &Target| {
                to.rank == rank && (to.step == flow.step || with.is_some() && sender.leaves_with(to.step) == with)
            };
            let sent = sends(algorithm, (world, flow.from), &stripe);
            let mut message = sent.iter().map(|(to, _)| to).filter(|to| leaves_with_it(to));
            prop_assert_eq!(flow.sent_at_once, message.all(|to| own.contains(to)));
        }
    }

    /// Each message of the rounds is one of 2·⌈log₂ N⌉, or of half as many where contributions are gathered.
    #[test]
    fn in_rounds_a_rank_sends_as_few_messages_as_there_are_rounds_and_no_byte_more_than_a_ring(
        world in 2..=300_u32, rank in 0..300_u32, count in 0..10_000_u64
    ) {
        let (rank, stripe) = (rank % world, 0..count);
        let rounds = world.next_power_of_two().ilog2() as usize;
        let messages = |algorithm| {
            let plan = Plan::new(algorithm, world, rank).unwrap();
            let sent = sends(algorithm, (world, rank), &stripe);
            let message = |(to, _): &(Target, _)| (to.rank, plan.leaves_with(to.step).unwrap());
            sent.iter().map(message).collect::<BTreeSet<_>>().len()
        };
        prop_assert_eq!(messages(GATHERED), rounds);
        prop_assert_eq!(messages(Algorithm::Circulant), 2 * rounds);

        let flows = |algorithm| sends(algorithm, (world, rank), &stripe).len();
        prop_assert_eq!(flows(Algorithm::Circulant), flows(Algorithm::Ring));
        prop_assert_eq!(flows(GATHERED), flows(WHOLE));
    }

    #[test]
    fn a_direct_exchange_sends_what_a_ring_sends_and_each_result_after_its_contribution(
        world in 2..=64_u32, rank in 0..64_u32, count in 0..10_000_u64
    ) {
        let (rank, stripe) = (rank % world, 0..count);
        let plan = Plan::new(Algorithm::Direct, world, rank).unwrap();
        let own: Vec<Range<u64>> = plan.contributions(&stripe).map(|own| own.range).collect();
        let kept = plan.kept(&stripe).next().unwrap().range;

        let parts = own.iter().cloned().chain([kept.clone()]);
        let mut parts: Vec<Range<u64>> = parts.collect();
        parts.sort_by_key(|range| (range.start, range.end));
        cut::tiles(stripe.clone(), parts.into_iter())?;
        for flow in plan.arrivals(&stripe).filter(|flow| flow.action == Action::Copy) {
            prop_assert!(flow.comes_back());
            prop_assert!(matches!(flow.after, After::Contribution(nth) if own[nth as usize] == flow.range));
        }
    }

    #[test]
    fn in_every_step_of_a_ring_the_ranks_together_receive_each_element_once(
        world in 2..=64_u32, step in any::<u32>(), start in 0..1000_u64, length in 0..1_000_000_u64
    ) {
        let stripe = start..start + length;
        let step = step % (2 * (world - 1));
        let plan = |rank| Plan::new(Algorithm::Ring, world, rank).unwrap();
        let received = |rank| plan(rank).arrival(&stripe, step).unwrap().range;
        let mut together: Vec<Range<u64>> = (0..world).map(received).collect();
        together.sort_by_key(|range| (range.start, range.end));

        cut::tiles(stripe.clone(), together.into_iter())?;
    }

    #[test]
    fn whole_buffers_take_half_as_many_steps_as_the_ring(
        world in 1..=300_u32, rank in 0..300_u32
    ) {
        let steps = |algorithm| Plan::new(algorithm, world, rank % world).unwrap().steps();

        prop_assert_eq!(2 * steps(WHOLE), steps(Algorithm::Ring));
    }
}
