//! The task beside each communicator: drives the peer machine and carries out what it orders.
//!
//! ```text
//!  calls ──Command──▶ ┌────────┐ ──PeerInput──▶ ┌──────┐
//!  calls ◀──events─── │ engine │                │ Peer │   (pure, in pccl-core)
//!  master ◀─lane────▶ │        │ ◀─PeerOutput── └──────┘
//!  peers ──lanes────▶ └────────┘ ──▶ data plane (pccl-plane)
//! ```
//!
//! | file | what it is for |
//! |---|---|
//! | `command` | what calls and engine tell each other |
//! | `callers` | who waits for an answer |
//! | `questions` | who is awaited: asking the master, and warning of calls that wait for long |
//! | `live` | everything that a peer has while it is connected, and carrying out orders |
//! | `control` | the session at the master, over one connection after the other |
//! | `hearing` | how long a silence of the master means that it is gone |
//! | `returning` | another connection, after one has broken |
//! | `door` | lanes that others open |
//! | `crowd` | who has to go where too many knock |
//! | `dial` | lanes that this peer opens |
//! | `wiring` | connecting ring edges |
//! | `probe` | measuring edges |
//! | `upkeep` | giving memory back |
//!
//! **Invariant:** tensor bytes never pass through this task; they move in the tasks of lanes and calls.
//!
//! **Invariant:** an engine that is out of the run still answers calls, with the reason why.

mod callers;
mod command;
mod control;
mod dial;
mod door;
mod hearing;
mod live;
mod probe;
mod questions;
mod returning;
mod upkeep;
mod wiring;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pccl_core::peer::{Peer, PeerConfig, PeerInput, PeerOutput};
use pccl_core::transport::{Lane, Listener, Transport};
use pccl_plane::PlaneConfig;
use pccl_recording::Recorded;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::calls::{Backups, View};
use crate::suspects::Suspects;
use callers::Callers;
use live::{Happened, Live};
use questions::{Asker, Questions};
use upkeep::Upkeep;

pub(crate) use command::{Caller, CollectiveNotice, Command, MoveOrder, SyncNotice};
pub(crate) use dial::dial;
pub(crate) use returning::{Home, Shown};

/// What an engine is made of.
pub(crate) struct EngineParts {
    pub(crate) config: PeerConfig,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) listener: Box<dyn Listener>,
    pub(crate) control: Lane,
    /// Where the control lane leads.
    pub(crate) home: Home,
    pub(crate) commands: mpsc::UnboundedReceiver<Command>,
    pub(crate) view: watch::Sender<View>,
    pub(crate) seed: u64,
    pub(crate) data: PlaneConfig,
    pub(crate) backups: Arc<Backups>,
    /// How long memory is kept for the next collective.
    pub(crate) keep: Duration,
    /// How long a call waits before the log says for whom.
    pub(crate) warn_after: Duration,
    pub(crate) suspects: Arc<Suspects>,
    /// Where to record what the peer hears and says.
    pub(crate) record: Option<PathBuf>,
}

/// Drives one peer, from its hello to the end of its communicator.
pub(crate) struct Engine {
    peer: Recorded<Peer>,
    callers: Callers,
    questions: Questions,
    commands: mpsc::UnboundedReceiver<Command>,
    live: Option<Live>,
    inputs: VecDeque<PeerInput>,
    /// Empty between two inputs: its memory is used again.
    outputs: Vec<PeerOutput>,
    /// Dropped when the peer is out of the run.
    leaving: Vec<oneshot::Sender<()>>,
}

impl Engine {
    /// An engine that has not said hello. Has to be called inside a tokio runtime.
    pub(crate) fn new(parts: EngineParts) -> Self {
        Self {
            peer: Recorded::begin(parts.config, parts.record.as_deref()),
            callers: Callers::new(parts.warn_after),
            questions: Questions::default(),
            live: Some(Live::new(
                (parts.control, parts.home),
                parts.listener,
                parts.transport,
                parts.view,
                parts.seed,
                parts.data,
                (Upkeep::new(parts.backups, parts.keep), parts.suspects),
            )),
            commands: parts.commands,
            inputs: VecDeque::new(),
            outputs: Vec::new(),
            leaving: Vec::new(),
        }
    }

    /// Runs until nobody can call any more.
    pub(crate) async fn run(mut self) {
        loop {
            let event = match &mut self.live {
                Some(live) => tokio::select! {
                    biased;
                    happened = live.next(self.callers.next_look()) => Event::Happened(happened),
                    command = self.commands.recv() => Event::Called(command),
                },
                None => Event::Called(self.commands.recv().await),
            };
            match event {
                Event::Happened(happened) => {
                    if let Some(live) = &mut self.live {
                        live.note(happened, &mut self.inputs);
                    }
                }
                Event::Called(Some(command)) => self.called(command),
                // The communicator and all handles are gone.
                Event::Called(None) if self.live.is_some() => {
                    self.inputs.push_back(PeerInput::Leave);
                }
                Event::Called(None) => return,
            }
            if self.callers.look(Instant::now()) {
                self.ask_who_is_awaited(Asker::Log);
            }
            self.settle().await;
        }
    }

