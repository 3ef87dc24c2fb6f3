//! A peer that is part of the run: what it may call, and which message goes where.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::collectives::Collective;
use super::io::{Answer, Call, CallError, PeerInput, PeerOutput, PeerTimer, Usage};
use super::joining::Identity;
use super::optimize::Optimization;
use super::shared_state::RunningPlan;
use super::wiring::Wiring;
use super::{Out, Step, answer, misuse, out_of_place, send};
use crate::id::Tag;
use crate::messages::{ToMaster, ToPeer};
use crate::topology::Topology;

/// A peer that is part of the run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Accepted {
    pub(super) identity: Identity,
    pub(super) wiring: Wiring,
    pub(super) topology: Topology,
    /// Was admitted, or was given another ring while it rests, and has called nothing since: its next
    /// topology update is answered with that ring.
    pub(super) fresh: bool,
    /// Was admitted and has voted for nothing since: its admission counts as its vote to update, so the
    /// master may build another ring under it.
    pub(super) rests: bool,
    /// Bytes have moved since the last sign of life.
    pub(super) moved: bool,
    pub(super) major: Option<Major>,
    /// `are_peers_pending` waits for its answer.
    pub(super) query_open: bool,
    pub(super) tags: BTreeMap<Tag, Collective>,
}

/// The one major call that a peer may have open.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Major {
    Update,
    Optimize(Optimization),
    /// With the plan, once there is one.
    Sync(Option<RunningPlan>),
}

impl Accepted {
    pub(super) fn take(&mut self, input: PeerInput, out: &mut Out) -> Step {
        match input {
            PeerInput::Message(message) => return self.message(message, out),
            PeerInput::Call(call) => return self.call(call, out),
            PeerInput::MasterDisconnected => return Err(CallError::MasterLost),
            PeerInput::MasterMisbehaved => return Err(CallError::MasterMisbehaved),
            PeerInput::TimerFired(timer) => return self.timer_fired(timer, out),
            PeerInput::Moved => self.moved = true,
            PeerInput::LinkUp { round, link } => self.wiring.link_up(round, link, out),
            PeerInput::LinkFailed {
                round,
                link,
                failure,
            } => self.wiring.link_failed(round, link, failure, out),
            PeerInput::LinkBroke { link, built } => self.wiring.broke(link, built),
            PeerInput::RingEnded { seq, outcome } => self.ring_ended(seq, outcome, out),
            PeerInput::TransfersEnded { round, ok, with } => {
                self.transfers_ended(round, ok, with, out);
            }
            PeerInput::Measured {
                round,
                to,
                kbit_per_s,
            } => self.measured(round, to, kbit_per_s, out),
            PeerInput::ProbesEnded { round, ok } => self.probes_ended(round, ok, out),
        }
        Ok(())
    }

    fn timer_fired(&mut self, timer: PeerTimer, out: &mut Out) -> Step {
        let moved = match timer {
            PeerTimer::HeartbeatDue => {
                rule!(core::mem::take(&mut self.moved); MovedForEver => self.moved)
            }
            PeerTimer::MasterSilence => false,
        };
        self.identity.timer_fired(timer, moved, out)
    }

    fn message(&mut self, message: ToPeer, out: &mut Out) -> Step {
        self.identity.heard(out);
        match message {
            ToPeer::EstablishLinks { round, links } => self.establish(round, links, out),
            ToPeer::TopologyEstablished { topology, layout } => self.adopt(topology, &layout, out),
            ToPeer::CallFailed(failure) => self.call_failed(failure, out),
            ToPeer::PeersPending { pending } => self.peers_pending(pending, out),
            ToPeer::Probe { round, probes } => self.probe(round, probes, out),
            ToPeer::OptimizationConcluded { improved_or_kept } => {
                self.optimization_concluded(improved_or_kept, out)
            }
            ToPeer::SharedStatePlan(plan) => self.plan(plan, out),
            ToPeer::SharedStateConcluded { round, result } => {
                self.sync_concluded(round, result, out)
            }
            ToPeer::Commence {
                tag,
                seq,
                algorithm,
            } => self.commence(tag, seq, algorithm, out),
            ToPeer::CollectiveRefused { tag, reason } => self.refused(tag, reason, out),
            ToPeer::Verdict { tag, seq, verdict } => self.verdict(tag, seq, verdict, out),
            ToPeer::Heartbeat => Ok(()),
            ToPeer::Welcome { .. } | ToPeer::Refused(_) | ToPeer::Kicked(_) | ToPeer::Stopping => {
                Err(out_of_place(&message))
            }
        }
    }

