//! One process of the simulation: its machine, its links, its user's program, and what became of it.

use std::net::IpAddr;

use pccl_core::id::{PeerId, Round, Ticket};
use pccl_core::topology::LinkId;

use super::machines::{Ask, PeerDesk};
use super::network::SeatNo;
use super::plane::Plane;
use super::program::Program;
use super::time::{Micros, SECOND};
use super::transfers::Moving;
use super::world::{Process, address_of};

/// How a process is wrong, if it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Habit {
    /// It is not.
    #[default]
    Honest,
    /// It reports of each reduce that a lane was lost, and names no link.
    ReportsLoss,
    /// The same, and it names the link on which it sends.
    ReportsLossOfItsLink,
    /// It passes everything on, and never says that its part of a reduce is over.
    NeverEndsReduces,
    /// It fetches everything, and never says so.
    NeverEndsTransfers,
}

/// What the user's memory holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The revision of the shared state.
    pub revision: u64,
    /// Stands for its content.
    pub content: u128,
    /// How long it is.
    pub bytes: u64,
}

/// A process that is to take part.
#[derive(Clone, Debug)]
pub struct SeatPlan {
    /// When it connects.
    pub starts: Micros,
    /// The group it works in.
    pub group: u32,
    /// Where others reach it; `None`: an address of its own.
    pub address: Option<IpAddr>,
    /// Lanes per link that it would like.
    pub lanes: u16,
    /// What its user runs.
    pub program: Program,
    /// What its user's memory holds in the beginning.
    pub memory: Memory,
}

impl SeatPlan {
    /// A usual one that starts at this time.
    #[must_use]
    pub fn at(starts: Micros) -> Self {
        Self {
            starts,
            group: 0,
            address: None,
            lanes: 4,
            program: Program::readme(SECOND),
            memory: Memory {
                bytes: 1 << 20,
                ..Memory::default()
            },
        }
    }

    /// The same, which runs this.
    #[must_use]
    pub fn running(mut self, program: Program) -> Self {
        self.program = program;
        self
    }

    /// The same in another group.
    #[must_use]
    pub fn in_group(mut self, group: u32) -> Self {
        self.group = group;
        self
    }
}

/// Why a seat is not part of the run any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It left on purpose.
    Left,
    /// A fault killed it.
    Killed,
    /// Its program ended: why.
    Lost(String),
}

/// A lane that somebody opens and that nobody expects yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Knock {
    pub(super) from: Process,
    pub(super) round: Round,
    /// As the end that opens it names it.
    pub(super) link: LinkId,
    pub(super) ticket: Ticket,
}

/// The same as [`SeatPlan`], with an address.
#[derive(Clone, Debug)]
pub(super) struct Settled {
    pub(super) address: IpAddr,
    pub(super) group: u32,
    pub(super) lanes: u16,
}

/// A process, with all that it has.
#[derive(Debug)]
pub struct Seat {
    no: SeatNo,
    pub(super) plan: Settled,
    /// How many processes there were in this seat before.
    pub(super) life: u32,
    pub(super) desk: Option<PeerDesk>,
    pub(super) wakes: Micros,
    /// What arrives on the control connection arrives after this.
    pub(super) up_clear: Micros,
    pub(super) down_clear: Micros,
    /// Its number in the run, and in which life.
    pub(super) peer: Option<(u32, PeerId)>,
    pub(super) plane: Plane,
    pub(super) knocks: Vec<Knock>,
    pub(super) moving: Option<Moving>,
    pub(super) staged: Option<u128>,
    pub(super) program: Program,
    pub(super) memory: Memory,
    pub(super) habit: Habit,
    /// The call that is open, and since when.
    pub(super) open: Option<(Ask, Micros)>,
    pub(super) record: Record,
}

/// What became of a seat.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// When it became part of the run.
    pub joined: Option<Micros>,
    /// When and why it ceased to be.
    pub ended: Option<(Micros, Exit)>,
    /// When it was sent away or refused.
    pub sent_away: Vec<Micros>,
    /// Calls that failed and may be made again: when.
    pub failed: Vec<Micros>,
    /// Those of them that gave way to another call.
    pub conflicts: Vec<Micros>,
    /// Calls of `update_topology`: when they ended, and how long they took.
    pub updates: Vec<(Micros, Micros)>,
    /// When its content was replaced.
    pub overwritten: Vec<Micros>,
}

impl Seat {
    pub(super) fn new(no: SeatNo, plan: SeatPlan) -> Self {
        Self {
            no,
            plan: Settled {
                address: plan.address.unwrap_or_else(|| address_of(no.0 + 1)),
                group: plan.group,
                lanes: plan.lanes,
            },
            life: 0,
            desk: None,
            wakes: Micros::MAX,
            up_clear: 0,
            down_clear: 0,
            peer: None,
            plane: Plane::new(no),
            knocks: Vec::new(),
            moving: None,
            staged: None,
            program: plan.program,
            memory: plan.memory,
            habit: Habit::default(),
            open: None,
            record: Record::default(),
        }
    }

    /// Its number.
    #[must_use]
    pub fn no(&self) -> SeatNo {
        self.no
    }

    /// What became of it.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// How long its calls of `update_topology` took that ended since, or that are open at this instant.
    pub fn updates_since(&self, since: Micros, now: Micros) -> impl Iterator<Item = Micros> {
        let ended = self.record.updates.iter();
        let ended = ended
            .filter(move |(at, _)| *at >= since)
            .map(|(_, took)| *took);
        let open = self.open.filter(|(ask, _)| *ask == Ask::Update);
        ended.chain(open.map(|(_, at)| now.saturating_sub(at)))
    }

    /// What its user's memory holds.
    #[must_use]
    pub fn memory(&self) -> Memory {
        self.memory
    }

    /// Lanes of each of its links, while it is on a ring.
    #[must_use]
    pub fn lanes(&self) -> Option<u16> {
        self.desk.as_ref().and_then(PeerDesk::lanes)
    }

    /// Its group.
    #[must_use]
    pub fn group(&self) -> u32 {
        self.plan.group
    }

    /// Was it lost against its will, other than by a fault of its own?
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(&self.record.ended, Some((_, Exit::Lost(_))))
    }

    /// Is it part of the run no more, for whatever reason?
    #[must_use]
    pub fn is_out(&self) -> bool {
        self.record.ended.is_some()
    }

    pub(super) fn peer_of(&self, life: u32) -> Option<PeerId> {
        self.peer
            .filter(|(of, _)| *of == life)
            .map(|(_, peer)| peer)
    }
}
