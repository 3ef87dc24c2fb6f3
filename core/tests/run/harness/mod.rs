//! A whole run in one value: one master, its peers, the links between them, and a data plane.
//!
//! ```text
//!   user ── call ──▶ Peer ◀──── down ────┐
//!                     │  ▲               │
//!             outputs ▼  │ inbox      Master
//!                    Plane ── up ────────▲
//! ```
//!
//! Links keep their order; which of the things that can happen next happens first is for the seed to
//! say. Time does not pass: a test fires the timers that it means, only the pause before a repeated
//! attempt to connect a ring ends by itself, when nothing else can happen.

mod plane;
mod seat;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use pccl_core::id::{CallId, ConnId, GroupId, PeerId, Round, Tag};
use pccl_core::master::{Master, MasterConfig, MasterInput, MasterOutput, MasterTimer};
use pccl_core::messages::{ToMaster, ToPeer};
use pccl_core::peer::{Answer, Call, Peer, PeerInput, PeerOutput, PeerPhase};
use pccl_core::states::ConnectionPhase;
use pccl_core::tour::{self, TourProblem};

pub(crate) use seat::{Holds, Seat, SeatNo, reduce, ring_spec, shared};
use seat::{Open, config_of};

use crate::reference::Shadow;
use crate::watch::{Watch, accepted, check_votes};
use plane::Faults;

/// More steps than any story needs: who reaches it runs in circles.
const STEPS_MAX: usize = 100_000;

#[derive(Clone)]
pub(crate) struct Run {
    pub(crate) seats: Vec<Seat>,
    pub(crate) faults: Faults,
    pub(crate) watch: Watch,
    /// Follows the master at every input.
    pub(crate) shadow: Shadow,
    timers: BTreeSet<MasterTimer>,
    /// How often each timer was started.
    started: BTreeMap<MasterTimer, u32>,
    tours: VecDeque<(Round, GroupId, TourProblem)>,
    dice: u64,
}

impl Run {
    /// An empty run; the seed says which of several possible things happens first.
    pub(crate) fn new(seed: u64) -> Self {
        let config = MasterConfig {
            ahead_max: u64::MAX,
            ahead_within_machine: true,
            ..MasterConfig::rings_only()
        };
        Self::with_config(seed, config)
    }

    pub(crate) fn with_config(seed: u64, config: MasterConfig) -> Self {
        Self {
            shadow: Shadow::new(config.clone()),
            seats: Vec::new(),
            faults: Faults::default(),
            watch: Watch::new(config),
            timers: BTreeSet::new(),
            started: BTreeMap::new(),
            tours: VecDeque::new(),
            dice: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
        }
    }

    /// A run of one group whose peers 0 to n − 1 are accepted, have called nothing since, and are
    /// not fresh any more.
    pub(crate) fn with_accepted_peers(seed: u64, n: usize) -> Self {
        let mut run = Self::new(seed);
        run.join_many(n, GroupId(0));
        run
    }

    /// Adds accepted peers to a run in which all that are accepted are idle. Their numbers rise with
    /// their seats.
    pub(crate) fn join_many(&mut self, n: usize, group: GroupId) {
        let mut newcomers = Vec::new();
        for _ in 0..n {
            newcomers.push(self.join(group));
            self.settle();
        }
        self.update_all();
        for seat in newcomers {
            assert!(self.is_accepted(seat), "{:?}", self.seats[seat].answers);
            self.seats[seat].answers.clear();
        }
    }

    /// Everybody that is accepted and idle updates, until nobody waits and nobody is fresh.
    pub(crate) fn update_all(&mut self) {
        for _ in 0..6 {
            for seat in self.accepted() {
                if self.peer(seat).view().is_idle() {
                    self.call(seat, Call::UpdateTopology);
                }
            }
            self.settle();
            if self.is_level() {
                break;
            }
        }
        for seat in self.accepted() {
            self.seats[seat].answers.clear();
        }
    }

    /// Everybody who acts is accepted, idle, and has voted for something since.
    fn is_level(&self) -> bool {
        let mut acting = (0..self.seats.len()).filter(|no| self.is_in_the_run(*no));
        acting.all(|no| {
            let view = self.peer(no).view();
            view.topology().is_some() && view.is_idle() && !view.rests()
        })
    }

