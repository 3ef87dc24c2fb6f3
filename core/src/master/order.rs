//! In which order the next ring is tried.
//!
//! What came up is kept together, and pieces that no working edge joins are tried side by side in another
//! order. Where two accepted peers could not be connected, nothing is taken to work that was not connected
//! since. A pair *could not be connected* for good only if both ends have tried: lanes are opened in the
//! direction against which less speaks (`reach`), so that who can only reach others, or only be reached, is a
//! member like any other. Two that nobody has reached are kept apart.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::Master;
use super::blame::{Pair, pair};
use super::pieces::{interleaved, regrouped};
use crate::id::{GroupId, PeerId};
use crate::topology::Ring;
use crate::tour;

/// So many pieces are tried part by part in turn.
const PIECES_FEW: usize = 3;

/// Places of a ring in which newcomers are tried before another order is.
const PLACES_MAX: usize = 64;

impl Master {
    /// The present ring without the departed, and newcomers somewhere in between; after an attempt that
    /// failed in several places the order of that, in pieces. No pair that failed stands side by side, as
    /// long as there is such a ring, and no two that nobody has reached; else pairs may that failed in one
    /// direction.
    pub(super) fn next_ring(&self, group: GroupId, members: &[PeerId]) -> Ring {
        let bad = self.bad_pairs(group, members);
        let dead = self.dead_pairs(group, members);
        let hidden = self.hidden_pairs(members);
        let without = |pairs: &BTreeSet<Pair>| self.ring_without(group, members, pairs);
        let fewer = || with_fewer(self.order_before(group, members), &bad);
        let ring = without(&(&bad | &hidden)).or_else(|| without(&bad));
        let ring = ring.or_else(|| tour::avoid(&fewer(), &(&dead | &hidden)));
        let ring = ring.or_else(|| tour::avoid(&fewer(), &dead));
        ring.unwrap_or_else(|| {
            // What failed is tried again, each time the other way round, where nothing is left to try.
            let mut order = fewer();
            let attempts = self.attempts.get(&group);
            if attempts.is_some_and(|attempts| attempts.count % 2 == 1) {
                order.reverse();
            }
            Ring(order)
        })
    }

    pub(super) fn ring_without(
        &self,
        group: GroupId,
        members: &[PeerId],
        bad: &BTreeSet<Pair>,
    ) -> Option<Ring> {
        let inserted = self.inserted(group, members, bad);
        inserted.or_else(|| {
            let order = self.order_before(group, members);
            let pieces = self.pieces_in_order(group, &order);
            let attempts = self.attempts.get(&group).map(|attempts| attempts.count);
            let order = match pieces {
                Some((pieces, parts)) => interleaved(&pieces, parts),
                None => regrouped(&order, bad, attempts.unwrap_or(1)),
            };
            tour::avoid(&order, bad)
        })
    }

    /// The few pieces into which working edges join the members, in this order, and into how many parts each
    /// is cut so that one attempt tries enough pairs between them: more where some have failed already.
    fn pieces_in_order(
        &self,
        group: GroupId,
        order: &[PeerId],
    ) -> Option<(Vec<Vec<PeerId>>, usize)> {
        let pieces = &self.attempts.get(&group)?.pieces;
        let known: usize = pieces.keys().map(BTreeSet::len).sum();
        if !(2..=PIECES_FEW).contains(&pieces.len()) || known != order.len() {
            return None;
        }
        let in_order = |piece: &BTreeSet<PeerId>| -> Vec<PeerId> {
            let members = order.iter().filter(|peer| piece.contains(peer));
            members.copied().collect()
        };
        let in_order: Vec<Vec<PeerId>> = pieces.keys().map(in_order).collect();
        let is_whole = in_order.iter().map(Vec::len).sum::<usize>() == known;
        let have_failed = pieces.values().all(|failures| *failures > 0);
        is_whole.then_some((in_order, if have_failed { 4 } else { 2 }))
    }

