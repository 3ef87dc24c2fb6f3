//! What scripted processes and the test that started them tell each other.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::SystemTime;

use pccl::{AbortCause, Error, SyncFailure};
use pccl_core::id::Identity;
use serde::{Deserialize, Serialize};

use crate::over::MasterAt;
use crate::several::Part;

/// Nanoseconds since 1970: one clock for all processes of a machine.
pub type Nanos = u64;

/// What time it is.
#[must_use]
pub fn now() -> Nanos {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as Nanos)
}

/// A moment at which a peer can be told to stand still, so that it can be killed exactly there. Each
/// is an event that the library traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub enum Moment {
    /// Its vote to start a reduce is on the wire.
    ReduceVoted,
    /// A frame of a reduce is on the wire, and its result is not there.
    FrameSent,
    /// The whole result of a reduce is there, and it has not voted on the outcome.
    PlanDone,
    /// Its vote on the outcome of a reduce is on the wire, and the verdict is not there.
    CompletionVoted,
    /// Its vote to update the topology is on the wire.
    TopologyVoted,
    /// It knows what shared state to send or to fetch, and has done neither.
    SyncPlanned,
    /// Its vote to optimize the topology is on the wire.
    OptimizeVoted,
    /// It knows which edges to measure, and has not begun.
    ProbesOrdered,
    /// What it has measured is on the wire.
    ProbesDone,
    /// It knows which links to connect, and has not begun.
    LinksOrdered,
}

impl Moment {
    /// The library's name for it.
    #[must_use]
    pub const fn traced_as(self) -> &'static str {
        match self {
            Self::ReduceVoted => "collective_initiated",
            Self::FrameSent => "frame_sent",
            Self::PlanDone => "plan_done",
            Self::CompletionVoted => "completion_voted",
            Self::TopologyVoted => "topology_vote_sent",
            Self::SyncPlanned => "sync_plan",
            Self::OptimizeVoted => "optimize_vote_sent",
            Self::ProbesOrdered => "probes_ordered",
            Self::ProbesDone => "probes_done",
            Self::LinksOrdered => "links_ordered",
        }
    }
}

/// From a process to its test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// A master listens.
    Listening(MasterAt),
    /// A peer is part of the run.
    Joined {
        /// Who it is.
        peer: u64,
        /// Where it accepts lanes.
        lanes_at: SocketAddr,
        /// Who it is, where that is proved.
        identity: Option<Identity>,
    },
    /// A reduce is committed, and its result is right.
    Committed(Commit),
    /// All of several reduces are committed, and their results are right.
    CommittedSeveral {
        /// The round, by its own count.
        round: u64,
        /// The buffers, in the order of their tags.
        parts: Vec<Part>,
    },
    /// The shared state is synchronized.
    Synced(Sync),
    /// The topology is optimized.
    Optimized {
        /// The peers of the ring that stands.
        ring: Vec<u64>,
    },
    /// A peer of the README's loop computes its next step.
    Computes {
        /// On this revision of the state, which it has synchronized.
        revision: u64,
        /// When it began.
        at: Nanos,
    },
    /// A call failed, and is made again.
    Failed {
        /// Why.
        why: Failure,
        /// The error's text.
        error: String,
        /// When the call returned.
        at: Nanos,
    },
    /// The library has logged a warning.
    Warned {
        /// Its text.
        line: String,
    },
    /// The master has dropped this peer, which joins again.
    Dropped {
        /// Why.
        why: Failure,
        /// The error's text.
        error: String,
    },
    /// It will stand still where it was told to.
    Armed,
    /// It stands still where it was told to.
    StandsStill {
        /// The round that it is in.
        round: u64,
    },
    /// A call failed for good.
    GaveUp {
        /// Why.
        why: Failure,
        /// The error's text.
        error: String,
        /// Where it was a reduce: is the buffer what it was before?
        restored: Option<bool>,
    },
    /// The library has broken a promise.
    Wrong {
        /// Which.
        what: String,
    },
}

/// A reduce that was committed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Commit {
    /// The round of each contributor, this peer included, by its own count.
    pub rounds: BTreeMap<u64, u64>,
    /// Where shared state is kept: its revision after this round.
    pub revision: u64,
    /// Of the result.
    pub checksum: u64,
    /// When the call returned.
    pub at: Nanos,
    /// From the call, the last one where there were several, to its return.
    pub took: Nanos,
    /// Calls that failed before.
    pub failures: u32,
    /// What the library traced in this round, and when. Empty where nothing failed.
    pub trail: Vec<(String, Nanos)>,
}

/// A synchronization that succeeded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sync {
    /// What the group holds.
    pub revision: u64,
    /// Of the state.
    pub checksum: u64,
    /// Whether anything had to be fetched.
    pub fetched: bool,
}

/// Why a call failed, as far as tests care.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Failure {
    /// A reduce was aborted because this peer was lost.
    PeerLost(u64),
    /// A reduce was aborted because this peer has lost a lane.
    LaneLost(u64),
    /// A reduce was aborted otherwise.
    Aborted,
    /// Another call has precedence.
    Conflict,
    /// The shards are others than those that were to be gathered.
    WorldChanged,
    /// The root of a broadcast does not take part.
    NoSuchRoot(u64),
    /// A transfer of shared state has failed.
    TransferFailed,
    /// The master is gone.
    MasterLost,
    /// The master was stopped.
    MasterStopped,
    /// The master did not admit this peer.
    Refused,
    /// The master removed this peer.
    Kicked,
    /// Something else.
    Other,
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        match error {
            Error::Aborted { cause, .. } => match cause {
                AbortCause::PeerLost(peer) => Self::PeerLost(peer.0),
                AbortCause::LaneLost { by, .. } => Self::LaneLost(by.0),
                AbortCause::Cancelled(_) | AbortCause::TimedOut => Self::Aborted,
            },
            Error::Conflict(_) => Self::Conflict,
            Error::WorldChanged { .. } => Self::WorldChanged,
            Error::NoSuchRoot { root, .. } => Self::NoSuchRoot(root.0),
            Error::SyncFailed(SyncFailure::TransferFailed { .. }) => Self::TransferFailed,
            Error::MasterLost => Self::MasterLost,
            Error::MasterStopped => Self::MasterStopped,
            Error::Refused(_) => Self::Refused,
            Error::Kicked(_) => Self::Kicked,
            _ => Self::Other,
        }
    }
}

/// From a test to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// A peer: stand still at the next such moment.
    StandStillAt(Moment),
    /// A peer that stands still: go on.
    GoOn,
    /// A peer: go on, and stand still nowhere.
    StandStillNowhere,
    /// A peer: optimize the topology in each round from the next one on.
    Optimize,
    /// A master: take leave of the peers, and end.
    Stop,
}
