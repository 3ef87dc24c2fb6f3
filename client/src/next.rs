//! What a caller does after an error.

use pccl_core::messages::{CallKind, Misdeed, Refusal};
use pccl_core::shared_state::SyncFailure;
use pccl_core::transport::LaneError;
use pccl_core::wire::HandshakeError;

use crate::error::Error;

/// What the caller does after an [`Error`].
///
/// A loop that starts its round again for the first three always meets the other peers again, whatever each of
/// them does: a round begins with [`update_topology`](crate::Communicator::update_topology), which is in
/// nobody's way. [`Rounds`](crate::Rounds) is such a loop.
///
/// ```no_run
/// use pccl::{Communicator, Error, Next};
///
/// # fn round(_: &mut Communicator) -> Result<(), Error> { Ok(()) }
/// fn go_on(comm: &mut Communicator) -> Result<(), Error> {
///     loop {
///         let Err(error) = round(comm) else { continue };
///         match error.next() {
///             Next::CallAgain | Next::StartRoundAgain | Next::MakeOtherCallFirst(_) => {}
///             Next::Reconnect => *comm = Communicator::builder_from_env().connect()?,
///             _ => return Err(error),
///         }
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Next {
    /// Make the same call again. It failed on all peers alike and changed nothing, so all of them make it again
    /// with what they have. To start the round again is right as well, and does more work than is needed.
    CallAgain,
    /// Go back to where the round begins: update the topology, synchronize, compute. Who takes part may have
    /// changed, and with it what the call was made for: shards, or a root. The shared state and the buffer of the
    /// call are as they were. What the program has written between its calls is its own to undo.
    StartRoundAgain,
    /// Another peer waits in this call. Make it, and then the one that failed again. In a loop whose rounds make
    /// all calls in one order, start the round again. If the call is [`CallKind::OptimizeTopology`], the round
    /// has to make it.
    MakeOtherCallFirst(CallKind),
    /// There is no connection to the run, and another one may last. Connect by the same
    /// [`Builder`](crate::Builder), pause if that fails, and synchronize before anything else: the others have
    /// gone on.
    Reconnect,
    /// The run is over for this peer, because somebody has ended it. Keep the state, and end.
    End,
    /// Neither the same call nor another connection helps. Change the program, its data or its surroundings; the
    /// error's text says what.
    FixProgram,
}

impl Error {
    /// What the caller does next.
    #[must_use]
    pub fn next(&self) -> Next {
        match self {
            // The same for all peers of the collective, and the ring is rebuilt by the next call.
            Self::Aborted { .. }
            // Nobody else was concerned.
            | Self::GivenUp { .. }
            | Self::TimeLimit { .. }
            | Self::OptimizationFailed => Next::CallAgain,
            // Peers that wait for each other under different tags do so again if they call again.
            Self::NotJoined { .. }
            | Self::WorldChanged { .. }
            | Self::NoSuchRoot { .. } => Next::StartRoundAgain,
            Self::Conflict(conflict) => Next::MakeOtherCallFirst(conflict.theirs),
            Self::SyncFailed(failure) => after_sync(failure),
            Self::MasterUnreachable { reason, .. } => after_handshake(reason),
            Self::AdmissionTimedOut { .. } | Self::MasterLost => Next::Reconnect,
            Self::Refused(refusal) => after_refusal(refusal),
            Self::Kicked(misdeed) => after_kick(misdeed),
            Self::MasterStopped | Self::Left => Next::End,
            Self::BadJoinString(_)
            | Self::NoJoinString
            | Self::JoinStringNeeded { .. }
            | Self::NoPlainLanes { .. }
            | Self::NoSuchTransport(_)
            | Self::WrongTransport { .. }
            | Self::BadSite(_)
            | Self::BadName(_)
            | Self::BadAddress { .. }
            | Self::CannotListen { .. }
            | Self::NoResources(_)
            | Self::NoTime { .. }
            | Self::Disagreement { .. }
            | Self::TooLong { .. }
            | Self::NoWeight { .. }
            | Self::OutOfMemory { .. }
            | Self::MasterMisbehaved
            | Self::RuntimeEnded
            | Self::Defect(_)
            | Self::NotSupported { .. }
            | Self::OrderedQuantized { .. }
            | Self::WeightedIntegers { .. }
            | Self::WeightedFeedback
            | Self::LengthMismatch { .. }
            | Self::ShardMismatch { .. }
            | Self::TagInUse(_)
            | Self::PendingCollectives
            | Self::Busy
            | Self::QueryPending
            | Self::DuplicateEntry { .. }
            | Self::EntryNameTooLong { .. }
            | Self::TooManyEntries { .. } => Next::FixProgram,
        }
    }

