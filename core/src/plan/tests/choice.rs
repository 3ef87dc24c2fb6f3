//! Which algorithm a collective takes.

use proptest::prelude::*;

use super::*;
use crate::element::{CollectiveKind, CollectiveSpec, ElementType, Quantization, ReduceOp};
use crate::id::{Membership, PeerId};
use crate::wire::{
    CIRCULANT_BUFFER_MAX, DIRECT_BUFFER_MAX, DIRECT_WITHIN_MACHINE_MAX, FRAME_PAYLOAD_MAX,
    SITE_RING_SHARD_MIN, WHOLE_AMONG_SITES_MAX, WHOLE_BUFFER_MAX,
};

fn spec(element: ElementType, count: u64) -> CollectiveSpec {
    CollectiveSpec {
        kind: CollectiveKind::AllReduce,
        op: ReduceOp::Sum,
        element,
        count,
        quantization: Quantization::None,
        algorithm: None,
        ordered: false,
    }
}

const fn between_machines(reach: Reach) -> Paths {
    Paths {
        reach,
        within_machine: false,
        rounds_from: 4,
        two_levels: false,
        site_ring: false,
        even_sites: true,
        sites_whole_max: 0,
        in_order: false,
        costs: None,
    }
}

const fn within_a_machine(reach: Reach) -> Paths {
    Paths {
        reach,
        within_machine: true,
        rounds_from: 4,
        two_levels: false,
        site_ring: false,
        even_sites: true,
        sites_whole_max: 0,
        in_order: false,
        costs: None,
    }
}

#[test]
fn between_sites_everything_that_does_not_travel_whole_takes_two_levels_if_there_is_a_mesh() {
    let of = |kind, count, reach, within_machine| {
        let spec = CollectiveSpec {
            kind,
            ..spec(ElementType::U8, count)
        };
        let paths = Paths {
            reach,
            within_machine,
            rounds_from: 4,
            two_levels: true,
            site_ring: false,
            even_sites: true,
            sites_whole_max: 0,
            in_order: false,
            costs: None,
        };
        Algorithm::of(&spec, 6, paths)
    };
    let reduce = CollectiveKind::AllReduce;

    for within_machine in [false, true] {
        for count in [WHOLE_BUFFER_MAX + 1, DIRECT_BUFFER_MAX, 1 << 40] {
            for kind in [reduce, CollectiveKind::ReduceScatter] {
                let levels = of(kind, count, Reach::Mesh, within_machine);
                assert_eq!(levels, Algorithm::TwoLevel);
                let around = of(kind, count, Reach::Ring, within_machine);
                assert_eq!(around, Algorithm::Ring);
            }
        }
        let most = match within_machine {
            true => WHOLE_BUFFER_MAX,
            false => WHOLE_AMONG_SITES_MAX / 6,
        };
        let whole = of(reduce, most, Reach::Mesh, within_machine);
        assert!(matches!(whole, Algorithm::Whole(_)));
        let more = of(reduce, most + 1, Reach::Mesh, within_machine);
        assert_eq!(more, Algorithm::TwoLevel);
        let around = of(reduce, WHOLE_BUFFER_MAX, Reach::Ring, within_machine);
        assert_eq!(around, Algorithm::Whole(Pattern::Ring));
    }
}

#[test]
fn small_buffers_travel_whole_middle_ones_directly_and_large_ones_around_the_ring() {
    let of = |count, world, reach| {
        Algorithm::of(
            &spec(ElementType::F32, count),
            world,
            between_machines(reach),
        )
    };
    let (whole, direct) = (WHOLE_BUFFER_MAX / 4, DIRECT_BUFFER_MAX / 4);

    for (reach, pattern) in [(Reach::Ring, Pattern::Ring), (Reach::Mesh, Pattern::Mesh)] {
        assert_eq!(of(0, 3, reach), Algorithm::Whole(pattern));
        assert_eq!(of(whole, 8, reach), Algorithm::Whole(pattern));
        assert_eq!(of(direct + 1, 3, reach), Algorithm::Ring);
        assert_eq!(of(u64::MAX, u32::MAX, reach), Algorithm::Ring);
    }
    assert_eq!(of(whole + 1, 3, Reach::Ring), Algorithm::Ring);
    assert_eq!(of(whole + 1, 3, Reach::Mesh), Algorithm::Direct);
    assert_eq!(of(direct, 8, Reach::Mesh), Algorithm::Direct);
}

