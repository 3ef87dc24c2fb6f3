//! Floats that travel in fewer bits: within the stated bound of the exact result.

use pccl::half::{bf16, f16};
use pccl::{Algorithm, Broadcast, Element, ElementType, Gather, Quantization, Reduce};

use crate::algorithms::{MOST, Peers, WORLDS, gathered, spread_by};
use crate::group::{Group, bytes};
use crate::number::at_once;
use crate::plain::{contributions, first};
use crate::support::together_with;
use crate::{OPS, Op, most, sizes};

pub(crate) const QUANTIZATIONS: [Quantization; 5] = [
    Quantization::MinMax {
        to: ElementType::U8,
    },
    Quantization::MinMax {
        to: ElementType::U16,
    },
    Quantization::ZeroPointScale {
        to: ElementType::U8,
    },
    Quantization::ZeroPointScale {
        to: ElementType::I8,
    },
    Quantization::Blockwise4,
];

/// No contributed number is larger.
const LARGEST: f64 = 1.5;

/// The largest error of many is a good part of the bound: a bound that is much too wide says nothing.
/// (Products of numbers below the largest are far smaller, and halves add their own rounding.)
const LEAST_OF_BOUND: f64 = 0.2;

/// Evenly spread from `-LARGEST` to `LARGEST`.
fn spread(random: u64) -> f64 {
    ((random >> 11) as f64 / 2_f64.powi(52) - 1.0) * LARGEST
}

/// What each peer contributes.
fn numbers<T>(world: usize, count: usize, of_f64: fn(f64) -> T) -> Vec<Vec<T>> {
    contributions(world, count, spread)
        .into_iter()
        .map(|own| own.into_iter().map(of_f64).collect())
        .collect()
}

/// All quantizations, operations and sizes for one type.
fn check<T: Element>(group: &mut Group, of_f64: fn(f64) -> T)
where
    f64: From<T>,
{
    let world = group.world();
    let numbers = numbers(world, most::<T>(), of_f64);
    for op in OPS {
        let exact = exact(op, &numbers);
        for quantization in QUANTIZATIONS {
            let around = op.reduce().algorithm(Algorithm::Ring);
            let reduce = around.quantize(quantization);
            let bound = reduce.error_bound(T::TYPE, world, LARGEST).unwrap();
            for count in sizes::<T>(world) {
                let result = group.reduce(reduce, &first(&numbers, count));

                let what = format!("{op:?} of {count} {}, {quantization}", T::TYPE);
                let errors = result.iter().zip(&exact);
                let errors = errors.map(|(got, exact)| (f64::from(*got) - exact).abs());
                let largest = errors.fold(0.0, f64::max) / bound;
                assert!(largest <= 1.0, "{what}: {largest} times the bound");
                let tells = count == most::<T>() && op != Op::Prod && size_of::<T>() > 2;
                let least = if tells { LEAST_OF_BOUND } else { 0.0 };
                assert!(largest >= least, "{what}: only {largest} of the bound");
            }
        }
    }
}

fn exact<T: Element>(op: Op, contributions: &[Vec<T>]) -> Vec<f64>
where
    f64: From<T>,
{
    let element = |index: usize| {
        let numbers: Vec<f64> = contributions.iter().map(|own| own[index].into()).collect();
        at_once(op, &numbers)
    };
    (0..contributions[0].len()).map(element).collect()
}

fn every_float_and_quantization(world: usize) {
    let mut group = Group::new(world);
    check::<f16>(&mut group, f16::from_f64);
    check::<bf16>(&mut group, bf16::from_f64);
    check::<f32>(&mut group, |number| number as f32);
    check::<f64>(&mut group, |number| number);
}

#[test]
fn two_peers_get_the_same_bits_within_the_bound() {
    every_float_and_quantization(2);
}

#[test]
fn three_peers_get_the_same_bits_within_the_bound() {
    every_float_and_quantization(3);
}

#[test]
fn four_peers_get_the_same_bits_within_the_bound() {
    every_float_and_quantization(4);
}

#[test]
fn five_peers_get_the_same_bits_within_the_bound() {
    every_float_and_quantization(5);
}

/// All quantizations and operations for one type, by one algorithm.
fn check_by<T: Element>(peers: &mut Peers, wish: Algorithm, of_f64: fn(f64) -> T)
where
    f64: From<T>,
{
    let world = peers.world();
    let numbers = numbers(world, MOST, of_f64);
    for op in OPS {
        let exact = exact(op, &numbers);
        for quantization in QUANTIZATIONS {
            let reduce = op.reduce().algorithm(wish).quantize(quantization);
            let bound = reduce.error_bound(T::TYPE, world, LARGEST).unwrap();
            let is_costly = op != Op::Sum || size_of::<T>() != 4;
            let most = if is_costly { 1025 } else { MOST };
            for count in [0, 1, world - 1, world, most] {
                let own = first(&numbers, count);
                let result = reduced_by(peers, (wish, reduce), &own);
                for (got, exact) in result.iter().zip(&exact) {
                    let error = (f64::from(*got) - exact).abs();
                    assert!(
                        error <= bound,
                        "{reduce:?} of {count} {}: {error} of {bound}",
                        T::TYPE
                    );
                }
            }
        }
    }
}

