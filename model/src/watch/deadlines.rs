//! Which deadlines of the master run, for how long, and what begins them anew: the rules of
//! `core::master`'s `deadlines`, said once more by somebody who looks at everybody at once.

use std::time::Duration;

use pccl_core::id::{PeerId, Tag};
use pccl_core::master::{Master, MasterConfig, MasterInput, MasterOutput, MasterTimer, PeerView};
use pccl_core::messages::{ToMaster, ToPeer};
use pccl_core::states::{CollectiveCommunicationState, ConnectionPhase, ConnectionState, Event};

use super::source::Source;
use crate::claim::Claim;

pub(super) fn deadlines(
    run: &mut impl Source,
    before: &Master,
    after: &Master,
    heard: &MasterInput,
    out: &[MasterOutput],
) {
    let broken = Moment::new(&*run, before, after, heard, out).broken();
    if let Some(claim) = broken {
        run.breaks(claim);
    }
}

/// A step of the master, and the timers in it.
pub(super) struct Moment<'a, S> {
    pub(super) run: &'a S,
    pub(super) before: &'a Master,
    pub(super) after: &'a Master,
    pub(super) heard: &'a MasterInput,
    pub(super) out: &'a [MasterOutput],
    /// Timers that ran until then, and did not fire.
    pub(super) ran: Vec<MasterTimer>,
    /// Timers that the machine takes to run from then on.
    pub(super) run_on: Vec<MasterTimer>,
    /// Timers that began, and how long they are.
    pub(super) begun: Vec<(MasterTimer, Duration)>,
}

/// What others wait for a peer to do, where they wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Debt {
    /// To vote in a ballot.
    Vote,
    /// To start a collective that others have started.
    Join,
    /// To come to the end of its part of what runs.
    Part,
    /// To measure.
    Probe,
}

impl<'a, S: Source> Moment<'a, S> {
    fn new(
        run: &'a S,
        before: &'a Master,
        after: &'a Master,
        heard: &'a MasterInput,
        out: &'a [MasterOutput],
    ) -> Self {
        let fired = |timer: &MasterTimer| *heard == MasterInput::TimerFired(*timer);
        let begun = out.iter().filter_map(|output| match output {
            MasterOutput::StartTimer { timer, after } => Some((*timer, *after)),
            _ => None,
        });
        Self {
            run,
            before,
            after,
            heard,
            out,
            ran: before
                .view()
                .timers()
                .filter(|timer| !fired(timer))
                .collect(),
            run_on: after.view().timers().collect(),
            begun: begun.collect(),
        }
    }

    fn broken(&self) -> Option<Claim> {
        let last_right = || {
            let config = self.run.config();
            self.begun.iter().all(|begun| self.is_long(&config, *begun))
        };
        let checks: [(Claim, &dyn Fn() -> bool); 5] = [
            (Claim::Timers, &|| self.those_run_that_were_begun()),
            (Claim::SignsOfLife, &|| self.who_speaks_lives()),
            (Claim::Watched, &|| self.who_waits_is_watched()),
            (Claim::Timers, &|| self.time_begins_anew_for_a_reason()),
            (Claim::Timers, &last_right),
        ];
        let broken = checks.into_iter().find(|(_, holds)| !holds());
        broken.map(|(claim, _)| claim)
    }

    pub(super) fn runs(&self, timer: MasterTimer) -> bool {
        self.run_on.contains(&timer)
    }

    pub(super) fn begins(&self, timer: MasterTimer) -> bool {
        self.begun.iter().any(|(begun, _)| *begun == timer)
    }

    /// Exactly those timers run that the master thinks run.
    fn those_run_that_were_begun(&self) -> bool {
        let mut running = self.ran.clone();
        for output in self.out {
            match output {
                MasterOutput::StartTimer { timer, .. } if !running.contains(timer) => {
                    running.push(*timer);
                }
                MasterOutput::StopTimer(timer) => running.retain(|known| known != timer),
                _ => {}
            }
        }
        running.sort_unstable();
        running == self.run_on
    }

    fn is_long(&self, config: &MasterConfig, (timer, length): (MasterTimer, Duration)) -> bool {
        match timer {
            MasterTimer::HeartbeatDue => length == config.heartbeat,
            MasterTimer::MeasurementsAge => length == config.measurements,
            MasterTimer::Silence(_) => length == config.silence,
            MasterTimer::Late(peer) => match self.after.view().peer(peer).and_then(debt) {
                Some(Debt::Part) => length == config.stalled,
                Some(Debt::Probe) => length == config.probe,
                Some(Debt::Vote | Debt::Join) => length == config.late,
                // It was begun and stopped.
                None => true,
            },
            MasterTimer::Wiring(_) => length == config.wiring,
            MasterTimer::RetryWiring(_) => {
                let mut pauses = 0..=u32::from(config.wiring_attempts_max);
                pauses.any(|doublings| length == config.wiring_retry * (1 << doublings))
            }
            MasterTimer::Solver(_) => length == config.solver,
        }
    }

