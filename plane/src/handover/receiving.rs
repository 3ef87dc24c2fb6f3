//! Lanes from other ranks.
//!
//! A lane's receiving end belongs to whoever has the next frame on it. A *keeper* task reads the header
//! while nobody does, and the registry hands the lane to that operation, which receives the payload
//! straight to where it belongs and reads the next header itself. An operation that runs alone takes the lanes
//! that it needs from their [`Home`]s when it begins. So it waits for all of them by itself, without another task
//! and a wake-up for each of them, and never hands one over; several operations do so frame by frame.
//!
//! With a header a few KiB more are received, if they are there: a small frame costs one system call.

use std::future::poll_fn;
use std::io::Read;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use pccl_core::id::Round;
use pccl_core::topology::LinkId;
use pccl_core::transport::{Lane, LaneError, LaneRx, LaneTx};
use pccl_core::wire::{FRAME_HEADER_BYTES, FrameError, FrameHeader};

use super::link::LinkState;
use super::registry::Registry;

/// Bytes that are received with a header: a small frame, and little to copy of a large one.
pub(crate) const AHEAD_BYTES: usize = 8 * 1024;

/// Bytes of unwanted payload that are received at a time.
const DISCARD_BYTES: usize = 16 * 1024;

/// Why a lane is of no more use.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadEnd {
    #[error(transparent)]
    Lane(#[from] LaneError),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("the payload of a data frame was damaged on its way")]
    DamagedPayload,
}

impl ReadEnd {
    /// Tells whoever reads the log: at once if bytes were damaged, which nothing else shows.
    pub(crate) fn tell(&self, link: &LinkState, lane: u16) {
        let from = link.link().with;
        match self {
            Self::DamagedPayload | Self::Frame(FrameError::Damaged) => {
                tracing::warn!(%from, lane, end = %self, "a lane is given up");
            }
            Self::Lane(_) | Self::Frame(_) => {
                tracing::debug!(%from, lane, end = %self, "a receiving lane ended");
            }
        }
    }
}

/// The receiving end of a lane, anywhere between the end of one payload and the beginning of the next.
pub(crate) struct RxLane {
    lane: u16,
    rx: Box<dyn LaneRx>,
    /// What was received and is not yet taken: at first the next header, as far as it has arrived.
    ahead: Vec<u8>,
    taken: usize,
    filled: usize,
    link: Arc<LinkState>,
    home: Key,
}

impl std::fmt::Debug for RxLane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RxLane")
            .field("lane", &self.lane)
            .finish_non_exhaustive()
    }
}

/// Where a lane is while no operation has it.
#[derive(Debug, Default)]
pub(crate) struct Home {
    state: Mutex<AtHome>,
}

#[derive(Debug, Default)]
struct AtHome {
    /// The lane, and how much of a payload is to be thrown away first.
    lane: Option<(RxLane, usize)>,
    /// Room for what is thrown away, while there is any.
    unwanted: Vec<u8>,
    /// Who reads the next header, if nobody takes the lane before.
    keeper: Option<Waker>,
    /// Whoever had the lane has dropped it, or nobody keeps it any more.
    is_over: bool,
}

/// With which a lane finds home. Dropping it says that the lane does not come home any more.
struct Key(Arc<Home>);

impl Drop for Key {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// What the keeper of a lane finds.
enum Found {
    Frame(RxLane, FrameHeader),
    /// The lane has ended, and why where it ended at home.
    End(Option<(RxLane, ReadEnd)>),
}

impl Home {
    /// The lane, if it is at home and nothing has to be thrown away first.
    pub(crate) fn take(&self) -> Option<RxLane> {
        let mut state = self.state();
        let lane = state.lane.take_if(|(_, discard)| *discard == 0);
        lane.map(|(lane, _)| lane)
    }

    fn put(&self, lane: RxLane, discard: usize) {
        let mut state = self.state();
        if state.is_over {
            drop(state);
            // The link is no longer in use; the lane ends.
            drop(lane);
            return;
        }
        state.lane = Some((lane, discard));
        let keeper = state.keeper.take();
        drop(state);
        keeper.into_iter().for_each(Waker::wake);
    }

    /// The lane does not come home any more, or nobody keeps it.
    fn end(&self) {
        let mut state = self.state();
        state.is_over = true;
        let (lane, keeper) = (state.lane.take(), state.keeper.take());
        drop(state);
        drop(lane);
        keeper.into_iter().for_each(Waker::wake);
    }

    /// Throws away what nobody wants, and waits for the next header.
    fn poll_found(&self, cx: &mut Context<'_>) -> Poll<Found> {
        let mut state = self.state();
        let AtHome {
            lane,
            unwanted,
            keeper,
            is_over,
        } = &mut *state;
        if !keeper
            .as_ref()
            .is_some_and(|known| known.will_wake(cx.waker()))
        {
            *keeper = Some(cx.waker().clone());
        }
        let Some((at_home, discard)) = lane else {
            return if *is_over {
                Poll::Ready(Found::End(None))
            } else {
                Poll::Pending
            };
        };
        let header = loop {
            if *discard == 0 {
                *unwanted = Vec::new();
                break ready!(at_home.poll_header(cx, AHEAD_BYTES));
            }
            unwanted.resize(DISCARD_BYTES.min(*discard), 0);
            match ready!(at_home.poll_payload(cx, unwanted)) {
                Ok(bytes) => *discard -= bytes,
                Err(end) => break Err(end),
            }
        };
        let lane = lane.take();
        // Its key takes the lock when it is dropped.
        drop(state);
        Poll::Ready(match (lane, header) {
            (Some((lane, _)), Ok(header)) => Found::Frame(lane, header),
            (lane, Err(end)) => Found::End(lane.map(|(lane, _)| (lane, end))),
            (None, Ok(_)) => Found::End(None),
        })
    }