#[test]
fn within_a_machine_four_and_more_ranks_take_rounds_where_others_exchange_directly() {
    let of = |count, world| {
        let paths = within_a_machine(Reach::Mesh);
        Algorithm::of(&spec(ElementType::F32, count), world, paths)
    };
    let (whole, rounds) = (WHOLE_BUFFER_MAX / 4, CIRCULANT_BUFFER_MAX / 4);
    let directly = DIRECT_WITHIN_MACHINE_MAX / 4;

    assert_eq!(of(whole, 3), Algorithm::Whole(Pattern::Mesh));
    assert_eq!(of(directly, 3), Algorithm::Direct);
    assert_eq!(of(directly + 1, 3), Algorithm::Ring);
    for world in [4, 8] {
        assert_eq!(of(whole, world), GATHERED);
        assert_eq!(of(whole + 1, world), Algorithm::Circulant);
        assert_eq!(of(rounds, world), Algorithm::Circulant);
        assert_eq!(of(rounds + 1, world), Algorithm::Ring);
    }
    let alone = within_a_machine(Reach::Ring);
    let around = Algorithm::of(&spec(ElementType::F32, rounds), 8, alone);
    assert_eq!(around, Algorithm::Ring);
}

#[test]
fn a_mesh_of_two_is_a_ring() {
    for count in [1, WHOLE_BUFFER_MAX] {
        for paths in [between_machines, within_a_machine] {
            let of = |reach| Algorithm::of(&spec(ElementType::F32, count), 2, paths(reach));

            assert_eq!(of(Reach::Mesh), of(Reach::Ring));
            assert_eq!(of(Reach::Mesh).reach(), Reach::Ring);
        }
    }
}

#[test]
fn what_all_ranks_contribute_fits_into_one_frame_or_does_not_travel_whole() {
    let of = |world| {
        let paths = between_machines(Reach::Ring);
        Algorithm::of(&spec(ElementType::U8, WHOLE_BUFFER_MAX), world, paths)
    };
    let fit = FRAME_PAYLOAD_MAX as u64 / WHOLE_BUFFER_MAX;

    assert_eq!(of(fit as u32), WHOLE);
    assert_eq!(of(fit as u32 + 1), Algorithm::Ring);
}

#[test]
fn a_quantized_buffer_is_never_sent_whole_and_takes_no_rounds() {
    let of = |count, paths| {
        let quantized = CollectiveSpec {
            quantization: Quantization::Blockwise4,
            ..spec(ElementType::F32, count)
        };
        Algorithm::of(&quantized, 4, paths)
    };
    let two_levels = Paths {
        two_levels: true,
        ..between_machines(Reach::Mesh)
    };

    for count in [1, WHOLE_BUFFER_MAX / 4] {
        assert_eq!(of(count, between_machines(Reach::Mesh)), Algorithm::Direct);
        assert_eq!(of(count, between_machines(Reach::Ring)), Algorithm::Ring);
        assert_eq!(of(count, within_a_machine(Reach::Mesh)), Algorithm::Ring);
        assert_eq!(of(count, two_levels), Algorithm::TwoLevel);
    }
    let large = DIRECT_BUFFER_MAX / 4 + 1;
    assert_eq!(of(large, between_machines(Reach::Mesh)), Algorithm::Ring);
    assert_eq!(of(large, two_levels), Algorithm::TwoLevel);
}

#[test]
fn a_quantized_gather_takes_no_rounds_and_a_quantized_broadcast_travels_as_any_other() {
    let of = |kind, quantization, count, paths| {
        let spec = CollectiveSpec {
            kind,
            quantization,
            ..spec(ElementType::F32, count)
        };
        Algorithm::of(&spec, 8, paths)
    };
    let gather = CollectiveKind::AllGather {
        laid_out_for: Membership(0),
    };
    let within = within_a_machine(Reach::Mesh);
    let none = Quantization::None;
    let four_bits = Quantization::Blockwise4;

    assert_eq!(of(gather, none, 1000, within), Algorithm::Circulant);
    assert_eq!(of(gather, four_bits, 1000, within), Algorithm::Ring);
    let broadcast = CollectiveKind::Broadcast { root: PeerId(1) };
    let two_levels = Paths {
        two_levels: true,
        ..between_machines(Reach::Mesh)
    };
    let ring = between_machines(Reach::Ring);
    let mesh = between_machines(Reach::Mesh);
    for (paths, expected) in [
        (ring, Algorithm::Chain),
        (mesh, Algorithm::Tree),
        (two_levels, Algorithm::TwoLevel),
    ] {
        for quantization in [none, four_bits] {
            assert_eq!(of(broadcast, quantization, 1000, paths), expected);
        }
    }
}

