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

use pccl_core::id::Round;
use pccl_core::topology::{LinkId, Way};
use pccl_core::wire::FrameHeader;

use super::buffers::RingBuffers;
use super::gate::{Pass, Share};
use super::lanes::{Arrival, LaneWork};
use super::port::{RingFailure, RingPort, RingStats};
use super::receiving::RxLane;
use super::registry::{Delivery, Inbox};
use super::stall::{Moves, Stall, Verdict};
use super::work::{Incoming, Misfit, NotTaken, Outgoing, RingWork};

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

impl<'a, 'b> Run<'a, 'b> {
    pub(super) fn new(
        (port, pass): (&'a RingPort, &'a Pass),
        work: RingWork,
        buffers: RingBuffers<'b>,
        inbox: Inbox,
    ) -> Result<Self, RingFailure> {
        // Each of the two links has lanes of its own number.
        let receiving = port.receiving.as_ref();
        let receiving = receiving.map_or(0, |receiving| receiving.link.lanes());
        let lanes = receiving.max(usize::from(work.lanes()));
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
        for lane in run.port.receiving.iter().flat_map(|link| &link.ended) {
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
                self.delivered(delivery)?;
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
                    lane.obtained(tx);
                }
                Ok(())
            }
            // Looked at before the next frame is sent, or where there is none.
            Delivery::Wanted => Ok(()),
            Delivery::Share(share) => {
                self.work.set_share(share);
                Ok(())
            }
            Delivery::LaneEnded { link, built, lane } if self.uses(link, built) => match link.way {
                Way::In => self.receiving_ended(lane),
                Way::Out => self.sending_ended(lane),
            },
            Delivery::LinkGone { link, built } if self.uses(link, built) => self.link_gone(link),
            Delivery::LaneEnded { .. } | Delivery::LinkGone { .. } => Ok(()),
            Delivery::Stop => Err(RingFailure::Stopped),
        }
    }

    /// Does the operation run over this build of the link?
    fn uses(&self, link: LinkId, built: Round) -> bool {
        let mine = match link.way {
            Way::In => self.port.receiving.as_ref().map(|mine| &mine.link),
            Way::Out => self.port.sending.as_ref().map(|mine| &mine.link),
        };
        mine.is_some_and(|mine| mine.link() == link && mine.built() == built)
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

    fn link_gone(&self, link: LinkId) -> Result<(), RingFailure> {
        let needed = match link.way {
            Way::Out => self.work.sends_any(),
            Way::In => self.work.expects_any(),
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
        let not_taken = match (announced, self.lanes.get_mut(usize::from(number))) {
            (Ok(frame), Some(lane)) => {
                lane.announced(rx, frame);
                return Ok(());
            }
            // The link had fewer lanes when the operation began.
            (Ok(_), None) => NotTaken::Misfit(Misfit::OtherLane),
            (Err(not_taken), _) => not_taken,
        };
        tracing::debug!(
            ?not_taken,
            ?header,
            lane = number,
            "a frame that nobody expected"
        );
        rx.go_home(header.length as usize);
        match not_taken {
            NotTaken::Defect(defect) => Err(defect.into()),
            NotTaken::Misfit(_) => {
                if let Some(receiving) = &self.port.receiving {
                    receiving.link.report();
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
        let mut moved = false;
        match lane.poll_receive(cx, &mut self.buffers, &mut moved) {
            Poll::Pending => return Ok(moved),
            Poll::Ready(Ok(Arrival::Frame(frame))) => self.arrived(frame)?,
            Poll::Ready(Ok(Arrival::Header(header))) => {
                let rx = lane.take_rx();
                rx.map_or(Ok(()), |rx| self.headed(rx, header))?;
            }
            Poll::Ready(Err(end)) => {
                tracing::debug!(lane = number, %end, "a receiving lane ended");
                drop(lane.take_rx());
                // Whoever still needs it, this operation too, is told.
                if let Some(receiving) = &self.port.receiving {
                    let registry = &self.port.shared.registry;
                    registry.lane_ended(&receiving.link, number);
                }
            }
        }
        Ok(true)
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
    fn arrived(&mut self, frame: Incoming) -> Result<(), RingFailure> {
        self.stats.bytes_received += frame.length() as u64;
        let was_local = self.work.is_local();
        self.work.accept(frame, &mut self.buffers)?;
        if was_local && !self.work.is_local() {
            self.port.shared.not_local.store(true, Ordering::Relaxed);
            self.pass.ring_is_not_local();
        }
        Ok(())
    }

    /// Sends what the lane takes, up to the end of a frame. Did anything move?
    fn send(&mut self, number: u16, cx: &mut Context<'_>) -> Result<bool, RingFailure> {
        let Some(lane) = self.lanes.get_mut(usize::from(number)) else {
            return Ok(false);
        };
        if !lane.is_sending() {
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
            next.into_iter().for_each(|frame| lane.begin_to_send(frame));
        }
        let mut moved = false;
        match lane.poll_send(cx, &self.buffers, &mut moved) {
            Poll::Pending => return Ok(moved),
            Poll::Ready(Ok(frame)) => {
                lane.pass_on_if_wanted();
                self.left(number, frame);
            }
            Poll::Ready(Err(end)) => {
                tracing::debug!(lane = number, %end, "a sending lane ended");
                return Err(self.lost_sending(number));
            }
        }
        Ok(true)
    }

    /// A frame has gone into its lane, whole.
    fn left(&mut self, number: u16, frame: Outgoing) {
        let header = &frame.header;
        let (seq, step) = (header.seq.0, header.step);
        tracing::debug!(target: "pccl::event", kind = "ring_frame_sent", seq, step);
        self.stats.bytes_sent += u64::from(header.length);
        self.work.has_left(number, frame);
    }

    fn lost_sending(&mut self, number: u16) -> RingFailure {
        if let Some(lane) = self.lanes.get_mut(usize::from(number)) {
            lane.lose_sending();
        }
        if let Some(sending) = &self.port.sending {
            if let Some(slot) = sending.slots.get(usize::from(number)) {
                slot.end();
            }
            self.port.shared.registry.lane_ended(&sending.link, number);
        }
        RingFailure::LaneLost
    }

    /// Nothing moves: for too long?
    fn look(&mut self, cx: &mut Context<'_>) -> Result<(), RingFailure> {
        while self.stall.poll_look(cx).is_ready() {
            let moves = self.moves();
            let leaving = self.lanes.iter().map(LaneWork::left_so_far);
            let verdict = self.stall.looked(moves, leaving);
            if verdict.quiet && self.work.set_share(Share::Whole) != Share::Whole {
                // Whoever has the share makes no use of it: perhaps its user has ceased to poll it.
                cx.waker().wake_by_ref();
            }
            let misled = verdict.is_still && self.is_misled();
            if verdict.frame_stuck || verdict.is_starved || misled {
                return Err(self.stalled(verdict, misled));
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
            sending.map(|sending| sending.link.moves()),
            receiving.map(|receiving| receiving.link.moves()),
        )
    }

    /// Whether what comes from the previous rank is not what it should send: frames have come, and none of
    /// this operation; or a lane waits for an operation that does not begin.
    fn is_misled(&self) -> bool {
        let receiving = self.port.receiving.as_ref();
        receiving.is_some_and(|receiving| {
            let nothing_but_strays =
                self.stats.bytes_received == 0 && receiving.link.strays() > receiving.strays;
            let registry = &self.port.shared.registry;
            nothing_but_strays || registry.holds_lane_of(&receiving.link)
        })
    }

    /// Reports the links that were waited for.
    fn stalled(&self, verdict: Verdict, misled: bool) -> RingFailure {
        tracing::debug!(seq = %self.port.seq, ?verdict, misled, "an operation stalled");
        if let Some(sending) = &self.port.sending
            && (verdict.frame_stuck || verdict.is_starved && self.work.waits_to_send())
        {
            sending.link.report();
        }
        if let Some(receiving) = &self.port.receiving
            && (verdict.is_starved || misled)
            && self.work.expects_any()
        {
            receiving.link.report();
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
            lane.give_up(&self.buffers);
        }
    }
}
