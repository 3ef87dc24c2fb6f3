//! Inputs, outputs, calls, answers and configuration of the peer machine.

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

/// An event that the driver reports to a peer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PeerInput {
    /// The user made a call.
    Call {
        /// The id of the call until it is answered or given up. No other open call may have the same.
        call: CallId,
        /// The call.
        what: Call,
    },
    /// The caller has given up this call, so it gets no answer. If it is a collective, the collective is given up,
    /// and fails on all peers unless this peer has voted that it is done. Any other vote remains cast. If the call was
    /// answered meanwhile, nothing happens.
    GiveUp {
        /// The call.
        call: CallId,
    },
    /// The caller of a collective wants its vote to start back, and waits for the answer:
    /// [`CollectiveRefusal::Withdrawn`], unless all had called it before the master heard of this. Then the collective goes
    /// on. Nothing happens if this peer has not voted to start it, or knows that it has commenced.
    Withdraw {
        /// The call.
        call: CallId,
    },
    /// The user leaves the run. The peer answers every open call with [`CallError::Left`], and then orders
    /// [`PeerOutput::Close`].
    Leave,
    /// The master sent a message.
    Message(ToPeer),
    /// The control connection ended.
    MasterDisconnected,
    /// The master sent bytes that are not a message.
    MasterMisbehaved,
    /// All lanes of one link of [`PeerOutput::Establish`] are up, at this end.
    LinkUp {
        /// The round of the order.
        round: Round,
        /// The link.
        link: LinkId,
    },
    /// A lane of a link of [`PeerOutput::Establish`] that this end dials did not come up.
    LinkFailed {
        /// The round of the order.
        round: Round,
        /// The link.
        link: LinkId,
        /// The reason.
        failure: LaneFailure,
    },
    /// Bytes of a collective, a transfer or a measurement have moved since the last such input. The driver reports it
    /// before it reports [`PeerTimer::HeartbeatDue`].
    Moved,
    /// A lane of an established link, or of one that is up and waits to be established, ended or stalled. Report it
    /// before the [`PlanEnded`](Self::PlanEnded) of the collective that noticed it, so that the vote on that
    /// collective carries it.
    LinkBroke {
        /// The link.
        link: LinkId,
        /// The round in which the lane was built. A late report about replaced lanes is ignored.
        built: Round,
    },
    /// The data plane has ended [`PeerOutput::RunPlan`].
    PlanEnded {
        /// The execution.
        seq: Seq,
        /// The outcome.
        outcome: PlanOutcome,
    },
    /// The transfers of [`PeerOutput::MoveState`] are over at this end.
    TransfersEnded {
        /// The round of the plan.
        round: Round,
        /// Whether all content was served, or arrived complete and correct.
        ok: bool,
        /// The peer that could not be served, if there is one.
        with: Option<PeerId>,
    },
    /// One measurement of [`PeerOutput::Probe`] has ended.
    Measured {
        /// The round of the order.
        round: Round,
        /// The receiver of the measured edge.
        to: PeerId,
        /// The measurement.
        measured: Measurement,
    },
    /// All measurements of [`PeerOutput::Probe`] are over.
    ProbesEnded {
        /// The round of the order.
        round: Round,
        /// Whether this peer could measure at all.
        ok: bool,
    },
    /// The driver asks which peers have not made the calls that are open here. Before the welcome and after the end
    /// of the run the question is not sent.
    AskWhoIsAwaited,
    /// A timer ran out.
    TimerFired(PeerTimer),
}

/// A call of the user. Each call gets exactly one [`Answer`], unless it is [given up](PeerInput::GiveUp): then it
/// gets none.
///
/// If a call is not possible ([`CallError::Usage`]), or comes after the end of the run, it is answered in the same
/// [`handle`](super::Peer::handle), without effect. If only given-up calls prevent it, it waits until they have
/// ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Call {
    /// Send the hello and wait to be admitted. Answered by [`Answer::Connected`]. The connection to the master must
    /// be open already. The welcome must arrive within [`WELCOME_LIMIT`](super::WELCOME_LIMIT). Admission has no time
    /// limit.
    Connect,
    /// Admit newcomers, and rebuild broken links. Answered by [`Answer::TopologyUpdated`].
    ///
    /// If it is the peer's first call after [`Connect`](Self::Connect), apart from
    /// [`ArePeersPending`](Self::ArePeersPending), it is answered at once with the current topology, and nothing is
    /// sent. The update of the others that admitted the peer was this iteration's update. So the same loop of update,
    /// synchronize and reduce serves old peers and newcomers. If a newcomer voted here, it would wait for peers that
    /// synchronize already.
    UpdateTopology,
    /// Ask whether newcomers wait. Answered by [`Answer::PeersPending`].
    ArePeersPending,
    /// Measure the paths, and choose better rings. Answered by [`Answer::TopologyOptimized`].
    OptimizeTopology,
    /// Bring the shared state to one content. Answered by [`Answer::Synchronized`]. If all peers hold the same
    /// content, no [`PeerOutput::MoveState`] comes before it.
    SyncSharedState(SyncVote),
    /// Start a collective. Answered by [`Answer::CollectiveEnded`]. At most [`PeerConfig::collectives_max`] are in
    /// flight; further ones wait, and start in the order of their calls.
    Initiate {
        /// The tag.
        tag: Tag,
        /// The specification of the collective.
        spec: CollectiveSpec,
    },
}

