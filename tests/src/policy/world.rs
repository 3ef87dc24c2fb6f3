//! The simulation itself: one master, any number of processes, and what is on its way between them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use pccl_core::id::{GroupId, PeerId, Round, Seq, Ticket};
use pccl_core::topology::{LaneFailure, LinkId};
use pccl_core::tour::Solved;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::agenda::Agenda;
use super::faults::Fault;
use super::log::Log;
use super::machines::{Down, Fact, MasterDesk, Order, PeerDesk, Up, is_beat_down};
use super::network::{Network, Pace, SeatNo};
use super::plane::LaneKey;
use super::reduces::Reduce;
use super::seat::{Seat, SeatPlan};
use super::time::{Micros, show};

/// One process of a seat: a seat whose peer connects again is another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) seat: SeatNo,
    pub(super) life: u32,
}

/// Everything that can come.
#[derive(Debug)]
pub(super) enum Happening {
    ArrivesUp(Process, Up),
    UpEnds(Process),
    ArrivesDown(Process, Down),
    DownEnds(Process),
    MasterWakes,
    PeerWakes(Process),
    UserGoesOn(Process),
    Starts(SeatNo),
    Strikes(Fault),
    Solved(Round, GroupId, Option<Solved>),
    DialAnswered(Process, Round, LinkId, Result<(), LaneFailure>),
    HoldEnds(Process, Ticket),
    Notices(Process, LaneKey),
    ReduceEnds(Seq, u32),
    ReduceLate(Seq),
    Stalls(Process, Seq),
    Lies(Process, Seq, bool),
    Learns(Process, Fact),
    TransferAnswered(Process, Round, SeatNo, bool),
    TransferLate(Process, Round, SeatNo),
    TransferEnds(Round, SeatNo, SeatNo, bool),
}

/// A run under virtual time.
#[derive(Debug)]
pub struct World {
    pub(super) agenda: Agenda<Happening>,
    pub(super) master: MasterDesk,
    master_wakes: Micros,
    pub(super) seats: Vec<Seat>,
    /// Which connections work.
    pub network: Network,
    /// How long things take.
    pub pace: Pace,
    /// Lanes that are up at both ends, and which end opened them.
    pub(super) lanes: BTreeMap<LaneKey, SeatNo>,
    pub(super) reduces: BTreeMap<Seq, Reduce>,
    pub(super) processes: BTreeMap<PeerId, Process>,
    /// What was seen.
    pub log: Log,
    /// Every message is printed as it arrives, heartbeats apart.
    pub tells: bool,
    random: StdRng,
}

