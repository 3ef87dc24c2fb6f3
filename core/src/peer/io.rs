//! What goes into the peer machine and what comes out.

use core::time::Duration;

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::awaited::Awaited;
use crate::element::CollectiveSpec;
use crate::id::{CallId, ContentHash, EntryIndex, GroupId, PeerId, Revision, Round, Seq, Tag};
use crate::lengths::Lengths;
use crate::messages::{
    AbortCause, CollectiveRefusal, Conflict, Misdeed, PlanOutcome, Refusal, ToMaster, ToPeer,
};
use crate::name::PeerName;
use crate::paths::{Measurement, RingReport};
use crate::plan::Algorithm;
use crate::shared_state::{SyncFailure, SyncPlan, SyncVote};
use crate::site::SiteName;
use crate::topology::{LaneFailure, LinkId, LinkOrder, Topology};

/// A fact that happened to a peer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PeerInput {
    /// The user called something.
    Call {
        /// Names the call until it is answered or given up. No other call that is open has this name.
        call: CallId,
        /// What is called.
        what: Call,
    },
    /// Nobody waits for this call any more: it has no answer. A collective is given up with it, and fails on
    /// all peers unless it was committed; a vote that was cast stands. A call that is not open has been
    /// answered meanwhile, which its caller cannot always know: nothing happens.
    GiveUp {
        /// Which call.
        call: CallId,
    },
    /// The user leaves the run. Every open call is answered by [`CallError::Left`], then
    /// [`PeerOutput::Close`].
    Leave,
    /// The master said something.
    Message(ToPeer),
    /// The control connection ended.
    MasterDisconnected,
    /// The master sent something that is not a message.
    MasterMisbehaved,
    /// All lanes of one link of [`PeerOutput::Establish`] are up, at this end.
    LinkUp {
        /// The round of the order.
        round: Round,
        /// Which link.
        link: LinkId,
    },
    /// A lane of a link of [`PeerOutput::Establish`] that this end dials did not come up.
    LinkFailed {
        /// The round of the order.
        round: Round,
        /// Which link.
        link: LinkId,
        /// What happened.
        failure: LaneFailure,
    },
    /// Bytes of a collective, a transfer or a measurement have moved since this was said last. The driver
    /// says so before it hands in [`PeerTimer::HeartbeatDue`].
    Moved,
    /// A lane of a standing link ended or stalled, or one that is up and waits to become standing.
    /// Comes before the [`PlanEnded`](Self::PlanEnded) of the collective that noticed it, so that the
    /// vote on that collective carries it.
    LinkBroke {
        /// Which link.
        link: LinkId,
        /// The round in which that lane was built: a late report about replaced lanes is ignored.
        built: Round,
    },
    /// The data plane has ended [`PeerOutput::RunPlan`].
    PlanEnded {
        /// Which execution.
        seq: Seq,
        /// How.
        outcome: PlanOutcome,
    },
    /// The transfers of [`PeerOutput::MoveState`] are over at this end.
    TransfersEnded {
        /// The round of the plan.
        round: Round,
        /// Everything was served, or arrived whole and right.
        ok: bool,
        /// Who could not be served, where somebody could not.
        with: Option<PeerId>,
    },
    /// One measurement of [`PeerOutput::Probe`] is there.
    Measured {
        /// The round of the order.
        round: Round,
        /// Who received.
        to: PeerId,
        /// What was found.
        measured: Measurement,
    },
    /// The measurements of [`PeerOutput::Probe`] are over.
    ProbesEnded {
        /// The round of the order.
        round: Round,
        /// False: this peer could not measure at all.
        ok: bool,
    },
    /// The driver wants to know who has not made the calls that are open here. Before the welcome and after the end of
    /// the run nobody is asked.
    AskWhoIsAwaited,
    /// A timer that was started has run out.
    TimerFired(PeerTimer),
}

/// What a user can ask a peer for. Each call is answered by exactly one [`Answer`], unless it is
/// [given up](PeerInput::GiveUp): then by none.
///
/// A call that is not possible ([`CallError::Usage`]), or that comes after the end of the run, is
/// answered within the same [`handle`](super::Peer::handle), without effect. One that only calls which
/// were given up stand in the way of waits until they have ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Call {
    /// Say hello and wait to be admitted. Answered by [`Answer::Connected`]. The connection to the
    /// master is open already; its welcome has to come within
    /// [`WELCOME_LIMIT`](super::WELCOME_LIMIT), an admission may take as long as the run likes.
    Connect,
    /// Admit newcomers, rebuild what is broken. Answered by [`Answer::TopologyUpdated`].
    ///
    /// Where this is a peer's first call after [`Connect`](Self::Connect)
    /// ([`ArePeersPending`](Self::ArePeersPending) apart), it is answered at once with the present
    /// topology and nothing is sent: the update of the others that admitted the peer was this
    /// iteration's update for it too. So one loop of update, synchronize, reduce serves old peers and
    /// newcomers alike; a newcomer that voted here would wait for peers that already synchronize.
    UpdateTopology,
    /// Does anybody wait? Answered by [`Answer::PeersPending`].
    ArePeersPending,
    /// Measure and choose better rings. Answered by [`Answer::TopologyOptimized`].
    OptimizeTopology,
    /// Bring the shared state to one content. Answered by [`Answer::Synchronized`], without any
    /// [`PeerOutput::MoveState`] before it where all hold the same already.
    SyncSharedState(SyncVote),
    /// Start a collective. Answered by [`Answer::CollectiveEnded`]. As many as
    /// [`PeerConfig::collectives_max`] are in flight; others wait for their turn, in the order of the calls.
    Initiate {
        /// The user's name for it.
        tag: Tag,
        /// What to compute.
        spec: CollectiveSpec,
    },
}

