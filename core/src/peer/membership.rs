//! Joining, signs of life, admitting others.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use super::collectives::Collective;
use super::io::{Answer, Call, CallError, Joined, PeerInput, PeerOutput, PeerTimer, Usage};
use super::optimize::Optimization;
use super::shared_state::RunningPlan;
use super::wiring::Wiring;
use super::{Out, Peer, Stage, Step, answer, misuse, out_of_place, send};
use crate::id::{PeerId, ProtocolVersion, Round, Tag};
use crate::messages::{CallFailure, Hello, ToMaster, ToPeer};
use crate::topology::{LaneFailure, LaneOrder, Topology};

/// How long a master may take to answer the hello. The limits that hold later come with its welcome.
pub const WELCOME_LIMIT: Duration = Duration::from_secs(10);

/// Who the peer is, and how often the two ends show that they live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    pub(super) peer: PeerId,
    heartbeat: Duration,
    silence: Duration,
}

/// A peer that waits to be admitted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Registered {
    pub(super) identity: Identity,
    wiring: Wiring,
}

/// A peer that is part of the run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Accepted {
    pub(super) identity: Identity,
    pub(super) wiring: Wiring,
    pub(super) topology: Topology,
    /// Was admitted and has called nothing since: its admission counts as its topology update.
    pub(super) fresh: bool,
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

impl Peer {
    pub(super) fn while_unconnected(&mut self, input: PeerInput, out: &mut Out) -> Step {
        match input {
            PeerInput::Call(Call::Connect) => {
                self.say_hello(out);
                Ok(())
            }
            PeerInput::Call(Call::Leave) => Err(CallError::Left),
            PeerInput::Call(call) => {
                misuse(&call, Usage::NotConnected, out);
                Ok(())
            }
            PeerInput::Message(message) => Err(out_of_place(&message)),
            PeerInput::MasterDisconnected => Err(CallError::MasterLost),
            PeerInput::MasterMisbehaved => Err(CallError::MasterMisbehaved),
            PeerInput::EdgesUp { .. }
            | PeerInput::EdgeFailed { .. }
            | PeerInput::EdgeBroke { .. }
            | PeerInput::RingEnded { .. }
            | PeerInput::TransfersEnded { .. }
            | PeerInput::Measured { .. }
            | PeerInput::ProbesEnded { .. }
            | PeerInput::TimerFired(_) => Ok(()),
        }
    }

    fn say_hello(&mut self, out: &mut Out) {
        send(
            out,
            ToMaster::Hello(Hello {
                protocol: ProtocolVersion::CURRENT,
                group: self.config.group,
                port: self.config.port,
                advertise: self.config.advertise,
                lanes: self.config.lanes,
            }),
        );
        out.push(PeerOutput::StartTimer {
            timer: PeerTimer::MasterSilence,
            after: WELCOME_LIMIT,
        });
        self.stage = Stage::AwaitingWelcome;
    }

    pub(super) fn while_awaiting_welcome(&mut self, input: PeerInput, out: &mut Out) -> Step {
        match input {
            PeerInput::Message(message) => match Identity::from_welcome(&message) {
                Some(identity) => {
                    identity.heard(out);
                    identity.schedule_heartbeat(out);
                    let wiring = Wiring::default();
                    self.stage = Stage::Registered(Registered { identity, wiring });
                    Ok(())
                }
                None => Err(out_of_place(&message)),
            },
            PeerInput::Call(call) => call_before_admission(&call, out),
            PeerInput::MasterDisconnected | PeerInput::TimerFired(PeerTimer::MasterSilence) => {
                Err(CallError::MasterLost)
            }
            PeerInput::MasterMisbehaved => Err(CallError::MasterMisbehaved),
            PeerInput::TimerFired(PeerTimer::HeartbeatDue)
            | PeerInput::EdgesUp { .. }
            | PeerInput::EdgeFailed { .. }
            | PeerInput::EdgeBroke { .. }
            | PeerInput::RingEnded { .. }
            | PeerInput::TransfersEnded { .. }
            | PeerInput::Measured { .. }
            | PeerInput::ProbesEnded { .. } => Ok(()),
        }
    }
}

