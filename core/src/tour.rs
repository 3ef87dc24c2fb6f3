//! Choosing the order of a ring: the fastest that measurements allow, or one that goes around what
//! cannot be connected.
//!
//! Every directed edge of a ring carries the same number of bytes whatever the order, and a long
//! transfer is as fast as its slowest edge. A ring is therefore better when its slowest edge is
//! faster; among rings with equally fast slowest edges, when the sum of 1/bandwidth over its edges is
//! smaller.
//!
//! [`solve`] is exact for up to seven members: it tries every order. Beyond that it is a
//! heuristic: it builds a ring from the fastest edges and moves short segments around as long as
//! that helps. It may miss the best ring, and where few edges are usable it may find none
//! although there is one. A hundred members take milliseconds, a thousand some seconds: then call it
//! where nobody waits. It never reads a clock: the same problem has the same answer everywhere.

mod avoid;
#[cfg(test)]
mod tests;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::ops::{Add, Sub};

use serde::{Deserialize, Serialize};

pub use avoid::avoid;

use crate::id::PeerId;
use crate::topology::Ring;

/// Up to so many members every order is tried: 6! = 720 of them.
const EXACT_MAX: usize = 7;

/// Longest segment that is moved in one piece.
const SEGMENT_MAX: usize = 3;

/// How many places for segments are looked at for one start, so that it ends in any case.
const LOOKS_MAX: u64 = 20_000_000;

/// What [`solve`] is asked: who has to be on a ring, and how fast its edges may be.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct TourProblem {
    /// Who must be on the ring, in its present order.
    pub members: Vec<PeerId>,
    /// What was measured, sender first, in kbit/s. An edge that is missing cannot be used.
    pub kbit_per_s: BTreeMap<(PeerId, PeerId), u64>,
}

/// A good ring of the problem's members, the first of them first; see the module for what is good.
///
/// The present order is kept where nothing better is found. One member is a ring by itself; two need
/// both directions. An edge of zero kbit/s cannot be used, like one that is missing.
///
/// Returns `None` where there are no members, where a member is named twice, and where no ring of
/// usable edges was found. Keep the present ring then.
#[must_use]
pub fn solve(problem: &TourProblem) -> Option<Ring> {
    let members = &problem.members;
    let distinct: BTreeSet<PeerId> = members.iter().copied().collect();
    if members.is_empty() || distinct.len() != members.len() {
        return None;
    }
    let links = Links::new(problem);
    let mut order = match members.len() {
        1 => alloc::vec![0],
        2..=EXACT_MAX => links.best_of_all_orders()?,
        _ => links.best_of_improved_starts()?,
    };
    if let Some(first) = order.iter().position(|index| *index == 0) {
        order.rotate_left(first);
    }
    let ring = order
        .iter()
        .filter_map(|index| members.get(*index).copied());
    Some(Ring(ring.collect()))
}

/// Bandwidth between any two members, who are known by their index.
struct Links {
    count: usize,
    /// Row by row, sender first; zero where the edge cannot be used.
    kbit_per_s: Vec<u64>,
}

/// How good a ring is.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Score {
    /// Bandwidth of the slowest edge; zero where an edge is missing.
    slowest: u64,
    /// Sum of 1/bandwidth.
    time: i128,
}

impl Score {
    fn beats(self, other: Self) -> bool {
        self.slowest > other.slowest || (self.slowest == other.slowest && self.time < other.time)
    }
}

/// What an edge adds to a ring, given a bandwidth that every edge should have. Lower is better, the
/// first field before the second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Cost {
    too_slow: i64,
    time: i128,
}

impl Add for Cost {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            too_slow: self.too_slow + other.too_slow,
            time: self.time + other.time,
        }
    }
}

impl Sub for Cost {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self {
            too_slow: self.too_slow - other.too_slow,
            time: self.time - other.time,
        }
    }
}

/// 1/bandwidth as an integer, in units so small that no two bandwidths below 4 Tbit/s coincide.
fn time(kbit_per_s: u64) -> i128 {
    i128::from(u64::MAX / kbit_per_s.max(1))
}

impl Links {
    fn new(problem: &TourProblem) -> Self {
        let members = &problem.members;
        let between = |from: &PeerId, to: &PeerId| problem.kbit_per_s.get(&(*from, *to));
        let kbit_per_s = members
            .iter()
            .flat_map(|from| members.iter().map(move |to| between(from, to)))
            .map(|known| known.copied().unwrap_or(0))
            .collect();
        Self {
            count: members.len(),
            kbit_per_s,
        }
    }

    fn kbit_per_s(&self, from: usize, to: usize) -> u64 {
        let known = self.kbit_per_s.get(from * self.count + to);
        known.copied().unwrap_or(0)
    }

    fn cost(&self, from: usize, to: usize, wanted: u64) -> Cost {
        let kbit_per_s = self.kbit_per_s(from, to);
        Cost {
            too_slow: i64::from(kbit_per_s < wanted),
            time: time(kbit_per_s),
        }
    }

