//! By how much the result of a quantized collective may be wrong: the one place that says so.

use pccl_core::element::ElementType;

use crate::broadcast::Broadcast;
use crate::gather::Gather;
use crate::gather_v::GatherV;
use crate::reduce::Reduce;

impl Reduce {
    /// By how much an element of the result may differ from the exact one, where quantization is asked
    /// for with [`quantize`](Self::quantize).
    ///
    /// `largest` is the greatest absolute value in any peer's contribution: one that is known (clipped
    /// gradients), or the result of a [`max`](Self::max) over each peer's own. `None` where nothing is
    /// quantized, or the quantization does not go with the element type. Infinite where a
    /// partial result, its error included, may be beyond the greatest finite number of the type, and
    /// where `largest` is not finite and there is more than one peer.
    ///
    /// # Formula
    /// Around a ring, a chunk of the buffer starts at one rank and is reduced rank by rank, and is encoded anew each
    /// time: once as a contribution and N − 1 times as a partial result, with world size N. An encoding
    /// of elements between −m and m moves each of them by at most
    ///
    /// ```text
    /// B(m) = 2·m / levels · (1/2 + 1/64) + 16·ε·m
    /// ```
    ///
    /// with `levels` = 255 (8 bits), 65,535 (16 bits) or 15 (4 bits) and `ε` = 2⁻²⁴ (2⁻⁵³ for `f64`);
    /// the last one rounds to the element type as well. Let m be how large a partial result may be and e
    /// how far it may be off: `largest` and 0 before the first hop. Whatever is lost makes both greater.
    /// Each of the N − 1 hops does this, in this order:
    ///
    /// | step | sum, avg | prod | max, min |
    /// |---|---|---|---|
    /// | encode, b = B(m) | m + b, e + b | m + b, e + b | m + b, e + b |
    /// | combine | m + `largest`, e | m · `largest`, e · `largest` | m, e |
    /// | round, r = ε·m | m + r, e + r | m + r, e + r | m, e |
    ///
    /// For an average m and e are then divided by N and rounded once more. The bound is e + B(m), with
    /// the last encoding. (Rounding also adds the least positive number of the type of sums, which is not
    /// written here.) For a sum of N peers that is about
    /// N·(N + 1)/2 · `largest` / `levels`. Frames whose elements lie closer together lose less.
    ///
    /// With [`Direct`](crate::Algorithm::Direct) and [`TwoLevel`](crate::Algorithm::TwoLevel) an element is encoded as
    /// a contribution, as part of the sum of a site, and as part of the result, whatever N is. At worst, N − 2
    /// contributions lose B(`largest`) each, and their sum and the result are encoded once: about (3·N − 3) · `largest`
    /// / `levels`, which is less from four peers on. The bound is the greater of the two. With
    /// [`TwoLevelRing`](crate::Algorithm::TwoLevelRing) and M sites, N − M contributions and M − 1 partial results are
    /// encoded, which are no more encodings than around a ring, of no larger numbers.
    ///
    /// ```
    /// use pccl::{ElementType, Quantization, Reduce};
    ///
    /// let to_bytes = Quantization::MinMax { to: ElementType::U8 };
    /// let clipped = Reduce::sum().quantize(to_bytes);
    /// let bound = clipped.error_bound(ElementType::F32, 4, 1.0);
    /// assert!(bound.is_some_and(|bound| (0.039..0.042).contains(&bound)));
    /// assert_eq!(Reduce::sum().error_bound(ElementType::F32, 4, 1.0), None);
    /// ```
    #[must_use]
    pub fn error_bound(
        &self,
        element: ElementType,
        world_size: usize,
        largest: f64,
    ) -> Option<f64> {
        let encoded = (element, self.quantization());
        pccl_plane::error_bound(self.op(), encoded, world_size, largest)
    }
}

impl Gather {
    /// By how much an element may change if it is [quantized](Self::quantize). Each is encoded once: by at most B(m), as
    /// in the [formula](Reduce::error_bound), with m = `largest`, the greatest absolute value in any shard. `None` if
    /// nothing is quantized, or the quantization does not go with the element type. Infinite if `largest` is not a finite
    /// number of the type.
    ///
    /// ```
    /// use pccl::{Communicator, ElementType, Gather, Quantization};
    ///
    /// fn bound(comm: &Communicator) -> Option<f64> {
    ///     let to_bytes = Quantization::MinMax { to: ElementType::U8 };
    ///     let gather = Gather::of(comm.shard(1000)).quantize(to_bytes);
    ///     gather.error_bound(ElementType::F32, 1.0) // a little more than half of 2/255
    /// }
    /// # let _ = bound;
    /// ```
    #[must_use]
    pub fn error_bound(&self, element: ElementType, largest: f64) -> Option<f64> {
        pccl_plane::encoding_error_bound((element, self.quantization()), largest)
    }
}

