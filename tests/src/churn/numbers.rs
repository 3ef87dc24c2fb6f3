//! What each peer contributes to each reduce, and what a result must be.
//!
//! A contribution is a function of seed, peer, revision, tag and index: nobody has to be told it. It repeats after
//! [`PERIOD`] elements, so that contributions and results are written and compared at the speed of memory. All
//! numbers are small and whole, so sums of them are exact in every order.

use pccl::Element;

/// Elements until a contribution repeats: a prime, so that no frame and no chunk is a multiple of it.
pub const PERIOD: usize = 1021;

/// The largest number that a peer contributes.
pub const LARGEST: u32 = PERIOD as u32 - 1;

/// Which reduce of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// The seed of the run.
    pub seed: u64,
    /// The revision of the shared state on which the step works.
    pub revision: u64,
    /// The tag.
    pub tag: u64,
}

/// How contributions are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Added.
    Sum,
    /// Added, and divided by their number.
    Avg,
    /// The largest.
    Max,
    /// The smallest.
    Min,
}

/// An element of a result that is not what its contributors have given.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("element {index} is {got}, not {expected}")]
pub struct WrongElement {
    /// Where.
    pub index: usize,
    /// What it is.
    pub got: f64,
    /// What it must be.
    pub expected: f64,
}

/// An element type in which sums of contributions are exact.
pub trait Number: Element + PartialEq {
    /// This whole number.
    fn whole(number: u32) -> Self;
    /// A sum, divided as an average is.
    fn divided(sum: u32, by: u32) -> Self;
    /// Its bits.
    fn bits(self) -> u64;
    /// For messages and bounds.
    fn about(self) -> f64;
}

impl Number for f32 {
    fn whole(number: u32) -> Self {
        number as Self
    }

    fn divided(sum: u32, by: u32) -> Self {
        sum as Self / by as Self
    }

    fn bits(self) -> u64 {
        self.to_bits().into()
    }

    fn about(self) -> f64 {
        self.into()
    }
}

impl Number for f64 {
    fn whole(number: u32) -> Self {
        number.into()
    }

    fn divided(sum: u32, by: u32) -> Self {
        Self::from(sum) / Self::from(by)
    }

    fn bits(self) -> u64 {
        self.to_bits()
    }

    fn about(self) -> f64 {
        self
    }
}

impl Number for i32 {
    fn whole(number: u32) -> Self {
        number as Self
    }

    fn divided(sum: u32, by: u32) -> Self {
        (sum / by) as Self
    }

    fn bits(self) -> u64 {
        u64::from(self as u32)
    }

    fn about(self) -> f64 {
        self.into()
    }
}

/// Writes what `peer` contributes.
pub fn fill<T: Number>(buffer: &mut [T], key: Key, peer: u64) {
    let period: Vec<T> = beginning(key, peer, buffer.len()).collect();
    repeat(buffer, &period);
}

/// Whether the buffer holds what `peer` contributes, bit for bit.
#[must_use]
pub fn is_contribution<T: Number>(buffer: &[T], key: Key, peer: u64) -> bool {
    let period: Vec<T> = beginning(key, peer, buffer.len()).collect();
    first_difference(buffer, &period).is_none()
}

/// The elements of a result until it repeats: what the contributors have given, combined.
#[must_use]
pub fn combined<T: Number>(key: Key, contributors: &[u64], op: Op) -> Vec<T> {
    combined_of(key, contributors, op, PERIOD)
}

/// The same for a result of so many elements.
#[must_use]
pub(super) fn combined_of<T: Number>(
    key: Key,
    contributors: &[u64],
    op: Op,
    elements: usize,
) -> Vec<T> {
    let start = if op == Op::Min { u32::MAX } else { 0 };
    let mut period = vec![start; elements.clamp(1, PERIOD)];
    for peer in contributors {
        for (so_far, value) in period.iter_mut().zip(pattern(key, *peer)) {
            *so_far = match op {
                Op::Sum | Op::Avg => *so_far + value,
                Op::Max => value.max(*so_far),
                Op::Min => value.min(*so_far),
            };
        }
    }
    let finish = |value: u32| match op {
        Op::Avg => T::divided(value, contributors.len().max(1) as u32),
        Op::Sum | Op::Max | Op::Min => T::whole(value),
    };
    period.into_iter().map(finish).collect()
}

/// Checks that the result is what the contributors have given, bit for bit.
///
/// # Errors
/// The first element that is wrong.
pub fn verify<T: Number>(
    result: &[T],
    key: Key,
    contributors: &[u64],
    op: Op,
) -> Result<(), WrongElement> {
    let period = combined_of::<T>(key, contributors, op, result.len());
    match first_difference(result, &period) {
        None => Ok(()),
        Some((index, got, expected)) => Err(WrongElement {
            index,
            got: got.about(),
            expected: expected.about(),
        }),
    }
}

/// Checks that no element of the result is further than `bound` from what the contributors have given.
///
/// # Errors
/// The first element that is wrong.
pub fn verify_within<T: Number>(
    result: &[T],
    key: Key,
    contributors: &[u64],
    op: Op,
    bound: f64,
) -> Result<(), WrongElement> {
    let period = combined_of::<f64>(key, contributors, op, result.len());
    let expected = period.iter().cycle();
    let wrong = result.iter().zip(expected).enumerate();
    for (index, (got, expected)) in wrong {
        let got = got.about();
        // A NaN is not near either.
        let is_near = (got - expected).abs() <= bound;
        if !is_near {
            return Err(WrongElement {
                index,
                got,
                expected: *expected,
            });
        }
    }
    Ok(())
}

