//! The real machines, in the simulator's words: the one folder that names core's messages, inputs,
//! outputs and timers.
//!
//! Everything else of the simulator speaks of [`Ask`], [`Heard`], [`Fact`], [`Order`] and [`Decree`], so
//! a change of the protocol ends here.

mod master;
mod peer;
mod words;

use std::time::Duration;

use pccl_core::id::{ConnId, GroupId, PeerId, Round, Seq};
use pccl_core::messages::{ToMaster, ToPeer};
use pccl_core::paths::Measurement;
pub use pccl_core::peer::{AdoptedLanes, AdoptedLink};
use pccl_core::topology::{LaneFailure, LaneOrder, LinkId, LinkOrder, Ring};
use pccl_core::tour::TourProblem;

pub use master::MasterDesk;
pub use peer::PeerDesk;

use super::time::Micros;

/// What a peer tells the master; opaque to the simulator.
pub type Up = ToMaster;
/// What the master tells a peer; opaque to the simulator.
pub type Down = ToPeer;

/// What a user's program calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Ask {
    Connect,
    Update,
    Optimize,
    Sync {
        revision: u64,
        content: u128,
        bytes: u64,
    },
    Reduce {
        tag: u64,
        bytes: u64,
    },
    /// The caller does not want its last call any more.
    Drop,
    Leave,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The peer is part of the run.
    Joined,
    /// `update_topology` or `optimize_topology` is done.
    Updated,
    /// The group holds this revision.
    Synchronized(u64),
    /// This execution of a reduce is committed.
    Reduced(Seq),
    /// A call failed.
    Failed(Trouble),
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It may be made again.
    Again,
    /// It gave way to another peer's call, and may be made again.
    Conflict,
    /// It may not: why.
    Final(String),
    /// The peer is out of the run, which [`Order::Close`] says as well.
    Over,
}

/// Why a peer is out of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Out {
    /// It left on purpose.
    Left,
    /// The connection to the master ended, or the master was silent.
    MasterLost,
    /// The master would not have it, or something is wrong: why.
    Because(String),
}

/// What the data plane tells a peer's machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Fact {
    LinkUp {
        round: Round,
        link: LinkId,
    },
    LinkFailed {
        round: Round,
        link: LinkId,
        failure: LaneFailure,
    },
    LinkBroke {
        link: LinkId,
        built: Round,
    },
    PlanEnded {
        seq: Seq,
        done: bool,
    },
    TransfersEnded {
        round: Round,
        ok: bool,
        with: Option<PeerId>,
    },
    Measured {
        round: Round,
        to: PeerId,
        measured: Measurement,
    },
    ProbesEnded(Round),
}

/// What a peer's machine wants done.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Order {
    Send(Up),
    Answer(Heard),
    /// Connect these links; what an earlier attempt has connected is dropped.
    Connect {
        round: Round,
        links: Vec<LinkOrder>,
    },
    /// The ring from here on, and all links of this peer.
    Adopt {
        ring: Ring,
        links: Vec<AdoptedLink>,
    },
    Run {
        seq: Seq,
        bytes: u64,
    },
    Stop(Seq),
    Serve {
        round: Round,
        to: Vec<LaneOrder>,
    },
    /// `content` is what this peer will hold in the end; `from`: where it comes from, if it has to move.
    Fetch {
        round: Round,
        from: Option<LaneOrder>,
        content: Option<u128>,
    },
    CommitState,
    DropState,
    Measure {
        round: Round,
        probes: Vec<LinkOrder>,
    },
    Close,
}

/// What the master wants done.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Decree {
    Registered {
        conn: ConnId,
        peer: PeerId,
    },
    TurnedAway {
        conn: ConnId,
        words: Down,
    },
    Send {
        peer: PeerId,
        message: Down,
    },
    Close(PeerId),
    Solve {
        round: Round,
        group: GroupId,
        problem: TourProblem,
    },
    /// The machine found a defect of itself.
    Contradiction(String),
}

/// Does it say no more than that the peer lives?
#[must_use]
pub fn is_beat_up(message: &Up) -> bool {
    matches!(message, Up::Heartbeat { .. })
}

/// Does it say no more than that the master lives?
#[must_use]
pub fn is_beat_down(message: &Down) -> bool {
    *message == Down::Heartbeat
}

/// The round of an order to connect links.
#[must_use]
pub fn round_of_wiring(message: &Down) -> Option<Round> {
    match message {
        Down::EstablishLinks { round, .. } => Some(*round),
        _ => None,
    }
}

/// The execution that the message starts.
#[must_use]
pub fn started_by(message: &Down) -> Option<Seq> {
    match message {
        Down::Commence { seq, .. } => Some(*seq),
        _ => None,
    }
}

/// A message with a number, for tests.
#[cfg(test)]
pub(super) fn numbered(number: u64) -> Up {
    Up::LinkUp {
        round: Round(number),
        link: LinkId::to(PeerId(0)),
    }
}

/// The number of such a message.
#[cfg(test)]
pub(super) fn number_of(message: &Up) -> Option<u64> {
    match message {
        Up::LinkUp { round, .. } => Some(round.0),
        _ => None,
    }
}

fn micros(duration: Duration) -> Micros {
    Micros::try_from(duration.as_micros()).unwrap_or(Micros::MAX / 4)
}
