//! By how much a result may be wrong whose frames travelled encoded: a chunk, followed hop by hop.
//!
//! Around a ring each partial sum is encoded. In two levels each contribution is, each sum of a site, and the result; of
//! the sites of so many ranks the worst are the home of the chunk alone and all others together. There the sum that is
//! encoded is the largest, and directly it is not encoded at all. In a ring of M sites, N − M contributions and M − 1
//! partial sums are encoded: no more encodings than around a ring of the ranks, and of no larger numbers.

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
    let chunk = || Chunk::new(codec, element, largest.abs());
    let (around, in_levels) = (chunk()?, chunk()?);
    let around = around.follow(op, world_size, Chunk::around);
    Some(around.max(in_levels.follow(op, world_size, Chunk::in_levels)))
}

/// By how much an element may change that is encoded once and decoded, where none has an absolute value greater than
/// `largest`. `None` and infinite as in [`error_bound`].
#[must_use]
pub fn encoding_error_bound(
    (element, quantization): (ElementType, Quantization),
    largest: f64,
) -> Option<f64> {
    let codec = codec_of(element, quantization)??;
    let greatest = Rounding::of(element)?.greatest;
    // Written so that NaN counts as too large.
    let fits = largest.abs() <= greatest;
    Some(match fits {
        true => lost_by(codec, largest.abs()),
        false => f64::INFINITY,
    })
}

/// A chunk on its way, at its worst.
struct Chunk {
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

/// What encoding may change in numbers of at most this magnitude.
fn lost_by(codec: Codec, magnitude: f64) -> f64 {
    codec.error_bound(-magnitude, magnitude)
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

impl Chunk {
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

    /// From the first contribution to the result.
    fn follow(
        mut self,
        op: ReduceOp,
        world_size: usize,
        reduce: impl Fn(&mut Self, ReduceOp, usize),
    ) -> f64 {
        if op.weight().is_some() {
            self.multiply(world_size as f64);
        }
        reduce(&mut self, op, world_size);
        // Written so that NaN counts as too large.
        let fits = self.magnitude <= self.rounding.greatest_sum;
        if !fits {
            return f64::INFINITY;
        }
        if op == ReduceOp::Avg {
            self.divide(world_size as f64);
        }
        let fits = self.magnitude <= self.rounding.greatest;
        self.encode(self.last);
        if fits { self.error } else { f64::INFINITY }
    }

    /// Each partial result is encoded, and the next rank's contribution is added.
    fn around(&mut self, op: ReduceOp, world_size: usize) {
        for _ in 1..world_size {
            self.encode(self.partial);
            self.combine(op, (self.contribution, 0.0));
        }
    }

    /// All but two contributions are encoded, and added to that of the gateway. The sum is encoded, and the
    /// contribution of the home is added.
    fn in_levels(&mut self, op: ReduceOp, world_size: usize) {
        let lost = lost_by(self.partial, self.contribution);
        let encoded = (self.contribution + lost, lost);
        for _ in 2..world_size {
            self.combine(op, encoded);
        }
        self.encode(self.partial);
        self.combine(op, (self.contribution, 0.0));
    }

    fn encode(&mut self, codec: Codec) {
        let lost = lost_by(codec, self.magnitude);
        self.error += lost;
        self.magnitude += lost;
    }

    /// Combines with a term, of which this is the magnitude and the error.
    fn combine(&mut self, op: ReduceOp, (magnitude, error): (f64, f64)) {
        match op {
            ReduceOp::Sum | ReduceOp::Avg => {
                self.magnitude += magnitude;
                self.error += error;
            }
            // All contributions together are no larger than the largest was before it was multiplied.
            ReduceOp::WeightedAvg { .. } => {
                self.magnitude += error;
                self.error += error;
            }
            ReduceOp::Prod => {
                self.error = self.error * magnitude + error * self.magnitude;
                self.magnitude *= magnitude;
            }
            ReduceOp::Max | ReduceOp::Min => {
                self.magnitude = self.magnitude.max(magnitude);
                self.error = self.error.max(error);
                return;
            }
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
