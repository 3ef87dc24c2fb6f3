//! A standing ring edge: its lanes, the tasks that keep them, and the one report that it broke.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pccl_core::id::Round;
use pccl_core::topology::Edge;
use pccl_core::transport::Lane;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::sending::TxSlot;
use super::{DataEvent, Shared, receiving, sending};
use crate::progress::Progress;

/// What is known about an edge by everybody who uses it.
#[derive(Debug)]
pub(super) struct EdgeState {
    edge: Edge,
    built: Round,
    /// The engine was told, or need not be.
    reported: AtomicBool,
    /// By lane.
    ended: Box<[AtomicBool]>,
    /// How often bytes have moved on any lane, for whichever operation.
    moves: AtomicU64,
    /// Frames that no operation here had a use for when they came.
    strays: AtomicU64,
    /// As `moves`, for everything that this peer moves.
    progress: Progress,
    events: mpsc::UnboundedSender<DataEvent>,
}

impl EdgeState {
    /// Which edge it is.
    pub(super) const fn edge(&self) -> Edge {
        self.edge
    }

    /// The round in which the edge was built.
    pub(super) const fn built(&self) -> Round {
        self.built
    }

    /// Tells the engine that the edge is broken, unless that was done before.
    pub(super) fn report(&self) {
        if !self.reported.swap(true, Ordering::AcqRel) {
            tracing::debug!(edge = ?self.edge, built = %self.built, "ring edge broke");
            // Fails only where the engine is gone.
            let _ = self.events.send(DataEvent::EdgeBroke {
                edge: self.edge,
                built: self.built,
            });
        }
    }

    /// Bytes have moved on a lane.
    pub(super) fn moved(&self) {
        self.moves.fetch_add(1, Ordering::Relaxed);
        self.progress.moved();
    }

    /// How often bytes have moved: two equal answers mean that none have in between.
    pub(super) fn moves(&self) -> u64 {
        self.moves.load(Ordering::Relaxed)
    }

    /// A frame has come that no operation here has a use for, or none yet.
    pub(super) fn strayed(&self) {
        self.strays.fetch_add(1, Ordering::Relaxed);
    }

    /// How many such frames have come.
    pub(super) fn strays(&self) -> u64 {
        self.strays.load(Ordering::Relaxed)
    }

    /// How many lanes it has, ended ones included.
    pub(super) fn lanes(&self) -> usize {
        self.ended.len()
    }

    /// Lanes that have ended. Only under the registry's lock.
    pub(super) fn ended_lanes(&self) -> Vec<u16> {
        (0..)
            .zip(&self.ended)
            .filter(|(_, ended)| ended.load(Ordering::Acquire))
            .map(|(lane, _)| lane)
            .collect()
    }

    /// Only under the registry's lock.
    pub(super) fn mark_ended(&self, lane: u16) {
        if let Some(ended) = self.ended.get(usize::from(lane)) {
            ended.store(true, Ordering::Release);
        }
    }
}

/// Lanes that were built and are not in use.
#[derive(Debug)]
pub(super) struct Installed {
    pub(super) built: Round,
    pub(super) lanes: Vec<Lane>,
}

/// An edge in use. Dropping it ends its tasks, and the lanes as soon as no operation holds them.
#[derive(Debug)]
pub(super) struct StandingEdge {
    pub(super) state: Arc<EdgeState>,
    /// The lanes, by number; none on the edge that receives.
    pub(super) slots: Arc<[Arc<TxSlot>]>,
    _keepers: JoinSet<()>,
}

impl StandingEdge {
    /// Puts lanes to use. Has to be called inside a tokio runtime.
    pub(super) fn stand(edge: Edge, installed: Installed, shared: &Arc<Shared>) -> Self {
        let Installed { built, lanes } = installed;
        let state = Arc::new(EdgeState {
            edge,
            built,
            reported: AtomicBool::new(false),
            ended: lanes.iter().map(|_| AtomicBool::new(false)).collect(),
            moves: AtomicU64::new(0),
            strays: AtomicU64::new(0),
            progress: shared.progress.clone(),
            events: shared.events.clone(),
        });
        let mut slots = Vec::new();
        let mut keepers = JoinSet::new();
        for (number, mut lane) in (0..).zip(lanes) {
            match edge {
                Edge::ToNext => {
                    // Small frames fit into the system's buffers, so only the system can tell that they
                    // do not arrive; it has to before the next rank starves.
                    lane.tx.give_up_after(shared.config.stall);
                    let (keeper, slot) = sending::Keeper::new(number, lane, &state, shared);
                    slots.push(slot);
                    keepers.spawn(keeper.run());
                }
                Edge::FromPrevious => {
                    let keeper = receiving::Keeper::new(number, lane, &state, shared);
                    keepers.spawn(keeper.run());
                }
            }
        }
        Self {
            state,
            slots: slots.into(),
            _keepers: keepers,
        }
    }

    /// Takes the edge out of use on purpose: nobody is told that it broke, but running operations
    /// learn that they have lost it.
    pub(super) fn retire(self, shared: &Shared) {
        self.state.reported.store(true, Ordering::Release);
        shared.registry.edge_gone(self.state.edge, self.state.built);
    }
}

impl Drop for StandingEdge {
    fn drop(&mut self) {
        for slot in self.slots.iter() {
            slot.end();
        }
    }
}