    /// Whether the call that failed may succeed when it is made again, after what [`next`](Self::next) says.
    ///
    /// A call on a communicator that [is out of the run](Self::is_final) never does. Connecting may:
    /// [`MasterUnreachable`](Self::MasterUnreachable) and [`AdmissionTimedOut`](Self::AdmissionTimedOut) are
    /// retryable if the next step is [`Next::Reconnect`].
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self.next() {
            Next::CallAgain | Next::StartRoundAgain | Next::MakeOtherCallFirst(_) => true,
            Next::Reconnect => !self.is_final(),
            Next::End | Next::FixProgram => false,
        }
    }

    /// Whether the communicator is out of the run for good. Every later call on it gives the same error;
    /// [`next`](Self::next) says whether a new connection may help.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(
            self,
            Self::MasterLost
                | Self::MasterStopped
                | Self::MasterMisbehaved
                | Self::Refused(_)
                | Self::Kicked(_)
                | Self::Left
                | Self::RuntimeEnded
        )
    }
}

fn after_sync(failure: &SyncFailure) -> Next {
    match failure {
        // The same for all peers of the group.
        SyncFailure::TransferFailed { .. } | SyncFailure::TimedOut => Next::CallAgain,
        SyncFailure::NobodyToSend
        | SyncFailure::SendersDiffer { .. }
        | SyncFailure::RevisionLost { .. }
        | SyncFailure::SenderBehind { .. }
        | SyncFailure::RevisionSkipped { .. } => Next::FixProgram,
    }
}

fn after_handshake(reason: &HandshakeError) -> Next {
    match reason {
        HandshakeError::NotYet(_) => Next::Reconnect,
        HandshakeError::Lane(
            LaneError::AddressInUse
            | LaneError::AddressNotAvailable
            | LaneError::NoDescriptors
            | LaneError::Untrusted
            | LaneError::NotEncrypted
            | LaneError::Encrypted,
        ) => Next::FixProgram,
        // Nobody is there yet; or a network or a name service does not work for the moment.
        HandshakeError::Lane(_) => Next::Reconnect,
        // No master of this release listens there, or it does not want this peer.
        HandshakeError::Preamble(_) | HandshakeError::Reply(_) | HandshakeError::Refused(_) => {
            Next::FixProgram
        }
    }
}

fn after_refusal(refusal: &Refusal) -> Next {
    match refusal {
        Refusal::RunFull { .. } | Refusal::SlowHello => Next::Reconnect,
        Refusal::Stopping => Next::End,
        // A firewall, or an address: the master has tried twice.
        Refusal::CannotBeReached { .. }
        | Refusal::CannotReach { .. }
        | Refusal::Version { .. }
        | Refusal::BadHello => Next::FixProgram,
    }
}

fn after_kick(misdeed: &Misdeed) -> Next {
    match misdeed {
        // This peer, its machine or its network was too slow: the run goes on, and has room for it.
        Misdeed::MissedBallot
        | Misdeed::Stalled
        | Misdeed::Silent
        | Misdeed::SlowReader
        | Misdeed::Unfetchable
        | Misdeed::Unconnectable { .. } => Next::Reconnect,
        // It would do the same again.
        Misdeed::WrongState { .. }
        | Misdeed::NotAccepted
        | Misdeed::SecondHello
        | Misdeed::DuplicateVote
        | Misdeed::DuplicateTag { .. }
        | Misdeed::UnknownRound
        | Misdeed::UnaskedProbe
        | Misdeed::Malformed
        | Misdeed::TooManyTags { .. }
        | Misdeed::BadManifest
        | Misdeed::StateMismatch { .. }
        | Misdeed::RevisionAhead { .. }
        | Misdeed::Cancels => Next::FixProgram,
    }
}
