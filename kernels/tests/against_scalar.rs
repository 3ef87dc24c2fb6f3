//! The kernels against a definition that works on one number at a time and in wider types.

use half::{bf16, f16};
use pccl_kernels::{ElementType, KernelError, Op, divide, reduce, reduce_into, reduce_saving};
use proptest::prelude::*;

/// One element, in a type that holds every element exactly.
#[derive(Clone, Copy, Debug)]
enum Value {
    Integer(i128),
    /// A half: the number and the type, to which it is rounded after each operation.
    Half(f32, ElementType),
    Single(f32),
    Double(f64),
}

fn decode(element: ElementType, bytes: &[u8]) -> Value {
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    let bits = word(bytes);
    match element {
        ElementType::U8 | ElementType::U16 | ElementType::U32 | ElementType::U64 => {
            Value::Integer(bits.into())
        }
        ElementType::I8 => Value::Integer((bits as i8).into()),
        ElementType::I16 => Value::Integer((bits as i16).into()),
        ElementType::I32 => Value::Integer((bits as i32).into()),
        ElementType::I64 => Value::Integer((bits as i64).into()),
        ElementType::F16 => Value::Half(f16::from_bits(bits as u16).to_f32(), element),
        ElementType::BF16 => Value::Half(bf16::from_bits(bits as u16).to_f32(), element),
        ElementType::F32 => Value::Single(f32::from_bits(bits as u32)),
        ElementType::F64 => Value::Double(f64::from_bits(bits)),
    }
}

/// The bytes of a value: integers lose what does not fit, a NaN is the canonical one.
fn encode(element: ElementType, value: Value) -> Vec<u8> {
    match value {
        Value::Integer(value) => value.to_le_bytes()[..element.size()].to_vec(),
        Value::Half(value, ElementType::F16) if value.is_nan() => 0x7E00_u16.to_le_bytes().to_vec(),
        Value::Half(value, ElementType::F16) => f16::from_f32(value).to_le_bytes().to_vec(),
        Value::Half(value, _) if value.is_nan() => 0x7FC0_u16.to_le_bytes().to_vec(),
        Value::Half(value, _) => bf16::from_f32(value).to_le_bytes().to_vec(),
        Value::Single(value) if value.is_nan() => 0x7FC0_0000_u32.to_le_bytes().to_vec(),
        Value::Single(value) => value.to_le_bytes().to_vec(),
        Value::Double(value) if value.is_nan() => 0x7FF8_0000_0000_0000_u64.to_le_bytes().to_vec(),
        Value::Double(value) => value.to_le_bytes().to_vec(),
    }
}

macro_rules! float_op {
    ($op:expr, $a:expr, $b:expr) => {{
        let (a, b) = ($a, $b);
        match $op {
            Op::Sum => a + b,
            Op::Prod => a * b,
            _ if a.is_nan() || b.is_nan() => a + b,
            Op::Max if a.total_cmp(&b).is_ge() => a,
            Op::Min if a.total_cmp(&b).is_le() => a,
            Op::Max | Op::Min => b,
        }
    }};
}

fn scalar_op(op: Op, a: Value, b: Value) -> Value {
    match (a, b) {
        (Value::Integer(a), Value::Integer(b)) => Value::Integer(match op {
            Op::Sum => a + b,
            Op::Prod => a.wrapping_mul(b),
            Op::Max => a.max(b),
            Op::Min => a.min(b),
        }),
        (Value::Half(a, half), Value::Half(b, _)) => Value::Half(float_op!(op, a, b), half),
        (Value::Single(a), Value::Single(b)) => Value::Single(float_op!(op, a, b)),
        (Value::Double(a), Value::Double(b)) => Value::Double(float_op!(op, a, b)),
        _ => panic!("two elements of one type"),
    }
}

fn scalar_reduce(element: ElementType, op: Op, into: &[u8], from: &[u8]) -> Vec<u8> {
    let size = element.size();
    let pairs = into.chunks_exact(size).zip(from.chunks_exact(size));
    pairs
        .flat_map(|(a, b)| {
            encode(
                element,
                scalar_op(op, decode(element, a), decode(element, b)),
            )
        })
        .collect()
}

fn scalar_divide(element: ElementType, bytes: &[u8], by: u32) -> Vec<u8> {
    let quotient = |value| match value {
        Value::Integer(value) => Value::Integer(value / i128::from(by)),
        Value::Half(value, half) => Value::Half(value / by as f32, half),
        Value::Single(value) => Value::Single(value / by as f32),
        Value::Double(value) => Value::Double(value / f64::from(by)),
    };
    let elements = bytes.chunks_exact(element.size());
    elements
        .flat_map(|bytes| encode(element, quotient(decode(element, bytes))))
        .collect()
}

/// Reproducible noise in every byte.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    (0..len)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695);
            (state >> 56) as u8
        })
        .collect()
}

