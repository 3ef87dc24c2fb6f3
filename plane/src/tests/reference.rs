//! What an all-reduce is meant to compute, one element after the other.

use pccl_core::element::{ElementType, ReduceOp};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Every operation.
pub(super) const OPS: [ReduceOp; 5] = [
    ReduceOp::Sum,
    ReduceOp::Avg,
    ReduceOp::Prod,
    ReduceOp::Max,
    ReduceOp::Min,
];

/// Contributions of `world` ranks: small whole numbers, so that floating-point results do not depend
/// on the order of the additions.
pub(super) fn inputs(element: ElementType, count: usize, world: usize) -> Vec<Vec<u8>> {
    let seed = (count * 31 + world) as u64;
    let mut random = StdRng::seed_from_u64(seed);
    let mut rank = || {
        let values = (0..count).flat_map(|_| encode(element, random.next_u32() % 6));
        values.collect()
    };
    (0..world).map(|_| rank()).collect()
}

/// Contributions of random bits: every pattern that the type has.
pub(super) fn random_bits(bytes: usize, world: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut rank = || {
        let mut data = vec![0; bytes];
        random.fill_bytes(&mut data);
        data
    };
    (0..world).map(|_| rank()).collect()
}

fn encode(element: ElementType, value: u32) -> Vec<u8> {
    match element {
        ElementType::U8 | ElementType::I8 => vec![value as u8],
        ElementType::U16 | ElementType::I16 => (value as u16).to_le_bytes().to_vec(),
        ElementType::U32 | ElementType::I32 => value.to_le_bytes().to_vec(),
        ElementType::U64 | ElementType::I64 => u64::from(value).to_le_bytes().to_vec(),
        ElementType::F16 => half::f16::from_f32(value as f32).to_le_bytes().to_vec(),
        // Eight bits of mantissa: powers of two have exact products.
        ElementType::BF16 => half::bf16::from_f32((value % 3) as f32)
            .to_le_bytes()
            .to_vec(),
        ElementType::F32 => (value as f32).to_le_bytes().to_vec(),
        ElementType::F64 => f64::from(value).to_le_bytes().to_vec(),
    }
}

/// The result of an all-reduce over `inputs`.
pub(super) fn expected(element: ElementType, op: ReduceOp, inputs: &[Vec<u8>]) -> Vec<u8> {
    macro_rules! integer {
        ($ty:ty) => {{
            let world = inputs.len();
            by_element(
                inputs,
                |values| {
                    let values = values
                        .iter()
                        .map(|raw| <$ty>::from_le_bytes((*raw).try_into().unwrap()));
                    let sum =
                        |values: &mut dyn Iterator<Item = $ty>| values.fold(0, <$ty>::wrapping_add);
                    let mut values = values;
                    let value: $ty = match op {
                        ReduceOp::Sum | ReduceOp::WeightedAvg { .. } => sum(&mut values),
                        ReduceOp::Avg => sum(&mut values) / (world as $ty),
                        ReduceOp::Prod => values.fold(1, <$ty>::wrapping_mul),
                        ReduceOp::Max => values.max().unwrap(),
                        ReduceOp::Min => values.min().unwrap(),
                    };
                    value.to_le_bytes().to_vec()
                },
                size_of::<$ty>(),
            )
        }};
    }
    macro_rules! float {
        ($ty:ty, $raw:ty) => {{
            let world = inputs.len();
            by_element(
                inputs,
                |values| {
                    let values = values
                        .iter()
                        .map(|raw| f64::from(<$raw>::from_le_bytes((*raw).try_into().unwrap())));
                    let value = match op {
                        ReduceOp::Sum | ReduceOp::WeightedAvg { .. } => values.sum(),
                        ReduceOp::Avg => values.sum::<f64>() / world as f64,
                        ReduceOp::Prod => values.product(),
                        ReduceOp::Max => values.fold(f64::NEG_INFINITY, f64::max),
                        ReduceOp::Min => values.fold(f64::INFINITY, f64::min),
                    };
                    <$ty>::to_raw(value).to_le_bytes().to_vec()
                },
                size_of::<$raw>(),
            )
        }};
    }
    match element {
        ElementType::U8 => integer!(u8),
        ElementType::I8 => integer!(i8),
        ElementType::U16 => integer!(u16),
        ElementType::I16 => integer!(i16),
        ElementType::U32 => integer!(u32),
        ElementType::I32 => integer!(i32),
        ElementType::U64 => integer!(u64),
        ElementType::I64 => integer!(i64),
        ElementType::F16 => float!(Half, half::f16),
        ElementType::BF16 => float!(Brain, half::bf16),
        ElementType::F32 => float!(Single, f32),
        ElementType::F64 => float!(Double, f64),
    }
}

struct Half;
struct Brain;
struct Single;
struct Double;

impl Half {
    fn to_raw(value: f64) -> half::f16 {
        half::f16::from_f64(value)
    }
}
impl Brain {
    fn to_raw(value: f64) -> half::bf16 {
        half::bf16::from_f64(value)
    }
}
impl Single {
    fn to_raw(value: f64) -> f32 {
        value as f32
    }
}
impl Double {
    fn to_raw(value: f64) -> f64 {
        value
    }
}

fn by_element(
    inputs: &[Vec<u8>],
    combine: impl Fn(&[&[u8]]) -> Vec<u8>,
    element_bytes: usize,
) -> Vec<u8> {
    let count = inputs[0].len() / element_bytes;
    (0..count)
        .flat_map(|index| {
            let range = index * element_bytes..(index + 1) * element_bytes;
            let values: Vec<&[u8]> = inputs.iter().map(|input| &input[range.clone()]).collect();
            combine(&values)
        })
        .collect()
}
