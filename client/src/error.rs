//! Why a call did not do what it was asked for, and what its caller does next.

use std::net::SocketAddr;
use std::time::Duration;

use pccl_core::element::{ElementType, Quantization, SpecField};
use pccl_core::id::{PeerId, Tag};
use pccl_core::messages::{AbortCause, CollectiveRefusal, Conflict, Misdeed, Refusal};
use pccl_core::peer::{CallError, Usage};
use pccl_core::shared_state::SyncFailure;
use pccl_core::site::BadSiteName;
use pccl_core::transport::{LaneError, Protocol};
use pccl_core::wire::{HandshakeError, MAX_ENTRY_NAME_BYTES};
use pccl_plane::Defect;
use pccl_trust::JoinError;

use crate::address::BadAddress;
use crate::advice::advice;

/// Why a call did not do what it was asked for. Buffers and shared state are then as they were
/// before the call, except for the `result` of
/// [`all_reduce_into`](crate::Communicator::all_reduce_into), whose content is unspecified.
///
/// [`next`](Self::next) says what the caller does then. [`Rounds`](crate::Rounds) is a loop that does it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No connection to the master could be opened, by any attempt of
    /// [`connect_patience`](crate::Builder::connect_patience). The text says what to look at; where the reason is
    /// [`HandshakeError::NotYet`] the master is busy, and connecting again later may succeed.
    #[error("the master at {master} cannot be reached: {reason}{}", advice(.reason))]
    MasterUnreachable {
        /// The address, as it was given.
        master: String,
        /// What happened.
        reason: HandshakeError,
    },
    /// What was given as the master's address, or to [`Builder::advertise`](crate::Builder::advertise), is none.
    /// Correct it. Nothing was sent.
    #[error("{address:?} is no address: {reason}")]
    BadAddress {
        /// What was given.
        address: String,
        /// What is wrong with it.
        reason: BadAddress,
    },
    /// What was given as a join string is none. Copy it again from where the master printed it.
    #[error("{0}")]
    BadJoinString(JoinError),
    /// The environment variable `PCCL_JOIN` is not set. Set it to what `pccl-master` prints at its start.
    #[error(
        "PCCL_JOIN is not set: set it to the join string that `pccl-master` prints at its start"
    )]
    NoJoinString,
    /// The master is on another machine, and without a join string this peer could neither know who answers
    /// there nor encrypt. Nothing was sent.
    #[error(
        "the master at {master} is on another machine: connect with the join string that it prints at its \
         start, or say Tcp::plain() where everybody on the way may read and change what is sent"
    )]
    JoinStringNeeded {
        /// The address, as it was given.
        master: String,
    },
    /// The transport opens encrypted lanes alone, and what was given as the run is an address, which says
    /// nothing about whose key the master has. Nothing was sent.
    #[error(
        "the transport always encrypts, so the address {master} is not enough: connect with the join string \
         that the master prints at its start"
    )]
    NoPlainLanes {
        /// The address, as it was given.
        master: String,
    },
    /// The join string asks for a transport that this program was built without: build it with the cargo
    /// feature of that name.
    #[error(
        "the run's transport is {0}, and this program was built without it: build it with the cargo feature \
         `{0}` of the package pccl (in its Cargo.toml: pccl = {{ ..., features = [\"{0}\"] }})"
    )]
    NoSuchTransport(String),
    /// The join string asks for one transport, and [`Builder::transport`](crate::Builder::transport) was given
    /// another. Leave that line out, or give it the one that is asked for. Nothing was sent.
    #[error(
        "the join string asks for {asked}, and Builder::transport was given a transport that speaks {given}: \
         leave that line out, and the join string chooses, or give it {}", remedy(*.asked)
    )]
    WrongTransport {
        /// What the run speaks.
        asked: Protocol,
        /// What the program was given.
        given: Protocol,
    },
    /// [`Builder::site`](crate::Builder::site) was given a name that no site can have. Choose another one. Nothing
    /// was sent.
    #[error("{0}")]
    BadSite(BadSiteName),
    /// No port to accept lanes on could be taken.
    #[error("cannot listen on {on}: {reason}; choose another address or first port")]
    CannotListen {
        /// The last address that was tried.
        on: SocketAddr,
        /// What happened.
        reason: LaneError,
    },
    /// The operating system gave no thread or no event queue for the communicator's runtime.
    #[error("the operating system refused what a communicator needs: {0:?}")]
    NoResources(std::io::ErrorKind),
    /// The run did not admit this peer in the time that
    /// [`admission_timeout`](crate::Builder::admission_timeout) allows. The peers of the run admit
    /// newcomers when they call `update_topology`. Connect again.
    #[error("the run did not admit this peer within {after:?}; connect again")]
    AdmissionTimedOut {
        /// How long it waited.
        after: Duration,
    },

    /// A participant or a lane was lost while the collective ran, on every peer alike. Call again.
    #[error("{tag} was aborted: {cause}; call again")]
    Aborted {
        /// The collective.
        tag: Tag,
        /// Why.
        cause: AbortCause,
    },
    /// The peers did not ask for the same under this tag: a mistake in the calling program.
    #[error("{tag} did not start: the peers disagree on its {field} ({})", list(.peers))]
    Disagreement {
        /// The collective.
        tag: Tag,
        /// What differs.
        field: SpecField,
        /// The lowest-numbered voter, then the peers that differ from it.
        peers: Vec<PeerId>,
    },
    /// Some peers wait in collectives of other tags and did not join this one in time: the peers
    /// start their collectives in different orders, and more than may be in flight. Start the round again,
    /// as those peers do when they are told of theirs, and start the same collectives everywhere.
    #[error(
        "{tag} did not start: {} did not join it in time and wait in collectives of other tags; start the \
         round again, and collectives in the same order on all peers", list(.peers)
    )]
    NotJoined {
        /// The collective.
        tag: Tag,
        /// Who did not join.
        peers: Vec<PeerId>,
    },
    /// The root of a broadcast does not take part: it has left the run, or is in another group. Start the round again,
    /// and agree on another one, for example the lowest of the [`contributors`](crate::CollectiveReport::contributors) of a
    /// [`barrier`](crate::Communicator::barrier).
    #[error(
        "{tag} did not start: its root, {root}, does not take part; start the round again, and agree on another one"
    )]
    NoSuchRoot {
        /// The collective.
        tag: Tag,
        /// Who was to be the root.
        root: PeerId,
    },
    /// Peers have left or joined since the shards that were to be gathered were computed, so this peer's may be another.
    /// All peers get this, and nothing was moved. Undo what was changed in the old shard, and go back to where shards are
    /// computed: `docs/collectives.md` has the loop.
    #[error(
        "{tag} did not start: peers have left or joined, which changes the shards; go back to where they are computed"
    )]
    WorldChanged {
        /// The collective.
        tag: Tag,
    },
    /// The contributions to an [`all_gather_v`](crate::Communicator::all_gather_v) have more elements together than the limit.
    /// All peers get this, and nothing was moved. Raise the limit on all peers
    /// ([`GatherV::at_most`](crate::GatherV::at_most)), or contribute less.
    #[error(
        "{tag} did not start: all contributions have {total} elements, and the limit is {limit}; raise it on all peers, or contribute less"
    )]
    TooLong {
        /// The collective.
        tag: Tag,
        /// Number of elements of all contributions; `u64::MAX` if there are more.
        total: u64,
        /// The limit.
        limit: u64,
    },
    /// This peer gave the collective up before it started: nobody else was concerned. Only who gave it up
    /// could hear of it.
    #[error("{tag} was given up before it started")]
    GivenUp {
        /// The collective.
        tag: Tag,
    },
    /// Another peer waits in a call that has precedence. Make that call first, then this one again. Of
    /// peers that make the same calls again and again without doing so the third in a row is let through.
    #[error("{0}")]
    Conflict(Conflict),
    /// The shared state was not synchronized.
    #[error("{0}")]
    SyncFailed(SyncFailure),
    /// Measuring failed; the rings are as they were. Call again, later.
    #[error("the topology could not be optimized; the rings are as they were")]
    OptimizationFailed,

    /// The connection to the master ended. What it had decided about open calls is unknown. Connect
    /// again and synchronize.
    ///
    /// A master that was started anew remembers no revision: the first peers to synchronize decide what
    /// their group holds, and one that comes later with a higher revision is kicked
    /// ([`Misdeed::RevisionAhead`]). Let a peer that holds the state connect and synchronize before those
    /// that hold none.
    #[error("lost the master; connect again and synchronize the shared state")]
    MasterLost,
    /// The master's operator stopped it: the run is over.
    #[error("the master was stopped: the run is over")]
    MasterStopped,
    /// The master sent something that is not this protocol. Use the same release on both ends.
    #[error("the master does not speak this protocol; use the same release on both ends")]
    MasterMisbehaved,
    /// The master did not admit this peer.
    #[error("the master refused this peer: {0}")]
    Refused(Refusal),
    /// The master threw this peer out of the run.
    #[error("the master removed this peer from the run: {0}")]
    Kicked(Misdeed),
    /// This communicator was shut down.
    #[error("this communicator was shut down")]
    Left,
    /// The tokio runtime on which this communicator was connected has ended.
    #[error("the tokio runtime of this communicator has ended; connect where it outlives its use")]
    RuntimeEnded,
    /// A defect of this library: what it relies upon at the named place of its source is not so. The
    /// collective was given up and fails on all peers. Please report it, with the place and the version.
    #[error("a defect of pccl: what is relied upon at {0} is not so; please report it")]
    Defect(Defect),

    /// This quantization is not for elements of this type, or there is no such quantization (see
    /// [`Quantization`] for those that there are). Nothing was sent; ask for another one.
    #[error("{quantization} is not for {element} elements")]
    NotSupported {
        /// Type of the elements.
        element: ElementType,
        /// What was asked for.
        quantization: Quantization,
    },
    /// A reduce was to be [ordered](crate::Reduce::ordered) and quantized. Nothing was sent; ask for one of the two.
    #[error("a reduce in the order of the peers has no {quantization}")]
    OrderedQuantized {
        /// What was asked for.
        quantization: Quantization,
    },
    /// Source and result of [`all_reduce_into`](crate::Communicator::all_reduce_into) differ in
    /// length. Nothing was sent.
    #[error(
        "the source has {source_count} elements and the result {result_count}; both must be equal"
    )]
    LengthMismatch {
        /// Elements to contribute.
        source_count: usize,
        /// Elements of the result.
        result_count: usize,
    },
    /// The shard that was to be gathered is of a buffer of another length. Ask
    /// [`shard`](crate::Communicator::shard) with the length of this one. Nothing was sent.
    #[error("the shard is of a buffer of {shard_of} elements, and this one has {buffer_len}")]
    ShardMismatch {
        /// Elements of the buffer that the shard is of.
        shard_of: usize,
        /// Elements of the buffer.
        buffer_len: usize,
    },
    /// This process could not allocate the result of an [`all_gather_v`](crate::Communicator::all_gather_v). It gave the
    /// collective up, which aborts it on all peers. Lower the limit ([`GatherV::at_most`](crate::GatherV::at_most)).
    #[error("{tag} was given up: there is no memory for {elements} elements; lower the limit")]
    OutOfMemory {
        /// The collective.
        tag: Tag,
        /// Elements of the result.
        elements: u64,
    },
    /// The tag names a collective that is running. Wait for it, or use another tag.
    #[error("{0} is in use by a collective that is running; wait for it or use another tag")]
    TagInUse(Tag),
    /// A handle of [`start_all_reduce`](crate::Communicator::start_all_reduce) has not been awaited.
    #[error(
        "a collective is pending; wait for its handle before changing the topology or the state"
    )]
    PendingCollectives,
    /// Another major operation has not ended.
    #[error("another major operation of this communicator is still running; wait for it first")]
    Busy,
    /// [`are_peers_pending`](crate::Communicator::are_peers_pending) is already waiting.
    #[error("are_peers_pending is already waiting; one at a time")]
    QueryPending,
    /// Two entries of a shared state have the same name.
    #[error("the shared state has two entries named {name:?}")]
    DuplicateEntry {
        /// The name.
        name: String,
    },
    /// The name of an entry of a shared state is too long.
    #[error("the entry name {name:?} is longer than {MAX_ENTRY_NAME_BYTES} bytes")]
    EntryNameTooLong {
        /// The name.
        name: String,
    },
    /// A shared state has too many entries.
    #[error("a shared state has at most {entries_max} entries; put several tensors into one")]
    TooManyEntries {
        /// The limit.
        entries_max: usize,
    },
}

