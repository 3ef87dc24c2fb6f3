//! Joining: hello, welcome, and waiting to be admitted; heartbeats.

use alloc::collections::BTreeMap;
use core::time::Duration;

use super::accepted::Accepted;
use super::admission::{Caller, Waiting};
use super::io::{Answer, Call, CallError, Joined, PeerInput, PeerOutput, PeerTimer, Usage};
use super::wiring::Wiring;
use super::{Out, Peer, Stage, Step, misuse, out_of_place, send};
use crate::id::{CallId, PeerId, ProtocolVersion};
use crate::messages::{Hello, ToMaster, ToPeer};
use crate::topology::{Layout, Topology};
use crate::wire::COLLECTIVES_MAX;

/// How long a master may take to answer the hello. Its welcome sets the later limits.
pub const WELCOME_LIMIT: Duration = Duration::from_secs(10);

/// The peer's id, and the intervals of the heartbeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Welcomed {
    pub(super) peer: PeerId,
    heartbeat: Duration,
    silence: Duration,
}

/// A peer that waits to be admitted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Registered {
    pub(super) welcomed: Welcomed,
    /// The caller that waits to be admitted.
    pub(super) caller: Caller,
    wiring: Wiring,
    collectives_max: usize,
}

impl Peer {
    pub(super) fn while_unconnected(&mut self, input: PeerInput, out: &mut Out) -> Step {
        match input {
            PeerInput::Call { call, what } => {
                match what {
                    Call::Connect => self.say_hello(call, out),
                    Call::UpdateTopology
                    | Call::ArePeersPending
                    | Call::OptimizeTopology
                    | Call::SyncSharedState(_)
                    | Call::Initiate { .. } => misuse(call, &what, Usage::NotConnected, out),
                }
                Ok(())
            }
            PeerInput::Leave => Err(CallError::Left),
            PeerInput::Message(message) => Err(out_of_place(&message)),
            PeerInput::MasterDisconnected => Err(CallError::MasterLost),
            PeerInput::MasterMisbehaved => Err(CallError::MasterMisbehaved),
            PeerInput::GiveUp { .. }
            | PeerInput::Withdraw { .. }
            | PeerInput::LinkUp { .. }
            | PeerInput::Moved
            | PeerInput::LinkFailed { .. }
            | PeerInput::LinkBroke { .. }
            | PeerInput::PlanEnded { .. }
            | PeerInput::TransfersEnded { .. }
            | PeerInput::Measured { .. }
            | PeerInput::ProbesEnded { .. }
            | PeerInput::AskWhoIsAwaited
            | PeerInput::TimerFired(_) => Ok(()),
        }
    }

    fn say_hello(&mut self, call: CallId, out: &mut Out) {
        send(
            out,
            ToMaster::Hello(Hello {
                protocol: ProtocolVersion::CURRENT,
                group: self.config.group,
                port: self.config.port,
                advertise: self.config.advertise,
                lanes: self.config.lanes,
                site: self.config.site.clone(),
                name: self.config.name.clone(),
            }),
        );
        let limit = PeerOutput::StartTimer {
            timer: PeerTimer::MasterSilence,
            after: WELCOME_LIMIT,
        };
        rule!(out.push(limit); WelcomeUnwatched => drop(limit));
        self.stage = Stage::AwaitingWelcome(Caller::of(call));
    }

    pub(super) fn while_awaiting_welcome(&mut self, input: PeerInput, out: &mut Out) -> Step {
        match input {
            PeerInput::Message(message) => match Welcomed::from_welcome(&message) {
                Some(welcomed) => {
                    self.welcomed(welcomed, out);
                    Ok(())
                }
                None => Err(out_of_place(&message)),
            },
            PeerInput::Call { call, what } => {
                call_before_admission(call, &what, out);
                Ok(())
            }
            PeerInput::GiveUp { call } => {
                if let Stage::AwaitingWelcome(caller) = &mut self.stage {
                    caller.gives_up(call);
                }
                Ok(())
            }
            PeerInput::Leave => Err(CallError::Left),
            PeerInput::MasterDisconnected | PeerInput::TimerFired(PeerTimer::MasterSilence) => {
                Err(CallError::MasterLost)
            }
            PeerInput::MasterMisbehaved => Err(CallError::MasterMisbehaved),
            PeerInput::TimerFired(PeerTimer::HeartbeatDue)
            | PeerInput::Withdraw { .. }
            | PeerInput::LinkUp { .. }
            | PeerInput::Moved
            | PeerInput::LinkFailed { .. }
            | PeerInput::LinkBroke { .. }
            | PeerInput::PlanEnded { .. }
            | PeerInput::TransfersEnded { .. }
            | PeerInput::Measured { .. }
            | PeerInput::AskWhoIsAwaited
            | PeerInput::ProbesEnded { .. } => Ok(()),
        }
    }

