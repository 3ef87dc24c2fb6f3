//! What all ranks do in a collective, as their plans say it, by the length of a shard.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::super::*;

/// A flow to one rank.
#[derive(Clone, Copy)]
pub(super) struct Sent {
    pub(super) to: Target,
    /// How long it is.
    pub(super) shards: u64,
}

/// Terms that are added once all of them are there.
pub(super) struct Sum {
    /// How many arrive.
    pub(super) terms: u32,
    pub(super) shards: u64,
    pub(super) told: Vec<Sent>,
    /// The sum of which it is a term as well.
    pub(super) onto: Option<u32>,
}

/// What is done with a flow that arrives.
pub(super) struct Arrived {
    pub(super) shards: u64,
    pub(super) onward: Vec<Sent>,
    pub(super) sum: Option<u32>,
    pub(super) after: After,
}

/// What one rank does, whatever the length of a shard.
pub(super) struct Part<'a> {
    pub(super) plan: Plan<'a>,
    pub(super) contributions: Vec<Sent>,
    /// By step.
    pub(super) arrivals: Vec<Arrived>,
    /// By number.
    pub(super) sums: Vec<Sum>,
    /// How many flows leave together: by rank, and by what [`Plan::leaves_with`] says.
    pub(super) bundles: BTreeMap<(u32, u32), usize>,
}

/// What all ranks do.
pub(super) struct Schedule<'a> {
    pub(super) sites: &'a Sites,
    pub(super) parts: Vec<Part<'a>>,
}

/// The flows of a range to these ranks. Each element stands for a shard.
fn sent(range: &Range<u64>, to: impl Iterator<Item = Target>) -> Vec<Sent> {
    let shards = range.end - range.start;
    to.map(|to| Sent { to, shards }).collect()
}

impl<'a> Part<'a> {
    /// Of a stripe in which each shard is one element.
    fn of(plan: Plan<'a>, stripe: Stripe<'_>) -> Self {
        let own = plan.contributions(stripe);
        let own = own.flat_map(|own| sent(&own.range, [own.to].into_iter()));
        let arrivals = plan.arrivals(stripe).map(|flow| {
            let sum = match flow.action {
                Action::Keep { sum, .. } => Some(sum),
                Action::Combine
                | Action::Finish
                | Action::Complete
                | Action::Copy
                | Action::Pass => None,
            };
            Arrived {
                shards: flow.range.end - flow.range.start,
                onward: sent(&flow.range, flow.onward),
                sum,
                after: flow.after,
            }
        });
        let sums = plan.kept(stripe).map(|kept| Sum {
            terms: kept.terms - u32::from(kept.own_turn.is_some()),
            shards: kept.range.end - kept.range.start,
            onto: kept.onto.map(|term| term.sum),
            told: sent(&kept.range, kept.told),
        });
        let mut part = Self {
            plan,
            contributions: own.collect(),
            arrivals: arrivals.collect(),
            sums: sums.collect(),
            bundles: BTreeMap::new(),
        };
        part.bundles = part.bundles_of_flows();
        part
    }

    fn bundles_of_flows(&self) -> BTreeMap<(u32, u32), usize> {
        let mut bundles: BTreeMap<(u32, u32), usize> = BTreeMap::new();
        let onward = self.arrivals.iter().map(|flow| &flow.onward);
        let told = self.sums.iter().map(|sum| &sum.told);
        for sent in onward.chain(told).chain([&self.contributions]).flatten() {
            if let Some(number) = self.plan.leaves_with(sent.to.step) {
                *bundles.entry((sent.to.rank, number)).or_default() += 1;
            }
        }
        bundles
    }
}

impl<'a> Schedule<'a> {
    /// # Panics
    ///
    /// If a collective of this kind never takes the algorithm.
    pub(super) fn of(
        kind: CollectiveKind<u32>,
        algorithm: Algorithm,
        sites: &'a Sites,
    ) -> Schedule<'a> {
        let shards = Shards::of_ranks(u64::from(sites.world()), sites.world());
        let stripe = shards.stripe(1, 0);
        let part = |rank| Part::of(Plan::among(kind, algorithm, sites, rank).unwrap(), stripe);
        let parts = (0..sites.world()).map(part).collect();
        Self { sites, parts }
    }
}
