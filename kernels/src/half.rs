//! The two 16-bit floats. Each operation is that of `f32`, rounded once to the half.
//!
//! The conversions are integer arithmetic and selects, the same on every machine. So a loop over them compiles to
//! SIMD code without the conversion instructions, which only some processors have. Additions are wrapping even if
//! they cannot overflow, because an overflow check would prevent SIMD code.

use crate::number::{Number, Real, in_bytes};

/// IEEE 754 binary16, by its bits.
#[derive(Clone, Copy)]
pub(crate) struct F16(u16);

/// The upper half of an `f32`, by its bits.
#[derive(Clone, Copy)]
pub(crate) struct Bf16(u16);

impl F16 {
    /// Exact. A NaN becomes some NaN.
    #[inline(always)]
    pub(crate) fn to_f32(self) -> f32 {
        /// 2⁻¹⁴, where the normal numbers begin.
        const LEAST_NORMAL: f32 = f32::from_bits((127 - 14) << 23);
        let bits = u32::from(self.0);
        let sign = (bits & 0x8000) << 16;
        let shifted = (bits & 0x7FFF) << 13;
        let exponent = shifted & (0x1F << 23);

        let normal = shifted.wrapping_add((127 - 15) << 23);
        let not_finite = shifted.wrapping_add((255 - 31) << 23);
        // The mantissa beside the exponent of the least normal, from which that is subtracted.
        let subnormal = f32::from_bits(shifted.wrapping_add((127 - 14) << 23)) - LEAST_NORMAL;

        let finite = if exponent == 0 {
            subnormal.to_bits()
        } else {
            normal
        };
        let magnitude = if exponent == 0x1F << 23 {
            not_finite
        } else {
            finite
        };
        f32::from_bits(magnitude | sign)
    }

    /// Rounds to nearest, ties to even. A NaN becomes the one without payload.
    #[inline(always)]
    pub(crate) fn from_f32(value: f32) -> Self {
        /// 2¹⁶: everything from here on is infinite. (What lies between the greatest finite half
        /// and this rounds up to infinity by carrying into the exponent.)
        const INFINITE: u32 = (127 + 16) << 23;
        const LEAST_NORMAL: u32 = (127 - 14) << 23;
        /// A float whose last mantissa bit counts 2⁻²⁴, as the last bit of a subnormal half does.
        const ALIGN: f32 = 0.5;
        let bits = value.to_bits();
        let sign = (bits >> 16) & 0x8000;
        let magnitude = bits & 0x7FFF_FFFF;

        let aligned = (f32::from_bits(magnitude) + ALIGN).to_bits();
        let subnormal = aligned.wrapping_sub(ALIGN.to_bits());
        let odd = (magnitude >> 13) & 1;
        let rebased = magnitude.wrapping_sub((127 - 15) << 23);
        let normal = rebased.wrapping_add(0xFFF + odd) >> 13;

        let finite = if magnitude < LEAST_NORMAL {
            subnormal
        } else {
            normal
        };
        let number = if magnitude >= INFINITE {
            0x7C00
        } else {
            finite
        };
        let half = if magnitude > 0x7F80_0000 {
            0x7E00
        } else {
            number | sign
        };
        Self(half as u16)
    }
}

impl Bf16 {
    /// Exact. A NaN becomes some NaN.
    #[inline(always)]
    pub(crate) fn to_f32(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }

    /// Rounds to nearest, ties to even. A NaN becomes the one without payload.
    #[inline(always)]
    pub(crate) fn from_f32(value: f32) -> Self {
        Self((Self::round(value) >> 16) as u16)
    }

    /// The nearest value in the upper half. The lower half is arbitrary.
    #[inline(always)]
    fn round(value: f32) -> u32 {
        // A select after the rounding, among 16-bit numbers, would take three instructions more.
        let bits = if value.is_nan() { f32::NAN } else { value }.to_bits();
        let odd = (bits >> 16) & 1;
        // Carries into the exponent, and from the greatest finite one to infinity, where it must.
        bits.wrapping_add(0x7FFF + odd)
    }
}

/// Two adjacent [`Bf16`], the first in the lower half.
///
/// For speed: both halves of a word are computed in place, so nothing is widened and narrowed.
#[derive(Clone, Copy)]
pub(crate) struct Bf16Pair(u32);

/// Length of the part of `bytes` bytes of [`Bf16`] that consists of whole pairs. One element may be left.
pub(crate) const fn whole_pairs(bytes: usize) -> usize {
    bytes - bytes % size_of::<Bf16Pair>()
}