    fn welcomed(&mut self, welcomed: Welcomed, out: &mut Out) {
        welcomed.heard(out);
        welcomed.schedule_heartbeat(out);
        if let Stage::AwaitingWelcome(caller) = self.stage {
            let most = usize::from(self.config.collectives_max);
            self.stage = Stage::Registered(Registered {
                welcomed,
                caller,
                wiring: Wiring::default(),
                collectives_max: most.clamp(1, COLLECTIVES_MAX),
            });
        }
    }
}

/// Refuses a call of a peer that has connected but is not admitted.
fn call_before_admission(call: CallId, what: &Call, out: &mut Out) {
    let usage = match what {
        Call::Connect => Usage::AlreadyConnected,
        Call::UpdateTopology
        | Call::ArePeersPending
        | Call::OptimizeTopology
        | Call::SyncSharedState(_)
        | Call::Initiate { .. } => Usage::NotConnected,
    };
    misuse(call, what, usage, out);
}

impl Welcomed {
    /// `None` if it is not a welcome, or has invalid numbers.
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

    /// Notes a sign of life of the master.
    pub(super) fn heard(&self, out: &mut Out) {
        let (timer, after) = (PeerTimer::MasterSilence, self.silence);
        out.push(rule!(
            PeerOutput::StartTimer { timer, after };
            MasterSilenceUnwatched => PeerOutput::StopTimer(timer)
        ));
    }

    fn schedule_heartbeat(&self, out: &mut Out) {
        out.push(PeerOutput::StartTimer {
            timer: PeerTimer::HeartbeatDue,
            after: self.heartbeat,
        });
    }

    /// `moved`: whether bytes have moved since the last heartbeat.
    pub(super) fn timer_fired(&self, timer: PeerTimer, moved: bool, out: &mut Out) -> Step {
        match timer {
            PeerTimer::HeartbeatDue => {
                send(out, ToMaster::Heartbeat { moved });
                rule!(self.schedule_heartbeat(out); OneSignOfLife => {});
                Ok(())
            }
            PeerTimer::MasterSilence => Err(CallError::MasterLost),
        }
    }
}

impl Registered {
    /// Returns the accepted peer once a ring is established.
    pub(super) fn take(
        &mut self,
        input: PeerInput,
        out: &mut Out,
    ) -> Result<Option<Accepted>, CallError> {
        match input {
            PeerInput::Message(message) => return self.message(message, out),
            PeerInput::Call { call, what } => call_before_admission(call, &what, out),
            PeerInput::GiveUp { call } => {
                self.caller.gives_up(call);
            }
            PeerInput::Leave => return Err(CallError::Left),
            PeerInput::MasterDisconnected => return Err(CallError::MasterLost),
            PeerInput::MasterMisbehaved => return Err(CallError::MasterMisbehaved),
            PeerInput::TimerFired(timer) => self.welcomed.timer_fired(timer, false, out)?,
            PeerInput::LinkUp { round, link } => self.wiring.link_up(round, link, out),
            PeerInput::LinkFailed {
                round,
                link,
                failure,
            } => self.wiring.link_failed(round, link, failure, out),
            PeerInput::LinkBroke { link, built } => self.wiring.broke(link, built),
            PeerInput::AskWhoIsAwaited => send(out, ToMaster::WhoIsAwaited),
            PeerInput::Moved
            | PeerInput::Withdraw { .. }
            | PeerInput::PlanEnded { .. }
            | PeerInput::TransfersEnded { .. }
            | PeerInput::Measured { .. }
            | PeerInput::ProbesEnded { .. } => {}
        }
        Ok(None)
    }

    fn message(&mut self, message: ToPeer, out: &mut Out) -> Result<Option<Accepted>, CallError> {
        self.welcomed.heard(out);
        match message {
            ToPeer::EstablishLinks { round, links } => {
                let me = self.welcomed.peer;
                self.wiring.establish(me, round, links, out)?;
                Ok(None)
            }
            ToPeer::TopologyEstablished { topology, layout } => {
                self.admitted(topology, &layout, out).map(Some)
            }
            ToPeer::Heartbeat => Ok(None),
            ToPeer::Awaited(awaited) => {
                out.push(PeerOutput::Awaited(awaited));
                Ok(None)
            }
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

    fn admitted(
        &mut self,
        topology: Topology,
        layout: &Layout,
        out: &mut Out,
    ) -> Result<Accepted, CallError> {
        let peer = self.welcomed.peer;
        let adopted = self.wiring.adopt(peer, &topology, layout);
        let adopted = adopted.ok_or(CallError::MasterMisbehaved)?;
        out.push(adopted.order(topology.clone()));
        let joined = Joined {
            peer,
            topology: topology.clone(),
        };
        self.caller.is_told(Answer::Connected(Ok(joined)), out);
        Ok(Accepted {
            welcomed: self.welcomed,
            wiring: core::mem::take(&mut self.wiring),
            topology,
            fresh: true,
            rests: true,
            moved: false,
            major: None,
            query: None,
            tags: BTreeMap::new(),
            repeat: None,
            collectives_max: self.collectives_max,
            waiting: Waiting::default(),
        })
    }
}
