//! The smallest and the largest of many elements.

use super::grid::Extent;
use super::real::{Float, Real};

/// Without elements, both are 0.
///
/// The comparisons are those of integers. With floats, whose minimum has two answers for zeros of different sign and
/// more for NaN, such a loop would not compile to SIMD code.
#[inline(always)]
pub(super) fn extent<E: Float>(elements: &[E::Bytes]) -> Extent<E::Sum> {
    let first = match elements.first() {
        Some(first) => E::from_bytes(*first).key(),
        None => E::narrow(E::Sum::ZERO).key(),
    };
    let (mut lo, mut hi) = (first, first);
    for element in elements {
        let key = E::from_bytes(*element).key();
        lo = lo.min(key);
        hi = hi.max(key);
    }
    let [least, greatest] = E::INFINITE;
    Extent {
        lo: E::from_key(lo).widen(),
        hi: E::from_key(hi).widen(),
        finite: lo > least && hi < greatest,
    }
}
