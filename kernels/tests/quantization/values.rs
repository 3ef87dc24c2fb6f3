//! Elements whose decoded value is known exactly: ties, constants, zeros and poison.

use pccl_kernels::{Codec, ElementType, Scheme};

use super::inputs::{greatest, inputs, normal, to_bytes};
use super::{codecs, from_bytes, there_and_back};

#[test]
fn values_between_two_codes_go_to_the_even_one() {
    let codec = Codec::new(ElementType::F32, Scheme::MinMaxU8).unwrap();
    let numbers = [0.0, 255.0, 0.5, 1.5, 2.5, 253.5, 254.5, 3.49, 3.51];

    let decoded = there_and_back(codec, &to_bytes(ElementType::F32, &numbers));

    let expected = [0.0, 255.0, 0.0, 2.0, 2.0, 254.0, 254.0, 3.0, 4.0];
    assert_eq!(from_bytes(ElementType::F32, &decoded), expected);
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

#[test]
fn a_poisoned_frame_decodes_to_the_one_nan_everywhere() {
    for codec in codecs() {
        let element = codec.element();
        let nan = match element {
            ElementType::F16 => 0x7E00_u16.to_le_bytes().to_vec(),
            ElementType::BF16 => 0x7FC0_u16.to_le_bytes().to_vec(),
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
