//! The real machines, in the simulator's words: the one file here that names core's messages, inputs,
//! outputs and timers.
//!
//! Everything else of the simulator speaks of [`Ask`], [`Heard`], [`Fact`], [`Order`] and [`Decree`], so
//! a change of the protocol ends here.

use std::net::IpAddr;
use std::time::Duration;

use pccl_core::element::{CollectiveSpec, ElementType, Quantization, ReduceOp};
use pccl_core::id::{ConnId, ContentHash, GroupId, PeerId, Revision, Round, Seq, Tag};
use pccl_core::master::{
    Master, MasterConfig, MasterInput, MasterOutput, MasterTimer, TourProblem,
};
use pccl_core::messages::{RingOutcome, ToMaster, ToPeer};
use pccl_core::peer::{
    Answer, Call, CallError, Peer, PeerConfig, PeerInput, PeerOutput, PeerTimer,
};
use pccl_core::shared_state::{EntryInfo, SyncPlan, SyncRole, SyncStrategy, SyncVote};
use pccl_core::timers::TimerQueue;
use pccl_core::topology::{Edge, LaneFailure, LaneOrder, Ring};

use super::time::Micros;

/// What a peer tells the master; opaque to the simulator.
pub type Up = ToMaster;
/// What the master tells a peer; opaque to the simulator.
pub type Down = ToPeer;

/// What a user's program calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Ask {
    Connect,
    Update,
    Optimize,
    Sync {
        revision: u64,
        content: u128,
        bytes: u64,
    },
    Reduce {
        tag: u64,
        bytes: u64,
    },
    /// The caller does not want this call any more.
    Drop(Dropped),
    Leave,
}

/// Which call is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// The major call that is open.
    Major,
    /// The reduce of this tag.
    Reduce(u64),
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The peer is part of the run.
    Joined,
    /// `update_topology` or `optimize_topology` is done.
    Updated,
    /// The group holds this revision.
    Synchronized(u64),
    /// This execution of a reduce is committed.
    Reduced(Seq),
    /// A call failed.
    Failed(Trouble),
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It may be made again.
    Again,
    /// It gave way to another peer's call, and may be made again.
    Conflict,
    /// It may not: why.
    Final(String),
    /// The peer is out of the run, which [`Order::Close`] says as well.
    Over,
}

/// Why a peer is out of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Out {
    /// It left on purpose.
    Left,
    /// The connection to the master ended, or the master was silent.
    MasterLost,
    /// The master would not have it, or something is wrong: why.
    Because(String),
}

/// What the data plane tells a peer's machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Fact {
    EdgesUp(Round),
    EdgeFailed {
        round: Round,
        with: PeerId,
        failure: LaneFailure,
    },
    EdgeBroke {
        edge: Edge,
        built: Round,
    },
    RingEnded {
        seq: Seq,
        done: bool,
    },
    TransfersEnded {
        round: Round,
        ok: bool,
    },
    Measured {
        round: Round,
        to: PeerId,
        kbit_per_s: u64,
    },
    ProbesEnded(Round),
}

/// What a peer's machine wants done.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Order {
    Send(Up),
    Answer(Heard),
    /// Connect these edges; what an earlier attempt has connected is dropped.
    Connect {
        round: Round,
        next: Option<LaneOrder>,
        previous: Option<LaneOrder>,
    },
    /// The ring from here on.
    Adopt(Ring),
    Run {
        seq: Seq,
        bytes: u64,
    },
    Stop(Seq),
    Serve {
        round: Round,
        to: Vec<LaneOrder>,
    },
    /// `content` is what this peer will hold in the end; `from`: where it comes from, if it has to move.
    Fetch {
        round: Round,
        from: Option<LaneOrder>,
        content: Option<u128>,
    },
    CommitState,
    DropState,
    Measure {
        round: Round,
        probes: Vec<LaneOrder>,
    },
    Close,
}

/// What the master wants done.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Decree {
    Registered {
        conn: ConnId,
        peer: PeerId,
    },
    TurnedAway {
        conn: ConnId,
        words: Down,
    },
    Send {
        peer: PeerId,
        message: Down,
    },
    Close(PeerId),
    Solve {
        round: Round,
        group: GroupId,
        problem: TourProblem,
    },
    /// The machine found a defect of itself.
    Contradiction(String),
}

