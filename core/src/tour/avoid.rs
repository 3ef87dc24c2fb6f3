//! A ring order in which certain peers are not neighbours.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::id::PeerId;
use crate::topology::Ring;

/// Maximum number of pairs that the backtracking search checks.
const LOOKS_MAX: u32 = 100_000;

/// An order of the members of `preferred` in which no two neighbours are a forbidden pair, in either direction. The
/// last and the first member are neighbours as well.
///
/// It is the preferred order if that is allowed, otherwise the first one in which members are as far in front as they
/// are preferred to be. If that takes too long to find, it is any order. If each member may have at least half of all
/// members as neighbours, an order exists and is found. Members must be distinct; a single member is a ring.
///
/// Returns `None` if there are no members, or if no order was found: with few members there is none, with many the
/// search may have been too short.
#[must_use]
pub fn avoid(preferred: &[PeerId], forbidden: &BTreeSet<(PeerId, PeerId)>) -> Option<Ring> {
    let search = Search {
        members: preferred,
        forbidden,
    };
    if preferred.len() < 2 {
        return (!preferred.is_empty()).then(|| Ring(preferred.to_vec()));
    }
    let order = search.nearest().or_else(|| search.repaired())?;
    let ring = order.iter().filter_map(|index| preferred.get(*index));
    Some(Ring(ring.copied().collect()))
}

/// Members are known by their index in the preferred order.
struct Search<'a> {
    members: &'a [PeerId],
    forbidden: &'a BTreeSet<(PeerId, PeerId)>,
}

impl Search<'_> {
    fn allowed(&self, one: usize, other: usize) -> bool {
        match (self.members.get(one), self.members.get(other)) {
            (Some(one), Some(other)) => {
                !self.forbidden.contains(&(*one, *other))
                    && rule!(!self.forbidden.contains(&(*other, *one)); ForbiddenOneWay => true)
            }
            (None, _) | (_, None) => false,
        }
    }

    /// Tries the orders from the preferred one on, each with the first member in front.
    fn nearest(&self) -> Option<Vec<usize>> {
        let mut order = alloc::vec![0];
        let mut free: BTreeSet<usize> = (1..self.members.len()).collect();
        let mut from = 0;
        let mut looks = LOOKS_MAX;
        while let Some(end) = order.last().copied() {
            let mut found = None;
            for index in free.range(from..) {
                looks = looks.checked_sub(1)?;
                if self.allowed(end, *index) {
                    found = Some(*index);
                    break;
                }
            }
            if let Some(index) = found {
                free.remove(&index);
                order.push(index);
                from = 0;
                if free.is_empty() && rule!(self.allowed(index, 0); RingClosesAnywhere => true) {
                    return Some(order);
                }
            } else {
                order.pop();
                free.insert(end);
                from = end.saturating_add(1);
            }
        }
        None
    }

    /// Palmer's algorithm: wherever two neighbours are forbidden, turn the stretch in front of them
    /// around so that both ends fit. Each turn removes a forbidden pair and makes none.
    fn repaired(&self) -> Option<Vec<usize>> {
        let mut order: Vec<usize> = (0..self.members.len()).collect();
        while let Some(gap) = self.first_gap(&order) {
            order.rotate_left(gap);
            let (first, last) = (*order.first()?, *order.last()?);
            let turn = order.windows(2).position(|pair| match pair {
                [left, right] => self.allowed(last, *left) && self.allowed(first, *right),
                _ => false,
            })?;
            order.get_mut(..=turn)?.reverse();
        }
        Some(order)
    }

    /// The position of a member that is forbidden next to the one before it.
    fn first_gap(&self, order: &[usize]) -> Option<usize> {
        let before = order.iter().cycle().skip(order.len().saturating_sub(1));
        before
            .zip(order)
            .position(|(before, member)| !self.allowed(*before, *member))
    }
}
