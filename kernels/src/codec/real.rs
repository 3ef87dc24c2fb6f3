//! The floats that are quantized, and the integers that stand for them.

use std::ops::{Add, Div, Mul, Sub};

use crate::half::{Bf16, F16};
use crate::number::Number;

/// A float to calculate with: `f32` or `f64`.
pub(crate) trait Real:
    Number
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
{
    /// Bits of a number without its sign, in the order of the numbers.
    type Magnitude: Copy + Ord;

    const ZERO: Self;
    const ONE: Self;
    const NAN: Self;
    const MAX: Self;
    const MANTISSA_BITS: u32;
    /// Added to a small number, it leaves the nearest integer in the low bits.
    const MAGIC: Self;
    /// The magnitude of infinity; those of all NaN are greater.
    const INFINITE: Self::Magnitude;
    /// Below this, the inverse of a scale overflows or its scaled offset is inexact.
    const TINY: Self;
    /// A power of two that lifts everything around a range below [`TINY`](Self::TINY).
    const LIFT: Self;
    /// From here on, the difference of two numbers may overflow.
    const HUGE: Self;
    /// A power of two below 1, with which it does not.
    const LOWER: Self;

    fn from_i32(value: i32) -> Self;
    /// The low bits of the integer that was added to [`MAGIC`](Self::MAGIC).
    fn low_bits(self) -> u16;
    fn magnitude(self) -> Self::Magnitude;
    /// The next greater number; `self` is finite and not negative.
    fn next_up(self) -> Self;
    /// The nearest number of so few mantissa bits that its product with a code is exact. `self` is
    /// not negative.
    fn trimmed(self, code_bits: u32) -> Self;
}

macro_rules! real {
    ($real:ident, $bits:ident, $signed:ident, $integer:ident, tiny: $tiny:expr, lift: $lift:expr) => {
        impl Real for $real {
            type Magnitude = $signed;

            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const NAN: Self = $real::NAN;
            const MAX: Self = $real::MAX;
            const MANTISSA_BITS: u32 = $real::MANTISSA_DIGITS;
            const MAGIC: Self = 1.5 * (1_u64 << ($real::MANTISSA_DIGITS - 1)) as $real;
            const INFINITE: $signed = $real::INFINITY.to_bits() as $signed;
            const TINY: Self = power_of_two!($real, $bits, $tiny);
            const LIFT: Self = power_of_two!($real, $bits, $lift);
            const HUGE: Self = $real::MAX / 16.0;
            const LOWER: Self = 0.25;

            #[inline(always)]
            fn from_i32(value: i32) -> Self {
                value as $real
            }

            #[inline(always)]
            fn low_bits(self) -> u16 {
                self.to_bits() as u16
            }

            #[inline(always)]
            fn magnitude(self) -> $signed {
                self.abs().to_bits() as $signed
            }

            #[inline(always)]
            fn next_up(self) -> Self {
                $real::next_up(self)
            }

            #[inline(always)]
            fn trimmed(self, code_bits: u32) -> Self {
                if Self::MANTISSA_BITS < 3 * code_bits {
                    // Too few bits would be left to tell scales apart.
                    return self;
                }
                let last = 1 << code_bits;
                $real::from_bits((self.to_bits() + last / 2) & !(last - 1))
            }
        }
    };
}

/// 2 to `exponent`, which is one of a normal number.
macro_rules! power_of_two {
    ($real:ident, $bits:ident, $exponent:expr) => {
        $real::from_bits(
            (($real::MAX_EXP - 1 + $exponent) as $bits) << ($real::MANTISSA_DIGITS - 1),
        )
    };
}

real!(f32, u32, i32, i32, tiny: -90, lift: 80);
real!(f64, u64, i64, i64, tiny: -900, lift: 500);

/// A type of elements that are quantized.
pub(crate) trait Float: Number {
    /// In which sums of such elements run.
    type Sum: Real;

    /// Exact.
    fn widen(self) -> Self::Sum;
    /// The nearest element; the one NaN for every NaN.
    ///
    /// A decoded value may lie beyond the greatest finite element by no more than `grace`, where
    /// the encoded one did not. It becomes that element, not infinity.
    fn settle(value: Self::Sum, grace: Self::Sum) -> Self;
}

macro_rules! float {
    ($real:ident) => {
        impl Float for $real {
            type Sum = Self;

            #[inline(always)]
            fn widen(self) -> Self {
                self
            }

            #[inline(always)]
            fn settle(value: Self, _: Self) -> Self {
                if value.is_nan() { Self::NAN } else { value }
            }
        }
    };
}

float!(f32);
float!(f64);

macro_rules! half {
    ($half:ident, greatest: $greatest:expr) => {
        impl Float for $half {
            type Sum = f32;

            #[inline(always)]
            fn widen(self) -> f32 {
                self.to_f32()
            }

            #[inline(always)]
            fn settle(value: f32, grace: f32) -> Self {
                const GREATEST: f32 = $greatest;
                let end = GREATEST + grace;
                let low = if value < -GREATEST && value >= -end {
                    -GREATEST
                } else {
                    value
                };
                Self::from_f32(if low > GREATEST && low <= end {
                    GREATEST
                } else {
                    low
                })
            }
        }
    };
}

half!(F16, greatest: 65_504.0);
half!(Bf16, greatest: f32::from_bits(0x7F7F_0000));

/// An integer that stands for a float.
pub(crate) trait Code: Number {
    /// The least code.
    const LEAST: i32;
    /// The greatest code less the least.
    const LEVELS: i32;

    fn from_low_bits(bits: u16) -> Self;
    fn to_i32(self) -> i32;
}

macro_rules! code {
    ($integer:ident) => {
        impl Code for $integer {
            const LEAST: i32 = $integer::MIN as i32;
            const LEVELS: i32 = $integer::MAX as i32 - $integer::MIN as i32;

            #[inline(always)]
            fn from_low_bits(bits: u16) -> Self {
                bits as Self
            }

            #[inline(always)]
            fn to_i32(self) -> i32 {
                self.into()
            }
        }
    };
}

code!(u8);
code!(i8);
code!(u16);
