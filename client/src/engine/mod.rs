//! The task beside each communicator: drives the peer machine and carries out what it orders.
//!
//! ```text
//!  calls ──Command──▶ ┌────────┐ ──PeerInput──▶ ┌──────┐
//!  calls ◀──events─── │ engine │                │ Peer │   (pure, in pccl-core)
//!  master ◀─lane────▶ │        │ ◀─PeerOutput── └──────┘
//!  peers ──lanes────▶ └────────┘ ──▶ data plane: ring lanes
//! ```
//!
//! | file | what it is for |
//! |---|---|
//! | `command` | what calls and engine tell each other |
//! | `open_calls` | which calls wait for an answer |
//! | `queue` | collectives that wait until fewer are in flight |
//! | `live` | everything that a peer has while it is connected, and carrying out orders |
//! | `control` | the connection to the master |
//! | `door` | lanes that others open |
//! | `crowd` | who has to go where too many knock |
//! | `dial` | lanes that this peer opens |
//! | `wiring` | connecting ring edges |
//! | `probe` | measuring bandwidth |
//! | `upkeep` | giving memory back |
//!
//! **Invariant:** tensor bytes never pass through this task; they move in the tasks of lanes and calls.
//!
//! **Invariant:** an engine that is out of the run still answers calls, with the reason why.

mod command;
mod control;
mod dial;
mod door;
mod live;
mod open_calls;
mod probe;
mod queue;
mod upkeep;
mod wiring;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pccl_core::id::{Seq, Tag};
use pccl_core::messages::RingOutcome;
use pccl_core::peer::{Answer, Call, Peer, PeerConfig, PeerInput, PeerOutput};
use pccl_core::transport::{Lane, Listener, Transport};
use pccl_recording::Recorded;
use tokio::sync::{mpsc, oneshot, watch};

use crate::calls::{Backups, View};
use crate::data::{DataConfig, RingPort};
use live::{Happened, Live};
use open_calls::{Admission, Collective, Major, OpenCalls};
use upkeep::Upkeep;

pub(crate) use command::{CallId, CollectiveEvent, Command, MoveOrder, SyncEvent, TopologyCall};
pub(crate) use dial::dial;

/// What an engine is made of.
pub(crate) struct EngineParts {
    pub(crate) config: PeerConfig,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) listener: Box<dyn Listener>,
    pub(crate) control: Lane,
    pub(crate) commands: mpsc::UnboundedReceiver<Command>,
    pub(crate) view: watch::Sender<View>,
    pub(crate) seed: u64,
    pub(crate) data: DataConfig,
    pub(crate) backups: Arc<Backups>,
    /// How long memory is kept for the next collective.
    pub(crate) keep: Duration,
    /// Where to record what the peer hears and says.
    pub(crate) record: Option<PathBuf>,
}

/// Drives one peer, from its hello to the end of its communicator.
pub(crate) struct Engine {
    peer: Recorded<Peer>,
    calls: OpenCalls,
    commands: mpsc::UnboundedReceiver<Command>,
    live: Option<Live>,
    inputs: VecDeque<PeerInput>,
    /// Dropped when the peer is out of the run.
    leaving: Vec<oneshot::Sender<()>>,
}

impl Engine {
    /// An engine that has not said hello. Has to be called inside a tokio runtime.
    pub(crate) fn new(parts: EngineParts) -> Self {
        Self {
            peer: Recorded::begin(parts.config, parts.record.as_deref()),
            calls: OpenCalls::default(),
            live: Some(Live::new(
                parts.control,
                parts.listener,
                parts.transport,
                parts.view,
                parts.seed,
                parts.data,
                Upkeep::new(parts.backups, parts.keep),
            )),
            commands: parts.commands,
            inputs: VecDeque::new(),
            leaving: Vec::new(),
        }
    }

    /// Runs until nobody can call any more.
    pub(crate) async fn run(mut self) {
        loop {
            let event = match &mut self.live {
                Some(live) => tokio::select! {
                    biased;
                    happened = live.next() => Event::Happened(happened),
                    command = self.commands.recv() => Event::Called(command),
                },
                None => Event::Called(self.commands.recv().await),
            };
            match event {
                Event::Happened(happened) => {
                    if let Some(live) = &mut self.live {
                        self.inputs.extend(live.note(happened));
                    }
                }
                Event::Called(Some(command)) => self.called(command),
                // The communicator and all handles are gone.
                Event::Called(None) if self.live.is_some() => {
                    self.inputs.push_back(PeerInput::Call(Call::Leave));
                }
                Event::Called(None) => return,
            }
            self.settle().await;
        }
    }

    fn called(&mut self, command: Command) {
        match self.calls.admit(command) {
            Admission::Go(command) => self.start(command),
            Admission::Settled => {}
        }
    }