/// The master's machine with its timers.
#[derive(Debug)]
pub struct MasterDesk {
    machine: Master,
    timers: TimerQueue<MasterTimer, Micros>,
}

impl Default for MasterDesk {
    /// With the limits that a master has unless told otherwise.
    fn default() -> Self {
        Self {
            machine: Master::new(MasterConfig::default()),
            timers: TimerQueue::new(),
        }
    }
}

impl MasterDesk {
    /// A connection said something before it had a number.
    pub fn connected(&mut self, now: Micros, conn: ConnId, up: Up, from: IpAddr) -> Vec<Decree> {
        match up {
            Up::Hello(hello) => self.take(now, MasterInput::Connected { conn, hello, from }),
            // A driver ends such a connection; peers of the simulator say hello first.
            _ => vec![Decree::Contradiction(format!("{conn} began with {up:?}"))],
        }
    }

    /// A peer said something.
    pub fn heard(&mut self, now: Micros, peer: PeerId, message: Up) -> Vec<Decree> {
        self.take(now, MasterInput::Message { peer, message })
    }

    /// A peer's connection ended.
    pub fn gone(&mut self, now: Micros, peer: PeerId) -> Vec<Decree> {
        self.take(now, MasterInput::Disconnected { peer })
    }

    /// The ring solver has answered.
    pub fn solved(
        &mut self,
        now: Micros,
        round: Round,
        group: GroupId,
        ring: Option<Ring>,
    ) -> Vec<Decree> {
        self.take(now, MasterInput::TourSolved { round, group, ring })
    }

    /// When a timer runs out next.
    pub fn deadline(&self) -> Option<Micros> {
        self.timers.next_deadline()
    }

    /// Fires the first timer that has run out; `None`: there is none.
    pub fn fire(&mut self, now: Micros) -> Option<Vec<Decree>> {
        let timer = self.timers.pop_expired(now)?;
        Some(self.take(now, MasterInput::TimerFired(timer)))
    }

    fn take(&mut self, now: Micros, input: MasterInput) -> Vec<Decree> {
        let mut outputs = Vec::new();
        self.machine.handle(input, &mut outputs);
        outputs
            .into_iter()
            .filter_map(|output| self.decree(now, output))
            .collect()
    }

    fn decree(&mut self, now: Micros, output: MasterOutput) -> Option<Decree> {
        Some(match output {
            MasterOutput::Register { conn, peer } => Decree::Registered { conn, peer },
            MasterOutput::Refuse { conn, reason } => Decree::TurnedAway {
                conn,
                words: Down::Refused(reason),
            },
            MasterOutput::Send { peer, message } => Decree::Send { peer, message },
            MasterOutput::Close { peer } => Decree::Close(peer),
            MasterOutput::SolveTour {
                round,
                group,
                problem,
            } => Decree::Solve {
                round,
                group,
                problem,
            },
            MasterOutput::Inconsistent { peer, state, event } => {
                Decree::Contradiction(format!("{event:?} of {peer} in {state:?}"))
            }
            MasterOutput::StartTimer { timer, after } => {
                self.timers.arm(timer, now + micros(after));
                return None;
            }
            MasterOutput::StopTimer(timer) => {
                self.timers.disarm(timer);
                return None;
            }
            MasterOutput::Moved { .. } | MasterOutput::Lost { .. } | MasterOutput::Stopped => {
                return None;
            }
        })
    }
}

/// A peer's machine with its timers.
#[derive(Debug)]
pub struct PeerDesk {
    machine: Peer,
    timers: TimerQueue<PeerTimer, Micros>,
}

impl PeerDesk {
    /// Reached at an address and port, with so many lanes per edge.
    #[must_use]
    pub fn new(group: u32, address: IpAddr, port: u16, lanes: u16) -> Self {
        let config = PeerConfig {
            group: GroupId(group),
            port,
            advertise: Some(address),
            lanes,
        };
        Self {
            machine: Peer::new(config),
            timers: TimerQueue::new(),
        }
    }

