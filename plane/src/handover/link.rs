//! A standing link: its lanes, the tasks that keep them, and the one report that it broke.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pccl_core::id::Round;
use pccl_core::topology::{LinkId, Way};
use pccl_core::transport::Lane;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::receiving::Home;
use super::registry::Registry;
use super::sending::TxSlot;
use super::{receiving, sending};
use crate::pace::{ControlChoice, LaneChoice, PlaneConfig};
use crate::progress::Progress;

/// What is known about a link by everybody who uses it.
#[derive(Debug)]
pub(crate) struct LinkState {
    link: LinkId,
    built: Round,
    /// It was told that the link broke, or need not be.
    reported: AtomicBool,
    /// By lane.
    ended: Box<[AtomicBool]>,
    /// How often bytes have moved on any lane, for whichever operation.
    moves: AtomicU64,
    /// Frames that no operation here had a use for when they came.
    strays: AtomicU64,
    /// How many of its lanes the sender uses.
    choice: Mutex<LaneChoice>,
    /// Which congestion control its lanes should have.
    control: Arc<ControlChoice>,
    reports: Reports,
}

/// Where links say that bytes have moved on them, and that they have broken.
#[derive(Clone, Debug)]
pub(crate) struct Reports {
    /// Counts everything that this peer moves.
    pub(crate) progress: Progress,
    /// To whoever holds the plane.
    pub(crate) broken: mpsc::UnboundedSender<LinkBroke>,
}

impl Reports {
    /// This build of this link is of no more use.
    pub(crate) fn broke(&self, link: LinkId, built: Round) {
        // Fails only where nobody listens any more.
        let _ = self.broken.send(LinkBroke { link, built });
    }
}

impl LinkState {
    /// Which link it is.
    pub(crate) const fn link(&self) -> LinkId {
        self.link
    }

    /// The round in which the link was built.
    pub(crate) const fn built(&self) -> Round {
        self.built
    }

    /// Is it this build of this link?
    pub(crate) fn is(&self, link: LinkId, built: Round) -> bool {
        self.link == link && self.built == built
    }

    /// Tells that the link is broken, unless that was done before.
    pub(crate) fn report(&self) {
        if !self.reported.swap(true, Ordering::AcqRel) {
            tracing::debug!(link = ?self.link, built = %self.built, "a link broke");
            self.reports.broke(self.link, self.built);
        }
    }

    /// Bytes have moved on a lane.
    pub(crate) fn moved(&self) {
        self.moves.fetch_add(1, Ordering::Relaxed);
        self.reports.progress.moved();
    }

    /// How often bytes have moved: two equal answers mean that none have in between.
    pub(crate) fn moves(&self) -> u64 {
        self.moves.load(Ordering::Relaxed)
    }

    /// A frame has come that no operation here has a use for, or none yet.
    pub(crate) fn strayed(&self) {
        self.strays.fetch_add(1, Ordering::Relaxed);
    }

    /// How many such frames have come.
    pub(crate) fn strays(&self) -> u64 {
        self.strays.load(Ordering::Relaxed)
    }

    /// How many lanes it has, ended ones included.
    pub(crate) fn lanes(&self) -> usize {
        self.ended.len()
    }

    /// How many of its lanes the sender uses.
    pub(crate) fn choice(&self) -> MutexGuard<'_, LaneChoice> {
        self.choice.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which congestion control its lanes should have.
    pub(crate) fn control(&self) -> &ControlChoice {
        &self.control
    }

    /// Lanes that have ended. Only under the registry's lock.
    pub(crate) fn ended_lanes(&self) -> Vec<u16> {
        (0..)
            .zip(&self.ended)
            .filter(|(_, ended)| ended.load(Ordering::Acquire))
            .map(|(lane, _)| lane)
            .collect()
    }

    /// Only under the registry's lock.
    pub(crate) fn mark_ended(&self, lane: u16) {
        if let Some(ended) = self.ended.get(usize::from(lane)) {
            ended.store(true, Ordering::Release);
        }
    }
}

/// What the data plane tells: a link in use is of no more use. Told once per link and build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkBroke {
    /// Which link.
    pub link: LinkId,
    /// The round in which it was built.
    pub built: Round,
}

/// Lanes that were built and are not in use.
#[derive(Debug)]
pub(crate) struct Installed {
    pub(crate) built: Round,
    pub(crate) lanes: Vec<Lane>,
}

/// A link in use. Dropping it ends its tasks, and the lanes as soon as no operation holds them.
#[derive(Debug)]
pub(crate) struct StandingLink {
    pub(crate) state: Arc<LinkState>,
    /// The lanes, by number; none on a link that receives.
    pub(crate) slots: Arc<[Arc<TxSlot>]>,
    /// Where lanes are while nobody has them, by number; none on a link that sends.
    pub(crate) homes: Arc<[Arc<Home>]>,
    _keepers: JoinSet<()>,
}

impl StandingLink {
    /// Puts lanes to use. A frame that makes no progress for the stall time has lost its lane. Has to be called inside
    /// a tokio runtime.
    pub(crate) fn stand(
        link: LinkId,
        installed: Installed,
        config: &PlaneConfig,
        registry: &Arc<Registry>,
        (control, reports): (&Arc<ControlChoice>, &Reports),
    ) -> Self {
        let stall = config.stall;
        let Installed { built, lanes } = installed;
        let count = u16::try_from(lanes.len()).unwrap_or(u16::MAX);
        let state = Arc::new(LinkState {
            link,
            built,
            reported: AtomicBool::new(false),
            ended: lanes.iter().map(|_| AtomicBool::new(false)).collect(),
            moves: AtomicU64::new(0),
            strays: AtomicU64::new(0),
            choice: Mutex::new(LaneChoice::new(count, link.with.0)),
            control: Arc::clone(control),
            reports: reports.clone(),
        });
        let (mut slots, mut homes) = (Vec::new(), Vec::new());
        let mut keepers = JoinSet::new();
        for (number, mut lane) in (0..).zip(lanes) {
            match link.way {
                Way::Out => {
                    // Small frames fit into the system's buffers, so only the system can tell that they
                    // do not arrive; it has to before the receiver starves.
                    lane.tx.give_up_after(stall);
                    let is_summed = config.checksums.apply_to(&lane);
                    let lane = (lane, is_summed);
                    let (keeper, slot) =
                        sending::Keeper::new(number, lane, &state, stall, registry);
                    slots.push(slot);
                    keepers.spawn(keeper.run());
                }
                Way::In => {
                    let (keeper, home) = receiving::Keeper::new(number, lane, &state, registry);
                    homes.push(home);
                    keepers.spawn(keeper.run());
                }
            }
        }
        Self {
            state,
            slots: slots.into(),
            homes: homes.into(),
            _keepers: keepers,
        }
    }

    /// Takes the link out of use on purpose: nobody is told that it broke, but running operations
    /// learn that they have lost it.
    pub(crate) fn retire(self, registry: &Registry) {
        self.state.reported.store(true, Ordering::Release);
        registry.link_gone(self.state.link, self.state.built);
    }
}

impl Drop for StandingLink {
    fn drop(&mut self) {
        for slot in self.slots.iter() {
            slot.end();
        }
    }
}
