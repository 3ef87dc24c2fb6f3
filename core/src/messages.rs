//! Everything that master and peers tell each other over the control connection.
//!
//! One message is one control frame (see [`wire`](crate::wire)). The first message of a peer is
//! [`ToMaster::Hello`]; the master's first is [`ToPeer::Welcome`] or [`ToPeer::Refused`].

use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

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
use crate::topology::{BrokenLinks, LaneFailure, Layout, LinkId, LinkOrder, Topology};

/// How a peer introduces itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Hello {
    /// What the peer speaks.
    pub protocol: ProtocolVersion,
    /// The group it wants to work in.
    pub group: GroupId,
    /// The port where it accepts lanes.
    pub port: u16,
    /// The address where others reach it; `None`: the one that the master sees.
    pub advertise: Option<IpAddr>,
    /// How many lanes per ring edge its transport would like, at least one.
    pub lanes: u16,
    /// The site that it is at.
    pub site: SiteName,
    /// What its user calls it.
    pub name: PeerName,
}

/// From a peer to the master.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ToMaster {
    /// The first message.
    Hello(Hello),
    /// Vote: admit who waits, and rebuild what is broken.
    UpdateTopology {
        /// Of the ring that the peer is on. A vote on an older ring than that of its group means nothing: a
        /// ring that was announced meanwhile has answered it.
        epoch: Epoch,
        /// Links that have lost a lane.
        broken: BrokenLinks,
    },
    /// All lanes of one link of `EstablishLinks` are up at this end. Each ordered link is reported once.
    LinkUp {
        /// The round of the order.
        round: Round,
        /// Which link.
        link: LinkId,
    },
    /// The lanes of one link of `EstablishLinks`, which this end was to open, could not be brought up. The other
    /// end has no such report.
    LinkFailed {
        /// The round of the order.
        round: Round,
        /// Which link.
        link: LinkId,
        /// What happened.
        failure: LaneFailure,
    },
    /// Vote: does anybody wait to be admitted? Legal in every state of an accepted peer.
    ArePeersPending,
    /// Vote: measure bandwidths and choose better rings.
    OptimizeTopology,
    /// A measurement.
    Measured {
        /// The round of the order.
        round: Round,
        /// Who received.
        to: PeerId,
        /// What this peer found when sending there.
        measured: Measurement,
    },
    /// The ordered measurements are over. Those not reported count as unreachable.
    ProbesDone {
        /// The round of the order.
        round: Round,
        /// False: this peer could not measure at all; the optimization fails for everybody.
        ok: bool,
    },
    /// Vote: bring the group's shared state to one content.
    SyncSharedState(SyncVote),
    /// This peer's part of the plan is over.
    SharedStateDone {
        /// The round of the plan.
        round: Round,
        /// Everything arrived whole and right (or was served).
        ok: bool,
        /// Of a peer that could not serve: whom. `None`: it does not say.
        with: Option<PeerId>,
    },
    /// Vote: start the collective of this tag.
    InitiateCollective {
        /// The user's name for it.
        tag: Tag,
        /// What to compute.
        spec: CollectiveSpec,
        /// The epoch of the ring that the peer has.
        epoch: Epoch,
        /// Links that have lost a lane.
        broken: BrokenLinks,
    },
    /// Vote: this peer's plan is over.
    CompleteCollective {
        /// Which execution.
        seq: Seq,
        /// How it ended here.
        outcome: PlanOutcome,
        /// Links that have lost a lane.
        broken: BrokenLinks,
    },
    /// Take a vote to start a collective back. Answered by `CollectiveRefused`, unless everybody had
    /// voted already: then the collective has started.
    Withdraw {
        /// The user's name for it.
        tag: Tag,
    },
    /// A sign of life.
    Heartbeat {
        /// Whether bytes of a collective, a transfer or a measurement have moved here since the last one.
        moved: bool,
    },
    /// The peer goes away on purpose.
    Leave,
    /// Who has not made the calls that the peer waits in? Answered by [`ToPeer::Awaited`], in every state. No vote, and
    /// nothing changes.
    WhoIsAwaited,
}

/// How a peer's own plan of a collective ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PlanOutcome {
    /// The whole result is here.
    Done,
    /// A lane broke or stalled.
    LaneLost,
    /// The user gave the operation up.
    Cancelled,
}

