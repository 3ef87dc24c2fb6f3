//! What collectives cost, and what is chosen by that.

use proptest::prelude::*;

use super::*;
use crate::element::{CollectiveKind, CollectiveSpec, ElementType, Quantization, ReduceOp};
use crate::id::Membership;
use crate::paths::{Measurement, RingEstimate};
use crate::wire::KNOWN_DIRECT_BUFFER_MAX;

const MB: u64 = 1_000_000;

pub(super) fn reduce(bytes: u64) -> CollectiveSpec {
    CollectiveSpec {
        kind: CollectiveKind::AllReduce,
        op: ReduceOp::Sum,
        element: ElementType::U8,
        count: bytes,
        quantization: Quantization::None,
        algorithm: None,
        ordered: false,
    }
}

pub(super) fn path(bytes_per_s: u64, round_trip_us: u32) -> PathCosts {
    PathCosts {
        slowest: Measurement {
            bytes_per_s,
            round_trip_us,
        },
        member_bytes_per_s: bytes_per_s,
    }
}

/// So many sites of as many members each, and a ring that enters and leaves each site once.
pub(super) fn among(sites: u32, members: u32, near: PathCosts, far: PathCosts) -> Costs {
    among_sizes(&vec![members; sites as usize], near, far)
}

/// Sites of these sizes, and such a ring.
pub(super) fn among_sizes(sizes: &[u32], near: PathCosts, far: PathCosts) -> Costs {
    let (sites, world_size) = (sizes.len() as u32, sizes.iter().sum::<u32>());
    let crossings = if sites == 1 { 0 } else { sites };
    let slowest = if sites == 1 { near } else { far };
    let around = |of: fn(Measurement) -> u64| {
        let far = u64::from(crossings).saturating_mul(of(far.slowest));
        far.saturating_add(u64::from(world_size - crossings).saturating_mul(of(near.slowest)))
    };
    Costs {
        ring: RingEstimate {
            bytes_per_s: slowest.slowest.bytes_per_s,
            round_ns: around(Measurement::hop_ns),
            world_size,
        },
        ring_latency_ns: around(Measurement::latency_ns),
        near,
        far,
        sites,
        site_members_min: sizes.iter().copied().min().unwrap_or(0),
    }
}

fn mesh(costs: Costs) -> Paths {
    Paths {
        reach: Reach::Mesh,
        within_machine: false,
        rounds_from: 4,
        two_levels: costs.sites > 1 && costs.ring.world_size > costs.sites,
        site_ring: costs.sites > 2,
        even_sites: true,
        sites_whole_max: 0,
        in_order: false,
        costs: Some(costs),
    }
}

fn world(costs: &Costs) -> u32 {
    costs.ring.world_size
}

/// In milliseconds.
fn times(costs: &Costs, bytes: u64, algorithm: Algorithm) -> u64 {
    costs.time(&reduce(bytes), world(costs), algorithm) / 1_000_000
}

#[test]
fn a_wish_is_granted_if_it_can_be() {
    let paths = mesh(among(1, 4, path(100 * MB, 100), path(100 * MB, 100)));
    let of = |wish, count, reach| {
        let spec = CollectiveSpec {
            algorithm: Some(wish),
            ..reduce(count)
        };
        Algorithm::of(&spec, 4, Paths { reach, ..paths })
    };
    let chosen = |count| Algorithm::of(&reduce(count), 4, paths);

    for wish in [
        Algorithm::Ring,
        Algorithm::Whole(Pattern::Ring),
        Algorithm::Whole(Pattern::Mesh),
        Algorithm::Whole(Pattern::Circulant),
        Algorithm::Direct,
        Algorithm::Circulant,
    ] {
        assert_eq!(of(wish, 1000, Reach::Mesh), wish);
    }
    // There are no sites, a reduce is no broadcast, the buffer is too large, and there is no mesh.
    for wish in [Algorithm::TwoLevel, Algorithm::Chain, Algorithm::Tree] {
        assert_eq!(of(wish, 1000, Reach::Mesh), chosen(1000));
    }
    let whole = Algorithm::Whole(Pattern::Mesh);
    assert_eq!(of(whole, 100 * MB, Reach::Mesh), chosen(100 * MB));
    assert_eq!(of(Algorithm::Direct, MB, Reach::Ring), Algorithm::Ring);
}

#[test]
fn what_is_quantized_takes_nothing_that_cannot_be_encoded_whatever_is_wished_for() {
    let mut paths = mesh(among(4, 4, path(100 * MB, 100), path(10 * MB, 100_000)));
    paths.two_levels = true;
    let of = |wish, quantization| {
        let spec = CollectiveSpec {
            element: ElementType::F32,
            quantization,
            algorithm: wish,
            ..reduce(MB)
        };
        Algorithm::of(&spec, 16, paths)
    };
    let to_bytes = Quantization::MinMax {
        to: ElementType::U8,
    };

    for quantization in [Quantization::Blockwise4, to_bytes] {
        let chosen = of(None, quantization);
        assert_eq!(chosen, Algorithm::TwoLevel);
        for wish in Algorithm::ALL {
            let can_be = matches!(
                wish,
                Algorithm::Ring | Algorithm::Direct | Algorithm::TwoLevel | Algorithm::TwoLevelRing
            );
            let expected = if can_be { wish } else { chosen };
            assert_eq!(of(Some(wish), quantization), expected);
        }
    }
}

