//! What quantization promises: bounded and undirected errors, no drift, visible poison, no panic.

mod inputs;
#[path = "quantization/sums.rs"]
mod sums;
#[path = "quantization/values.rs"]
mod values;

use std::num::NonZeroUsize;

use half::{bf16, f16};
use pccl_kernels::{Codec, ElementType, KernelError, Op, Scheme};
use proptest::prelude::*;

use inputs::{greatest, inputs, to_bytes, uniform};

const FLOATS: [ElementType; 4] = [
    ElementType::F16,
    ElementType::BF16,
    ElementType::F32,
    ElementType::F64,
];

fn codecs() -> impl Iterator<Item = Codec> {
    FLOATS.into_iter().flat_map(|element| {
        Scheme::ALL.map(move |scheme| Codec::new(element, scheme).expect("a float type"))
    })
}

fn from_bytes(element: ElementType, bytes: &[u8]) -> Vec<f64> {
    let number = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        let word = u64::from_le_bytes(word);
        match element {
            ElementType::F16 => f16::from_bits(word as u16).to_f64(),
            ElementType::BF16 => bf16::from_bits(word as u16).to_f64(),
            ElementType::F32 => f32::from_bits(word as u32).into(),
            _ => f64::from_bits(word),
        }
    };
    bytes.chunks_exact(element.size()).map(number).collect()
}

fn extremes(numbers: &[f64]) -> (f64, f64) {
    let lo = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    (
        lo,
        numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    )
}

fn encode(codec: Codec, elements: &[u8]) -> Vec<u8> {
    let mut frame = vec![0xAA; codec.encoded_len(elements.len() / codec.element().size())];
    codec.encode(elements, &mut frame).expect("a whole frame");
    frame
}

fn decode(codec: Codec, frame: &[u8], count: usize) -> Vec<u8> {
    let mut elements = vec![0xAA; count * codec.element().size()];
    codec.decode(frame, &mut elements).expect("a whole frame");
    elements
}

/// How many elements share a grid, in a frame of `count`.
fn grid_len(codec: Codec, count: usize) -> usize {
    match codec.scheme() {
        Scheme::Blockwise4 => 64,
        Scheme::MinMaxU8 | Scheme::MinMaxU16 | Scheme::ZeroPointU8 | Scheme::ZeroPointI8 => {
            count.max(1)
        }
    }
}

/// Encoded and decoded again.
fn there_and_back(codec: Codec, elements: &[u8]) -> Vec<u8> {
    let count = elements.len() / codec.element().size();
    decode(codec, &encode(codec, elements), count)
}

#[test]
fn no_element_moves_farther_than_the_bound() {
    for codec in codecs() {
        for count in [1, 2, 5, 64, 65, 1_000, 4_096] {
            for (kind, numbers) in inputs(codec.element(), count) {
                let elements = to_bytes(codec.element(), &numbers);
                let numbers = from_bytes(codec.element(), &elements);

                let decoded = from_bytes(codec.element(), &there_and_back(codec, &elements));

                let what = format!("{codec:?}, {count} {kind}");
                let grid = grid_len(codec, count);
                for (numbers, decoded) in numbers.chunks(grid).zip(decoded.chunks(grid)) {
                    assert_eq!(moved_far(codec, numbers, decoded), None, "{what}");
                }
            }
        }
    }
}

/// What was moved farther than the bound, among `numbers` that share a grid.
fn moved_far(codec: Codec, numbers: &[f64], decoded: &[f64]) -> Option<String> {
    let (lo, hi) = extremes(numbers);
    let bound = codec.error_bound(lo, hi);
    let mut pairs = numbers.iter().zip(decoded);
    let (number, decoded) = pairs.find(|(number, decoded)| {
        let within = (*number - *decoded).abs() <= bound;
        !within
    })?;
    Some(format!(
        "from {lo:e} to {hi:e}: {number:e} became {decoded:e}, farther away than {bound:e}"
    ))
}

#[test]
fn finite_frames_decode_to_finite_numbers() {
    let mut lows = vec![f64::from(f32::from_bits(0x7F7E_7928))];
    lows.extend(uniform(3_000, 71).iter().map(|x| f64::from(f32::MAX) * x));
    for codec in codecs() {
        let element = codec.element();
        let greatest = greatest(element);
        for low in &lows {
            let low = low / f64::from(f32::MAX) * greatest;
            for extremes in [[low, greatest], [-low, -greatest]] {
                let elements = to_bytes(element, &extremes);
                let mut sums = vec![0; 2 * codec.sum_element().size()];

                let frame = encode(codec, &elements);
                let decoded = from_bytes(element, &decode(codec, &frame, 2));
                codec
                    .reduce(
                        Op::Max,
                        &to_bytes(element, &[-greatest; 2]),
                        &frame,
                        &mut sums,
                    )
                    .unwrap();

                let sums = from_bytes(codec.sum_element(), &sums);
                let finite = decoded.iter().chain(&sums).all(|number| number.is_finite());
                assert!(
                    finite,
                    "{codec:?}: {extremes:?} became {decoded:?} and {sums:?}"
                );
            }
        }
    }
}

