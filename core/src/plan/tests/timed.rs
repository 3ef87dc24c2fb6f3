//! Estimates of [`Costs`], held against plans that all ranks carry out in a [simulated network](network).

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use super::cost::{among, among_sizes, path, reduce};
use super::*;
use crate::element::CollectiveSpec;
use crate::id::PeerId;

mod network;
mod schedule;

use schedule::Schedule;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The table that is held against the figures here.
const DOCS: &str = include_str!("../../../../docs/collectives.md");

/// 10 Gbit/s and 0.2 ms there and back inside a site; 1 Gbit/s for each rank, and 100 ms, to other ones.
fn near_and_far() -> (PathCosts, PathCosts) {
    (path(1_250_000_000, 200), path(125_000_000, 100_000))
}

/// So many sites of as many members, one after the other in the ring.
struct Arrangement {
    sites: Sites,
    near: PathCosts,
    costs: Costs,
}

/// What a collective takes: estimated, and in the simulated network, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Times {
    estimated: u64,
    simulated: u64,
}

impl Times {
    /// How much more is estimated than was simulated, in percent.
    fn excess(self) -> f64 {
        (self.estimated as f64 / self.simulated as f64 - 1.0) * 100.0
    }
}

impl Arrangement {
    fn of(sites: u32, members: u32) -> Self {
        let (near, far) = near_and_far();
        // One site may be as large as the world.
        let near = if sites == 1 { far } else { near };
        Self {
            sites: Sites::of((0..sites * members).map(|rank| rank / members)),
            near,
            costs: among(sites, members, near, far),
        }
    }

    /// Sites of these sizes.
    fn of_sizes(sizes: &[u32]) -> Self {
        let (near, far) = near_and_far();
        let ranks = (0..)
            .zip(sizes)
            .flat_map(|(site, size): (u32, _)| (0..*size).map(move |_| site));
        Self {
            sites: Sites::of(ranks),
            near,
            costs: among_sizes(sizes, near, far),
        }
    }

    /// By size of the buffer.
    fn times(
        &self,
        (kind, of_spec): (CollectiveKind<u32>, CollectiveKind<PeerId>),
        algorithm: Algorithm,
        sizes: &[u64],
    ) -> Vec<Times> {
        let schedule = Schedule::of(kind, algorithm, &self.sites);
        let far = self.costs.far.slowest;
        let of = |bytes: &u64| {
            let spec = CollectiveSpec {
                kind: of_spec,
                ..reduce(*bytes)
            };
            Times {
                estimated: self.costs.time(&spec, self.sites.world(), algorithm),
                simulated: schedule.time(*bytes, self.near.slowest, far),
            }
        };
        sizes.iter().map(of).collect()
    }
}

fn kinds() -> [(CollectiveKind<u32>, CollectiveKind<PeerId>); 3] {
    let gather = CollectiveKind::AllGather {
        laid_out_for: Membership(0),
    };
    [
        (CollectiveKind::AllReduce, CollectiveKind::AllReduce),
        (CollectiveKind::ReduceScatter, CollectiveKind::ReduceScatter),
        (GATHER, gather),
    ]
}

fn broadcast() -> (CollectiveKind<u32>, CollectiveKind<PeerId>) {
    let of_spec = CollectiveKind::Broadcast { root: PeerId(0) };
    (CollectiveKind::Broadcast { root: 0 }, of_spec)
}

/// Asserts that every estimate exceeds what is simulated by so many percent, for each kind that reduces or gathers.
fn assert_within(
    percent: RangeInclusive<f64>,
    of: Algorithm,
    arrangements: &[(u32, u32)],
    sizes: &[u64],
) {
    assert_kinds_within(&kinds(), percent, of, arrangements, sizes);
}

fn assert_kinds_within(
    kinds: &[(CollectiveKind<u32>, CollectiveKind<PeerId>)],
    percent: RangeInclusive<f64>,
    of: Algorithm,
    arrangements: &[(u32, u32)],
    sizes: &[u64],
) {
    let mut excesses = Vec::new();
    for (sites, members) in arrangements {
        let arrangement = Arrangement::of(*sites, *members);
        for kind in kinds.iter().filter(|kind| of.carries(&kind.0)) {
            let all = arrangement.times(*kind, of, sizes);
            for (times, bytes) in all.into_iter().zip(sizes) {
                let cell = format!("{bytes} bytes, {sites} sites of {members}, {:?}", kind.0);
                excesses.push((times.excess(), cell));
            }
        }
    }
    excesses.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    for (excess, cell) in [excesses.first(), excesses.last()].into_iter().flatten() {
        std::println!("{of}: the formula is {excess:+.1} % off, {cell}");
        assert!(percent.contains(excess), "not {percent:?}");
    }
}

