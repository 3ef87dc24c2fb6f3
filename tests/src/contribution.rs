//! What a scripted peer contributes to a reduce, and what the sum of such contributions must be.
//!
//! Peers count their own rounds, and nobody knows the counts of the others beforehand: so each tells
//! its own in the buffer itself. The first [`SLOTS`] elements hold the contributors' counts, each in a
//! place of either of two tables; the others are small whole numbers that depend on peer, count and
//! place. Sums of them are exact in `f32` whatever the order of the additions, so results are compared
//! bit for bit.

use std::collections::BTreeMap;

/// Elements at the front that tell the rounds of the contributors. A buffer has at least as many.
pub const SLOTS: usize = TABLES[0] + TABLES[1];

/// Places in either table. Peers are numbered without a bound and two may share a place; they share
/// one in both tables only where their numbers differ by a multiple of 61 times 67.
const TABLES: [usize; 2] = [61, 67];

/// Contributed numbers are 1 to this.
const VALUES: u64 = 251;

/// From one element to the next.
const STRIDE: u64 = 7;

/// A result that is not the sum of its contributions.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("element {index} is {got}, not {expected}, of the contributions of {rounds:?}")]
pub struct Wrong {
    /// Where.
    pub index: usize,
    /// What it should be.
    pub expected: f32,
    /// What it is.
    pub got: f32,
    /// The round of each contributor, as the result tells it.
    pub rounds: BTreeMap<u64, u64>,
}

/// Writes what `peer` contributes in its round number `round` (from 1, below 2^24).
pub fn fill(buffer: &mut [f32], peer: u64, round: u64) {
    let values = values(peer, round);
    for (element, value) in buffer.iter_mut().zip(values) {
        *element = value as f32;
    }
    for slot in buffer.iter_mut().take(SLOTS) {
        *slot = 0.0;
    }
    for slot in slots_of(peer) {
        if let Some(slot) = buffer.get_mut(slot) {
            *slot = round as f32;
        }
    }
}

/// Is this what `peer` contributes in this round?
#[must_use]
pub fn is_contribution(buffer: &[f32], peer: u64, round: u64) -> bool {
    let mut contribution = vec![0.0; buffer.len()];
    fill(&mut contribution, peer, round);
    buffer == contribution
}

/// Checks that the result holds each contribution exactly once and nothing else. Returns the round of
/// each contributor.
///
/// # Errors
/// The first element that is wrong.
pub fn verify(result: &[f32], contributors: &[u64]) -> Result<BTreeMap<u64, u64>, Wrong> {
    let rounds = told_rounds(result, contributors);
    // As much memory as the result would be counted where a peer's is measured.
    let mut period = [0_u16; VALUES as usize];
    for (peer, round) in &rounds {
        for (sum, value) in period.iter_mut().zip(values(*peer, *round)) {
            *sum += value;
        }
    }
    let slots = (0..SLOTS).map(|slot| slot_sum(&rounds, slot));
    let sums = period.iter().cycle().map(|sum| f32::from(*sum));
    let expected = slots.chain(sums.skip(SLOTS));
    let wrong = result
        .iter()
        .zip(expected)
        .enumerate()
        .find(|(_, (got, expected))| *got != expected);
    match wrong {
        None if rounds.values().all(|round| *round > 0) => Ok(rounds),
        None => Err(Wrong {
            index: 0,
            expected: 1.0,
            got: 0.0,
            rounds,
        }),
        Some((index, (got, expected))) => Err(Wrong {
            index,
            expected,
            got: *got,
            rounds,
        }),
    }
}

