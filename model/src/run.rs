//! Carrying one step out: what reaches a machine, what the machine wants done, and doing it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pccl_core::id::{ConnId, PeerId, Round, Tag};
use pccl_core::master::{MasterInput, MasterOutput, MasterTimer};
use pccl_core::messages::{CollectiveRefusal, ToMaster, ToPeer};
use pccl_core::peer::{Answer, Call, CallError, PeerInput, PeerOutput, PeerPhase, PeerTimer};

use crate::calls::{input_of, name_of, name_of_tag, tag_of};
use crate::claim::Claim;
use crate::connection::End;
use crate::coverage::{Coverage, ReceiverIn, SenderIn};
use crate::fabric::Fabric;
use crate::memo;
use crate::milestone::Milestone;
use crate::scenario::{Scenario, SeatPlan};
use crate::script::Program;
use crate::state::{Life, RunState, Seat, Tour, address_of};
use crate::step::{Deadline, SeatNo, Step};
use crate::watch;

/// A step that is being carried out.
pub(crate) struct Run<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) coverage: &'a Coverage,
    pub(crate) state: RunState,
    /// The synchronization whose end a peer is being told.
    pub(crate) concluding: Option<Round>,
    /// Whether the step is the last one of the journal.
    pub(crate) is_recorded: bool,
}

impl<'a> Run<'a> {
    /// Ready to carry something out in a state.
    pub(crate) fn new(scenario: &'a Scenario, coverage: &'a Coverage, state: RunState) -> Self {
        Self {
            scenario,
            coverage,
            state,
            concluding: None,
            is_recorded: false,
        }
    }

    /// The state after a step.
    pub(crate) fn step(
        scenario: &'a Scenario,
        coverage: &'a Coverage,
        before: &RunState,
        step: Step,
    ) -> RunState {
        let mut state = before.clone();
        state.reached = 0;
        let mut run = Self::new(scenario, coverage, state);
        run.carry_out(step);
        run.forget_what_is_over();
        run.state.seal();
        run.close_record(before);
        run.state
    }

    fn carry_out(&mut self, step: Step) {
        if step.is_fault() {
            self.state.faults = self.state.faults.saturating_sub(1);
            // Nobody who goes on learns that the master is another one.
            if !matches!(step, Step::RestartMaster(_)) {
                self.shock();
            }
        }
        match step {
            Step::Call(no) => self.user_calls(no),
            Step::Up(no) => self.deliver_up(no),
            Step::Down(no) => self.deliver_down(no),
            Step::UpEnds(no) => self.end_up(no),
            Step::DownEnds(no) => self.end_down(no),
            Step::Silence(no) => self.silence(no),
            Step::MasterSilence(no) => self.fire_at(no, PeerTimer::MasterSilence),
            Step::PauseEnds => {
                self.fire_first(|timer| matches!(timer, MasterTimer::RetryWiring(_)))
            }
            Step::Dial(no, link) => self.dial(no, link),
            Step::Opens(no, link) => self.comes_up(no, link),
            Step::DialFails(no, link) | Step::RefuseDial(no, link) => self.dial_fails(no, link),
            Step::Frame(no, tag) => self.takes_frame(no, tag),
            Step::Notice(no, link) => self.notices(no, link),
            Step::Measure(no) => self.measure(no, true),
            Step::RefuseMeasure(no) => self.measure(no, false),
            Step::Solve => self.solve(),
            Step::Improve => self.improve(),
            Step::Fetch(no) => self.fetches(no),
            Step::Served(no) => self.end_move(no, true, None),
            Step::FetchFails(no) | Step::BreakFetch(no) | Step::BreakServe(no) => {
                self.transfer_fails(no);
            }
            Step::Thaw(no) => self.edit(no).life = Life::Running,
            Step::Crash(no) => self.crash(no),
            Step::Freeze(no) => self.edit(no).life = Life::Frozen,
            Step::Cut(no) => {
                let link = &mut self.edit(no).connection;
                link.up.cut();
                link.down.cut();
            }
            Step::HalfOpen(no) => {
                let link = &mut self.edit(no).connection;
                link.up.fall_silent();
                link.down.fall_silent();
            }
            Step::BreakLink(no, link) => self.break_link(no, link),
            Step::BlackHole(no) => self.dig_black_hole(no),
            Step::ClosePort(no) => self.edit(no).is_closed = true,
            Step::Mute(no) => self.edit(no).is_mute = true,
            Step::Overdue(no) => self.overdue(no),
            Step::LinkOverdue(no) => self.link_overdue(no),
            Step::Late(deadline, number) => {
                self.fire_nth(usize::from(number), |timer| is_of(timer, deadline));
            }
            Step::CrashMaster => self.crash_master(),
            Step::StopMaster => self.tell_master(MasterInput::Stop),
            Step::RestartMaster(loss) => self.restart_master(loss),
            Step::Beat(no) => self.beat(no),
            Step::MasterBeats => self.fire_first(|timer| *timer == MasterTimer::HeartbeatDue),
        }
    }

