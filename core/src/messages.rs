//! All messages between master and peers over the control connection.
//!
//! One message is one control frame (see [`wire`](crate::wire)). The first message of a peer is [`ToMaster::Hello`];
//! the master's first is [`ToPeer::Welcome`] or [`ToPeer::Refused`].

use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

pub use crate::reserved::Reserved;

use crate::awaited::Awaited;
use crate::element::{CollectiveSpec, SpecField, SpecValue};
use crate::id::{Epoch, GroupId, PeerId, ProtocolVersion, Revision, Round, Seq, Tag};
use crate::lengths::Lengths;
use crate::name::PeerName;
use crate::paths::{Measurement, RingReport};
use crate::plan::Algorithm;
use crate::shared_state::{EntryMismatch, SyncFailure, SyncPlan, SyncVote};
use crate::site::SiteName;
use crate::states::{ConnectionState, Event};
use crate::topology::{BrokenLinks, LaneFailure, Layout, LinkId, LinkOrder, Topology, Way};

/// The introduction of a peer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Hello {
    /// The protocol version of the peer.
    pub protocol: ProtocolVersion,
    /// The group that the peer joins.
    pub group: GroupId,
    /// The port on which it accepts lanes.
    pub port: u16,
    /// The address at which others reach it. `None`: the address that the master sees.
    pub advertise: Option<IpAddr>,
    /// Number of lanes per ring edge that its transport wants, at least one.
    pub lanes: u16,
    /// The site of the peer.
    pub site: SiteName,
    /// The name that its user gives it.
    pub name: PeerName,
}

/// A message from a peer to the master.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ToMaster {
    /// The first message.
    Hello(Hello),
    /// Vote: admit the waiting newcomers, and rebuild broken links.
    UpdateTopology {
        /// The epoch of the peer's ring. A vote with an older epoch than that of the group's ring is ignored: the
        /// announcement of the newer ring was its answer.
        epoch: Epoch,
        /// Links that have lost a lane.
        broken: BrokenLinks,
    },
    /// All lanes of one link of `EstablishLinks` are up at this end. Each ordered link is reported once.
    LinkUp {
        /// The round of the order.
        round: Round,
        /// The link.
        link: LinkId,
    },
    /// The lanes of one link of `EstablishLinks`, which this end was to open, did not come up. The other end does not
    /// report it.
    LinkFailed {
        /// The round of the order.
        round: Round,
        /// The link.
        link: LinkId,
        /// The reason.
        failure: LaneFailure,
    },
    /// Vote: whether newcomers wait to be admitted. Legal in every state of an accepted peer.
    ArePeersPending,
    /// Vote: measure the paths, and choose better rings.
    OptimizeTopology,
    /// One measurement.
    Measured {
        /// The round of the order.
        round: Round,
        /// The receiver of the measured edge.
        to: PeerId,
        /// The measurement, by this peer as the sender.
        measured: Measurement,
    },
    /// The ordered measurements are over. Edges without a report count as unreachable.
    ProbesDone {
        /// The round of the order.
        round: Round,
        /// Whether this peer could measure at all. If not, the optimization fails on all peers.
        ok: bool,
    },
    /// Vote: bring the group's shared state to one content.
    SyncSharedState(SyncVote),
    /// This peer's part of the plan is over.
    SharedStateDone {
        /// The round of the plan.
        round: Round,
        /// Whether all content arrived complete and correct, or was served.
        ok: bool,
        /// The peer that could not be served, on a serving peer. `None`: not said.
        with: Option<PeerId>,
    },
    /// Vote: start the collective of this tag.
    InitiateCollective {
        /// The tag.
        tag: Tag,
        /// The specification of the collective.
        spec: CollectiveSpec,
        /// The epoch of the peer's ring.
        epoch: Epoch,
        /// Links that have lost a lane.
        broken: BrokenLinks,
    },
    /// Vote on the outcome: this peer's plan is over. It may come before [`ToPeer::Commence`] if the execution was
    /// [reserved](Reserved), the peer has voted to start it, and the outcome is [`PlanOutcome::Done`].
    CompleteCollective {
        /// The execution.
        seq: Seq,
        /// The outcome on this peer.
        outcome: PlanOutcome,
        /// Links that have lost a lane.
        broken: BrokenLinks,
    },
    /// Withdraws a vote to start a collective. The master answers with `CollectiveRefused`, unless all peers had
    /// voted already and the collective has started.
    Withdraw {
        /// The tag.
        tag: Tag,
    },
    /// A sign of life.
    Heartbeat {
        /// Whether bytes of a collective, a transfer or a measurement have moved on this peer since the last
        /// heartbeat.
        moved: bool,
    },
    /// The peer leaves on purpose.
    Leave,
    /// Asks which peers have not made the calls in which this peer waits. Answered by [`ToPeer::Awaited`], in every
    /// state. It is not a vote, and changes nothing.
    WhoIsAwaited,
}

