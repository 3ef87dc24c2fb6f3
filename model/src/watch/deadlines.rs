//! Which deadlines of the master run, for how long, and what begins them anew: the rules of
//! `core::master`'s `deadlines`, said once more by somebody who looks at everybody at once.

use std::collections::BTreeSet;
use std::time::Duration;

use pccl_core::id::{GroupId, PeerId, Round, Tag};
use pccl_core::master::{Master, MasterConfig, MasterInput, MasterOutput, MasterTimer, PeerView};
use pccl_core::messages::{ToMaster, ToPeer};
use pccl_core::states::{CollectiveCommunicationState, ConnectionPhase, ConnectionState, Event};

use crate::claim::Claim;
use crate::link::End;
use crate::plane::Order;
use crate::prologue;
use crate::run::{Run, is_vote};
use crate::state::{Life, Seat};

pub(super) fn deadlines(
    run: &mut Run<'_>,
    before: &Master,
    after: &Master,
    heard: &MasterInput,
    out: &[MasterOutput],
) {
    let broken = Moment::new(run, before, after, heard, out).broken();
    if let Some(claim) = broken {
        run.state.breaks(claim);
    }
}

/// A step of the master, and the timers in it.
struct Moment<'a> {
    run: &'a Run<'a>,
    before: &'a Master,
    after: &'a Master,
    heard: &'a MasterInput,
    out: &'a [MasterOutput],
    /// Timers that ran until then, and did not fire.
    ran: Vec<MasterTimer>,
    /// Timers that the machine takes to run from then on.
    run_on: Vec<MasterTimer>,
    /// Timers that began, and how long they are.
    begun: Vec<(MasterTimer, Duration)>,
}

/// What others wait for a peer to do, where they wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Debt {
    /// To vote in a ballot.
    Vote,
    /// To start a collective that others have started.
    Join,
    /// To come to the end of its part of what runs.
    Part,
}

/// Do others wait for a peer?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    Yes,
    No,
    /// What decides it is on its way to the master, or was lost there.
    CannotTell,
}