impl From<CallError> for Error {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Aborted { tag, cause } => Self::Aborted { tag, cause },
            CallError::CollectiveRefused { tag, reason } => match reason {
                CollectiveRefusal::Disagreement { field, peers } => {
                    Self::Disagreement { tag, field, peers }
                }
                CollectiveRefusal::NotJoined { peers } => Self::NotJoined { tag, peers },
                CollectiveRefusal::NoSuchRoot { root } => Self::NoSuchRoot { tag, root },
                CollectiveRefusal::WorldChanged => Self::WorldChanged { tag },
                CollectiveRefusal::TooLong { total, limit } => Self::TooLong { tag, total, limit },
                CollectiveRefusal::Conflict(conflict) => Self::Conflict(conflict),
                CollectiveRefusal::Withdrawn => Self::GivenUp { tag },
            },
            CallError::Conflict(conflict) => Self::Conflict(conflict),
            CallError::SyncFailed(failure) => Self::SyncFailed(failure),
            CallError::OptimizationFailed => Self::OptimizationFailed,
            CallError::MasterLost => Self::MasterLost,
            CallError::MasterStopped => Self::MasterStopped,
            CallError::Refused(refusal) => Self::Refused(refusal),
            CallError::Kicked(misdeed) => Self::Kicked(misdeed),
            CallError::Left => Self::Left,
            CallError::Usage(usage) => usage.into(),
            // The enum may grow in core; what this crate does not know ends the run for it.
            CallError::MasterMisbehaved | _ => Self::MasterMisbehaved,
        }
    }
}

impl From<Usage> for Error {
    fn from(usage: Usage) -> Self {
        match usage {
            Usage::PendingCollectives => Self::PendingCollectives,
            Usage::TagInUse(tag) => Self::TagInUse(tag),
            Usage::QueryPending => Self::QueryPending,
            // A communicator exists only once it is connected, so the rest is one call in another.
            Usage::Busy | Usage::NotConnected | Usage::AlreadyConnected | _ => Self::Busy,
        }
    }
}

fn list(peers: &[PeerId]) -> String {
    let names: Vec<String> = peers.iter().map(PeerId::to_string).collect();
    names.join(", ")
}

/// A line that makes what is asked for.
const fn remedy(asked: Protocol) -> &'static str {
    match asked {
        Protocol::Plain => "Tcp::plain()",
        Protocol::Tls => "Tcp::new()",
        Protocol::Quic => "Quic::new() (cargo feature `quic`)",
    }
}
