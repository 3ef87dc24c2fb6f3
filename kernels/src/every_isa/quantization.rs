//! Quantized frames: the same on every instruction set, and what the arithmetic of one element says.

use std::hint::black_box;

use super::inputs::{inputs, to_bytes};
use super::{moved, noise, one};
use crate::codec::grid::{Codes, Extent, Grid, Kind};
use crate::codec::job::{Decode, Encode, Reduce, Residual};
use crate::codec::real::{Code, Float, Real};
use crate::codec::steps::Points;
use crate::half::{Bf16, F16};
use crate::isa::Isa;
use crate::number::Number;
use crate::{Codec, ElementType, Op, Scheme};

const FLOATS: [ElementType; 4] = [
    ElementType::F16,
    ElementType::BF16,
    ElementType::F32,
    ElementType::F64,
];

/// Finite numbers of all magnitudes beside each other.
fn mixed(element: ElementType, count: usize, seed: u64) -> Vec<u8> {
    let numbers = (0..count).map(|i| {
        let unit = ((i as u64 * 7_919 + seed * 104_729) % 10_007) as f32 / 5_000.0 - 1.0;
        f64::from(match i % 5 {
            0 => unit * 100.0,
            1 => f32::from_bits((unit.to_bits() >> 10) & 0x807F_FFFF),
            2 => -0.0,
            _ => unit,
        })
    });
    to_bytes(element, &numbers.collect::<Vec<_>>())
}

/// Frames that are hard in some way, each kind with its name.
fn frames(element: ElementType, count: usize) -> Vec<(&'static str, Vec<u8>)> {
    let inputs = inputs(element, count).into_iter();
    let mut frames: Vec<_> = inputs
        .map(|(kind, numbers)| (kind, to_bytes(element, &numbers)))
        .collect();
    frames.push(("mixed", mixed(element, count, count as u64)));
    frames.push(("noise", noise(element, count, count as u64)));
    frames
}

/// What each call of a codec writes.
#[derive(Debug, PartialEq, Eq, Default)]
struct Written {
    frame: Vec<u8>,
    decoded: Vec<u8>,
    residuals: Vec<u8>,
    /// The elements themselves combined with what was decoded, by each operation.
    sums: [Vec<u8>; 4],
}

#[test]
fn frames_of_every_length_and_start_are_the_same_on_every_isa() {
    for element in FLOATS {
        for count in (0..=257).chain([1_000, 4_095]) {
            for (kind, elements) in frames(element, count) {
                for scheme in Scheme::ALL {
                    let codec = Codec::new(element, scheme).unwrap();
                    let mut results = Isa::all().into_iter().map(|isa| {
                        let written = written(codec, isa, &elements, count % 9);
                        let sums_decoded = sums_decoded(codec, isa, &written.sums[0]);
                        (written, sums_decoded)
                    });
                    let expected = results.next().unwrap();
                    for (i, result) in results.enumerate() {
                        let what = format!("{count} x {element:?} as {scheme:?}, {kind}");
                        assert!(result == expected, "{what}, instruction set {}", i + 1);
                    }
                }
            }
        }
    }
}

/// The calls with the loops of one instruction set, of elements at an address that is `start` past
/// one that the allocator chose.
fn written(codec: Codec, isa: Isa, elements: &[u8], start: usize) -> Written {
    let count = elements.len() / codec.element().size();
    let elements = moved(elements, start);
    let elements = &elements[start..];
    let mut encoded = vec![0; start + codec.encoded_len(count)];
    let encoded = &mut encoded[start..];
    let sums_len = count * codec.sum_element().size();
    codec.dispatch(isa, Encode { elements, encoded });

    let sums = Op::ALL.map(|op| {
        let mut sums = vec![0; sums_len + 1];
        let operands = Reduce {
            op,
            own: elements,
            encoded,
            sums: &mut sums[1..],
        };
        codec.dispatch(isa, operands);
        sums.split_off(1)
    });
    let mut residuals = vec![0; sums_len];
    let operands = Residual {
        elements,
        residuals: &mut residuals,
    };
    codec.dispatch(isa, operands);
    Written {
        frame: encoded.to_vec(),
        decoded: decoded(codec, isa, encoded, count),
        residuals,
        sums,
    }
}

fn decoded(codec: Codec, isa: Isa, encoded: &[u8], count: usize) -> Vec<u8> {
    let mut elements = vec![0; count * codec.element().size()];
    let operands = Decode {
        encoded,
        elements: &mut elements,
    };
    codec.dispatch(isa, operands);
    elements
}

/// What becomes of sums, which may be beyond the range of the elements.
fn sums_decoded(codec: Codec, isa: Isa, sums: &[u8]) -> Vec<u8> {
    let count = sums.len() / codec.sum_element().size();
    let mut encoded = vec![0; codec.encoded_len(count)];
    codec.encode_sums(sums, &mut encoded).unwrap();
    decoded(codec, isa, &encoded, count)
}

/// How the codes of a scheme lie in a frame.
struct Layout {
    kind: Kind,
    codes: Codes,
    /// Elements that share a grid.
    shared: usize,
    /// A code, from the low bits that an encoder gives.
    code: fn(u16) -> i32,
    bytes: fn(&[u16]) -> Vec<u8>,
}

