//! Lanes to the next rank.
//!
//! A lane's sending end belongs to one operation at a time. The one that has it sends straight from
//! the memory where its frames are, and keeps it until another one asks; then they take turns, a frame
//! each. A frame that has begun is always finished, so that the receiver finds the next header: an
//! operation that ends in the middle of one leaves a copy of the rest to the lane's *keeper* task.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pccl_core::transport::{Lane, LaneError, LaneRx, LaneTx, recv_some};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::link::LinkState;
use super::registry::{Delivery, DeliverySender, Registry};
use crate::run::LOOKS_PER_STALL;

/// A lane that can be taken in turns.
pub(crate) struct TxSlot {
    lane: u16,
    link: Arc<LinkState>,
    is_local: bool,
    /// Payloads get a checksum.
    is_summed: bool,
    /// Its congestion control can be chosen.
    has_control: bool,
    turns: Mutex<Turns>,
    /// Does anybody wait? Read for every frame, without the lock.
    contended: AtomicBool,
    unfinished: mpsc::UnboundedSender<Unfinished>,
}

struct Turns {
    state: TurnState,
    /// Who waits, in the order in which they asked.
    waiting: VecDeque<DeliverySender>,
}

enum TurnState {
    Idle(Box<dyn LaneTx>),
    /// With the operation of this address.
    Taken(DeliverySender),
    /// With the keeper, which finishes a frame.
    Finishing,
    Ended,
}

/// The sending end of a lane, between two frames or, in the hands of its holder, in one.
pub(crate) struct TxLane {
    tx: Box<dyn LaneTx>,
    slot: Arc<TxSlot>,
}

/// The rest of a frame whose operation has ended.
struct Unfinished {
    lane: TxLane,
    rest: Vec<u8>,
}

/// The lane is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended;

impl std::fmt::Debug for TxSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TxSlot")
            .field("lane", &self.lane)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for TxLane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TxLane")
            .field("lane", &self.slot.lane)
            .finish_non_exhaustive()
    }
}

impl TxSlot {
    /// Does the lane stay on this machine?
    pub(crate) const fn is_local(&self) -> bool {
        self.is_local
    }

    /// Has no operation taken the lane at this moment?
    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.turns().state, TurnState::Idle(_))
    }

    /// Can its congestion control be chosen?
    pub(crate) const fn has_control(&self) -> bool {
        self.has_control
    }

    /// Gives the lane the congestion control that it should have, unless an operation has it, which then does so.
    pub(crate) fn steer_if_idle(&self) {
        if let TurnState::Idle(tx) = &mut self.turns().state {
            self.steer(tx.as_mut());
        }
    }

    /// Gives the lane the congestion control that it should have.
    fn steer(&self, tx: &mut dyn LaneTx) {
        let Some(has) = tx.congestion_control() else {
            return;
        };
        let wanted = self.link.control().wanted();
        if has != wanted {
            tracing::debug!(lane = self.lane, link = ?self.link.link(), ?wanted, "another congestion control");
            tx.set_congestion_control(wanted);
        }
    }

    /// Asks for the lane. `None`: it will be delivered when it is this one's turn.
    pub(crate) fn ask(self: &Arc<Self>, address: &DeliverySender) -> Result<Option<TxLane>, Ended> {
        let mut turns = self.turns();
        match std::mem::replace(&mut turns.state, TurnState::Taken(address.clone())) {
            TurnState::Idle(tx) => {
                let slot = Arc::clone(self);
                return Ok(Some(TxLane { tx, slot }));
            }
            TurnState::Ended => {
                turns.state = TurnState::Ended;
                return Err(Ended);
            }
            TurnState::Taken(holder) => {
                // Before the holder is woken, so that it finds this when it looks.
                if !self.contended.swap(true, Ordering::Relaxed) {
                    // Fails where the holder has just ended; it passes the lane on.
                    let _ = holder.send(Delivery::Wanted);
                }
                turns.state = TurnState::Taken(holder);
            }
            TurnState::Finishing => {
                self.contended.store(true, Ordering::Relaxed);
                turns.state = TurnState::Finishing;
            }
        }
        turns.waiting.push_back(address.clone());
        Ok(None)
    }

    /// The lane is of no more use. Who holds it finds out.
    pub(crate) fn end(&self) {
        let mut turns = self.turns();
        turns.state = TurnState::Ended;
        turns.waiting.clear();
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TxLane {
    /// Its number.
    pub(crate) fn number(&self) -> u16 {
        self.slot.lane
    }

    /// Do payloads on it get a checksum?
    pub(crate) fn is_summed(&self) -> bool {
        self.slot.is_summed
    }

    pub(crate) fn is_of(&self, link: &Arc<LinkState>) -> bool {
        Arc::ptr_eq(&self.slot.link, link)
    }

    /// Does another operation wait for it?
    pub(crate) fn is_wanted(&self) -> bool {
        self.slot.contended.load(Ordering::Relaxed)
    }

    /// Gives it the congestion control that it should have.
    pub(crate) fn steer(&mut self) {
        self.slot.steer(self.tx.as_mut());
    }

    /// Sends at least one byte of what is not empty.
    pub(crate) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[&[u8]],
    ) -> Poll<Result<usize, LaneError>> {
        match ready!(self.tx.poll_send(cx, parts))? {
            0 => Poll::Ready(Err(LaneError::Closed)),
            sent => {
                self.slot.link.moved();
                Poll::Ready(Ok(sent))
            }
        }
    }

    /// Between two frames: the next one's turn.
    pub(crate) fn pass_on(self) {
        let slot = Arc::clone(&self.slot);
        let mut turns = slot.turns();
        let mut lane = self;
        while let Some(next) = turns.waiting.pop_front() {
            slot.contended
                .store(!turns.waiting.is_empty(), Ordering::Relaxed);
            match next.send(Delivery::Turn(lane)) {
                Ok(()) => {
                    if !matches!(turns.state, TurnState::Ended) {
                        turns.state = TurnState::Taken(next);
                    }
                    return;
                }
                // It has ended without taking its name off the list.
                Err(refused) => match refused.0 {
                    Delivery::Turn(refused) => lane = refused,
                    Delivery::Frame(..)
                    | Delivery::Wanted
                    | Delivery::Share(_)
                    | Delivery::LaneEnded { .. }
                    | Delivery::LinkGone { .. }
                    | Delivery::Stop => return,
                },
            }
        }
        if !matches!(turns.state, TurnState::Ended) {
            // Whoever steers idle lanes does so before, and finds it in use, or after.
            slot.steer(lane.tx.as_mut());
            turns.state = TurnState::Idle(lane.tx);
        }
    }

    /// In the middle of a frame: `rest` is what the next rank still has to get before anybody's turn.
    pub(crate) fn leave_unfinished(self, rest: Vec<u8>) {
        let slot = Arc::clone(&self.slot);
        let mut turns = slot.turns();
        if !matches!(turns.state, TurnState::Ended) {
            turns.state = TurnState::Finishing;
        }
        drop(turns);
        // Fails if the link is no longer in use; the lane then ends.
        let _ = slot.unfinished.send(Unfinished { lane: self, rest });
    }
}

