//! Pieces of the group that are joined by working edges, and the orders in which they are tried.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::blame::{Pair, pair};
use crate::id::PeerId;

/// The pieces into which these pairs join the members, in the order of their first members.
pub(super) fn joined_pieces(members: &[PeerId], joined: &BTreeSet<Pair>) -> Vec<BTreeSet<PeerId>> {
    let mut neighbours: BTreeMap<PeerId, Vec<PeerId>> =
        members.iter().map(|member| (*member, Vec::new())).collect();
    for (one, other) in joined {
        if neighbours.contains_key(one) && neighbours.contains_key(other) {
            neighbours.entry(*one).or_default().push(*other);
            neighbours.entry(*other).or_default().push(*one);
        }
    }
    let mut pieces = Vec::new();
    for member in members {
        let mut piece = BTreeSet::new();
        let mut found = alloc::vec![*member];
        while let Some(peer) = found.pop() {
            if let Some(others) = neighbours.remove(&peer) {
                piece.insert(peer);
                found.extend(others);
            }
        }
        if !piece.is_empty() {
            pieces.push(piece);
        }
    }
    pieces
}

/// In the previous attempt, neighbours were this many places apart. The products, counted from the first attempt or
/// the second (which may be the first to try all pairs of a ring), are multiples of each number of sites up to six:
/// 2, 4, 12, 24, 120 and 2, 6, 12, 60.
const STRIDES: [usize; 5] = [2, 2, 3, 2, 5];

/// The members in another order, cut between neighbours that are a failed pair.
///
/// Many pieces: every second one first, then the rest; or every third or fifth, depending on the number of attempts.
/// Two to six sites that are cut off from each other and alternate on the ring are whole within six attempts. If each
/// cut has its own cause, all orders are equally good. Few pieces: their halves in turn, so that one attempt tries
/// more pairs between them.
pub(super) fn regrouped(order: &[PeerId], failed: &BTreeSet<Pair>, attempts: u8) -> Vec<PeerId> {
    let pieces = cut(order, failed);
    if pieces.len() < 2 {
        return order.to_vec();
    }
    if pieces.len() > 3 {
        let turn = usize::from(attempts.saturating_sub(1)) % STRIDES.len();
        let stride = STRIDES.get(turn).copied().unwrap_or(2);
        let from = |first| pieces.iter().skip(first).step_by(stride);
        return (0..stride).flat_map(from).flatten().copied().collect();
    }
    interleaved(&pieces, 2)
}

/// Cuts each piece into `parts` parts, and takes the parts of all pieces in turn.
pub(super) fn interleaved(pieces: &[Vec<PeerId>], parts: usize) -> Vec<PeerId> {
    let parts_of = |piece: &Vec<PeerId>| {
        let length = piece.len().div_ceil(parts.max(1)).max(1);
        let parts = piece.chunks(length).map(<[PeerId]>::to_vec);
        parts.collect::<Vec<_>>().into_iter()
    };
    let mut left: Vec<_> = pieces.iter().map(parts_of).collect();
    let mut order = Vec::new();
    for _ in 0..parts.max(1) {
        for piece in &mut left {
            order.extend(piece.next().unwrap_or_default());
        }
    }
    order
}

/// The stretches of a ring between failed pairs.
fn cut(order: &[PeerId], failed: &BTreeSet<Pair>) -> Vec<Vec<PeerId>> {
    let mut pieces: Vec<Vec<PeerId>> = Vec::new();
    let mut before = order.last();
    for member in order {
        let is_cut = before.is_some_and(|before| failed.contains(&pair((*before, *member))));
        match pieces.last_mut() {
            Some(piece) if !is_cut => piece.push(*member),
            Some(_) | None => pieces.push(alloc::vec![*member]),
        }
        before = Some(member);
    }
    // The ring's list begins anywhere, perhaps in the middle of a stretch.
    let (first, last) = (order.first(), order.last());
    let ends = first.zip(last).map(|(first, last)| pair((*first, *last)));
    if pieces.len() > 1
        && ends.is_some_and(|ends| !failed.contains(&ends))
        && let Some(mut last) = pieces.pop()
        && let Some(first) = pieces.first_mut()
    {
        last.append(first);
        *first = last;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn peers(numbers: &[u64]) -> Vec<PeerId> {
        numbers.iter().copied().map(PeerId).collect()
    }

    fn pairs(numbers: &[(u64, u64)]) -> BTreeSet<Pair> {
        let pairs = numbers.iter();
        pairs
            .map(|(one, other)| pair((PeerId(*one), PeerId(*other))))
            .collect()
    }

    #[test]
    fn members_that_working_pairs_join_are_one_piece() {
        let pieces = joined_pieces(&peers(&[1, 2, 3, 4, 5]), &pairs(&[(1, 4), (4, 2), (3, 9)]));

        let expected = [vec![1, 2, 4], vec![3], vec![5]];
        let expected = expected.map(|piece| piece.into_iter().map(PeerId).collect());
        assert_eq!(pieces, expected);
    }

    #[test]
    fn two_sites_that_alternate_on_the_ring_are_two_pieces_of_the_next_order() {
        let order = peers(&[1, 2, 3, 4, 5, 6]);
        let failed = pairs(&[(1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 1)]);

        assert_eq!(regrouped(&order, &failed, 1), peers(&[1, 3, 5, 2, 4, 6]));
    }

    #[test]
    fn two_pieces_are_tried_by_their_halves_in_turn() {
        let order = peers(&[1, 2, 3, 4, 5, 6, 7, 8]);
        let failed = pairs(&[(8, 1), (4, 5)]);

        assert_eq!(
            regrouped(&order, &failed, 1),
            peers(&[1, 2, 5, 6, 3, 4, 7, 8])
        );
    }

    #[test]
    fn every_part_of_a_piece_stands_between_parts_of_others() {
        let pieces = [peers(&[1, 2, 3, 4, 5]), peers(&[6, 7])];

        assert_eq!(interleaved(&pieces, 4), peers(&[1, 2, 6, 3, 4, 7, 5]));
        assert_eq!(interleaved(&pieces, 1), peers(&[1, 2, 3, 4, 5, 6, 7]));
    }

    #[test]
    fn a_piece_may_lie_across_the_beginning_of_the_list() {
        let order = peers(&[1, 2, 3, 4, 5, 6]);
        let failed = pairs(&[(1, 2), (3, 4)]);

        let pieces = cut(&order, &failed);

        assert_eq!(pieces, [peers(&[4, 5, 6, 1]), peers(&[2, 3])]);
    }

    #[test]
    fn a_ring_with_one_cut_is_one_piece() {
        let order = peers(&[1, 2, 3]);

        assert_eq!(regrouped(&order, &pairs(&[(3, 1)]), 1), order);
        assert_eq!(regrouped(&order, &pairs(&[]), 1), order);
    }
}
