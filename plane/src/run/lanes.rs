//! What one operation does on a lane: one that it receives on, or one that it sends on.

use std::collections::VecDeque;
use std::task::{Context, Poll, ready};

use pccl_core::transport::LaneError;
use pccl_core::wire::{FRAME_HEADER_BYTES, FrameHeader};

use super::stall::LeftSoFar;
use super::{RunFailure, Sending};
use crate::handover::{AHEAD_BYTES, DeliverySender, ReadEnd, RxLane, TxLane};
use crate::memory::UserBuffers;
use crate::pace::{BYTES_AT_ONCE, FRAMES_AT_ONCE, SMALL_BYTES};
use crate::work::{BEYOND, Defect, IncomingFrame, OutgoingFrame, RankWork};

/// A lane from another rank, while the operation has it, and its frame on it.
#[derive(Default)]
pub(crate) struct RxWork {
    rx: Option<RxLane>,
    arriving: Option<Arriving>,
}

/// A lane to another rank, while the operation has it, and its frames on it.
#[derive(Default)]
pub(crate) struct TxWork {
    tx: Option<TxLane>,
    /// The lane was asked for and has not been delivered.
    asked: bool,
    /// In the order in which they leave.
    leaving: VecDeque<Leaving>,
    /// How many frames have left, whole.
    left: u64,
}

/// A frame of which a part has arrived.
struct Arriving {
    frame: IncomingFrame,
    filled: usize,
}

/// A frame of which a part has left.
struct Leaving {
    frame: OutgoingFrame,
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
pub(crate) enum Arrived {
    /// The whole frame that was announced.
    Frame(IncomingFrame),
    /// The next header: the lane is whose it says.
    Header(FrameHeader),
}

impl RxWork {
    /// The lane, before its next header.
    pub(crate) fn obtained(&mut self, rx: RxLane) {
        self.rx = Some(rx);
    }

    /// A frame of the operation comes next on the lane.
    pub(crate) fn announced(&mut self, rx: RxLane, frame: IncomingFrame) {
        self.arriving = Some(Arriving { frame, filled: 0 });
        self.rx = Some(rx);
    }

