//! Running one operation: all its lanes in one loop, in the caller's task.
//!
//! The loop is that of a program that does nothing else: receive what is there, reduce it, send what
//! can be sent, and wait for the system only when nothing moves. The user's buffers are borrowed by
//! the task, so frames are received into them and sent from them without a copy, and no other task or
//! thread takes part. Receiving never waits for sending: what cannot leave yet waits in the outbox or
//! in the memory of the result, so no ring of full buffers can lock itself up.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use pccl_core::id::Round;
use pccl_core::topology::Edge;
use pccl_core::wire::{FRAME_HEADER_BYTES, FrameHeader};
use tokio::time::{Instant, Sleep, sleep_until};

use super::buffers::RingBuffers;
use super::gate::{Pass, Share};
use super::port::{RingFailure, RingPort, RingStats};
use super::receiving::RxLane;
use super::registry::{Delivery, Inbox};
use super::sending::TxLane;
use super::work::{BEYOND, Incoming, Outgoing, RingWork};

/// How many times during the stall time it is looked whether anything moves.
const LOOKS_PER_STALL: u32 = 4;

/// A run in progress. Dropping it gives the lanes to others, each at the boundary of a frame.
pub(super) struct Run<'a, 'b> {
    port: &'a RingPort,
    pass: &'a Pass,
    work: RingWork,
    buffers: RingBuffers<'b>,
    inbox: Inbox,
    lanes: Vec<LaneWork>,
    stats: RingStats,
    stall: Stall,
}

/// What the operation does on the lanes of one number.
#[derive(Default)]
struct LaneWork {
    rx: Option<RxLane>,
    arriving: Option<Arriving>,
    tx: Option<TxLane>,
    /// The lane to the next rank was asked for and has not been delivered.
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

/// Finds out that nothing moves, without touching the clock for every frame.
struct Stall {
    next_look: Pin<Box<Sleep>>,
    pause: Duration,
    seen: Moves,
    /// Looks in a row at which nothing had moved.
    idle_looks: u32,
    /// The same for each frame that leaves: which one it was and how much of it had left, and since how
    /// many looks.
    leaving: Vec<(Option<LeftSoFar>, u32)>,
}

/// How many frames have left on a lane, and how many bytes of the next one.
type LeftSoFar = (u64, usize);

/// How often bytes have moved on the edges that are waited for.
type Moves = (Option<u64>, Option<u64>);

impl<'a, 'b> Run<'a, 'b> {
    pub(super) fn new(
        (port, pass): (&'a RingPort, &'a Pass),
        work: RingWork,
        buffers: RingBuffers<'b>,
        inbox: Inbox,
    ) -> Result<Self, RingFailure> {
        let lanes = port.place.map_or(0, |place| place.lanes).max(work.lanes());
        let lanes: Vec<LaneWork> = (0..lanes).map(|_| LaneWork::default()).collect();
        let mut run = Self {
            stall: Stall::new(port.shared.config.stall, lanes.len()),
            port,
            pass,
            work,
            buffers,
            inbox,
            lanes,
            stats: RingStats::default(),
        };
        run.work.set_share(Share::Nothing);
        for lane in run.port.receiving.iter().flat_map(|edge| &edge.ended) {
            run.receiving_ended(*lane)?;
        }
        Ok(run)
    }

    fn go_on(&mut self, cx: &mut Context<'_>) -> Poll<Result<RingStats, RingFailure>> {
        loop {
            if self.port.is_stopped() {
                return Poll::Ready(Err(RingFailure::Stopped));
            }
            while let Poll::Ready(delivery) = self.inbox.poll_next(cx) {
                self.delivered(delivery.ok_or(RingFailure::Stopped)?)?;
            }
            let mut moved = false;
            for lane in (0..).take(self.lanes.len()) {
                // Who sends first lets the next rank begin.
                moved |= self.send(lane, cx)?;
                moved |= self.receive(lane, cx)?;
            }
            if self.work.is_done() {
                return Poll::Ready(Ok(self.stats));
            }
            if !moved {
                return match self.look(cx) {
                    Ok(()) => Poll::Pending,
                    Err(failure) => Poll::Ready(Err(failure)),
                };
            }
        }
    }

