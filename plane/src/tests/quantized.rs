//! Frames that travel encoded: the same bits on every rank, and as near to the exact result as the codec
//! promises for the numbers that each frame held.

use std::f64::consts::PI;

use pccl_core::element::{CollectiveSpec, ElementType, Quantization, ReduceOp};
use pccl_core::id::Seq;
use pccl_core::plan::{Algorithm, Pattern, Shards, stripes_for};
use pccl_kernels::Codec;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::test;

use super::reference::OPS;
use super::support::{AROUND, Member, mesh, ring, run_all, spec};
use crate::work::codec_of;
use crate::{RunFailure, error_bound};

const CASES: u64 = 1000;

pub(super) const FLOATS: [ElementType; 4] = [
    ElementType::F16,
    ElementType::BF16,
    ElementType::F32,
    ElementType::F64,
];

pub(super) const QUANTIZATIONS: [Quantization; 5] = [
    Quantization::MinMax {
        to: ElementType::U8,
    },
    Quantization::MinMax {
        to: ElementType::U16,
    },
    Quantization::ZeroPointScale {
        to: ElementType::U8,
    },
    Quantization::ZeroPointScale {
        to: ElementType::I8,
    },
    Quantization::Blockwise4,
];

#[derive(Clone, Copy, Debug)]
enum Distribution {
    Normal,
    Uniform,
    Constant,
    HeavyTailed,
    Tiny,
}

const DISTRIBUTIONS: [Distribution; 5] = [
    Distribution::Normal,
    Distribution::Uniform,
    Distribution::Constant,
    Distribution::HeavyTailed,
    Distribution::Tiny,
];

/// One reduce, made of its number.
#[derive(Debug)]
struct Case {
    seed: u64,
    spec: CollectiveSpec,
    distribution: Distribution,
    world: usize,
    lanes: u16,
}

impl Case {
    fn new(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let mut below = |limit: usize| (random.next_u64() % limit as u64) as usize;
        // Now and then more than a frame holds.
        let most = [3, 60, 700, 5000, 5000, 300_000][below(6).min(below(9))];
        let element = FLOATS[below(4)];
        Self {
            seed,
            spec: CollectiveSpec {
                quantization: QUANTIZATIONS[below(5)],
                ..spec(OPS[below(5)], element, below(most) + 1)
            },
            distribution: DISTRIBUTIONS[below(5)],
            world: below(4) + 2,
            lanes: below(3) as u16 + 1,
        }
    }

    fn count(&self) -> usize {
        self.spec.count as usize
    }

    /// What each rank contributes, rounded to the type.
    fn contributions(&self) -> Vec<Vec<f64>> {
        let mut random = StdRng::seed_from_u64(!self.seed);
        let constant = normal(&mut random);
        let mut number = || match self.distribution {
            Distribution::Normal => normal(&mut random),
            Distribution::Uniform => unit(&mut random) * 3.0 - 1.0,
            Distribution::Constant => constant,
            Distribution::HeavyTailed => {
                let cauchy = (PI * (unit(&mut random) - 0.5)).tan();
                cauchy.clamp(-1000.0, 1000.0)
            }
            Distribution::Tiny => normal(&mut random) * tiny(self.spec.element),
        };
        let mut number = || rounded(self.spec.element, number());
        let mut rank = || (0..self.count()).map(|_| number()).collect();
        (0..self.world).map(|_| rank()).collect()
    }

    /// Pieces of the buffer with parameters of their own, and the rank at which each starts.
    fn groups(&self) -> Vec<(usize, std::ops::Range<usize>)> {
        let size = match self.spec.quantization {
            Quantization::Blockwise4 => 64,
            _ => 64 * 1024,
        };
        let stripes = stripes_for(
            self.spec.count,
            self.spec.element,
            self.lanes,
            super::support::small_frames().stripe_bytes,
        );
        let mut groups = Vec::new();
        let shards = Shards::of_ranks(self.spec.count, self.world as u32);
        for stripe in 0..stripes {
            let stripe = shards.stripe(stripes, stripe);
            for ends_at in 0..self.world {
                let chunk = stripe.chunk(ends_at as u32);
                let rank = (ends_at + 1) % self.world;
                let (mut start, end) = (chunk.start as usize, chunk.end as usize);
                while start < end {
                    let next = end.min(start + size);
                    groups.push((rank, start..next));
                    start = next;
                }
            }
        }
        groups
    }
}

/// From 0 to 1.
fn unit(random: &mut StdRng) -> f64 {
    (random.next_u64() >> 11) as f64 / 2_f64.powi(53)
}

/// Box and Muller, "A note on the generation of random normal deviates" (1958).
pub(super) fn normal(random: &mut StdRng) -> f64 {
    let radius = (-2.0 * (1.0 - unit(random)).ln()).sqrt();
    radius * (2.0 * PI * unit(random)).cos()
}