/// Latencies and bytes overlap in the network, and are added in the estimate, which also reckons with queues that are
/// not in the network. It is the farthest off if both take as long, between few ranks: 25.5 % between two sites of two.
#[test]
fn two_levels_of_few_ranks_take_what_is_estimated_but_for_a_quarter() {
    let arrangements = [(2, 2), (4, 4), (8, 4), (16, 8)];
    let sizes = [64 * KIB, 4 * MIB, 64 * MIB, GIB];
    assert_within(-1.0..=26.0, Algorithm::TwoLevel, &arrangements, &sizes);
}

/// In the network a rank sends to one gateway of its site after the other, so the last one begins late. With few sites
/// that is much of the time.
#[test]
fn rings_of_sites_take_what_is_estimated_but_for_a_fifth() {
    let arrangements = [(3, 5), (4, 4), (8, 4), (16, 8), (64, 8)];
    let sizes = [64 * KIB, 4 * MIB, 64 * MIB, GIB];
    let ring = Algorithm::TwoLevelRing;
    assert_within(-20.0..=20.0, ring, &arrangements, &sizes);
}

/// The first level is not over when the second begins to send, which the estimate leaves out if it takes half as long.
#[test]
fn sums_at_all_sites_take_what_is_estimated_but_for_a_fifth() {
    let arrangements = [(2, 2), (2, 8), (3, 5), (4, 4), (8, 4), (16, 8)];
    let sizes = [64 * KIB, 4 * MIB, 64 * MIB, GIB];
    assert_within(-6.0..=20.0, Algorithm::TwoLevelWhole, &arrangements, &sizes);
}

const UNEVEN: [&[u32]; 5] = [
    &[1, 8, 8],
    &[1, 1, 14],
    &[1, 14, 2],
    &[2, 4, 4, 4],
    &[8, 1, 8, 3],
];

/// In a ring of them, a small site forwards the results of all shards but those of the next one, which is of mean size
/// in the estimate.
#[test]
fn two_levels_of_uneven_sites_take_what_is_estimated_but_for_a_sixth() {
    for (algorithm, percent) in [
        (Algorithm::TwoLevel, -1.0..=16.0),
        (Algorithm::TwoLevelRing, -15.0..=10.0),
        (Algorithm::TwoLevelWhole, -1.0..=16.0),
    ] {
        let mut excesses = Vec::new();
        for sizes in UNEVEN {
            let arrangement = Arrangement::of_sizes(sizes);
            for kind in kinds()
                .into_iter()
                .filter(|kind| algorithm.carries(&kind.0))
            {
                for times in arrangement.times(kind, algorithm, &[64 * MIB, GIB]) {
                    excesses.push((times.excess(), format!("{sizes:?}, {:?}", kind.0)));
                }
            }
        }
        excesses.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        for (excess, cell) in [excesses.first(), excesses.last()].into_iter().flatten() {
            std::println!("{algorithm}: the formula is {excess:+.1} % off, {cell}");
            assert!(percent.contains(excess), "not {percent:?}");
        }
    }
}

/// Between two sites of two it may be a third more: a reduce-scatter has three steps, and chunks whose way crosses both
/// edges between the sites take 4/3 of the mean.
#[test]
fn rings_of_few_ranks_take_what_is_estimated_but_for_a_seventh() {
    let sizes = [64 * KIB, 4 * MIB, 16 * MIB, 64 * MIB, GIB];
    let at_one_site = [(1, 4), (1, 8), (1, 16)];
    assert_within(-1.0..=1.0, Algorithm::Ring, &at_one_site, &sizes);
    let arrangements = [(4, 4), (8, 4), (16, 8)];
    assert_within(-14.0..=1.0, Algorithm::Ring, &arrangements, &sizes);
}

#[test]
fn exchanges_at_one_site_take_what_is_estimated_but_for_a_sixth() {
    let arrangements = [(1, 4), (1, 8), (1, 16)];
    let sizes = [64 * KIB, 4 * MIB, 64 * MIB, GIB];
    assert_within(-1.0..=18.0, Algorithm::Direct, &arrangements, &sizes);
    let sizes = [KIB, 64 * KIB, 128 * KIB];
    assert_within(-1.0..=1.0, Algorithm::Circulant, &arrangements, &sizes);
    let sizes = [KIB, 16 * KIB];
    for pattern in [Pattern::Ring, Pattern::Mesh, Pattern::Circulant] {
        let whole = Algorithm::Whole(pattern);
        assert_within(-1.0..=1.0, whole, &arrangements, &sizes);
    }
}

