//! Why a call did not do what it was asked for, and what its caller does next.

use std::net::SocketAddr;
use std::time::Duration;

use pccl_core::element::{ElementType, Quantization, SpecField, SpecValue};
use pccl_core::id::{PeerId, Tag};
use pccl_core::messages::{AbortCause, CollectiveRefusal, Conflict, Misdeed, Refusal};
use pccl_core::name::BadPeerName;
use pccl_core::peer::{CallError, Usage};
use pccl_core::shared_state::SyncFailure;
use pccl_core::site::BadSiteName;
use pccl_core::transport::{LaneError, Protocol};
use pccl_core::wire::{HandshakeError, MAX_ENTRY_NAME_BYTES};
use pccl_plane::Defect;
use pccl_trust::JoinError;

use crate::address::BadAddress;
use crate::advice::advice;
use crate::barrier::BARRIER;
use crate::suspects::{Waited, longer};

/// Why a call failed. Buffers and shared state are then as they were before the call, except for the result of
/// [`all_reduce_into`](crate::Communicator::all_reduce_into) and of
/// [`reduce_scatter_into`](crate::Communicator::reduce_scatter_into), which is unspecified, and what a gather or broadcast
/// receives [without a backup](crate::Gather::without_backup).
///
/// [`next`](Self::next) says what the caller does next. [`Rounds`](crate::Rounds) is a loop that does so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No connection to the master could be opened within
    /// [`connect_patience`](crate::Builder::connect_patience). The text says what to check. If the reason is
    /// [`HandshakeError::NotYet`], the master is busy, and connecting again later may succeed.
    #[error("the master at {master} cannot be reached: {reason}{}", advice(.reason))]
    MasterUnreachable {
        /// The address, as it was given.
        master: String,
        /// What happened.
        reason: HandshakeError,
    },
    /// The master's address, or the one given to [`Builder::advertise`](crate::Builder::advertise), is not an address.
    /// Correct it. Nothing was sent.
    #[error("{address:?} is no address: {reason}")]
    BadAddress {
        /// What was given.
        address: String,
        /// What is wrong with it.
        reason: BadAddress,
    },
    /// The join string is not valid. Copy it again from the output of the master.
    #[error("{0}")]
    BadJoinString(JoinError),
    /// The environment variable `PCCL_JOIN` is not set. Set it to what `pccl-master` prints at its start.
    #[error(
        "PCCL_JOIN is not set: set it to the join string that `pccl-master` prints at its start"
    )]
    NoJoinString,
    /// The master is on another machine. Without a join string this peer could neither authenticate the master nor
    /// encrypt. Nothing was sent.
    #[error(
        "the master at {master} is on another machine: connect with the join string that it prints at its \
         start, or say Tcp::plain() where everybody on the way may read and change what is sent"
    )]
    JoinStringNeeded {
        /// The address, as it was given.
        master: String,
    },
    /// The transport opens only encrypted lanes, and needs the key of the master. An address does not contain it; a
    /// join string does. Nothing was sent.
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
    /// The join string names one transport, and [`Builder::transport`](crate::Builder::transport) was given
    /// another. Leave that line out, or pass the transport of the join string. Nothing was sent.
    #[error(
        "the join string asks for {asked}, and Builder::transport was given a transport that speaks {given}: \
         leave that line out, and the join string chooses, or give it {}", remedy(*.asked)
    )]
    WrongTransport {
        /// The protocol of the run.
        asked: Protocol,
        /// The protocol of the transport.
        given: Protocol,
    },
    /// The name given to [`Builder::site`](crate::Builder::site) is not allowed. Choose another one. Nothing was sent.
    #[error("{0}; choose another name")]
    BadSite(BadSiteName),
    /// The name given to [`Builder::name`](crate::Builder::name) is not allowed. Choose another one. Nothing was sent.
    #[error("{0}")]
    BadName(BadPeerName),
    /// No port to accept lanes on could be taken.
    #[error("cannot listen on {on}: {reason}; {}", room(*.reason))]
    CannotListen {
        /// The last address that was tried.
        on: SocketAddr,
        /// What happened.
        reason: LaneError,
    },
    /// A time limit is zero. Nothing was sent. Leave the line out for the default.
    #[error(
        "Builder::{setting} was given no time at all, in which nothing can happen; give it some, or leave the line out for \
         the default"
    )]
    NoTime {
        /// The function of [`Builder`](crate::Builder) that set it.
        setting: &'static str,
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

    /// A participant or a lane was lost while the collective ran. All peers get this error. Call again.
    #[error("{} was aborted: {cause}{}; call again", named(*.tag), after_wait(.waited))]
    Aborted {
        /// The collective.
        tag: Tag,
        /// Why.
        cause: AbortCause,
        /// For whom this peer had waited, if nothing had moved for a second or more.
        waited: Option<Waited>,
    },
    /// The peers asked for different things under this tag, which is a mistake in the calling program.
    #[error(
        "{} did not start: the peers disagree on its {field}: {}; pass the same on all of them",
        named(*.tag), differing(.peers, .values)
    )]
    Disagreement {
        /// The collective.
        tag: Tag,
        /// What differs.
        field: SpecField,
        /// The lowest-numbered voter, then the peers that differ from it.
        peers: Vec<PeerId>,
        /// The values that the first two of them asked for.
        values: [SpecValue; 2],
    },
    /// Some peers wait in collectives of other tags, and did not join this one in time: the peers
    /// start more collectives than may be in flight, in different orders. Start the round again,
    /// as those peers do after their errors, and start the same collectives on all peers.
    #[error(
        "{} did not start: these peers did not join it in time, because they wait in collectives of other \
         tags: {}; start the round again, and collectives in the same order on all peers",
        named(*.tag), list(.peers)
    )]
    NotJoined {
        /// The collective.
        tag: Tag,
        /// The peers that did not join.
        peers: Vec<PeerId>,
    },
    /// The root of a broadcast does not take part: it has left the run, or is in another group. Start the round again,
    /// and agree on another one, for example the lowest of the [`contributors`](crate::CollectiveReport::contributors)
    /// of a [`barrier`](crate::Communicator::barrier).
    #[error(
        "{} did not start: its root, {root}, does not take part; a root is a peer id, and not a rank: start the \
         round again, and agree on another one", named(*.tag)
    )]
    NoSuchRoot {
        /// The collective.
        tag: Tag,
        /// The root.
        root: PeerId,
    },
    /// Peers have left or joined since the shards were computed, so this peer's shard may have changed;
    /// or a peer has passed the shard of another one.
    /// All peers get this error, and nothing was moved. Undo the changes in the old shard, and compute the shards
    /// again: `docs/collectives.md` has the loop.
    #[error(
        "{} did not start: peers have left or joined since the shards were computed, or a peer has passed the shard of \
         another one; go back to where shards are computed", named(*.tag)
    )]
    WorldChanged {
        /// The collective.
        tag: Tag,
    },
    /// The contributions to an [`all_gather_v`](crate::Communicator::all_gather_v) together exceed the limit.
    /// All peers get this error, and nothing was moved. Raise the limit on all peers
    /// ([`GatherV::at_most`](crate::GatherV::at_most)), or contribute less.
    #[error(
        "{} did not start: all contributions together have {total} elements, and the limit is {limit}; raise it on all \
         peers, or contribute less", named(*.tag)
    )]
    TooLong {
        /// The collective.
        tag: Tag,
        /// Number of elements of all contributions; `u64::MAX` if there are more.
        total: u64,
        /// The limit.
        limit: u64,
    },
    /// The weights of all contributions to a [weighted average](crate::Reduce::weighted_avg) are zero. All peers get
    /// this error, and nothing was moved. Leave the step out, or contribute something on one peer.
    #[error("{} did not start: the weights of all peers are zero; leave the step out", named(*.tag))]
    NoWeight {
        /// The collective.
        tag: Tag,
    },
    /// This peer gave the collective up before it started. Other peers that have called it wait on: call it again.
    #[error("{} was given up before it started", named(*.tag))]
    GivenUp {
        /// The collective.
        tag: Tag,
    },
    /// The time limit of this peer ([`Reduce::timeout`](crate::Reduce::timeout)) was over before all had called or its
    /// part of the collective was complete. The buffer is unchanged. If the collective had started, all other peers get
    /// [`Aborted`](Self::Aborted). Call again, as they do.
    #[error("{} was given up: its time limit of {limit:?} is over; call again", named(*.tag))]
    TimeLimit {
        /// The collective.
        tag: Tag,
        /// The limit.
        limit: Duration,
    },
    /// Another peer waits in a call that has precedence. Make that call first, then this one again. If the
    /// peers repeat their calls instead, the third one in a row goes through.
    #[error("{0}")]
    Conflict(Conflict),
    /// The shared state was not synchronized.
    #[error("{0}")]
    SyncFailed(SyncFailure),
    /// The measurements failed, and the rings are unchanged. Call again later.
    #[error("the topology could not be optimized; the rings are as they were")]
    OptimizationFailed,

    /// The connection to the master ended. Its decisions about open calls are unknown. Connect
    /// again and synchronize.
    ///
    /// A restarted master remembers no revision: the first peers that synchronize decide what
    /// their group holds, and a later peer with a higher revision is evicted
    /// ([`Misdeed::RevisionAhead`]). Let a peer that holds the state connect and synchronize before peers
    /// that do not. A peer that was away while its group was
    /// [restarted from older content](crate::SyncOptions#continuing-from-older-checkpoints) is evicted likewise.
    #[error("lost the master; connect again and synchronize the shared state")]
    MasterLost,
    /// The master's operator stopped it: the run is over.
    #[error("the master was stopped: the run is over")]
    MasterStopped,
    /// The master broke the protocol. Use the same release on both ends.
    #[error("the master does not speak this protocol; use the same release on both ends")]
    MasterMisbehaved,
    /// The master did not admit this peer.
    #[error("the master refused this peer: {0}")]
    Refused(Refusal),
    /// The master evicted this peer from the run.
    #[error("the master removed this peer from the run: {0}")]
    Kicked(Misdeed),
    /// This communicator was shut down.
    #[error("this communicator was shut down")]
    Left,
    /// The tokio runtime on which this communicator was connected has ended.
    #[error("the tokio runtime of this communicator has ended; connect where it outlives its use")]
    RuntimeEnded,
    /// A defect of this library: an assumption at the named place in its source does not hold. The
    /// collective was given up and fails on all peers. Please report it, with the place and the version.
    #[error("a defect of pccl: what is relied upon at {0} is not so; please report it")]
    Defect(Defect),

    /// This quantization does not support elements of this type, or does not exist; [`Quantization`] lists all of them.
    /// Nothing was sent. Ask for another one.
    #[error("{}", unsupported(*.element, *.quantization))]
    NotSupported {
        /// Type of the elements.
        element: ElementType,
        /// What was asked for.
        quantization: Quantization,
    },
    /// A reduce cannot be both [ordered](crate::Reduce::ordered) and quantized. Nothing was sent. Ask for one of the
    /// two.
    #[error("a reduce that is ordered cannot have {quantization} as well; ask for one of the two")]
    OrderedQuantized {
        /// What was asked for.
        quantization: Quantization,
    },
    /// A [weighted average](crate::Reduce::weighted_avg) needs floats. Nothing was sent. Convert the elements, or sum
    /// products of your own.
    #[error("a weighted average needs floats, and the elements are {element}; convert them")]
    WeightedIntegers {
        /// Type of the elements.
        element: ElementType,
    },
    /// A [weighted average](crate::Reduce::weighted_avg) takes no error feedback. Nothing was sent. Use an average
    /// without weights, or no feedback.
    #[error(
        "a weighted average takes no error feedback; use an average without weights, or no feedback"
    )]
    WeightedFeedback,
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
    /// The shard belongs to a buffer of another length. Call
    /// [`shard`](crate::Communicator::shard) with the length of this buffer. Nothing was sent.
    #[error("the shard is of a buffer of {shard_of} elements, and this one has {buffer_len}")]
    ShardMismatch {
        /// Elements of the buffer that the shard is of.
        shard_of: usize,
        /// Elements of the buffer.
        buffer_len: usize,
    },
    /// This process could not allocate the result of an [`all_gather_v`](crate::Communicator::all_gather_v) or of a
    /// [`reduce_scatter_into`](crate::Communicator::reduce_scatter_into). It gave the collective up, which aborts it on
    /// all peers. Lower the limit ([`GatherV::at_most`](crate::GatherV::at_most)), or reduce less at a time.
    #[error(
        "{tag} was given up: there is no memory for a result of {elements} elements; let it have fewer"
    )]
    OutOfMemory {
        /// The collective.
        tag: Tag,
        /// Elements of the result.
        elements: u64,
    },
    /// The tag names another collective of this communicator that has not ended, or another item of the list. Wait for
    /// the end of that one, or use another tag.
    #[error("{}", in_use(*.0))]
    TagInUse(Tag),
    /// A [handle](crate::CollectiveHandle) of a collective in the background has not been awaited.
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
    #[error("the shared state has two entries named {name:?}; give one of them another name")]
    DuplicateEntry {
        /// The name.
        name: String,
    },
    /// The name of an entry of a shared state is too long.
    #[error(
        "the name of an entry has {} bytes, and may have {MAX_ENTRY_NAME_BYTES}; it begins with {:?}",
        name.len(), beginning(name)
    )]
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