#[test]
fn the_bound_is_half_a_step_and_little_more() {
    for codec in codecs() {
        let levels = match codec.scheme() {
            Scheme::MinMaxU16 => 65_535.0,
            Scheme::Blockwise4 => 15.0,
            _ => 255.0,
        };
        let rounding = match codec.element() {
            ElementType::F16 => 0.001,
            ElementType::BF16 => 0.008,
            _ => 0.000_002,
        };

        let bound = codec.error_bound(0.0, 1.0);

        assert!(bound >= 0.5 / levels, "{codec:?}");
        assert!(bound <= 0.52 / levels + rounding, "{codec:?}: {bound}");
    }
}

#[test]
fn errors_have_no_direction() {
    let (frames, count) = (200, 640);
    for codec in codecs() {
        let mut sum = 0.0;
        for frame in 0..frames {
            // Of many ranges: the grids of halves and of one frame's codes may beat.
            let unit = uniform(count, 21 + frame);
            let factor = 1.0 + frame as f64 * 0.37;
            let numbers: Vec<_> = unit.iter().map(|x| (x - 0.4) * factor).collect();
            let elements = to_bytes(codec.element(), &numbers);
            let numbers = from_bytes(codec.element(), &elements);
            let (lo, hi) = extremes(&numbers);

            let decoded = from_bytes(codec.element(), &there_and_back(codec, &elements));

            let errors = numbers.iter().zip(decoded).map(|(x, y)| y - x);
            sum += errors.sum::<f64>() / codec.error_bound(lo, hi);
        }

        // Independent uniform errors of up to the bound would have a mean of about 1 / √(3 · 128000)
        // = 0.0016 bounds. Truncation gives nearly 1.
        let mean = sum / (frames * count as u64) as f64;
        assert!(mean.abs() < 0.01, "{codec:?}: {mean} bounds");
    }
}

/// What a round does not change, no number of further rounds does.
fn a_third_round_changes_nothing(codec: Codec, elements: &[u8], what: &str) {
    let numbers = from_bytes(codec.element(), elements);
    let (lo, hi) = extremes(&numbers);

    let twice = there_and_back(codec, &there_and_back(codec, elements));
    let thrice = there_and_back(codec, &twice);

    assert_eq!(thrice, twice, "{what}: moved in the third round");
    let bound = codec.error_bound(lo, hi);
    for (number, last) in numbers.iter().zip(from_bytes(codec.element(), &thrice)) {
        let error = (number - last).abs();
        assert!(error <= 2.0 * bound, "{what}: {number:e} became {last:e}");
    }
}

#[test]
fn from_the_second_round_on_nothing_moves() {
    for codec in codecs() {
        for count in [2, 3, 5, 65, 200] {
            for (kind, numbers) in inputs(codec.element(), count) {
                let elements = to_bytes(codec.element(), &numbers);
                a_third_round_changes_nothing(
                    codec,
                    &elements,
                    &format!("{codec:?}, {count} {kind}"),
                );
            }
        }
        for seed in 0..1_000 {
            // Of many magnitudes, around zero, beside it, and far from it.
            let unit = uniform(70, seed);
            let scale = 2_f64.powi((seed % 23) as i32 - 11) * (1.0 + unit[0]);
            let offset = (unit[1] - 0.5) * 2.0 * (seed % 4) as f64;
            let numbers: Vec<_> = unit.iter().map(|x| (x - 0.5 + offset) * scale).collect();
            let elements = to_bytes(codec.element(), &numbers);
            a_third_round_changes_nothing(codec, &elements, &format!("{codec:?}, seed {seed}"));
        }
    }
}

#[test]
fn frames_are_as_long_as_promised_and_longer_with_more_elements() {
    for codec in codecs() {
        assert_eq!(codec.encoded_len(0), 0);
        for count in 0..300 {
            assert!(codec.encoded_len(count) <= codec.encoded_len(count + 1));
        }
        let longest = [usize::MAX / 2, usize::MAX - 1, usize::MAX].map(|n| codec.encoded_len(n));
        assert!(longest.is_sorted(), "{codec:?}: {longest:?}");
    }
    let of = |element, scheme| Codec::new(element, scheme).unwrap().encoded_len(65_536);
    assert_eq!(of(ElementType::F32, Scheme::MinMaxU8), 65_536 + 8);
    assert_eq!(of(ElementType::F64, Scheme::MinMaxU16), 2 * 65_536 + 16);
    assert_eq!(of(ElementType::BF16, Scheme::ZeroPointI8), 65_536 + 8);
    assert_eq!(of(ElementType::F32, Scheme::Blockwise4), 1_024 * (8 + 32));
    let wide = Codec::new(ElementType::F16, Scheme::MinMaxU16).unwrap();
    assert_eq!(wide.encoded_len(usize::MAX / 2), usize::MAX);
}