/// A gather and a broadcast of all sizes, of which every peer has to have the same bits, within the bound.
fn check_copies_by<T: Element>(peers: &mut Peers, wish: Algorithm, of_f64: fn(f64) -> T)
where
    f64: From<T>,
{
    let world = peers.world();
    let numbers = numbers(world, MOST, of_f64);
    for quantization in QUANTIZATIONS {
        for count in [0, 1, world - 1, world, 1025, MOST] {
            let own = first(&numbers, count);
            let of_root = count % world;
            let root = peers.all()[of_root].peer_id();
            let broadcast = Broadcast::from(root).quantize(quantization);
            let broadcast = broadcast.algorithm(spread_by(wish));
            let bound = broadcast.error_bound(T::TYPE, LARGEST).unwrap();
            let results = together_with(peers.all(), |index, peer| {
                let (mut all, mut spread) = (own[index].to_vec(), own[index].to_vec());
                let gather = Gather::of(peer.shard(count)).quantize(quantization);
                assert_eq!(gather.error_bound(T::TYPE, LARGEST), Some(bound));
                peer.all_gather(&mut all, gather.algorithm(wish)).unwrap();
                peer.broadcast(&mut spread, broadcast).unwrap();
                [all, spread]
            });

            let what = format!("{wish}, {count} {}, {quantization}", T::TYPE);
            for (which, exact) in [gathered(&own), own[of_root].to_vec()].iter().enumerate() {
                let result = &results[0][which];
                for other in &results {
                    assert!(bytes(&other[which]) == bytes(result), "{what}");
                }
                for (got, exact) in result.iter().zip(exact) {
                    let error = (f64::from(*got) - f64::from(*exact)).abs();
                    assert!(error <= bound, "{what}: {error} of {bound}");
                }
            }
        }
    }
}

fn copies_by(sites: usize, wish: Algorithm) {
    for world in WORLDS {
        let mut peers = Peers::at(sites, world);
        check_copies_by::<f16>(&mut peers, wish, f16::from_f64);
        check_copies_by::<bf16>(&mut peers, wish, bf16::from_f64);
        check_copies_by::<f32>(&mut peers, wish, |number| number as f32);
        check_copies_by::<f64>(&mut peers, wish, |number| number);
    }
}

#[test]
fn what_is_only_copied_around_a_ring_or_directly_is_within_the_bound_on_all_peers() {
    copies_by(1, Algorithm::Ring);
    copies_by(1, Algorithm::Direct);
}

#[test]
fn what_is_only_copied_in_two_levels_is_within_the_bound_on_all_peers() {
    copies_by(2, Algorithm::TwoLevel);
    copies_by(3, Algorithm::TwoLevel);
    copies_by(3, Algorithm::TwoLevelRing);
}

/// The result of an all-reduce. All peers have to have its bits, and those of its shards if it is scattered.
fn reduced_by<T: Element>(
    peers: &mut Peers,
    (wish, reduce): (Algorithm, Reduce),
    own: &[&[T]],
) -> Vec<T> {
    let granted = peers.can_reduce_by(wish);
    let mut results = together_with(peers.all(), |index, peer| {
        let mut result = own[index].to_vec();
        let report = peer.all_reduce(&mut result, reduce).unwrap();
        assert!(!granted || report.algorithm == wish, "{report}");
        let mut scattered = own[index].to_vec();
        let shard = peer.reduce_scatter(&mut scattered, reduce).unwrap().shard;
        let range = shard.range();
        assert!(bytes(&scattered[range.clone()]) == bytes(&result[range]));
        result
    });
    let first = results.swap_remove(0);
    for other in &results {
        assert!(bytes(&first) == bytes(other), "{reduce:?} of {}", T::TYPE);
    }
    first
}

fn every_float_by(sites: usize, wish: Algorithm) {
    for world in WORLDS {
        let mut peers = Peers::at(sites, world);
        check_by::<f16>(&mut peers, wish, f16::from_f64);
        check_by::<bf16>(&mut peers, wish, bf16::from_f64);
        check_by::<f32>(&mut peers, wish, |number| number as f32);
        check_by::<f64>(&mut peers, wish, |number| number);
    }
}

#[test]
fn directly_all_get_the_same_bits_within_the_bound() {
    every_float_by(1, Algorithm::Direct);
}

#[test]
fn in_two_levels_among_two_sites_all_get_the_same_bits_within_the_bound() {
    every_float_by(2, Algorithm::TwoLevel);
}

#[test]
fn in_two_levels_among_three_sites_all_get_the_same_bits_within_the_bound() {
    every_float_by(3, Algorithm::TwoLevel);
}

#[test]
fn in_a_ring_of_three_sites_all_get_the_same_bits_within_the_bound() {
    every_float_by(3, Algorithm::TwoLevelRing);
}