/// The outcome of a peer's own plan of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PlanOutcome {
    /// The whole result is here.
    Done,
    /// A lane broke or stalled.
    LaneLost,
    /// The user gave up the operation.
    Cancelled,
}

/// A message from the master to a peer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ToPeer {
    /// The hello was accepted. The peer is registered, and waits to be admitted.
    Welcome {
        /// The peer's id.
        peer: PeerId,
        /// Interval of heartbeats, in milliseconds.
        heartbeat_ms: u32,
        /// After a silence of this many milliseconds each side gives up the other.
        silence_ms: u32,
    },
    /// The peer cannot take part. The connection ends.
    Refused(Refusal),
    /// Connect these links. Lanes of other links stay unchanged, and lanes of an earlier, unfinished round are
    /// dropped.
    EstablishLinks {
        /// The attempt. Reports carry it.
        round: Round,
        /// The links, each at most once.
        links: Vec<LinkOrder>,
    },
    /// The ring is established. Ends `connect` and `update_topology`; other waiting calls continue to wait, on this
    /// ring.
    TopologyEstablished {
        /// The ring.
        topology: Topology,
        /// The links of this peer, and the round of their lanes.
        layout: Layout,
    },
    /// A major call is not carried out. The peer is idle again.
    CallFailed(CallFailure),
    /// The answer to `ArePeersPending`. All peers get the same answer, except that a peer for which others wait gets
    /// `true` if they wait in a major call, and `false` if they wait in a collective.
    PeersPending {
        /// Whether a registered peer waits to be admitted.
        pending: bool,
    },
    /// Measure these edges, all at the same time. A newer order replaces an older one.
    Probe {
        /// The rotation. Reports carry it.
        round: Round,
        /// The edges, and the lanes on which to measure them.
        probes: Vec<LinkOrder>,
    },
    /// The optimization is over. If a ring has changed, `TopologyEstablished` came before.
    OptimizationConcluded {
        /// The report. `None`: a peer could not measure, or no ring was found; the rings are unchanged.
        report: Option<RingReport>,
    },
    /// What to send or fetch.
    SharedStatePlan(SyncPlan),
    /// The synchronization is over.
    SharedStateConcluded {
        /// The round of the plan.
        round: Round,
        /// The revision that all peers now hold, or why nothing changed.
        result: Result<Revision, SyncFailure>,
    },
    /// All peers voted for the same collective: execute it.
    Commence {
        /// The tag.
        tag: Tag,
        /// The number of this execution.
        seq: Seq,
        /// The algorithm, the same for all participants.
        algorithm: Algorithm,
        /// Number of elements that each participant contributes. Empty if all buffers have the same length.
        lengths: Lengths,
        /// The sum of the weights of all contributions; zero if they have none.
        total_weight: u64,
    },
    /// The collective of this tag does not start. What was begun ahead is void, so all buffers are as they were.
    CollectiveRefused {
        /// The tag.
        tag: Tag,
        /// The reason.
        reason: CollectiveRefusal,
    },
    /// The decision about a collective, the same for all participants.
    Verdict {
        /// The tag.
        tag: Tag,
        /// The execution.
        seq: Seq,
        /// The decision.
        verdict: Verdict,
    },
    /// The peer broke a rule, and is evicted. The connection ends.
    Kicked(Misdeed),
    /// A sign of life.
    Heartbeat,
    /// The master stops on purpose.
    Stopping,
    /// The answer to `WhoIsAwaited`, as of the arrival of the question. Questions are answered in order.
    Awaited(Awaited),
}

/// The master's decision about one execution of a collective.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Verdict {
    /// Committed: each element of the result holds the contribution of each peer of the ring exactly once.
    Committed {
        /// The epoch of the ring that contributed. Some of its peers may have left since.
        epoch: Epoch,
        /// A participant that calls the same collective again may begin it ahead, under this number. `None`: it may not.
        next: Option<Reserved>,
    },
    /// Aborted: restore the buffers to their content before the call.
    Aborted(AbortCause),
}

/// Why a collective was aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum AbortCause {
    /// A participant was lost before its vote.
    PeerLost(PeerId),
    /// A participant reported a broken or stalled lane.
    LaneLost {
        /// The participant.
        by: PeerId,
        /// The link that lost the lane, as `by` names it; of several, the first one. Either end may be the cause, or the
        /// path between them. `None`: `by` did not say which.
        link: Option<LinkId>,
    },
    /// The user of a participant gave up the operation.
    Cancelled(PeerId),
    /// The deadline passed.
    TimedOut,
}