/// An order to the driver. Carry orders out in sequence.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PeerOutput {
    /// Send a message to the master.
    Send(ToMaster),
    /// Tell the caller the result of its call.
    Answer {
        /// The call.
        call: CallId,
        /// The result.
        answer: Answer,
    },
    /// Connect links. Drop lanes of an earlier round that did not lead to [`AdoptRing`](Self::AdoptRing). Keep
    /// established links, even if the same link is ordered here: the attempt may fail, and another ring may be
    /// chosen. An order without links only drops lanes, and needs no answer.
    Establish {
        /// The attempt.
        round: Round,
        /// The links, each once.
        links: Vec<LinkOrder>,
    },
    /// From here on, use this ring. Drop all lanes that are not named here.
    AdoptRing {
        /// The ring.
        topology: Topology,
        /// The links of this peer, in ascending order.
        links: Vec<AdoptedLink>,
    },
    /// Run this peer's plan; answer with [`PeerInput::PlanEnded`].
    RunPlan {
        /// The call for which it runs.
        call: CallId,
        /// The tag.
        tag: Tag,
        /// The number in the frames.
        seq: Seq,
        /// The specification. If contributions have different lengths, its count is the sum of all of them.
        spec: CollectiveSpec,
        /// Number of elements that each rank contributes. Empty if all buffers have the same length.
        lengths: Lengths,
        /// The algorithm, which determines the [`Plan`](crate::plan::Plan). All links that it needs exist.
        algorithm: Algorithm,
        /// Whether it begins [ahead](crate::messages::Reserved): others may not have called it, and may take long to do
        /// so. Nobody is to blame for it while nothing moves. [`Confirm`](Self::Confirm) or
        /// [`StopPlan`](Self::StopPlan) follows, and after the latter perhaps another `RunPlan` for the same call, for
        /// which the buffer has to hold its content before the call.
        ahead: bool,
    },
    /// All participants have called what was begun ahead: it is an execution like others.
    Confirm {
        /// The call for which it runs.
        call: CallId,
        /// The execution.
        seq: Seq,
    },
    /// Discard the frames of this execution, both those that are here and those that arrive later. If this peer's
    /// plan still runs, stop it and restore the buffer; no report is needed. Ordered for each execution that has begun
    /// here, even if this peer never ran it because its user had given it up. If it was given up before it was done and
    /// before it commenced, and commences all the same, it is ordered twice.
    StopPlan {
        /// The execution.
        seq: Seq,
    },
    /// Serve or fetch shared state; answer with [`PeerInput::TransfersEnded`]. Keep fetched content aside until
    /// [`CommitState`](Self::CommitState).
    MoveState {
        /// The call for which it runs.
        call: CallId,
        /// The plan.
        plan: SyncPlan,
    },
    /// Write the fetched content to the user's memory.
    CommitState {
        /// The round of the plan.
        round: Round,
    },
    /// Discard the fetched content.
    DropState {
        /// The round of the plan.
        round: Round,
    },
    /// Measure these edges, all at the same time. Answer with [`PeerInput::Measured`] for each edge on which this
    /// peer sends, then with [`PeerInput::ProbesEnded`]. Drop earlier measurements.
    Probe {
        /// The rotation.
        round: Round,
        /// The edges, with their lanes.
        probes: Vec<LinkOrder>,
    },
    /// Drop the measurements that have not ended; no report is needed.
    StopProbes {
        /// The rotation.
        round: Round,
    },
    /// The master's answer to [`PeerInput::AskWhoIsAwaited`]. Questions are answered in order, as long as the peer is
    /// in the run. A misbehaving master may send an answer without a question.
    Awaited(Awaited),
    /// Start the timer, or restart it.
    StartTimer {
        /// The timer.
        timer: PeerTimer,
        /// The time after which it runs out.
        after: Duration,
    },
    /// Stop the timer.
    StopTimer(PeerTimer),
    /// The peer is out of the run: close everything after all messages have gone out. Only answers to later calls
    /// follow.
    Close,
}

