//! What is reduced in a step: drawn from the seed and the revision, and so the same on all peers.

use pccl::{ElementType, Quantization, Reduce};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use super::numbers::{Key, Number, Op, combined_of, digest_of_period, mixed};

/// Reduces of a step.
const REDUCES: std::ops::RangeInclusive<u64> = 4..=7;

/// One of those that may be quantized.
const QUANTIZATIONS: [Quantization; 4] = [
    Quantization::MinMax {
        to: ElementType::U8,
    },
    Quantization::MinMax {
        to: ElementType::U16,
    },
    Quantization::ZeroPointScale {
        to: ElementType::U8,
    },
    Quantization::Blockwise4,
];

/// How a peer makes the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// By a handle that owns its buffer. Of `f32` only.
    Handle,
    /// In place, on a thread of its own.
    InPlace,
    /// From one buffer into another, on a thread of its own.
    Into,
}

/// What the elements are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elements {
    /// `f32`.
    F32,
    /// `f64`.
    F64,
    /// `i32`.
    I32,
}

/// One reduce of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Which one.
    pub key: Key,
    /// Number of elements.
    pub length: usize,
    /// Their type.
    pub elements: Elements,
    /// How contributions are combined.
    pub op: Op,
    /// How elements travel. Only `f32` is quantized.
    pub quantization: Quantization,
    /// Whether contributions are added in the order of the peer ids.
    pub ordered: bool,
    /// How the call is made.
    pub manner: Manner,
}

/// What is reduced on this revision, in the order of the tags. No buffer has more than `largest` elements.
#[must_use]
pub fn work_of(seed: u64, revision: u64, largest: usize) -> Vec<Work> {
    let mut random = StdRng::seed_from_u64(mixed(seed, revision));
    let reduces = random.random_range(REDUCES);
    let tags = 1..=reduces;
    tags.map(|tag| {
        let key = Key {
            seed,
            revision,
            tag,
        };
        draw(&mut random, key, largest)
    })
    .collect()
}

fn draw(random: &mut StdRng, key: Key, largest: usize) -> Work {
    // The first three are of all manners.
    let manner = match (key.tag, random.random_range(0..3)) {
        (1, _) | (4.., 0) => Manner::Handle,
        (2, _) | (4.., 1) => Manner::InPlace,
        _ => Manner::Into,
    };
    let elements = match (manner, random.random_range(0..4)) {
        (Manner::InPlace | Manner::Into, 0) => Elements::I32,
        (Manner::InPlace | Manner::Into, 1) => Elements::F64,
        _ => Elements::F32,
    };
    let is_quantized = elements == Elements::F32 && random.random_ratio(1, 3);
    let quantization = QUANTIZATIONS.choose(random).filter(|_| is_quantized);
    let op = match random.random_range(0..6) {
        0 => Op::Max,
        1 => Op::Min,
        2 | 3 => Op::Avg,
        _ => Op::Sum,
    };
    Work {
        key,
        length: length(random, largest),
        elements,
        op,
        quantization: quantization.copied().unwrap_or(Quantization::None),
        ordered: !is_quantized && random.random_ratio(1, 5),
        manner,
    }
}

/// Every order of magnitude is as likely as any other.
fn length(random: &mut StdRng, largest: usize) -> usize {
    let exponent = random.random_range(0.0..=(largest.max(1) as f64).log2());
    (exponent.exp2() as usize).clamp(1, largest.max(1))
}

impl Work {
    /// What to tell the library.
    pub fn reduce(&self) -> Reduce {
        let reduce = match self.op {
            Op::Sum => Reduce::sum(),
            Op::Avg => Reduce::avg(),
            Op::Max => Reduce::max(),
            Op::Min => Reduce::min(),
        };
        let reduce = reduce.tag(self.key.tag).quantize(self.quantization);
        if self.ordered {
            reduce.ordered()
        } else {
            reduce
        }
    }

    /// The digest of the result, unless it is quantized: then it may be off.
    #[must_use]
    pub fn digest(&self, contributors: &[u64]) -> Option<u64> {
        if self.quantization != Quantization::None {
            return None;
        }
        Some(match self.elements {
            Elements::F32 => self.digest_of::<f32>(contributors),
            Elements::F64 => self.digest_of::<f64>(contributors),
            Elements::I32 => self.digest_of::<i32>(contributors),
        })
    }

    fn digest_of<T: Number>(&self, contributors: &[u64]) -> u64 {
        let period = combined_of::<T>(self.key, contributors, self.op, self.length);
        digest_of_period(&period, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_have_reduces_of_every_manner_type_and_quantization() {
        let all: Vec<Work> = (0..100).flat_map(|r| work_of(1, r, 1 << 20)).collect();

        for manner in [Manner::Handle, Manner::InPlace, Manner::Into] {
            for quantized in [false, true] {
                let is = |work: &&Work| {
                    work.manner == manner && (work.quantization != Quantization::None) == quantized
                };
                assert!(all.iter().any(|work| is(&work)), "{manner:?} {quantized}");
            }
        }
        for elements in [Elements::F32, Elements::F64, Elements::I32] {
            assert!(all.iter().any(|work| work.elements == elements));
        }
        assert!(all.iter().any(|work| work.ordered));
        assert!(all.iter().any(|work| work.length > 1 << 19));
        assert!(all.iter().any(|work| work.length < 10));
        let handles = all.iter().filter(|work| work.manner == Manner::Handle);
        assert!(handles.into_iter().all(|w| w.elements == Elements::F32));
    }

    #[test]
    fn a_step_is_the_same_for_whoever_draws_it() {
        assert_eq!(work_of(3, 9, 4096), work_of(3, 9, 4096));
        assert_ne!(work_of(3, 9, 4096), work_of(3, 10, 4096));
    }
}