/// A call of a peer that has connected and is not admitted.
fn call_before_admission(call: &Call, out: &mut Out) -> Step {
    match call {
        Call::Connect => misuse(call, Usage::AlreadyConnected, out),
        Call::Leave => return Err(CallError::Left),
        Call::UpdateTopology
        | Call::ArePeersPending
        | Call::OptimizeTopology
        | Call::SyncSharedState(_)
        | Call::Initiate { .. }
        | Call::Cancel { .. } => misuse(call, Usage::NotConnected, out),
    }
    Ok(())
}

impl Identity {
    /// `None`: not a welcome, or one whose numbers make no sense.
    fn from_welcome(message: &ToPeer) -> Option<Self> {
        let ToPeer::Welcome {
            peer,
            heartbeat_ms,
            silence_ms,
        } = message
        else {
            return None;
        };
        (*heartbeat_ms > 0 && *silence_ms > 0).then(|| Self {
            peer: *peer,
            heartbeat: Duration::from_millis(u64::from(*heartbeat_ms)),
            silence: Duration::from_millis(u64::from(*silence_ms)),
        })
    }

    /// The master has shown that it lives.
    fn heard(&self, out: &mut Out) {
        out.push(PeerOutput::StartTimer {
            timer: PeerTimer::MasterSilence,
            after: self.silence,
        });
    }

    fn schedule_heartbeat(&self, out: &mut Out) {
        out.push(PeerOutput::StartTimer {
            timer: PeerTimer::HeartbeatDue,
            after: self.heartbeat,
        });
    }

    fn timer_fired(&self, timer: PeerTimer, out: &mut Out) -> Step {
        match timer {
            PeerTimer::HeartbeatDue => {
                send(out, ToMaster::Heartbeat);
                self.schedule_heartbeat(out);
                Ok(())
            }
            PeerTimer::MasterSilence => Err(CallError::MasterLost),
        }
    }
}

impl Registered {
    /// Returns the accepted peer once a ring stands.
    pub(super) fn take(
        &mut self,
        input: PeerInput,
        out: &mut Out,
    ) -> Result<Option<Accepted>, CallError> {
        match input {
            PeerInput::Message(message) => return self.message(message, out),
            PeerInput::Call(call) => call_before_admission(&call, out)?,
            PeerInput::MasterDisconnected => return Err(CallError::MasterLost),
            PeerInput::MasterMisbehaved => return Err(CallError::MasterMisbehaved),
            PeerInput::TimerFired(timer) => self.identity.timer_fired(timer, out)?,
            PeerInput::EdgesUp { round } => self.wiring.edges_up(round, out),
            PeerInput::EdgeFailed {
                round,
                with,
                failure,
            } => self.wiring.edge_failed(round, with, failure, out),
            PeerInput::EdgeBroke { edge, built } => self.wiring.broke(edge, built),
            PeerInput::RingEnded { .. }
            | PeerInput::TransfersEnded { .. }
            | PeerInput::Measured { .. }
            | PeerInput::ProbesEnded { .. } => {}
        }
        Ok(None)
    }