    fn delivered(&mut self, delivery: Delivery) -> Result<(), RingFailure> {
        match delivery {
            Delivery::Frame(rx, header) => self.announced(rx, header),
            Delivery::Turn(tx) => {
                if let Some(lane) = self.lanes.get_mut(usize::from(tx.number())) {
                    lane.asked = false;
                    lane.tx = Some(tx);
                }
                Ok(())
            }
            // Looked at before the next frame is sent, or where there is none.
            Delivery::Wanted => Ok(()),
            Delivery::Share(share) => {
                self.work.set_share(share);
                Ok(())
            }
            Delivery::LaneEnded { edge, built, lane } if self.uses(edge, built) => match edge {
                Edge::FromPrevious => self.receiving_ended(lane),
                Edge::ToNext => self.sending_ended(lane),
            },
            Delivery::EdgeGone { edge, built } if self.uses(edge, built) => self.edge_gone(edge),
            Delivery::LaneEnded { .. } | Delivery::EdgeGone { .. } => Ok(()),
            Delivery::Stop => Err(RingFailure::Stopped),
        }
    }

    /// Does the operation run over this build of the edge?
    fn uses(&self, edge: Edge, built: Round) -> bool {
        let mine = match edge {
            Edge::FromPrevious => self.port.receiving.as_ref().map(|mine| mine.edge.built()),
            Edge::ToNext => self.port.sending.as_ref().map(|mine| mine.edge.built()),
        };
        mine == Some(built)
    }

    fn receiving_ended(&self, lane: u16) -> Result<(), RingFailure> {
        if self.work.expects(lane) {
            return Err(RingFailure::LaneLost);
        }
        Ok(())
    }

    fn sending_ended(&self, lane: u16) -> Result<(), RingFailure> {
        if self.work.sends(lane) {
            return Err(RingFailure::LaneLost);
        }
        Ok(())
    }

    fn edge_gone(&self, edge: Edge) -> Result<(), RingFailure> {
        let needed = match edge {
            Edge::ToNext => self.work.sends_any(),
            Edge::FromPrevious => self.work.expects_any(),
        };
        if needed {
            return Err(RingFailure::LaneLost);
        }
        Ok(())
    }

    /// A header of this operation, on a lane that is the operation's from here on.
    fn announced(&mut self, rx: RxLane, header: FrameHeader) -> Result<(), RingFailure> {
        let number = rx.number();
        let announced = self.work.announce(number, &header, &mut self.buffers);
        match (announced, self.lanes.get_mut(usize::from(number))) {
            (Ok(frame), Some(lane)) => {
                lane.arriving = Some(Arriving { frame, filled: 0 });
                lane.rx = Some(rx);
                Ok(())
            }
            (Err(_), _) | (_, None) => {
                tracing::debug!(?header, lane = number, "a frame that nobody expected");
                rx.go_home(header.length as usize);
                if let Some(receiving) = &self.port.receiving {
                    receiving.edge.report();
                }
                Err(RingFailure::LaneLost)
            }
        }
    }

    /// Receives what is there, up to the end of a frame. Did anything move?
    fn receive(&mut self, number: u16, cx: &mut Context<'_>) -> Result<bool, RingFailure> {
        let Some(lane) = self.lanes.get_mut(usize::from(number)) else {
            return Ok(false);
        };
        let Some(rx) = &mut lane.rx else {
            return Ok(false);
        };
        let mut moved = false;
        let received = loop {
            let Some(arriving) = &mut lane.arriving else {
                break rx.poll_header(cx).map_ok(Some);
            };
            let filled = arriving.filled;
            let room = arriving.frame.room(&mut self.buffers, filled, BEYOND);
            match rx.poll_payload(cx, room) {
                Poll::Ready(Ok(received)) => arriving.filled += received,
                Poll::Ready(Err(end)) => break Poll::Ready(Err(end)),
                Poll::Pending => break Poll::Pending,
            }
            moved = true;
            if arriving.filled >= arriving.frame.length() {
                rx.begin_header(arriving.frame.beyond(arriving.filled));
                break Poll::Ready(Ok(None));
            }
        };
        match received {
            Poll::Pending => Ok(moved),
            Poll::Ready(Ok(None)) => self.arrived(number),
            Poll::Ready(Ok(Some(header))) => {
                let rx = lane.rx.take();
                rx.map_or(Ok(()), |rx| self.headed(rx, header))?;
                Ok(true)
            }
            Poll::Ready(Err(end)) => {
                tracing::debug!(lane = number, %end, "a receiving lane ended");
                lane.rx = None;
                if let Some(receiving) = &self.port.receiving {
                    self.port
                        .shared
                        .registry
                        .lane_ended(&receiving.edge, number);
                }
                // Whoever still needs it, this operation too, is told.
                Ok(true)
            }
        }
    }

    /// The next header on a lane of this operation, for whomever.
    fn headed(&mut self, rx: RxLane, header: FrameHeader) -> Result<(), RingFailure> {
        if header.seq == self.port.seq {
            return self.announced(rx, header);
        }
        self.port.shared.registry.route(rx, header);
        Ok(())
    }

