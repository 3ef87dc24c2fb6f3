//! The ring and its members: `update_topology`, other rings, `are_peers_pending`, calls that give way.

use alloc::vec::Vec;

use super::accepted::{Accepted, Major};
use super::admission::Caller;
use super::io::{Answer, CallError};
use super::{Out, Step, send};
use crate::id::Round;
use crate::messages::{CallFailure, ToMaster};
use crate::topology::{Layout, LinkOrder, Topology};

impl Accepted {
    pub(super) fn update_topology(&mut self, caller: Caller, out: &mut Out) {
        if self.fresh {
            self.fresh = false;
            let topology = self.topology.clone();
            caller.is_told(Answer::TopologyUpdated(Ok(topology)), out);
            return;
        }
        self.open_major(caller, Major::Update);
        let (epoch, broken) = (self.topology.epoch, self.wiring.broken());
        send(out, ToMaster::UpdateTopology { epoch, broken });
    }

    pub(super) fn establish(&mut self, round: Round, links: Vec<LinkOrder>, out: &mut Out) -> Step {
        if !self.waits_for_a_ring() {
            return Err(CallError::MasterMisbehaved);
        }
        self.wiring
            .establish(self.welcomed.peer, round, links, out)?;
        self.stop_probes(out);
        Ok(())
    }

    /// Whether the master may build another ring with this peer. A peer that waits for others to make its call
    /// agrees, and so does a peer that has made no call, or has withdrawn its call. A ring does not change while one
    /// of the peer's collectives runs on it, or while its shared state moves.
    fn waits_for_a_ring(&self) -> bool {
        match self.major.as_ref().map(|major| &major.what) {
            Some(Major::Update | Major::Optimize(_)) => true,
            Some(Major::Sync(plan)) => plan.is_none(),
            None => self.tags.values().all(|open| open.at.waits_to_start()),
        }
    }

    pub(super) fn adopt(&mut self, topology: Topology, layout: &Layout, out: &mut Out) -> Step {
        let is_older = topology.epoch < self.topology.epoch;
        if is_older || !self.waits_for_a_ring() {
            return Err(CallError::MasterMisbehaved);
        }
        let adopted = self.wiring.adopt(self.welcomed.peer, &topology, layout);
        let adopted = adopted.ok_or(CallError::MasterMisbehaved)?;
        self.forget_ahead(out);
        out.push(adopted.order(topology.clone()));
        self.stop_probes(out);
        let told = rule!(topology.clone(); OldRingAnswered => self.topology.clone());
        self.topology = topology;
        if let Some(update) = self.major.take_if(|major| major.what == Major::Update) {
            update
                .caller
                .is_told(Answer::TopologyUpdated(Ok(told)), out);
        } else {
            // The others' update was built under a peer that rests. Its own, if it comes late, would wait
            // for another one that nobody else wants.
            self.fresh |= rule!(self.rests; LateUpdateWaits => false);
        }
        Ok(())
    }

    pub(super) fn call_failed(&mut self, failure: CallFailure, out: &mut Out) -> Step {
        let CallFailure::Conflict(conflict) = failure;
        let major = self.major.take().ok_or(CallError::MasterMisbehaved)?;
        major.fails(CallError::Conflict(conflict), out);
        Ok(())
    }

    pub(super) fn peers_pending(&mut self, pending: bool, out: &mut Out) -> Step {
        let caller = self.query.take().ok_or(CallError::MasterMisbehaved)?;
        caller.is_told(Answer::PeersPending(Ok(pending)), out);
        Ok(())
    }
}