    fn message(&mut self, message: ToPeer, out: &mut Out) -> Result<Option<Accepted>, CallError> {
        self.identity.heard(out);
        match message {
            ToPeer::EstablishRing {
                round,
                lanes,
                next,
                previous,
            } => {
                let order = RingOrder {
                    round,
                    lanes,
                    next,
                    previous,
                };
                self.wiring.establish(self.identity.peer, order, out)?;
                Ok(None)
            }
            ToPeer::TopologyEstablished(topology) => self.admitted(topology, out).map(Some),
            ToPeer::Heartbeat => Ok(None),
            ToPeer::Welcome { .. }
            | ToPeer::Refused(_)
            | ToPeer::CallFailed(_)
            | ToPeer::PeersPending { .. }
            | ToPeer::Probe { .. }
            | ToPeer::OptimizationConcluded { .. }
            | ToPeer::SharedStatePlan(_)
            | ToPeer::SharedStateConcluded { .. }
            | ToPeer::Commence { .. }
            | ToPeer::CollectiveRefused { .. }
            | ToPeer::Verdict { .. }
            | ToPeer::Kicked(_)
            | ToPeer::Stopping => Err(out_of_place(&message)),
        }
    }

    fn admitted(&mut self, topology: Topology, out: &mut Out) -> Result<Accepted, CallError> {
        let peer = self.identity.peer;
        self.wiring
            .adopt(peer, &topology)
            .ok_or(CallError::MasterMisbehaved)?;
        out.push(PeerOutput::AdoptRing(topology.clone()));
        let joined = Joined {
            peer,
            topology: topology.clone(),
        };
        answer(out, Some(Answer::Connected(Ok(joined))));
        Ok(Accepted {
            identity: self.identity,
            wiring: core::mem::take(&mut self.wiring),
            topology,
            fresh: true,
            major: None,
            query_open: false,
            tags: BTreeMap::new(),
        })
    }
}

/// What `EstablishRing` says.
pub(super) struct RingOrder {
    round: Round,
    lanes: u16,
    next: Option<LaneOrder>,
    previous: Option<LaneOrder>,
}

impl Wiring {
    /// Hands an order on. One that orders nothing is reported at once.
    fn establish(&mut self, me: PeerId, order: RingOrder, out: &mut Out) -> Step {
        let RingOrder {
            round,
            lanes,
            next,
            previous,
        } = order;
        let orders = || next.iter().chain(previous.iter());
        if orders().any(|order| order.with == me || lanes == 0) {
            return Err(CallError::MasterMisbehaved);
        }
        if !self.order(round, next, previous) {
            return Ok(());
        }
        let nothing_to_do = orders().next().is_none();
        out.push(PeerOutput::Establish {
            round,
            lanes,
            next,
            previous,
        });
        if nothing_to_do {
            self.edges_up(round, out);
        }
        Ok(())
    }

    fn edges_up(&mut self, round: Round, out: &mut Out) {
        if self.came_up(round) {
            send(out, ToMaster::EdgesEstablished { round });
        }
    }

    fn edge_failed(&mut self, round: Round, with: PeerId, failure: LaneFailure, out: &mut Out) {
        if self.failed(round) {
            send(
                out,
                ToMaster::EdgeFailed {
                    round,
                    with,
                    failure,
                },
            );
        }
    }
}

impl Accepted {
    pub(super) fn take(&mut self, input: PeerInput, out: &mut Out) -> Step {
        match input {
            PeerInput::Message(message) => return self.message(message, out),
            PeerInput::Call(call) => return self.call(call, out),
            PeerInput::MasterDisconnected => return Err(CallError::MasterLost),
            PeerInput::MasterMisbehaved => return Err(CallError::MasterMisbehaved),
            PeerInput::TimerFired(timer) => return self.identity.timer_fired(timer, out),
            PeerInput::EdgesUp { round } => self.wiring.edges_up(round, out),
            PeerInput::EdgeFailed {
                round,
                with,
                failure,
            } => self.wiring.edge_failed(round, with, failure, out),
            PeerInput::EdgeBroke { edge, built } => self.wiring.broke(edge, built),
            PeerInput::RingEnded { seq, outcome } => self.ring_ended(seq, outcome, out),
            PeerInput::TransfersEnded { round, ok } => self.transfers_ended(round, ok, out),
            PeerInput::Measured {
                round,
                to,
                kbit_per_s,
            } => self.measured(round, to, kbit_per_s, out),
            PeerInput::ProbesEnded { round, ok } => self.probes_ended(round, ok, out),
        }
        Ok(())
    }