impl fmt::Display for AbortCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PeerLost(peer) => write!(f, "{peer} was lost"),
            Self::LaneLost { by, link: None } => write!(f, "{by} lost a lane"),
            Self::LaneLost {
                by,
                link: Some(LinkId { way, with }),
            } => match way {
                Way::Out => write!(f, "{by} lost a lane on which it sends to {with}"),
                Way::In => write!(f, "{by} lost a lane on which it receives from {with}"),
            },
            Self::Cancelled(peer) => write!(f, "{peer} gave the operation up"),
            Self::TimedOut => f.write_str("it did not end in time"),
        }
    }
}

/// The kind of a call in which a peer waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CallKind {
    /// `update_topology`
    UpdateTopology,
    /// `optimize_topology`
    OptimizeTopology,
    /// `sync_shared_state`
    SyncSharedState,
    /// A collective.
    Collective,
}

impl fmt::Display for CallKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UpdateTopology => "update_topology",
            Self::OptimizeTopology => "optimize_topology",
            Self::SyncSharedState => "sync_shared_state",
            Self::Collective => "a collective",
        })
    }
}

/// Two peers wait for each other in different calls. This one gives way, so that the other can continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Conflict {
    /// The call that gives way.
    pub yours: CallKind,
    /// The call that continues.
    pub theirs: CallKind,
    /// The peer that made that call.
    pub peer: PeerId,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} called {} while this peer called {}; call {} first, then try again",
            self.peer, self.theirs, self.yours, self.theirs
        )
    }
}

/// Why a major call was not carried out. The peer is accepted and idle, as before the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CallFailure {
    /// Another peer's call has precedence. Make that call first.
    Conflict(Conflict),
}

/// Why a collective did not start. No buffer was changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CollectiveRefusal {
    /// The peers asked for different collectives under this tag, which is a mistake of the calling program.
    Disagreement {
        /// The first field that differs.
        field: SpecField,
        /// The lowest-numbered voter, then the peers that differ from it in this field.
        peers: Vec<PeerId>,
        /// The values of the first two of these peers.
        values: [SpecValue; 2],
    },
    /// A member of the group waits in a major call, which has precedence.
    Conflict(Conflict),
    /// These peers did not join in time. They wait in collectives of other tags.
    NotJoined {
        /// The peers that did not vote for this tag.
        peers: Vec<PeerId>,
    },
    /// The root of the broadcast is not a participant: it has left, or never was in the group.
    NoSuchRoot {
        /// The root.
        root: PeerId,
    },
    /// The shards to be gathered were laid out for other participants. Peers have left or joined since.
    WorldChanged,
    /// The contributions together have more elements than the limit. Raise the limit on all participants, or
    /// contribute fewer.
    TooLong {
        /// Number of elements of all contributions, saturating at `u64::MAX`.
        total: u64,
        /// The limit, the same on all participants.
        limit: u64,
    },
    /// The weights of all contributions are zero, so there is no average.
    NoWeight,
    /// The peer withdrew its vote before all peers had voted.
    Withdrawn,
}

/// Why a newcomer cannot take part. The text is for its user.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Refusal {
    /// Master and peer have different protocol versions.
    Version {
        /// The master's version.
        master: ProtocolVersion,
    },
    /// The run has its maximum number of peers.
    RunFull {
        /// The maximum.
        peers_max: u32,
    },
    /// The hello is invalid (port zero, or no lanes).
    BadHello,
    /// The hello did not arrive within the master's time limit of a handshake.
    SlowHello,
    /// Another peer could not open lanes to this one.
    CannotBeReached {
        /// That peer.
        by: PeerId,
        /// The address that it tried.
        at: SocketAddr,
        /// The reason.
        failure: LaneFailure,
    },
    /// This peer could not open lanes to another one.
    CannotReach {
        /// That peer.
        peer: PeerId,
        /// The address that this peer tried.
        at: SocketAddr,
        /// The reason.
        failure: LaneFailure,
    },
    /// The master is stopping.
    Stopping,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version { master } => write!(
                f,
                "the master speaks {master}, this peer {}; use the same release on both",
                ProtocolVersion::CURRENT
            ),
            Self::RunFull { peers_max } => write!(
                f,
                "the run is full: the limit is {peers_max}; connect again when a peer has left, or raise the master's limit"
            ),
            Self::BadHello => f.write_str("the master could not make sense of the hello"),
            Self::SlowHello => {
                f.write_str("the hello did not reach the master in time; connect again")
            }
            Self::CannotBeReached { by, at, failure } => {
                write!(f, "{by} cannot reach this peer at {at}: {failure}; ")?;
                if at.ip().is_loopback() {
                    f.write_str("a loopback address serves peers on the master's machine only: connect to the master by its public address, or advertise one")
                } else {
                    f.write_str("open that port in the firewall, or advertise another address")
                }
            }
            Self::CannotReach { peer, at, failure } => {
                write!(f, "this peer cannot reach {peer} at {at}: {failure}")?;
                if at.ip().is_loopback() {
                    f.write_str("; that peer is known by a loopback address only")?;
                }
                Ok(())
            }
            Self::Stopping => f.write_str("the master is stopping"),
        }
    }
}