/// What the driver has to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PeerOutput {
    /// Send a message to the master.
    Send(ToMaster),
    /// Tell the caller how its call ended.
    Answer {
        /// Which call.
        call: CallId,
        /// How.
        answer: Answer,
    },
    /// Connect links. Lanes of an earlier round that did not lead to
    /// [`AdoptRing`](Self::AdoptRing) are to be dropped; standing links stay until then, also if the
    /// same link is ordered here: the attempt may fail and another ring be chosen. An order without any
    /// link only drops; it needs no answer.
    Establish {
        /// The attempt.
        round: Round,
        /// Each once.
        links: Vec<LinkOrder>,
    },
    /// This is the ring from here on. All lanes that are not named here are to be dropped.
    AdoptRing {
        /// The ring.
        topology: Topology,
        /// The links of this peer from here on, in the order of their names.
        links: Vec<AdoptedLink>,
    },
    /// Run this peer's plan; answer with [`PeerInput::PlanEnded`].
    RunPlan {
        /// The call that it is for.
        call: CallId,
        /// The user's name for it.
        tag: Tag,
        /// The number in the frames.
        seq: Seq,
        /// What to compute. Its count is that of all contributions together, if these have different lengths.
        spec: CollectiveSpec,
        /// How many elements each rank contributes; empty if all buffers have the same length.
        lengths: Lengths,
        /// How: by the [`Plan`](crate::plan::Plan) of this algorithm, for which there are all links.
        algorithm: Algorithm,
    },
    /// Frames of this execution are nobody's from here on: throw away those that are there and those that come
    /// later. If this peer's plan still runs, give it up and restore the buffer; no report is
    /// needed. Ordered once for each execution that has commenced here, also for one that this peer never
    /// ran because its user had given it up.
    StopPlan {
        /// Which execution.
        seq: Seq,
    },
    /// Serve or fetch shared state; answer with [`PeerInput::TransfersEnded`]. What arrives is kept
    /// aside until [`CommitState`](Self::CommitState).
    MoveState {
        /// The call that it is for.
        call: CallId,
        /// What to move.
        plan: SyncPlan,
    },
    /// Write what was fetched to the user's memory.
    CommitState {
        /// The round of the plan.
        round: Round,
    },
    /// Forget what was fetched.
    DropState {
        /// The round of the plan.
        round: Round,
    },
    /// Measure these edges, all at the same time; answer with [`PeerInput::Measured`] for each on which this
    /// peer sends, then [`PeerInput::ProbesEnded`]. What was ordered before is to be dropped.
    Probe {
        /// The rotation.
        round: Round,
        /// On which lanes.
        probes: Vec<LinkOrder>,
    },
    /// Drop what was ordered to be measured and has not ended; no report is needed.
    StopProbes {
        /// The rotation.
        round: Round,
    },
    /// What the master answers to [`PeerInput::AskWhoIsAwaited`]. Questions are answered in their order, as long as the
    /// peer is in the run. A master that misbehaves may answer what was not asked.
    Awaited(Awaited),
    /// Start the timer, or start it anew.
    StartTimer {
        /// Which.
        timer: PeerTimer,
        /// How long.
        after: Duration,
    },
    /// Stop the timer.
    StopTimer(PeerTimer),
    /// The peer is out of the run: close everything once what was sent has gone out. Nothing follows
    /// but the answers to calls that come later.
    Close,
}

/// A link from here on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AdoptedLink {
    /// Which link.
    pub link: LinkId,
    /// Which lanes it is.
    pub lanes: AdoptedLanes,
}

/// Which lanes are a link from here on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum AdoptedLanes {
    /// Those that stand. What was connected for this link since is to be dropped.
    Keep,
    /// Those that were connected in this round, which are up. What stood before is to be dropped.
    Use(Round),
}

