//! What calls tell the engine, and what it tells them.

use pccl_core::awaited::Awaited;
use pccl_core::id::{CallId, PeerId, Round, Seq};
use pccl_core::messages::PlanOutcome;
use pccl_core::peer::{Call, CallError, Committed, Joined, Optimized, Synchronized};
use pccl_core::shared_state::SyncPlan;
use pccl_core::topology::Topology;
use pccl_core::transport::Lane;
use pccl_plane::{OperationPort, Progress};
use tokio::sync::{mpsc, oneshot};

/// From a call to the engine.
#[derive(Debug)]
pub(crate) enum Command {
    /// Make a call.
    Call {
        call: CallId,
        what: Call,
        caller: Caller,
    },
    /// Nobody waits for this call any more, unless it was answered meanwhile.
    GiveUp {
        call: CallId,
    },
    /// The caller of this collective wants its vote to start back, and waits for the answer.
    Withdraw {
        call: CallId,
    },
    TransfersEnded {
        round: Round,
        ok: bool,
        /// Who could not be served.
        with: Option<PeerId>,
    },
    PlanEnded {
        seq: Seq,
        outcome: PlanOutcome,
    },
    /// Ask the master who has not made the calls that are open.
    WhoIsAwaited {
        reply: oneshot::Sender<Result<Awaited, CallError>>,
    },
    Leave {
        /// Dropped once the engine has left the run.
        left: oneshot::Sender<()>,
    },
}

/// Who waits for the answer to a call.
#[derive(Debug)]
pub(crate) enum Caller {
    Connect(oneshot::Sender<Result<Joined, CallError>>),
    Topology(oneshot::Sender<Result<Topology, CallError>>),
    Optimization(oneshot::Sender<Result<Optimized, CallError>>),
    Query(oneshot::Sender<Result<bool, CallError>>),
    Sync(mpsc::UnboundedSender<SyncNotice>),
    Collective(mpsc::UnboundedSender<CollectiveNotice>),
}

/// What a collective's call hears, in order: at most one `Run` that is confirmed or becomes so, then `Ended`. Before it
/// may come one that is ahead and was in vain.
#[derive(Debug)]
pub(crate) enum CollectiveNotice {
    Run {
        seq: Seq,
        port: Box<OperationPort>,
        /// Others may not have made the call.
        ahead: bool,
    },
    /// What runs ahead, or has run, is what all run.
    Confirmed,
    Ended(Result<Committed, CallError>),
}

/// What a synchronization's call hears, in order: at most one `Move`, then `Commit` or `Drop` where
/// there was one, then `Ended`.
#[derive(Debug)]
pub(crate) enum SyncNotice {
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