    fn call(&mut self, call: Call, out: &mut Out) -> Step {
        if let Some(usage) = self.objection(&call) {
            misuse(&call, usage, out);
            return Ok(());
        }
        match call {
            Call::Connect => {}
            Call::UpdateTopology => self.update_topology(out),
            Call::ArePeersPending => {
                self.query_open = true;
                send(out, ToMaster::ArePeersPending);
            }
            Call::OptimizeTopology => {
                self.open_major(Major::Optimize(Optimization::Voted));
                send(out, ToMaster::OptimizeTopology);
            }
            Call::SyncSharedState(vote) => {
                self.open_major(Major::Sync(None));
                send(out, ToMaster::SyncSharedState(vote));
            }
            Call::Initiate { tag, spec } => self.initiate(tag, spec, out),
            Call::Cancel { tag } => self.cancel(tag, out),
            Call::Leave => return Err(CallError::Left),
        }
        Ok(())
    }

    /// Why the calling program should not have made this call.
    fn objection(&self, call: &Call) -> Option<Usage> {
        match call {
            Call::Connect => Some(Usage::AlreadyConnected),
            Call::UpdateTopology | Call::OptimizeTopology | Call::SyncSharedState(_) => {
                if self.major.is_some() {
                    Some(Usage::Busy)
                } else {
                    (!self.tags.is_empty()).then_some(Usage::PendingCollectives)
                }
            }
            Call::ArePeersPending => self.query_open.then_some(Usage::QueryPending),
            Call::Initiate { tag, .. } => {
                if self.major.is_some() {
                    Some(Usage::Busy)
                } else {
                    let in_use = rule!(self.tags.contains_key(tag); DuplicateTagAccepted => false);
                    in_use.then_some(Usage::TagInUse(*tag))
                }
            }
            Call::Cancel { .. } | Call::Leave => None,
        }
    }

    pub(super) fn open_major(&mut self, major: Major) {
        (self.fresh, self.rests) = (false, false);
        self.major = Some(major);
    }

    /// Everything that waits for an answer, in the order of calls that may wait together.
    pub(super) fn abandon(&mut self, why: &CallError) -> Vec<PeerOutput> {
        let mut out = Vec::new();
        self.stop_rings(&mut out);
        let major = self.major.take();
        if let Some(Major::Sync(Some(plan))) = &major {
            out.push(plan.dropped());
        }
        let major = major.map(|major| match major {
            Major::Update => Answer::TopologyUpdated(Err(why.clone())),
            Major::Optimize(_) => Answer::TopologyOptimized(Err(why.clone())),
            Major::Sync(_) => Answer::Synchronized(Err(why.clone())),
        });
        answer(&mut out, major);
        if core::mem::take(&mut self.query_open) {
            answer(&mut out, Some(Answer::PeersPending(Err(why.clone()))));
        }
        for tag in self.tags.keys().copied() {
            let result = rule!(
                Err(why.clone());
                InventedCommit => self.committed_if_whole(tag, why.clone()),
                InventedAbort => Err(invented_abort(tag))
            );
            answer(&mut out, Some(Answer::CollectiveEnded { tag, result }));
        }
        self.tags.clear();
        out
    }
}

#[cfg(feature = "mutants")]
fn invented_abort(tag: Tag) -> CallError {
    let cause = crate::messages::AbortCause::TimedOut;
    CallError::Aborted { tag, cause }
}