/// Bytes of one float or integer type that are hard in some way, as `f64` and `f32` bits alike.
fn special(element: ElementType) -> Vec<Vec<u8>> {
    let singles = [
        0.0,
        -0.0,
        1.0,
        -1.5,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        -f32::NAN,
        f32::from_bits(0x7F80_0001),
        f32::from_bits(0xFFC1_2345),
        f32::MIN_POSITIVE,
        f32::from_bits(1),
        f32::from_bits(0x8000_0001),
        f32::MAX,
        f32::MIN,
    ];
    let doubles = [
        f64::from_bits(1),
        f64::from_bits(0xFFF0_0000_0000_0001),
        f64::MAX,
        f64::MIN,
    ];
    // Zeros, ones, infinities, several NaN, subnormals, the least normal and the greatest numbers.
    let halves = [
        0_u16, 0x8000, 0x3C00, 0xBE00, 0x7C00, 0xFC00, 0x7E00, 0xFE00, 0x7C01, 0xFD23, 0x0400,
        0x03FF, 1, 0x8001, 0x7BFF, 0xFBFF, 0x4000, 0x1000,
    ];
    let brains = [
        0_u16, 0x8000, 0x3F80, 0xBFC0, 0x7F80, 0xFF80, 0x7FC0, 0xFFC0, 0x7F81, 0xFFA3, 0x0080,
        0x007F, 1, 0x8001, 0x7F7F, 0xFF7F, 0x4000, 0x3B80,
    ];
    match element {
        ElementType::F16 => halves.map(|half| half.to_le_bytes().to_vec()).to_vec(),
        ElementType::BF16 => brains.map(|half: u16| half.to_le_bytes().to_vec()).to_vec(),
        ElementType::F32 => singles.map(|single| single.to_le_bytes().to_vec()).to_vec(),
        ElementType::F64 => {
            let singles = singles.map(f64::from);
            let both = singles.iter().chain(&doubles);
            both.map(|double| double.to_le_bytes().to_vec()).collect()
        }
        _ => {
            let patterns = [0, 1, 2, 3, 0x7F, 0x80, 0x81, 0xFE, 0xFF];
            let low = patterns.map(|low: u8| {
                let mut bytes = vec![0; element.size()];
                bytes[0] = low;
                bytes
            });
            let high = patterns.map(|high: u8| {
                let mut bytes = vec![if high & 1 == 1 { 0xFF } else { 0 }; element.size()];
                bytes[element.size() - 1] = high;
                bytes
            });
            low.into_iter().chain(high).collect()
        }
    }
}

#[test]
fn every_length_and_every_start_gives_the_scalar_result() {
    for element in ElementType::ALL {
        for count in 0..=257 {
            let len = count * element.size();
            let (from_start, into_start) = (count % 9, count % 7);
            let mut into = noise(into_start + len, 1 + count as u64);
            let from = noise(from_start + len, 1_000 + count as u64);
            for op in Op::ALL {
                let expected = scalar_reduce(element, op, &into[into_start..], &from[from_start..]);

                let before = into[into_start..].to_vec();
                let (mut out, mut saved) = (noise(from_start + len, 7), noise(len + 3, 8));

                let (a, b) = (&into[into_start..], &from[from_start..]);
                reduce_into(element, op, &mut out[from_start..], a, b).unwrap();
                let mut kept = into[into_start..].to_vec();
                reduce_saving(element, op, &mut kept, b, &mut saved[3..]).unwrap();
                reduce(element, op, &mut into[into_start..], &from[from_start..]).unwrap();

                let what = format!("{count} elements, {op:?}, {element:?}");
                assert_eq!(into[into_start..], expected, "{what}");
                assert_eq!(out[from_start..], expected, "{what}, out of place");
                assert_eq!(kept, expected, "{what}, saving");
                assert_eq!(saved[3..], before, "{what}, saved");
            }
            let expected = scalar_divide(element, &into[into_start..], 3);

            divide(element, &mut into[into_start..], 3).unwrap();

            assert_eq!(
                into[into_start..],
                expected,
                "{count} elements of {element:?} divided"
            );
        }
    }
}

#[test]
fn special_values_give_the_scalar_result_in_either_order() {
    for element in ElementType::ALL {
        let values = special(element);
        let pairs = values
            .iter()
            .flat_map(|a| values.iter().map(move |b| (&a[..], &b[..])));
        let (ones, others): (Vec<&[u8]>, Vec<&[u8]>) = pairs.unzip();
        let (ones, others) = (ones.concat(), others.concat());
        for op in Op::ALL {
            let expected = scalar_reduce(element, op, &ones, &others);

            let mut forth = ones.clone();
            reduce(element, op, &mut forth, &others).unwrap();
            let mut back = others.clone();
            reduce(element, op, &mut back, &ones).unwrap();

            assert_eq!(forth, expected, "{op:?} of {element:?}");
            assert_eq!(back, expected, "{op:?} of {element:?}, operands exchanged");
        }
    }
}