#[test]
fn the_last_half_byte_of_an_odd_block_is_zero() {
    for element in FLOATS {
        let codec = Codec::new(element, Scheme::Blockwise4).unwrap();
        for count in [1, 63, 65, 127] {
            let numbers: Vec<_> = (0..count).map(|i| 9.0 - f64::from(i)).collect();

            let frame = encode(codec, &to_bytes(element, &numbers));

            assert_eq!(frame.last().unwrap() >> 4, 0, "{count} x {element:?}");
        }
    }
}

#[test]
fn senseless_calls_are_refused_and_change_nothing() {
    let no_float = Codec::new(ElementType::I32, Scheme::MinMaxU8);
    let codec = Codec::new(ElementType::F16, Scheme::MinMaxU8).unwrap();
    let mut frame = vec![7; codec.encoded_len(2)];
    let mut sums = [7; 8];

    let needed = frame.len();
    let partial = codec.encode(&[0; 5], &mut frame);
    let short = codec.encode(&[0; 4], &mut frame[1..]);
    let long = codec.decode(&frame, &mut [0; 6]);
    let few_sums = codec.reduce(Op::Sum, &[0; 4], &frame, &mut sums[..7]);
    let few_residuals = codec.residual(&[0; 4], NonZeroUsize::MIN, &mut sums[..4]);
    let nobody = codec.divide_sums(&mut sums, 0);

    let element = ElementType::I32;
    assert_eq!(no_float, Err(KernelError::NotAFloat { element }));
    let element = ElementType::F16;
    assert_eq!(
        partial,
        Err(KernelError::PartialElement { len: 5, element })
    );
    let len = needed - 1;
    assert_eq!(short, Err(KernelError::EncodedLength { needed, len }));
    let (needed, len) = (needed + 1, needed);
    assert_eq!(long, Err(KernelError::EncodedLength { needed, len }));
    let mismatch = |into, from| Err(KernelError::LengthMismatch { into, from });
    assert_eq!(few_sums, mismatch(7, 8));
    assert_eq!(few_residuals, mismatch(4, 8));
    assert_eq!(nobody, Err(KernelError::ZeroDivisor));
    assert!(frame.iter().chain(&sums).all(|byte| *byte == 7));
}

fn any_codec() -> impl Strategy<Value = Codec> {
    prop::sample::select(codecs().collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn whatever_bytes_came_are_decoded_without_panic(
        codec in any_codec(),
        count in 0..200_usize,
        bytes in prop::collection::vec(any::<u8>(), 2_000),
    ) {
        let frame = &bytes[..codec.encoded_len(count)];
        let own = &bytes[..count * codec.element().size()];
        let mut sums = vec![0; count * codec.sum_element().size()];

        decode(codec, frame, count);

        for op in Op::ALL {
            codec.reduce(op, own, frame, &mut sums).unwrap();
        }
    }

    #[test]
    fn any_elements_decode_within_the_bound_or_to_nan(
        codec in any_codec(),
        bytes in prop::collection::vec(any::<u8>(), 0..800),
    ) {
        let len = bytes.len() / codec.element().size() * codec.element().size();
        let numbers = from_bytes(codec.element(), &bytes[..len]);

        let decoded = from_bytes(codec.element(), &there_and_back(codec, &bytes[..len]));

        let grid = grid_len(codec, numbers.len());
        for (numbers, decoded) in numbers.chunks(grid).zip(decoded.chunks(grid)) {
            if numbers.iter().all(|number| number.is_finite()) {
                prop_assert_eq!(moved_far(codec, numbers, decoded), None);
            } else {
                prop_assert!(decoded.iter().all(|number| number.is_nan()));
            }
        }
    }
}

#[test]
fn floats_and_nothing_else_can_be_quantized() {
    for element in ElementType::ALL {
        let codecs = Scheme::ALL.map(|scheme| Codec::new(element, scheme));

        let some = codecs.iter().any(Result::is_ok);
        let all = codecs.iter().all(Result::is_ok);

        assert_eq!(
            (some, all),
            (element.is_float(), element.is_float()),
            "{element:?}"
        );
    }
}
