//! The loops over the codes of one grid, for every layout of a frame.

use super::real::{Float, Real};
use super::steps::Points;
use crate::number::Number;

/// Runs a loop with the points of a grid. Its body exists once for plain grids and once for those that need care.
macro_rules! with_points {
    ($decoder:expr, |$points:ident| $run:expr) => {
        match $decoder {
            Decoder::Plain($points) => $run,
            Decoder::Careful($points) => rarely(move || $run),
        }
    };
}
pub(super) use with_points;

/// `sums[i] = codes[i] op own[i]`, up to the shortest slice.
#[inline(always)]
pub(super) fn reduce<E: Float>(
    points: impl Points<E::Sum>,
    op: impl Fn(E::Sum, E::Sum) -> E::Sum,
    codes: impl Iterator<Item = i32>,
    own: &[E::Bytes],
    sums: &mut [<E::Sum as Number>::Bytes],
) {
    for (sum, (code, own)) in sums.iter_mut().zip(codes.zip(own)) {
        *sum = op(points.value(code), E::from_bytes(*own).widen()).to_bytes();
    }
}

/// `elements[i] = codes[i]`, up to the shorter slice.
#[inline(always)]
pub(super) fn decode<E: Float>(
    points: impl Points<E::Sum>,
    codes: impl Iterator<Item = i32>,
    elements: &mut [E::Bytes],
) {
    for (element, code) in elements.iter_mut().zip(codes) {
        *element = E::narrow(points.value(code)).to_bytes();
    }
}

/// A loop that is needed so rarely that one version for all instruction sets is enough.
#[cold]
#[inline(never)]
pub(super) fn rarely(run: impl FnOnce()) {
    run();
}

/// The error of an element. Zero if its frame (or block) is not finite.
#[inline(always)]
pub(super) fn lost<R: Real>(value: R, decoded: R, finite: bool) -> R {
    if finite { value - decoded } else { R::ZERO }
}