#[test]
fn large_shards_take_a_ring_of_three_sites_and_a_mesh_of_two() {
    let of = |kind, bytes, paths: Paths| {
        let spec = CollectiveSpec {
            kind,
            ..spec(ElementType::U8, bytes)
        };
        Algorithm::of(&spec, 16, paths)
    };
    let mesh_of_two = Paths {
        two_levels: true,
        ..between_machines(Reach::Mesh)
    };
    let ring_of_three = Paths {
        site_ring: true,
        ..mesh_of_two
    };
    let uneven = Paths {
        even_sites: false,
        ..ring_of_three
    };
    let within_machine = Paths {
        within_machine: true,
        ..ring_of_three
    };
    let small = 16 * SITE_RING_SHARD_MIN;
    let large = small + 16;
    let gather = CollectiveKind::AllGather {
        laid_out_for: Membership(0),
    };

    for kind in [
        CollectiveKind::AllReduce,
        CollectiveKind::ReduceScatter,
        gather,
    ] {
        assert_eq!(of(kind, small, ring_of_three), Algorithm::TwoLevel);
        assert_eq!(of(kind, large, ring_of_three), Algorithm::TwoLevelRing);
        assert_eq!(of(kind, large, mesh_of_two), Algorithm::TwoLevel);
        assert_eq!(of(kind, large, within_machine), Algorithm::TwoLevel);
        // A small site sends more results, and receives more sums, which does not matter if there is only one half.
        let among_uneven = match kind == CollectiveKind::AllReduce {
            true => Algorithm::TwoLevel,
            false => Algorithm::TwoLevelRing,
        };
        assert_eq!(of(kind, large, uneven), among_uneven);
    }
    let broadcast = CollectiveKind::Broadcast { root: PeerId(1) };
    for bytes in [16 * 4 * 1024, DIRECT_BUFFER_MAX] {
        assert_eq!(of(broadcast, bytes, ring_of_three), Algorithm::TwoLevel);
    }
    assert_eq!(of(broadcast, large, ring_of_three), Algorithm::Chain);
}

#[test]
fn an_all_reduce_has_all_sums_at_all_sites_if_these_are_two_or_it_is_small() {
    let of = |sizes: &[u32], kind, bytes, within_machine| {
        let ranks = (0..).zip(sizes);
        let ranks = ranks.flat_map(|(site, size): (u32, _)| (0..*size).map(move |_| site));
        let sites = Sites::of(ranks);
        let spec = CollectiveSpec {
            kind,
            ..spec(ElementType::U8, bytes)
        };
        let paths = Paths {
            two_levels: sites.has_two_levels(),
            site_ring: sites.has_site_ring(),
            sites_whole_max: sites.whole_buffer_max(),
            within_machine,
            ..between_machines(Reach::Mesh)
        };
        Algorithm::of(&spec, sites.world(), paths)
    };
    let (reduce, scatter) = (CollectiveKind::AllReduce, CollectiveKind::ReduceScatter);

    for (sizes, most) in [
        (&[8, 8][..], DIRECT_BUFFER_MAX),
        (&[1, 15], DIRECT_BUFFER_MAX),
        // Each member sends three quarters of the buffer.
        (&[4, 4, 4, 4], 64 * 1024),
        (&[2, 6, 6], 48 * 1024),
    ] {
        assert_eq!(of(sizes, reduce, most, false), Algorithm::TwoLevelWhole);
        assert_eq!(of(sizes, reduce, most + 1, false), Algorithm::TwoLevel);
        assert_eq!(of(sizes, reduce, most, true), Algorithm::TwoLevel);
        assert_eq!(of(sizes, scatter, most, false), Algorithm::TwoLevel);
    }
    // Each member would send twelve times as many bytes to other sites, or three quarters.
    assert_eq!(
        of(&[4, 4, 4, 4], reduce, 4 * 1024, false),
        Algorithm::Whole(Pattern::Mesh)
    );
    assert_eq!(
        of(&[4, 4, 4, 4], reduce, 4 * 1024 + 1, false),
        Algorithm::TwoLevelWhole
    );
    // A member of the smallest site would send 15 buffers, or whole ones to 30 ranks.
    let many = [&[1][..], &[2; 15]].concat();
    for bytes in [4 * 1024, WHOLE_BUFFER_MAX, WHOLE_BUFFER_MAX + 1] {
        assert_eq!(of(&many, reduce, bytes, false), Algorithm::TwoLevel);
    }
}

