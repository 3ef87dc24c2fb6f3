//! Conversions between numbers and codes, on a grid.

use super::real::Real;

/// A NaN becomes `low`.
#[inline(always)]
fn clamp<R: Real>(value: R, low: R, high: R) -> R {
    let value = if value > low { value } else { low };
    if value < high { value } else { high }
}

/// Converts numbers to codes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Encoder<R> {
    pub(super) lift: R,
    pub(super) offset: R,
    pub(super) inverse: R,
    pub(super) low: R,
    pub(super) high: R,
    pub(super) magic: R,
}

impl<R: Real> Encoder<R> {
    /// The low bits of the code nearest to `value`; of two equally near ones, the even one.
    #[inline(always)]
    pub(crate) fn code(self, value: R) -> u16 {
        let steps = (value * self.lift - self.offset) * self.inverse;
        (clamp(steps, self.low, self.high) + self.magic).low_bits()
    }
}

/// Converts codes to numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Decoder<R> {
    /// The whole grid is inside the range of the elements, its ends excluded.
    Plain(Steps<R>),
    /// Part of the grid may be at an end or beyond, or it is NaN.
    Careful(CarefulSteps<R>),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Steps<R> {
    pub(super) step: R,
    pub(super) offset: R,
}

/// Computes in smaller numbers, and prevents rounding from making a number infinite.
///
/// The outermost points may exceed the largest finite element by up to the distance of two points, although no
/// element did. They become that largest element, not infinity. If they exceed it further, the frame holds sums that
/// the elements' type cannot represent, and all points stay unchanged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CarefulSteps<R> {
    pub(super) lowered: Steps<R>,
    pub(super) low: R,
    pub(super) high: R,
}

/// The values of codes.
pub(crate) trait Points<R>: Copy {
    fn value(self, code: i32) -> R;
}

impl<R: Real> Points<R> for Decoder<R> {
    #[inline(always)]
    fn value(self, code: i32) -> R {
        match self {
            Self::Plain(steps) => steps.value(code),
            Self::Careful(steps) => steps.value(code),
        }
    }
}

impl<R: Real> Points<R> for Steps<R> {
    #[inline(always)]
    fn value(self, code: i32) -> R {
        R::from_i32(code) * self.step + self.offset
    }
}

impl<R: Real> Points<R> for CarefulSteps<R> {
    #[inline(always)]
    fn value(self, code: i32) -> R {
        let value = self.lowered.value(code) / R::LOWER;
        // NaN passes.
        let value = if value < self.low { self.low } else { value };
        if value > self.high { self.high } else { value }
    }
}