    // Time that begins anew.

    /// A deadline that runs is prolonged for a reason, and for that reason it is.
    fn time_begins_anew_for_a_reason(&self) -> bool {
        self.ran.iter().all(|timer| match timer {
            MasterTimer::Late(peer) => {
                !self.runs(*timer) || self.begins(*timer) == self.has_its_time_again(*peer)
            }
            // Whatever is heard of an attempt, it has the time that it has.
            MasterTimer::Wiring(_)
            | MasterTimer::RetryWiring(_)
            | MasterTimer::Solver(_)
            | MasterTimer::MeasurementsAge
            | MasterTimer::HeartbeatDue => !self.begins(*timer),
            MasterTimer::Silence(_) => true,
        })
    }

    /// Whether a peer for which others went on waiting has gone on with its part, or is waited for in something
    /// else. Its own word gains it no time for a vote, unless that was answered.
    fn has_its_time_again(&self, peer: PeerId) -> bool {
        let debts = [self.before, self.after].map(|master| master.view().peer(peer).and_then(debt));
        let for_vote = debts.map(|debt| !matches!(debt, Some(Debt::Part | Debt::Probe)));
        let said = match self.heard {
            MasterInput::Message { peer: of, message } if *of == peer => Some(message),
            _ => None,
        };
        let something_else = debts[0] != debts[1] && (said.is_none() || for_vote != [true; 2]);
        something_else
            || self.has_another_ring(peer)
            || self.is_told_to_measure(peer)
            || said.is_some_and(|message| self.goes_on(peer, message))
    }

    /// A ring without any edge to connect was handed out to an idle peer, and stands: it had nothing to vote on
    /// meanwhile.
    fn has_another_ring(&self, on_it: PeerId) -> bool {
        self.out.iter().any(|output| match output {
            MasterOutput::Moved {
                peer, event, to, ..
            } => *peer == on_it && *event == Event::RingStands && *to == ConnectionState::Idle,
            _ => false,
        })
    }

    /// Each rotation has its own time.
    fn is_told_to_measure(&self, told: PeerId) -> bool {
        self.out.iter().any(|output| match output {
            MasterOutput::Send { peer, message } => {
                *peer == told && matches!(message, ToPeer::Probe { .. })
            }
            _ => false,
        })
    }

    /// Whether a peer goes on with its part by this message, or is answered at once.
    fn goes_on(&self, peer: PeerId, message: &ToMaster) -> bool {
        let view = self.before.view();
        let Some(known) = view.peer(peer) else {
            return false;
        };
        match message {
            ToMaster::CompleteCollective { seq, .. } => {
                let mut running = view.running(known.group());
                running.any(|(_, one)| one == *seq)
            }
            ToMaster::Heartbeat { moved } => *moved && debt(known) == Some(Debt::Part),
            ToMaster::OptimizeTopology | ToMaster::SyncSharedState(_) => self.is_answered(peer),
            // See `has_another_ring`, and `is_told_to_measure`.
            ToMaster::UpdateTopology { .. } | ToMaster::Measured { .. } => false,
            ToMaster::Hello(_)
            | ToMaster::LinkUp { .. }
            | ToMaster::LinkFailed { .. }
            | ToMaster::ArePeersPending
            | ToMaster::ProbesDone { .. }
            | ToMaster::SharedStateDone { .. }
            | ToMaster::InitiateCollective { .. }
            | ToMaster::Withdraw { .. }
            | ToMaster::WhoIsAwaited
            | ToMaster::Leave => false,
        }
    }

    fn is_answered(&self, to: PeerId) -> bool {
        self.out.iter().any(|output| match output {
            MasterOutput::Send { peer, message } => {
                *peer == to
                    && matches!(
                        message,
                        ToPeer::OptimizationConcluded { .. } | ToPeer::SharedStateConcluded { .. }
                    )
            }
            _ => false,
        })
    }
}

/// What a peer may be waited for, as far as its state says.
pub(super) fn debt(peer: PeerView<'_>) -> Option<Debt> {
    if peer.phase() != ConnectionPhase::Accepted {
        return None;
    }
    let is = |wanted: CollectiveCommunicationState| {
        move |(_, state): (Tag, CollectiveCommunicationState)| state == wanted
    };
    match peer.state() {
        ConnectionState::Idle => Some(Debt::Vote),
        ConnectionState::OptimizeTopology => Some(Debt::Probe),
        ConnectionState::DistributeSharedState | ConnectionState::RequestSharedState => {
            Some(Debt::Part)
        }
        ConnectionState::CollectiveCommunicationsRunning => {
            if peer.tags().any(is(CollectiveCommunicationState::Perform)) {
                Some(Debt::Part)
            } else {
                let all_wait = peer
                    .tags()
                    .all(is(CollectiveCommunicationState::VoteInitiate));
                all_wait.then_some(Debt::Join)
            }
        }
        _ => None,
    }
}