/// The rule that an evicted peer broke. It is the last message before the connection ends.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Misdeed {
    /// It sent a message that its state does not permit.
    WrongState {
        /// Its state, as the master knew it.
        state: ConnectionState,
        /// The event.
        event: Event,
    },
    /// It voted or reported before it was accepted.
    NotAccepted,
    /// It sent a second hello.
    SecondHello,
    /// It voted twice in the same ballot.
    DuplicateVote,
    /// It started a tag that it already runs.
    DuplicateTag {
        /// The tag.
        tag: Tag,
    },
    /// It reported about a round or an operation that was never started.
    UnknownRound,
    /// It measured an edge that was not ordered.
    UnaskedProbe,
    /// It sent a frame that could not be decoded, or was longer than permitted.
    Malformed,
    /// It has more collectives in flight than permitted.
    TooManyTags {
        /// The limit.
        tags_max: u32,
    },
    /// Its shared state has too many entries, a name that is too long, or names out of order.
    BadManifest,
    /// Its entries are not those of the elected content.
    StateMismatch {
        /// Number of its entries that the others lack or describe differently, plus the number that it lacks.
        entries: u32,
        /// The first of them by name, up to [`MISMATCHES_NAMED_MAX`](crate::shared_state::MISMATCHES_NAMED_MAX).
        named: Vec<EntryMismatch>,
    },
    /// Its shared state is ahead of the group's next revision. A peer that counts something else than synchronizations
    /// gets this, and one that comes back to a group that has gone on from older content meanwhile.
    RevisionAhead {
        /// The newest legal revision.
        expected: Revision,
        /// The revision that it offered.
        offered: Revision,
    },
    /// It did not vote in time while others waited.
    MissedBallot,
    /// It neither ended its part of an operation nor moved bytes of it, while others waited.
    Stalled,
    /// It repeatedly cancelled collectives or synchronizations of its group, and none succeeded in between.
    Cancels,
    /// No ring could be built with it.
    Unconnectable {
        /// A peer that could not be connected with it.
        with: PeerId,
    },
    /// It could not fetch the shared state from any of its holders.
    Unfetchable,
    /// It was silent for too long.
    Silent,
    /// It does not read the messages of the master.
    SlowReader,
}

impl fmt::Display for Misdeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongState { state, event } => {
                write!(f, "{event:?} is not allowed in state {state:?}")
            }
            Self::NotAccepted => f.write_str("it voted before it was accepted"),
            Self::SecondHello => f.write_str("it said hello twice"),
            Self::DuplicateVote => f.write_str("it voted twice in one ballot"),
            Self::DuplicateTag { tag } => write!(f, "it started {tag} twice"),
            Self::UnknownRound => f.write_str("it reported about something that was never ordered"),
            Self::UnaskedProbe => f.write_str("it reported a measurement that was never ordered"),
            Self::Malformed => f.write_str("it sent something that cannot be decoded"),
            Self::TooManyTags { tags_max } => {
                write!(f, "it has more than {tags_max} collectives in flight")
            }
            Self::BadManifest => {
                f.write_str("its shared state has too many, too long or unsorted names")
            }
            Self::StateMismatch { entries, named } => {
                f.write_str("its shared state is not that of the other peers: ")?;
                for entry in named {
                    write!(f, "{entry}; ")?;
                }
                let others = u64::from(*entries).saturating_sub(named.len() as u64);
                if others > 0 {
                    write!(f, "{others} other entries differ; ")?;
                }
                f.write_str("give all peers the same entries")
            }
            Self::RevisionAhead { expected, offered } => {
                write!(
                    f,
                    "it offers {offered} where {} is next; a revision counts synchronizations: add one to \
                     it between two of them",
                    expected.0
                )
            }
            Self::MissedBallot => f.write_str("it did not vote in time"),
            Self::Stalled => f.write_str("it made no progress with what others waited for"),
            Self::Cancels => {
                f.write_str("it cancelled every collective or synchronization, and none succeeded")
            }
            Self::Unconnectable { with } => {
                write!(f, "no lanes could be built between it and {with}")
            }
            Self::Unfetchable => {
                f.write_str("it could not fetch the shared state from any peer that holds it")
            }
            Self::Silent => f.write_str("it was silent for too long"),
            Self::SlowReader => f.write_str("it does not read what the master sends"),
        }
    }
}
