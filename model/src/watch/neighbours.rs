//! Whom a peer is told to expect at the other end of its lanes, and where.
//!
//! Each process that connects has a key of its own, which its transport proves to the master and to
//! every neighbour. An order is right if it lets that process in and nobody else: no other member, no
//! stranger, and nobody who proves nothing, all of whom may have stolen the ticket.

use pccl_core::id::{Identity, PeerId};
use pccl_core::shared_state::{SyncPlan, SyncRole};
use pccl_core::topology::LaneOrder;

use super::source::Source;
use crate::claim::Claim;

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
pub(crate) fn ordered(run: &mut impl Source, orders: impl IntoIterator<Item = LaneOrder>) {
    for order in orders {
        let members: Vec<PeerId> = run.places().iter().filter_map(|at| run.id(*at)).collect();
        let others = members.into_iter().filter(|peer| *peer != order.with);
        let mut others = others.filter_map(|peer| run.identity_of(peer));
        let stranger = identity_of(STRANGER);
        let is_its_door = match run.identity_of(order.with) {
            Some(key) => {
                order.is_with(Some(key))
                    && !order.is_with(None)
                    && !order.is_with(Some(stranger))
                    && !others.any(|other| other != key && order.is_with(Some(other)))
            }
            // Where nobody proves anything there is no key to name.
            None => order.identity.is_none(),
        };
        let dialled = order.dial.zip(run.whereabouts(order.with));
        if !is_its_door || dialled.is_some_and(|(told, right)| told != right) {
            run.breaks(Claim::Neighbours);
        }
    }
}

/// The same for a synchronization.
pub(crate) fn planned(run: &mut impl Source, plan: &SyncPlan) {
    match &plan.role {
        SyncRole::Distribute { to } => ordered(run, to.iter().copied()),
        SyncRole::Request { from, .. } => ordered(run, from.iter().copied()),
    }
}