/// Between the subnormal numbers of the type and the least normal ones.
fn tiny(element: ElementType) -> f64 {
    match element {
        ElementType::F16 => 1e-6,
        ElementType::F64 => 1e-309,
        _ => 1e-39,
    }
}

pub(super) fn rounded(element: ElementType, number: f64) -> f64 {
    numbers(element, &encoded(element, &[number]))[0]
}

pub(super) fn encoded(element: ElementType, numbers: &[f64]) -> Vec<u8> {
    let numbers = numbers.iter();
    match element {
        ElementType::F16 => numbers
            .flat_map(|n| half::f16::from_f64(*n).to_le_bytes())
            .collect(),
        ElementType::BF16 => numbers
            .flat_map(|n| half::bf16::from_f64(*n).to_le_bytes())
            .collect(),
        ElementType::F32 => numbers.flat_map(|n| (*n as f32).to_le_bytes()).collect(),
        _ => numbers.flat_map(|n| n.to_le_bytes()).collect(),
    }
}

pub(super) fn numbers(element: ElementType, bytes: &[u8]) -> Vec<f64> {
    let of = |bytes: &[u8]| match element {
        ElementType::F16 => half::f16::from_le_bytes(bytes.try_into().unwrap()).to_f64(),
        ElementType::BF16 => half::bf16::from_le_bytes(bytes.try_into().unwrap()).to_f64(),
        ElementType::F32 => f32::from_le_bytes(bytes.try_into().unwrap()).into(),
        _ => f64::from_le_bytes(bytes.try_into().unwrap()),
    };
    bytes.chunks(element.size()).map(of).collect()
}

/// One group on its way around the ring: the exact numbers, and by how much those on the wire may be off.
struct Chain {
    codec: Codec,
    partial: Codec,
    exact: Vec<f64>,
    off: f64,
}

impl Chain {
    fn new(spec: &CollectiveSpec, first: &[f64]) -> Self {
        let codec = codec_of(spec.element, spec.quantization).flatten().unwrap();
        Self {
            codec,
            partial: Codec::new(codec.sum_element(), codec.scheme()).unwrap(),
            exact: first.to_vec(),
            off: 0.0,
        }
    }

    /// From the least to the greatest number that may be encoded.
    fn extent(&self) -> (f64, f64) {
        let least = self.exact.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = self.exact.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (least - self.off, greatest + self.off)
    }

    fn encode(&mut self, codec: Codec) {
        let (least, greatest) = self.extent();
        self.off += codec.error_bound(least, greatest);
    }

    fn combine(&mut self, op: ReduceOp, own: &[f64]) {
        self.encode(self.partial);
        if op == ReduceOp::Prod {
            self.off *= own.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        }
        for (exact, own) in self.exact.iter_mut().zip(own) {
            *exact = match op {
                ReduceOp::Sum | ReduceOp::Avg | ReduceOp::WeightedAvg { .. } => *exact + own,
                ReduceOp::Prod => *exact * own,
                ReduceOp::Max => exact.max(*own),
                ReduceOp::Min => exact.min(*own),
            };
        }
        self.round();
    }

    fn divide(&mut self, by: usize) {
        self.exact.iter_mut().for_each(|sum| *sum /= by as f64);
        self.off /= by as f64;
        self.round();
    }

    /// One operation in the type of sums.
    fn round(&mut self) {
        let (relative, least) = match self.partial.element().size() {
            4 => (2_f64.powi(-24), 2_f64.powi(-149)),
            _ => (2_f64.powi(-53), f64::from_bits(1)),
        };
        let (lo, hi) = self.extent();
        self.off += lo.abs().max(hi.abs()) * relative + least;
    }

    /// By how much the result may be off; infinite where it may be beyond the range of the type.
    fn finish(mut self, element: ElementType) -> (Vec<f64>, f64) {
        self.encode(self.codec);
        let (lo, hi) = self.extent();
        let greatest = match element {
            ElementType::F16 => 65504.0,
            _ => 3e38,
        };
        if lo.abs().max(hi.abs()) > greatest {
            self.off = f64::INFINITY;
        }
        (self.exact, self.off)
    }
}

/// The largest error, as a part of its bound.
fn worst(case: &Case, contributions: &[Vec<f64>], result: &[f64]) -> f64 {
    let op = case.spec.op;
    let mut worst = 0.0_f64;
    for (first, range) in case.groups() {
        let own = |hop: usize| &contributions[(first + hop) % case.world][range.clone()];
        let mut chain = Chain::new(&case.spec, own(0));
        (1..case.world).for_each(|hop| chain.combine(op, own(hop)));
        if op == ReduceOp::Avg {
            chain.divide(case.world);
        }
        let (exact, bound) = chain.finish(case.spec.element);
        if bound == f64::INFINITY {
            continue;
        }
        for (got, exact) in result[range].iter().zip(&exact) {
            let error = (got - exact).abs() / bound;
            // Unlike `max` this keeps NaN.
            worst = if error <= worst { worst } else { error };
        }
    }
    worst
}

