//! Plans, executed by all ranks over symbols: what is computed is not numbers but lists of contributors, in
//! the order in which they were added.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use proptest::prelude::*;

use super::*;
use crate::element::{CollectiveSpec, ElementType, Quantization, ReduceOp};
use crate::wire::WHOLE_BUFFER_MAX;

mod cut;

const ALGORITHMS: [Algorithm; 2] = [Algorithm::Ring, Algorithm::Whole];

/// Whose contributions an element holds, first added first.
type Sum = Vec<u32>;

/// What one rank holds of each element of a stripe.
struct Rank {
    plan: Plan,
    /// Sums of [`Action::Keep`], by turn.
    kept: Vec<Option<Sum>>,
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
            kept: vec![None; world as usize],
            result: vec![None; indices(stripe).len()],
            stripe: stripe.clone(),
            arrived: vec![false; plan.steps() as usize],
        }
    }

    fn contribute(&mut self) -> Option<Sent> {
        if let Some(turn) = self.plan.own_turn() {
            self.kept[turn as usize] = Some(vec![self.plan.rank]);
        }
        let own = self.plan.contribution(&self.stripe)?;
        Some(Sent {
            from: self.plan.rank,
            to: own.to,
            content: vec![vec![self.plan.rank]; indices(&own.range).len()],
            elements: own.range,
        })
    }

    /// Does what the plan says with a flow, and returns where it goes on.
    fn take(&mut self, sent: Sent) -> Result<Option<Sent>, TestCaseError> {
        let flow = self.plan.arrival(&self.stripe, sent.to.step);
        let flow = flow.ok_or_else(|| TestCaseError::fail("nobody expects it"))?;
        prop_assert_eq!((flow.from, &flow.range), (sent.from, &sent.elements));
        if let After::Arrival(step) = flow.after {
            prop_assert!(self.arrived[step as usize], "what it overwrites is needed");
        }
        let before = core::mem::replace(&mut self.arrived[flow.step as usize], true);
        prop_assert!(!before, "arrived twice");

        let mut content = sent.content;
        if flow.action.adds() {
            content.iter_mut().for_each(|sum| sum.push(self.plan.rank));
        }
        if flow.action.writes_result() {
            for (element, sum) in flow.range.clone().zip(&content) {
                let place = (element - self.stripe.start) as usize;
                prop_assert_eq!(sum.len() as u32, self.plan.world, "not the whole sum");
                prop_assert_eq!(
                    self.result[place].replace(sum.clone()),
                    None,
                    "written twice"
                );
            }
        }
        if let (Action::Keep { turn }, Some(sum)) = (flow.action, content.first()) {
            prop_assert_eq!(self.kept[turn as usize].replace(sum.clone()), None);
        }
        Ok(flow.onward.map(|to| Sent {
            from: self.plan.rank,
            to,
            elements: flow.range,
            content,
        }))
    }

    /// What every element holds at the end. `None`: something is missing.
    fn result(self) -> Option<Vec<Sum>> {
        if self.plan.algorithm == Algorithm::Whole && !self.result.is_empty() {
            let all = self
                .kept
                .into_iter()
                .collect::<Option<Vec<Sum>>>()?
                .concat();
            return Some(vec![all; self.result.len()]);
        }
        self.result.into_iter().collect()
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
        if let Some(sent) = rank.contribute() {
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
        if let Some(onward) = ranks[last].take(sent)? {
            last = onward.to.rank as usize;
            links[last].push_back(onward);
        }
    }
    let results: Option<Vec<Vec<Sum>>> = ranks.into_iter().map(Rank::result).collect();
    results.ok_or_else(|| TestCaseError::fail("a part of the result is missing"))
}

