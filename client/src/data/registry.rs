//! Which operations run, so that a frame finds the one that it belongs to.
//!
//! Operations are registered in the order of their numbers, as the master starts them. A number that
//! is not running is therefore over if a higher one, or itself, was ever registered; otherwise it is
//! yet to come, because the neighbour has heard of it first.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pccl_core::id::{Round, Seq};
use pccl_core::topology::Edge;
use pccl_core::wire::FrameHeader;
use tokio::sync::{mpsc, watch};

use super::edge::EdgeState;
use super::pool::Frame;

/// What a lane brings to an operation. In order per lane: the end comes after the last frame.
#[derive(Debug)]
pub(super) enum Inbound {
    /// A frame whose header is sound; whether it fits is for the operation to check.
    Frame {
        lane: u16,
        header: FrameHeader,
        frame: Frame,
    },
    /// Nothing more will come on this lane of the edge that was built in this round.
    Ended { lane: u16, built: Round },
}

/// What else an operation has to know. Never blocks the sender.
#[derive(Debug)]
pub(super) enum Signal {
    /// A frame of the operation has gone into the lane, whole.
    Sent { lane: u16, bytes: u32 },
    /// A frame of the operation was dropped: the lane is broken or gone.
    Unsent,
    /// The edge is no longer in use.
    EdgeGone { edge: Edge, built: Round },
    /// Look at the flag.
    Stop,
}

/// The plane's side of a running operation.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) frames: mpsc::Sender<Inbound>,
    pub(super) signals: mpsc::UnboundedSender<Signal>,
    pub(super) stopped: Arc<AtomicBool>,
}

impl Operation {
    /// Ends the run, and drops its frames that have not begun to leave.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        // Fails only where nobody runs it any more.
        let _ = self.signals.send(Signal::Stop);
    }
}

/// The running operations, and the highest number ever registered.
#[derive(Debug)]
pub(super) struct Registry {
    running: Mutex<BTreeMap<Seq, Operation>>,
    newest: watch::Sender<Option<Seq>>,
}

impl Registry {
    pub(super) fn new() -> Self {
        Self {
            running: Mutex::default(),
            newest: watch::Sender::new(None),
        }
    }

    /// Registers an operation. Returns the lanes of `edge` that had ended before: no end will be
    /// delivered for those.
    pub(super) fn begin(&self, seq: Seq, op: Operation, edge: Option<&EdgeState>) -> Vec<u16> {
        let mut running = self.running();
        running.insert(seq, op);
        let ended = edge.map(EdgeState::ended_lanes).unwrap_or_default();
        drop(running);
        self.newest.send_if_modified(|newest| {
            let higher = *newest < Some(seq);
            if higher {
                *newest = Some(seq);
            }
            higher
        });
        ended
    }

    /// Marks a lane as ended and returns the operations that have to be told.
    pub(super) fn lane_ended(&self, edge: &EdgeState, lane: u16) -> Vec<Operation> {
        let running = self.running();
        edge.mark_ended(lane);
        running.values().cloned().collect()
    }

    /// Stops an operation, which stays registered.
    pub(super) fn stop(&self, seq: Seq) {
        if let Some(op) = self.running().get(&seq) {
            op.stop();
        }
    }

    /// Frames of this operation find nobody from here on.
    pub(super) fn end(&self, seq: Seq) {
        if let Some(op) = self.running().remove(&seq) {
            op.stop();
        }
    }

    /// Stops everything.
    pub(super) fn end_all(&self) {
        for op in std::mem::take(&mut *self.running()).into_values() {
            op.stop();
        }
    }

    /// Tells everybody that an edge is no longer in use.
    pub(super) fn edge_gone(&self, edge: Edge, built: Round) {
        for op in self.running().values() {
            let _ = op.signals.send(Signal::EdgeGone { edge, built });
        }
    }

    /// Where frames of `seq` go; `None`: the operation is over. Waits while it is yet to come.
    pub(super) async fn find(&self, seq: Seq) -> Option<mpsc::Sender<Inbound>> {
        let mut newest = self.newest.subscribe();
        // Cannot fail: the sender lives as long as `self`.
        newest.wait_for(|newest| *newest >= Some(seq)).await.ok()?;
        self.running().get(&seq).map(|op| op.frames.clone())
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<Seq, Operation>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