/// The result of a case among these members, which has to have the same bits on all ranks.
async fn result_of(
    case: &Case,
    contributions: &[Vec<f64>],
    (mut members, algorithm): (Vec<Member>, Algorithm),
) -> Vec<f64> {
    let element = case.spec.element;
    let inputs = contributions.iter().map(|own| encoded(element, own));
    let inputs: Vec<Vec<u8>> = inputs.collect();
    let ports = members
        .iter_mut()
        .map(|m| m.plane.begin(Seq(1), case.spec, algorithm))
        .collect();

    let ended = run_all(ports, &inputs).await;

    for (rank, other) in ended.iter().enumerate() {
        assert!(other.outcome.is_ok(), "rank {rank} of {case:?}");
        assert!(other.data == ended[0].data, "rank {rank} of {case:?}");
    }
    numbers(element, &ended[0].data)
}

#[test(start_paused = true)]
async fn a_thousand_random_cases_end_with_the_same_bits_and_within_the_bound() {
    for seed in 0..CASES {
        let case = Case::new(seed);
        let contributions = case.contributions();
        let members = ring(case.world, case.lanes);

        let result = result_of(&case, &contributions, (members, AROUND)).await;

        let worst = worst(&case, &contributions, &result);
        assert!(worst <= 1.0, "{worst} times the bound: {case:?}");
    }
}

/// Each case by an algorithm of a mesh, whose error stays below the bound that users are told.
async fn all_cases_over_a_mesh(algorithm: Algorithm) {
    for seed in 0..CASES / 2 {
        let case = Case::new(seed);
        let contributions = case.contributions();
        let members = mesh(case.world, case.lanes);

        let result = result_of(&case, &contributions, (members, algorithm)).await;

        let largest = contributions
            .iter()
            .flatten()
            .fold(0.0, |most: f64, x| most.max(x.abs()));
        let quantized = (case.spec.element, case.spec.quantization);
        let bound = error_bound(case.spec.op, quantized, case.world, largest).unwrap();
        let exact = exact(case.spec.op, &contributions);
        for (got, exact) in result.iter().zip(exact) {
            let is_near = bound == f64::INFINITY || (got - exact).abs() <= bound;
            assert!(is_near, "{got} and not {exact} ± {bound}: {case:?}");
        }
    }
}

/// The result without any rounding but that of `f64`.
fn exact(op: ReduceOp, contributions: &[Vec<f64>]) -> Vec<f64> {
    let reduce = |at: usize| {
        let column = contributions.iter().map(|own| own[at]);
        let all = column.reduce(|one, other| match op {
            ReduceOp::Sum | ReduceOp::Avg | ReduceOp::WeightedAvg { .. } => one + other,
            ReduceOp::Prod => one * other,
            ReduceOp::Max => one.max(other),
            ReduceOp::Min => one.min(other),
        });
        let divisor = if op == ReduceOp::Avg {
            contributions.len()
        } else {
            1
        };
        all.unwrap() / divisor as f64
    };
    (0..contributions[0].len()).map(reduce).collect()
}

#[test(start_paused = true)]
async fn what_is_exchanged_directly_ends_with_the_same_bits_and_within_the_bound() {
    all_cases_over_a_mesh(Algorithm::Direct).await;
}

#[test(start_paused = true)]
async fn what_takes_two_levels_ends_with_the_same_bits_and_within_the_bound() {
    all_cases_over_a_mesh(Algorithm::TwoLevel).await;
    all_cases_over_a_mesh(Algorithm::TwoLevelRing).await;
}

#[test(start_paused = true)]
async fn what_would_not_end_with_the_same_bits_everywhere_is_not_run() {
    let quantized = CollectiveSpec {
        quantization: QUANTIZATIONS[0],
        ..spec(ReduceOp::Sum, ElementType::F32, 100)
    };
    for algorithm in [Algorithm::Whole(Pattern::Mesh), Algorithm::Circulant] {
        let mut members = mesh(3, 1);
        let ports = members.iter_mut();
        let ports = ports.map(|m| m.plane.begin(Seq(1), quantized, algorithm));

        let ended = run_all(ports.collect(), &vec![vec![0; 400]; 3]).await;

        let is_refused = |end: &RunFailure| matches!(end, RunFailure::Defect(_));
        assert!(
            ended
                .iter()
                .all(|end| end.outcome.as_ref().is_err_and(is_refused))
        );
    }
}
