//! Whom a peer is told to expect at the other end of its lanes, and where.
//!
//! Each process that connects has a key of its own, which its transport proves to the master and to
//! every neighbour. An order is right if it lets that process in and nobody else: no other member, no
//! stranger, and nobody who proves nothing, all of whom may have stolen the ticket.

use pccl_core::id::{Identity, PeerId};
use pccl_core::shared_state::{SyncPlan, SyncRole};
use pccl_core::topology::LaneOrder;

use super::orders::whereabouts;
use crate::claim::Claim;
use crate::run::Run;

/// A process that has joined under no number.
const STRANGER: PeerId = PeerId(u64::MAX);

/// The key of the process that the master calls so.
pub(crate) fn identity_of(peer: PeerId) -> Identity {
    let mut key = [0; 32];
    let (number, _) = key.split_at_mut(size_of::<u64>());
    number.copy_from_slice(&peer.0.to_le_bytes());
    Identity(key)
}

/// A peer is told to connect with these.
pub(crate) fn ordered(run: &mut Run<'_>, orders: impl IntoIterator<Item = LaneOrder>) {
    for order in orders {
        let members = run.state.seats.iter().filter_map(|seat| seat.id);
        let mut others = members.chain([STRANGER]).filter(|peer| *peer != order.with);
        let is_right = order.is_with(Some(identity_of(order.with)))
            && !order.is_with(None)
            && !others.any(|other| order.is_with(Some(identity_of(other))))
            && order
                .dial
                .zip(whereabouts(run, order.with))
                .is_none_or(|(told, right)| told == right);
        if !is_right {
            run.state.breaks(Claim::Neighbours);
        }
    }
}

/// The same for a synchronization.
pub(crate) fn planned(run: &mut Run<'_>, plan: &SyncPlan) {
    match &plan.role {
        SyncRole::Distribute { to } => ordered(run, to.iter().copied()),
        SyncRole::Request { from, .. } => ordered(run, *from),
    }
}