    /// The user calls something.
    pub fn ask(&mut self, now: Micros, ask: Ask) -> Vec<Order> {
        call_of(ask).map_or_else(Vec::new, |call| self.take(now, PeerInput::Call(call)))
    }

    /// The master said something.
    pub fn heard(&mut self, now: Micros, message: Down) -> Vec<Order> {
        self.take(now, PeerInput::Message(message))
    }

    /// The connection to the master ended.
    pub fn lost_master(&mut self, now: Micros) -> Vec<Order> {
        self.take(now, PeerInput::MasterDisconnected)
    }

    /// The data plane has news.
    pub fn learn(&mut self, now: Micros, fact: Fact) -> Vec<Order> {
        self.take(now, input_of(fact))
    }

    /// When a timer runs out next.
    pub fn deadline(&self) -> Option<Micros> {
        self.timers.next_deadline()
    }

    /// Fires the first timer that has run out; `None`: there is none.
    pub fn fire(&mut self, now: Micros) -> Option<Vec<Order>> {
        let timer = self.timers.pop_expired(now)?;
        Some(self.take(now, PeerInput::TimerFired(timer)))
    }

    /// Why it is out of the run, if it is.
    #[must_use]
    pub fn out(&self) -> Option<Out> {
        self.machine.view().ended().map(|error| match error {
            CallError::Left => Out::Left,
            CallError::MasterLost => Out::MasterLost,
            other => Out::Because(other.to_string()),
        })
    }

    /// Lanes of each of its edges, while it is on a ring.
    #[must_use]
    pub fn lanes(&self) -> Option<u16> {
        self.machine
            .view()
            .topology()
            .map(|topology| topology.lanes)
    }

    fn take(&mut self, now: Micros, input: PeerInput) -> Vec<Order> {
        let mut outputs = Vec::new();
        self.machine.handle(input, &mut outputs);
        outputs
            .into_iter()
            .filter_map(|output| self.order(now, output))
            .collect()
    }

    fn order(&mut self, now: Micros, output: PeerOutput) -> Option<Order> {
        Some(match output {
            PeerOutput::Send(message) => Order::Send(message),
            PeerOutput::Answer(answer) => Order::Answer(heard_of(answer)?),
            PeerOutput::Establish {
                round,
                next,
                previous,
                ..
            } => Order::Connect {
                round,
                next,
                previous,
            },
            PeerOutput::AdoptRing(topology) => Order::Adopt(topology.ring),
            PeerOutput::RunRing { seq, spec, .. } => {
                let bytes = spec.count * spec.element.size() as u64;
                Order::Run { seq, bytes }
            }
            PeerOutput::StopRing { seq } => Order::Stop(seq),
            PeerOutput::MoveState(plan) => part_of(plan),
            PeerOutput::CommitState { .. } => Order::CommitState,
            PeerOutput::DropState { .. } => Order::DropState,
            PeerOutput::Probe { round, probes } => Order::Measure { round, probes },
            PeerOutput::Close => Order::Close,
            PeerOutput::StartTimer { timer, after } => {
                self.timers.arm(timer, now + micros(after));
                return None;
            }
            PeerOutput::StopTimer(timer) => {
                self.timers.disarm(timer);
                return None;
            }
        })
    }
}

/// Does it say no more than that the peer lives?
#[must_use]
pub fn is_beat_up(message: &Up) -> bool {
    *message == Up::Heartbeat
}

/// Does it say no more than that the master lives?
#[must_use]
pub fn is_beat_down(message: &Down) -> bool {
    *message == Down::Heartbeat
}

/// The round of an order to connect ring edges.
#[must_use]
pub fn round_of_wiring(message: &Down) -> Option<Round> {
    match message {
        Down::EstablishRing { round, .. } => Some(*round),
        _ => None,
    }
}

/// The execution that the message starts.
#[must_use]
pub fn started_by(message: &Down) -> Option<Seq> {
    match message {
        Down::Commence { seq, .. } => Some(*seq),
        _ => None,
    }
}