    /// Receives what is there, up to the end of a frame or of a header. The operation expects `owed` bytes more
    /// over this link. Tells in `moved` whether any of a frame has arrived.
    pub(crate) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        buffers: &mut UserBuffers<'_>,
        owed: u64,
        moved: &mut bool,
    ) -> Poll<Result<Arrived, ReadEnd>> {
        let Some(rx) = &mut self.rx else {
            return Poll::Pending;
        };
        if let Some(arriving) = &mut self.arriving {
            ready!(arriving.poll_rest(rx, cx, buffers, moved))?;
        }
        match self.arriving.take() {
            Some(Arriving { frame, filled }) => {
                rx.begin_header(frame.beyond(filled));
                Poll::Ready(Ok(Arrived::Frame(frame)))
            }
            None => rx.poll_header(cx, ahead_of(owed)).map_ok(Arrived::Header),
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
    pub(crate) fn obtained(&mut self, mut tx: TxLane) {
        self.asked = false;
        tx.steer();
        self.tx = Some(tx);
    }

    /// The lane gets the congestion control that it should have.
    pub(crate) fn steer(&mut self) {
        self.tx.iter_mut().for_each(TxLane::steer);
    }

    /// Is the lane here? Asks for it where it is not.
    pub(crate) fn obtain(
        &mut self,
        number: u16,
        sending: &Sending,
        address: &DeliverySender,
    ) -> Result<bool, RunFailure> {
        if self.tx.is_none() && !self.asked {
            let slot = sending.slots.get(usize::from(number));
            match slot.map(|slot| slot.ask(address)) {
                Some(Ok(Some(tx))) => self.obtained(tx),
                Some(Ok(None)) => self.asked = true,
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
    pub(crate) fn is_sending(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// May this frame leave together with those that are about to?
    pub(crate) fn has_room(&self) -> bool {
        let bytes = self.leaving.iter().map(|leaving| leaving.frame.length());
        self.leaving.len() < FRAMES_AT_ONCE && bytes.sum::<usize>() < BYTES_AT_ONCE
    }

    /// A frame is about to leave, behind those that already are: with a checksum if the lane asks for it.
    pub(crate) fn begin_to_send(
        &mut self,
        mut frame: OutgoingFrame,
        buffers: &UserBuffers<'_>,
    ) -> Result<(), Defect> {
        if self.tx.as_ref().is_some_and(TxLane::is_summed) {
            frame.sum_up(buffers)?;
        } else {
            frame.header.sum = None;
        }
        self.leaving.push_back(Leaving {
            head: frame.header.encode(),
            frame,
            sent: 0,
        });
        Ok(())
    }

    /// Sends what the lane takes of the frames that leave. Ready once one has left, whole. Tells in `moved` whether
    /// any of one has.
    pub(crate) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        buffers: &UserBuffers<'_>,
        moved: &mut bool,
    ) -> Poll<Result<(), SendEnd>> {
        let Some(tx) = &mut self.tx else {
            return Poll::Pending;
        };
        while self.leaving.front().is_some_and(|first| !first.is_whole()) {
            let mut parts: [&[u8]; 2 * FRAMES_AT_ONCE] = [&[]; _];
            for (pair, leaving) in parts.as_chunks_mut().0.iter_mut().zip(&self.leaving) {
                let (head, body) = leaving.rest(buffers)?;
                *pair = [head, body];
            }
            let mut sent = ready!(tx.poll_send(cx, &parts))?;
            for leaving in &mut self.leaving {
                sent -= leaving.has_sent(sent);
            }
            *moved = true;
        }
        match self.leaving.is_empty() {
            true => Poll::Pending,
            false => Poll::Ready(Ok(())),
        }
    }

    /// A frame that has left, whole.
    pub(crate) fn take_left(&mut self) -> Option<OutgoingFrame> {
        self.leaving.front().filter(|first| first.is_whole())?;
        let left = self.leaving.pop_front()?;
        self.left += 1;
        Some(left.frame)
    }

    /// The lane has ended.
    pub(crate) fn lose_sending(&mut self) {
        self.tx = None;
        self.leaving.clear();
    }

    /// How much has left, where a frame is about to.
    pub(crate) fn left_so_far(&self) -> Option<LeftSoFar> {
        let leaving = self.leaving.front().filter(|_| self.tx.is_some());
        leaving.map(|leaving| (self.left, leaving.sent))
    }

    /// Gives the lane to others, at the boundary of a frame.
    pub(crate) fn give_up(&mut self, buffers: &UserBuffers<'_>) {
        let Some(tx) = self.tx.take() else {
            return;
        };
        let begun = |leaving: &Leaving| leaving.sent > 0 && !leaving.is_whole();
        let unfinished = self.leaving.iter().find(|leaving| begun(leaving));
        match unfinished.map(|leaving| leaving.rest(buffers)) {
            Some(Ok((head, body))) => tx.leave_unfinished([head, body].concat()),
            // The lane cannot be used any more: what follows is no header.
            Some(Err(_)) => drop(tx),
            None => tx.pass_on(),
        }
        self.leaving.clear();
    }
}

/// How much may be received with a header. If all that an operation lacks is little, all of it, and some bytes more:
/// the system then tells that nothing else is there, without being asked again.
fn ahead_of(owed: u64) -> usize {
    match usize::try_from(owed) {
        Ok(owed) if owed <= SMALL_BYTES => owed + FRAMES_AT_ONCE * FRAME_HEADER_BYTES,
        Ok(_) | Err(_) => AHEAD_BYTES,
    }
}

impl Arriving {
    /// Receives what is missing, and compares its checksum.
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
        Poll::Ready(match self.frame.is_intact(buffers) {
            true => Ok(()),
            false => Err(ReadEnd::DamagedPayload),
        })
    }
}

impl Leaving {
    /// Bytes of header and payload.
    const fn bytes(&self) -> usize {
        self.head.len() + self.frame.length()
    }

    const fn is_whole(&self) -> bool {
        self.sent >= self.bytes()
    }

    /// So many bytes were sent of this frame and those behind it. Returns how many of them are of this one.
    fn has_sent(&mut self, bytes: usize) -> usize {
        let of_this = bytes.min(self.bytes() - self.sent);
        self.sent += of_this;
        of_this
    }

    /// What is still to be sent of the header, and of the payload.
    fn rest<'a>(&'a self, buffers: &'a UserBuffers<'_>) -> Result<(&'a [u8], &'a [u8]), SendEnd> {
        let payload = RankWork::payload(&self.frame, buffers);
        let payload = payload.ok_or(SendEnd::NoPayload)?;
        let head = self.head.get(self.sent..).unwrap_or_default();
        let of_payload = self.sent.saturating_sub(self.head.len());
        Ok((head, payload.get(of_payload..).unwrap_or_default()))
    }
}
