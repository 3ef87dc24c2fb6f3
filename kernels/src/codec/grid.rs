//! The values that codes stand for: evenly spaced, `offset + (code - zero) · scale`.

use super::real::Real;
use crate::number::Number;

/// How the grid of a frame is laid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// From the least element to the greatest.
    MinMax,
    /// Likewise, after widening to contain 0, which is one of its points.
    ZeroPoint,
}

/// The codes that a grid has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Codes {
    pub(crate) least: i32,
    /// The greatest less the least.
    pub(crate) levels: i32,
}

impl Codes {
    /// Bits of a code.
    pub(crate) const fn bits(self) -> u32 {
        (self.levels + 1).ilog2()
    }
}

/// The least and the greatest of some elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent<R> {
    pub(crate) lo: R,
    pub(crate) hi: R,
    /// None of the elements is infinite or NaN.
    pub(crate) finite: bool,
}

/// What a frame's parameters say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid<R> {
    offset: R,
    zero: R,
    scale: R,
    levels: R,
}

impl<R: Real> Grid<R> {
    /// The grid for elements of this extent.
    #[inline(always)]
    pub(crate) fn fit(kind: Kind, codes: Codes, extent: Extent<R>) -> Self {
        let levels = R::from_i32(codes.levels);
        let least = R::from_i32(codes.least);
        if !extent.finite {
            return Self {
                offset: R::NAN,
                zero: least,
                scale: R::NAN,
                levels,
            };
        }
        let (lo, hi) = match kind {
            Kind::MinMax => (extent.lo, extent.hi),
            Kind::ZeroPoint => (
                Number::min(extent.lo, R::ZERO),
                Number::max(extent.hi, R::ZERO),
            ),
        };
        // Which of the two zeros is the lesser one depends on their order; the sum is always +0.
        let lo = lo + R::ZERO;
        let scale = scale_of(lo, hi, levels, codes.bits());
        match kind {
            Kind::MinMax => Self {
                offset: lo,
                zero: least,
                scale,
                levels,
            },
            Kind::ZeroPoint => {
                let lift = lift_of(scale, levels);
                let steps = (R::ZERO - lo * lift) * inverse(scale * lift);
                let whole = (clamp(steps, R::ZERO, levels) + R::MAGIC) - R::MAGIC;
                Self {
                    offset: R::ZERO,
                    zero: whole + least,
                    scale,
                    levels,
                }
            }
        }
    }

    /// The two numbers at the front of a frame.
    #[inline(always)]
    pub(crate) fn parameters(self, kind: Kind) -> [R; 2] {
        match kind {
            Kind::MinMax => [self.offset, self.scale],
            Kind::ZeroPoint => [self.scale, self.zero],
        }
    }

    /// The grid that [`parameters`](Self::parameters) were taken from; they may be any numbers.
    #[inline(always)]
    pub(crate) fn from_parameters(kind: Kind, codes: Codes, parameters: [R; 2]) -> Self {
        let levels = R::from_i32(codes.levels);
        let [first, second] = parameters;
        match kind {
            Kind::MinMax => Self {
                offset: first,
                zero: R::from_i32(codes.least),
                scale: second,
                levels,
            },
            Kind::ZeroPoint => Self {
                offset: R::ZERO,
                zero: second,
                scale: first,
                levels,
            },
        }
    }

    #[inline(always)]
    pub(crate) fn encoder(self, codes: Codes) -> Encoder<R> {
        let lift = lift_of(self.scale, self.levels);
        let low = R::from_i32(codes.least) - self.zero;
        Encoder {
            lift,
            offset: self.offset * lift,
            inverse: inverse(self.scale * lift),
            low,
            high: low + self.levels,
            magic: R::MAGIC + self.zero,
        }
    }

    #[inline(always)]
    pub(crate) fn decoder(self) -> Decoder<R> {
        let lower = if self.scale * self.levels < R::HUGE {
            R::ONE
        } else {
            R::LOWER
        };
        Decoder {
            zero: self.zero,
            step: self.scale * lower,
            offset: self.offset * lower,
            unit: R::ONE / lower,
            grace: self.scale,
        }
    }
}

/// The distance of two points: the range over the number of steps, and in the subnormals, where
/// that may be too coarse to be near it, the next that is no less.
#[inline(always)]
fn scale_of<R: Real>(lo: R, hi: R, levels: R, code_bits: u32) -> R {
    if lo == hi {
        return R::ZERO;
    }
    let quarter = hi * R::LOWER - lo * R::LOWER;
    let lift = lift(quarter / R::LOWER);
    let wanted = ((hi * lift - lo * lift) / levels).trimmed(code_bits);
    let scale = wanted / lift;
    if scale * lift < wanted {
        scale.next_up()
    } else {
        scale
    }
}

/// The power of two with which `range`, and everything in it, is neither too small nor too large
/// to be calculated with.
#[inline(always)]
fn lift<R: Real>(range: R) -> R {
    if range >= R::HUGE {
        R::LOWER
    } else if range < R::TINY {
        R::LIFT
    } else {
        R::ONE
    }
}

/// [`lift`] for a grid.
#[inline(always)]
fn lift_of<R: Real>(scale: R, levels: R) -> R {
    if scale == R::ZERO {
        R::ONE
    } else {
        lift(scale * levels)
    }
}

/// `1 / scale`, and 0 for the scale of elements that are all the same.
#[inline(always)]
fn inverse<R: Real>(scale: R) -> R {
    if scale == R::ZERO {
        R::ZERO
    } else {
        R::ONE / scale
    }
}

/// A NaN becomes `low`.
#[inline(always)]
fn clamp<R: Real>(value: R, low: R, high: R) -> R {
    let value = if value > low { value } else { low };
    if value < high { value } else { high }
}

/// From numbers to codes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Encoder<R> {
    lift: R,
    offset: R,
    inverse: R,
    low: R,
    high: R,
    magic: R,
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
pub(crate) struct Decoder<R> {
    zero: R,
    step: R,
    offset: R,
    unit: R,
    pub(crate) grace: R,
}

impl<R: Real> Decoder<R> {
    /// What `code` stands for. Rounding does not make it infinite.
    #[inline(always)]
    pub(crate) fn value(self, code: i32) -> R {
        let steps = R::from_i32(code) - self.zero;
        let value = (steps * self.step + self.offset) * self.unit;
        let low = R::ZERO - R::MAX;
        let value = if value < low { low } else { value };
        if value > R::MAX { R::MAX } else { value }
    }
}