impl GatherV {
    /// By how much an element may change if it is [quantized](Self::quantize), as [`Gather::error_bound`].
    #[must_use]
    pub fn error_bound(&self, element: ElementType, largest: f64) -> Option<f64> {
        pccl_plane::encoding_error_bound((element, self.quantization()), largest)
    }
}

impl Broadcast {
    /// By how much an element may change if it is [quantized](Self::quantize), as [`Gather::error_bound`].
    #[must_use]
    pub fn error_bound(&self, element: ElementType, largest: f64) -> Option<f64> {
        pccl_plane::encoding_error_bound((element, self.quantization()), largest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PeerId, Quantization};

    const TO_BYTES: Quantization = Quantization::MinMax {
        to: ElementType::U8,
    };

    fn bound(reduce: Reduce, world_size: usize, largest: f64) -> Option<f64> {
        let reduce = reduce.quantize(TO_BYTES);
        reduce.error_bound(ElementType::F32, world_size, largest)
    }

    #[test]
    fn a_sum_of_two_may_lose_half_a_step_of_a_contribution_and_half_of_one_of_the_sum() {
        let bound = bound(Reduce::sum(), 2, 1.0).unwrap();

        let half_steps = 1.0 / 255.0 + 2.0 / 255.0;
        assert!(bound >= half_steps);
        assert!(bound <= half_steps * 1.05);
    }

    #[test]
    fn an_average_is_as_exact_as_the_sum_divided() {
        let sum = bound(Reduce::sum(), 4, 1.0).unwrap();
        let average = bound(Reduce::avg(), 4, 1.0).unwrap();

        assert!((average * 4.0 / sum - 1.0).abs() < 1e-3);
    }

    #[test]
    fn a_world_of_one_loses_nothing_and_numbers_out_of_range_may_lose_everything() {
        assert_eq!(bound(Reduce::sum(), 1, 1.0), Some(0.0));
        assert_eq!(bound(Reduce::sum(), 2, 3e38), Some(f64::INFINITY));
        assert_eq!(bound(Reduce::prod(), 5, 1e10), Some(f64::INFINITY));
        assert_eq!(bound(Reduce::max(), 2, f64::NAN), Some(f64::INFINITY));
        assert!(bound(Reduce::max(), 2, 3e38).unwrap().is_finite());
    }

    #[test]
    fn halves_that_are_summed_beyond_their_range_have_no_bound_and_their_average_has() {
        let half = |reduce: Reduce| {
            let reduce = reduce.quantize(TO_BYTES);
            reduce.error_bound(ElementType::F16, 4, 60_000.0).unwrap()
        };

        assert_eq!(half(Reduce::sum()), f64::INFINITY);
        assert!(half(Reduce::avg()).is_finite());
    }

    #[test]
    fn what_is_gathered_loses_half_a_step_however_many_peers_there_are() {
        let broadcast = Broadcast::from(PeerId(1)).quantize(TO_BYTES);
        let gather = GatherV::default().quantize(TO_BYTES);

        let bound = broadcast.error_bound(ElementType::F32, 1.0).unwrap();
        assert_eq!(gather.error_bound(ElementType::F32, -1.0), Some(bound));
        assert!((1.0 / 255.0..1.05 / 255.0).contains(&bound), "{bound}");
        for none in [f64::NAN, f64::INFINITY] {
            let bound = broadcast.error_bound(ElementType::F32, none);
            assert_eq!(bound, Some(f64::INFINITY));
        }
        let beyond = broadcast.error_bound(ElementType::F16, 70_000.0);
        assert_eq!(beyond, Some(f64::INFINITY));
        assert_eq!(broadcast.error_bound(ElementType::I32, 1.0), None);
        assert_eq!(GatherV::default().error_bound(ElementType::F32, 1.0), None);
    }

    #[test]
    fn what_is_not_quantized_has_no_bound() {
        assert_eq!(Reduce::sum().error_bound(ElementType::F32, 2, 1.0), None);
        let integers = Reduce::sum().quantize(TO_BYTES);
        assert_eq!(integers.error_bound(ElementType::I32, 2, 1.0), None);
    }
}