/// From the master to a peer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ToPeer {
    /// The hello was accepted; the peer is registered and waits to be admitted.
    Welcome {
        /// Who the peer is.
        peer: PeerId,
        /// Milliseconds between signs of life that the master asks for.
        heartbeat_ms: u32,
        /// After so many silent milliseconds each side counts the other as lost.
        silence_ms: u32,
    },
    /// The peer cannot take part; the connection ends.
    Refused(Refusal),
    /// Connect these links. Lanes of links that are not named stay as they are, and lanes of an
    /// earlier, unfinished round are given up.
    EstablishLinks {
        /// The attempt; reports carry it.
        round: Round,
        /// Each at most once.
        links: Vec<LinkOrder>,
    },
    /// The ring stands. Ends `connect` and `update_topology`; what else waits goes on waiting, on this
    /// ring.
    TopologyEstablished {
        /// The ring.
        topology: Topology,
        /// The links that this peer has, and which lanes they are.
        layout: Layout,
    },
    /// A major call is not carried out; the peer is idle again.
    CallFailed(CallFailure),
    /// Answer to `ArePeersPending`: the same for all, or yes to those that others wait for in a major
    /// call, or no to those that others wait for in a collective.
    PeersPending {
        /// Somebody is registered and waits.
        pending: bool,
    },
    /// Measure these, all at the same time. A newer order takes the place of an older one.
    Probe {
        /// The rotation; reports carry it.
        round: Round,
        /// The edges, and on which lanes they are measured.
        probes: Vec<LinkOrder>,
    },
    /// The optimization is over and, where a ring changed, `TopologyEstablished` came before.
    OptimizationConcluded {
        /// `None`: a peer could not measure or no ring was found; the rings are as they were.
        report: Option<RingReport>,
    },
    /// What to send or fetch.
    SharedStatePlan(SyncPlan),
    /// The synchronization is over.
    SharedStateConcluded {
        /// The round of the plan.
        round: Round,
        /// The revision that everybody now holds, or why nothing changed.
        result: Result<Revision, SyncFailure>,
    },
    /// Everybody voted for the same: execute it.
    Commence {
        /// The user's name for it.
        tag: Tag,
        /// The number of this execution.
        seq: Seq,
        /// How the contributions become the result, the same for all participants.
        algorithm: Algorithm,
        /// How many elements each participant contributes; empty if all buffers have the same length.
        lengths: Lengths,
        /// The sum of the weights of all contributions; zero if they have none.
        total_weight: u64,
    },
    /// The collective of this tag does not start; nothing was touched.
    CollectiveRefused {
        /// The user's name for it.
        tag: Tag,
        /// Why.
        reason: CollectiveRefusal,
    },
    /// The decision about a collective: the same for all participants.
    Verdict {
        /// The user's name for it.
        tag: Tag,
        /// Which execution.
        seq: Seq,
        /// What was decided.
        verdict: Verdict,
    },
    /// The peer broke the protocol or a rule; the connection ends.
    Kicked(Misdeed),
    /// Nothing but a sign of life.
    Heartbeat,
    /// The master goes away on purpose.
    Stopping,
    /// Answer to `WhoIsAwaited`, as of the moment when the question arrived. Each question has one, in their order.
    Awaited(Awaited),
}

/// What the master decided about one execution of a collective.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Verdict {
    /// Every element of the result holds the contribution of each peer of the ring exactly once.
    Committed {
        /// The epoch of the ring that contributed. Some of its peers may be gone.
        epoch: Epoch,
    },
    /// The buffers are to be as they were before the call.
    Aborted(AbortCause),
}

/// Why a collective was aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum AbortCause {
    /// A participant was lost before it had voted.
    PeerLost(PeerId),
    /// A participant reported a broken or stalled lane.
    LaneLost(PeerId),
    /// A participant's user gave the operation up.
    Cancelled(PeerId),
    /// It did not end in time.
    TimedOut,
}

impl fmt::Display for AbortCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PeerLost(peer) => write!(f, "{peer} was lost"),
            Self::LaneLost(peer) => write!(f, "{peer} lost a lane"),
            Self::Cancelled(peer) => write!(f, "{peer} gave the operation up"),
            Self::TimedOut => f.write_str("it did not end in time"),
        }
    }
}

/// What a peer has called and waits for.
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