    /// A new process connects.
    pub(crate) fn join(&mut self, group: GroupId) -> SeatNo {
        let no = self.seats.len();
        self.watch.starts(config_of(no, group));
        self.seats.push(Seat::new(no, group));
        self.call(no, Call::Connect);
        no
    }

    /// The user of a seat calls something. Its own outputs are carried out at once.
    pub(crate) fn call(&mut self, no: SeatNo, call: Call) {
        let seat = &mut self.seats[no];
        let open = match &call {
            Call::Initiate { tag, .. } => Open::Collective(*tag),
            _ => Open::Other,
        };
        seat.calls += 1;
        let name = CallId(seat.calls);
        seat.open.insert(name, open);
        let what = call;
        self.give(no, PeerInput::Call { call: name, what });
    }

    /// The user of a seat leaves the run.
    pub(crate) fn leave(&mut self, no: SeatNo) {
        self.give(no, PeerInput::Leave);
    }

    /// The user of a seat gives up whatever it calls that is no collective. One that waits to be admitted
    /// would leave.
    pub(crate) fn give_up_major(&mut self, no: SeatNo) {
        if self.peer(no).view().phase() != PeerPhase::Accepted {
            return;
        }
        let mut open = self.seats[no].open.iter();
        let name =
            open.find_map(|(name, of)| (!matches!(of, Open::Collective(_))).then_some(*name));
        if let Some(call) = name {
            self.seats[no].open.remove(&call);
            self.give(no, PeerInput::GiveUp { call });
        }
    }

    /// The user of a seat gives the collective of this tag up, if it has called for it and was not answered.
    pub(crate) fn give_up(&mut self, no: SeatNo, tag: Tag) {
        let mut open = self.seats[no].open.iter();
        let name = open.find_map(|(name, of)| (*of == Open::Collective(tag)).then_some(*name));
        if let Some(call) = name {
            self.seats[no].open.remove(&call);
            self.give(no, PeerInput::GiveUp { call });
            self.seats[no].user_takes_buffer(tag);
        }
    }

    /// The same call on many seats.
    pub(crate) fn call_all(&mut self, seats: &[SeatNo], call: &Call) {
        for no in seats {
            self.call(*no, call.clone());
        }
    }

    /// A process dies: what it had sent arrives, nothing else.
    pub(crate) fn lose(&mut self, no: SeatNo) {
        let seat = &mut self.seats[no];
        seat.alive = false;
        seat.connection.up.close();
        seat.connection.down.finish();
        seat.inbox.clear();
        self.watch.falls_silent(no);
        self.drop_plane(no);
    }

    /// A process dies, and only the first `kept` of the messages on their way to the master arrive.
    pub(crate) fn lose_with_prefix(&mut self, no: SeatNo, kept: usize) {
        self.seats[no].connection.up.queue.truncate(kept);
        self.lose(no);
    }

    /// A process stops, and nobody is told: neither its connections nor its memory go away.
    pub(crate) fn freeze(&mut self, no: SeatNo) {
        self.seats[no].frozen = true;
        self.watch.falls_silent(no);
    }

    /// Fires a timer of the master, which must be running.
    pub(crate) fn fire(&mut self, timer: MasterTimer) {
        assert!(
            self.timers.remove(&timer),
            "{timer:?} does not run: {:?}",
            self.timers
        );
        self.tell_master(MasterInput::TimerFired(timer));
    }

    /// How often the master has started this timer.
    pub(crate) fn restarts(&self, timer: MasterTimer) -> u32 {
        self.started.get(&timer).copied().unwrap_or_default()
    }

    /// A process goes on, but it hears nothing any more of its data plane.
    pub(crate) fn hold_back(&mut self, no: SeatNo) {
        self.seats[no].hears_no_plane = true;
    }

    pub(crate) fn timers(&self) -> &BTreeSet<MasterTimer> {
        &self.timers
    }

    /// Delivers everything that is on its way, and everything that this leads to.
    pub(crate) fn settle(&mut self) {
        for _ in 0..STEPS_MAX {
            if !self.step() && !self.end_pause() {
                return;
            }
        }
        panic!("the run does not come to rest");
    }

