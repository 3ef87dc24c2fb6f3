//! From numbers to codes and back, on a grid.

use super::real::Real;

/// A NaN becomes `low`.
#[inline(always)]
fn clamp<R: Real>(value: R, low: R, high: R) -> R {
    let value = if value > low { value } else { low };
    if value < high { value } else { high }
}

/// From numbers to codes.
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
    /// The low bits of the code of `value`: the nearest one, of two equally near ones the even.
    #[inline(always)]
    pub(crate) fn code(self, value: R) -> u16 {
        let steps = (value * self.lift - self.offset) * self.inverse;
        (clamp(steps, self.low, self.high) + self.magic).low_bits()
    }
}

/// From codes to numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Decoder<R> {
    /// The whole grid is inside the range of the elements, its ends excluded.
    Plain(Steps<R>),
    /// Part of it may be at an end or beyond, or nothing is a number.
    Careful(CarefulSteps<R>),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Steps<R> {
    pub(super) step: R,
    pub(super) offset: R,
}

/// Calculates in smaller numbers and keeps rounding from making a number infinite.
///
/// The outermost points may lie beyond the greatest finite element, by up to the distance of two,
/// although no element did: they become that greatest one, not infinity. Where they lie farther out,
/// sums were encoded that the elements' type does not hold, and all points stay where they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CarefulSteps<R> {
    pub(super) lowered: Steps<R>,
    pub(super) low: R,
    pub(super) high: R,
}

/// What codes stand for.
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