/// Every rank ends with every contribution once in each element, added in the same order everywhere; in that
/// of the ranks, if they travel whole.
fn is_an_all_reduce(
    algorithm: Algorithm,
    world: u32,
    stripe: &Range<u64>,
    hurry: bool,
) -> Result<(), TestCaseError> {
    let everybody: Vec<u32> = (0..world).collect();
    if world == 1 && algorithm == Algorithm::Ring {
        return Ok(()); // its buffer is the result, and nothing is written
    }
    let results = simulate(algorithm, world, stripe, hurry)?;
    for result in &results {
        prop_assert_eq!(result, &results[0], "another order of additions");
        for sum in result {
            let mut sorted = sum.clone();
            if algorithm == Algorithm::Ring {
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

    let results = simulate(Algorithm::Whole, 5, &(0..1), false).unwrap();

    assert_eq!(results, vec![vec![order]; 5]);
}

#[test]
fn a_peer_alone_has_nothing_to_do_and_who_does_not_exist_no_plan() {
    for algorithm in ALGORITHMS {
        let alone = Plan::new(algorithm, 1, 0).unwrap();
        assert_eq!((alone.steps(), alone.contribution(&(0..10))), (0, None));
        assert_eq!(
            alone.own_turn(),
            (algorithm == Algorithm::Whole).then_some(0)
        );
        assert_eq!(Plan::new(algorithm, 0, 0), None);
        assert_eq!(Plan::new(algorithm, 3, 3), None);
        assert_eq!(
            Plan::new(algorithm, 3, 0).unwrap().arrival(&(0..1), 4),
            None
        );
    }
}

#[test]
fn the_ring_of_three_ranks_is_the_published_one() {
    let rank_1 = Plan::new(Algorithm::Ring, 3, 1).unwrap();
    let to = |step| Target { rank: 2, step };

    let own = rank_1.contribution(&(0..7)).unwrap();
    let flows: Vec<_> = rank_1
        .arrivals(&(0..7))
        .map(|flow| (flow.step, flow.range, flow.action, flow.after, flow.onward))
        .collect();

    assert_eq!((own.range, own.to), (3..5, to(0)));
    assert_eq!(
        flows,
        [
            (0, 0..3, Action::Combine, After::Nothing, Some(to(1))),
            (1, 5..7, Action::Finish, After::Nothing, Some(to(2))),
            (2, 3..5, Action::Copy, After::Contribution, Some(to(3))),
            (3, 0..3, Action::Copy, After::Arrival(0), None),
        ]
    );
}

#[test]
fn four_contributions_that_travel_whole_are_an_all_gather() {
    let rank_1 = Plan::new(Algorithm::Whole, 4, 1).unwrap();
    let flows: Vec<_> = rank_1
        .arrivals(&(0..7))
        .map(|flow| {
            (
                flow.from,
                flow.range,
                flow.action,
                flow.onward.map(|to| to.step),
            )
        })
        .collect();

    assert_eq!(
        flows,
        [
            (0, 0..7, Action::Keep { turn: 0 }, Some(1)),
            (0, 0..7, Action::Keep { turn: 3 }, Some(2)),
            (0, 0..7, Action::Keep { turn: 2 }, None),
        ]
    );
}

#[test]
fn the_largest_world_overflows_nothing() {
    for algorithm in ALGORITHMS {
        let last = Plan::new(algorithm, u32::MAX, u32::MAX - 1).unwrap();
        let flow = last.arrival(&(0..u64::MAX), last.steps() - 1).unwrap();

        assert_eq!((flow.from, flow.onward), (u32::MAX - 2, None));
        let own_turn = last.own_turn();
        assert!(own_turn.is_none_or(|turn| turn == u32::MAX - 1));
        assert!(last.contribution(&(0..u64::MAX)).is_some());
    }
}

fn spec(element: ElementType, count: u64) -> CollectiveSpec {
    CollectiveSpec {
        op: ReduceOp::Sum,
        element,
        count,
        quantization: Quantization::None,
    }
}

#[test]
fn small_buffers_travel_whole_and_no_others() {
    let of = |count, world| Algorithm::of(&spec(ElementType::F32, count), world, WHOLE_BUFFER_MAX);
    let limit = WHOLE_BUFFER_MAX / 4;

    assert_eq!(of(0, 2), Algorithm::Whole);
    assert_eq!(of(limit, 8), Algorithm::Whole);
    assert_eq!(of(limit + 1, 2), Algorithm::Ring);
    assert_eq!(of(u64::MAX, u32::MAX), Algorithm::Ring);
}

#[test]
fn what_all_ranks_contribute_fits_into_one_frame_or_does_not_travel_whole() {
    let of = |count, world| Algorithm::of(&spec(ElementType::U8, count), world, u64::MAX);
    let payload = FRAME_PAYLOAD_MAX as u64;

    assert_eq!(of(payload / 16, 16), Algorithm::Whole);
    assert_eq!(of(payload / 16, 17), Algorithm::Ring);
    assert_eq!(of(payload, 1), Algorithm::Whole);
}

#[test]
fn quantized_buffers_never_travel_whole() {
    let quantized = CollectiveSpec {
        quantization: Quantization::Blockwise4,
        ..spec(ElementType::F32, 1)
    };

    assert_eq!(Algorithm::of(&quantized, 2, u64::MAX), Algorithm::Ring);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

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
        let own = plan.contribution(&(0..count)).unwrap().range;
        let flows: Vec<Arrival> = plan.arrivals(&(0..count)).collect();

        for flow in flows.iter().filter(|flow| flow.action == Action::Copy) {
            if flow.range == own {
                prop_assert_eq!(flow.after, After::Contribution);
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
    fn steps_have_no_gaps_and_what_goes_on_bears_the_next_number(
        algorithm in prop::sample::select(&ALGORITHMS[..]), world in 2..=300_u32, rank in 0..300_u32
    ) {
        let plan = Plan::new(algorithm, world, rank % world).unwrap();
        let last = plan.steps() - 1;

        for (at, flow) in (0..).zip(plan.arrivals(&(0..1000))) {
            prop_assert_eq!(flow.step, at);
            prop_assert_eq!(flow.onward.map(|to| to.step), (at < last).then_some(at + 1));
            prop_assert_eq!(plan.arrival(&(0..1000), at), Some(flow));
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

        prop_assert_eq!(2 * steps(Algorithm::Whole), steps(Algorithm::Ring));
    }

    #[test]
    fn a_buffer_that_travels_whole_still_does_if_it_is_shorter_or_the_world_smaller(
        count in 0..20_000_u64, less in 0..20_000_u64, world in 1..=64_u32, fewer in 0..64_u32,
        element in prop::sample::select(&ElementType::ALL[..])
    ) {
        let of = |count, world| Algorithm::of(&spec(element, count), world, WHOLE_BUFFER_MAX);

        if of(count, world) == Algorithm::Whole {
            let smaller = of(count.saturating_sub(less), world.saturating_sub(fewer).max(1));
            prop_assert_eq!(smaller, Algorithm::Whole);
            prop_assert!(count * element.size() as u64 <= WHOLE_BUFFER_MAX);
        }
    }
}