#[test]
fn fewer_bytes_travel_of_what_is_quantized() {
    let bytes = |element, quantization| {
        let spec = CollectiveSpec {
            element,
            quantization,
            count: 100,
            ..reduce(0)
        };
        spec.wire_bytes()
    };
    let to_halves = Quantization::MinMax {
        to: ElementType::U16,
    };
    let in_blocks = Quantization::Blockwise4;

    assert_eq!(bytes(ElementType::F64, Quantization::None), 800);
    assert_eq!(bytes(ElementType::F64, to_halves), 200);
    // Half a byte for each element, and two blocks with two parameters each.
    assert_eq!(bytes(ElementType::BF16, in_blocks), 50 + 2 * 8);
    assert_eq!(bytes(ElementType::F64, in_blocks), 50 + 2 * 16);
}

#[test]
fn the_cost_of_what_is_quantized_is_that_of_the_bytes_that_travel() {
    let costs = among(1, 4, path(10 * MB, 10_000), path(10 * MB, 10_000));
    let time = |element, quantization, count| {
        let spec = CollectiveSpec {
            element,
            quantization,
            count,
            ..reduce(0)
        };
        costs.time(&spec, 4, Algorithm::Ring)
    };
    let to_bytes = Quantization::MinMax {
        to: ElementType::U8,
    };

    let encoded = time(ElementType::F32, to_bytes, 4 * MB);
    assert_eq!(encoded, time(ElementType::U8, Quantization::None, 4 * MB));
    // Half a byte for each element, and eight for each block of 64.
    let in_blocks = time(ElementType::F32, Quantization::Blockwise4, 64 * MB);
    assert_eq!(
        in_blocks,
        time(ElementType::U8, Quantization::None, 40 * MB)
    );
}

#[test]
fn a_slow_path_that_the_ring_goes_around_speaks_for_the_ring() {
    let even = among(1, 4, path(100 * MB, 100_000), path(100 * MB, 100_000));
    let mut uneven = even;
    uneven.near.slowest.bytes_per_s = MB;
    let of = |costs, bytes| Algorithm::of(&reduce(bytes), 4, mesh(costs));

    assert_eq!(of(even, 4 * MB), Algorithm::Direct);
    assert_eq!(of(uneven, 4 * MB), Algorithm::Ring);
    // 2 · 3/4 · 1 GB take long enough that it counts how many meet at a rank.
    assert_eq!(of(even, 1000 * MB), Algorithm::Ring);
    // Latencies outweigh it if there are few bytes.
    assert_eq!(of(uneven, 100_000), Algorithm::Direct);
    // 2 · 64/4 MB over that path.
    assert!((35_800..36_200).contains(&times(&uneven, 64 * MB, Algorithm::Direct)));
}

#[test]
fn four_sites_of_four_take_the_times_that_their_paths_allow() {
    // 200 Mbit/s inside and 20 Mbit/s to other sites, for each member; 100 ms.
    let costs = among(4, 4, path(25 * MB, 200), path(2_500_000, 100_000));
    let of = |bytes, algorithm| times(&costs, bytes, algorithm);

    // One latency, and S · 3/4 over each way out.
    assert_eq!(of(64_000, Algorithm::TwoLevelWhole) / 10, 7);
    assert_eq!(of(64 * MB, Algorithm::TwoLevelWhole) / 1000, 21);
    // Two latencies, and 2 · S · 3/4 over four ways out at 2.5 MB/s each.
    assert_eq!(of(64_000, Algorithm::TwoLevel) / 10, 11);
    assert_eq!(of(64 * MB, Algorithm::TwoLevel) / 100, 108);
    // Six latencies, and six times the 4 KB of a chunk; S · 3/2 over the ways out.
    assert_eq!(of(64_000, Algorithm::TwoLevelRing) / 10, 31);
    assert_eq!(of(64 * MB, Algorithm::TwoLevelRing) / 100, 96);
    // 2 · S · 15/16 over one.
    assert_eq!(of(64 * MB, Algorithm::Ring) / 1000, 48);
    // 2 · S · 12/16 over each.
    assert_eq!(of(64 * MB, Algorithm::Direct) / 1000, 43);
    let chosen = |bytes| Algorithm::of(&reduce(bytes), 16, mesh(costs));
    assert_eq!(chosen(64_000), Algorithm::TwoLevelWhole);
    assert_eq!(chosen(2 * MB), Algorithm::TwoLevel);
    for bytes in [4 * MB, 64 * MB] {
        assert_eq!(chosen(bytes), Algorithm::TwoLevelRing);
    }
}