    fn ask_who_is_awaited(&mut self, asker: Asker) {
        let input = self.questions.ask(asker, &self.peer.machine().view());
        self.inputs.extend(input);
    }

    fn called(&mut self, command: Command) {
        let input = match command {
            Command::Call { call, what, caller } => {
                self.callers.insert(call, what.kind(), caller);
                PeerInput::Call { call, what }
            }
            // What was answered meanwhile is over.
            Command::GiveUp { call } if !self.callers.give_up(call) => return,
            Command::GiveUp { call } => PeerInput::GiveUp { call },
            Command::Withdraw { call } => PeerInput::Withdraw { call },
            Command::TransfersEnded { round, ok, with } => {
                PeerInput::TransfersEnded { round, ok, with }
            }
            Command::PlanEnded { seq, outcome } => {
                // Broken edges are reported before the operation that noticed them.
                let broken = self.live.as_mut().map(Live::broken_links);
                self.inputs.extend(broken.into_iter().flatten());
                PeerInput::PlanEnded { seq, outcome }
            }
            Command::WhoIsAwaited { reply } => {
                self.ask_who_is_awaited(Asker::Caller(reply));
                return;
            }
            Command::Leave { left } => {
                self.leaving.push(left);
                PeerInput::Leave
            }
        };
        self.inputs.push_back(input);
    }

    /// Hands the inputs to the machine and carries out what it says, until there is nothing left.
    async fn settle(&mut self) {
        let mut outputs = std::mem::take(&mut self.outputs);
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
        self.outputs = outputs;
        if self.live.is_none() {
            self.leaving.clear();
            self.questions.end(&self.peer.machine().view());
        }
    }

    async fn carry_out(&mut self, output: PeerOutput) {
        match (output, &mut self.live) {
            (PeerOutput::Answer { call, answer }, _) => self.callers.answer(call, answer),
            (PeerOutput::Close, live) => {
                if let Some(live) = live.take() {
                    live.close().await;
                }
            }
            (PeerOutput::Awaited(awaited), _) => match self.questions.next() {
                Some(Asker::Caller(reply)) => drop(reply.send(Ok(awaited))),
                Some(Asker::Log) => self.callers.tell_who_is_awaited(&awaited),
                None => tracing::debug!("the master answers what was not asked"),
            },
            // Nothing but answers follows the end.
            (_, None) => {}
            (PeerOutput::Send(message), Some(live)) => self.inputs.extend(live.send(&message)),
            (PeerOutput::Establish { round, links }, Some(live)) => live.establish(round, &links),
            (PeerOutput::AdoptRing { topology, links }, Some(live)) => live.adopt(topology, &links),
            (
                PeerOutput::RunPlan {
                    call,
                    tag,
                    seq,
                    spec,
                    lengths,
                    algorithm,
                    ahead,
                },
                Some(live),
            ) => {
                let port = Box::new(live.begin(seq, (spec, &lengths), algorithm, ahead));
                tracing::debug!(target: "pccl::event", kind = "plan_started", tag = tag.0, seq = seq.0, ahead);
                let run = CollectiveNotice::Run { seq, port, ahead };
                self.callers.tell_collective(call, run);
            }
            (PeerOutput::Confirm { call, seq }, Some(live)) => {
                live.confirm(seq);
                self.callers
                    .tell_collective(call, CollectiveNotice::Confirmed);
            }
            (PeerOutput::StopPlan { seq }, Some(live)) => live.stop(seq),
            (PeerOutput::MoveState { call, plan }, Some(live)) => {
                let order = live.expect_transfers(plan);
                self.callers.move_state(call, order);
            }
            (PeerOutput::CommitState { round }, Some(_)) => {
                self.callers.tell_sync(round, SyncNotice::Commit);
            }
            (PeerOutput::DropState { round }, Some(_)) => {
                self.callers.tell_sync(round, SyncNotice::Drop);
            }
            (PeerOutput::Probe { round, probes }, Some(live)) => live.probe(round, &probes),
            (PeerOutput::StopProbes { round }, Some(live)) => live.stop_probes(round),
            (PeerOutput::StartTimer { timer, after }, Some(live)) => live.start_timer(timer, after),
            (PeerOutput::StopTimer(timer), Some(live)) => live.stop_timer(timer),
        }
    }
}

/// What wakes the engine.
enum Event {
    Happened(Happened),
    Called(Option<Command>),
}
