//! The values that codes stand for: evenly spaced, `offset + (code - zero) · scale`.

use super::real::Real;
use super::steps::{CarefulSteps, Decoder, Encoder, Points, Steps};

/// The kind of a frame's grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// From the smallest element to the largest.
    MinMax,
    /// As `MinMax`, but widened to contain 0, which is one of its points.
    ZeroPoint,
}

/// The codes of a grid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Codes {
    pub(crate) least: i32,
    /// The largest code minus the smallest.
    pub(crate) levels: i32,
}

impl Codes {
    /// Bits of a code.
    pub(crate) const fn bits(self) -> u32 {
        (self.levels + 1).ilog2()
    }
}

/// The smallest and the largest of some elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent<R> {
    pub(crate) lo: R,
    pub(crate) hi: R,
    /// Whether no element is infinite or NaN.
    pub(crate) finite: bool,
}

/// The grid that a frame's parameters describe.
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
        let (least, levels) = (R::from_i32(codes.least), R::from_i32(codes.levels));
        let (zero, offset, scale) = if !extent.finite {
            (least, R::NAN, R::NAN)
        } else {
            // Which zero is the lesser one depends on their order; the sum is always +0.
            let (lo, hi) = (extent.lo + R::ZERO, extent.hi);
            match kind {
                Kind::MinMax => (least, lo, min_max_scale(lo, hi, levels, codes.bits())),
                Kind::ZeroPoint if lo == hi => {
                    let (zero, scale) = constant(lo, codes);
                    (zero, R::ZERO, scale)
                }
                Kind::ZeroPoint => {
                    let (below, scale) = zero_point(lo, hi, levels, codes.bits());
                    (below + least, R::ZERO, scale)
                }
            }
        };
        Self {
            offset,
            zero,
            scale,
            levels,
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

    /// The grid of these [`parameters`](Self::parameters), which may be any numbers.
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

    /// The decoder for elements whose largest finite value is `greatest`.
    ///
    /// Blocks are so short that the time of this function matters if no point is near the ends.
    #[inline(always)]
    pub(crate) fn decoder(self, codes: Codes, greatest: R) -> Decoder<R> {
        // The product is exact, as `scale` has few bits, or overflows, which shows at the ends. (Where
        // it comes from the network and has many, the result is some number, the same everywhere.)
        let steps = Steps {
            step: self.scale,
            offset: self.offset - self.zero * self.scale,
        };
        let low = steps.value(codes.least);
        let high = steps.value(codes.least + codes.levels);
        // Written so that whatever overflowed is not inside.
        if low > R::ZERO - greatest && high < greatest {
            Decoder::Plain(steps)
        } else {
            Decoder::Careful(self.careful_steps(codes, greatest))
        }
    }

    /// An end that lies beyond `greatest` by no more than one distance is there because of the grid.
    #[cold]
    #[inline(never)]
    fn careful_steps(self, codes: Codes, greatest: R) -> CarefulSteps<R> {
        let step = self.scale * R::LOWER;
        let wide = CarefulSteps {
            lowered: Steps {
                step,
                offset: self.offset * R::LOWER - self.zero * step,
            },
            low: R::ZERO - R::MAX,
            high: R::MAX,
        };
        let least = R::ZERO - greatest;
        let keeps_low = wide.value(codes.least) >= least - self.scale;
        let keeps_high = wide.value(codes.least + codes.levels) <= greatest + self.scale;
        CarefulSteps {
            low: if keeps_low { least } else { wide.low },
            high: if keeps_high { greatest } else { wide.high },
            ..wide
        }
    }
}

/// The distance of two points from `lo` to `hi`.
#[inline(always)]
fn min_max_scale<R: Real>(lo: R, hi: R, levels: R, code_bits: u32) -> R {
    if lo == hi {
        return R::ZERO;
    }
    let lift = lift((hi * R::LOWER - lo * R::LOWER) / R::LOWER);
    scale_of((hi * lift - lo * lift) / levels, lift, code_bits)
}

/// The code of zero, and the distance of two points, where all elements are `value`: zero and it are
/// neighbours on the grid, at codes whose products with any distance are exact, and so is what it
/// decodes to.
#[inline(always)]
fn constant<R: Real>(value: R, codes: Codes) -> (R, R) {
    if value < R::ZERO {
        let zero = if codes.least < 0 { R::ZERO } else { R::ONE };
        (zero, R::ZERO - value)
    } else {
        (R::ZERO, value)
    }
}

/// The number of points below zero, and the distance of two points.
///
/// The farther one of the two extremes is a point, but for the rounding of the distance to few bits,
/// so that what was decoded twice has the same grid again. (A distance of `range / levels`, which makes
/// neither extreme one, lets halves, rounded once more, drift.) The other side gets as many points as reach its
/// extreme, or nearly: within a quarter of a distance, so that rounding does not add one.
#[inline(always)]
fn zero_point<R: Real>(lo: R, hi: R, levels: R, code_bits: u32) -> (R, R) {
    let lo = if lo < R::ZERO { lo } else { R::ZERO };
    let hi = if hi > R::ZERO { hi } else { R::ZERO };
    let lift = lift((hi * R::LOWER - lo * R::LOWER) / R::LOWER);
    let (below, above) = (R::ZERO - lo * lift, hi * lift);
    let (near, far) = if below < above {
        (below, above)
    } else {
        (above, below)
    };
    let few = near / (near + far) * levels + R::QUARTER;
    let few = (few + R::MAGIC) - R::MAGIC;
    let many = levels - few;
    let scale = scale_of(far / many, lift, code_bits);
    (if below < above { few } else { many }, scale)
}

/// The distance of points from a lifted one. In the subnormals, where there may be none that is
/// near it, the next that is no less.
#[inline(always)]
fn scale_of<R: Real>(lifted: R, lift: R, code_bits: u32) -> R {
    let lifted = lifted.trimmed(code_bits);
    let scale = lifted / lift;
    if scale * lift < lifted {
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