    /// The standing ring with all newcomers in one place of it, at its end if that will do.
    fn inserted(&self, group: GroupId, members: &[PeerId], bad: &BTreeSet<Pair>) -> Option<Ring> {
        let standing = self.groups.get(&group)?;
        let is_member: BTreeSet<PeerId> = members.iter().copied().collect();
        let present = standing
            .ring
            .0
            .iter()
            .filter(|peer| is_member.contains(peer));
        let present: Vec<PeerId> = present.copied().collect();
        let on_ring: BTreeSet<PeerId> = present.iter().copied().collect();
        let newcomers = members.iter().filter(|peer| !on_ring.contains(peer));
        let newcomers: Vec<PeerId> = newcomers.copied().collect();
        let places = match newcomers.is_empty() {
            true => 1,
            false => rule!(present.len().min(PLACES_MAX); NewcomersAtTheEndOnly => 1),
        };
        let fits = |ring: &Ring| {
            let mut edges = ring.edges();
            let keeps = |edge: (PeerId, PeerId)| {
                let stands = rule!(
                    standing.can_keep(edge);
                    OneWayRing => standing.can_keep(edge) || standing.can_keep((edge.1, edge.0))
                );
                stands && !self.is_doubtful(group)
            };
            edges.all(|edge| keeps(edge) || !bad.contains(&pair(edge)))
        };
        let rings = (0..places).map(|place| {
            // At the end first, which keeps everybody's rank.
            let place = if place == 0 { present.len() } else { place };
            let (front, behind) = present.split_at(place);
            let order = front.iter().chain(&newcomers).chain(behind);
            Ring(order.copied().collect())
        });
        rings.into_iter().find(fits)
    }

    /// Edges between members that could not be wired whichever end tried, both ways, but for those that stand.
    pub(super) fn barred_edges(
        &self,
        group: GroupId,
        members: &[PeerId],
    ) -> BTreeSet<(PeerId, PeerId)> {
        let dead = self.dead_pairs(group, members).into_iter();
        let both_ways = dead.flat_map(|(one, other)| [(one, other), (other, one)]);
        let standing = self.groups.get(&group).filter(|_| !self.is_doubtful(group));
        let stands = |edge: &(PeerId, PeerId)| standing.is_some_and(|group| group.can_keep(*edge));
        both_ways.filter(|edge| !stands(edge)).collect()
    }

    /// The order of the last attempt, or of the present ring, then whoever is new.
    fn order_before(&self, group: GroupId, members: &[PeerId]) -> Vec<PeerId> {
        let attempts = self.attempts.get(&group);
        let standing = self.groups.get(&group).map(|group| &group.ring.0);
        let before = attempts.map(|attempts| &attempts.order).or(standing);
        let before = before.map_or(&[][..], Vec::as_slice);
        let is_member: BTreeSet<PeerId> = members.iter().copied().collect();
        let known: BTreeSet<PeerId> = before.iter().copied().collect();
        let present = before.iter().filter(|peer| is_member.contains(peer));
        let newcomers = members.iter().filter(|peer| !known.contains(peer));
        present.chain(newcomers).copied().collect()
    }
}

/// These members in another order with fewer of these pairs side by side, if one is found: stretches that
/// have none of them, one after the other.
///
/// Where each ring has pairs that failed, those that did not fail yet are tried all the same: members of
/// one site find each other, and the pieces that remain are larger.
fn with_fewer(order: Vec<PeerId>, bad: &BTreeSet<Pair>) -> Vec<PeerId> {
    let is_bad = |one: PeerId, other: PeerId| bad.contains(&pair((one, other)));
    let count = |order: &[PeerId]| {
        let behind = order.iter().cycle().skip(1);
        let edges = order.iter().zip(behind);
        edges.filter(|(one, other)| is_bad(**one, **other)).count()
    };
    let mut left = order.clone();
    let mut found: Vec<PeerId> = Vec::new();
    while !left.is_empty() {
        let end = found.last().copied();
        let fits = |peer: &PeerId| end.is_some_and(|end| !is_bad(end, *peer));
        let next = left.iter().position(fits).unwrap_or(0);
        found.push(left.remove(next));
    }
    if count(&found) < count(&order) {
        found
    } else {
        order
    }
}
