//! Every kernel on every instruction set of this machine gives the bits of the scalar body.

#[path = "../tests/inputs/mod.rs"]
mod inputs;
mod quantization;

use crate::divide::divide_with;
use crate::half::{Bf16, F16};
use crate::isa::Isa;
use crate::number::Number;
use crate::reduce::{InPlace, OutOfPlace, Saving, combine};
use crate::scale::scale_with;
use crate::{ElementType, Op};

/// Bytes that are hard in some way, in whole elements of every type: among small numbers of all
/// kinds, zeros of both signs, infinities, NaN, subnormals and extremes, at places that differ with
/// the seed.
fn noise(element: ElementType, count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state >> 32
    };
    let mut bytes = Vec::new();
    for _ in 0..count {
        let (random, kind) = (next() << 32 | next(), next() % 24);
        let number = (random as i32) as f64 / 1e9;
        let single = match kind {
            0 => f32::from_bits(random as u32),
            1 => f32::from_bits(random as u32 & 0x807F_FFFF),
            2 => 0.0,
            3 => -0.0,
            4 => f32::INFINITY,
            5 => f32::NEG_INFINITY,
            6 => f32::NAN,
            7 => f32::MAX,
            8 => f32::from_bits(0xFF81_2345),
            _ => number as f32,
        };
        match element {
            ElementType::F32 => bytes.extend(single.to_le_bytes()),
            ElementType::F64 if kind == 0 => bytes.extend(random.to_le_bytes()),
            ElementType::F64 => bytes.extend(f64::from(single).to_le_bytes()),
            ElementType::F16 if kind < 2 => bytes.extend((random as u16).to_le_bytes()),
            ElementType::F16 => bytes.extend(half::f16::from_f32(single).to_le_bytes()),
            ElementType::BF16 if kind < 2 => bytes.extend((random as u16).to_le_bytes()),
            ElementType::BF16 => bytes.extend(half::bf16::from_f32(single).to_le_bytes()),
            _ => bytes.extend(&random.to_le_bytes()[..element.size()]),
        }
    }
    bytes
}

/// `bytes` at an address that is `start` past one that the allocator chose.
fn moved(bytes: &[u8], start: usize) -> Vec<u8> {
    [&vec![0xEE; start], bytes].concat()
}

/// One element at a time, with the instructions that every machine has.
fn scalar_reduce(element: ElementType, op: Op, into: &[u8], from: &[u8]) -> Vec<u8> {
    let mut result = into.to_vec();
    let size = element.size();
    for (into, from) in result.chunks_mut(size).zip(from.chunks(size)) {
        let operands = InPlace { into, from };
        combine(Isa::all()[0], element, op, operands);
    }
    result
}

#[test]
fn all_instruction_sets_of_the_machine_are_told_apart() {
    let checked: Vec<_> = Isa::all().iter().map(|isa| format!("{isa:?}")).collect();

    let left_out = ["Avx2", "Avx512"]
        .into_iter()
        .filter(|name| !checked.iter().any(|isa| isa.contains(name)));
    println!(
        "checked: {checked:?}; not of this machine, or of the whole program: {:?}",
        left_out.collect::<Vec<_>>()
    );
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && !cfg!(target_feature = "avx2") {
        assert!(checked.len() >= 2, "{checked:?}");
    }
}

#[test]
fn reductions_of_every_length_and_start_are_the_same_on_every_isa() {
    for element in ElementType::ALL {
        for count in 0..=257 {
            let (start, other) = (count % 9, count % 7);
            let a = noise(element, count, count as u64);
            let b = noise(element, count, 1_000 + count as u64);
            let (into, from) = (moved(&a, start), moved(&b, other));
            for op in Op::ALL {
                let expected = scalar_reduce(element, op, &a, &b);
                for isa in Isa::all() {
                    let what = format!("{isa:?}: {count} x {element:?}, {op:?}");
                    let mut result = into.clone();
                    let mut out = vec![1; other + a.len()];
                    let (mut kept, mut saved) = (into.clone(), vec![1; other + a.len()]);

                    let (into, from) = (&mut result[start..], &from[other..]);
                    combine(isa, element, op, InPlace { into, from });
                    let (out, a_moved) = (&mut out[other..], &moved(&a, start)[start..]);
                    let operands = OutOfPlace {
                        out,
                        a: a_moved,
                        b: from,
                    };
                    combine(isa, element, op, operands);
                    let (into_kept, saved) = (&mut kept[start..], &mut saved[other..]);
                    let operands = Saving {
                        into: into_kept,
                        from,
                        saved,
                    };
                    combine(isa, element, op, operands);

                    assert_eq!(result[start..], expected, "{what}");
                    assert_eq!(out[..], expected, "{what}, out of place");
                    assert_eq!(kept[start..], expected, "{what}, saving");
                    assert_eq!(saved[..], a, "{what}, saved");
                }
            }
        }
    }
}

#[test]
fn divisions_of_every_length_and_start_are_the_same_on_every_isa() {
    for element in ElementType::ALL {
        for count in 0..=257 {
            let by = [1, 2, 3, 7, 10, 255, 256, 65_537, u32::MAX][count % 9];
            let bytes = noise(element, count, count as u64);
            let mut expected = bytes.clone();
            for one in expected.chunks_mut(element.size()) {
                divide_with(Isa::all()[0], element, one, by);
            }
            for isa in Isa::all() {
                let start = count % 11;
                let mut result = moved(&bytes, start);

                divide_with(isa, element, &mut result[start..], by);

                assert_eq!(
                    result[start..],
                    expected,
                    "{isa:?}: {count} x {element:?} by {by}"
                );
            }
        }
    }
}

