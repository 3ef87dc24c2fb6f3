//! Elements that travel as they are.

use pccl::half::{bf16, f16};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::group::{Group, bytes};
use crate::number::Number;
use crate::reference::{at_once, in_order};
use crate::{OPS, Op, most, sizes};

/// So many numbers for each rank.
pub(crate) fn contributions<T>(world: usize, count: usize, number: fn(u64) -> T) -> Vec<Vec<T>> {
    let mut random = StdRng::seed_from_u64(world as u64);
    let mut own = || (0..count).map(|_| number(random.next_u64())).collect();
    (0..world).map(|_| own()).collect()
}

/// The first elements of each contribution.
pub(crate) fn first<T>(contributions: &[Vec<T>], count: usize) -> Vec<&[T]> {
    contributions.iter().map(|own| &own[..count]).collect()
}

/// All operations and sizes for one type, against `reference`.
fn check_against<T: Number>(
    group: &mut Group,
    numbers: fn(u64) -> T,
    reference: fn(Op, &[&[T]]) -> Vec<T>,
) {
    let world = group.world();
    let contributions = contributions(world, most::<T>(), numbers);
    for op in OPS {
        for count in sizes::<T>(world) {
            let contributions = first(&contributions, count);

            let result = group.reduce(op.reduce(), &contributions);

            let expected = match count {
                0 => Vec::new(),
                _ => reference(op, &contributions),
            };
            if bytes(&result) != bytes(&expected) {
                let differ = |i: &usize| bytes(&result[*i..=*i]) != bytes(&expected[*i..=*i]);
                let i = (0..count).find(differ).unwrap();
                let (got, wanted) = (result[i], expected[i]);
                let what = format!("{op:?} of {count} {} by {world} peers", T::TYPE);
                panic!("{what}: element {i} is {got:?}, not {wanted:?}");
            }
        }
    }
}

fn check_integers<T: Number>(group: &mut Group) {
    check_against(group, T::any, at_once);
}

/// Exact numbers against a reference that knows no order, and others against one that knows it.
fn check_floats<T: Number>(group: &mut Group) {
    check_against(group, T::exact, at_once);
    check_against(group, T::any, in_order);
}

fn every_type_and_operation(world: usize) {
    let mut group = Group::new(world);
    check_integers::<u8>(&mut group);
    check_integers::<i8>(&mut group);
    check_integers::<u16>(&mut group);
    check_integers::<i16>(&mut group);
    check_integers::<u32>(&mut group);
    check_integers::<i32>(&mut group);
    check_integers::<u64>(&mut group);
    check_integers::<i64>(&mut group);
    check_floats::<f16>(&mut group);
    check_floats::<bf16>(&mut group);
    check_floats::<f32>(&mut group);
    check_floats::<f64>(&mut group);
}

#[test]
fn two_peers_get_what_the_definition_says_to_the_last_bit() {
    every_type_and_operation(2);
}

#[test]
fn three_peers_get_what_the_definition_says_to_the_last_bit() {
    every_type_and_operation(3);
}

#[test]
fn four_peers_get_what_the_definition_says_to_the_last_bit() {
    every_type_and_operation(4);
}

#[test]
fn five_peers_get_what_the_definition_says_to_the_last_bit() {
    every_type_and_operation(5);
}
