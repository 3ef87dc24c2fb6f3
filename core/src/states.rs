//! The states of a connection and of a collective, and the only table of legal transitions.
//!
//! The master calls [`next_state`] for every change of a peer's [`ConnectionState`], and [`next_collective_state`]
//! for every change of a tag's state. No transition happens that the tables lack: if a message would need one, its
//! sender is evicted.
//!
//! ```text
//!  Idle ──vote──▶ VoteAcceptNewPeers ─────────┐
//!    │            VoteNoNewPeersEstablishP2p ─┤ unanimous
//!    │                                        ▼
//!    │◀──ring stands── WaitingForOtherPeers ◀─── ConnectingToPeers ──▶ ConnectingToPeersFailed
//!    │                                                                    │ next attempt
//!    ├──vote──▶ VoteOptimizeTopology ──▶ OptimizeTopology ──▶ VoteCompleteTopologyOptimization
//!    ├──vote──▶ VoteSyncSharedState ──▶ Distribute… / RequestSharedState ──▶ VoteComplete…Sync
//!    └──vote──▶ CollectiveCommunicationsRunning   (per tag: VoteInitiate ▶ Perform ▶ VoteComplete)
//! ```

use serde::{Deserialize, Serialize};

/// Whether a peer is part of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ConnectionPhase {
    /// Known to the master, and waiting to be admitted. It has no rank, and no peer waits for it.
    Registered,
    /// Part of the run: it votes, and others wait for it.
    Accepted,
}

/// The state of a peer, as the master sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ConnectionState {
    /// The master waits for nothing from it.
    Idle,
    /// Voted to admit newcomers. Waits for the other accepted peers of all groups.
    VoteAcceptNewPeers,
    /// Needs the ring rebuilt without newcomers. Waits for the others of its group. A peer enters this state when it
    /// starts a collective on a ring that has lost a member or a lane.
    VoteNoNewPeersEstablishP2p,
    /// Was ordered to connect ring edges.
    ConnectingToPeers,
    /// Its edges, or those of another peer, failed. Waits for the next attempt.
    ConnectingToPeersFailed,
    /// Its edges are up. Waits for the reports of the others.
    WaitingForOtherPeers,
    /// Voted to optimize. Waits for the other accepted peers of all groups.
    VoteOptimizeTopology,
    /// Measures bandwidths.
    OptimizeTopology,
    /// Could not measure. Waits for the others to end.
    OptimizeTopologyFailed,
    /// Has measured. Waits for the others and for the solver.
    VoteCompleteTopologyOptimization,
    /// Offered its shared state. Waits for the others of its group.
    VoteSyncSharedState,
    /// Holds the elected content, and serves it to other peers.
    DistributeSharedState,
    /// Fetches the entries that differ.
    RequestSharedState,
    /// Has ended its part of the synchronization. Waits for the others.
    VoteCompleteSharedStateSync,
    /// At least one tag is being voted on or runs.
    CollectiveCommunicationsRunning,
}

/// An event that moves a peer from one [`ConnectionState`] to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Event {
    /// The peer voted to update the topology.
    VotedToUpdate,
    /// The peer's collective needs another ring first.
    RingFoundStale,
    /// The master ordered ring edges.
    RingHandedOut,
    /// The peer has nothing to connect, or reported that all of its edges are up.
    LinksUp,
    /// The peer reported an edge that did not come up.
    LinkFailed,
    /// The attempt was given up. The peer's vote to update stands.
    RetryUpdate,
    /// The attempt was given up. The peer's collectives continue to wait. If their ring is stale, they need another
    /// one, as before.
    RetryRewire,
    /// The attempt was given up. The newcomer waits to be admitted, or the peer rests.
    RetryAdmission,
    /// The attempt was given up. The peer's vote to synchronize stands.
    RetrySync,
    /// The attempt was given up. The peer's vote to optimize stands.
    RetryOptimize,
    /// The ring is established, and the peer has nothing else to do.
    RingStands,
    /// The ring is established, and the peer's collectives continue.
    RingStandsForCollectives,
    /// The ring is established, and the peer's vote to synchronize stands.
    RingStandsForSync,
    /// The ring is established, and the peer's vote to optimize stands.
    RingStandsForOptimize,
    /// The peer voted to optimize.
    VotedToOptimize,
    /// The master ordered measurements.
    ProbesHandedOut,
    /// The peer has measured.
    ProbesDone,
    /// The peer could not measure.
    ProbesFailed,
    /// The peer has no edge to measure at first.
    NothingToProbe,
    /// The master no longer waits for the peer's measurements.
    ProbesGivenUp,
    /// The optimization ended without another ring.
    OptimizationConcluded,
    /// The peer voted to synchronize.
    VotedToSync,
    /// The peer holds the elected content.
    ElectedAsHolder,
    /// The peer lacks the elected content.
    ElectedAsRequester,
    /// The peer's part of the transfer is over.
    TransferDone,
    /// The synchronization ended.
    SyncConcluded,
    /// The peer initiated a collective.
    CollectiveInitiated,
    /// The peer's last collective ended, or was refused.
    CollectivesEnded,
    /// The peer's call gave way to that of another peer.
    CallGaveWay,
}

