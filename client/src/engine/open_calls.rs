//! The calls that wait for an answer, and those that wait for an abandoned one to end.
//!
//! A future that is dropped leaves its call behind in the peer machine, which answers it all the
//! same. Until then the call is *abandoned*: nobody hears its answer, and what it stands in the way
//! of waits here instead of failing for a reason that its caller does not know.

use std::collections::{BTreeMap, VecDeque};

use pccl_core::id::{Round, Tag};
use pccl_core::peer::{Answer, CallError, Joined, Usage};
use pccl_core::topology::Topology;
use tokio::sync::{mpsc, oneshot};

use super::command::{CallId, CollectiveEvent, Command, MoveOrder, SyncEvent, TopologyCall};
use super::queue::Queue;

/// Everything that is open at one peer.
#[derive(Debug, Default)]
pub(super) struct OpenCalls {
    pub(super) connect: Option<oneshot::Sender<Result<Joined, CallError>>>,
    pub(super) major: Option<Major>,
    pub(super) query: Option<oneshot::Sender<Result<bool, CallError>>>,
    pub(super) collectives: BTreeMap<Tag, Collective>,
    waiting: VecDeque<Command>,
    queue: Queue,
}

/// The one major call that may be open.
#[derive(Debug)]
pub(super) enum Major {
    Topology {
        kind: TopologyCall,
        reply: oneshot::Sender<Result<Topology, CallError>>,
    },
    Sync {
        events: mpsc::UnboundedSender<SyncEvent>,
        round: Option<Round>,
    },
}

/// One tag in use.
#[derive(Debug)]
pub(super) struct Collective {
    call: CallId,
    /// Its caller does not want it any more, and perhaps has not dropped its end of `events` yet.
    given_up: bool,
    events: mpsc::UnboundedSender<CollectiveEvent>,
}

/// Whether a call can be made.
#[derive(Debug)]
pub(super) enum Admission {
    /// Make it.
    Go(Command),
    /// It was taken care of: it waits, is in the queue, has joined a vote that stands, or was refused.
    Settled,
}

/// What stands in the way of a call.
enum Obstacle {
    None,
    /// An abandoned call, which will end.
    Abandoned,
    /// An abandoned call of the same kind: its answer will do.
    SameVote,
    /// As many collectives as may be are in flight.
    Crowd {
        call: CallId,
        tag: Tag,
    },
    Misuse(Usage),
}

impl Collective {
    pub(super) fn new(call: CallId, events: mpsc::UnboundedSender<CollectiveEvent>) -> Self {
        Self {
            call,
            given_up: false,
            events,
        }
    }

    fn is_abandoned(&self) -> bool {
        self.given_up || self.events.is_closed()
    }
}

impl Major {
    fn is_abandoned(&self) -> bool {
        match self {
            Self::Topology { reply, .. } => reply.is_closed(),
            Self::Sync { events, .. } => events.is_closed(),
        }
    }
}

impl OpenCalls {
    /// Decides about a call.
    pub(super) fn admit(&mut self, command: Command) -> Admission {
        match self.obstacle(&command) {
            Obstacle::None => return Admission::Go(command),
            Obstacle::Abandoned => self.waiting.push_back(command),
            Obstacle::SameVote => self.join(command),
            Obstacle::Crowd { call, tag } => self.queue.push(call, tag, command),
            Obstacle::Misuse(usage) => command.refuse(usage),
        }
        Admission::Settled
    }

    /// The next collective of those in the queue, if one more may be in flight.
    pub(super) fn next_turn(&mut self) -> Option<Command> {
        self.queue.next_turn(self.collectives.len())
    }

    /// Notes that a collective's caller does not want it any more. True: it is in flight. Else it has
    /// ended, or does not begin any more.
    pub(super) fn give_up(&mut self, call: CallId, tag: Tag) -> bool {
        if self.queue.give_up(call) {
            return false;
        }
        self.waiting.retain(|command| !command.is_collective(call));
        match self.collectives.get_mut(&tag) {
            Some(collective) if collective.call == call => {
                collective.given_up = true;
                true
            }
            Some(_) | None => false,
        }
    }

    /// The calls that waited, in their order: something has ended.
    pub(super) fn take_waiting(&mut self) -> VecDeque<Command> {
        std::mem::take(&mut self.waiting)
    }

    fn obstacle(&self, command: &Command) -> Obstacle {
        match command {
            Command::Topology { kind, .. } => self.before_major(Some(*kind)),
            Command::Sync { .. } => self.before_major(None),
            Command::Query { .. } => match &self.query {
                None => Obstacle::None,
                Some(reply) if reply.is_closed() => Obstacle::SameVote,
                Some(_) => Obstacle::Misuse(Usage::QueryPending),
            },
            Command::Collective { call, tag, .. } => self.before_collective(*call, *tag),
            Command::Connect { .. }
            | Command::TransfersEnded { .. }
            | Command::RingEnded { .. }
            | Command::Cancel { .. }
            | Command::Leave { .. } => Obstacle::None,
        }
    }

    fn before_major(&self, wanted: Option<TopologyCall>) -> Obstacle {
        let mut running = self.collectives.values();
        match &self.major {
            Some(Major::Topology { kind, reply }) if Some(*kind) == wanted && reply.is_closed() => {
                Obstacle::SameVote
            }
            Some(major) if major.is_abandoned() => Obstacle::Abandoned,
            Some(_) => Obstacle::Misuse(Usage::Busy),
            None if self.collectives.is_empty() && self.queue.is_empty() => Obstacle::None,
            None if running.all(Collective::is_abandoned) && self.queue.all_abandoned() => {
                Obstacle::Abandoned
            }
            None => Obstacle::Misuse(Usage::PendingCollectives),
        }
    }