    /// A frame is there, whole.
    fn arrived(&mut self, number: u16) -> Result<bool, RingFailure> {
        let Some(lane) = self.lanes.get_mut(usize::from(number)) else {
            return Ok(false);
        };
        if let Some(Arriving { frame, .. }) = lane.arriving.take() {
            self.stats.bytes_received += frame.length() as u64;
            let was_local = self.work.is_local();
            self.work.accept(frame, &mut self.buffers)?;
            if was_local && !self.work.is_local() {
                self.port.shared.not_local.store(true, Ordering::Relaxed);
                self.pass.ring_is_not_local();
            }
        }
        Ok(true)
    }

    /// Sends what the lane takes, up to the end of a frame. Did anything move?
    fn send(&mut self, number: u16, cx: &mut Context<'_>) -> Result<bool, RingFailure> {
        let Some(lane) = self.lanes.get_mut(usize::from(number)) else {
            return Ok(false);
        };
        if lane.leaving.is_none() {
            if !self.work.has_outgoing(number) {
                // Where there is something to send the lane is passed on behind the next frame: who
                // gave it away before that would take it back in vain for ever.
                lane.pass_on_if_wanted();
                return Ok(false);
            }
            if !lane.obtain(number, self.port)? {
                return Ok(false);
            }
            let next = self.work.next_out(number, &self.buffers)?;
            lane.leaving = next.map(Leaving::new);
        }
        let (Some(tx), Some(leaving)) = (&mut lane.tx, &mut lane.leaving) else {
            return Ok(false);
        };
        let mut moved = false;
        let payload = RingWork::payload(&leaving.frame, &self.buffers);
        let payload = payload.ok_or(RingFailure::LaneLost)?;
        loop {
            let (head, body) = leaving.rest(payload);
            if head.is_empty() && body.is_empty() {
                break;
            }
            match tx.poll_send(cx, &[head, body]) {
                Poll::Pending => return Ok(moved),
                Poll::Ready(Ok(sent)) => leaving.sent += sent,
                Poll::Ready(Err(end)) => {
                    tracing::debug!(lane = number, %end, "a sending lane ended");
                    return Err(self.lost_sending(number));
                }
            }
            moved = true;
        }
        self.left(number);
        Ok(true)
    }

    /// A frame has gone into its lane, whole.
    fn left(&mut self, number: u16) {
        let Some(lane) = self.lanes.get_mut(usize::from(number)) else {
            return;
        };
        if let Some(Leaving { frame, .. }) = lane.leaving.take() {
            let header = &frame.header;
            let (seq, step) = (header.seq.0, header.step);
            tracing::debug!(target: "pccl::event", kind = "ring_frame_sent", seq, step);
            self.stats.bytes_sent += u64::from(header.length);
            self.work.has_left(number, frame);
            lane.left += 1;
        }
        lane.pass_on_if_wanted();
    }

    fn lost_sending(&mut self, number: u16) -> RingFailure {
        if let Some(lane) = self.lanes.get_mut(usize::from(number)) {
            lane.tx = None;
            lane.leaving = None;
        }
        if let Some(sending) = &self.port.sending {
            if let Some(slot) = sending.slots.get(usize::from(number)) {
                slot.end();
            }
            self.port.shared.registry.lane_ended(&sending.edge, number);
        }
        RingFailure::LaneLost
    }

    /// Nothing moves: for too long?
    fn look(&mut self, cx: &mut Context<'_>) -> Result<(), RingFailure> {
        while self.stall.next_look.as_mut().poll(cx).is_ready() {
            let moves = self.moves();
            let leaving = self.lanes.iter().map(|lane| {
                let leaving = lane.leaving.as_ref().filter(|_| lane.tx.is_some());
                leaving.map(|leaving| (lane.left, leaving.sent))
            });
            let verdict = self.stall.looked(moves, leaving);
            if verdict.quiet && self.work.set_share(Share::Whole) != Share::Whole {
                // Whoever has the share makes no use of it: perhaps its user has ceased to poll it.
                cx.waker().wake_by_ref();
            }
            if verdict.frame_stuck || verdict.nothing_moves {
                return Err(self.stalled(verdict));
            }
        }
        Ok(())
    }

    fn moves(&self) -> Moves {
        let sending = self.port.sending.as_ref();
        let sending = sending.filter(|_| self.work.waits_to_send());
        let receiving = self.port.receiving.as_ref();
        let receiving = receiving.filter(|_| self.work.expects_any());
        (
            sending.map(|sending| sending.edge.moves()),
            receiving.map(|receiving| receiving.edge.moves()),
        )
    }

