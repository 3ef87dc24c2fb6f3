//! Lanes from the previous rank.
//!
//! A lane's receiving end belongs to whoever has the next frame on it. A *keeper* task reads the header
//! while nobody does, and the registry hands the lane to that operation, which receives the payload
//! straight to where it belongs and reads the next header itself. So a lone operation never hands a
//! lane over, and several of them do so frame by frame.
//!
//! With a header a few KiB more are received, if they are there: a small frame costs one system call.

use std::future::poll_fn;
use std::io::Read;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pccl_core::id::Round;
use pccl_core::topology::LinkId;
use pccl_core::transport::{Lane, LaneError, LaneRx, LaneTx};
use pccl_core::wire::{FRAME_HEADER_BYTES, FrameError, FrameHeader};
use tokio::sync::mpsc;

use super::Shared;
use super::link::LinkState;

/// Bytes that are received with a header: a small frame, and little to copy of a large one.
const AHEAD_BYTES: usize = 8 * 1024;

/// Bytes of unwanted payload that are received at a time.
const DISCARD_BYTES: usize = 16 * 1024;

/// Why a lane is of no more use.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadEnd {
    #[error(transparent)]
    Lane(#[from] LaneError),
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// The receiving end of a lane, anywhere between the end of one payload and the beginning of the next.
pub(super) struct RxLane {
    lane: u16,
    rx: Box<dyn LaneRx>,
    /// What was received and is not yet taken: at first the next header, as far as it has arrived.
    ahead: Box<[u8]>,
    taken: usize,
    filled: usize,
    link: Arc<LinkState>,
    keeper: mpsc::UnboundedSender<Homecoming>,
}

impl std::fmt::Debug for RxLane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RxLane")
            .field("lane", &self.lane)
            .finish_non_exhaustive()
    }
}

/// A lane that nobody needs, and how much of a payload is to be thrown away first.
struct Homecoming {
    lane: RxLane,
    discard: usize,
}

impl RxLane {
    /// Its number.
    pub(super) const fn number(&self) -> u16 {
        self.lane
    }

    pub(super) fn is_of(&self, link: LinkId, built: Round) -> bool {
        self.link.is(link, built)
    }

    pub(super) fn comes_over(&self, link: &Arc<LinkState>) -> bool {
        Arc::ptr_eq(&self.link, link)
    }

    /// What comes next on it is what its sender should not send.
    pub(super) fn report_link(&self) {
        self.link.report();
    }

    /// No operation here has a use for the frame that comes next, or none yet.
    pub(super) fn strayed(&self) {
        self.link.strayed();
    }

    /// Receives the next header.
    pub(super) fn poll_header(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<FrameHeader, ReadEnd>> {
        loop {
            let waiting = self.ahead.get(self.taken..self.filled).unwrap_or_default();
            if let Some((head, _)) = waiting.split_first_chunk::<FRAME_HEADER_BYTES>() {
                let header = FrameHeader::decode(head);
                self.taken += FRAME_HEADER_BYTES;
                return Poll::Ready(header.map_err(ReadEnd::from));
            }
            self.make_room();
            let room = self.ahead.get_mut(self.filled..).unwrap_or_default();
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
    pub(super) fn poll_payload(
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
    pub(super) fn begin_header(&mut self, bytes: &[u8]) {
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
    pub(super) fn go_home(self, discard: usize) {
        let keeper = self.keeper.clone();
        // Fails if the link is no longer in use; the lane then ends.
        let _ = keeper.send(Homecoming {
            lane: self,
            discard,
        });
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
pub(super) struct Keeper {
    lane: u16,
    link: Arc<LinkState>,
    shared: Arc<Shared>,
    homecomings: mpsc::UnboundedReceiver<Homecoming>,
    /// Nothing is sent on it, but dropping it would end that direction.
    _tx: Box<dyn LaneTx>,
}

impl Keeper {
    /// The keeper of a lane that has just been put to use.
    pub(super) fn new(lane: u16, ends: Lane, link: &Arc<LinkState>, shared: &Arc<Shared>) -> Self {
        let (keeper, homecomings) = mpsc::unbounded_channel();
        let receiving = RxLane {
            lane,
            rx: ends.rx,
            ahead: vec![0; FRAME_HEADER_BYTES + AHEAD_BYTES].into(),
            taken: 0,
            filled: 0,
            link: Arc::clone(link),
            keeper,
        };
        receiving.go_home(0);
        Self {
            lane,
            link: Arc::clone(link),
            shared: Arc::clone(shared),
            homecomings,
            _tx: ends.tx,
        }
    }

    /// Keeps the lane until it ends, or whoever had it drops it.
    pub(super) async fn run(mut self) {
        while let Some(Homecoming { mut lane, discard }) = self.homecomings.recv().await {
            match next_frame(&mut lane, discard).await {
                Ok(header) => self.shared.registry.route(lane, header),
                Err(end) => {
                    tracing::debug!(lane = self.lane, %end, "a receiving lane ended");
                    break;
                }
            }
        }
        self.shared.registry.lane_ended(&self.link, self.lane);
    }
}

/// Throws away what nobody wants, and waits for the next header.
async fn next_frame(lane: &mut RxLane, mut discard: usize) -> Result<FrameHeader, ReadEnd> {
    if discard > 0 {
        let mut unwanted = vec![0; DISCARD_BYTES];
        while discard > 0 {
            let portion = discard.min(DISCARD_BYTES);
            let room = unwanted.get_mut(..portion).unwrap_or_default();
            discard -= poll_fn(|cx| lane.poll_payload(cx, room)).await?;
        }
    }
    poll_fn(|cx| lane.poll_header(cx)).await
}
