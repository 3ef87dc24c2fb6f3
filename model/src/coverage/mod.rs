//! What the exploration has seen: transitions of core's tables, and messages by the state in which they
//! arrive. Collected over all steps, from all threads.

mod expected;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use pccl_core::messages::{CallKind, ToMaster, ToPeer};
use pccl_core::peer::{PeerPhase, PeerView};
use pccl_core::states::{
    COLLECTIVE_TRANSITIONS, CollectiveCommunicationState, CollectiveEvent, ConnectionPhase,
    ConnectionState, Event, TRANSITIONS,
};

pub use expected::Cell;

/// A set of small numbers that many threads add to.
#[derive(Default)]
struct Bits {
    words: [AtomicU64; 8],
}

impl Bits {
    fn add(&self, number: usize) {
        let Some(word) = self.words.get(number / 64) else {
            return;
        };
        let bit = 1_u64 << (number % 64);
        // Reading is cheap where everybody writes the same.
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    fn has(&self, number: usize) -> bool {
        let word = self.words.get(number / 64);
        word.is_some_and(|word| word.load(Ordering::Relaxed) & (1 << (number % 64)) != 0)
    }

    fn merge(&self, other: &Self) {
        for (mine, theirs) in self.words.iter().zip(&other.words) {
            mine.fetch_or(theirs.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

/// What was seen.
#[derive(Default)]
pub struct Coverage {
    transitions: Bits,
    collective: Bits,
    restarts: Bits,
    up: Bits,
    down: Bits,
}

/// The state of a sender, as the master has it when a message arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderIn {
    /// The master has let it go.
    Forgotten,
    /// Waiting to be admitted, in this state.
    Registered(ConnectionState),
    /// Part of the run, in this state.
    Accepted(ConnectionState),
}

/// What a peer is in the middle of when a message arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ReceiverIn {
    AwaitingWelcome,
    Registered,
    Idle,
    Update,
    Optimize,
    Sync,
    Collective,
    Query,
    Gone,
}

/// Kinds of messages to the master, in the order of their declaration.
pub const UP_KINDS: [&str; 16] = [
    "Hello",
    "UpdateTopology",
    "LinkUp",
    "LinkFailed",
    "ArePeersPending",
    "OptimizeTopology",
    "Measured",
    "ProbesDone",
    "SyncSharedState",
    "SharedStateDone",
    "InitiateCollective",
    "CompleteCollective",
    "Withdraw",
    "Heartbeat",
    "Leave",
    "WhoIsAwaited",
];

/// Kinds of messages to a peer, in the order of their declaration.
pub const DOWN_KINDS: [&str; 18] = [
    "Welcome",
    "Refused",
    "EstablishLinks",
    "TopologyEstablished",
    "CallFailed",
    "PeersPending",
    "Probe",
    "OptimizationConcluded",
    "SharedStatePlan",
    "SharedStateConcluded",
    "Commence",
    "CollectiveRefused",
    "Verdict",
    "Kicked",
    "Heartbeat",
    "Stopping",
    "Awaited",
    "(end of the connection)",
];

/// All states of a receiver, in the order of the table.
pub const RECEIVERS: [ReceiverIn; 9] = [
    ReceiverIn::AwaitingWelcome,
    ReceiverIn::Registered,
    ReceiverIn::Idle,
    ReceiverIn::Update,
    ReceiverIn::Optimize,
    ReceiverIn::Sync,
    ReceiverIn::Collective,
    ReceiverIn::Query,
    ReceiverIn::Gone,
];

fn up_kind(message: &ToMaster) -> usize {
    match message {
        ToMaster::Hello(_) => 0,
        ToMaster::UpdateTopology { .. } => 1,
        ToMaster::LinkUp { .. } => 2,
        ToMaster::LinkFailed { .. } => 3,
        ToMaster::ArePeersPending => 4,
        ToMaster::OptimizeTopology => 5,
        ToMaster::Measured { .. } => 6,
        ToMaster::ProbesDone { .. } => 7,
        ToMaster::SyncSharedState(_) => 8,
        ToMaster::SharedStateDone { .. } => 9,
        ToMaster::InitiateCollective { .. } => 10,
        ToMaster::CompleteCollective { .. } => 11,
        ToMaster::Withdraw { .. } => 12,
        ToMaster::Heartbeat { .. } => 13,
        ToMaster::Leave => 14,
        ToMaster::WhoIsAwaited => 15,
    }
}

fn down_kind(message: &ToPeer) -> usize {
    match message {
        ToPeer::Welcome { .. } => 0,
        ToPeer::Refused(_) => 1,
        ToPeer::EstablishLinks { .. } => 2,
        ToPeer::TopologyEstablished { .. } => 3,
        ToPeer::CallFailed(_) => 4,
        ToPeer::PeersPending { .. } => 5,
        ToPeer::Probe { .. } => 6,
        ToPeer::OptimizationConcluded { .. } => 7,
        ToPeer::SharedStatePlan(_) => 8,
        ToPeer::SharedStateConcluded { .. } => 9,
        ToPeer::Commence { .. } => 10,
        ToPeer::CollectiveRefused { .. } => 11,
        ToPeer::Verdict { .. } => 12,
        ToPeer::Kicked(_) => 13,
        ToPeer::Heartbeat => 14,
        ToPeer::Stopping => 15,
        ToPeer::Awaited(_) => 16,
    }
}

/// The states of a sender, in the order of the table: forgotten, registered, accepted.
pub fn senders() -> Vec<SenderIn> {
    let registered = STATES.iter().map(|state| SenderIn::Registered(*state));
    let accepted = STATES.iter().map(|state| SenderIn::Accepted(*state));
    std::iter::once(SenderIn::Forgotten)
        .chain(registered)
        .chain(accepted)
        .collect()
}

/// All connection states, in the order of their declaration.
pub const STATES: [ConnectionState; 15] = [
    ConnectionState::Idle,
    ConnectionState::VoteAcceptNewPeers,
    ConnectionState::VoteNoNewPeersEstablishP2p,
    ConnectionState::ConnectingToPeers,
    ConnectionState::ConnectingToPeersFailed,
    ConnectionState::WaitingForOtherPeers,
    ConnectionState::VoteOptimizeTopology,
    ConnectionState::OptimizeTopology,
    ConnectionState::OptimizeTopologyFailed,
    ConnectionState::VoteCompleteTopologyOptimization,
    ConnectionState::VoteSyncSharedState,
    ConnectionState::DistributeSharedState,
    ConnectionState::RequestSharedState,
    ConnectionState::VoteCompleteSharedStateSync,
    ConnectionState::CollectiveCommunicationsRunning,
];

/// The states in which a master may find a peer when it goes on from its journal. No step ends with a peer in the one
/// that is left out: its optimization has failed, and it is told so at once.
pub const RESTARTED: [ConnectionState; 14] = [
    ConnectionState::Idle,
    ConnectionState::VoteAcceptNewPeers,
    ConnectionState::VoteNoNewPeersEstablishP2p,
    ConnectionState::ConnectingToPeers,
    ConnectionState::ConnectingToPeersFailed,
    ConnectionState::WaitingForOtherPeers,
    ConnectionState::VoteOptimizeTopology,
    ConnectionState::OptimizeTopology,
    ConnectionState::VoteCompleteTopologyOptimization,
    ConnectionState::VoteSyncSharedState,
    ConnectionState::DistributeSharedState,
    ConnectionState::RequestSharedState,
    ConnectionState::VoteCompleteSharedStateSync,
    ConnectionState::CollectiveCommunicationsRunning,
];

impl SenderIn {
    fn number(self) -> usize {
        let of = |state| STATES.iter().position(|known| *known == state).unwrap_or(0);
        match self {
            Self::Forgotten => 0,
            Self::Registered(state) => 1 + of(state),
            Self::Accepted(state) => 1 + STATES.len() + of(state),
        }
    }

    /// As the master has it.
    #[must_use]
    pub fn of(peer: Option<(ConnectionPhase, ConnectionState)>) -> Self {
        match peer {
            None => Self::Forgotten,
            Some((ConnectionPhase::Registered, state)) => Self::Registered(state),
            Some((ConnectionPhase::Accepted, state)) => Self::Accepted(state),
        }
    }
}

impl ReceiverIn {
    /// What the peer is in the middle of.
    #[must_use]
    pub fn of(view: &PeerView<'_>) -> Self {
        match view.phase() {
            PeerPhase::Unconnected | PeerPhase::Gone => Self::Gone,
            PeerPhase::AwaitingWelcome => Self::AwaitingWelcome,
            PeerPhase::Registered => Self::Registered,
            PeerPhase::Accepted => match view.open_calls().major {
                Some(CallKind::UpdateTopology) => Self::Update,
                Some(CallKind::OptimizeTopology) => Self::Optimize,
                Some(CallKind::SyncSharedState) => Self::Sync,
                Some(CallKind::Collective) => Self::Collective,
                None if view.tags().next().is_some() => Self::Collective,
                None if view.open_calls().query => Self::Query,
                None => Self::Idle,
            },
        }
    }

    fn number(self) -> usize {
        RECEIVERS
            .iter()
            .position(|known| *known == self)
            .unwrap_or(0)
    }
}

impl Coverage {
    pub(crate) fn moved(&self, from: ConnectionState, event: Event) {
        let row = |row: &pccl_core::states::Transition| row.from == from && row.event == event;
        if let Some(number) = TRANSITIONS.iter().position(row) {
            self.transitions.add(number);
        }
    }

    /// Another master goes on with a peer in this state.
    pub(crate) fn restarted(&self, state: ConnectionState) {
        if let Some(number) = RESTARTED.iter().position(|known| *known == state) {
            self.restarts.add(number);
        }
    }

    pub(crate) fn tag_moved(
        &self,
        from: Option<CollectiveCommunicationState>,
        event: CollectiveEvent,
    ) {
        let mut rows = COLLECTIVE_TRANSITIONS.iter();
        if let Some(number) = rows.position(|row| row.from == from && row.event == event) {
            self.collective.add(number);
        }
    }

    pub(crate) fn went_up(&self, message: &ToMaster, sender: SenderIn) {
        self.up
            .add(sender.number() * UP_KINDS.len() + up_kind(message));
    }

    pub(crate) fn went_down(&self, message: &ToPeer, receiver: ReceiverIn) {
        self.down
            .add(receiver.number() * DOWN_KINDS.len() + down_kind(message));
    }

    pub(crate) fn ended_down(&self, receiver: ReceiverIn) {
        let end = DOWN_KINDS.len() - 1;
        self.down.add(receiver.number() * DOWN_KINDS.len() + end);
    }

    /// Adds what another exploration has seen.
    pub fn merge(&self, other: &Self) {
        self.transitions.merge(&other.transitions);
        self.collective.merge(&other.collective);
        self.restarts.merge(&other.restarts);
        self.up.merge(&other.up);
        self.down.merge(&other.down);
    }

    /// How many rows of both tables were taken, and in how many states a master has gone on with a peer.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.rows().count() - self.never_taken().len()
    }

    /// How many rows both tables have, and in how many states a master may go on with a peer.
    #[must_use]
    pub fn rows_in_all(&self) -> usize {
        TRANSITIONS.len() + COLLECTIVE_TRANSITIONS.len() + RESTARTED.len()
    }

    fn rows(&self) -> impl Iterator<Item = (bool, String)> + '_ {
        let connection = TRANSITIONS.iter().enumerate().map(|(number, row)| {
            let text = format!("{:?} --{:?}--> {:?}", row.from, row.event, row.to);
            (self.transitions.has(number), text)
        });
        let tags = COLLECTIVE_TRANSITIONS.iter().enumerate();
        let tags = tags.map(|(number, row)| {
            let word = |state: Option<CollectiveCommunicationState>| {
                state.map_or("(free)".to_owned(), |state| format!("{state:?}"))
            };
            let text = format!("{} --{:?}--> {}", word(row.from), row.event, word(row.to));
            (self.collective.has(number), text)
        });
        let restarts = RESTARTED.iter().enumerate();
        let restarts = restarts.map(|(number, state)| {
            let text = format!("{state:?} --MasterRestarts--> {state:?}");
            (self.restarts.has(number), text)
        });
        connection.chain(tags).chain(restarts)
    }

    /// Legal transitions that were taken.
    #[must_use]
    pub fn rows_taken(&self) -> Vec<String> {
        let taken = self.rows().filter(|(taken, _)| *taken);
        taken.map(|(_, text)| text).collect()
    }

    /// Legal transitions that were not taken.
    #[must_use]
    pub fn never_taken(&self) -> Vec<String> {
        let missed = self.rows().filter(|(taken, _)| !taken);
        missed.map(|(_, text)| text).collect()
    }

    /// Was a message of this kind ([`UP_KINDS`]) delivered from a sender in this state?
    #[must_use]
    pub fn has_gone_up(&self, kind: usize, sender: SenderIn) -> bool {
        self.up.has(sender.number() * UP_KINDS.len() + kind)
    }

    /// Was a message of this kind ([`DOWN_KINDS`]) delivered to a peer in this state?
    #[must_use]
    pub fn has_gone_down(&self, kind: usize, receiver: ReceiverIn) -> bool {
        self.down.has(receiver.number() * DOWN_KINDS.len() + kind)
    }
}

impl fmt::Debug for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Coverage({} of {})", self.taken(), self.rows_in_all())
    }
}