/// `None`: it only concerns the driver.
fn call_of(ask: Ask) -> Option<Call> {
    Some(match ask {
        Ask::Connect => Call::Connect,
        Ask::Update => Call::UpdateTopology,
        Ask::Optimize => Call::OptimizeTopology,
        Ask::Sync {
            revision,
            content,
            bytes,
        } => Call::SyncSharedState(SyncVote {
            revision: Revision(revision),
            strategy: SyncStrategy::EnforcePopular,
            restart: false,
            entries: vec![EntryInfo {
                name: "weights".to_owned(),
                element: ElementType::U8,
                count: bytes,
                hash: ContentHash(content),
                allow_content_inequality: false,
            }],
        }),
        Ask::Reduce { tag, bytes } => Call::Initiate {
            tag: Tag(tag),
            spec: CollectiveSpec {
                op: ReduceOp::Sum,
                element: ElementType::U8,
                count: bytes,
                quantization: Quantization::None,
            },
        },
        // A vote that was cast stands: the machine has no way to take it back.
        Ask::Drop(Dropped::Major) => return None,
        Ask::Drop(Dropped::Reduce(tag)) => Call::Cancel { tag: Tag(tag) },
        Ask::Leave => Call::Leave,
    })
}

fn input_of(fact: Fact) -> PeerInput {
    match fact {
        Fact::EdgesUp(round) => PeerInput::EdgesUp { round },
        Fact::EdgeFailed {
            round,
            with,
            failure,
        } => PeerInput::EdgeFailed {
            round,
            with,
            failure,
        },
        Fact::EdgeBroke { edge, built } => PeerInput::EdgeBroke { edge, built },
        Fact::RingEnded { seq, done } => {
            let outcome = if done {
                RingOutcome::Done
            } else {
                RingOutcome::LaneLost
            };
            PeerInput::RingEnded { seq, outcome }
        }
        Fact::TransfersEnded { round, ok } => PeerInput::TransfersEnded { round, ok },
        Fact::Measured {
            round,
            to,
            kbit_per_s,
        } => PeerInput::Measured {
            round,
            to,
            kbit_per_s,
        },
        Fact::ProbesEnded(round) => PeerInput::ProbesEnded { round, ok: true },
    }
}

/// `None`: of a question that no program of the simulator asks.
fn heard_of(answer: Answer) -> Option<Heard> {
    let result = match answer {
        Answer::Connected(result) => result.map(|_| Heard::Joined),
        Answer::TopologyUpdated(result) | Answer::TopologyOptimized(result) => {
            result.map(|_| Heard::Updated)
        }
        Answer::PeersPending(_) => return None,
        Answer::Synchronized(result) => {
            result.map(|synchronized| Heard::Synchronized(synchronized.revision.0))
        }
        Answer::CollectiveEnded { result, .. } => {
            result.map(|committed| Heard::Reduced(committed.seq))
        }
    };
    Some(result.unwrap_or_else(|error| Heard::Failed(trouble_of(&error))))
}

/// As the client sorts errors: what may be called again, and what may not.
fn trouble_of(error: &CallError) -> Trouble {
    use pccl_core::messages::CollectiveRefusal as Refusal;
    match error {
        CallError::Conflict(_)
        | CallError::CollectiveRefused {
            reason: Refusal::Conflict(_),
            ..
        } => Trouble::Conflict,
        CallError::Aborted { .. }
        | CallError::OptimizationFailed
        | CallError::CollectiveRefused {
            reason: Refusal::NotJoined { .. },
            ..
        } => Trouble::Again,
        CallError::SyncFailed(failure) if failure.is_retryable() => Trouble::Again,
        CallError::MasterLost
        | CallError::MasterStopped
        | CallError::MasterMisbehaved
        | CallError::Refused(_)
        | CallError::Kicked(_)
        | CallError::Left => Trouble::Over,
        other => Trouble::Final(other.to_string()),
    }
}

fn part_of(plan: SyncPlan) -> Order {
    let round = plan.round;
    match plan.role {
        SyncRole::Distribute { to } => Order::Serve { round, to },
        SyncRole::Request { from, entries } => Order::Fetch {
            round,
            from,
            content: entries.first().map(|(_, hash)| hash.0),
        },
    }
}

fn micros(duration: Duration) -> Micros {
    Micros::try_from(duration.as_micros()).unwrap_or(Micros::MAX / 4)
}