/// One row of the table: in `from`, `event` leads to `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Transition {
    /// The state before.
    pub from: ConnectionState,
    /// The event.
    pub event: Event,
    /// The state after.
    pub to: ConnectionState,
}

const fn row(from: ConnectionState, event: Event, to: ConnectionState) -> Transition {
    Transition { from, event, to }
}

use ConnectionState as S;
use Event as E;

/// Every legal transition of a peer's [`ConnectionState`].
pub const TRANSITIONS: &[Transition] = &[
    // Membership and rings.
    row(S::Idle, E::VotedToUpdate, S::VoteAcceptNewPeers),
    row(
        S::CollectiveCommunicationsRunning,
        E::RingFoundStale,
        S::VoteNoNewPeersEstablishP2p,
    ),
    row(
        S::VoteNoNewPeersEstablishP2p,
        E::CollectiveInitiated,
        S::VoteNoNewPeersEstablishP2p,
    ),
    row(S::VoteNoNewPeersEstablishP2p, E::CollectivesEnded, S::Idle),
    row(
        S::VoteAcceptNewPeers,
        E::RingHandedOut,
        S::ConnectingToPeers,
    ),
    row(
        S::VoteNoNewPeersEstablishP2p,
        E::RingHandedOut,
        S::ConnectingToPeers,
    ),
    // A registered newcomer, or one that was admitted and has called nothing since.
    row(S::Idle, E::RingHandedOut, S::ConnectingToPeers),
    // Who waits for others to make its call lets another ring be built meanwhile.
    row(
        S::VoteSyncSharedState,
        E::RingHandedOut,
        S::ConnectingToPeers,
    ),
    row(
        S::VoteOptimizeTopology,
        E::RingHandedOut,
        S::ConnectingToPeers,
    ),
    row(
        S::VoteCompleteTopologyOptimization,
        E::RingHandedOut,
        S::ConnectingToPeers,
    ),
    row(S::ConnectingToPeers, E::LinksUp, S::WaitingForOtherPeers),
    row(
        S::ConnectingToPeers,
        E::LinkFailed,
        S::ConnectingToPeersFailed,
    ),
    row(
        S::ConnectingToPeers,
        E::CollectiveInitiated,
        S::ConnectingToPeers,
    ),
    row(
        S::WaitingForOtherPeers,
        E::CollectiveInitiated,
        S::WaitingForOtherPeers,
    ),
    row(
        S::ConnectingToPeersFailed,
        E::CollectiveInitiated,
        S::ConnectingToPeersFailed,
    ),
    row(S::ConnectingToPeers, E::RetryUpdate, S::VoteAcceptNewPeers),
    row(
        S::WaitingForOtherPeers,
        E::RetryUpdate,
        S::VoteAcceptNewPeers,
    ),
    row(
        S::ConnectingToPeersFailed,
        E::RetryUpdate,
        S::VoteAcceptNewPeers,
    ),
    row(
        S::ConnectingToPeers,
        E::RetryRewire,
        S::CollectiveCommunicationsRunning,
    ),
    row(
        S::WaitingForOtherPeers,
        E::RetryRewire,
        S::CollectiveCommunicationsRunning,
    ),
    row(
        S::ConnectingToPeersFailed,
        E::RetryRewire,
        S::CollectiveCommunicationsRunning,
    ),
    row(S::ConnectingToPeers, E::RetryAdmission, S::Idle),
    row(S::WaitingForOtherPeers, E::RetryAdmission, S::Idle),
    row(S::ConnectingToPeersFailed, E::RetryAdmission, S::Idle),
    row(S::ConnectingToPeers, E::RetrySync, S::VoteSyncSharedState),
    row(
        S::WaitingForOtherPeers,
        E::RetrySync,
        S::VoteSyncSharedState,
    ),
    row(
        S::ConnectingToPeersFailed,
        E::RetrySync,
        S::VoteSyncSharedState,
    ),
    row(
        S::ConnectingToPeers,
        E::RetryOptimize,
        S::VoteOptimizeTopology,
    ),
    row(
        S::WaitingForOtherPeers,
        E::RetryOptimize,
        S::VoteOptimizeTopology,
    ),
    row(
        S::ConnectingToPeersFailed,
        E::RetryOptimize,
        S::VoteOptimizeTopology,
    ),
    // A peer that rests makes its first call while its ring is connected.
    row(S::ConnectingToPeers, E::VotedToUpdate, S::ConnectingToPeers),
    row(
        S::WaitingForOtherPeers,
        E::VotedToUpdate,
        S::WaitingForOtherPeers,
    ),
    row(
        S::ConnectingToPeersFailed,
        E::VotedToUpdate,
        S::ConnectingToPeersFailed,
    ),
    row(S::ConnectingToPeers, E::VotedToSync, S::ConnectingToPeers),
    row(
        S::WaitingForOtherPeers,
        E::VotedToSync,
        S::WaitingForOtherPeers,
    ),
    row(
        S::ConnectingToPeersFailed,
        E::VotedToSync,
        S::ConnectingToPeersFailed,
    ),
    row(
        S::ConnectingToPeers,
        E::VotedToOptimize,
        S::ConnectingToPeers,
    ),
    row(
        S::WaitingForOtherPeers,
        E::VotedToOptimize,
        S::WaitingForOtherPeers,
    ),
    row(
        S::ConnectingToPeersFailed,
        E::VotedToOptimize,
        S::ConnectingToPeersFailed,
    ),
    row(S::WaitingForOtherPeers, E::RingStands, S::Idle),
    row(
        S::WaitingForOtherPeers,
        E::RingStandsForSync,
        S::VoteSyncSharedState,
    ),
    row(
        S::WaitingForOtherPeers,
        E::RingStandsForOptimize,
        S::VoteOptimizeTopology,
    ),
    row(
        S::WaitingForOtherPeers,
        E::RingStandsForCollectives,
        S::CollectiveCommunicationsRunning,
    ),
    // Topology optimization.
    row(S::Idle, E::VotedToOptimize, S::VoteOptimizeTopology),
    row(
        S::VoteOptimizeTopology,
        E::ProbesHandedOut,
        S::OptimizeTopology,
    ),
    row(
        S::OptimizeTopology,
        E::ProbesDone,
        S::VoteCompleteTopologyOptimization,
    ),
    row(
        S::VoteOptimizeTopology,
        E::NothingToProbe,
        S::VoteCompleteTopologyOptimization,
    ),
    // Another rotation.
    row(
        S::VoteCompleteTopologyOptimization,
        E::ProbesHandedOut,
        S::OptimizeTopology,
    ),
    // It takes too long, or its other end is gone.
    row(
        S::OptimizeTopology,
        E::ProbesGivenUp,
        S::VoteCompleteTopologyOptimization,
    ),
    row(
        S::OptimizeTopology,
        E::ProbesFailed,
        S::OptimizeTopologyFailed,
    ),
    row(S::OptimizeTopologyFailed, E::OptimizationConcluded, S::Idle),
    // The better ring could not be connected; the old one stands.
    row(S::ConnectingToPeers, E::OptimizationConcluded, S::Idle),
    row(S::WaitingForOtherPeers, E::OptimizationConcluded, S::Idle),
    row(
        S::ConnectingToPeersFailed,
        E::OptimizationConcluded,
        S::Idle,
    ),
    row(
        S::VoteCompleteTopologyOptimization,
        E::OptimizationConcluded,
        S::Idle,
    ),
    // Shared state.
    row(S::Idle, E::VotedToSync, S::VoteSyncSharedState),
    row(
        S::VoteSyncSharedState,
        E::ElectedAsHolder,
        S::DistributeSharedState,
    ),
    row(
        S::VoteSyncSharedState,
        E::ElectedAsRequester,
        S::RequestSharedState,
    ),
    row(S::VoteSyncSharedState, E::SyncConcluded, S::Idle),
    row(
        S::DistributeSharedState,
        E::TransferDone,
        S::VoteCompleteSharedStateSync,
    ),
    row(
        S::RequestSharedState,
        E::TransferDone,
        S::VoteCompleteSharedStateSync,
    ),
    row(S::DistributeSharedState, E::SyncConcluded, S::Idle),
    row(S::RequestSharedState, E::SyncConcluded, S::Idle),
    row(S::VoteCompleteSharedStateSync, E::SyncConcluded, S::Idle),
    // Collectives.
    row(
        S::Idle,
        E::CollectiveInitiated,
        S::CollectiveCommunicationsRunning,
    ),
    row(
        S::CollectiveCommunicationsRunning,
        E::CollectiveInitiated,
        S::CollectiveCommunicationsRunning,
    ),
    row(
        S::CollectiveCommunicationsRunning,
        E::CollectivesEnded,
        S::Idle,
    ),
    // Precedence: a call that another one waits for gives way.
    row(S::VoteOptimizeTopology, E::CallGaveWay, S::Idle),
    row(S::VoteSyncSharedState, E::CallGaveWay, S::Idle),
];