/// A link from here on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AdoptedLink {
    /// The link.
    pub link: LinkId,
    /// The lanes that it uses.
    pub lanes: AdoptedLanes,
}

/// The lanes that a link uses from here on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum AdoptedLanes {
    /// The established ones. Drop lanes that were connected for this link since.
    Keep,
    /// Those that were connected in this round, which are up. Drop the older ones.
    Use(Round),
}

/// The timers of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PeerTimer {
    /// The next heartbeat to the master is due.
    HeartbeatDue,
    /// Nothing has arrived from the master for too long.
    MasterSilence,
}

/// The result of a call.
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
    /// To [`Call::Initiate`]. On every error except [`CallError::Usage`] the driver restores the buffer to its
    /// content before the call, even if the plan had finished on this peer: only a verdict makes the result valid.
    CollectiveEnded {
        /// The tag.
        tag: Tag,
        /// The verdict, or why there was none.
        result: Result<Committed, CallError>,
    },
}

/// The outcome of an optimization: the group's ring is the best that was found.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Optimized {
    /// The established ring.
    pub topology: Topology,
    /// The ring before, and the estimates of both.
    pub report: RingReport,
}

/// The peer is part of the run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Joined {
    /// The peer's id.
    pub peer: PeerId,
    /// The first ring of which it is a member.
    pub topology: Topology,
}

/// The group's shared state has one content.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Synchronized {
    /// The revision that all peers hold.
    pub revision: Revision,
    /// The entries that this peer fetched. Empty if its content was the elected one.
    pub fetched: Vec<(EntryIndex, ContentHash)>,
}

/// The collective is committed on every participant.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Committed {
    /// The execution.
    pub seq: Seq,
    /// The peers whose contributions the result holds, in ring order.
    pub contributors: Vec<PeerId>,
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// A participant or a lane was lost. The buffers are unchanged. Call again.
    #[error("{tag} was aborted: {cause}; call again")]
    Aborted {
        /// The tag of the collective.
        tag: Tag,
        /// The cause.
        cause: AbortCause,
    },
    /// The collective did not start.
    #[error("{tag} did not start: {reason:?}")]
    CollectiveRefused {
        /// The tag of the collective.
        tag: Tag,
        /// The reason.
        reason: CollectiveRefusal,
    },
    /// Another peer's call has precedence. Make that call first.
    #[error("{0}")]
    Conflict(Conflict),
    /// The shared state was not synchronized. No content was changed.
    #[error("{0}")]
    SyncFailed(SyncFailure),
    /// The measurement failed. The rings are unchanged. Call again later.
    #[error("the topology could not be optimized; the rings are as they were")]
    OptimizationFailed,
    /// The master is lost, and with it this peer's membership. The outcome of open calls is unknown, and their
    /// buffers are unchanged. Connect again and synchronize.
    #[error("lost the master")]
    MasterLost,
    /// The master stopped on purpose.
    #[error("the master was stopped")]
    MasterStopped,
    /// The master sent something that cannot be decoded.
    #[error("the master does not speak this protocol")]
    MasterMisbehaved,
    /// The master refused this peer.
    #[error("the master refused this peer: {0}")]
    Refused(Refusal),
    /// The master evicted this peer.
    #[error("kicked: {0}")]
    Kicked(Misdeed),
    /// The peer left on purpose.
    #[error("this peer has left the run")]
    Left,
    /// The call is not possible in this state. Nothing was sent.
    #[error("{0}")]
    Usage(Usage),
}

/// A call that the program must not make in this state.
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
    /// Connect first.
    #[error("not connected")]
    NotConnected,
    /// The peer is connected already.
    #[error("already connected")]
    AlreadyConnected,
    /// Another major call is open.
    #[error("another major operation is running")]
    Busy,
    /// A collective is running. Wait for its handle first.
    #[error("a collective is pending; wait for it first")]
    PendingCollectives,
    /// A collective with this tag is open.
    #[error("{0} is already in use")]
    TagInUse(Tag),
    /// A query is open already.
    #[error("are_peers_pending is already waiting")]
    QueryPending,
}

/// The configuration of a peer, which it needs before it connects.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PeerConfig {
    /// The group that it joins.
    pub group: GroupId,
    /// The port on which it accepts lanes.
    pub port: u16,
    /// The address at which others reach it. `None`: the address that the master sees.
    pub advertise: Option<core::net::IpAddr>,
    /// Number of lanes per ring edge that its transport wants.
    pub lanes: u16,
    /// The site of the peer.
    pub site: SiteName,
    /// The name that its user gives it.
    pub name: PeerName,
    /// Maximum number of collectives in flight; further calls wait. At least one, and at most
    /// [`COLLECTIVES_MAX`](crate::wire::COLLECTIVES_MAX).
    pub collectives_max: u16,
}
