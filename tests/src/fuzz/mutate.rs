//! Changing inputs, for a fuzzer without coverage: flipped bits, spliced inputs, edited lengths, cut ends.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};

/// The longest input that is made.
pub const INPUT_MAX: usize = 4 << 10;

/// Lengths and counts that are at the edge of something.
const LENGTHS: [u32; 12] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    4 << 10,
    (4 << 10) + 1,
    0xffff,
    1 << 20,
    5 << 20,
    0x7fff_ffff,
    u32::MAX,
];

/// One of the inputs, changed in one to eight places.
///
/// # Panics
/// There are no inputs.
#[must_use]
pub fn mutated(inputs: &[Vec<u8>], random: &mut StdRng) -> Vec<u8> {
    let one = || "at least one input";
    let mut input = inputs
        .choose(random)
        .unwrap_or_else(|| panic!("{}", one()))
        .clone();
    for _ in 0..random.random_range(1..=8) {
        change(&mut input, inputs, random);
    }
    input.truncate(INPUT_MAX);
    input
}

fn change(input: &mut Vec<u8>, inputs: &[Vec<u8>], random: &mut StdRng) {
    let at = random.random_range(0..=input.len());
    match random.random_range(0..10) {
        0 => flip(input, at, random),
        1 => {
            if let Some(byte) = input.get_mut(at) {
                *byte = random.random();
            }
        }
        2 => input.truncate(at),
        3 => insert(input, at, random),
        4 => remove(input, at, random),
        5 => repeat(input, at, random),
        6 => write_length(input, at, random),
        7 | 8 => splice(input, at, inputs, random),
        _ => {
            let mut tail = vec![0; random.random_range(1..64)];
            random.fill_bytes(&mut tail);
            input.extend(tail);
        }
    }
}

fn flip(input: &mut [u8], at: usize, random: &mut StdRng) {
    if let Some(byte) = input.get_mut(at) {
        *byte ^= 1 << random.random_range(0..8);
    }
}

fn insert(input: &mut Vec<u8>, at: usize, random: &mut StdRng) {
    let mut piece = vec![0; random.random_range(1..9)];
    random.fill_bytes(&mut piece);
    input.splice(at..at, piece);
}

fn remove(input: &mut Vec<u8>, at: usize, random: &mut StdRng) {
    let end = input.len().min(at + random.random_range(1..17));
    input.drain(at..end);
}

fn repeat(input: &mut Vec<u8>, at: usize, random: &mut StdRng) {
    let end = input.len().min(at + random.random_range(1..33));
    let piece = input[at..end].to_vec();
    input.splice(at..at, piece);
}

/// A length as a fixed number or as a varint.
fn write_length(input: &mut Vec<u8>, at: usize, random: &mut StdRng) {
    let mut length = *LENGTHS.choose(random).unwrap_or(&0);
    let mut piece = Vec::new();
    if random.random() {
        piece.extend(length.to_le_bytes());
    } else {
        while length > 0x7f {
            piece.push(length as u8 | 0x80);
            length >>= 7;
        }
        piece.push(length as u8);
    }
    let end = input.len().min(at + piece.len());
    input.splice(at..end, piece);
}

/// The rest becomes a part of another input.
fn splice(input: &mut Vec<u8>, at: usize, inputs: &[Vec<u8>], random: &mut StdRng) {
    let Some(other) = inputs.choose(random) else {
        return;
    };
    let from = random.random_range(0..=other.len());
    input.truncate(at);
    input.extend(&other[from..]);
}
