//! What one operation does on a lane: one that it receives on, or one that it sends on.

use std::task::{Context, Poll, ready};

use pccl_core::transport::LaneError;
use pccl_core::wire::{FRAME_HEADER_BYTES, FrameHeader};

use super::stall::LeftSoFar;
use super::{RunFailure, Sending};
use crate::handover::{Address, ReadEnd, RxLane, TxLane};
use crate::memory::UserBuffers;
use crate::work::{BEYOND, Incoming, Outgoing, RankWork};

/// A lane from another rank, while the operation has it, and its frame on it.
#[derive(Default)]
pub(crate) struct RxWork {
    rx: Option<RxLane>,
    arriving: Option<Arriving>,
}

/// A lane to another rank, while the operation has it, and its frame on it.
#[derive(Default)]
pub(crate) struct TxWork {
    tx: Option<TxLane>,
    /// The lane was asked for and has not been delivered.
    asked: bool,
    leaving: Option<Leaving>,
    /// How many frames have left, whole.
    left: u64,
}

/// A frame of which a part has arrived.
struct Arriving {
    frame: Incoming,
    filled: usize,
}

/// A frame of which a part has left.
struct Leaving {
    frame: Outgoing,
    head: [u8; FRAME_HEADER_BYTES],
    /// Bytes of header and payload.
    sent: usize,
}

/// Why a frame does not leave.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendEnd {
    #[error(transparent)]
    Lane(#[from] LaneError),
    #[error("the frame has no payload")]
    NoPayload,
}

/// What was received.
pub(crate) enum Arrival {
    /// The whole frame that was announced.
    Frame(Incoming),
    /// The next header: the lane is whose it says.
    Header(FrameHeader),
}

impl RxWork {
    /// The lane, before its next header.
    pub(crate) fn obtained(&mut self, rx: RxLane) {
        self.rx = Some(rx);
    }

    /// A frame of the operation comes next on the lane.
    pub(crate) fn announced(&mut self, rx: RxLane, frame: Incoming) {
        self.arriving = Some(Arriving { frame, filled: 0 });
        self.rx = Some(rx);
    }

    /// Receives what is there, up to the end of a frame or of a header. Tells in `moved` whether any of
    /// a frame has arrived.
    pub(crate) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        buffers: &mut UserBuffers<'_>,
        moved: &mut bool,
    ) -> Poll<Result<Arrival, ReadEnd>> {
        let Some(rx) = &mut self.rx else {
            return Poll::Pending;
        };
        if let Some(arriving) = &mut self.arriving {
            ready!(arriving.poll_rest(rx, cx, buffers, moved))?;
        }
        match self.arriving.take() {
            Some(Arriving { frame, filled }) => {
                rx.begin_header(frame.beyond(filled));
                Poll::Ready(Ok(Arrival::Frame(frame)))
            }
            None => rx.poll_header(cx).map_ok(Arrival::Header),
        }
    }

    /// The lane, between two frames.
    pub(crate) const fn take_rx(&mut self) -> Option<RxLane> {
        self.rx.take()
    }

    /// Gives the lane to others, at the boundary of a frame.
    pub(crate) fn give_up(&mut self) {
        if let Some(rx) = self.rx.take() {
            let missing = self.arriving.take();
            rx.go_home(missing.map_or(0, |frame| frame.frame.length() - frame.filled));
        }
    }
}

impl TxWork {
    /// The lane, as it was asked for.
    pub(crate) fn obtained(&mut self, tx: TxLane) {
        self.asked = false;
        self.tx = Some(tx);
    }

    /// Is the lane here? Asks for it where it is not.
    pub(crate) fn obtain(
        &mut self,
        number: u16,
        sending: &Sending,
        address: &Address,
    ) -> Result<bool, RunFailure> {
        if self.tx.is_none() && !self.asked {
            let slot = sending.slots.get(usize::from(number));
            match slot.map(|slot| slot.ask(address)) {
                Some(Ok(tx)) => {
                    self.asked = tx.is_none();
                    self.tx = tx;
                }
                Some(Err(_)) | None => {
                    sending.link.report();
                    return Err(RunFailure::LaneLost);
                }
            }
        }
        Ok(self.tx.is_some())
    }

    /// Between two frames: gives the lane to another operation that waits for it.
    pub(crate) fn pass_on_if_wanted(&mut self) {
        let tx = self.tx.take_if(|tx| tx.is_wanted());
        tx.into_iter().for_each(TxLane::pass_on);
    }

    /// Has a frame begun to leave?
    pub(crate) const fn is_sending(&self) -> bool {
        self.leaving.is_some()
    }

    /// A frame begins to leave.
    pub(crate) fn begin_to_send(&mut self, frame: Outgoing) {
        self.leaving = Some(Leaving {
            head: frame.header.encode(),
            frame,
            sent: 0,
        });
    }

    /// Sends what the lane takes of the frame that leaves, and hands it out when it has left. Tells in
    /// `moved` whether any of it has.
    pub(crate) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        buffers: &UserBuffers<'_>,
        moved: &mut bool,
    ) -> Poll<Result<Outgoing, SendEnd>> {
        let (Some(tx), Some(leaving)) = (&mut self.tx, &mut self.leaving) else {
            return Poll::Pending;
        };
        let payload = RankWork::payload(&leaving.frame, buffers);
        let payload = payload.ok_or(SendEnd::NoPayload)?;
        loop {
            let (head, body) = leaving.rest(payload);
            if head.is_empty() && body.is_empty() {
                break;
            }
            leaving.sent += ready!(tx.poll_send(cx, &[head, body]))?;
            *moved = true;
        }
        self.left += 1;
        let left = self.leaving.take();
        left.map_or(Poll::Pending, |left| Poll::Ready(Ok(left.frame)))
    }

    /// The lane has ended.
    pub(crate) fn lose_sending(&mut self) {
        self.tx = None;
        self.leaving = None;
    }

    /// How much has left, where a frame has begun to.
    pub(crate) fn left_so_far(&self) -> Option<LeftSoFar> {
        let leaving = self.leaving.as_ref().filter(|_| self.tx.is_some());
        leaving.map(|leaving| (self.left, leaving.sent))
    }

    /// Gives the lane to others, at the boundary of a frame.
    pub(crate) fn give_up(&mut self, buffers: &UserBuffers<'_>) {
        match (self.tx.take(), self.leaving.take()) {
            (Some(tx), Some(leaving)) if leaving.sent > 0 => {
                let payload = RankWork::payload(&leaving.frame, buffers);
                let (head, body) = leaving.rest(payload.unwrap_or_default());
                tx.leave_unfinished([head, body].concat());
            }
            (Some(tx), _) => tx.pass_on(),
            (None, _) => {}
        }
    }
}

impl Arriving {
    /// Receives what is missing.
    fn poll_rest(
        &mut self,
        rx: &mut RxLane,
        cx: &mut Context<'_>,
        buffers: &mut UserBuffers<'_>,
        moved: &mut bool,
    ) -> Poll<Result<(), ReadEnd>> {
        while self.filled < self.frame.length() {
            let room = self.frame.room(buffers, self.filled, BEYOND);
            self.filled += ready!(rx.poll_payload(cx, room))?;
            *moved = true;
        }
        Poll::Ready(Ok(()))
    }
}

impl Leaving {
    /// What is still to be sent of the header, and of the payload.
    fn rest<'a>(&'a self, payload: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        let head = self.head.get(self.sent..).unwrap_or_default();
        let of_payload = self.sent.saturating_sub(self.head.len());
        (head, payload.get(of_payload..).unwrap_or_default())
    }
}