/// A root sends to all its children at the same time in the estimate, and to one after the other in the network. It is
/// the farthest off if a latency and the buffer take as long, and among few ranks.
#[test]
fn broadcasts_take_what_is_estimated_but_for_a_quarter() {
    let sizes = [KIB, 64 * KIB, 4 * MIB, 64 * MIB, GIB];
    let of = |percent, algorithm, arrangements: &[(u32, u32)]| {
        assert_kinds_within(&[broadcast()], percent, algorithm, arrangements, &sizes);
    };
    let at_one_site = [(1, 3), (1, 4), (1, 5), (1, 8), (1, 13), (1, 16)];
    of(-1.0..=26.0, Algorithm::Tree, &at_one_site);
    of(-1.0..=1.0, Algorithm::Chain, &at_one_site);
    let arrangements = [(2, 2), (3, 5), (4, 4), (8, 4), (16, 8), (64, 8)];
    of(-1.0..=26.0, Algorithm::TwoLevel, &arrangements);
}

/// Rounds inside a site are estimated as if they were between sites.
#[test]
fn rounds_among_512_ranks_take_up_to_a_third_less_than_estimated() {
    let circulant = Algorithm::Circulant;
    assert_within(-1.0..=29.0, circulant, &[(64, 8)], &[64 * KIB, 128 * KIB]);
}

/// How many percent more than the best the one takes that is estimated to be the fastest, in the simulated network.
fn regret(arrangement: &Arrangement, kind: (CollectiveKind<u32>, CollectiveKind<PeerId>)) -> f64 {
    let sizes = [64 * KIB, 4 * MIB, 64 * MIB, GIB];
    let sites = arrangement.sites.count();
    let mut candidates = vec![Algorithm::Ring, Algorithm::Direct];
    candidates.extend((sites > 1).then_some(Algorithm::TwoLevel));
    candidates.extend((sites > 2).then_some(Algorithm::TwoLevelRing));
    let is_all_reduce = kind.0 == CollectiveKind::AllReduce;
    candidates.extend((sites > 1 && is_all_reduce).then_some(Algorithm::TwoLevelWhole));
    let times = candidates
        .iter()
        .map(|algorithm| arrangement.times(kind, *algorithm, &sizes));
    let times: Vec<Vec<Times>> = times.collect();
    let of_size = |at: usize| {
        let of_size = || times.iter().map(|times| times[at]);
        let chosen = of_size().min_by_key(|times| times.estimated).unwrap();
        let best = of_size().map(|times| times.simulated).min().unwrap();
        (chosen.simulated as f64 / best as f64 - 1.0) * 100.0
    };
    (0..sizes.len()).map(of_size).fold(0.0, f64::max)
}

#[test]
fn what_is_estimated_to_be_the_fastest_is_so_but_for_a_twentieth() {
    let [all_reduce, ..] = kinds();
    for (sites, members) in [(1, 4), (1, 8), (1, 16), (2, 2), (4, 4), (8, 4)] {
        let regret = regret(&Arrangement::of(sites, members), all_reduce);
        assert!(regret <= 5.0, "{sites} sites of {members}: {regret:.1} %");
    }
}

/// The last gateway of a ring of sites begins late, which is the most among few sites of many ranks.
#[test]
fn among_few_or_uneven_sites_it_is_so_but_for_15_percent() {
    for kind in kinds() {
        for sizes in UNEVEN.into_iter().chain([&[5, 5, 5][..]]) {
            let regret = regret(&Arrangement::of_sizes(sizes), kind);
            std::println!("{sizes:?}, {:?}: {regret:.1} %", kind.0);
            assert!(regret <= 15.0, "{sizes:?}, {:?}: {regret:.1} %", kind.0);
        }
    }
}

#[test]
fn the_broadcast_that_is_estimated_to_be_the_fastest_is_so_but_for_a_quarter() {
    let sizes = [KIB, 64 * KIB, 4 * MIB, 16 * MIB, 64 * MIB, GIB];
    for (sites, members) in [(1, 4), (1, 8), (1, 16), (4, 4), (8, 4)] {
        let arrangement = Arrangement::of(sites, members);
        let branches = match sites {
            1 => Algorithm::Tree,
            _ => Algorithm::TwoLevel,
        };
        let of = |algorithm| arrangement.times(broadcast(), algorithm, &sizes);
        let (chain, branches) = (of(Algorithm::Chain), of(branches));
        for (chain, branches) in chain.iter().zip(&branches) {
            let chosen = if chain.estimated < branches.estimated {
                chain
            } else {
                branches
            };
            let best = chain.simulated.min(branches.simulated);
            let is_near = chosen.simulated * 100 <= best * 125;
            assert!(
                is_near,
                "{sites} sites of {members}: {chain:?}, {branches:?}"
            );
        }
        assert!(chain[0].estimated > branches[0].estimated);
        assert!(chain[5].estimated < branches[5].estimated);
    }
}

