//! Counting ballots until nothing changes.
//!
//! Only what an input has changed is counted again: the groups of the peers whose records were touched, and the
//! ballots of all groups. Then `deadlines` updates the timers.

use alloc::vec::Vec;

use super::{Master, MasterTimer, Out, send};
use crate::id::{GroupId, PeerId};
use crate::messages::{Misdeed, ToPeer};

impl Master {
    /// `heard`: the peer whose message is the input.
    pub(super) fn settle(&mut self, heard: Option<PeerId>, out: &mut Out) {
        loop {
            self.recount();
            if !self.advance(out) {
                break;
            }
        }
        self.end_stale_searches(out);
        self.set_timers(heard, out);
        self.dirty.clear();
    }

    /// One step of anything that can change. Every step uses up a vote, a report or a peer, so this ends.
    fn advance(&mut self, out: &mut Out) -> bool {
        self.count_pending(out)
            || self.count_groups(out)
            || self.count_optimization(out)
            || self.count_optimize(out)
            || self.count_update(out)
            || self.admit_first(out)
            || self.resolve_conflicts(out)
    }

    fn count_groups(&mut self, out: &mut Out) -> bool {
        let mut from = Some(GroupId(0));
        while let Some(start) = from {
            let Some(group) = self.dirty.range(start..).next().copied() else {
                return false;
            };
            if self.count_group(group, out) {
                return true;
            }
            from = group.0.checked_add(1).map(GroupId);
        }
        false
    }

    fn count_group(&mut self, group: GroupId, out: &mut Out) -> bool {
        self.count_complete(group, out)
            || self.count_sync_done(group, out)
            || self.count_sync(group, out)
            || self.vote_to_rewire(group, out)
            || self.count_rewire(group, out)
            || self.count_initiate(group, out)
    }

    #[cfg(feature = "mutants")]
    fn present_wiring(&self, timer: MasterTimer) -> MasterTimer {
        let MasterTimer::Wiring(round) = timer else {
            return timer;
        };
        let present = self.wirings.keys().next().copied();
        MasterTimer::Wiring(present.unwrap_or(round))
    }

    pub(super) fn timer_fired(&mut self, fired: MasterTimer, out: &mut Out) {
        let timer = rule!(fired; StaleWiringTaken => self.present_wiring(fired));
        // One that was stopped may have been on its way. Settling starts it again where it is wanted.
        if !self.armed.remove(&timer) {
            return;
        }
        match timer {
            MasterTimer::HeartbeatDue => {
                let peers: Vec<PeerId> = rule!(
                    self.peers.keys().copied().collect();
                    SignsOfLifeToMembersOnly => self.accepted().map(|(peer, _)| peer).collect()
                );
                for peer in peers {
                    send(out, peer, ToPeer::Heartbeat);
                }
            }
            // Nothing becomes unknown under an optimization that counts on it.
            MasterTimer::MeasurementsAge if self.optimization.is_some() => {}
            MasterTimer::MeasurementsAge => self.known.age(),
            MasterTimer::Silence(peer) => self.kick(peer, Misdeed::Silent, out),
            MasterTimer::Late(peer) => self.is_late(peer, out),
            MasterTimer::Wiring(round) => self.wiring_overdue(round, out),
            MasterTimer::RetryWiring(round) => self.wiring_failed(round, out),
            MasterTimer::Solver(round) => self.solver_overdue(round, out),
        }
    }
}
