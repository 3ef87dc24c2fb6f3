//! The element types as numbers that are added up.

use pccl::half::{bf16, f16};
use pccl::{Element, ElementType, ReduceOp};

/// An element that can be computed with. Integers wrap.
pub(crate) trait Number: Element {
    /// This whole number. Integers keep its low bits; floats take it as it is, if it is small.
    fn whole(value: i64) -> Self;
    /// `sum` as this type, divided once; integers truncate.
    fn average(sum: i64, by: usize) -> Self {
        Self::whole(sum).over(by)
    }
    /// About this value.
    fn approximate(self) -> f64;
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn larger(self, other: Self) -> Self;
    fn smaller(self, other: Self) -> Self;
    fn over(self, by: usize) -> Self;
}

macro_rules! integers {
    ($($number:ty),*) => {$(
        impl Number for $number {
            fn whole(value: i64) -> Self {
                value as Self
            }
            fn approximate(self) -> f64 {
                self as f64
            }
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            fn larger(self, other: Self) -> Self {
                Ord::max(self, other)
            }
            fn smaller(self, other: Self) -> Self {
                Ord::min(self, other)
            }
            fn over(self, by: usize) -> Self {
                // At most 64 peers, which every type holds.
                self / by as Self
            }
        }
    )*};
}

macro_rules! floats {
    ($($number:ty),*) => {$(
        impl Number for $number {
            fn whole(value: i64) -> Self {
                value as Self
            }
            fn approximate(self) -> f64 {
                self.into()
            }
            fn plus(self, other: Self) -> Self {
                self + other
            }
            fn times(self, other: Self) -> Self {
                self * other
            }
            fn larger(self, other: Self) -> Self {
                if self > other { self } else { other }
            }
            fn smaller(self, other: Self) -> Self {
                if self < other { self } else { other }
            }
            fn over(self, by: usize) -> Self {
                self / by as Self
            }
        }
    )*};
}

macro_rules! halves {
    ($($number:ty),*) => {$(
        impl Number for $number {
            fn whole(value: i64) -> Self {
                Self::from_f32(value as f32)
            }
            fn approximate(self) -> f64 {
                self.to_f64()
            }
            fn plus(self, other: Self) -> Self {
                self + other
            }
            fn times(self, other: Self) -> Self {
                self * other
            }
            fn larger(self, other: Self) -> Self {
                if self > other { self } else { other }
            }
            fn smaller(self, other: Self) -> Self {
                if self < other { self } else { other }
            }
            fn over(self, by: usize) -> Self {
                Self::from_f32(self.to_f32() / by as f32)
            }
        }
    )*};
}

integers!(u8, i8, u16, i16, u32, i32, u64, i64);
floats!(f32, f64);
halves!(f16, bf16);

/// Relative distance of neighbouring numbers of a type; zero for integers.
pub(crate) fn epsilon(element: ElementType) -> f64 {
    match element {
        ElementType::F16 => f16::EPSILON.to_f64(),
        ElementType::BF16 => bf16::EPSILON.to_f64(),
        ElementType::F32 => f32::EPSILON.into(),
        ElementType::F64 => f64::EPSILON,
        ElementType::U8
        | ElementType::I8
        | ElementType::U16
        | ElementType::I16
        | ElementType::U32
        | ElementType::I32
        | ElementType::U64
        | ElementType::I64 => 0.0,
    }
}

/// `into[i] = one[i] op other[i]`. The sum for an average: it is divided at the end.
pub(crate) fn combine_into<T: Number>(op: ReduceOp, into: &mut [T], one: &[T], other: &[T]) {
    match op {
        ReduceOp::Sum | ReduceOp::Avg => each_into(into, one, other, T::plus),
        ReduceOp::Prod => each_into(into, one, other, T::times),
        ReduceOp::Max => each_into(into, one, other, T::larger),
        ReduceOp::Min => each_into(into, one, other, T::smaller),
    }
}

/// `into[i] = into[i] op other[i]`.
pub(crate) fn combine<T: Number>(op: ReduceOp, into: &mut [T], other: &[T]) {
    match op {
        ReduceOp::Sum | ReduceOp::Avg => each(into, other, T::plus),
        ReduceOp::Prod => each(into, other, T::times),
        ReduceOp::Max => each(into, other, T::larger),
        ReduceOp::Min => each(into, other, T::smaller),
    }
}

/// One loop per type and operation: `op` is a zero-sized function, inlined.
fn each_into<T: Number>(into: &mut [T], one: &[T], other: &[T], op: impl Fn(T, T) -> T) {
    for ((into, one), other) in into.iter_mut().zip(one).zip(other) {
        *into = op(*one, *other);
    }
}

fn each<T: Number>(into: &mut [T], other: &[T], op: impl Fn(T, T) -> T) {
    for (into, other) in into.iter_mut().zip(other) {
        *into = op(*into, *other);
    }
}