    /// One thing happens. False: nothing can.
    pub(crate) fn step(&mut self) -> bool {
        let kinds = self.seats.len() * 4 + 1;
        let first = self.roll(kinds);
        (0..kinds).any(|offset| self.attempt((first + offset) % kinds))
    }

    /// At most `steps` things happen.
    pub(crate) fn steps(&mut self, steps: usize) {
        for _ in 0..steps {
            self.step();
        }
    }

    /// A number below `below`.
    pub(crate) fn roll(&mut self, below: usize) -> usize {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        usize::try_from(self.dice >> 33).unwrap() % below.max(1)
    }

    fn end_pause(&mut self) -> bool {
        let pause = self.timers.iter().find_map(|timer| match timer {
            MasterTimer::RetryWiring(_) => Some(*timer),
            _ => None,
        });
        if let Some(timer) = pause {
            self.fire(timer);
        }
        pause.is_some()
    }

    fn attempt(&mut self, choice: usize) -> bool {
        let no = choice / 4;
        if no >= self.seats.len() {
            return self.solve_tour();
        }
        match choice % 4 {
            0 => self.deliver_up(no),
            1 => self.deliver_down(no),
            2 => self.deliver_inbox(no),
            _ => self.seats[no].acts() && self.work(no),
        }
    }

    fn deliver_up(&mut self, no: SeatNo) -> bool {
        let (peer, up) = (self.seats[no].id, &mut self.seats[no].connection.up);
        let message = up.queue.pop_front();
        if message.is_none() && !up.may_end() {
            return false;
        }
        match (message, peer) {
            (Some(ToMaster::Hello(hello)), _) => {
                let conn = ConnId(no as u64);
                let from = self.seats[no].ip();
                self.tell_master(MasterInput::Connected {
                    conn,
                    hello,
                    from,
                    identity: None,
                });
            }
            (Some(message), Some(peer)) => {
                self.tell_master(MasterInput::Message { peer, message });
            }
            (None, Some(peer)) => {
                up.finish();
                self.tell_master(MasterInput::Disconnected { peer });
            }
            // The driver ends a connection that was refused.
            (Some(_), None) => {}
            (None, None) => up.finish(),
        }
        true
    }

    fn deliver_down(&mut self, no: SeatNo) -> bool {
        if !self.seats[no].acts() {
            return false;
        }
        let down = &mut self.seats[no].connection.down;
        let input = match down.queue.pop_front() {
            Some(message) => PeerInput::Message(message),
            None if down.may_end() => {
                down.finish();
                PeerInput::MasterDisconnected
            }
            None => return false,
        };
        self.give(no, input);
        true
    }

    fn deliver_inbox(&mut self, no: SeatNo) -> bool {
        if !self.seats[no].acts() || self.seats[no].hears_no_plane {
            return false;
        }
        let Some(input) = self.seats[no].inbox.pop_front() else {
            return false;
        };
        self.give(no, input);
        true
    }

    fn solve_tour(&mut self) -> bool {
        let Some((round, group, problem)) = self.tours.pop_front() else {
            return false;
        };
        let found = tour::solve(&problem);
        self.tell_master(MasterInput::TourSolved {
            round,
            group,
            found,
        });
        true
    }

    fn tell_master(&mut self, input: MasterInput) {
        let accepted_before = accepted(self.master());
        let out = self.watch.master_is_given(input.clone());
        self.shadow.follow(&input, self.watch.master(), &out);
        check_votes(self, &accepted_before, &out);
        for output in out {
            self.carry_out(output);
        }
    }

    fn carry_out(&mut self, output: MasterOutput) {
        match output {
            MasterOutput::Register { conn, peer } => self.seat_of_conn(conn).id = Some(peer),
            MasterOutput::Refuse { conn, reason } => {
                let down = &mut self.seat_of_conn(conn).connection.down;
                down.send(ToPeer::Refused(reason));
                down.close();
            }
            MasterOutput::Send { peer, message } => {
                if let Some(no) = self.seat_with(peer) {
                    self.seats[no].connection.down.send(message);
                }
            }
            MasterOutput::Close { peer } => {
                if let Some(no) = self.seat_with(peer) {
                    self.seats[no].connection.down.close();
                }
            }
            MasterOutput::StartTimer { timer, .. } => {
                *self.started.entry(timer).or_default() += 1;
                self.timers.insert(timer);
            }
            MasterOutput::StopTimer(timer) => {
                self.timers.remove(&timer);
            }
            MasterOutput::SolveTour {
                round,
                group,
                problem,
            } => {
                self.tours.push_back((round, group, problem));
            }
            MasterOutput::Moved { .. }
            | MasterOutput::Lost { .. }
            | MasterOutput::SearchTour { .. }
            | MasterOutput::EndSearch { .. }
            | MasterOutput::Inconsistent { .. }
            | MasterOutput::Stopped => {}
        }
    }