impl World {
    /// Nobody is there yet.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            agenda: Agenda::default(),
            master: MasterDesk::default(),
            master_wakes: Micros::MAX,
            seats: Vec::new(),
            network: Network::default(),
            pace: Pace::default(),
            lanes: BTreeMap::new(),
            reduces: BTreeMap::new(),
            processes: BTreeMap::new(),
            log: Log::default(),
            tells: false,
            random: StdRng::seed_from_u64(seed),
        }
    }

    /// Adds a process, which starts at its time.
    pub fn seat(&mut self, plan: SeatPlan) -> SeatNo {
        let no = SeatNo(self.seats.len());
        self.agenda.at(plan.starts, Happening::Starts(no));
        self.seats.push(Seat::new(no, plan));
        no
    }

    /// Something breaks, or changes, at this instant.
    pub fn strike(&mut self, at: Micros, fault: Fault) {
        self.agenda.at(at, Happening::Strikes(fault));
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Micros {
        self.agenda.now()
    }

    /// How much was to be simulated so far.
    #[must_use]
    pub fn work(&self) -> u64 {
        self.agenda.planned()
    }

    /// A look at a process.
    #[must_use]
    pub fn look(&self, seat: SeatNo) -> &Seat {
        &self.seats[seat.0]
    }

    /// Every process.
    pub fn everybody(&self) -> impl Iterator<Item = &Seat> {
        self.seats.iter()
    }

    /// A random number, for situations that are drawn.
    pub fn draw(&mut self, below: u64) -> u64 {
        self.random.random_range(0..below.max(1))
    }

    /// Lets one thing happen. False: nothing happens by that time.
    pub fn step(&mut self, until: Micros) -> bool {
        let Some(happening) = self.agenda.next(until) else {
            return false;
        };
        match happening {
            Happening::ArrivesUp(from, message) => self.arrives_up(from, message),
            Happening::UpEnds(from) => self.up_ends(from),
            Happening::ArrivesDown(to, message) => {
                if self.tells && !is_beat_down(&message) {
                    println!("{:>12} {:>4} <- {message:?}", show(self.now()), to.seat.0);
                }
                self.with_desk(to, |desk, now| desk.heard(now, message));
            }
            Happening::DownEnds(to) => self.with_desk(to, PeerDesk::lost_master),
            Happening::MasterWakes => self.fire_master(),
            Happening::PeerWakes(process) => self.fire_peer(process),
            Happening::UserGoesOn(process) => self.user_goes_on(process),
            Happening::Starts(seat) => self.start(seat),
            Happening::Strikes(fault) => self.struck(fault),
            Happening::Solved(round, group, ring) => {
                let decrees = self.master.solved(self.agenda.now(), round, group, ring);
                self.obey_master(decrees);
            }
            Happening::DialAnswered(process, round, link, answer) => {
                self.dial_answered(process, round, link, answer);
            }
            Happening::HoldEnds(process, ticket) => self.hold_ends(process, ticket),
            Happening::Notices(process, lanes) => self.notices(process, lanes),
            Happening::ReduceEnds(seq, plan) => self.reduce_ends(seq, plan),
            Happening::ReduceLate(seq) => self.reduce_late(seq),
            Happening::Stalls(process, seq) => self.rank_stalls(process, seq),
            Happening::Lies(process, seq, names_link) => self.lies(process, seq, names_link),
            Happening::Learns(process, fact) => self.learn(process, fact),
            Happening::TransferAnswered(process, round, with, ok) => {
                self.transfer_answered(process, round, with, ok);
            }
            Happening::TransferLate(process, round, with) => {
                self.transfer_late(process, round, with);
            }
            Happening::TransferEnds(round, holder, requester, ok) => {
                self.transfer_ends(round, holder, requester, ok);
            }
        }
        true
    }

    pub(super) fn after(&mut self, time: Micros, happening: Happening) {
        let at = self.now().saturating_add(time);
        self.agenda.at(at, happening);
    }

    /// The process of a seat, if it runs.
    pub(super) fn process(&self, seat: SeatNo) -> Option<Process> {
        let life = self.seats[seat.0].life;
        let process = Process { seat, life };
        self.runs(process).then_some(process)
    }

    pub(super) fn runs(&self, process: Process) -> bool {
        let seat = &self.seats[process.seat.0];
        seat.life == process.life && seat.desk.is_some()
    }

    /// Tells the machine of a peer something, and does what it orders.
    pub(super) fn with_desk(
        &mut self,
        process: Process,
        tell: impl FnOnce(&mut PeerDesk, Micros) -> Vec<Order>,
    ) {
        if !self.runs(process) {
            return;
        }
        let now = self.now();
        if let Some(desk) = &mut self.seats[process.seat.0].desk {
            let orders = tell(desk, now);
            self.see_to_timers(process);
            for order in orders {
                self.obey(process, order);
            }
        }
    }

    pub(super) fn learn(&mut self, process: Process, fact: Fact) {
        self.with_desk(process, |desk, now| desk.learn(now, fact));
    }

    fn see_to_timers(&mut self, process: Process) {
        let seat = &mut self.seats[process.seat.0];
        let deadline = seat.desk.as_ref().and_then(PeerDesk::deadline);
        if let Some(deadline) = deadline.filter(|at| *at < seat.wakes) {
            seat.wakes = deadline;
            self.agenda.at(deadline, Happening::PeerWakes(process));
        }
    }

    fn fire_peer(&mut self, process: Process) {
        if !self.runs(process) {
            return;
        }
        self.seats[process.seat.0].wakes = Micros::MAX;
        let now = self.now();
        let moves = self.moves_reduce(process.seat) || self.moves_state(process.seat);
        while let Some(desk) = &mut self.seats[process.seat.0].desk
            && let Some(orders) = desk.fire(now, moves)
        {
            for order in orders {
                self.obey(process, order);
            }
        }
        if self.runs(process) {
            self.see_to_timers(process);
        }
    }

    fn fire_master(&mut self) {
        self.master_wakes = Micros::MAX;
        let now = self.now();
        while let Some(decrees) = self.master.fire(now) {
            self.obey_master(decrees);
        }
        self.see_to_master();
    }

    pub(super) fn see_to_master(&mut self) {
        let deadline = self.master.deadline();
        if let Some(deadline) = deadline.filter(|at| *at < self.master_wakes) {
            self.master_wakes = deadline;
            self.agenda.at(deadline, Happening::MasterWakes);
        }
    }
}

/// Where a seat is reached by default.
#[must_use]
pub fn address_of(no: usize) -> IpAddr {
    let [.., high, low] = (no as u32).to_be_bytes();
    Ipv4Addr::new(198, 51, high, low).into()
}