    /// Reports the edges that were waited for.
    fn stalled(&self, verdict: Verdict) -> RingFailure {
        tracing::debug!(seq = %self.port.seq, ?verdict, "an operation stalled");
        if let Some(sending) = &self.port.sending
            && (verdict.frame_stuck || self.work.waits_to_send())
        {
            sending.edge.report();
        }
        if let Some(receiving) = &self.port.receiving
            && verdict.nothing_moves
            && self.work.expects_any()
        {
            receiving.edge.report();
        }
        RingFailure::LaneLost
    }
}

impl Future for Run<'_, '_> {
    type Output = Result<RingStats, RingFailure>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.get_mut().go_on(cx)
    }
}

impl Drop for Run<'_, '_> {
    fn drop(&mut self) {
        for lane in &mut self.lanes {
            if let Some(rx) = lane.rx.take() {
                let missing = lane.arriving.take();
                rx.go_home(missing.map_or(0, |frame| frame.frame.length() - frame.filled));
            }
            match (lane.tx.take(), lane.leaving.take()) {
                (Some(tx), Some(leaving)) if leaving.sent > 0 => {
                    let payload = RingWork::payload(&leaving.frame, &self.buffers);
                    let (head, body) = leaving.rest(payload.unwrap_or_default());
                    tx.leave_unfinished([head, body].concat());
                }
                (Some(tx), _) => tx.pass_on(),
                (None, _) => {}
            }
        }
    }
}

impl LaneWork {
    /// Between two frames: gives the lane to another operation that waits for it.
    fn pass_on_if_wanted(&mut self) {
        let tx = self.tx.take_if(|tx| tx.is_wanted());
        tx.into_iter().for_each(TxLane::pass_on);
    }

    /// Is the lane to the next rank here? Asks for it where it is not.
    fn obtain(&mut self, number: u16, port: &RingPort) -> Result<bool, RingFailure> {
        if self.tx.is_none() && !self.asked {
            let sending = port.sending.as_ref();
            let slot = sending.and_then(|sending| sending.slots.get(usize::from(number)));
            let asked = slot.map(|slot| slot.ask(&port.address));
            match asked {
                Some(Ok(tx)) => {
                    self.asked = tx.is_none();
                    self.tx = tx;
                }
                Some(Err(_)) | None => {
                    if let Some(sending) = sending {
                        sending.edge.report();
                    }
                    return Err(RingFailure::LaneLost);
                }
            }
        }
        Ok(self.tx.is_some())
    }
}

impl Leaving {
    fn new(frame: Outgoing) -> Self {
        Self {
            head: frame.header.encode(),
            frame,
            sent: 0,
        }
    }

    /// What is still to be sent of the header, and of the payload.
    fn rest<'a>(&'a self, payload: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        let head = self.head.get(self.sent..).unwrap_or_default();
        let of_payload = self.sent.saturating_sub(self.head.len());
        (head, payload.get(of_payload..).unwrap_or_default())
    }
}

/// What a look has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Verdict {
    /// Nothing has moved since the look before, on any lane that is waited for.
    quiet: bool,
    /// Nothing has moved for the stall time, on any lane that is waited for.
    nothing_moves: bool,
    /// The same for a frame that has begun to leave.
    frame_stuck: bool,
}

impl Stall {
    fn new(stall: Duration, lanes: usize) -> Self {
        let pause = stall / LOOKS_PER_STALL;
        Self {
            next_look: Box::pin(sleep_until(Instant::now() + pause)),
            pause,
            seen: (None, None),
            idle_looks: 0,
            leaving: vec![(None, 0); lanes],
        }
    }

    /// Takes note of how much has moved: in all, and of the frame that leaves on each lane.
    fn looked(
        &mut self,
        moves: Moves,
        leaving: impl Iterator<Item = Option<LeftSoFar>>,
    ) -> Verdict {
        self.next_look.as_mut().reset(Instant::now() + self.pause);
        let idle = moves == self.seen;
        self.idle_looks = if idle { self.idle_looks + 1 } else { 0 };
        self.seen = moves;
        let mut frame_stuck = false;
        for ((seen, looks), left) in self.leaving.iter_mut().zip(leaving) {
            let idle = left.is_some() && left == *seen;
            *looks = if idle { *looks + 1 } else { 0 };
            *seen = left;
            frame_stuck |= *looks >= LOOKS_PER_STALL;
        }
        Verdict {
            quiet: idle,
            nothing_moves: self.idle_looks >= LOOKS_PER_STALL,
            frame_stuck,
        }
    }
}
