//! A peer that is part of the run: dispatch of its inputs.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::admission::{Caller, Waiting};
use super::collectives::OpenCollective;
use super::io::{Answer, CallError, PeerInput, PeerOutput, PeerTimer};
use super::joining::Welcomed;
use super::optimize::Optimization;
use super::shared_state::RunningPlan;
use super::wiring::Wiring;
use super::{Out, Step, out_of_place, send};
use crate::id::Tag;
use crate::messages::{ToMaster, ToPeer};
use crate::reserved::Repeat;
use crate::topology::Topology;

/// A peer that is part of the run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Accepted {
    pub(super) welcomed: Welcomed,
    pub(super) wiring: Wiring,
    pub(super) topology: Topology,
    /// Whether the peer was admitted, or was given another ring while it rests, and has made no call since. Its next
    /// topology update is answered with that ring.
    pub(super) fresh: bool,
    /// Whether the peer was admitted and has not voted since. Its admission counts as its vote to update, so the
    /// master may build another ring with it.
    pub(super) rests: bool,
    /// Whether bytes have moved since the last heartbeat.
    pub(super) moved: bool,
    pub(super) major: Option<OpenMajor>,
    /// The caller of `are_peers_pending`.
    pub(super) query: Option<Caller>,
    pub(super) tags: BTreeMap<Tag, OpenCollective>,
    /// The collective that begins ahead if it is called next.
    pub(super) repeat: Option<Repeat>,
    /// Maximum number of collectives in flight.
    pub(super) collectives_max: usize,
    pub(super) waiting: Waiting,
}

/// The one major call in flight, and its caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct OpenMajor {
    pub(super) caller: Caller,
    pub(super) what: Major,
}

/// A major call, and its progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Major {
    Update,
    Optimize(Optimization),
    /// With the plan, once there is one.
    Sync(Option<RunningPlan>),
}

impl OpenMajor {
    /// Ends it without success: fetched content is dropped, and the caller gets the reason.
    pub(super) fn fails(self, why: CallError, out: &mut Out) {
        let Self { caller, what } = self;
        let failed = match what {
            Major::Update => Answer::TopologyUpdated(Err(why)),
            Major::Optimize(_) => Answer::TopologyOptimized(Err(why)),
            Major::Sync(plan) => {
                out.extend(plan.and_then(|plan| plan.dropped(caller)));
                Answer::Synchronized(Err(why))
            }
        };
        caller.is_told(failed, out);
    }
}

impl Accepted {
    pub(super) fn take(&mut self, input: PeerInput, out: &mut Out) -> Step {
        #[cfg(feature = "mutants")]
        let is_call = matches!(input, PeerInput::Call { .. });
        self.happens(input, out)?;
        rule!(self.start_waiting(out); WaitingCallForgotten if !is_call => {});
        Ok(())
    }

    fn happens(&mut self, input: PeerInput, out: &mut Out) -> Step {
        match input {
            PeerInput::Message(message) => return self.message(message, out),
            PeerInput::Call { call, what } => self.called(call, what, out),
            PeerInput::GiveUp { call } => self.given_up(call, out),
            PeerInput::Withdraw { call } => self.withdraw(call, out),
            PeerInput::Leave => return Err(CallError::Left),
            PeerInput::MasterDisconnected => return Err(CallError::MasterLost),
            PeerInput::MasterMisbehaved => return Err(CallError::MasterMisbehaved),
            PeerInput::TimerFired(timer) => return self.timer_fired(timer, out),
            PeerInput::Moved => self.moved = true,
            PeerInput::AskWhoIsAwaited => send(out, ToMaster::WhoIsAwaited),
            PeerInput::LinkUp { round, link } => self.wiring.link_up(round, link, out),
            PeerInput::LinkFailed {
                round,
                link,
                failure,
            } => self.wiring.link_failed(round, link, failure, out),
            PeerInput::LinkBroke { link, built } => self.wiring.broke(link, built),
            PeerInput::PlanEnded { seq, outcome } => self.plan_ended(seq, outcome, out),
            PeerInput::TransfersEnded { round, ok, with } => {
                self.transfers_ended(round, ok, with, out);
            }
            PeerInput::Measured {
                round,
                to,
                measured,
            } => self.measured(round, to, measured, out),
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
        self.welcomed.timer_fired(timer, moved, out)
    }

    fn message(&mut self, message: ToPeer, out: &mut Out) -> Step {
        self.welcomed.heard(out);
        match message {
            ToPeer::EstablishLinks { round, links } => self.establish(round, links, out),
            ToPeer::TopologyEstablished { topology, layout } => self.adopt(topology, &layout, out),
            ToPeer::CallFailed(failure) => self.call_failed(failure, out),
            ToPeer::PeersPending { pending } => self.peers_pending(pending, out),
            ToPeer::Probe { round, probes } => self.probe(round, probes, out),
            ToPeer::OptimizationConcluded { report } => self.optimization_concluded(report, out),
            ToPeer::SharedStatePlan(plan) => self.plan(plan, out),
            ToPeer::SharedStateConcluded { round, result } => {
                self.sync_concluded(round, result, out)
            }
            ToPeer::Commence {
                tag,
                seq,
                algorithm,
                lengths,
                total_weight,
            } => self.commence((tag, seq), algorithm, (lengths, total_weight), out),
            ToPeer::CollectiveRefused { tag, reason } => self.refused(tag, reason, out),
            ToPeer::Verdict { tag, seq, verdict } => self.verdict(tag, seq, verdict, out),
            ToPeer::Heartbeat => Ok(()),
            ToPeer::Awaited(awaited) => {
                out.push(PeerOutput::Awaited(awaited));
                Ok(())
            }
            ToPeer::Welcome { .. } | ToPeer::Refused(_) | ToPeer::Kicked(_) | ToPeer::Stopping => {
                Err(out_of_place(&message))
            }
        }
    }

    pub(super) fn open_major(&mut self, caller: Caller, what: Major) {
        (self.fresh, self.rests) = (false, false);
        self.major = Some(OpenMajor { caller, what });
    }

    /// Ends everything: running operations are stopped, and all waiting calls are answered, in the order of calls
    /// that may wait together.
    pub(super) fn abandon(mut self, why: &CallError) -> Vec<PeerOutput> {
        let mut out = Vec::new();
        self.stop_plans(&mut out);
        if let Some(major) = self.major.take() {
            major.fails(why.clone(), &mut out);
        }
        if let Some(caller) = self.query {
            caller.is_told(Answer::PeersPending(Err(why.clone())), &mut out);
        }
        for (tag, open) in &self.tags {
            let tag = *tag;
            let result = rule!(
                Err(why.clone());
                InventedCommit => self.committed_if_whole(tag, why.clone()),
                InventedAbort => Err(invented_abort(tag))
            );
            let ended = Answer::CollectiveEnded { tag, result };
            open.caller.is_told(ended, &mut out);
        }
        self.waiting.end(why, &mut out);
        out
    }
}

#[cfg(feature = "mutants")]
fn invented_abort(tag: Tag) -> CallError {
    let cause = crate::messages::AbortCause::TimedOut;
    CallError::Aborted { tag, cause }
}
