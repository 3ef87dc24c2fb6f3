//! What calls tell the engine, and what it tells them.

use pccl_core::element::CollectiveSpec;
use pccl_core::id::{PeerId, Round, Seq, Tag};
use pccl_core::messages::RingOutcome;
use pccl_core::peer::{CallError, Committed, Joined, Synchronized};
use pccl_core::shared_state::{SyncPlan, SyncVote};
use pccl_core::topology::Topology;
use pccl_core::transport::Lane;
use tokio::sync::{mpsc, oneshot};

use crate::data::RingPort;
use crate::progress::Progress;

/// From a call to the engine.
#[derive(Debug)]
pub(crate) enum Command {
    Connect {
        reply: oneshot::Sender<Result<Joined, CallError>>,
    },
    Topology {
        kind: TopologyCall,
        reply: oneshot::Sender<Result<Topology, CallError>>,
    },
    Query {
        reply: oneshot::Sender<Result<bool, CallError>>,
    },
    Sync {
        vote: SyncVote,
        events: mpsc::UnboundedSender<SyncEvent>,
    },
    TransfersEnded {
        round: Round,
        ok: bool,
        /// Who could not be served.
        with: Option<PeerId>,
    },
    Collective {
        call: CallId,
        tag: Tag,
        spec: CollectiveSpec,
        events: mpsc::UnboundedSender<CollectiveEvent>,
    },
    RingEnded {
        seq: Seq,
        outcome: RingOutcome,
    },
    Cancel {
        call: CallId,
        tag: Tag,
    },
    Leave {
        /// Dropped once the engine has left the run.
        left: oneshot::Sender<()>,
    },
}

/// One call of a collective: a tag is used again and again. Later calls have greater numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CallId(pub(crate) u64);

/// The two major calls that end with a topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TopologyCall {
    Update,
    Optimize,
}

/// What a collective's call hears, in order: at most one `Run`, then `Ended`.
#[derive(Debug)]
pub(crate) enum CollectiveEvent {
    Run { seq: Seq, port: Box<RingPort> },
    Ended(Result<Committed, CallError>),
}

/// What a synchronization's call hears, in order: at most one `Move`, then `Commit` or `Drop` where
/// there was one, then `Ended`.
#[derive(Debug)]
pub(crate) enum SyncEvent {
    Move(MoveOrder),
    Commit,
    Drop,
    Ended(Result<Synchronized, CallError>),
}

/// A plan, and where the lanes come from that others open for it.
#[derive(Debug)]
pub(crate) struct MoveOrder {
    pub(crate) me: PeerId,
    pub(crate) plan: SyncPlan,
    /// One for each lane.
    pub(crate) expected: Vec<(PeerId, oneshot::Receiver<Lane>)>,
    pub(crate) progress: Progress,
}
