//! What quantization promises: bounded and undirected errors, no drift, visible poison, no panic.

mod inputs;

use std::num::NonZeroUsize;

use half::{bf16, f16};
use pccl_kernels::{Codec, Element, KernelError, Op, Scheme};
use proptest::prelude::*;

use inputs::{greatest, inputs, normal, to_bytes, uniform};

const FLOATS: [Element; 4] = [Element::F16, Element::BF16, Element::F32, Element::F64];

fn codecs() -> impl Iterator<Item = Codec> {
    FLOATS.into_iter().flat_map(|element| {
        Scheme::ALL.map(move |scheme| Codec::new(element, scheme).expect("a float type"))
    })
}

fn from_bytes(element: Element, bytes: &[u8]) -> Vec<f64> {
    let number = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        let word = u64::from_le_bytes(word);
        match element {
            Element::F16 => f16::from_bits(word as u16).to_f64(),
            Element::BF16 => bf16::from_bits(word as u16).to_f64(),
            Element::F32 => f32::from_bits(word as u32).into(),
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
            Element::F16 => 0.001,
            Element::BF16 => 0.008,
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

#[test]
fn values_between_two_codes_go_to_the_even_one() {
    let codec = Codec::new(Element::F32, Scheme::MinMaxU8).unwrap();
    let numbers = [0.0, 255.0, 0.5, 1.5, 2.5, 253.5, 254.5, 3.49, 3.51];

    let decoded = there_and_back(codec, &to_bytes(Element::F32, &numbers));

    let expected = [0.0, 255.0, 0.0, 2.0, 2.0, 254.0, 254.0, 3.0, 4.0];
    assert_eq!(from_bytes(Element::F32, &decoded), expected);
}

#[test]
fn constant_frames_decode_exactly_from_least_to_greatest() {
    for codec in codecs() {
        let greatest = greatest(codec.element());
        for number in [1.0, -3.25, 0.0, 2_f64.powi(-20), greatest, -greatest] {
            for count in [1, 63, 64, 130] {
                let elements = to_bytes(codec.element(), &vec![number; count]);

                let decoded = there_and_back(codec, &elements);

                assert_eq!(decoded, elements, "{count} times {number:e}: {codec:?}");
            }
        }
    }
}

/// A case with which users of the original test theirs.
#[test]
fn the_sum_of_two_constant_buffers_is_exact() {
    for codec in codecs() {
        let first = to_bytes(codec.element(), &[42.0; 100]);
        let second = to_bytes(codec.element(), &[43.0; 100]);
        let mut frame = vec![0; codec.encoded_len(100)];
        codec.encode(&first, &mut frame).unwrap();
        let mut sums = vec![0; 100 * codec.sum_element().size()];

        codec.reduce(Op::Sum, &second, &frame, &mut sums).unwrap();
        codec.encode_sums(&sums, &mut frame).unwrap();
        let mut result = vec![0; first.len()];
        codec.decode(&frame, &mut result).unwrap();

        assert_eq!(
            from_bytes(codec.element(), &result),
            [85.0; 100],
            "{codec:?}"
        );
    }
}

#[test]
fn zeros_of_either_sign_decode_to_the_positive_one() {
    for codec in codecs() {
        let zeros = |zero| to_bytes(codec.element(), &[zero; 70]);

        assert_eq!(there_and_back(codec, &zeros(-0.0)), zeros(0.0), "{codec:?}");
    }
}

#[test]
fn zero_decodes_to_zero_where_there_is_a_zero_point() {
    for codec in codecs() {
        if !matches!(codec.scheme(), Scheme::ZeroPointU8 | Scheme::ZeroPointI8) {
            continue;
        }
        for (kind, mut numbers) in inputs(codec.element(), 300) {
            numbers[7] = 0.0;
            numbers[8] = -0.0;

            let decoded = there_and_back(codec, &to_bytes(codec.element(), &numbers));

            let decoded = from_bytes(codec.element(), &decoded);
            assert_eq!(decoded[7..9], [0.0, 0.0], "{codec:?}, {kind}");
        }
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
fn a_poisoned_frame_decodes_to_the_one_nan_everywhere() {
    for codec in codecs() {
        let element = codec.element();
        let nan = match element {
            Element::F16 => 0x7E00_u16.to_le_bytes().to_vec(),
            Element::BF16 => 0x7FC0_u16.to_le_bytes().to_vec(),
            _ => to_bytes(element, &[f64::NAN]),
        };
        for poison in [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for count in [1, 64, 200] {
                for place in [0, count / 2, count - 1] {
                    let mut numbers = normal(count, 31);
                    numbers[place] = poison;

                    let decoded = there_and_back(codec, &to_bytes(element, &numbers));

                    let block = match codec.scheme() {
                        Scheme::Blockwise4 => place / 64 * 64..(place / 64 * 64 + 64).min(count),
                        _ => 0..count,
                    };
                    let size = element.size();
                    for (i, decoded) in decoded.chunks(size).enumerate() {
                        let what = format!("{codec:?}: {poison} at {place}, seen at {i}");
                        assert_eq!(decoded == nan, block.contains(&i), "{what}");
                    }
                }
            }
        }
    }
}

#[test]
fn poison_survives_every_reduction() {
    for codec in codecs() {
        let element = codec.element();
        let own = to_bytes(element, &[1.0; 100]);
        let mut poisoned = [1.0; 100];
        poisoned[50] = f64::NEG_INFINITY;
        let frame = encode(codec, &to_bytes(element, &poisoned));
        for op in Op::ALL {
            let mut sums = vec![0; 100 * codec.sum_element().size()];

            codec.reduce(op, &own, &frame, &mut sums).unwrap();

            let sums = from_bytes(codec.sum_element(), &sums);
            assert!(sums[50].is_nan(), "{codec:?} {op:?}");
        }
    }
}

#[test]
fn reductions_are_those_of_the_decoded_frame() {
    for codec in codecs() {
        for count in [1, 64, 65, 333] {
            let own = to_bytes(codec.element(), &normal(count, 41));
            let frame = encode(codec, &to_bytes(codec.element(), &uniform(count, 42)));
            let decoded = decode(codec, &frame, count);
            for op in Op::ALL {
                let mut sums = vec![0; count * codec.sum_element().size()];

                codec.reduce(op, &own, &frame, &mut sums).unwrap();

                let size = codec.element().size();
                if codec.element() == codec.sum_element() {
                    let mut expected = decoded.clone();
                    pccl_kernels::reduce(codec.element(), op, &mut expected, &own).unwrap();
                    assert_eq!(sums, expected, "{codec:?} {op:?}, elements of {size} bytes");
                    continue;
                }
                // Halves: what was decoded is not rounded to a half before.
                let sums = from_bytes(codec.sum_element(), &sums);
                let own = from_bytes(codec.element(), &own);
                let decoded = from_bytes(codec.element(), &decoded);
                for ((sum, own), decoded) in sums.iter().zip(own).zip(decoded) {
                    let expected = match op {
                        Op::Sum => own + decoded,
                        Op::Prod => own * decoded,
                        Op::Max => own.max(decoded),
                        Op::Min => own.min(decoded),
                    };
                    let rounding = (own.abs() + 1.0) / 256.0;
                    assert!((sum - expected).abs() <= rounding, "{codec:?} {op:?}");
                }
            }
        }
    }
}

#[test]
fn sums_beyond_a_half_become_infinite_and_its_extremes_stay() {
    let codec = Codec::new(Element::F16, Scheme::MinMaxU8).unwrap();
    let sums = to_bytes(Element::F32, &[0.0, 65_504.0, 100_000.0]);
    let mut frame = vec![0; codec.encoded_len(3)];

    codec.encode_sums(&sums, &mut frame).unwrap();
    let decoded = from_bytes(Element::F16, &decode(codec, &frame, 3));
    let extremes = to_bytes(Element::F16, &[-65_504.0, 12.0, 65_504.0]);
    let kept = there_and_back(codec, &extremes);

    assert_eq!(decoded[2], f64::INFINITY);
    assert!(decoded[1].is_finite());
    let kept = from_bytes(Element::F16, &kept);
    assert_eq!((kept[0], kept[2]), (-65_504.0, 65_504.0));
}

#[test]
fn a_round_of_averaging_stays_within_the_bounds_of_its_steps() {
    for codec in codecs() {
        let count = 500;
        let (theirs, own) = (uniform(count, 51), uniform(count, 52));
        let frame = encode(codec, &to_bytes(codec.element(), &theirs));
        let own_bytes = to_bytes(codec.element(), &own);
        let mut sums = vec![0; count * codec.sum_element().size()];
        let mut result = vec![0; codec.encoded_len(count)];

        codec
            .reduce(Op::Sum, &own_bytes, &frame, &mut sums)
            .unwrap();
        codec.divide_sums(&mut sums, 2).unwrap();
        codec.encode_sums(&sums, &mut result).unwrap();

        let averages = from_bytes(codec.element(), &decode(codec, &result, count));
        let halves = match codec.element() {
            Element::F16 => 0.001,
            Element::BF16 => 0.01,
            _ => 1e-6,
        };
        let bound = 1.5 * codec.error_bound(0.0, 1.01) + halves;
        for ((average, theirs), own) in averages.iter().zip(theirs).zip(own) {
            let error = average - f64::midpoint(theirs, own);
            assert!(error.abs() <= bound, "{codec:?}: {error} beyond {bound}");
        }
    }
}

#[test]
fn the_residual_is_what_encoding_frame_by_frame_loses() {
    for codec in codecs() {
        for (count, frame) in [(0, 1), (1, 5), (64, 64), (100, 64), (300, 77), (10, 1_000)] {
            let elements = to_bytes(codec.element(), &normal(count, 61));
            let mut residuals = vec![0; count * codec.sum_element().size()];
            let frame = NonZeroUsize::new(frame).unwrap();

            codec.residual(&elements, frame, &mut residuals).unwrap();

            let decoded: Vec<u8> = elements
                .chunks(frame.get() * codec.element().size())
                .flat_map(|elements| there_and_back(codec, elements))
                .collect();
            let decoded = from_bytes(codec.element(), &decoded);
            let elements = from_bytes(codec.element(), &elements);
            let residuals = from_bytes(codec.sum_element(), &residuals);
            for ((element, decoded), residual) in elements.iter().zip(decoded).zip(residuals) {
                let lost = to_bytes(codec.sum_element(), &[element - decoded]);
                let lost = from_bytes(codec.sum_element(), &lost);
                assert_eq!(lost, [residual], "{codec:?}, {count} in frames of {frame}");
            }
        }
    }
}

#[test]
fn poison_leaves_no_residual() {
    for codec in codecs() {
        let elements = to_bytes(codec.element(), &[1.0, f64::NAN, f64::INFINITY, 0.3]);
        let mut residuals = vec![1; 4 * codec.sum_element().size()];

        let four = NonZeroUsize::new(4).unwrap();
        codec.residual(&elements, four, &mut residuals).unwrap();

        assert_eq!(
            from_bytes(codec.sum_element(), &residuals),
            [0.0; 4],
            "{codec:?}"
        );
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
    assert_eq!(of(Element::F32, Scheme::MinMaxU8), 65_536 + 8);
    assert_eq!(of(Element::F64, Scheme::MinMaxU16), 2 * 65_536 + 16);
    assert_eq!(of(Element::BF16, Scheme::ZeroPointI8), 65_536 + 8);
    assert_eq!(of(Element::F32, Scheme::Blockwise4), 1_024 * (8 + 32));
    let wide = Codec::new(Element::F16, Scheme::MinMaxU16).unwrap();
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
    let no_float = Codec::new(Element::I32, Scheme::MinMaxU8);
    let codec = Codec::new(Element::F16, Scheme::MinMaxU8).unwrap();
    let mut frame = vec![7; codec.encoded_len(2)];
    let mut sums = [7; 8];

    let needed = frame.len();
    let partial = codec.encode(&[0; 5], &mut frame);
    let short = codec.encode(&[0; 4], &mut frame[1..]);
    let long = codec.decode(&frame, &mut [0; 6]);
    let few_sums = codec.reduce(Op::Sum, &[0; 4], &frame, &mut sums[..7]);
    let few_residuals = codec.residual(&[0; 4], NonZeroUsize::MIN, &mut sums[..4]);
    let nobody = codec.divide_sums(&mut sums, 0);

    let element = Element::I32;
    assert_eq!(no_float, Err(KernelError::NotAFloat { element }));
    let element = Element::F16;
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
    for element in Element::ALL {
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
