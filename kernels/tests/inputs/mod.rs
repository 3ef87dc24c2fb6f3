//! What frames of floats are like, for every test of quantization.

use half::{bf16, f16};

use super::ElementType;

pub(crate) fn to_bytes(element: ElementType, numbers: &[f64]) -> Vec<u8> {
    let bytes = |number: &f64| match element {
        ElementType::F16 => f16::from_f64(*number).to_le_bytes().to_vec(),
        ElementType::BF16 => bf16::from_f64(*number).to_le_bytes().to_vec(),
        ElementType::F32 => (*number as f32).to_le_bytes().to_vec(),
        _ => number.to_le_bytes().to_vec(),
    };
    numbers.iter().flat_map(bytes).collect()
}

/// Reproducible numbers from 0 to 1.
pub(crate) fn uniform(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    (0..count).map(|_| next()).collect()
}

/// Independent, of mean 0 and variance 1.
pub(crate) fn normal(count: usize, seed: u64) -> Vec<f64> {
    let uniform = uniform(2 * count, seed);
    let pairs = uniform.chunks_exact(2);
    pairs
        .map(|pair| (-2.0 * (1.0 - pair[0]).ln()).sqrt() * (std::f64::consts::TAU * pair[1]).cos())
        .collect()
}

/// The greatest finite number of a float type.
pub(crate) fn greatest(element: ElementType) -> f64 {
    match element {
        ElementType::F16 => f16::MAX.to_f64(),
        ElementType::BF16 => bf16::MAX.to_f64(),
        ElementType::F32 => f32::MAX.into(),
        _ => f64::MAX,
    }
}

/// The least number above zero.
fn least(element: ElementType) -> f64 {
    match element {
        ElementType::F16 => f16::from_bits(1).to_f64(),
        ElementType::BF16 => bf16::from_bits(1).to_f64(),
        ElementType::F32 => f32::from_bits(1).into(),
        _ => f64::from_bits(1),
    }
}

/// What frames are like, each kind with its name. `element` bounds the extremes.
pub(crate) fn inputs(element: ElementType, count: usize) -> Vec<(&'static str, Vec<f64>)> {
    let (greatest, subnormal) = (greatest(element), least(element));
    let scaled = |numbers: Vec<f64>, by: f64| numbers.into_iter().map(|x| x * by).collect();
    let heavy = |x: &f64| x * x * x * 50.0;
    let wide = |x: &f64| (x * 2.0 - 1.0) * greatest;
    let few = |x: &f64| ((x - 0.5) * 700.0).round() * subnormal;
    let in_turns = |of: &[f64]| of.iter().copied().cycle().take(count).collect();
    vec![
        ("normal", normal(count, 1)),
        ("uniform", uniform(count, 2)),
        ("below zero", scaled(uniform(count, 3), -7.0)),
        ("constant", vec![0.1; count]),
        ("zero", vec![0.0; count]),
        ("heavy-tailed", normal(count, 4).iter().map(heavy).collect()),
        (
            "far from zero",
            uniform(count, 5).iter().map(|x| 1_000.0 + x).collect(),
        ),
        ("small", scaled(normal(count, 6), 1e-6)),
        ("subnormal", uniform(count, 7).iter().map(few).collect()),
        (
            "hardly any range",
            uniform(count, 8)
                .iter()
                .map(|x| (x * 3.0).round() * subnormal)
                .collect(),
        ),
        (
            "around the least normal",
            scaled(normal(count, 9), subnormal * 1e3),
        ),
        (
            "all there is",
            uniform(count, 10).iter().map(wide).collect(),
        ),
        ("constant and greatest", vec![greatest; count]),
        (
            "near the greatest",
            uniform(count, 11)
                .iter()
                .map(|x| greatest * (1.0 - x * 0.01))
                .collect(),
        ),
        (
            "one outlier",
            (0..count)
                .map(|i| if i == 3 { 1e4 } else { 1e-3 })
                .collect(),
        ),
        ("the least and zero", in_turns(&[-greatest, 0.0])),
        ("the least and little", in_turns(&[-greatest, 0.0, 1.0])),
        (
            "nearly the least to the greatest",
            in_turns(&[-0.998 * greatest, 0.0, greatest]),
        ),
        (
            "the least to the greatest",
            in_turns(&[-greatest, greatest, 1.0]),
        ),
    ]
}