    /// An input of a peer, and all that its driver does about it.
    pub(crate) fn give(&mut self, no: SeatNo, input: PeerInput) {
        for output in self.watch.peer_is_given(no, input) {
            self.drive(no, output);
        }
    }

    fn drive(&mut self, no: SeatNo, output: PeerOutput) {
        match output {
            PeerOutput::Send(message) => self.seats[no].connection.up.send(message),
            PeerOutput::Answer { call, answer } => {
                assert!(self.seats[no].open.remove(&call).is_some(), "{answer:?}");
                self.seats[no].settle_buffer(&answer);
                self.watch.answered(no, &self.seats[no], &answer);
                self.seats[no].answers.push(answer);
            }
            PeerOutput::Close => {
                self.seats[no].connection.up.close();
                self.drop_plane(no);
            }
            PeerOutput::Confirm { .. }
            | PeerOutput::StartTimer { .. }
            | PeerOutput::StopTimer(_)
            | PeerOutput::Awaited(_) => {}
            PeerOutput::Establish { .. }
            | PeerOutput::AdoptRing { .. }
            | PeerOutput::RunPlan { .. }
            | PeerOutput::StopPlan { .. }
            | PeerOutput::MoveState { .. }
            | PeerOutput::CommitState { .. }
            | PeerOutput::DropState { .. }
            | PeerOutput::Probe { .. }
            | PeerOutput::StopProbes { .. } => self.order_plane(no, output),
        }
    }

    // What a test looks at.

    pub(crate) fn master(&self) -> &Master {
        self.watch.master()
    }

    pub(crate) fn peer(&self, no: SeatNo) -> &Peer {
        self.watch.peer(no)
    }

    /// Acts, and has not left or been turned away.
    pub(crate) fn is_in_the_run(&self, no: SeatNo) -> bool {
        self.seats[no].acts() && self.peer(no).view().ended().is_none()
    }

    pub(crate) fn seat_with(&self, peer: PeerId) -> Option<SeatNo> {
        self.seats.iter().position(|seat| seat.id == Some(peer))
    }

    fn seat_of_conn(&mut self, conn: ConnId) -> &mut Seat {
        &mut self.seats[usize::try_from(conn.0).unwrap()]
    }

    pub(crate) fn id(&self, no: SeatNo) -> PeerId {
        self.seats[no].id.expect("it is registered")
    }

    pub(crate) fn is_accepted(&self, no: SeatNo) -> bool {
        self.peer(no).view().topology().is_some()
    }

    /// It is set aside: it does not know it, and waits in its call.
    pub(crate) fn is_aside(&self, no: SeatNo) -> bool {
        let peer = self.master().view().peer(self.id(no));
        let phase = peer.map(|peer| peer.phase());
        self.is_accepted(no) && phase == Some(ConnectionPhase::Registered)
    }

    /// Living processes that are part of the run.
    pub(crate) fn accepted(&self) -> Vec<SeatNo> {
        (0..self.seats.len())
            .filter(|no| self.seats[*no].acts() && self.is_accepted(*no))
            .collect()
    }

    /// What was answered since this was asked last.
    pub(crate) fn answers(&mut self, no: SeatNo) -> Vec<Answer> {
        std::mem::take(&mut self.seats[no].answers)
    }

    /// The one answer since this was asked last.
    pub(crate) fn outcome(&mut self, no: SeatNo) -> Answer {
        let mut answers = self.answers(no);
        assert_eq!(answers.len(), 1, "seat {no}: {answers:?}");
        answers.remove(0)
    }
}

fn ip_of(no: SeatNo) -> IpAddr {
    IpAddr::from([192, 0, 2, u8::try_from(no % 250).unwrap() + 1])
}