#[test]
fn sites_are_even_if_none_has_more_than_one_and_a_half_times_as_many_ranks_as_another() {
    let are = |ranks: &[u32]| Sites::of(ranks).are_even();

    for ranks in [&[][..], &[0], &[0, 0, 0], &[0, 1], &[0, 0, 1, 1, 1, 2, 2]] {
        assert!(are(ranks), "{ranks:?}");
    }
    for ranks in [&[0, 1, 1][..], &[0, 0, 1, 1, 1, 1], &[0, 0, 1, 1, 1, 2]] {
        assert!(!are(ranks), "{ranks:?}");
    }
}

/// What reduces so many bytes in the order of the peers.
fn ordered(kind: CollectiveKind, bytes: u64) -> CollectiveSpec {
    CollectiveSpec {
        kind,
        ordered: true,
        ..spec(ElementType::U8, bytes)
    }
}

#[test]
fn what_is_ordered_takes_nothing_but_what_adds_in_the_order_of_the_peers() {
    let of = |kind, bytes, world, paths| Algorithm::of(&ordered(kind, bytes), world, paths);
    let large = DIRECT_BUFFER_MAX * 1000;
    for kind in [CollectiveKind::AllReduce, CollectiveKind::ReduceScatter] {
        for paths in [between_machines, within_a_machine] {
            for two_levels in [false, true] {
                let paths = |reach| Paths {
                    two_levels,
                    ..paths(reach)
                };
                for bytes in [WHOLE_BUFFER_MAX + 1, large] {
                    for world in [3, 9] {
                        let directly = of(kind, bytes, world, paths(Reach::Mesh));
                        assert_eq!(directly, Algorithm::Direct);
                        let around = of(kind, bytes, world, paths(Reach::Ring));
                        assert_eq!(around, Algorithm::Relay);
                    }
                    let of_two = of(kind, bytes, 2, paths(Reach::Mesh));
                    assert_eq!(of_two, Algorithm::Ring);
                }
            }
        }
    }
    let small = of(
        CollectiveKind::AllReduce,
        1,
        3,
        between_machines(Reach::Ring),
    );
    assert_eq!(small, WHOLE);
}

#[test]
fn what_is_ordered_is_relayed_around_a_ring_in_that_order_if_it_is_large() {
    for (paths, directly_max) in [
        (between_machines(Reach::Mesh), DIRECT_BUFFER_MAX),
        (within_a_machine(Reach::Mesh), DIRECT_WITHIN_MACHINE_MAX),
    ] {
        let of = |bytes, in_order| {
            let paths = Paths { in_order, ..paths };
            Algorithm::of(&ordered(CollectiveKind::AllReduce, bytes), 6, paths)
        };

        assert_eq!(of(directly_max, true), Algorithm::Direct);
        assert_eq!(of(directly_max + 1, true), Algorithm::Relay);
        assert_eq!(of(directly_max + 1, false), Algorithm::Direct);
    }
}

#[test]
fn a_ring_is_in_order_if_ids_rise_around_it_from_whichever_rank() {
    let is = |ids: &[u64]| {
        let ring: Vec<PeerId> = ids.iter().copied().map(PeerId).collect();
        is_in_order(&ring)
    };

    for ring in [&[][..], &[7], &[7, 2], &[2, 4, 7], &[4, 7, 2], &[7, 2, 4]] {
        assert!(is(ring), "{ring:?}");
    }
    for ring in [&[7, 4, 2][..], &[2, 7, 4, 9], &[9, 4, 7, 2]] {
        assert!(!is(ring), "{ring:?}");
    }
}