/// With three significant digits.
fn seconds(ns: u64) -> String {
    let seconds = ns as f64 / 1e9;
    match ns {
        0..1_000_000_000 => format!("{seconds:.3}"),
        1_000_000_000..10_000_000_000 => format!("{seconds:.2}"),
        _ => format!("{seconds:.1}"),
    }
}

/// What a kind takes among 64 sites of 8: by size, with two levels, around the ring, and directly.
fn rows_of_512_ranks(
    name: &str,
    kind: (CollectiveKind<u32>, CollectiveKind<PeerId>),
) -> Vec<(String, [Times; 3])> {
    let arrangement = Arrangement::of(64, 8);
    let sizes = [64 * KIB, 4 * MIB, 64 * MIB, GIB];
    let of = |algorithm| arrangement.times(kind, algorithm, &sizes);
    let [levels, ring, direct] = [Algorithm::TwoLevel, Algorithm::Ring, Algorithm::Direct].map(of);
    let names = ["64 Ki", "4 Mi", "64 Mi", "1 Gi"];
    let rows = names.into_iter().enumerate().map(|(at, bytes)| {
        let times = [levels[at], ring[at], direct[at]];
        (row(&format!("{name} | {bytes}"), times), times)
    });
    rows.collect()
}

fn row(of: &str, [levels, ring, direct]: [Times; 3]) -> String {
    let times_faster = ring.simulated as f64 / levels.simulated as f64;
    let [levels, ring, direct] = [levels, ring, direct].map(|times| {
        let (estimated, simulated) = (seconds(times.estimated), seconds(times.simulated));
        format!("{estimated} | {simulated}")
    });
    format!("| {of} | {levels} | {ring} | {direct} | {times_faster:.1} |\n")
}

/// The docs have these rows; no estimate is 1 % or more below what is simulated, and none more than 12 % above: so much
/// is estimated for queues, which are not in the network.
fn assert_docs_have_rows(name: &str, kind: (CollectiveKind<u32>, CollectiveKind<PeerId>)) {
    let rows = rows_of_512_ranks(name, kind);
    let table: String = rows.iter().map(|(row, _)| row.as_str()).collect();
    std::println!("{table}");
    for (row, times) in &rows {
        let excesses = times.map(Times::excess);
        std::println!("formulas are off by so many percent: {excesses:+.1?}");
        let is_near = excesses.iter().all(|excess| (-1.0..=12.0).contains(excess));
        assert!(is_near, "{excesses:.1?} % off: {row}");
    }
    assert!(DOCS.contains(&table), "the docs lack\n{table}");
}

#[test]
fn the_docs_tell_what_an_all_reduce_of_512_ranks_takes() {
    let [all_reduce, ..] = kinds();
    assert_docs_have_rows("all-reduce", all_reduce);
}

#[test]
fn the_docs_tell_what_a_reduce_scatter_of_512_ranks_takes() {
    let [_, reduce_scatter, _] = kinds();
    assert_docs_have_rows("reduce-scatter", reduce_scatter);
}

#[test]
fn the_docs_tell_what_an_all_gather_of_512_ranks_takes() {
    let [.., all_gather] = kinds();
    assert_docs_have_rows("all-gather", all_gather);
}

#[test]
fn the_port_of_a_rank_carries_one_buffer_after_the_other() {
    let (_, far) = near_and_far();
    let sites = Sites::one(3);
    let whole = Algorithm::Whole(Pattern::Mesh);
    let schedule = Schedule::of(CollectiveKind::AllReduce, whole, &sites);

    // Two buffers of 12 ms leave each rank, and two come to it; 5 µs before and after.
    let time = schedule.time(1_500_000, far.slowest, far.slowest);
    assert_eq!(time, 2 * 12_000_000 + 50_000_000 + 2 * 5_000);
}

#[test]
fn frames_of_a_flow_are_on_all_links_of_a_chain_at_the_same_time() {
    let (_, far) = near_and_far();
    let sites = Sites::one(4);
    let kind = CollectiveKind::Broadcast { root: 0 };
    let schedule = Schedule::of(kind, Algorithm::Chain, &sites);
    let frame = 256 * KIB * 8;

    // Ten frames pass the first link, and the last of them two more.
    let time = schedule.time(10 * 256 * KIB, far.slowest, far.slowest);
    assert_eq!(time, 12 * frame + 3 * (50_000_000 + 2 * 5_000));
}

#[test]
fn flows_that_leave_together_are_one_message() {
    let (_, far) = near_and_far();
    let sites = Sites::one(8);
    let schedule = Schedule::of(CollectiveKind::ReduceScatter, Algorithm::Circulant, &sites);

    // Three rounds, of 7/8 of the buffer together.
    let time = schedule.time(8_000, far.slowest, far.slowest);
    assert_eq!(time, 7 * 8_000 + 3 * (50_000_000 + 2 * 5_000));
}
