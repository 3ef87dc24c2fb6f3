//! The order in which the next ring is tried.
//!
//! Peers whose edges came up stay together, and pieces that no working edge joins are placed side by side in another
//! order each time. If two accepted peers could not be connected, only edges that were connected since count as
//! working. A pair *could not be connected* for good only if both ends have tried: lanes are opened in the direction
//! with less evidence against it (`reach`), so that a peer that can only reach others, or only be reached, is a
//! member like any other. Two peers that nobody has reached are kept apart.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::Master;
use super::blame::{Pair, pair};
use super::pieces::{interleaved, regrouped};
use crate::id::{GroupId, PeerId};
use crate::topology::Ring;
use crate::tour;

/// Up to this many pieces are split into parts that alternate.
const PIECES_FEW: usize = 3;

/// Number of places of a ring in which newcomers are tried before another order is.
const PLACES_MAX: usize = 64;

impl Master {
    /// The current ring without departed peers, with newcomers inserted; after an attempt that failed in several
    /// places, its order in pieces. No pair that failed and no two unreached peers are neighbours, as long as there
    /// is such a ring. If there is none, pairs that failed in only one direction may be.
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

    /// The pieces into which working edges join the members, if they are few, in this order, and the number of parts
    /// of each, so that one attempt tries enough pairs between them: more parts if some have failed already.
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

    /// The established ring with all newcomers in one place, at its end if possible.
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

    /// Edges between members that could not be connected from either end, in both directions, except for established
    /// ones.
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

    /// The order of the last attempt, or of the current ring, followed by new peers.
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

/// These members in another order with fewer of these pairs as neighbours, if one is found: the stretches without
/// such a pair, one after the other.
///
/// If every ring has pairs that failed, pairs that have not failed yet are tried nevertheless. So members of one site
/// find each other, and the remaining pieces are larger.
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