impl Bf16Pair {
    #[inline(always)]
    fn each(self, other: Self, op: impl Fn(f32, f32) -> f32) -> Self {
        let upper = |pair: u32| f32::from_bits(pair & 0xFFFF_0000);
        let lower = |pair: u32| f32::from_bits(pair << 16);
        let up = Bf16::round(op(upper(self.0), upper(other.0)));
        let low = Bf16::round(op(lower(self.0), lower(other.0)));
        Self((up & 0xFFFF_0000) | (low >> 16))
    }
}

impl Number for Bf16Pair {
    in_bytes!(u32);

    #[inline(always)]
    fn from_bytes(bytes: Self::Bytes) -> Self {
        Self(u32::from_le_bytes(bytes))
    }

    #[inline(always)]
    fn to_bytes(self) -> Self::Bytes {
        self.0.to_le_bytes()
    }

    #[inline(always)]
    fn sum(self, other: Self) -> Self {
        self.each(other, |a, b| a + b)
    }

    #[inline(always)]
    fn prod(self, other: Self) -> Self {
        self.each(other, |a, b| a * b)
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        self.each(other, Number::max)
    }

    #[inline(always)]
    fn min(self, other: Self) -> Self {
        self.each(other, Number::min)
    }

    #[inline(always)]
    fn over(self, by: u32) -> Self {
        self.each(self, |a, _| a / by as f32)
    }
}

impl Real for Bf16Pair {
    #[inline(always)]
    fn times(self, factor: f64) -> Self {
        self.each(self, |a, _| a.times(factor))
    }
}

macro_rules! through_f32 {
    ($half:ty, infinity: $infinity:expr, nan: $nan:expr) => {
        impl $half {
            pub(crate) const INFINITY: u16 = $infinity;

            /// In the order of the numbers, NaN beyond the infinities: negative numbers with all
            /// bits but the sign inverted.
            #[inline(always)]
            pub(crate) fn key(self) -> i16 {
                let bits = self.0 as i16;
                bits ^ ((bits >> 15) & i16::MAX)
            }

            #[inline(always)]
            pub(crate) fn from_key(key: i16) -> Self {
                Self((key ^ ((key >> 15) & i16::MAX)) as u16)
            }

            /// `result`, or the one NaN if one of the two is a NaN.
            #[inline(always)]
            fn or_nan(self, other: Self, result: Self) -> Self {
                let magnitude = |half: Self| half.0 as i16 & i16::MAX;
                let larger = Ord::max(magnitude(self), magnitude(other));
                Self(if larger > Self::INFINITY as i16 {
                    $nan
                } else {
                    result.0
                })
            }

            #[cfg(test)]
            pub(crate) fn from_bits(bits: u16) -> Self {
                Self(bits)
            }

            #[cfg(test)]
            pub(crate) fn to_bits(self) -> u16 {
                self.0
            }
        }

        impl Number for $half {
            in_bytes!(u16);

            #[inline(always)]
            fn from_bytes(bytes: Self::Bytes) -> Self {
                Self(u16::from_le_bytes(bytes))
            }

            #[inline(always)]
            fn to_bytes(self) -> Self::Bytes {
                self.0.to_le_bytes()
            }

            #[inline(always)]
            fn sum(self, other: Self) -> Self {
                Self::from_f32(self.to_f32() + other.to_f32())
            }

            #[inline(always)]
            fn prod(self, other: Self) -> Self {
                Self::from_f32(self.to_f32() * other.to_f32())
            }

            // What `f32` would give, by comparing the bits.

            #[inline(always)]
            fn max(self, other: Self) -> Self {
                let greater = Ord::max(self.key(), other.key());
                self.or_nan(other, Self::from_key(greater))
            }

            #[inline(always)]
            fn min(self, other: Self) -> Self {
                let lesser = Ord::min(self.key(), other.key());
                self.or_nan(other, Self::from_key(lesser))
            }

            #[inline(always)]
            fn over(self, by: u32) -> Self {
                Self::from_f32(self.to_f32() / by as f32)
            }
        }

        impl Real for $half {
            #[inline(always)]
            fn times(self, factor: f64) -> Self {
                Self::from_f32(self.to_f32().times(factor))
            }
        }
    };
}

through_f32!(F16, infinity: 0x7C00, nan: 0x7E00);
through_f32!(Bf16, infinity: 0x7F80, nan: 0x7FC0);