/// A connection carries a quarter of what a member does.
#[test]
fn between_two_sites_one_connection_carries_as_much_of_all_sums_as_of_sums_and_results() {
    let (near, mut far) = (path(100 * MB, 200), path(10 * MB, 100_000));
    far.slowest.bytes_per_s /= 4;
    let costs = among_sizes(&[4, 12], near, far);
    let of = |algorithm| times(&costs, 4 * MB, algorithm);

    let saved = of(Algorithm::TwoLevel) - of(Algorithm::TwoLevelWhole);
    assert!((50..=51).contains(&saved), "{saved} ms");
}

fn broadcast(bytes: u64) -> CollectiveSpec {
    let root = crate::id::PeerId(1);
    CollectiveSpec {
        kind: CollectiveKind::Broadcast { root },
        ..reduce(bytes)
    }
}

#[test]
fn a_broadcast_takes_the_tree_where_latencies_outweigh_what_the_root_sends_more_often() {
    let costs = among(1, 8, path(100 * MB, 100_000), path(100 * MB, 100_000));
    let ms = |bytes, algorithm| costs.time(&broadcast(bytes), 8, algorithm) / 1_000_000;
    let of = |bytes| Algorithm::of(&broadcast(bytes), 8, mesh(costs));

    // Three latencies and three buffers; seven latencies and one.
    assert_eq!(ms(MB, Algorithm::Tree), 150 + 30);
    assert_eq!(ms(100 * MB, Algorithm::Tree), 150 + 3000);
    // The first frame passes six edges before the last one.
    assert_eq!(ms(100 * MB, Algorithm::Chain), 350 + 1000 + 15);
    assert_eq!(of(MB), Algorithm::Tree);
    // 200 ms are the time of 10 MB, which the root sends twice more.
    assert_eq!(of(9 * MB), Algorithm::Tree);
    assert_eq!(of(12 * MB), Algorithm::Chain);
}

#[test]
fn a_broadcast_takes_two_levels_where_the_bytes_between_sites_count() {
    // 200 Mbit/s inside and 20 Mbit/s to other sites; 100 ms.
    let costs = among(4, 4, path(25 * MB, 200), path(2_500_000, 100_000));
    let ms = |bytes, algorithm| costs.time(&broadcast(bytes), 16, algorithm) / 1_000_000;
    let of = |bytes| Algorithm::of(&broadcast(bytes), 16, mesh(costs));

    // Two latencies of 50 ms and two of 0.1, and two buffers of 4 ms; a frame inside takes 1 ms.
    assert_eq!(ms(10_000, Algorithm::TwoLevel), 100 + 9);
    // Four of each.
    assert_eq!(ms(10_000, Algorithm::Tree), 200 + 16);
    // The ring leaves each site once.
    assert!((190..220).contains(&ms(10_000, Algorithm::Chain)));
    assert_eq!(of(10_000), Algorithm::TwoLevel);
    assert_eq!(of(64 * MB), Algorithm::Chain);
}

#[test]
fn within_a_machine_thresholds_hold_whatever_was_measured() {
    let paths = Paths {
        within_machine: true,
        ..mesh(among(1, 4, path(1000 * MB, 50), path(1000 * MB, 50)))
    };
    let unknown = Paths {
        costs: None,
        ..paths
    };

    for bytes in [1, 40_000, MB, 100 * MB] {
        let of = |paths| Algorithm::of(&reduce(bytes), 4, paths);
        assert_eq!(of(paths), of(unknown));
    }
}

proptest! {
    #![proptest_config(crate::cases::cases(200))]

    #[test]
    fn what_is_chosen_is_possible_and_nothing_possible_is_faster(
        sites in 1..=6_u32, members in 1..=6_u32, bytes in prop::sample::select(vec![0, 1, 1000, 32_768, 50_000, MB, 1 << 40, u64::MAX]),
        near_rate in 0..=u64::MAX, near_us in 0..=10_000_u32, far_rate in 0..=u64::MAX, far_us in any::<u32>(),
        kind in prop::sample::select(vec![
            CollectiveKind::AllReduce, CollectiveKind::ReduceScatter, CollectiveKind::Barrier,
            CollectiveKind::AllGather { laid_out_for: Membership(7) },
            CollectiveKind::Broadcast { root: crate::id::PeerId(1) },
        ]),
        reach in prop::sample::select(vec![Reach::Ring, Reach::Mesh]),
    ) {
        let costs = among(sites, members, path(near_rate, near_us), path(far_rate, far_us));
        let world = world(&costs);
        let paths = Paths { reach, ..mesh(costs) };
        let spec = CollectiveSpec { kind, ..reduce(bytes) };

        let chosen = Algorithm::of(&spec, world, paths);

        prop_assert!(chosen.is_possible(&spec, world, paths));
        for other in Algorithm::ALL {
            let is_limited = matches!(other, Algorithm::Direct | Algorithm::TwoLevelWhole);
            let is_too_large = is_limited && bytes > KNOWN_DIRECT_BUFFER_MAX;
            let is_possible = other.is_possible(&spec, world, paths) && !is_too_large;
            prop_assert!(!is_possible || costs.time(&spec, world, chosen) <= costs.time(&spec, world, other));
        }
    }
}
