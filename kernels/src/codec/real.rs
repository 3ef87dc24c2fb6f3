//! The floats that are quantized, and the integers that stand for them.

use std::ops::{Add, Div, Mul, Sub};

use crate::half::{Bf16, F16};
use crate::number::Number;

/// A float type for computations: `f32` or `f64`.
pub(crate) trait Real:
    Number
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
{
    const ZERO: Self;
    const ONE: Self;
    const QUARTER: Self;
    const NAN: Self;
    const MAX: Self;
    const MANTISSA_BITS: u32;
    /// Added to a small number, it leaves the nearest integer in the low bits.
    const MAGIC: Self;
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
    /// The next greater number; `self` is finite and not negative.
    fn next_up(self) -> Self;
    /// The nearest number of so few mantissa bits that its product with a code is exact. `self` is
    /// not negative.
    fn trimmed(self, code_bits: u32) -> Self;
}

macro_rules! real {
    ($real:ident, $bits:ident, tiny: $tiny:expr, lift: $lift:expr) => {
        impl Real for $real {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const QUARTER: Self = 0.25;
            const NAN: Self = $real::NAN;
            const MAX: Self = $real::MAX;
            const MANTISSA_BITS: u32 = $real::MANTISSA_DIGITS;
            const MAGIC: Self = 1.5 * (1_u64 << ($real::MANTISSA_DIGITS - 1)) as $real;
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
                $real::from_bits(self.to_bits().wrapping_add(last / 2) & !(last - 1))
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

real!(f32, u32, tiny: -90, lift: 80);
real!(f64, u64, tiny: -900, lift: 500);

/// A type of elements that can be quantized.
pub(crate) trait Float: Number {
    /// The type of their sums.
    type Sum: Real;
    /// A signed integer in the order of the elements. NaN lies beyond the infinities.
    type Key: Copy + Ord;

    /// The greatest finite element.
    const GREATEST: Self::Sum;
    /// The least and the greatest key that are not of finite elements.
    const INFINITE: [Self::Key; 2];

    /// Exact.
    fn widen(self) -> Self::Sum;
    /// The nearest element; the one NaN for every NaN.
    fn narrow(value: Self::Sum) -> Self;
    fn key(self) -> Self::Key;
    fn from_key(key: Self::Key) -> Self;
}

macro_rules! float {
    ($real:ident, $bits:ident, $key:ident) => {
        impl Float for $real {
            type Sum = Self;
            type Key = $key;

            const GREATEST: Self = $real::MAX;
            const INFINITE: [$key; 2] = {
                let key = $real::INFINITY.to_bits() as $key;
                [!key, key]
            };

            #[inline(always)]
            fn widen(self) -> Self {
                self
            }

            #[inline(always)]
            fn narrow(value: Self) -> Self {
                if value.is_nan() { Self::NAN } else { value }
            }

            /// Negative numbers with all bits but the sign inverted.
            #[inline(always)]
            fn key(self) -> $key {
                let bits = self.to_bits() as $key;
                bits ^ ((bits >> ($key::BITS - 1)) & $key::MAX)
            }

            #[inline(always)]
            fn from_key(key: $key) -> Self {
                Self::from_bits((key ^ ((key >> ($key::BITS - 1)) & $key::MAX)) as $bits)
            }
        }
    };
}

float!(f32, u32, i32);
float!(f64, u64, i64);

macro_rules! half {
    ($half:ident, greatest: $greatest:expr) => {
        impl Float for $half {
            type Sum = f32;
            type Key = i16;

            const GREATEST: f32 = f32::from_bits($greatest);
            const INFINITE: [i16; 2] = [!(Self::INFINITY as i16), Self::INFINITY as i16];

            #[inline(always)]
            fn widen(self) -> f32 {
                self.to_f32()
            }

            #[inline(always)]
            fn narrow(value: f32) -> Self {
                Self::from_f32(value)
            }

            #[inline(always)]
            fn key(self) -> i16 {
                $half::key(self)
            }

            #[inline(always)]
            fn from_key(key: i16) -> Self {
                $half::from_key(key)
            }
        }
    };
}

half!(F16, greatest: 0x477F_E000);
half!(Bf16, greatest: 0x7F7F_0000);

/// An integer type for codes.
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