/// Watches a lane, and finishes frames that others have left.
pub(crate) struct Keeper {
    slot: Arc<TxSlot>,
    rx: Box<dyn LaneRx>,
    unfinished: mpsc::UnboundedReceiver<Unfinished>,
    stall: Duration,
    registry: Arc<Registry>,
}

impl Keeper {
    /// The keeper of a lane that has just been put to use, and the lane.
    pub(crate) fn new(
        lane: u16,
        (ends, is_summed): (Lane, bool),
        link: &Arc<LinkState>,
        stall: Duration,
        registry: &Arc<Registry>,
    ) -> (Self, Arc<TxSlot>) {
        let (unfinished, received) = mpsc::unbounded_channel();
        let slot = Arc::new(TxSlot {
            lane,
            link: Arc::clone(link),
            is_local: ends.tx.is_local(),
            is_summed,
            has_control: ends.tx.congestion_control().is_some(),
            turns: Mutex::new(Turns {
                state: TurnState::Idle(ends.tx),
                waiting: VecDeque::new(),
            }),
            contended: AtomicBool::new(false),
            unfinished,
        });
        let keeper = Self {
            slot: Arc::clone(&slot),
            rx: ends.rx,
            unfinished: received,
            stall,
            registry: Arc::clone(registry),
        };
        (keeper, slot)
    }

    /// Keeps the lane until it ends, in either direction.
    pub(crate) async fn run(self) {
        let Self {
            slot,
            mut rx,
            mut unfinished,
            stall,
            registry,
        } = self;
        let end = tokio::select! {
            biased;
            end = wait_for_end(rx.as_mut()) => end,
            end = finish_frames(&mut unfinished, stall) => end,
        };
        tracing::debug!(lane = slot.lane, %end, "a sending lane ended");
        slot.end();
        registry.lane_ended(&slot.link, slot.lane);
    }
}

/// Finishes what is left unfinished. Every piece of progress has `stall` of time, in several looks: time in which this
/// process stood still counts as one look at most.
async fn finish_frames(
    unfinished: &mut mpsc::UnboundedReceiver<Unfinished>,
    stall: Duration,
) -> LaneError {
    while let Some(Unfinished { mut lane, rest }) = unfinished.recv().await {
        let mut rest = rest.as_slice();
        while !rest.is_empty() {
            let progress = poll_fn(|cx| {
                lane.steer();
                lane.poll_send(cx, &[rest])
            });
            match within_looks(stall, progress).await {
                Some(Ok(sent)) => rest = rest.get(sent..).unwrap_or_default(),
                Some(Err(error)) => return error,
                None => return LaneError::TimedOut,
            }
        }
        lane.pass_on();
    }
    LaneError::Closed
}

/// What this becomes within the stall time. `None`: nothing.
async fn within_looks<T>(stall: Duration, becomes: impl Future<Output = T>) -> Option<T> {
    let mut becomes = pin!(becomes);
    for _ in 0..LOOKS_PER_STALL {
        if let Ok(done) = timeout(stall / LOOKS_PER_STALL, &mut becomes).await {
            return Some(done);
        }
    }
    None
}

/// Nothing is ever sent back on this link, so whatever is received is the end.
async fn wait_for_end(rx: &mut dyn LaneRx) -> LaneError {
    match recv_some(rx, &mut [0]).await {
        Ok(0) => LaneError::Closed,
        Ok(_) => LaneError::Failed,
        Err(error) => error,
    }
}
