//! Which message may arrive in which state, and why no other can: what the exploration is held to.
//!
//! Links keep their order, so a report is late only where the master has decided meanwhile, and a call
//! is never early. Users are those of the library: a major call is awaited before anything else is
//! called, so nobody leaves, asks or starts a collective in the middle of one.

use std::fmt;

use pccl_core::states::ConnectionState as S;

use super::{Coverage, DOWN_KINDS, RECEIVERS, ReceiverIn, SenderIn, UP_KINDS, senders};

/// A pair of kind and state, in words, and why the message cannot arrive there, where it cannot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The kind of the message.
    pub kind: &'static str,
    /// The state of the one that sent it, or to whom it goes.
    pub state: String,
    /// Why it cannot arrive; `None`: it may.
    pub why_never: Option<&'static str>,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} while {}", self.kind, self.state)
    }
}

const WIRING: [S; 3] = [
    S::ConnectingToPeers,
    S::ConnectingToPeersFailed,
    S::WaitingForOtherPeers,
];

const EACH_EDGE_ONCE: &str =
    "each ordered edge is reported once, before anything else that follows from it";

const NOBODY_ASKS: &str =
    "a question that changes nothing: its answer is computed, and no driver asks here";

/// Where a peer may be when a report about an edge arrives: one that comes late, too.
const MAY_REPORT: [S; 11] = [
    S::VoteOptimizeTopology,
    S::VoteCompleteTopologyOptimization,
    S::ConnectingToPeers,
    S::WaitingForOtherPeers,
    S::ConnectingToPeersFailed,
    S::VoteNoNewPeersEstablishP2p,
    S::VoteAcceptNewPeers,
    S::VoteSyncSharedState,
    S::OptimizeTopology,
    S::Idle,
    S::CollectiveCommunicationsRunning,
];

fn allowed(may: bool, why: &'static str) -> Result<(), &'static str> {
    if may { Ok(()) } else { Err(why) }
}

/// Why a message of this kind cannot come from a sender in this state. `Ok`: it may.
fn may_go_up(kind: &str, sender: SenderIn) -> Result<(), &'static str> {
    if kind == "WhoIsAwaited" {
        return Err(NOBODY_ASKS);
    }
    match sender {
        // Whatever a peer says may cross its own dismissal.
        SenderIn::Forgotten if kind == "Leave" => Err(
            "what a departed process has on its way to a master that has let it go is dropped here",
        ),
        SenderIn::Forgotten => Ok(()),
        SenderIn::Registered(state) => may_go_up_registered(kind, state),
        SenderIn::Accepted(state) => may_go_up_accepted(kind, state),
    }
}

fn may_go_up_registered(kind: &str, state: S) -> Result<(), &'static str> {
    let reports = ["LinkUp", "LinkFailed"];
    if state == S::VoteSyncSharedState && !reports.contains(&kind) {
        return Err("who is set aside waits in its call, and says nothing but what was on its way");
    }
    if ![S::Idle, S::VoteSyncSharedState].contains(&state) && !WIRING.contains(&state) {
        return Err("who waits to be admitted is idle, or being connected");
    }
    match kind {
        "Heartbeat" => Ok(()),
        "LinkUp" | "LinkFailed" => Ok(()),
        "Hello" => Err("the first message, of a connection without a number"),
        _ => Err("the user waits to be admitted, and calls nothing"),
    }
}

fn may_go_up_accepted(kind: &str, state: S) -> Result<(), &'static str> {
    let with_collectives = matches!(
        state,
        S::CollectiveCommunicationsRunning | S::VoteNoNewPeersEstablishP2p
    ) || WIRING.contains(&state);
    match kind {
        "Hello" => Err("the first message, of a connection without a number"),
        "Heartbeat" => Ok(()),
        "UpdateTopology" | "OptimizeTopology" | "SyncSharedState" => allowed(
            state == S::Idle || WIRING.contains(&state),
            "a major call is made by who waits for nothing else",
        ),
        "Withdraw" => allowed(
            state == S::Idle || with_collectives,
            "only a vote to start is taken back",
        ),
        "ArePeersPending" | "InitiateCollective" => allowed(
            state == S::Idle || with_collectives,
            "who waits in a major call calls nothing else",
        ),
        "Leave" => allowed(
            state == S::Idle || with_collectives,
            "who waits in a major call cannot leave",
        ),
        "LinkUp" | "LinkFailed" => allowed(MAY_REPORT.contains(&state), EACH_EDGE_ONCE),
        "Measured" | "ProbesDone" => allowed(
            matches!(
                state,
                S::OptimizeTopology
                    | S::VoteCompleteTopologyOptimization
                    | S::ConnectingToPeers
                    | S::Idle
            ),
            "reported once per rotation; late only where nobody waits for it any more",
        ),
        "SharedStateDone" => allowed(
            matches!(
                state,
                S::DistributeSharedState | S::RequestSharedState | S::Idle
            ),
            "reported once per plan; late only where the plan has failed meanwhile",
        ),
        "CompleteCollective" => allowed(
            (state == S::Idle || with_collectives) && state != S::ConnectingToPeersFailed,
            "a vote on an outcome comes before the sender's next report or call",
        ),
        _ => Err("no such message"),
    }
}

