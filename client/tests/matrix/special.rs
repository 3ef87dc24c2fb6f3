//! Numbers at the edges of their types.

use pccl::half::{bf16, f16};
use pccl::{Element, Quantization, Reduce};

use crate::OPS;
use crate::group::{Group, bytes};
use crate::number::Number;
use crate::quantized::QUANTIZATIONS;
use crate::reference::in_order;

/// Three ranks whose contributions hold every triple of these numbers.
fn triples<T: Copy>(numbers: &[T]) -> [Vec<T>; 3] {
    let many = numbers.len();
    let pick = |divisor: usize| {
        let number = move |index: usize| numbers[index / divisor % many];
        (0..many * many * many).map(number).collect()
    };
    [pick(1), pick(many), pick(many * many)]
}

fn check<T: Number>(group: &mut Group, numbers: &[T]) {
    let contributions = triples(numbers);
    let contributions = contributions.each_ref().map(Vec::as_slice);
    for op in OPS {
        let result = group.reduce(op.reduce(), &contributions);

        let expected = in_order(op, &contributions);
        for (index, (got, wanted)) in result.iter().zip(&expected).enumerate() {
            let same = bytes(std::slice::from_ref(got)) == bytes(std::slice::from_ref(wanted));
            let of = contributions.map(|own| own[index]);
            assert!(same, "{op:?} of {of:?} is {got:?}, not {wanted:?}");
        }
    }
}

macro_rules! limits {
    ($($integer:ty),*) => {
        [$(|group: &mut Group| check::<$integer>(
            group,
            &[<$integer>::MIN, <$integer>::MIN + 1, 0, 1, <$integer>::MAX / 2, <$integer>::MAX],
        )),*]
    };
}

#[test]
fn integers_wrap_and_their_averages_truncate_at_every_width() {
    let mut group = Group::new(3);

    for check in limits!(u8, i8, u16, i16, u32, i32, u64, i64) {
        check(&mut group);
    }
}

#[test]
fn nan_infinities_zeros_and_subnormals_come_out_the_same_on_all_peers() {
    let mut group = Group::new(3);

    // In the order of the bits: zeros, subnormals, the least normal, one, the greatest, infinities,
    // NaN: quiet, of the other sign, with a payload, signalling.
    check(
        &mut group,
        &[
            0, 0x8000, 1, 0x8001, 0x03FF, 0x0400, 0x3C00, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00,
            0xFE00, 0x7E55, 0x7D01,
        ]
        .map(f16::from_bits),
    );
    check(
        &mut group,
        &[
            0, 0x8000, 1, 0x8001, 0x007F, 0x0080, 0x3F80, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7FC0,
            0xFFC0, 0x7FC5, 0x7F81,
        ]
        .map(bf16::from_bits),
    );
    check(
        &mut group,
        &[
            0,
            0x8000_0000,
            1,
            0x8000_0001,
            0x007F_FFFF,
            0x0080_0000,
            0x3F80_0000,
            0x7F7F_FFFF,
            0xFF7F_FFFF,
            0x7F80_0000,
            0xFF80_0000,
            0x7FC0_0000,
            0xFFC0_0000,
            0x7FC1_2345,
            0x7F80_0001,
        ]
        .map(f32::from_bits),
    );
    check(
        &mut group,
        &[
            0,
            1 << 63,
            1,
            1 << 63 | 1,
            (1 << 52) - 1,
            1 << 52,
            0x3FF << 52,
            (0x7FF << 52) - 1,
            (0xFFF << 52) - 1,
            0x7FF << 52,
            0xFFF << 52,
            0x7FF8 << 48,
            0xFFF8 << 48,
            0x7FF8 << 48 | 0x12345,
            0x7FF << 52 | 1,
        ]
        .map(f64::from_bits),
    );
}

/// Elements, so few that each chunk of a ring of two is one frame.
const FEW: usize = 512;

/// Lets one of two peers contribute a value that is not finite among small ones.
fn is_poisoned<T: Element>(group: &mut Group, poison: T, is_nan: fn(&T) -> bool) {
    let clean = vec![T::zeroed(); FEW];
    let mut poisoned = clean.clone();
    poisoned[FEW / 4] = poison;
    for op in OPS {
        for quantization in QUANTIZATIONS {
            let reduce: Reduce = op.reduce().quantize(quantization);

            // The chunk starts at the second rank: there it is encoded whatever the operation.
            let result = group.reduce(reduce, &[&clean, &poisoned]);

            let what = format!("{op:?} of {}, {quantization}", T::TYPE);
            // The first half of the buffer is a chunk. With blocks it is the block alone.
            let frame = match quantization {
                Quantization::Blockwise4 => 128..192,
                _ => 0..FEW / 2,
            };
            let one_nan = bytes(&result[frame.start..=frame.start]);
            for (index, element) in result.iter().enumerate() {
                assert_eq!(is_nan(element), frame.contains(&index), "{what}: {index}");
                let same = bytes(std::slice::from_ref(element)) == one_nan;
                assert_eq!(same, frame.contains(&index), "{what}: {index}");
            }
        }
    }
}

#[test]
fn a_value_that_is_not_finite_makes_its_quantized_frame_nan_for_everybody() {
    let mut group = Group::new(2);

    for poison in [f16::NAN, f16::INFINITY, f16::NEG_INFINITY] {
        is_poisoned(&mut group, poison, |element| element.is_nan());
    }
    for poison in [bf16::NAN, bf16::INFINITY, bf16::NEG_INFINITY] {
        is_poisoned(&mut group, poison, |element| element.is_nan());
    }
    for poison in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        is_poisoned(&mut group, poison, |element| element.is_nan());
    }
    for poison in [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        is_poisoned(&mut group, poison, |element| element.is_nan());
    }
}