impl<'a> Moment<'a> {
    fn new(
        run: &'a Run<'a>,
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
            let config = prologue::config();
            self.begun.iter().all(|begun| self.is_long(&config, *begun))
        };
        let checks: [(Claim, &dyn Fn() -> bool); 6] = [
            (Claim::Timers, &|| self.those_run_that_were_begun()),
            (Claim::SignsOfLife, &|| self.who_speaks_lives()),
            (Claim::Watched, &|| self.who_waits_is_watched()),
            (Claim::Timers, &|| self.time_begins_anew_for_a_reason()),
            (Claim::Timers, &last_right),
            (Claim::Unmoved, &|| self.what_is_late_means_nothing()),
        ];
        let broken = checks.into_iter().find(|(_, holds)| !holds());
        broken.map(|(claim, _)| claim)
    }

    fn runs(&self, timer: MasterTimer) -> bool {
        self.run_on.contains(&timer)
    }

    fn begins(&self, timer: MasterTimer) -> bool {
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
            MasterTimer::Silence(_) => length == config.silence,
            MasterTimer::Late(peer) => match self.after.view().peer(peer).and_then(debt) {
                Some(Debt::Part) => length == config.stalled,
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

    // Signs of life.

    /// Whoever says something has all the time again until its silence is noticed, and nobody else has. When
    /// they are due, everybody is given a sign of life.
    fn who_speaks_lives(&self) -> bool {
        let (before, after) = (self.before.view(), self.after.view());
        let speaker = match self.heard {
            MasterInput::Message { peer, .. } => Some(*peer),
            _ => None,
        };
        let is_new = |peer: PeerId| before.peer(peer).is_none();
        let is_heard = speaker.is_none_or(|peer| {
            let stays = !is_new(peer) && after.peer(peer).is_some();
            !stays || self.begins(MasterTimer::Silence(peer))
        });
        let only_its_own = self.begun.iter().all(|(timer, _)| match timer {
            MasterTimer::Silence(peer) => is_new(*peer) || speaker == Some(*peer),
            _ => true,
        });
        let everybody = !self.out.iter().any(is_sign_of_life) && !self.is_due()
            || before.peers().all(|(peer, _)| self.is_given_a_sign(peer)) && self.is_due();
        is_heard && only_its_own && everybody
    }

    fn is_due(&self) -> bool {
        let due = MasterTimer::HeartbeatDue;
        *self.heard == MasterInput::TimerFired(due) && self.before.view().timers().any(|t| t == due)
    }

    fn is_given_a_sign(&self, to: PeerId) -> bool {
        let is_meant = |output: &MasterOutput| match output {
            MasterOutput::Send { peer, .. } => *peer == to && is_sign_of_life(output),
            _ => false,
        };
        self.out.iter().any(is_meant)
    }

    // Who waits.

    fn who_waits_is_watched(&self) -> bool {
        let mut peers = self.after.view().peers();
        let is_connected = self.after.view().peers().next().is_some();
        self.runs(MasterTimer::HeartbeatDue) == is_connected
            && peers.all(|(id, peer)| self.is_watched(id, peer))
            && self.nobody_else_is_watched()
            && self.rings_are_watched()
            && self.the_solver_is_watched()
    }

    fn is_watched(&self, id: PeerId, peer: PeerView<'_>) -> bool {
        let is_late = self.runs(MasterTimer::Late(id));
        let is_right = match self.awaited(id, peer) {
            Awaited::Yes => is_late,
            Awaited::No => !is_late,
            Awaited::CannotTell => true,
        };
        is_right && self.runs(MasterTimer::Silence(id))
    }

    fn nobody_else_is_watched(&self) -> bool {
        let is_there = |peer: &PeerId| self.after.view().peer(*peer).is_some();
        self.run_on.iter().all(|timer| match timer {
            MasterTimer::Silence(peer) | MasterTimer::Late(peer) => is_there(peer),
            _ => true,
        })
    }

    /// Who owes something may be waited for by others.
    fn awaited(&self, id: PeerId, peer: PeerView<'_>) -> Awaited {
        let is_awaited = match debt(peer) {
            None => false,
            Some(Debt::Part) => true,
            Some(Debt::Join) => self.lacks_a_tag(peer),
            Some(Debt::Vote) => return self.lacks_its_vote(id, peer),
        };
        if is_awaited {
            Awaited::Yes
        } else {
            Awaited::No
        }
    }

    fn accepted(&self) -> impl Iterator<Item = (PeerId, PeerView<'a>)> {
        let peers = self.after.view().peers();
        peers.filter(|(_, peer)| peer.phase() == ConnectionPhase::Accepted)
    }

    fn of_group(&self, group: GroupId) -> impl Iterator<Item = PeerView<'a>> {
        let accepted = self.accepted().map(|(_, peer)| peer);
        accepted.filter(move |peer| peer.group() == group)
    }

    /// Another of its group waits for a tag to start that this one has not started.
    fn lacks_a_tag(&self, peer: PeerView<'_>) -> bool {
        let mut others = self.of_group(peer.group()).flat_map(waits_to_start);
        others.any(|tag| !peer.tags().any(|(known, _)| known == tag))
    }

    /// Somebody waits in a ballot that lacks the vote of this one, which is idle.
    fn lacks_its_vote(&self, id: PeerId, peer: PeerView<'_>) -> Awaited {
        let of_group = self.of_group(peer.group()).any(|other| {
            let calls = [
                ConnectionState::VoteSyncSharedState,
                ConnectionState::VoteNoNewPeersEstablishP2p,
            ];
            calls.contains(&other.state()) || waits_to_start(other).next().is_some()
        });
        let waits_in = |state| self.accepted().any(|(_, other)| other.state() == state);
        let asks = || self.accepted().any(|(_, other)| other.asks_pending());
        if of_group
            || waits_in(ConnectionState::VoteOptimizeTopology)
            || !peer.asks_pending() && asks()
        {
            Awaited::Yes
        } else if waits_in(ConnectionState::VoteAcceptNewPeers) {
            self.owes_an_update(id)
        } else {
            Awaited::No
        }
    }

    /// Who has voted for nothing since it was admitted lets others update.
    fn owes_an_update(&self, id: PeerId) -> Awaited {
        let seat = self.run.state.seat_of(id);
        let seat = seat.and_then(|no| self.run.state.seat(no));
        match seat.filter(|seat| seat.life != Life::Departed) {
            None => Awaited::CannotTell,
            Some(seat) if !seat.has_voted => Awaited::No,
            Some(seat) => {
                let all_arrived = seat.link.up.end == End::Open;
                match all_arrived && !seat.link.up.queue.iter().any(is_vote) {
                    true => Awaited::Yes,
                    false => Awaited::CannotTell,
                }
            }
        }
    }

    /// While rings are connected, and then only, a deadline runs for the reports about their edges, or the
    /// pause before they are tried again.
    fn rings_are_watched(&self) -> bool {
        let rounds = || {
            self.run_on
                .iter()
                .filter_map(|timer| round_of_wiring(*timer))
        };
        let wired = || {
            let peers = self.after.view().peers();
            peers.filter(|(_, peer)| is_wired(peer.state()))
        };
        if rounds().next().is_none() {
            return wired().next().is_none();
        }
        let groups: BTreeSet<GroupId> = wired().map(|(_, peer)| peer.group()).collect();
        rounds().count() <= groups.len()
            && wired().all(|(id, peer)| self.its_reports_are_awaited(id, peer.state()))
            && self.pauses_begin_when_all_is_known()
    }

    /// The deadline is that of the round that the peer was told last.
    fn its_reports_are_awaited(&self, id: PeerId, state: ConnectionState) -> bool {
        let has_edges = [
            ConnectionState::ConnectingToPeers,
            ConnectionState::ConnectingToPeersFailed,
        ];
        if !has_edges.contains(&state) {
            return true;
        }
        let told = self.told_last(id);
        let mut rounds = self
            .run_on
            .iter()
            .filter_map(|timer| round_of_wiring(*timer));
        told.is_none_or(|told| rounds.any(|round| round == told))
    }

    /// The round of the last order that a peer was sent. `None`: nobody can tell any more.
    fn told_last(&self, id: PeerId) -> Option<Round> {
        let now = self.out.iter().rev().find_map(|output| match output {
            MasterOutput::Send { peer, message } if *peer == id => ordered(message),
            _ => None,
        });
        let seat = self.run.state.seat_of(id);
        let seat = seat.and_then(|no| self.run.state.seat(no))?;
        if seat.link.down.end != End::Open {
            return None;
        }
        let order = || seat.plane.order.as_ref().map(|order| order.round);
        let under_way = || seat.link.down.queue.iter().rev().find_map(ordered);
        now.or_else(under_way).or_else(order)
    }

    /// No pause while an edge may still come up: who is to open its lanes has not said how that went.
    fn pauses_begin_when_all_is_known(&self) -> bool {
        self.run_on.iter().all(|timer| match timer {
            MasterTimer::RetryWiring(round) => {
                let seats = self.run.state.seats.iter();
                let known = |seat: &Seat| {
                    seat.id
                        .is_some_and(|id| self.after.view().peer(id).is_some())
                };
                let mut seats = seats.filter(|seat| known(seat));
                !seats.any(|seat| still_dials(seat, *round))
            }
            _ => true,
        })
    }

    /// While the solver works, and then only, a deadline runs for it.
    fn the_solver_is_watched(&self) -> bool {
        let is_in = |state| self.accepted().any(|(_, peer)| peer.state() == state);
        let measured = is_in(ConnectionState::VoteCompleteTopologyOptimization)
            && !is_in(ConnectionState::OptimizeTopology);
        let is_asked = |timer: MasterTimer| {
            let MasterTimer::Solver(solver) = timer else {
                return true;
            };
            !self.begins(timer)
                || self.out.iter().any(|output| match output {
                    MasterOutput::SolveTour { round, .. } => *round == solver,
                    _ => false,
                })
        };
        let solvers = self
            .run_on
            .iter()
            .filter(|timer| matches!(timer, MasterTimer::Solver(_)));
        solvers.count() == usize::from(measured) && self.run_on.iter().all(|timer| is_asked(*timer))
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
            | MasterTimer::HeartbeatDue => !self.begins(*timer),
            MasterTimer::Silence(_) => true,
        })
    }

    /// Whether a peer for which others went on waiting has gone on with its part, or is waited for in something
    /// else. Its own word gains it no time for a vote, unless that was answered.
    fn has_its_time_again(&self, peer: PeerId) -> bool {
        let debts = [self.before, self.after].map(|master| master.view().peer(peer).and_then(debt));
        let for_vote = debts.map(|debt| debt != Some(Debt::Part));
        let said = match self.heard {
            MasterInput::Message { peer: of, message } if *of == peer => Some(message),
            _ => None,
        };
        let something_else = debts[0] != debts[1] && (said.is_none() || for_vote != [true; 2]);
        something_else
            || self.has_another_ring(peer)
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
            ToMaster::Bandwidth { to, .. } => {
                known.state() == ConnectionState::OptimizeTopology && view.peer(*to).is_some()
            }
            ToMaster::Heartbeat { moved } => *moved && debt(known) == Some(Debt::Part),
            ToMaster::OptimizeTopology | ToMaster::SyncSharedState(_) => self.is_answered(peer),
            // See `has_another_ring`.
            ToMaster::UpdateTopology { .. } => false,
            ToMaster::Hello(_)
            | ToMaster::EdgeUp { .. }
            | ToMaster::EdgeFailed { .. }
            | ToMaster::ArePeersPending
            | ToMaster::ProbesDone { .. }
            | ToMaster::SharedStateDone { .. }
            | ToMaster::InitiateCollective { .. }
            | ToMaster::Withdraw { .. }
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

    // What is late.

    /// A timer that was stopped a moment ago, and an answer of the solver to a question that is over, change
    /// nothing when they arrive.
    fn what_is_late_means_nothing(&self) -> bool {
        if let MasterInput::TourSolved { round, .. } = self.heard
            && !self.ran.contains(&MasterTimer::Solver(*round))
            && !(self.out.is_empty() && self.before == self.after)
        {
            return false;
        }
        let mut stopped = self
            .ran
            .iter()
            .filter(|timer| !self.runs(**timer))
            .peekable();
        if stopped.peek().is_none() {
            return true;
        }
        let mut later = self.after.clone();
        let mut out = Vec::new();
        for timer in stopped {
            later.handle(MasterInput::TimerFired(*timer), &mut out);
        }
        out.is_empty() && later == *self.after
    }
}

