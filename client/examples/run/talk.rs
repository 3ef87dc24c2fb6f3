//! What the training processes and their supervisor tell each other.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// A moment inside a reduce or an optimization at which a peer can be told to stand still, so that it can be killed
/// exactly there. Each is an event that the library traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Moment {
    /// It has voted to start, nothing moves yet.
    Vote,
    /// Its first frame is on the wire.
    Frame,
    /// Its vote on the outcome is on the wire, the verdict is not there.
    Verdict,
    /// It has voted to optimize the topology.
    Optimize,
    /// It knows which edges to measure, and has not begun.
    Probe,
    /// What it has measured is on the wire.
    Measured,
}

impl Moment {
    /// The library's name for it.
    pub(crate) fn traced_as(self) -> &'static str {
        match self {
            Self::Vote => "collective_initiated",
            Self::Frame => "frame_sent",
            Self::Verdict => "completion_voted",
            Self::Optimize => "optimize_vote_sent",
            Self::Probe => "probes_ordered",
            Self::Measured => "probes_done",
        }
    }

    /// Does it come only after a change of the peers?
    pub(crate) fn is_of_optimization(self) -> bool {
        match self {
            Self::Vote | Self::Frame | Self::Verdict => false,
            Self::Optimize | Self::Probe | Self::Measured => true,
        }
    }
}

/// From a training process to the supervisor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Event {
    /// A master listens: what peers join with, and where it is.
    Listening { join: String, address: SocketAddr },
    /// It is part of the run.
    Joined { peer: u64, world: usize },
    /// A round is over.
    Round {
        round: u64,
        world: usize,
        loss: f32,
        /// On the held-back digits; told by the first rank only.
        accuracy: Option<f32>,
    },
    /// The topology is optimized; told by the first rank only.
    Optimized { world: usize, took_ms: f64 },
    /// A call failed and is made again.
    Failed { round: u64, error: String },
    /// A reduce that had failed is committed; so much longer than an untroubled one it took.
    Recovered { round: u64, lost_ms: f64 },
    /// It stands still at the ordered moment.
    StandsStill,
    /// It has done all rounds.
    Finished(Final),
    /// It cannot go on.
    GaveUp { error: String },
}

/// What a training process ends with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Final {
    /// Of weights, momentum and revision.
    pub(crate) hash: String,
    /// The revision of the shared state.
    pub(crate) rounds: u64,
    /// Rounds that this process took part in.
    pub(crate) rounds_here: u64,
    /// On the held-back digits.
    pub(crate) accuracy: f32,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
    /// Of the reduces that ran beside the training, where the algorithm has such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) overlap: Option<Overlap>,
}

/// How well reduces hid behind the training.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Overlap {
    /// Committed ones.
    pub(crate) reduces: u64,
    /// Those of them that had ended before the program asked for their result.
    pub(crate) over_when_awaited: u64,
    /// From their starts to their ends, all together.
    pub(crate) in_flight_ms: f64,
    /// What the program spent waiting for them.
    pub(crate) waited_ms: f64,
}

/// From the supervisor to a training process.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Stand still at the next such moment.
    StandStillAt(Moment),
}
