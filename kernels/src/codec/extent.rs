//! The least and the greatest of many elements.

use super::grid::Extent;
use super::real::{Float, Real};

/// Independent chains of comparisons, so that several run at a time. Their number shows in no
/// result.
const LANES: usize = 32;

/// One of each chain.
struct Lanes<R: Real> {
    lo: [R; LANES],
    hi: [R; LANES],
    largest: [R::Magnitude; LANES],
}

/// Of no elements: a single 0.
#[inline(always)]
pub(super) fn extent<E: Float>(elements: &[E::Bytes]) -> Extent<E::Sum> {
    let first = match elements.first() {
        Some(first) => E::from_bytes(*first).widen(),
        None => E::Sum::ZERO,
    };
    let mut lanes = Lanes {
        lo: [first; LANES],
        hi: [first; LANES],
        largest: [first.magnitude(); LANES],
    };
    let (chunks, rest) = elements.as_chunks::<LANES>();
    for chunk in chunks {
        lanes.take(&chunk.map(
            #[inline(always)]
            |element| E::from_bytes(element).widen(),
        ));
    }
    let mut last = [first; LANES];
    for (lane, element) in last.iter_mut().zip(rest) {
        *lane = E::from_bytes(*element).widen();
    }
    lanes.take(&last);
    lanes.fold()
}

impl<R: Real> Lanes<R> {
    /// One loop for each of the three: together they would not become SIMD code.
    #[inline(always)]
    fn take(&mut self, values: &[R; LANES]) {
        for (lo, value) in self.lo.iter_mut().zip(values) {
            *lo = if *value < *lo { *value } else { *lo };
        }
        for (hi, value) in self.hi.iter_mut().zip(values) {
            *hi = if *value > *hi { *value } else { *hi };
        }
        for (largest, value) in self.largest.iter_mut().zip(values) {
            *largest = (*largest).max(value.magnitude());
        }
    }

    #[inline(always)]
    fn fold(mut self) -> Extent<R> {
        let mut half = LANES / 2;
        while half > 0 {
            for i in 0..half {
                let j = i + half;
                if self.lo[j] < self.lo[i] {
                    self.lo[i] = self.lo[j];
                }
                if self.hi[j] > self.hi[i] {
                    self.hi[i] = self.hi[j];
                }
                self.largest[i] = self.largest[i].max(self.largest[j]);
            }
            half /= 2;
        }
        Extent {
            lo: self.lo[0],
            hi: self.hi[0],
            finite: self.largest[0] < R::INFINITE,
        }
    }
}