/// A number that two buffers share only where they are equal, for all practical purposes.
#[must_use]
pub fn checksum(buffer: &[f32]) -> u64 {
    buffer.iter().fold(0xcbf2_9ce4_8422_2325, |sum, element| {
        (sum ^ u64::from(element.to_bits())).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The round of each contributor, or 0 where the result does not tell it.
///
/// A slot tells the round of a peer that is alone in it. With that round taken away from its slots,
/// others may be alone in theirs.
fn told_rounds(result: &[f32], contributors: &[u64]) -> BTreeMap<u64, u64> {
    let mut unknown = contributors.to_vec();
    let mut rounds = BTreeMap::new();
    let alone = |unknown: &[u64], slot| unknown.iter().filter(|p| holds(**p, slot)).count() == 1;
    while let Some((at, slot)) = unknown.iter().enumerate().find_map(|(at, peer)| {
        let slot = slots_of(*peer).into_iter().find(|s| alone(&unknown, *s))?;
        Some((at, slot))
    }) {
        let told = result.get(slot).map_or(0.0, |sum| *sum);
        let round = told - slot_sum(&rounds, slot);
        rounds.insert(unknown.swap_remove(at), round as u64);
    }
    rounds.extend(unknown.into_iter().map(|peer| (peer, 0)));
    rounds
}

/// The place of a peer in either table.
fn slots_of(peer: u64) -> [usize; 2] {
    let [first, second] = TABLES.map(|places| (peer % places as u64) as usize);
    [first, TABLES[0] + second]
}

fn holds(peer: u64, slot: usize) -> bool {
    slots_of(peer).contains(&slot)
}

fn slot_sum(rounds: &BTreeMap<u64, u64>, slot: usize) -> f32 {
    let of_slot = rounds.iter().filter(|(peer, _)| holds(**peer, slot));
    of_slot.fold(0.0, |sum, (_, round)| sum + *round as f32)
}

/// The contributed numbers, element by element. They repeat after [`VALUES`] of them.
fn values(peer: u64, round: u64) -> impl Iterator<Item = u16> {
    let first = peer.wrapping_mul(31).wrapping_add(round.wrapping_mul(17)) % VALUES;
    let next = |value: &u16| Some((*value + STRIDE as u16) % VALUES as u16);
    std::iter::successors(Some(first as u16), next).map(|value| value + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum_of(contributions: &[(u64, u64)]) -> Vec<f32> {
        let mut sum = vec![0.0; 200];
        for (peer, round) in contributions {
            let mut one = vec![0.0; 200];
            fill(&mut one, *peer, *round);
            for (sum, element) in sum.iter_mut().zip(one) {
                *sum += element;
            }
        }
        sum
    }

    #[test]
    fn a_sum_of_contributions_is_right_and_tells_their_rounds() {
        let sum = sum_of(&[(1, 5), (2, 9), (7, 1)]);

        let rounds = verify(&sum, &[2, 7, 1]).unwrap();

        assert_eq!(rounds, BTreeMap::from([(1, 5), (2, 9), (7, 1)]));
    }

    #[test]
    fn peers_that_share_a_slot_with_others_are_told_apart() {
        // 63 shares a slot with 2, 62 one with 1 in the first table and 68 one with 1 in the second.
        for contributions in [[(1, 5), (2, 9), (63, 2)], [(1, 5), (62, 9), (68, 2)]] {
            let peers = contributions.map(|(peer, _)| peer);

            let rounds = verify(&sum_of(&contributions), &peers).unwrap();

            assert_eq!(rounds, BTreeMap::from(contributions));
        }
    }

    #[test]
    fn a_contribution_that_is_missing_or_there_twice_is_found() {
        assert!(verify(&sum_of(&[(1, 5)]), &[1, 2]).is_err());
        assert!(verify(&sum_of(&[(1, 5), (2, 9)]), &[1]).is_err());
        assert!(verify(&sum_of(&[(1, 5), (2, 9), (2, 9)]), &[1, 2]).is_err());
    }

    #[test]
    fn one_bit_of_one_element_is_enough() {
        for index in [0, SLOTS - 1, SLOTS, 199] {
            let mut sum = sum_of(&[(1, 5), (2, 9)]);
            sum[index] = f32::from_bits(sum[index].to_bits() ^ 1);

            assert!(verify(&sum, &[1, 2]).is_err(), "element {index}");
        }
    }

    #[test]
    fn a_contribution_is_told_from_those_of_other_rounds() {
        let mut buffer = vec![0.0; 200];
        fill(&mut buffer, 3, 4);

        assert!(is_contribution(&buffer, 3, 4));
        assert!(!is_contribution(&buffer, 3, 5));
        assert!(!is_contribution(&buffer, 4, 4));
    }
}