impl Layout {
    fn of(scheme: Scheme) -> Self {
        match scheme {
            Scheme::MinMaxU8 => Self::linear::<u8>(Kind::MinMax),
            Scheme::MinMaxU16 => Self::linear::<u16>(Kind::MinMax),
            Scheme::ZeroPointU8 => Self::linear::<u8>(Kind::ZeroPoint),
            Scheme::ZeroPointI8 => Self::linear::<i8>(Kind::ZeroPoint),
            Scheme::Blockwise4 => Self {
                kind: Kind::MinMax,
                codes: Codes {
                    least: 0,
                    levels: 15,
                },
                shared: 64,
                code: i32::from,
                bytes: |codes| {
                    let pairs = codes.chunks(2);
                    pairs
                        .map(|pair| (pair[0] | pair.get(1).unwrap_or(&0) << 4) as u8)
                        .collect()
                },
            },
        }
    }

    fn linear<C: Code>(kind: Kind) -> Self {
        Self {
            kind,
            codes: Codes {
                least: C::LEAST,
                levels: C::LEVELS,
            },
            shared: usize::MAX,
            code: |bits| C::from_low_bits(bits).to_i32(),
            bytes: |codes| {
                let codes = codes.iter().map(|bits| C::from_low_bits(*bits));
                bytes_of(codes)
            },
        }
    }
}

#[test]
fn frames_hold_what_the_arithmetic_of_one_element_says_on_every_isa() {
    frames_of::<F16>(ElementType::F16);
    frames_of::<Bf16>(ElementType::BF16);
    frames_of::<f32>(ElementType::F32);
    frames_of::<f64>(ElementType::F64);
}

fn frames_of<E: Float>(element: ElementType) {
    for count in [1, 2, 63, 64, 65, 257, 1_000] {
        for (kind, elements) in frames(element, count) {
            for scheme in Scheme::ALL {
                let codec = Codec::new(element, scheme).unwrap();
                let expected = one_by_one::<E>(&Layout::of(scheme), &elements);
                for isa in Isa::all() {
                    let what = format!("{isa:?}: {count} x {element:?} as {scheme:?}, {kind}");
                    assert!(written(codec, isa, &elements, 0) == expected, "{what}");
                }
            }
        }
    }
}

fn one_by_one<E: Float>(layout: &Layout, elements: &[u8]) -> Written {
    let mut written = Written::default();
    let elements = E::elements(elements).iter();
    let values: Vec<_> = elements
        .map(|bytes| E::from_bytes(*bytes).widen())
        .collect();
    for values in values.chunks(layout.shared) {
        one_grid::<E>(layout, values, &mut written);
    }
    written
}

/// The black boxes keep one element's arithmetic out of vectors.
fn one_grid<E: Float>(layout: &Layout, values: &[E::Sum], written: &mut Written) {
    let extent = extent(values);
    let grid = Grid::fit(layout.kind, layout.codes, extent);
    let encoder = grid.encoder(layout.codes);
    let to_element = grid.decoder(layout.codes, E::GREATEST);
    let to_sum = grid.decoder(layout.codes, Real::MAX);
    let low_bits: Vec<u16> = values
        .iter()
        .map(|value| encoder.code(black_box(*value)))
        .collect();

    written.frame.extend(bytes_of(grid.parameters(layout.kind)));
    written.frame.extend((layout.bytes)(&low_bits));
    for (value, bits) in values.iter().zip(low_bits) {
        let code = (layout.code)(bits);
        let element = E::narrow(black_box(to_element).value(code));
        let lost = if extent.finite {
            *value - element.widen()
        } else {
            Real::ZERO
        };
        written.decoded.extend(bytes_of([element]));
        written.residuals.extend(bytes_of([lost]));
        for (sums, op) in written.sums.iter_mut().zip(Op::ALL) {
            let sum = one(op, black_box(to_sum).value(code), *value);
            sums.extend(bytes_of([sum]));
        }
    }
}

fn extent<R: Real>(values: &[R]) -> Extent<R> {
    let values = || values.iter().copied();
    Extent {
        lo: values().reduce(|a, b| if b < a { b } else { a }).unwrap(),
        hi: values().reduce(|a, b| if b > a { b } else { a }).unwrap(),
        // Of infinities, too, that product is NaN.
        finite: values().all(|value| value * R::ZERO == R::ZERO),
    }
}

fn bytes_of<T: Number>(numbers: impl IntoIterator<Item = T>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in numbers {
        let at = bytes.len();
        bytes.resize(at + size_of::<T::Bytes>(), 0);
        T::elements_mut(&mut bytes[at..])[0] = number.to_bytes();
    }
    bytes
}

/// What the codec's arithmetic counts on.
#[test]
fn the_constants_of_floats_are_what_they_say() {
    assert_eq!(f32::MAGIC, 12_582_912.0);
    assert_eq!(f64::MAGIC, 6_755_399_441_055_744.0);
    assert_eq!(<f32 as Real>::TINY, 2_f32.powi(-90));
    assert_eq!(<f64 as Real>::LIFT, 2_f64.powi(500));
    assert_eq!(<f32 as Real>::LIFT, 2_f32.powi(80));
    assert_eq!(<f64 as Real>::TINY, 2_f64.powi(-900));
    assert_eq!(F16::GREATEST, 65_504.0);
    assert_eq!(Bf16::GREATEST, half::bf16::MAX.to_f32());
}