/// The state after `event` in the state `from`. `None` if the event is not permitted there.
#[must_use]
pub fn next_state(from: ConnectionState, event: Event) -> Option<ConnectionState> {
    TRANSITIONS
        .iter()
        .find(|row| row.from == from && row.event == event)
        .map(|row| row.to)
}

/// The state of one tag on one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CollectiveCommunicationState {
    /// Voted to start. Waits for the others of its group.
    VoteInitiate,
    /// Runs its plan.
    Perform,
    /// Voted on its outcome. Waits for the verdict.
    VoteComplete,
}

/// An event that moves a tag of a peer from one [`CollectiveCommunicationState`] to another. `None` is a tag that is
/// not in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CollectiveEvent {
    /// The peer voted to start.
    Initiated,
    /// The vote was not carried out.
    Refused,
    /// All peers voted for the same collective.
    Commenced,
    /// The peer voted on its outcome.
    Completed,
    /// The master decided.
    Decided,
}

/// One row of the table of tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CollectiveTransition {
    /// The state before. `None`: not in use.
    pub from: Option<CollectiveCommunicationState>,
    /// The event.
    pub event: CollectiveEvent,
    /// The state after. `None`: not in use.
    pub to: Option<CollectiveCommunicationState>,
}

use CollectiveCommunicationState as C;
use CollectiveEvent as CE;