    /// What the step has changed of what is remembered belongs to its record.
    fn close_record(&mut self, before: &RunState) {
        if let (true, Some(journal)) = (self.is_recorded, &mut self.state.journal) {
            journal.edit().remember(&before.ghost, &self.state.ghost);
            journal.seal();
        }
    }

    // Access.

    pub(crate) fn seat(&self, no: SeatNo) -> &Seat {
        &self.state.seats[no.index()]
    }

    pub(crate) fn edit(&mut self, no: SeatNo) -> &mut Seat {
        self.state.seats[no.index()].edit()
    }

    pub(crate) fn plan(&self, no: SeatNo) -> &'a SeatPlan {
        &self.scenario.seats[usize::from(self.seat(no).plan)]
    }

    fn program(&self, no: SeatNo) -> &'static Program {
        self.plan(no).program
    }

    /// Something happened that may explain that calls are made again.
    pub(crate) fn shock(&mut self) {
        for no in self.state.seat_numbers() {
            if !self.seat(no).user.is_over() {
                self.edit(no).user.is_shocked();
            }
        }
    }

    // The user.

    fn user_calls(&mut self, no: SeatNo) {
        let Some(wish) = self.seat(no).user.wish(self.program(no)) else {
            return;
        };
        let spec = self.scenario.spec;
        let input = input_of(self.seat(no), self.plan(no), spec, wish);
        let program = self.program(no);
        let seat = self.edit(no);
        seat.user.calls(wish, program);
        match &input {
            PeerInput::Call {
                what: Call::SyncSharedState(vote),
                ..
            } => seat.strategy = Some(vote.strategy),
            PeerInput::Call {
                what: Call::Initiate { tag, .. },
                call,
            } if *call == name_of_tag(*tag) => seat.called.push(small(*tag)),
            PeerInput::Call { .. } => {}
            PeerInput::Withdraw { .. } => self.shock(),
            PeerInput::GiveUp { call } => {
                seat.called.retain(|tag| name_of_tag(tag_of(*tag)) != *call);
                seat.plane
                    .whole
                    .retain(|run| name_of_tag(tag_of(run.tag)) != *call);
                // Others have to begin again.
                self.shock();
            }
            _ => self.state.reach(Milestone::LeftAtTheEnd),
        }
        let goes_on = self.seat(no).peer.view().open_calls().major;
        let moves = self.seat(no).plane.moving.is_some();
        self.give(no, input.clone());
        watch::retries(self, no);
        watch::waits(self, no, goes_on, &input);
        if moves && matches!(input, PeerInput::GiveUp { .. }) {
            self.state.reach(Milestone::GivenUpInTransfer);
        }
    }

    /// A user calls.
    pub(crate) fn calls(&mut self, no: SeatNo, what: Call) {
        let call = name_of(what.kind());
        self.give(no, PeerInput::Call { call, what });
    }

    // Messages.

    fn deliver_up(&mut self, no: SeatNo) {
        let peer = self.seat(no).id;
        let Some(message) = self.edit(no).connection.up.queue.pop_front() else {
            return;
        };
        let sender = peer.and_then(|peer| {
            let view = self.state.master.as_ref()?.view().peer(peer)?;
            Some((view.phase(), view.state()))
        });
        self.coverage.went_up(&message, SenderIn::of(sender));
        match (message, peer) {
            (ToMaster::Hello(hello), None) => {
                let conn = ConnId(u64::from(no.0));
                let Some(master) = &self.state.master else {
                    return;
                };
                let number = master.view().next_peer();
                self.tell_master(MasterInput::Connected {
                    conn,
                    hello,
                    from: address_of(self.scenario, number),
                    identity: Some(watch::identity_of(number)),
                });
            }
            (message, Some(peer)) => {
                watch::master_hears(self, peer, &message);
                self.tell_master(MasterInput::Message { peer, message });
            }
            (_, None) => {}
        }
    }

    fn end_up(&mut self, no: SeatNo) {
        let peer = self.seat(no).id;
        self.edit(no).connection.up.finish();
        if let Some(peer) = peer {
            self.tell_master(MasterInput::Disconnected { peer });
        }
    }

    fn deliver_down(&mut self, no: SeatNo) {
        let Some(message) = self.edit(no).connection.down.queue.pop_front() else {
            return;
        };
        let receiver = ReceiverIn::of(&self.seat(no).peer.view());
        self.coverage.went_down(&message, receiver);
        watch::before_message(self, no, &message);
        if let (Some(peer), Some(journal)) = (self.seat(no).id, &mut self.state.journal) {
            journal.edit().arrived(peer);
        }
        self.give(no, PeerInput::Message(message.clone()));
        let took_back = CollectiveRefusal::Withdrawn;
        if matches!(&message, ToPeer::CollectiveRefused { reason, .. } if *reason == took_back) {
            self.edit(no).took_back = true;
        }
        watch::after_message(self, no, &message);
    }

    fn end_down(&mut self, no: SeatNo) {
        let receiver = ReceiverIn::of(&self.seat(no).peer.view());
        self.coverage.ended_down(receiver);
        self.edit(no).connection.down.finish();
        self.give(no, PeerInput::MasterDisconnected);
    }

    fn silence(&mut self, no: SeatNo) {
        if let Some(peer) = self.seat(no).id {
            self.state.reach(Milestone::NoticedBySilence);
            self.tell_master(MasterInput::TimerFired(MasterTimer::Silence(peer)));
        }
    }

    /// The master has waited for a peer for too long.
    fn overdue(&mut self, no: SeatNo) {
        if let Some(peer) = self.seat(no).id {
            self.tell_master(MasterInput::TimerFired(MasterTimer::Late(peer)));
        }
    }

    /// The master has waited for the report about a link for too long.
    fn link_overdue(&mut self, no: SeatNo) {
        let order = self.seat(no).plane.order.as_ref();
        if let Some(round) = order.map(|order| order.round) {
            self.fire_first(|timer| *timer == MasterTimer::Wiring(round));
        }
    }

    fn fire_first(&mut self, is_meant: impl Fn(&MasterTimer) -> bool) {
        self.fire_nth(0, is_meant);
    }

    fn fire_nth(&mut self, number: usize, is_meant: impl Fn(&MasterTimer) -> bool) {
        let master = self.state.master.as_ref();
        let timer = master.and_then(|master| {
            let mut meant = master.view().timers().filter(|timer| is_meant(timer));
            meant.nth(number)
        });
        if let Some(timer) = timer {
            self.tell_master(MasterInput::TimerFired(timer));
        }
    }

    /// A peer shows that it lives. Bytes have moved where it is at work.
    fn beat(&mut self, no: SeatNo) {
        if self.seat(no).plane.is_at_work() {
            self.give(no, PeerInput::Moved);
        }
        self.fire_at(no, PeerTimer::HeartbeatDue);
    }

    fn fire_at(&mut self, no: SeatNo, timer: PeerTimer) {
        self.edit(no).timers.remove(&timer);
        self.give(no, PeerInput::TimerFired(timer));
    }

    // The master.

    pub(crate) fn tell_master(&mut self, heard: MasterInput) {
        let Some(before) = self.state.master.clone() else {
            return;
        };
        let Some(step) = memo::step(&before, &heard) else {
            self.state.breaks(Claim::NoPanic);
            return;
        };
        self.state.master = Some(step.after.clone());
        watch::master_moved(self, &step);
        if let Some(journal) = &mut self.state.journal {
            journal.edit().append(heard, &step.out);
            self.is_recorded = true;
        }
        for output in &step.out {
            self.do_for_master(output.clone());
        }
    }

    fn do_for_master(&mut self, output: MasterOutput) {
        match output {
            MasterOutput::Register { conn, peer } => {
                let no = SeatNo(u8::try_from(conn.0).unwrap_or(u8::MAX));
                self.edit(no).id = Some(peer);
            }
            MasterOutput::Refuse { conn, reason } => {
                let no = SeatNo(u8::try_from(conn.0).unwrap_or(u8::MAX));
                let down = &mut self.edit(no).connection.down;
                down.send(ToPeer::Refused(reason));
                down.close();
            }
            MasterOutput::Send { peer, message } => {
                if let Some(no) = self.state.seat_of(peer) {
                    self.edit(no).connection.down.send(message);
                    watch::bounded(self, no);
                }
            }
            MasterOutput::Close { peer } => {
                if let Some(no) = self.state.seat_of(peer) {
                    self.edit(no).connection.down.close();
                }
            }
            MasterOutput::SolveTour {
                round,
                group,
                problem,
            } => {
                let tour = Tour {
                    round,
                    group,
                    problem,
                };
                if self.scenario.searches {
                    self.state.asked.retain(|old| old.group != group);
                    self.state.asked.push(tour.clone());
                }
                self.state.tours.push(tour);
            }
            MasterOutput::SearchTour { round, group, .. } => {
                let is_it = |tour: &mut Tour| (tour.round, tour.group) == (round, group);
                let asked = self.state.asked.extract_if(.., is_it);
                self.state.searches.extend(asked);
            }
            // An answer may be on its way.
            MasterOutput::EndSearch { .. } => {}
            MasterOutput::Lost { .. } => self.shock(),
            MasterOutput::StartTimer { .. }
            | MasterOutput::StopTimer(_)
            | MasterOutput::Moved { .. }
            | MasterOutput::Inconsistent { .. }
            | MasterOutput::Stopped => {}
        }
    }

    fn crash_master(&mut self) {
        self.state.master = None;
        self.state.journal = None;
        self.state.tours.clear();
        self.state.asked.clear();
        self.state.searches.clear();
        for no in self.state.seat_numbers() {
            let link = &mut self.edit(no).connection;
            link.up.finish();
            link.down.cut();
        }
    }

    // The peer.

    /// An input of a peer, and all that its driver does about it.
    pub(crate) fn give(&mut self, no: SeatNo, input: PeerInput) {
        let mut out = Vec::new();
        let heard = input.clone();
        let peer = &mut self.edit(no).peer;
        let was_connected = !matches!(
            peer.view().phase(),
            PeerPhase::Unconnected | PeerPhase::Gone
        );
        let handled = catch_unwind(AssertUnwindSafe(|| peer.handle(input, &mut out)));
        if handled.is_err() {
            self.state.breaks(Claim::NoPanic);
            return;
        }
        watch::peer_moved(self, no, was_connected, &heard, &out);
        watch::ahead(self, no, &heard, &out);
        for output in out {
            self.do_for_peer(no, output);
        }
    }

    fn do_for_peer(&mut self, no: SeatNo, output: PeerOutput) {
        match output {
            PeerOutput::Send(message) => {
                let seat = self.edit(no);
                if is_vote(&message) {
                    seat.has_voted = true;
                    seat.took_back = false;
                }
                seat.connection.up.send(message);
                watch::bounded(self, no);
            }
            PeerOutput::Answer { answer, .. } => self.answer(no, &answer),
            PeerOutput::Close => self.close(no),
            PeerOutput::Establish { round, links } => {
                watch::ordered(self, links.iter().map(|order| order.lanes));
                let unused = self.edit(no).plane.take_order(round, &links);
                self.drop_lanes(no, &unused);
            }
            PeerOutput::AdoptRing { topology, links } => self.adopt_ring(no, topology, &links),
            PeerOutput::RunPlan {
                tag,
                seq,
                spec,
                lengths,
                algorithm,
                ahead,
                ..
            } => {
                ahead.then(|| self.state.reach(Milestone::BegunAhead));
                self.run_plan(no, (tag, seq), (spec.kind, &lengths, algorithm));
            }
            PeerOutput::Confirm { .. } => self.state.reach(Milestone::AheadConfirmed),
            PeerOutput::StopPlan { seq } => self.edit(no).plane.stop(seq),
            PeerOutput::MoveState { plan, .. } => {
                watch::planned(self, &plan);
                self.move_state(no, plan);
            }
            // Only a running plan is committed or dropped.
            PeerOutput::CommitState { round } => {
                if self.commit_state(no, round).is_none() {
                    self.state.breaks(Claim::SharedState);
                }
            }
            PeerOutput::DropState { round } => {
                if !self.drop_state(no, round) {
                    self.state.breaks(Claim::SharedState);
                }
            }
            PeerOutput::Probe { round, probes } => {
                watch::ordered(self, probes.iter().map(|order| order.lanes));
                self.edit(no).plane.probing = Some((round, probes));
            }
            PeerOutput::StopProbes { .. } => self.edit(no).plane.probing = None,
            PeerOutput::Awaited(_) => {}
            PeerOutput::StartTimer { timer, .. } => {
                self.edit(no).timers.insert(timer);
            }
            PeerOutput::StopTimer(timer) => {
                self.edit(no).timers.remove(&timer);
            }
        }
    }

    fn answer(&mut self, no: SeatNo, answer: &Answer) {
        watch::answered(self, no, answer);
        let program = self.program(no);
        let seat = self.edit(no);
        if let Answer::CollectiveEnded {
            result: Err(CallError::Usage(_)),
            ..
        } = answer
        {
            return;
        }
        if let Answer::CollectiveEnded { tag, .. } = answer {
            let tag = small(*tag);
            seat.plane.whole.retain(|run| run.tag != tag);
        }
        if let Answer::Synchronized(Ok(synchronized)) = answer {
            seat.user.revision = synchronized.revision;
        }
        if let Answer::Connected(Ok(joined)) = answer {
            seat.id = Some(joined.peer);
        }
        seat.user.hears(answer, program);
    }

    /// The peer is out of the run: what it had sent goes out, and its lanes end.
    fn close(&mut self, no: SeatNo) {
        let lanes = self.edit(no).plane.drop_all();
        self.drop_lanes(no, &lanes);
        self.edit(no).connection.up.close();
    }

    fn crash(&mut self, no: SeatNo) {
        let lanes = self.edit(no).plane.drop_all();
        self.drop_lanes(no, &lanes);
        let plan = self.plan(no);
        let seat = self.edit(no);
        seat.connection.up.cut();
        seat.depart(plan);
    }

    /// Who is out of the run keeps nothing but what is on its way; who is forgotten keeps nothing.
    fn forget_what_is_over(&mut self) {
        for no in self.state.seat_numbers() {
            if self.seat(no).runs() && self.seat(no).peer.view().ended().is_some() {
                let plan = self.plan(no);
                self.edit(no).depart(plan);
            }
            let seat = self.seat(no);
            if seat.life != Life::Departed
                || (seat.id.is_none() && seat.connection.up.end == End::Over)
            {
                continue;
            }
            let awaited = match seat.id {
                Some(id) => self.master_knows(id),
                None => seat.connection.up.has_message() && self.state.master.is_some(),
            };
            if !awaited {
                let seat = self.edit(no);
                seat.id = None;
                seat.connection.up.finish();
            }
        }
    }

    pub(crate) fn master_knows(&self, peer: PeerId) -> bool {
        let master = self.state.master.as_ref();
        master.is_some_and(|master| master.view().peer(peer).is_some())
    }
}

/// The tags of programs are small.
pub(crate) fn small(tag: Tag) -> u8 {
    u8::try_from(tag.0).unwrap_or(u8::MAX)
}

pub(crate) fn is_of(timer: &MasterTimer, deadline: Deadline) -> bool {
    match timer {
        MasterTimer::Late(_) => deadline == Deadline::Peer,
        MasterTimer::Wiring(_) => deadline == Deadline::Wiring,
        MasterTimer::Solver(_) => deadline == Deadline::Solver,
        MasterTimer::MeasurementsAge => deadline == Deadline::Measurements,
        MasterTimer::HeartbeatDue | MasterTimer::Silence(_) | MasterTimer::RetryWiring(_) => false,
    }
}

/// Does a peer that says this vote for something?
pub(crate) fn is_vote(message: &ToMaster) -> bool {
    matches!(
        message,
        ToMaster::UpdateTopology { .. }
            | ToMaster::OptimizeTopology
            | ToMaster::SyncSharedState(_)
            | ToMaster::InitiateCollective { .. }
    )
}