#[test]
fn a_wish_for_another_order_is_not_granted_to_what_is_ordered() {
    for wish in Algorithm::ALL {
        let wished = CollectiveSpec {
            algorithm: Some(wish),
            ..ordered(CollectiveKind::AllReduce, 1000)
        };
        let paths = Paths {
            two_levels: true,
            site_ring: true,
            ..between_machines(Reach::Mesh)
        };
        let taken = Algorithm::of(&wished, 6, paths);
        let in_order = matches!(
            wish,
            Algorithm::Whole(_) | Algorithm::Direct | Algorithm::Relay
        );
        assert_eq!(taken == wish, in_order, "{wish}");
        let unordered = CollectiveSpec {
            ordered: false,
            ..wished
        };
        let granted = !matches!(wish, Algorithm::Chain | Algorithm::Relay | Algorithm::Tree);
        assert_eq!(
            Algorithm::of(&unordered, 6, paths) == wish,
            granted,
            "{wish}"
        );
    }
}

fn broadcast(bytes: u64) -> CollectiveSpec {
    CollectiveSpec {
        kind: CollectiveKind::Broadcast { root: PeerId(1) },
        ..spec(ElementType::U8, bytes)
    }
}

#[test]
fn small_broadcasts_between_machines_take_a_tree_of_the_sites_or_of_all_and_others_the_chain() {
    let of = |bytes, world, paths| Algorithm::of(&broadcast(bytes), world, paths);
    let at_sites = |paths| Paths {
        two_levels: true,
        ..paths
    };
    let mesh = between_machines(Reach::Mesh);
    for bytes in [0, 1, WHOLE_BUFFER_MAX + 1, DIRECT_BUFFER_MAX] {
        for world in [3, 6, 64] {
            assert_eq!(of(bytes, world, mesh), Algorithm::Tree);
            assert_eq!(of(bytes, world, at_sites(mesh)), Algorithm::TwoLevel);
            let ring = between_machines(Reach::Ring);
            assert_eq!(of(bytes, world, ring), Algorithm::Chain);
            let one_machine = within_a_machine(Reach::Mesh);
            for paths in [one_machine, at_sites(one_machine)] {
                assert_eq!(of(bytes, world, paths), Algorithm::Chain);
            }
        }
        for world in [1, 2] {
            assert_eq!(of(bytes, world, mesh), Algorithm::Chain);
        }
    }
    for paths in [mesh, at_sites(mesh)] {
        assert_eq!(of(DIRECT_BUFFER_MAX + 1, 6, paths), Algorithm::Chain);
    }
}

#[test]
fn a_broadcast_is_granted_what_it_wishes_for_if_it_can_take_it() {
    let paths = between_machines(Reach::Mesh);
    let of = |wish, paths| {
        let wished = CollectiveSpec {
            algorithm: Some(wish),
            ..broadcast(DIRECT_BUFFER_MAX + 1)
        };
        Algorithm::of(&wished, 6, paths)
    };
    for wish in Algorithm::ALL {
        let granted = matches!(wish, Algorithm::Chain | Algorithm::Tree);
        assert_eq!(of(wish, paths) == wish, granted, "{wish}");
        let two_levels = true;
        let in_levels = of(
            wish,
            Paths {
                two_levels,
                ..paths
            },
        );
        let granted = granted || wish == Algorithm::TwoLevel;
        assert_eq!(in_levels == wish, granted, "{wish}");
        let ring = between_machines(Reach::Ring);
        assert_eq!(of(wish, ring), Algorithm::Chain);
    }
}

proptest! {
    #![proptest_config(crate::cases::cases(200))]

    #[test]
    fn a_buffer_that_travels_whole_still_does_if_it_is_shorter_or_the_world_smaller(
        count in 0..20_000_u64, less in 0..20_000_u64, world in 1..=64_u32, fewer in 0..64_u32,
        element in prop::sample::select(&ElementType::ALL[..])
    ) {
        let of = |count, world| {
            Algorithm::of(&spec(element, count), world, between_machines(Reach::Ring))
        };

        if of(count, world) == WHOLE {
            let smaller = of(count.saturating_sub(less), world.saturating_sub(fewer).max(1));
            prop_assert_eq!(smaller, WHOLE);
            prop_assert!(count * element.size() as u64 <= WHOLE_BUFFER_MAX);
        }
    }
}