/// The bits of all elements, added. A driver computes that of a result from its period alone.
#[must_use]
pub fn digest<T: Number>(elements: &[T]) -> u64 {
    let bits = elements.iter().map(|element| element.bits());
    bits.fold(0, u64::wrapping_add)
}

/// The digest of so many elements that repeat.
#[must_use]
pub fn digest_of_period<T: Number>(period: &[T], length: usize) -> u64 {
    let (whole, rest) = (length / period.len(), length % period.len());
    let rest = digest(period.get(..rest).unwrap_or_default());
    digest(period).wrapping_mul(whole as u64).wrapping_add(rest)
}

/// A hash of all elements, bit for bit.
#[must_use]
pub fn hash_of<T: bytemuck::NoUninit>(elements: &[T]) -> String {
    let hash = pccl_kernels::content_hash(bytemuck::cast_slice(elements));
    hash.iter().take(16).map(|b| format!("{b:02x}")).collect()
}

/// A number that depends on each bit of both (a round of splitmix64).
#[must_use]
pub const fn mixed(one: u64, other: u64) -> u64 {
    let mut mixed = one ^ other.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Fills the buffer with repetitions.
pub fn repeat<T: Copy>(buffer: &mut [T], period: &[T]) {
    for chunk in buffer.chunks_mut(period.len()) {
        if let Some(part) = period.get(..chunk.len()) {
            chunk.copy_from_slice(part);
        }
    }
}

/// What a peer contributes to so many elements, up to where it repeats. At least one.
fn beginning<T: Number>(key: Key, peer: u64, elements: usize) -> impl Iterator<Item = T> {
    pattern(key, peer).take(elements.max(1)).map(T::whole)
}

/// What a peer contributes, up to where it repeats.
fn pattern(key: Key, peer: u64) -> impl Iterator<Item = u32> {
    let drawn = mixed(
        mixed(mixed(mixed(key.seed, key.revision), key.tag), peer),
        PERIOD as u64,
    );
    let period = PERIOD as u64;
    let first = (drawn % period) as u32;
    let stride = (drawn / period % (period - 1) + 1) as u32;
    let next = move |value: &u32| Some((*value + stride) % period as u32);
    std::iter::successors(Some(first), next).take(PERIOD)
}

/// The first element that is not what the repetitions have there: where, what it is, and what it must be.
fn first_difference<T: Number>(elements: &[T], period: &[T]) -> Option<(usize, T, T)> {
    let mut chunks = elements.chunks(period.len()).enumerate();
    chunks.find_map(|(number, chunk)| {
        if period.get(..chunk.len()) == Some(chunk) {
            return None;
        }
        let mut pairs = chunk.iter().zip(period).enumerate();
        let (index, (got, expected)) = pairs.find(|(_, (got, expected))| got != expected)?;
        Some((number * period.len() + index, *got, *expected))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key {
        seed: 7,
        revision: 12,
        tag: 3,
    };

    fn sum_of(peers: &[u64]) -> Vec<f32> {
        let mut sum = vec![0.0; 3 * PERIOD + 5];
        for peer in peers {
            let mut one = vec![0.0; sum.len()];
            fill::<f32>(&mut one, KEY, *peer);
            for (sum, element) in sum.iter_mut().zip(one) {
                *sum += element;
            }
        }
        sum
    }

    #[test]
    fn a_sum_of_contributions_is_right_and_has_the_digest_of_its_period() {
        let sum = sum_of(&[0, 4, 9]);

        assert_eq!(verify(&sum, KEY, &[9, 0, 4], Op::Sum), Ok(()));
        let period = combined::<f32>(KEY, &[9, 0, 4], Op::Sum);
        assert_eq!(digest(&sum), digest_of_period(&period, sum.len()));
    }

    #[test]
    fn a_contribution_that_is_missing_or_there_twice_is_found() {
        assert!(verify(&sum_of(&[0]), KEY, &[0, 4], Op::Sum).is_err());
        assert!(verify(&sum_of(&[0, 4]), KEY, &[0], Op::Sum).is_err());
        assert!(verify(&sum_of(&[0, 4, 4]), KEY, &[0, 4], Op::Sum).is_err());
    }

    #[test]
    fn a_contribution_of_another_revision_tag_or_seed_is_found() {
        let sum = sum_of(&[0, 4]);

        for other in [
            Key { seed: 8, ..KEY },
            Key {
                revision: 13,
                ..KEY
            },
            Key { tag: 4, ..KEY },
        ] {
            assert!(verify(&sum, other, &[0, 4], Op::Sum).is_err(), "{other:?}");
        }
    }

    #[test]
    fn one_bit_of_one_element_and_a_frame_in_another_place_are_found() {
        for index in [0, PERIOD - 1, PERIOD, 3 * PERIOD + 4] {
            let mut sum = sum_of(&[0, 4]);
            sum[index] = f32::from_bits(sum[index].to_bits() ^ 1);

            let wrong = verify(&sum, KEY, &[0, 4], Op::Sum).unwrap_err();
            assert_eq!(wrong.index, index);
        }
        let mut moved = sum_of(&[0, 4]);
        moved.copy_within(0..1024, 1024);
        assert!(verify(&moved, KEY, &[0, 4], Op::Sum).is_err());
    }

    #[test]
    fn what_is_quantized_may_be_off_by_its_bound_and_no_more() {
        let mut sum = sum_of(&[0, 4]);
        sum[5] += 2.0;
        let within = |bound| verify_within(&sum, KEY, &[0, 4], Op::Sum, bound);

        assert_eq!(within(2.0), Ok(()));
        assert_eq!(within(1.9).unwrap_err().index, 5);
        sum[6] = f32::NAN;
        assert!(verify_within(&sum, KEY, &[0, 4], Op::Sum, 2.0).is_err());
    }
}