    fn message(&mut self, message: ToPeer, out: &mut Out) -> Step {
        self.identity.heard(out);
        match message {
            ToPeer::EstablishRing {
                round,
                lanes,
                next,
                previous,
            } => {
                let order = RingOrder {
                    round,
                    lanes,
                    next,
                    previous,
                };
                self.establish(order, out)
            }
            ToPeer::TopologyEstablished(topology) => self.adopt(topology, out),
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
            ToPeer::Commence { tag, seq } => self.commence(tag, seq, out),
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
                    let in_use = self.tags.contains_key(tag);
                    in_use.then_some(Usage::TagInUse(*tag))
                }
            }
            Call::Cancel { .. } | Call::Leave => None,
        }
    }

    fn open_major(&mut self, major: Major) {
        self.fresh = false;
        self.major = Some(major);
    }

    fn update_topology(&mut self, out: &mut Out) {
        if self.fresh {
            self.fresh = false;
            let topology = self.topology.clone();
            answer(out, Some(Answer::TopologyUpdated(Ok(topology))));
            return;
        }
        self.open_major(Major::Update);
        let broken = self.wiring.broken();
        send(out, ToMaster::UpdateTopology { broken });
    }

    fn establish(&mut self, order: RingOrder, out: &mut Out) -> Step {
        if !self.waits_for_a_ring() {
            return Err(CallError::MasterMisbehaved);
        }
        self.wiring.establish(self.identity.peer, order, out)
    }

    /// Is the peer in a call for which the master may build another ring? No ring is touched while
    /// one of the peer's collectives runs on it.
    fn waits_for_a_ring(&self) -> bool {
        match &self.major {
            Some(Major::Update) => true,
            Some(Major::Optimize(optimization)) => optimization.has_measured(),
            Some(Major::Sync(_)) => false,
            None => {
                let open = !self.tags.is_empty() || self.wiring.is_unfinished();
                open && self.tags.values().all(Collective::waits_to_start)
            }
        }
    }

    fn adopt(&mut self, topology: Topology, out: &mut Out) -> Step {
        let is_older = topology.epoch < self.topology.epoch;
        if is_older || !self.waits_for_a_ring() {
            return Err(CallError::MasterMisbehaved);
        }
        self.wiring
            .adopt(self.identity.peer, &topology)
            .ok_or(CallError::MasterMisbehaved)?;
        self.topology = topology.clone();
        out.push(PeerOutput::AdoptRing(topology.clone()));
        if let Some(Major::Update) = self.major {
            self.major = None;
            answer(out, Some(Answer::TopologyUpdated(Ok(topology))));
        }
        Ok(())
    }

    fn call_failed(&mut self, failure: CallFailure, out: &mut Out) -> Step {
        let CallFailure::Conflict(conflict) = failure;
        let why = CallError::Conflict(conflict);
        let failed = match self.major.take().ok_or(CallError::MasterMisbehaved)? {
            Major::Update => Answer::TopologyUpdated(Err(why)),
            Major::Optimize(_) => Answer::TopologyOptimized(Err(why)),
            Major::Sync(plan) => {
                out.extend(plan.map(|plan| plan.dropped()));
                Answer::Synchronized(Err(why))
            }
        };
        answer(out, Some(failed));
        Ok(())
    }

    fn peers_pending(&mut self, pending: bool, out: &mut Out) -> Step {
        if !self.query_open {
            return Err(CallError::MasterMisbehaved);
        }
        self.query_open = false;
        answer(out, Some(Answer::PeersPending(Ok(pending))));
        Ok(())
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
        for tag in core::mem::take(&mut self.tags).into_keys() {
            let result = Err(why.clone());
            answer(&mut out, Some(Answer::CollectiveEnded { tag, result }));
        }
        out
    }
}