    fn state(&self) -> MutexGuard<'_, AtHome> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RxLane {
    /// Its number.
    pub(crate) const fn number(&self) -> u16 {
        self.lane
    }

    pub(crate) fn is_of(&self, link: LinkId, built: Round) -> bool {
        self.link.is(link, built)
    }

    pub(crate) fn comes_over(&self, link: &Arc<LinkState>) -> bool {
        Arc::ptr_eq(&self.link, link)
    }

    /// What comes next on it is what its sender should not send.
    pub(crate) fn report_link(&self) {
        self.link.report();
    }

    /// No operation here has a use for the frame that comes next, or none yet.
    pub(crate) fn strayed(&self) {
        self.link.strayed();
    }

    /// Receives the next header.
    pub(crate) fn poll_header(
        &mut self,
        cx: &mut Context<'_>,
        ahead: usize,
    ) -> Poll<Result<FrameHeader, ReadEnd>> {
        loop {
            let waiting = self.ahead.get(self.taken..self.filled).unwrap_or_default();
            if let Some((head, _)) = waiting.split_first_chunk::<FRAME_HEADER_BYTES>() {
                let header = FrameHeader::decode(head);
                self.taken += FRAME_HEADER_BYTES;
                return Poll::Ready(header.map_err(ReadEnd::from));
            }
            self.make_room();
            let end = FRAME_HEADER_BYTES + ahead;
            if self.ahead.len() < end {
                self.ahead.resize(end, 0);
            }
            let room = self.ahead.get_mut(self.filled..end).unwrap_or_default();
            self.filled += ready!(poll_some(self.rx.as_mut(), cx, room))?;
            self.link.moved();
        }
    }

    /// Moves the beginning of a header to the front, so that the rest of it fits behind.
    fn make_room(&mut self) {
        self.ahead.copy_within(self.taken..self.filled, 0);
        self.filled -= self.taken;
        self.taken = 0;
    }

    /// Receives at least one byte.
    pub(crate) fn poll_payload(
        &mut self,
        cx: &mut Context<'_>,
        room: &mut [u8],
    ) -> Poll<Result<usize, ReadEnd>> {
        let mut waiting = self.ahead.get(self.taken..self.filled).unwrap_or_default();
        if !waiting.is_empty() {
            // Reading from memory does not fail.
            let bytes = waiting.read(room).unwrap_or_default();
            self.taken += bytes;
            return Poll::Ready(Ok(bytes));
        }
        let received = ready!(poll_some(self.rx.as_mut(), cx, room))?;
        self.link.moved();
        Poll::Ready(Ok(received))
    }

    /// The beginning of the next header was received behind a payload.
    pub(crate) fn begin_header(&mut self, bytes: &[u8]) {
        if self.taken == self.filled {
            (self.taken, self.filled) = (0, bytes.len());
        } else {
            // They were taken from here.
            self.taken = self.taken.saturating_sub(bytes.len());
        }
        let room = self.ahead.get_mut(self.taken..self.taken + bytes.len());
        if let Some(room) = room {
            room.copy_from_slice(bytes);
        }
    }

    /// Nobody needs the lane, nor the next `discard` bytes on it.
    pub(crate) fn go_home(self, discard: usize) {
        let home = Arc::clone(&self.home.0);
        home.put(self, discard);
    }
}

/// Receives at least one byte.
fn poll_some(
    rx: &mut dyn LaneRx,
    cx: &mut Context<'_>,
    into: &mut [u8],
) -> Poll<Result<usize, LaneError>> {
    match ready!(rx.poll_recv(cx, into))? {
        0 => Poll::Ready(Err(LaneError::Closed)),
        received => Poll::Ready(Ok(received)),
    }
}

/// Holds a lane while no operation does.
pub(crate) struct Keeper {
    lane: u16,
    link: Arc<LinkState>,
    registry: Arc<Registry>,
    home: Arc<Home>,
    /// Nothing is sent on it, but dropping it would end that direction.
    _tx: Box<dyn LaneTx>,
}

impl Keeper {
    /// The keeper of a lane that has just been put to use, and where the lane is from then on.
    pub(crate) fn new(
        lane: u16,
        ends: Lane,
        link: &Arc<LinkState>,
        registry: &Arc<Registry>,
    ) -> (Self, Arc<Home>) {
        let home = Arc::new(Home::default());
        let receiving = RxLane {
            lane,
            rx: ends.rx,
            ahead: vec![0; FRAME_HEADER_BYTES + AHEAD_BYTES],
            taken: 0,
            filled: 0,
            link: Arc::clone(link),
            home: Key(Arc::clone(&home)),
        };
        receiving.go_home(0);
        let keeper = Self {
            lane,
            link: Arc::clone(link),
            registry: Arc::clone(registry),
            home: Arc::clone(&home),
            _tx: ends.tx,
        };
        (keeper, home)
    }

    /// Keeps the lane until it ends, or whoever had it drops it.
    pub(crate) async fn run(self) {
        loop {
            match poll_fn(|cx| self.home.poll_found(cx)).await {
                Found::Frame(lane, header) => self.registry.route(lane, header),
                Found::End(end) => {
                    if let Some((_, end)) = end {
                        end.tell(&self.link, self.lane);
                    }
                    break;
                }
            }
        }
        self.registry.lane_ended(&self.link, self.lane);
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.home.end();
    }
}
