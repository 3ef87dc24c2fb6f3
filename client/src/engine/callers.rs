//! Who waits for the answers to the calls that are open.
//!
//! Which calls may be made, and what a call leaves behind that is given up, is the peer machine's business:
//! see `admission` in `pccl_core::peer`. Whoever drops the future of a call says so by a command of its own, so
//! what nobody takes here is on its way to be given up.

use std::collections::BTreeMap;

use pccl_core::id::{CallId, Round};
use pccl_core::peer::Answer;

use super::command::{Caller, CollectiveNotice, MoveOrder, SyncNotice};

/// The callers of all open calls.
#[derive(Debug, Default)]
pub(super) struct Callers {
    open: BTreeMap<CallId, Caller>,
    /// The synchronization whose state moves, or has moved.
    moving: Option<(Round, CallId)>,
}

impl Callers {
    pub(super) fn insert(&mut self, call: CallId, caller: Caller) {
        self.open.insert(call, caller);
    }

    /// Whether the call was open.
    pub(super) fn give_up(&mut self, call: CallId) -> bool {
        self.open.remove(&call).is_some()
    }

    /// Gives an answer to whoever waits for it.
    pub(super) fn answer(&mut self, call: CallId, answer: Answer) {
        let Some(caller) = self.open.remove(&call) else {
            return;
        };
        match (answer, caller) {
            (Answer::Connected(result), Caller::Connect(reply)) => drop(reply.send(result)),
            (Answer::TopologyUpdated(result), Caller::Topology(reply)) => drop(reply.send(result)),
            (Answer::TopologyOptimized(result), Caller::Optimization(reply)) => {
                drop(reply.send(result));
            }
            (Answer::PeersPending(result), Caller::Query(reply)) => drop(reply.send(result)),
            (Answer::Synchronized(result), Caller::Sync(events)) => {
                drop(events.send(SyncNotice::Ended(result)));
            }
            (Answer::CollectiveEnded { result, .. }, Caller::Collective(events)) => {
                drop(events.send(CollectiveNotice::Ended(result)));
            }
            (answer, caller) => debug_assert!(false, "{answer:?} is no answer to {caller:?}"),
        }
    }

    /// Tells a collective.
    pub(super) fn tell_collective(&self, call: CallId, event: CollectiveNotice) {
        if let Some(Caller::Collective(events)) = self.open.get(&call) {
            drop(events.send(event));
        }
    }

    /// Gives a plan to the synchronization that it is for.
    pub(super) fn move_state(&mut self, call: CallId, order: MoveOrder) {
        let round = order.plan.round;
        self.moving = Some((round, call));
        self.tell_sync(round, SyncNotice::Move(order));
    }

    /// Tells the synchronization whose state moves in this round, if it is still open.
    pub(super) fn tell_sync(&self, of: Round, event: SyncNotice) {
        let call = self.moving.filter(|(round, _)| *round == of);
        let caller = call.and_then(|(_, call)| self.open.get(&call));
        if let Some(Caller::Sync(events)) = caller {
            drop(events.send(event));
        }
    }
}