/// Every legal transition of a tag.
pub const COLLECTIVE_TRANSITIONS: &[CollectiveTransition] = &[
    CollectiveTransition {
        from: None,
        event: CE::Initiated,
        to: Some(C::VoteInitiate),
    },
    CollectiveTransition {
        from: Some(C::VoteInitiate),
        event: CE::Refused,
        to: None,
    },
    CollectiveTransition {
        from: Some(C::VoteInitiate),
        event: CE::Commenced,
        to: Some(C::Perform),
    },
    CollectiveTransition {
        from: Some(C::Perform),
        event: CE::Completed,
        to: Some(C::VoteComplete),
    },
    CollectiveTransition {
        from: Some(C::Perform),
        event: CE::Decided,
        to: None,
    },
    CollectiveTransition {
        from: Some(C::VoteComplete),
        event: CE::Decided,
        to: None,
    },
];

/// The state of a tag after `event` in the state `from`. The outer `None` means that the event is not permitted
/// there.
#[must_use]
pub fn next_collective_state(
    from: Option<CollectiveCommunicationState>,
    event: CollectiveEvent,
) -> Option<Option<CollectiveCommunicationState>> {
    COLLECTIVE_TRANSITIONS
        .iter()
        .find(|row| row.from == from && row.event == event)
        .map(|row| row.to)
}