#[test]
fn special_values_are_divided_as_scalars_are() {
    let divisors = [
        1, 2, 3, 7, 127, 128, 200, 255, 256, 65_535, 65_536, 16_777_217,
    ];
    for element in ElementType::ALL {
        for by in divisors
            .into_iter()
            .chain([i32::MAX as u32, 1 << 31, u32::MAX])
        {
            let mut bytes = special(element).concat();
            let expected = scalar_divide(element, &bytes, by);

            divide(element, &mut bytes, by).unwrap();

            assert_eq!(bytes, expected, "{element:?} by {by}");
        }
    }
}

#[test]
fn every_small_integer_is_divided_exactly_by_every_small_divisor() {
    let all: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    for element in [
        ElementType::U8,
        ElementType::I8,
        ElementType::U16,
        ElementType::I16,
    ] {
        for by in (1..=300).chain([32_767, 32_768, 65_535]) {
            let mut bytes = all.clone();
            let expected = scalar_divide(element, &bytes, by);

            divide(element, &mut bytes, by).unwrap();

            assert!(bytes == expected, "{element:?} by {by}");
        }
    }
}

#[test]
fn an_average_over_two_hundred_bytes_is_right() {
    let mut sums = [100_i8, -100, 127, i8::MIN].map(i8::to_le_bytes).concat();

    divide(ElementType::I8, &mut sums, 200).unwrap();

    assert_eq!(sums, [0, 0, 0, 0]);
}

#[test]
fn senseless_calls_are_refused_and_change_nothing() {
    let mut into = [1_u8, 2, 3, 4, 5];

    let lengths = reduce(ElementType::U8, Op::Sum, &mut into, &[1; 4]);
    let partial = reduce(ElementType::U16, Op::Sum, &mut into, &[1; 5]);
    let partial_division = divide(ElementType::F32, &mut into, 2);
    let zero = divide(ElementType::U8, &mut into, 0);

    assert_eq!(
        lengths,
        Err(KernelError::LengthMismatch { into: 5, from: 4 })
    );
    let of = |element| Err(KernelError::PartialElement { len: 5, element });
    assert_eq!(partial, of(ElementType::U16));
    assert_eq!(partial_division, of(ElementType::F32));
    assert_eq!(zero, Err(KernelError::ZeroDivisor));
    assert_eq!(into, [1, 2, 3, 4, 5]);
}

fn any_element() -> impl Strategy<Value = ElementType> {
    prop::sample::select(ElementType::ALL.to_vec())
}

fn any_op() -> impl Strategy<Value = Op> {
    prop::sample::select(Op::ALL.to_vec())
}

/// Two slices of equal length that hold whole elements.
fn operands() -> impl Strategy<Value = (ElementType, Vec<u8>, Vec<u8>)> {
    (any_element(), 0..200_usize).prop_flat_map(|(element, count)| {
        let bytes = || prop::collection::vec(any::<u8>(), count * element.size());
        (Just(element), bytes(), bytes())
    })
}

proptest! {
    #[test]
    fn any_reduction_gives_the_scalar_result((element, into, from) in operands(), op in any_op()) {
        let expected = scalar_reduce(element, op, &into, &from);

        let mut result = into;
        reduce(element, op, &mut result, &from).unwrap();

        prop_assert_eq!(result, expected);
    }

    #[test]
    fn the_order_of_the_operands_does_not_matter((element, a, b) in operands(), op in any_op()) {
        let (mut forth, mut back) = (a.clone(), b.clone());

        reduce(element, op, &mut forth, &b).unwrap();
        reduce(element, op, &mut back, &a).unwrap();

        prop_assert_eq!(forth, back);
    }

    #[test]
    fn the_cut_into_frames_does_not_matter(
        (element, into, from) in operands(),
        op in any_op(),
        cut in any::<prop::sample::Index>(),
    ) {
        let (mut whole, mut cut_up) = (into.clone(), into.clone());
        let middle = cut.index(into.len() / element.size() + 1) * element.size();

        reduce(element, op, &mut whole, &from).unwrap();
        let (head, tail) = cut_up.split_at_mut(middle);
        reduce(element, op, head, &from[..middle]).unwrap();
        reduce(element, op, tail, &from[middle..]).unwrap();

        prop_assert_eq!(whole, cut_up);
    }

    #[test]
    fn any_division_gives_the_scalar_result(
        (element, bytes, _) in operands(),
        by in prop_oneof![1..300_u32, 1..=u32::MAX],
    ) {
        let expected = scalar_divide(element, &bytes, by);

        let mut result = bytes;
        divide(element, &mut result, by).unwrap();

        prop_assert_eq!(result, expected);
    }
}