#[test]
fn products_of_every_length_and_start_are_the_same_on_every_isa() {
    let floats = [
        ElementType::F16,
        ElementType::BF16,
        ElementType::F32,
        ElementType::F64,
    ];
    for element in floats {
        for count in 0..=257 {
            let factor = [1.0, 0.5, 1.0 / 3.0, 0.0, 1e-9, 65_537.0][count % 6];
            let bytes = noise(element, count, count as u64);
            let mut expected = bytes.clone();
            for one in expected.chunks_mut(element.size()) {
                assert!(scale_with(Isa::all()[0], element, one, factor));
            }
            for isa in Isa::all() {
                let start = count % 11;
                let mut result = moved(&bytes, start);

                assert!(scale_with(isa, element, &mut result[start..], factor));

                assert_eq!(
                    result[start..],
                    expected,
                    "{isa:?}: {count} x {element:?} by {factor}"
                );
            }
        }
    }
}

#[test]
fn halves_are_converted_as_the_reference_does() {
    let same = |ours: f32, theirs: f32| {
        ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan()
    };
    for bits in 0..=u16::MAX {
        let f16 = half::f16::from_bits(bits).to_f32();
        assert!(same(F16::from_bits(bits).to_f32(), f16), "f16 {bits:#x}");
        let bf16 = half::bf16::from_bits(bits).to_f32();
        assert!(same(Bf16::from_bits(bits).to_f32(), bf16), "bf16 {bits:#x}");

        // Around each half, and around the middle to the next one.
        for middle in [
            f16.to_bits(),
            f16.to_bits() | 0x1000,
            bf16.to_bits() | 0x8000,
        ] {
            for single in middle.saturating_sub(2)..=middle.saturating_add(2) {
                narrows_as_the_reference_does(f32::from_bits(single));
            }
        }
    }
    for step in 0..(1_u32 << 22) {
        narrows_as_the_reference_does(f32::from_bits(step.wrapping_mul(1_021)));
    }
}

fn narrows_as_the_reference_does(single: f32) {
    let (f16, bf16) = if single.is_nan() {
        (0x7E00, 0x7FC0)
    } else {
        (
            half::f16::from_f32(single).to_bits(),
            half::bf16::from_f32(single).to_bits(),
        )
    };
    assert_eq!(F16::from_f32(single).to_bits(), f16, "f16 of {single:e}");
    assert_eq!(Bf16::from_f32(single).to_bits(), bf16, "bf16 of {single:e}");
}

#[test]
fn every_half_is_combined_and_divided_as_the_definition_does() {
    let all: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    let others = [
        0_u16, 0x8000, 1, 0x8001, 0x03FF, 0x0400, 0x3C00, 0xBC01, 0x3555, 0x7BFF, 0xFBFF, 0x7C00,
        0xFC00, 0x7C01, 0xFE00, 0x3F80, 0x7F7F, 0x7F80, 0x7F81, 0xFFFF,
    ];
    for element in [ElementType::F16, ElementType::BF16] {
        for other in others {
            let from = other.to_le_bytes().repeat(1 << 16);
            for isa in Isa::all() {
                let what = format!("{isa:?}: {element:?} with {other:#x}");
                for op in Op::ALL {
                    let mut result = all.clone();
                    let operands = InPlace {
                        into: &mut result,
                        from: &from,
                    };
                    combine(isa, element, op, operands);
                    let of = |a, b| match element {
                        ElementType::F16 => half_of::<F16>(op, a, b),
                        _ => half_of::<Bf16>(op, a, b),
                    };
                    for (a, result) in (0..=u16::MAX).zip(result.as_chunks::<2>().0) {
                        assert_eq!(*result, of(a, other), "{what}: {op:?} of {a:#x}");
                    }
                }
            }
        }
        for isa in Isa::all() {
            for by in [2, 3, 1000] {
                every_half_is_divided(isa, element, by, &all);
            }
        }
    }
}

fn every_half_is_divided(isa: Isa, element: ElementType, by: u32, all: &[u8]) {
    let mut result = all.to_vec();
    divide_with(isa, element, &mut result, by);
    for (a, result) in (0..=u16::MAX).zip(result.as_chunks::<2>().0) {
        let expected = match element {
            ElementType::F16 => F16::from_bytes(a.to_le_bytes()).over(by).to_bytes(),
            _ => Bf16::from_bytes(a.to_le_bytes()).over(by).to_bytes(),
        };
        assert_eq!(*result, expected, "{isa:?}: {element:?} {a:#x} / {by}");
    }
}

fn half_of<H: Number<Bytes = [u8; 2]>>(op: Op, a: u16, b: u16) -> [u8; 2] {
    let (a, b) = (
        H::from_bytes(a.to_le_bytes()),
        H::from_bytes(b.to_le_bytes()),
    );
    one(op, a, b).to_bytes()
}

fn one<T: Number>(op: Op, a: T, b: T) -> T {
    match op {
        Op::Sum => a.sum(b),
        Op::Prod => a.prod(b),
        Op::Max => a.max(b),
        Op::Min => a.min(b),
    }
}