/// What a peer may be waited for, as far as its state says.
fn debt(peer: PeerView<'_>) -> Option<Debt> {
    if peer.phase() != ConnectionPhase::Accepted {
        return None;
    }
    let is = |wanted: CollectiveCommunicationState| {
        move |(_, state): (Tag, CollectiveCommunicationState)| state == wanted
    };
    match peer.state() {
        ConnectionState::Idle => Some(Debt::Vote),
        ConnectionState::OptimizeTopology
        | ConnectionState::DistributeSharedState
        | ConnectionState::RequestSharedState => Some(Debt::Part),
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

/// The tags that a peer waits to start.
fn waits_to_start(peer: PeerView<'_>) -> impl Iterator<Item = Tag> {
    let waits = CollectiveCommunicationState::VoteInitiate;
    let tags = peer.tags().filter(move |(_, state)| *state == waits);
    tags.map(|(tag, _)| tag)
}

fn is_sign_of_life(output: &MasterOutput) -> bool {
    matches!(
        output,
        MasterOutput::Send {
            message: ToPeer::Heartbeat,
            ..
        }
    )
}

fn round_of_wiring(timer: MasterTimer) -> Option<Round> {
    match timer {
        MasterTimer::Wiring(round) | MasterTimer::RetryWiring(round) => Some(round),
        MasterTimer::HeartbeatDue
        | MasterTimer::Silence(_)
        | MasterTimer::Late(_)
        | MasterTimer::Solver(_) => None,
    }
}

fn is_wired(state: ConnectionState) -> bool {
    matches!(
        state,
        ConnectionState::ConnectingToPeers
            | ConnectionState::ConnectingToPeersFailed
            | ConnectionState::WaitingForOtherPeers
    )
}

fn ordered(message: &ToPeer) -> Option<Round> {
    match message {
        ToPeer::EstablishRing { round, .. } => Some(*round),
        _ => None,
    }
}

/// Is a seat about to open lanes that it was told to open in this round?
fn still_dials(seat: &Seat, round: Round) -> bool {
    let is_of_round = |order: &&Order| order.round == round;
    let order = seat.plane.order.as_ref().filter(is_of_round);
    order.is_some_and(Order::is_owed)
}