    fn before_collective(&self, call: CallId, tag: Tag) -> Obstacle {
        let waits = |command: &Command| {
            let is_of_tag =
                matches!(command, Command::Collective { tag: other, .. } if *other == tag);
            is_of_tag && !command.is_abandoned()
        };
        let running = self.collectives.get(&tag).map(Collective::is_abandoned);
        let is_abandoned = running.or_else(|| self.queue.is_abandoned(tag));
        match (&self.major, is_abandoned) {
            (Some(major), _) if major.is_abandoned() => Obstacle::Abandoned,
            (Some(_), _) => Obstacle::Misuse(Usage::Busy),
            (None, Some(false)) => Obstacle::Misuse(Usage::TagInUse(tag)),
            (None, _) if self.waiting.iter().any(waits) => Obstacle::Misuse(Usage::TagInUse(tag)),
            (None, Some(true)) => Obstacle::Abandoned,
            (None, None) if self.queue.has_to_wait(self.collectives.len()) => {
                Obstacle::Crowd { call, tag }
            }
            (None, None) => Obstacle::None,
        }
    }

    fn join(&mut self, command: Command) {
        match (command, &mut self.major) {
            (Command::Query { reply }, _) => self.query = Some(reply),
            (Command::Topology { reply, .. }, Some(Major::Topology { reply: open, .. })) => {
                *open = reply;
            }
            // Nothing else can be joined, see `obstacle`.
            (other, _) => other.refuse(Usage::Busy),
        }
    }

    /// Gives an answer to whoever waits for it.
    pub(super) fn answered(&mut self, answer: Answer) {
        // Where the caller has gone nobody hears it.
        match answer {
            Answer::Connected(result) => {
                let _ = self.connect.take().map(|reply| reply.send(result));
            }
            Answer::TopologyUpdated(result) | Answer::TopologyOptimized(result) => {
                if let Some(Major::Topology { reply, .. }) = self.major.take() {
                    let _ = reply.send(result);
                }
            }
            Answer::PeersPending(result) => {
                let _ = self.query.take().map(|reply| reply.send(result));
            }
            Answer::Synchronized(result) => {
                if let Some(Major::Sync { events, .. }) = self.major.take() {
                    let _ = events.send(SyncEvent::Ended(result));
                }
            }
            Answer::CollectiveEnded { tag, result } => {
                if let Some(collective) = self.collectives.remove(&tag) {
                    let _ = collective.events.send(CollectiveEvent::Ended(result));
                }
            }
        }
    }

    /// Gives an execution to its call. False: nobody waits for it.
    pub(super) fn run(&self, tag: Tag, event: CollectiveEvent) -> bool {
        let call = self.collectives.get(&tag);
        call.is_some_and(|call| call.events.send(event).is_ok())
    }

    /// Gives a plan to the synchronization that is open. False: nobody waits for it.
    pub(super) fn move_state(&mut self, of: Round, order: MoveOrder) -> bool {
        if let Some(Major::Sync { round, .. }) = &mut self.major {
            *round = Some(of);
        }
        self.tell_sync(of, SyncEvent::Move(order))
    }

    /// Tells the synchronization that is open, if it is of this round and somebody waits for it.
    pub(super) fn tell_sync(&self, of: Round, event: SyncEvent) -> bool {
        match &self.major {
            Some(Major::Sync {
                events,
                round: Some(round),
            }) if *round == of => events.send(event).is_ok(),
            Some(Major::Sync { .. } | Major::Topology { .. }) | None => false,
        }
    }
}

impl Command {
    /// Of a collective.
    pub(super) fn tag(&self) -> Option<Tag> {
        match self {
            Self::Collective { tag, .. } | Self::Cancel { tag, .. } => Some(*tag),
            Self::Connect { .. }
            | Self::Topology { .. }
            | Self::Query { .. }
            | Self::Sync { .. }
            | Self::TransfersEnded { .. }
            | Self::RingEnded { .. }
            | Self::Leave { .. } => None,
        }
    }

    fn is_collective(&self, wanted: CallId) -> bool {
        matches!(self, Self::Collective { call, .. } if *call == wanted)
    }

    /// Is there anybody who waits for the answer?
    pub(super) fn is_abandoned(&self) -> bool {
        match self {
            Self::Connect { reply } => reply.is_closed(),
            Self::Topology { reply, .. } => reply.is_closed(),
            Self::Query { reply } => reply.is_closed(),
            Self::Sync { events, .. } => events.is_closed(),
            Self::Collective { events, .. } => events.is_closed(),
            Self::TransfersEnded { .. }
            | Self::RingEnded { .. }
            | Self::Cancel { .. }
            | Self::Leave { .. } => false,
        }
    }

    fn refuse(self, usage: Usage) {
        let why = CallError::Usage(usage);
        // Where the caller has gone nobody hears it.
        match self {
            Self::Connect { reply } => drop(reply.send(Err(why))),
            Self::Topology { reply, .. } => drop(reply.send(Err(why))),
            Self::Query { reply } => drop(reply.send(Err(why))),
            Self::Sync { events, .. } => drop(events.send(SyncEvent::Ended(Err(why)))),
            Self::Collective { events, .. } => {
                drop(events.send(CollectiveEvent::Ended(Err(why))));
            }
            Self::TransfersEnded { .. }
            | Self::RingEnded { .. }
            | Self::Cancel { .. }
            | Self::Leave { .. } => {}
        }
    }
}
