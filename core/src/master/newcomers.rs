//! Newcomers whose edges do not come up: which of them wait for the next admission, and which are refused.
//!
//! The second rule of [`blame`](super::blame). An attempt has failed *because of* a newcomer if it could not reach
//! the newcomer, or if the newcomer could not reach peers that others have reached. After two such attempts the
//! newcomer is left out of the admission. If it was connected to no peer, it is refused as soon as the other end has
//! twice shown that it works, or if it happens a third time. If it was connected to a peer, it may have a place, and
//! is refused after six attempts. Any newcomer is refused after three admissions without a place.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::attempt::Wiring;
use super::blame::DeadEdge;
use super::record::PeerRecord;
use super::{Master, Out};
use crate::id::{GroupId, PeerId};
use crate::states::ConnectionPhase;
use crate::topology::Ring;

/// Number of failed attempts after which a newcomer no longer delays the others.
pub(super) const STRIKES_MAX: u8 = 2;

/// The evidence of one attempt against a peer.
#[derive(Clone, Copy, Debug)]
struct Charge {
    edge: DeadEdge,
    /// Whether the other end of one of its dead edges has shown that it works.
    proven: bool,
    /// Whether it failed only with other newcomers: between two members it may have a place.
    among_newcomers: bool,
}

impl Master {
    /// Newcomers that were charged in two attempts no longer delay the others.
    pub(super) fn strike(&mut self, dead: &[DeadEdge], out: &mut Out) {
        let mut charged: BTreeMap<PeerId, Charge> = BTreeMap::new();
        for edge in dead {
            let peer = self.charged(*edge);
            let other = edge.other_end(peer);
            let is_accepted = self.peers.get(&other).is_some_and(PeerRecord::is_accepted);
            let charge = charged.entry(peer).or_insert(Charge {
                edge: *edge,
                proven: false,
                among_newcomers: true,
            });
            charge.proven |= self.is_proven(*edge, peer);
            charge.among_newcomers &= !is_accepted;
        }
        for (peer, charge) in charged {
            let Some(record) = self.record_mut(peer) else {
                continue;
            };
            let strikes = &mut record.strikes;
            strikes.all = strikes.all.saturating_add(1);
            strikes.proven = strikes.proven.saturating_add(charge.proven.into());
            let goes = record.has_struck_out();
            let may_have_a_place = charge.among_newcomers && record.is_hidden();
            if record.phase == ConnectionPhase::Accepted {
                continue;
            }
            if rule!(goes; RefusedForTheFirstFailure => true) {
                self.send_away(peer, charge.edge, out);
            } else if record.strikes.all >= STRIKES_MAX && !may_have_a_place {
                record.left_out = 1;
            }
        }
    }

    /// Among newcomers that no peer reaches, only as many take part in a third attempt as fit between the others. The
    /// latest wait for the next admission. A newcomer that has waited for three is refused.
    pub(super) fn leave_out_the_hidden(&mut self, group: GroupId, ring: &Ring, out: &mut Out) {
        let attempts = self.attempts.get(&group).map(|attempts| attempts.count);
        if attempts.is_none_or(|attempts| attempts < STRIKES_MAX) {
            return;
        }
        let peers = ring
            .0
            .iter()
            .filter_map(|peer| Some((*peer, self.peers.get(peer)?)));
        let invited = peers.filter(|(_, peer)| peer.is_accepted() || peer.left_out == 0);
        let (hidden, others): (Vec<_>, Vec<_>) = invited.partition(|(_, peer)| peer.is_hidden());
        let too_many = hidden.len().saturating_sub(others.len());
        let newcomers = hidden.iter().filter(|(_, peer)| !peer.is_accepted());
        let mut newcomers: Vec<PeerId> = newcomers.map(|(peer, _)| *peer).collect();
        newcomers.sort_unstable();
        for peer in newcomers.into_iter().rev().take(too_many) {
            self.waits_for_a_place(group, &ring.0, peer, out);
        }
    }

    /// If members of an intact ring were separated for newcomers, and could not be connected with each other, their
    /// ring is kept, and the newcomers wait for the next admission. No member loses its place for them.
    pub(super) fn leave_the_standing_ring_alone(
        &mut self,
        group: GroupId,
        wiring: &Wiring,
        ring: &Ring,
        out: &mut Out,
    ) {
        let is_accepted = |peer: &PeerId| self.peers.get(peer).is_some_and(PeerRecord::is_accepted);
        let newcomers = ring.0.iter().filter(|peer| !is_accepted(peer));
        let newcomers: Vec<PeerId> = newcomers.copied().collect();
        let mut failed = ring.edges().filter(|edge| wiring.fails_for(*edge));
        let members_failed = failed.any(|(from, to)| is_accepted(&from) && is_accepted(&to));
        if !members_failed || newcomers.is_empty() || self.is_stale(group) {
            return;
        }
        self.attempts.remove(&group);
        for peer in newcomers {
            self.waits_for_a_place(group, &ring.0, peer, out);
        }
    }

    /// Leaves a newcomer out of this admission. One that has waited for three is refused.
    fn waits_for_a_place(
        &mut self,
        group: GroupId,
        members: &[PeerId],
        peer: PeerId,
        out: &mut Out,
    ) {
        let Some(record) = self.record_mut(peer) else {
            return;
        };
        record.left_out = 1;
        record.strikes.waits = record.strikes.waits.saturating_add(1);
        if record.has_struck_out() {
            self.send_away_for_failures(group, members, peer, out);
        }
    }

    /// Whether the other end of a dead edge has shown that it works.
    fn is_proven(&self, edge: DeadEdge, charged: PeerId) -> bool {
        let dialler = self.peers.get(&edge.dialler);
        if charged == edge.dialler {
            self.peers
                .get(&edge.dialled)
                .is_some_and(|peer| peer.reached)
        } else {
            dialler.is_some_and(|peer| peer.has_dialled)
        }
    }
}