/// Everything that a peer can be waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PeerTimer {
    /// Time to give the master a sign of life.
    HeartbeatDue,
    /// The master has been silent for too long.
    MasterSilence,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Answer {
    /// To [`Call::Connect`]: the peer is accepted.
    Connected(Result<Joined, CallError>),
    /// To [`Call::UpdateTopology`].
    TopologyUpdated(Result<Topology, CallError>),
    /// To [`Call::ArePeersPending`].
    PeersPending(Result<bool, CallError>),
    /// To [`Call::OptimizeTopology`].
    TopologyOptimized(Result<Optimized, CallError>),
    /// To [`Call::SyncSharedState`].
    Synchronized(Result<Synchronized, CallError>),
    /// To [`Call::Initiate`]. On every error that is not a [`CallError::Usage`] the driver leaves the
    /// buffer as it was before the call, also where the plan had finished here: only a verdict makes
    /// the result valid.
    CollectiveEnded {
        /// The user's name for it.
        tag: Tag,
        /// The verdict, or why there was none.
        result: Result<Committed, CallError>,
    },
}

/// The group's ring is the best that was found.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Optimized {
    /// The ring that stands.
    pub topology: Topology,
    /// What it was before, and what can be expected of both.
    pub report: RingReport,
}

/// The peer is part of the run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Joined {
    /// Who it is.
    pub peer: PeerId,
    /// The first ring that it is in.
    pub topology: Topology,
}

/// The group's shared state is one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Synchronized {
    /// The revision that everybody holds.
    pub revision: Revision,
    /// What this peer fetched; empty where its content was the elected one.
    pub fetched: Vec<(EntryIndex, ContentHash)>,
}

/// The collective is committed, on every participant.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Committed {
    /// Which execution.
    pub seq: Seq,
    /// Whose contributions the result holds, in ring order.
    pub contributors: Vec<PeerId>,
}

/// Why a call did not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// A participant was lost, or a lane: the buffers are as they were. Call again.
    #[error("{tag} was aborted: {cause}; call again")]
    Aborted {
        /// The collective.
        tag: Tag,
        /// Why.
        cause: AbortCause,
    },
    /// The collective did not start.
    #[error("{tag} did not start: {reason:?}")]
    CollectiveRefused {
        /// The collective.
        tag: Tag,
        /// Why.
        reason: CollectiveRefusal,
    },
    /// Another peer's call has precedence.
    #[error("{0}")]
    Conflict(Conflict),
    /// The shared state was not synchronized; no content was changed.
    #[error("{0}")]
    SyncFailed(SyncFailure),
    /// Measuring failed; the rings are as they were. Call again, later.
    #[error("the topology could not be optimized; the rings are as they were")]
    OptimizationFailed,
    /// The master is gone, and this run with it for this peer. What was decided about open calls is
    /// unknown; buffers are as they were. Join again and synchronize.
    #[error("lost the master")]
    MasterLost,
    /// The master ended on purpose.
    #[error("the master was stopped")]
    MasterStopped,
    /// The master sent something that cannot be understood.
    #[error("the master does not speak this protocol")]
    MasterMisbehaved,
    /// The master would not have this peer.
    #[error("the master refused this peer: {0}")]
    Refused(Refusal),
    /// The master threw this peer out.
    #[error("kicked: {0}")]
    Kicked(Misdeed),
    /// The peer left on purpose.
    #[error("this peer has left the run")]
    Left,
    /// The call is not possible here; nothing was sent.
    #[error("{0}")]
    Usage(Usage),
}

/// A call that the calling program should not have made.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    thiserror::Error,
)]
#[non_exhaustive]
pub enum Usage {
    /// Connect comes first.
    #[error("not connected")]
    NotConnected,
    /// Connect comes once.
    #[error("already connected")]
    AlreadyConnected,
    /// One major call at a time.
    #[error("another major operation is running")]
    Busy,
    /// A collective is running; wait for its handle first.
    #[error("a collective is pending; wait for it first")]
    PendingCollectives,
    /// The tag is in use.
    #[error("{0} is already in use")]
    TagInUse(Tag),
    /// A query is already waiting.
    #[error("are_peers_pending is already waiting")]
    QueryPending,
}

/// What a peer has to know before it connects.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PeerConfig {
    /// The group it works in.
    pub group: GroupId,
    /// The port where it accepts lanes.
    pub port: u16,
    /// The address where others reach it; `None`: the one that the master sees.
    pub advertise: Option<core::net::IpAddr>,
    /// Lanes per ring edge that its transport would like.
    pub lanes: u16,
    /// The site that it is at.
    pub site: SiteName,
    /// What its user calls it.
    pub name: PeerName,
    /// How many collectives may be in flight; further calls wait for their turn. At least one, and at most
    /// [`COLLECTIVES_MAX`](crate::wire::COLLECTIVES_MAX).
    pub collectives_max: u16,
}
