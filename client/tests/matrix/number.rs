//! What each operation means on two elements, and numbers to reduce.

use pccl::Element;
use pccl::half::{bf16, f16};

use crate::Op;

/// An element type with its arithmetic, spelled out.
pub(crate) trait Number: Element + PartialEq + std::fmt::Debug {
    /// A number from random bits: any for integers, and for floats one of either sign between 1/16 and
    /// 16 with all its bits in use, so that results depend on the order of the operations.
    fn any(random: u64) -> Self;

    /// A number from random bits of which sums, products and averages have an exact value of the type.
    fn exact(random: u64) -> Self;

    /// One step of a reduce, rounded to the type. An average is a sum until it is divided.
    fn combine(self, op: Op, other: Self) -> Self;

    /// The division of an average.
    fn over(self, count: usize) -> Self;

    /// The operation on all numbers at once: exact, and rounded at the very end.
    fn at_once(op: Op, numbers: &[Self]) -> Self;
}

macro_rules! integers {
    ($($integer:ty),*) => {
        $(impl Number for $integer {
            fn any(random: u64) -> Self {
                random as Self
            }

            fn exact(random: u64) -> Self {
                random as Self
            }

            fn combine(self, op: Op, other: Self) -> Self {
                match op {
                    Op::Sum | Op::Avg => self.wrapping_add(other),
                    Op::Prod => self.wrapping_mul(other),
                    Op::Max => Ord::max(self, other),
                    Op::Min => Ord::min(self, other),
                }
            }

            fn over(self, count: usize) -> Self {
                self / count as Self
            }

            // Sums and products modulo 2¹²⁸ are the right ones modulo every smaller power of two.
            fn at_once(op: Op, numbers: &[Self]) -> Self {
                let wide = numbers.iter().map(|number| i128::from(*number));
                match op {
                    Op::Sum => wide.sum::<i128>() as Self,
                    Op::Avg => wide.sum::<i128>() as Self / numbers.len() as Self,
                    Op::Prod => wide.fold(1, i128::wrapping_mul) as Self,
                    Op::Max => wide.max().unwrap() as Self,
                    Op::Min => wide.min().unwrap() as Self,
                }
            }
        })*
    };
}

integers!(u8, i8, u16, i16, u32, i32, u64, i64);

/// A float with its conversions to the type in which each operation is done, and to `f64`.
macro_rules! floats {
    ($($float:ty: computes in $wide:ty, $narrow:expr, from f64 $of_f64:expr;)*) => {
        $(impl Number for $float {
            fn any(random: u64) -> Self {
                let of_f64: fn(f64) -> Self = $of_f64;
                of_f64(any_f64(random))
            }

            fn exact(random: u64) -> Self {
                let of_f64: fn(f64) -> Self = $of_f64;
                of_f64(exact_f64(random))
            }

            fn combine(self, op: Op, other: Self) -> Self {
                let narrow: fn($wide) -> Self = $narrow;
                let (one, two) = (<$wide>::from(self), <$wide>::from(other));
                let result = match op {
                    _ if one.is_nan() || two.is_nan() => <$wide>::NAN,
                    Op::Sum | Op::Avg => one + two,
                    Op::Prod => one * two,
                    // Of two zeros the one with a plus sign is the greater.
                    Op::Max if one == two && one.is_sign_positive() => one,
                    Op::Max => if one > two { one } else { two },
                    Op::Min if one == two && one.is_sign_negative() => one,
                    Op::Min => if one < two { one } else { two },
                };
                // The sign of a computed NaN is up to the processor.
                narrow(if result.is_nan() { <$wide>::NAN } else { result })
            }

            fn over(self, count: usize) -> Self {
                let narrow: fn($wide) -> Self = $narrow;
                let one = <$wide>::from(self);
                narrow(if one.is_nan() { <$wide>::NAN } else { one / count as $wide })
            }

            fn at_once(op: Op, numbers: &[Self]) -> Self {
                let of_f64: fn(f64) -> Self = $of_f64;
                let wide: Vec<f64> = numbers.iter().map(|number| f64::from(*number)).collect();
                of_f64(at_once(op, &wide))
            }
        })*
    };
}

floats! {
    f16: computes in f32, f16::from_f32, from f64 f16::from_f64;
    bf16: computes in f32, bf16::from_f32, from f64 bf16::from_f64;
    f32: computes in f32, |result| result, from f64 |number| number as f32;
    f64: computes in f64, |result| result, from f64 |number| number;
}

/// The operation on all numbers, as exact as `f64` is.
pub(crate) fn at_once(op: Op, numbers: &[f64]) -> f64 {
    let numbers_of = numbers.iter().copied();
    match op {
        Op::Sum => numbers_of.sum(),
        Op::Avg => numbers_of.sum::<f64>() / numbers.len() as f64,
        Op::Prod => numbers_of.product(),
        Op::Max => numbers_of.fold(f64::NEG_INFINITY, f64::max),
        Op::Min => numbers_of.fold(f64::INFINITY, f64::min),
    }
}

/// From 1/16 to 16, either sign, with a full mantissa.
fn any_f64(random: u64) -> f64 {
    let fraction = (random >> 12) as f64 / 2_f64.powi(52);
    let exponent = (random & 7) as i32 - 4;
    signed(random, (1.0 + fraction) * 2_f64.powi(exponent))
}

/// A half, one, two or four, of either sign.
fn exact_f64(random: u64) -> f64 {
    let exponent = (random >> 32 & 3) as i32 - 1;
    signed(random, 2_f64.powi(exponent))
}

fn signed(random: u64, magnitude: f64) -> f64 {
    if random & 8 == 0 {
        magnitude
    } else {
        -magnitude
    }
}
