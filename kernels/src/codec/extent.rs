//! The least and the greatest of many elements.

use super::grid::Extent;
use super::real::{Float, Real};

/// One of each of several independent chains of comparisons, so that they run side by side. Their
/// number shows in no result.
struct Lanes<E: Float, const LANES: usize> {
    /// Where each chain starts.
    first: E,
    lo: [E::Ordered; LANES],
    hi: [E::Ordered; LANES],
    largest: [E::Magnitude; LANES],
}

/// Of no elements: a single 0. `LANES` is a power of two.
#[inline(always)]
pub(super) fn extent<E: Float, const LANES: usize>(elements: &[E::Bytes]) -> Extent<E::Sum> {
    let first = match elements.first() {
        Some(first) => E::from_bytes(*first),
        None => E::narrow(E::Sum::ZERO),
    };
    let mut lanes = Lanes::<E, LANES> {
        first,
        lo: [first.ordered(); LANES],
        hi: [first.ordered(); LANES],
        largest: [first.magnitude(); LANES],
    };
    let (chunks, rest) = elements.as_chunks::<LANES>();
    for chunk in chunks {
        lanes.take(chunk);
    }
    lanes.take_some(rest);
    lanes.fold()
}

impl<E: Float, const LANES: usize> Lanes<E, LANES> {
    /// One loop for each of the three: together they would not become SIMD code. (Neither would
    /// the `map` of arrays, which is not inlined.)
    #[inline(always)]
    fn take(&mut self, elements: &[E::Bytes; LANES]) {
        for (lo, element) in self.lo.iter_mut().zip(elements) {
            *lo = lesser(E::from_bytes(*element).ordered(), *lo);
        }
        for (hi, element) in self.hi.iter_mut().zip(elements) {
            *hi = greater(E::from_bytes(*element).ordered(), *hi);
        }
        for (largest, element) in self.largest.iter_mut().zip(elements) {
            *largest = (*largest).max(E::from_bytes(*element).magnitude());
        }
    }

    /// Fewer elements than lanes.
    #[inline(always)]
    fn take_some(&mut self, elements: &[E::Bytes]) {
        for (i, element) in elements.iter().enumerate().take(LANES) {
            let value = E::from_bytes(*element);
            self.lo[i] = lesser(value.ordered(), self.lo[i]);
            self.hi[i] = greater(value.ordered(), self.hi[i]);
            self.largest[i] = self.largest[i].max(value.magnitude());
        }
    }

    #[inline(always)]
    fn fold(self) -> Extent<E::Sum> {
        let (mut lo, mut hi) = (self.first.ordered(), self.first.ordered());
        let mut largest = self.first.magnitude();
        for i in 0..LANES {
            lo = lesser(self.lo[i], lo);
            hi = greater(self.hi[i], hi);
            largest = largest.max(self.largest[i]);
        }
        Extent {
            lo: E::from_ordered(lo).widen(),
            hi: E::from_ordered(hi).widen(),
            finite: largest < E::INFINITE,
        }
    }
}

#[inline(always)]
fn lesser<T: PartialOrd>(a: T, b: T) -> T {
    if a < b { a } else { b }
}

#[inline(always)]
fn greater<T: PartialOrd>(a: T, b: T) -> T {
    if a > b { a } else { b }
}