    fn start(&mut self, command: Command) {
        let input = match command {
            Command::Connect { reply } => {
                self.calls.connect = Some(reply);
                PeerInput::Call(Call::Connect)
            }
            Command::Topology { kind, reply } => {
                self.calls.major = Some(Major::Topology { kind, reply });
                PeerInput::Call(match kind {
                    TopologyCall::Update => Call::UpdateTopology,
                    TopologyCall::Optimize => Call::OptimizeTopology,
                })
            }
            Command::Query { reply } => {
                self.calls.query = Some(reply);
                PeerInput::Call(Call::ArePeersPending)
            }
            Command::Sync { vote, events } => {
                let round = None;
                self.calls.major = Some(Major::Sync { events, round });
                PeerInput::Call(Call::SyncSharedState(vote))
            }
            Command::Collective {
                call,
                tag,
                spec,
                events,
            } => {
                self.calls
                    .collectives
                    .insert(tag, Collective::new(call, events));
                PeerInput::Call(Call::Initiate { tag, spec })
            }
            Command::TransfersEnded { round, ok, with } => {
                PeerInput::TransfersEnded { round, ok, with }
            }
            Command::RingEnded { seq, outcome } => {
                // Broken edges are reported before the operation that noticed them.
                let broken = self.live.as_mut().map(Live::broken_links);
                self.inputs.extend(broken.into_iter().flatten());
                PeerInput::RingEnded { seq, outcome }
            }
            Command::Cancel { call, tag } => {
                if !self.calls.give_up(call, tag) {
                    // Perhaps it was what another one waited for.
                    self.retry_waiting();
                    return;
                }
                PeerInput::Call(Call::Cancel { tag })
            }
            Command::Leave { left } => {
                self.leaving.push(left);
                PeerInput::Call(Call::Leave)
            }
        };
        self.inputs.push_back(input);
    }

    /// Hands the inputs to the machine and carries out what it says, until there is nothing left.
    async fn settle(&mut self) {
        let mut outputs = Vec::new();
        while let Some(input) = self.inputs.pop_front() {
            tracing::trace!(?input, "peer input");
            self.peer.handle(input, &mut outputs);
            if let (Some(live), Some(me)) = (&mut self.live, self.peer.machine().view().peer_id()) {
                live.is_known_as(me);
            }
            for output in outputs.drain(..) {
                self.carry_out(output).await;
            }
        }
        if self.live.is_none() {
            self.leaving.clear();
        }
    }

    async fn carry_out(&mut self, output: PeerOutput) {
        match (output, &mut self.live) {
            (PeerOutput::Answer(answer), _) => self.answer(answer),
            (PeerOutput::Close, live) => {
                if let Some(live) = live.take() {
                    live.close().await;
                }
            }
            // Nothing but answers follows the end.
            (_, None) => {}
            (PeerOutput::Send(message), Some(live)) => self.inputs.extend(live.send(&message)),
            (PeerOutput::Establish { round, links }, Some(live)) => live.establish(round, &links),
            (PeerOutput::AdoptRing { topology, links }, Some(live)) => live.adopt(topology, &links),
            (
                PeerOutput::RunRing {
                    tag,
                    seq,
                    spec,
                    algorithm,
                },
                Some(live),
            ) => {
                let port = live.begin(seq, spec, algorithm);
                self.hand_over(tag, seq, port);
            }
            (PeerOutput::StopRing { seq }, Some(live)) => live.stop(seq),
            (PeerOutput::MoveState(plan), Some(live)) => {
                let order = live.expect_transfers(plan);
                self.move_state(order);
            }
            (PeerOutput::CommitState { round }, Some(_)) => {
                self.calls.tell_sync(round, SyncEvent::Commit);
            }
            (PeerOutput::DropState { round }, Some(_)) => {
                self.calls.tell_sync(round, SyncEvent::Drop);
            }
            (PeerOutput::Probe { round, probes }, Some(live)) => live.probe(round, probes),
            (PeerOutput::StartTimer { timer, after }, Some(live)) => live.start_timer(timer, after),
            (PeerOutput::StopTimer(timer), Some(live)) => live.stop_timer(timer),
        }
    }

    fn answer(&mut self, answer: Answer) {
        self.calls.answered(answer);
        self.retry_waiting();
        self.start_queued();
    }

    /// Gives an execution to the call that runs it.
    fn hand_over(&mut self, tag: Tag, seq: Seq, port: RingPort) {
        tracing::debug!(target: "pccl::event", kind = "ring_started", tag = tag.0, seq = seq.0);
        let port = Box::new(port);
        if !self.calls.run(tag, CollectiveEvent::Run { seq, port }) {
            let outcome = RingOutcome::Cancelled;
            self.inputs.push_back(PeerInput::RingEnded { seq, outcome });
        }
    }

    /// Gives a plan to the call that synchronizes.
    fn move_state(&mut self, order: MoveOrder) {
        let round = order.plan.round;
        if !self.calls.move_state(round, order) {
            let (ok, with) = (false, None);
            let input = PeerInput::TransfersEnded { round, ok, with };
            self.inputs.push_back(input);
        }
    }

    /// Something has ended: perhaps what calls waited for.
    fn retry_waiting(&mut self) {
        for command in self.calls.take_waiting() {
            if !command.is_abandoned() {
                self.called(command);
            }
        }
    }

    /// A collective has ended: another one may start.
    fn start_queued(&mut self) {
        while let Some(start) = self.calls.next_turn() {
            self.start(start);
        }
    }
}

/// What wakes the engine.
enum Event {
    Happened(Happened),
    Called(Option<Command>),
}
