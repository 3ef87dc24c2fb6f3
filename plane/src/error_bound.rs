//! By how much a result may be wrong whose frames travelled encoded: a chunk, followed hop by hop.

use pccl_core::element::{ElementType, Quantization, ReduceOp};
use pccl_kernels::Codec;

use crate::floats::Float;
use crate::work::codec_of;

/// By how much an element of the result may differ from the exact one, where no contribution has an absolute
/// value greater than `largest`. `None` where nothing is encoded, or the quantization does not go with the
/// element type. Infinite where a partial result may be beyond the greatest finite number of the type.
#[must_use]
pub fn error_bound(
    op: ReduceOp,
    (element, quantization): (ElementType, Quantization),
    world_size: usize,
    largest: f64,
) -> Option<f64> {
    let codec = codec_of(element, quantization)??;
    if world_size < 2 {
        return Some(0.0);
    }
    let chain = Chain::new(codec, element, largest.abs())?;
    Some(chain.follow(op, world_size))
}

/// A chunk on its way around the ring, at its worst.
struct Chain {
    /// For partial results, which keep the precision of sums.
    partial: Codec,
    /// For the last decoding, which rounds to the element type.
    last: Codec,
    rounding: Rounding,
    /// The largest contribution.
    contribution: f64,
    /// The largest partial result that may be encoded next.
    magnitude: f64,
    /// By how much it may differ from the exact one.
    error: f64,
}

/// What one operation in the type of sums may add to the error, and how large numbers may become.
struct Rounding {
    relative: f64,
    least: f64,
    /// Of a product that is rounded to the element type: relative, and the least.
    product: (f64, f64),
    greatest_sum: f64,
    greatest: f64,
}

impl Chain {
    fn new(codec: Codec, element: ElementType, largest: f64) -> Option<Self> {
        Some(Self {
            partial: codec.of_sums(),
            last: codec,
            rounding: Rounding::of(element)?,
            contribution: largest,
            magnitude: largest,
            error: 0.0,
        })
    }

    fn follow(mut self, op: ReduceOp, world_size: usize) -> f64 {
        if op.weight().is_some() {
            self.multiply(world_size as f64);
        }
        for _ in 1..world_size {
            self.encode(self.partial);
            self.combine(op);
            // Written so that NaN counts as too large.
            let fits = self.magnitude <= self.rounding.greatest_sum;
            if !fits {
                return f64::INFINITY;
            }
        }
        if op == ReduceOp::Avg {
            self.divide(world_size as f64);
        }
        let fits = self.magnitude <= self.rounding.greatest;
        self.encode(self.last);
        if fits { self.error } else { f64::INFINITY }
    }

    fn encode(&mut self, codec: Codec) {
        let lost = codec.error_bound(-self.magnitude, self.magnitude);
        self.error += lost;
        self.magnitude += lost;
    }

    fn combine(&mut self, op: ReduceOp) {
        match op {
            ReduceOp::Sum | ReduceOp::Avg => self.magnitude += self.contribution,
            // All contributions together are no larger than the largest was before it was multiplied.
            ReduceOp::WeightedAvg { .. } => {}
            ReduceOp::Prod => {
                self.magnitude *= self.contribution;
                self.error *= self.contribution;
            }
            ReduceOp::Max | ReduceOp::Min => return,
        }
        self.round();
    }

    /// Each contribution is multiplied by its share of the weights, and rounded to the element type.
    fn multiply(&mut self, contributions: f64) {
        let (relative, least) = self.rounding.product;
        let lost = self.contribution * relative + contributions * least;
        self.magnitude += lost;
        self.error += lost;
    }

    fn divide(&mut self, by: f64) {
        self.magnitude /= by;
        self.error /= by;
        self.round();
    }

    fn round(&mut self) {
        let lost = self.magnitude * self.rounding.relative + self.rounding.least;
        self.magnitude += lost;
        self.error += lost;
    }
}

impl Rounding {
    /// `None` for integers.
    fn of(element: ElementType) -> Option<Self> {
        // Halves are rounded twice, to `f32` before.
        let single = |greatest: f64, product: (i32, i32)| Self {
            relative: 2_f64.powi(-24),
            least: 2_f64.powi(-149),
            greatest_sum: f64::from(f32::MAX),
            greatest,
            product: (2_f64.powi(product.0), 2_f64.powi(product.1)),
        };
        Some(match Float::of(element)? {
            Float::F16 => single(half::f16::MAX.to_f64(), (-10, -24)),
            Float::BF16 => single(half::bf16::MAX.to_f64(), (-7, -133)),
            Float::F32 => single(f64::from(f32::MAX), (-23, -149)),
            Float::F64 => Self {
                relative: 2_f64.powi(-53),
                least: f64::from_bits(1),
                greatest_sum: f64::MAX,
                greatest: f64::MAX,
                // The weight's share is rounded as well.
                product: (2_f64.powi(-52), f64::from_bits(1)),
            },
        })
    }
}