    fn score(&self, order: &[usize]) -> Score {
        let next = order.iter().cycle().skip(1);
        let edges = order.iter().zip(next);
        let speeds = edges.map(|(from, to)| self.kbit_per_s(*from, *to));
        Score {
            slowest: speeds.clone().min().unwrap_or(0),
            time: speeds.map(time).sum(),
        }
    }

    fn best_of_all_orders(&self) -> Option<Vec<usize>> {
        let mut best = None;
        self.try_orders(&mut alloc::vec![0], &mut best);
        best.map(|(_, order)| order)
    }

    /// Every order that begins with `path`, the present one before the others.
    fn try_orders(&self, path: &mut Vec<usize>, best: &mut Option<(Score, Vec<usize>)>) {
        if path.len() == self.count {
            let score = self.score(path);
            let better = best.as_ref().is_none_or(|(known, _)| score.beats(*known));
            if score.slowest > 0 && better {
                *best = Some((score, path.clone()));
            }
            return;
        }
        for next in 0..self.count {
            if !path.contains(&next) {
                path.push(next);
                self.try_orders(path, best);
                path.pop();
            }
        }
    }

    fn best_of_improved_starts(&self) -> Option<Vec<usize>> {
        let present = (0..self.count).collect();
        let mut best = self.improve(present);
        let other = self.improve(self.greedy());
        if self.score(&other).beats(self.score(&best)) {
            best = other;
        }
        (self.score(&best).slowest > 0).then_some(best)
    }

    /// Takes the fastest edges first, as long as they fit together; what is left in pieces at the
    /// end is put one after the other, usable or not.
    fn greedy(&self) -> Vec<usize> {
        let mut paths: BTreeMap<usize, Vec<usize>> =
            (0..self.count).map(|i| (i, alloc::vec![i])).collect();
        let mut head_by_tail: BTreeMap<usize, usize> = (0..self.count).map(|i| (i, i)).collect();
        for (from, to) in self.fastest_first() {
            let Some(head) = head_by_tail.get(&from).copied() else {
                continue;
            };
            // Where `to` is the head of the same path, the path is put back as it was.
            let Some(rest) = paths.remove(&to) else {
                continue;
            };
            head_by_tail.remove(&from);
            head_by_tail.extend(rest.last().map(|tail| (*tail, head)));
            paths.entry(head).or_default().extend(rest);
        }
        paths.into_values().flatten().collect()
    }

    /// Usable edges between different members.
    fn fastest_first(&self) -> Vec<(usize, usize)> {
        let pairs = (0..self.count).flat_map(|from| (0..self.count).map(move |to| (from, to)));
        let mut edges: Vec<(usize, usize)> = pairs
            .filter(|(from, to)| from != to && self.kbit_per_s(*from, *to) > 0)
            .collect();
        edges.sort_by_key(|(from, to)| Reverse(self.kbit_per_s(*from, *to)));
        edges
    }

    /// Raises the slowest edge step by step, then makes the rest faster without lowering it again.
    fn improve(&self, mut order: Vec<usize>) -> Vec<usize> {
        let mut looks = LOOKS_MAX;
        loop {
            let slowest = self.score(&order).slowest;
            let mut faster = order.clone();
            self.descend(&mut faster, slowest.saturating_add(1), &mut looks);
            if self.score(&faster).slowest <= slowest {
                self.descend(&mut order, slowest, &mut looks);
                return order;
            }
            order = faster;
        }
    }

    /// Moves segments until no move lowers the cost, or `looks` are used up.
    fn descend(&self, order: &mut [usize], wanted: u64, looks: &mut u64) {
        let mut moved = true;
        while moved && *looks > 0 {
            moved = false;
            for length in 1..=SEGMENT_MAX {
                for _ in 0..order.len() {
                    order.rotate_left(1);
                    moved |= self.move_front(order, length, wanted);
                }
            }
            let look = (order.len() * order.len() * SEGMENT_MAX) as u64;
            *looks = looks.saturating_sub(look);
        }
    }

    /// Puts the first `length` members where they cost least; false where they are there already.
    fn move_front(&self, order: &mut [usize], length: usize, wanted: u64) -> bool {
        let Some((segment, rest)) = order.split_at_checked(length) else {
            return false;
        };
        let (&[first, ..], &[.., last]) = (segment, segment) else {
            return false;
        };
        let (&[after, ..], &[.., before]) = (rest, rest) else {
            return false;
        };
        let cost = |from, to| self.cost(from, to, wanted);
        let closing = cost(before, after) - cost(before, first) - cost(last, after);
        let mut best = (Cost::default(), 0);
        for (at, pair) in rest.windows(2).enumerate() {
            if let &[left, right] = pair {
                let opening = cost(left, first) + cost(last, right) - cost(left, right);
                best = best.min((closing + opening, length + at + 1));
            }
        }
        let (saved, end) = best;
        if saved >= Cost::default() {
            return false;
        }
        if let Some(shifted) = order.get_mut(..end) {
            shifted.rotate_left(length);
        }
        true
    }
}