impl Error {
    /// For whom this peer had waited.
    pub(crate) const fn waited(&self) -> Option<Waited> {
        match self {
            Self::Aborted { waited, .. } => *waited,
            _ => None,
        }
    }

    /// The same error after this wait.
    pub(crate) fn after(self, wait: Option<Waited>) -> Self {
        match self {
            Self::Aborted { tag, cause, waited } => {
                let waited = longer(waited, wait);
                Self::Aborted { tag, cause, waited }
            }
            other => other,
        }
    }
}

impl From<CallError> for Error {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Aborted { tag, cause } => Self::Aborted {
                tag,
                cause,
                waited: None,
            },
            CallError::CollectiveRefused { tag, reason } => match reason {
                CollectiveRefusal::Disagreement {
                    field,
                    peers,
                    values,
                } => Self::Disagreement {
                    tag,
                    field,
                    peers,
                    values,
                },
                CollectiveRefusal::NotJoined { peers } => Self::NotJoined { tag, peers },
                CollectiveRefusal::NoSuchRoot { root } => Self::NoSuchRoot { tag, root },
                CollectiveRefusal::WorldChanged => Self::WorldChanged { tag },
                CollectiveRefusal::TooLong { total, limit } => Self::TooLong { tag, total, limit },
                CollectiveRefusal::NoWeight => Self::NoWeight { tag },
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

/// How an error goes on after its cause.
fn after_wait(waited: &Option<Waited>) -> String {
    waited.map_or_else(String::new, |waited| {
        format!("; this peer had waited {waited}")
    })
}

/// How a user knows the collective: one of the tags is that of barriers.
fn named(tag: Tag) -> String {
    match tag == BARRIER {
        true => "a barrier".to_owned(),
        false => tag.to_string(),
    }
}

/// Who asked for what.
fn differing(peers: &[PeerId], values: &[SpecValue; 2]) -> String {
    let [one, other] = values;
    match peers {
        [first, second] => format!("{first} asked for {one}, {second} for {other}"),
        [first, second, others @ ..] => format!(
            "{first} asked for {one}, {second} for {other}, and these differ from {first} as well: {}",
            list(others)
        ),
        [_] | [] => format!("{one}, {other}"),
    }
}

/// Why a tag cannot name another collective.
fn in_use(tag: Tag) -> String {
    match tag == BARRIER {
        true => "two barriers cannot run at once; wait for the end of the first one".to_owned(),
        false => format!(
            "{tag} cannot name two collectives at once; wait for the end of the first one, or give the second one a tag \
             of its own"
        ),
    }
}

/// What to do about a port that cannot be taken.
const fn room(reason: LaneError) -> &'static str {
    match reason {
        LaneError::AddressNotAvailable => "give Builder::listen an address of this machine",
        // Whatever it is, another place may do.
        _ => "choose another address or first port",
    }
}

fn unsupported(element: ElementType, quantization: Quantization) -> String {
    match quantization {
        // Feedback alone asks for floats without it.
        Quantization::None => {
            format!("there is no error feedback for {element} elements, only for floats")
        }
        _ if !element.is_float() => {
            format!("{element} elements cannot be quantized, only floats can")
        }
        Quantization::MinMax { .. }
        | Quantization::ZeroPointScale { .. }
        | Quantization::Blockwise4 => {
            format!(
                "there is no {quantization} of {element} elements; see Quantization for what there is"
            )
        }
    }
}

/// Enough of a text to find it by.
fn beginning(text: &str) -> String {
    text.chars().take(32).collect()
}

/// A line that makes what is asked for.
const fn remedy(asked: Protocol) -> &'static str {
    match asked {
        Protocol::Plain => "Tcp::plain()",
        Protocol::Tls => "Tcp::new()",
        Protocol::Quic => "Quic::new() (cargo feature `quic`)",
    }
}