/// Why a message of this kind cannot go to a peer in this state. `Ok`: it may.
fn may_go_down(kind: &str, receiver: ReceiverIn) -> Result<(), &'static str> {
    use ReceiverIn as R;
    let allowed = |states: &[R], why: &'static str| {
        if states.contains(&receiver) {
            Ok(())
        } else {
            Err(why)
        }
    };
    match (kind, receiver) {
        ("(end of the connection)", _) => return Ok(()),
        ("Awaited", _) => return Err(NOBODY_ASKS),
        (_, R::Gone) => return Err("who is out of the run reads nothing"),
        ("Kicked" | "Heartbeat" | "Stopping", R::AwaitingWelcome) => {
            return Err("the master has no number for it yet");
        }
        ("Kicked" | "Heartbeat" | "Stopping", _) => return Ok(()),
        _ => {}
    }
    match kind {
        "Welcome" => allowed(&[R::AwaitingWelcome], "the first message"),
        "Refused" => allowed(
            &[R::AwaitingWelcome, R::Registered, R::Sync],
            "only newcomers are refused, and who was set aside",
        ),
        "EstablishLinks" | "TopologyEstablished" => allowed(
            &[
                R::Registered,
                R::Idle,
                R::Update,
                R::Optimize,
                R::Sync,
                R::Collective,
                R::Query,
            ],
            "nobody connects a ring before it is welcome",
        ),
        "CallFailed" => allowed(
            &[R::Optimize, R::Sync],
            "these two give way; a collective is refused",
        ),
        "PeersPending" => allowed(&[R::Query, R::Collective], "the answer to who asked"),
        "Probe" | "OptimizationConcluded" => allowed(&[R::Optimize], "part of an optimization"),
        "SharedStatePlan" | "SharedStateConcluded" => {
            allowed(&[R::Sync], "part of a synchronization")
        }
        "Commence" | "CollectiveRefused" | "Verdict" => allowed(
            &[R::Collective],
            "about a collective that the peer waits for",
        ),
        _ => Err("no such message"),
    }
}

/// What takes more faults than can be explored, and long luck on walks: two attempts to connect a ring around a
/// member that waits to synchronize, after which it is set aside; and an attempt that is given up for a loss while
/// the report about another link is on its way, which arrives when three others already measure.
const RARE: [(&str, SenderIn); 4] = [
    ("LinkUp", SenderIn::Registered(S::VoteSyncSharedState)),
    ("LinkFailed", SenderIn::Registered(S::VoteSyncSharedState)),
    ("LinkFailed", SenderIn::Accepted(S::OptimizeTopology)),
    (
        "LinkFailed",
        SenderIn::Accepted(S::VoteCompleteTopologyOptimization),
    ),
];

fn is_rare(cell: &Cell) -> bool {
    let is_refusal = cell.kind == "Refused" && cell.state == format!("{:?}", ReceiverIn::Sync);
    let report = |(kind, sender): &(&str, SenderIn)| {
        cell.kind == *kind && cell.state == format!("{sender:?}")
    };
    is_refusal || RARE.iter().any(report)
}

impl Coverage {
    /// Pairs of message and state that were met.
    #[must_use]
    pub fn met(&self) -> Vec<Cell> {
        let met = self.cells().filter(|(seen, _)| *seen);
        met.map(|(_, cell)| cell).collect()
    }

    /// Pairs of message and state that may be met and were not, but for those that take very many faults.
    #[must_use]
    pub fn gaps(&self) -> Vec<Cell> {
        self.cells()
            .filter(|(seen, cell)| !seen && cell.why_never.is_none() && !is_rare(cell))
            .map(|(_, cell)| cell)
            .collect()
    }

    /// Pairs of message and state that were met although they are held to be impossible: what is
    /// written here is wrong, or the protocol is.
    #[must_use]
    pub fn surprises(&self) -> Vec<Cell> {
        self.cells()
            .filter(|(seen, cell)| *seen && cell.why_never.is_some())
            .map(|(_, cell)| cell)
            .collect()
    }

    /// Every pair that is impossible, with the reason.
    #[must_use]
    pub fn impossible(&self) -> Vec<Cell> {
        self.cells()
            .map(|(_, cell)| cell)
            .filter(|cell| cell.why_never.is_some())
            .collect()
    }

    /// How many pairs of message and state may be met.
    #[must_use]
    pub fn pairs_in_all(&self) -> usize {
        self.cells()
            .filter(|(_, cell)| cell.why_never.is_none())
            .count()
    }

    fn cells(&self) -> impl Iterator<Item = (bool, Cell)> + '_ {
        let up = senders().into_iter().flat_map(move |sender| {
            UP_KINDS.iter().enumerate().map(move |(number, kind)| {
                let cell = Cell {
                    kind,
                    state: format!("{sender:?}"),
                    why_never: may_go_up(kind, sender).err(),
                };
                (self.has_gone_up(number, sender), cell)
            })
        });
        let down = RECEIVERS.into_iter().flat_map(move |receiver| {
            DOWN_KINDS.iter().enumerate().map(move |(number, kind)| {
                let cell = Cell {
                    kind,
                    state: format!("{receiver:?}"),
                    why_never: may_go_down(kind, receiver).err(),
                };
                (self.has_gone_down(number, receiver), cell)
            })
        });
        up.chain(down)
    }
}
