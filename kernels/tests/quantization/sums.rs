//! Encoded frames combined with a rank's own elements: reductions, averages and residuals.

use std::num::NonZeroUsize;

use pccl_kernels::{Codec, ElementType, Op, Scheme};

use super::inputs::{normal, to_bytes, uniform};
use super::{codecs, decode, encode, from_bytes, there_and_back};

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
    let codec = Codec::new(ElementType::F16, Scheme::MinMaxU8).unwrap();
    let sums = to_bytes(ElementType::F32, &[0.0, 65_504.0, 100_000.0]);
    let mut frame = vec![0; codec.encoded_len(3)];

    codec.encode_sums(&sums, &mut frame).unwrap();
    let decoded = from_bytes(ElementType::F16, &decode(codec, &frame, 3));
    let extremes = to_bytes(ElementType::F16, &[-65_504.0, 12.0, 65_504.0]);
    let kept = there_and_back(codec, &extremes);

    assert_eq!(decoded[2], f64::INFINITY);
    assert!(decoded[1].is_finite());
    let kept = from_bytes(ElementType::F16, &kept);
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
            ElementType::F16 => 0.001,
            ElementType::BF16 => 0.01,
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