/// Two peers wait for each other in different calls; this one gives way so that the other can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Conflict {
    /// The call that gives way.
    pub yours: CallKind,
    /// The call that goes on.
    pub theirs: CallKind,
    /// Who made it.
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
    /// Another peer's call has precedence.
    Conflict(Conflict),
}

/// Why a collective did not start. Nothing was touched.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CollectiveRefusal {
    /// The peers did not ask for the same under this tag: a mistake in the calling program.
    Disagreement {
        /// The first field that differs.
        field: SpecField,
        /// Peers that differ from the lowest-numbered voter in this field, that voter first.
        peers: Vec<PeerId>,
        /// What the first two of them ask for.
        values: [SpecValue; 2],
    },
    /// A member of the group waits in a major call, which has precedence.
    Conflict(Conflict),
    /// These peers did not join in time; they wait in collectives of other tags.
    NotJoined {
        /// Who did not vote for this tag.
        peers: Vec<PeerId>,
    },
    /// The peer that was to be the root of a broadcast is no participant: it has left, or never was in the group.
    NoSuchRoot {
        /// Who was to be the root.
        root: PeerId,
    },
    /// The shards that were to be gathered were laid out for other participants: since then peers have left or come.
    WorldChanged,
    /// The contributions have more elements together than the participants allow. Raise the limit on all of them, or
    /// contribute less.
    TooLong {
        /// Number of elements of all contributions; the largest `u64` if there are more.
        total: u64,
        /// The limit, the same on all participants.
        limit: u64,
    },
    /// The weights of all contributions are zero, so there is no average. Contribute something on one peer.
    NoWeight,
    /// The peer took its vote back before everybody had voted.
    Withdrawn,
}

/// Why a newcomer cannot take part. Its user reads this.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Refusal {
    /// The two speak different versions.
    Version {
        /// The master's.
        master: ProtocolVersion,
    },
    /// The run has as many peers as it may have.
    RunFull {
        /// The limit.
        peers_max: u32,
    },
    /// The hello makes no sense (port zero, no lanes).
    BadHello,
    /// Another peer could not open lanes to this one.
    CannotBeReached {
        /// Who tried.
        by: PeerId,
        /// Where.
        at: SocketAddr,
        /// What happened.
        failure: LaneFailure,
    },
    /// This peer could not open lanes to another one.
    CannotReach {
        /// Whom it tried to reach.
        peer: PeerId,
        /// Where.
        at: SocketAddr,
        /// What happened.
        failure: LaneFailure,
    },
    /// The master is going away.
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

/// Which rule a peer broke. The last thing it hears before the connection ends.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Misdeed {
    /// It said something that its state does not allow.
    WrongState {
        /// The state that the master had it in.
        state: ConnectionState,
        /// What it did.
        event: Event,
    },
    /// It voted or reported before it was accepted.
    NotAccepted,
    /// It said hello twice.
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
    /// It measured an edge that nobody asked for.
    UnaskedProbe,
    /// A frame could not be decoded, or was longer than allowed.
    Malformed,
    /// It has more collectives in flight than allowed.
    TooManyTags {
        /// The limit.
        tags_max: u32,
    },
    /// Its shared state has more entries than allowed, a name too long, or names out of order.
    BadManifest,
    /// Its entries are not those of the elected content.
    StateMismatch {
        /// How many of its entries the others lack or describe otherwise, plus how many it lacks.
        entries: u32,
        /// The first of them by name, up to [`MISMATCHES_NAMED_MAX`](crate::shared_state::MISMATCHES_NAMED_MAX).
        named: Vec<EntryMismatch>,
    },
    /// Its shared state is ahead of the group's next revision.
    RevisionAhead {
        /// The newest legal revision.
        expected: Revision,
        /// What it offered.
        offered: Revision,
    },
    /// It did not vote in time while others waited.
    MissedBallot,
    /// It neither ended its part of something nor moved any bytes for it, while others had.
    Stalled,
    /// It cancelled one collective or synchronization of its group after the other, and none succeeded in
    /// between.
    Cancels,
    /// No ring could be built with it.
    Unconnectable {
        /// The peer that could not be connected with it.
        with: PeerId,
    },
    /// It could not fetch the shared state from any peer that holds it.
    Unfetchable,
    /// It was silent for too long.
    Silent,
    /// It does not read what the master sends.
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
