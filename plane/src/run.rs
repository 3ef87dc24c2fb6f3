//! Running one operation: all its lanes in one loop, in the caller's task.
//!
//! The loop is that of a program that does nothing else: receive what is there, reduce it, send what
//! can be sent, and wait for the system only when nothing moves. The user's buffers are borrowed by
//! the task, so frames are received into them and sent from them without a copy, and no other task or
//! thread takes part. Receiving never waits for sending: what cannot leave yet waits in the outbox or
//! in the memory of the result, so no ring of full buffers can lock itself up.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pccl_core::id::Round;
use pccl_core::topology::{LinkId, Way};
use pccl_core::wire::FrameHeader;

use crate::handover::{Delivery, Inbox, RxLane, TxLane};
use crate::memory::UserBuffers;
use crate::pace::{Pass, Share};
use crate::work::{IncomingFrame, Misfit, NotTaken, OutgoingFrame, RankWork};
use lanes::{Arrived, RxWork, TxWork};
use stall::Stall;
use teaching::Teaching;

mod lanes;
mod port;
mod stall;
mod stalling;
mod teaching;

use port::TellWaits;
pub use port::{OperationPort, RunFailure, RunStats, WaitedLink, Waits};
pub(crate) use port::{Receiving, Sending};
pub(crate) use stall::LOOKS_PER_STALL;

/// A run in progress. Dropping it gives the lanes to others, each at the boundary of a frame.
struct Run<'a, 'b> {
    port: &'a OperationPort,
    pass: &'a Pass,
    work: RankWork,
    buffers: UserBuffers<'b>,
    inbox: Inbox,
    ins: Vec<In<'a>>,
    outs: Vec<Out<'a>>,
    stats: RunStats,
    stall: Stall,
    teaching: Teaching,
    tell_waits: Option<TellWaits<'a>>,
}

/// A link that the operation receives on.
struct In<'a> {
    from: &'a Receiving,
    /// By number.
    lanes: Vec<RxWork>,
    /// Bytes of payload that have come.
    received: u64,
    /// Bytes of elements that have to come in all. Encoded they are fewer.
    owed: u64,
}

/// A lane that it sends on: an outlet of its work, by its number.
struct Out<'a> {
    to: &'a Sending,
    lane: u16,
    work: TxWork,
}

impl<'a, 'b> Run<'a, 'b> {
    fn new(
        (port, pass): (&'a OperationPort, &'a Pass),
        (receiving, sending): (&'a [Receiving], &'a [Sending]),
        work: RankWork,
        buffers: UserBuffers<'b>,
        inbox: Inbox,
    ) -> Result<Self, RunFailure> {
        let ins = receiving.iter().map(|from| In {
            from,
            lanes: (0..from.link.lanes()).map(|_| RxWork::default()).collect(),
            received: 0,
            owed: work.expected_from(from.rank),
        });
        let outs = work.outlets().filter_map(|(exit, lane)| {
            let work = TxWork::default();
            let to = sending.get(exit)?;
            Some(Out { to, lane, work })
        });
        let outs: Vec<Out<'a>> = outs.collect();
        let mut run = Self {
            stall: Stall::new(port.config.stall, outs.len(), &port.registry),
            port,
            pass,
            ins: ins.collect(),
            outs,
            work,
            buffers,
            inbox,
            stats: RunStats::default(),
            teaching: Teaching::default(),
            tell_waits: None,
        };
        run.work.set_share(Share::Nothing);
        for from in receiving {
            for lane in &from.ended {
                run.receiving_ended(from.rank, *lane)?;
            }
        }
        if port.registry.is_alone(port.seq) {
            run.take_lanes();
        }
        run.teaching = Teaching::new(port, sending, run.work.stripes());
        Ok(run)
    }

    /// Takes the lanes on which frames of the operation come, as far as nobody has them: it waits for them
    /// itself. Of more lanes than stripes the first are used.
    fn take_lanes(&mut self) {
        let stripes = self.work.stripes();
        for link in &mut self.ins {
            for (lane, home) in (0..).zip(link.from.homes.iter().take(stripes)) {
                let is_needed = self.work.expects_on(link.from.rank, lane);
                let rx = is_needed.then(|| home.take()).flatten();
                if let (Some(rx), Some(lane)) = (rx, link.lanes.get_mut(usize::from(lane))) {
                    lane.obtained(rx);
                }
            }
        }
    }

    fn go_on(&mut self, cx: &mut Context<'_>) -> Poll<Result<RunStats, RunFailure>> {
        loop {
            if self.port.is_stopped() {
                return Poll::Ready(Err(RunFailure::Stopped));
            }
            while let Poll::Ready(delivery) = self.inbox.poll_next(cx) {
                self.delivered(delivery)?;
            }
            self.steer();
            // Who sends first lets other ranks begin.
            let mut moved = self.send_all(cx)?;
            for at in 0..self.ins.len() {
                let lanes = self.ins.get(at).map_or(0, |link| link.lanes.len());
                for lane in (0..).take(lanes) {
                    moved |= self.receive(at, lane, cx)?;
                }
            }
            if self.work.is_done() {
                self.note_what_was_carried();
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

    fn send_all(&mut self, cx: &mut Context<'_>) -> Result<bool, RunFailure> {
        let mut moved = false;
        for outlet in (0..).take(self.outs.len()) {
            moved |= self.send(outlet, cx)?;
        }
        Ok(moved)
    }

    fn delivered(&mut self, delivery: Delivery) -> Result<(), RunFailure> {
        match delivery {
            Delivery::Frame(rx, header) => self.announced(rx, header),
            Delivery::Turn(tx) => {
                self.obtained(tx);
                Ok(())
            }
            // Looked at before the next frame is sent, or where there is none.
            Delivery::Wanted => Ok(()),
            Delivery::Share(share) => {
                self.work.set_share(share);
                Ok(())
            }
            Delivery::LaneEnded { link, built, lane } => self.lane_ended(link, built, lane),
            Delivery::LinkGone { link, built } => self.link_gone(link, built),
            Delivery::Stop => Err(RunFailure::Stopped),
        }
    }

    fn obtained(&mut self, tx: TxLane) {
        let mut outs = self.outs.iter_mut();
        let out = outs.find(|out| tx.is_of(&out.to.link) && tx.number() == out.lane);
        match out {
            Some(out) => out.work.obtained(tx),
            // Of a link that was replaced since.
            None => tx.pass_on(),
        }
    }

    fn lane_ended(&self, link: LinkId, built: Round, lane: u16) -> Result<(), RunFailure> {
        match link.way {
            Way::In => match self.source(link, built) {
                Some(from) => self.receiving_ended(from.rank, lane),
                None => Ok(()),
            },
            Way::Out => self.ended_unless(|outlet, out| {
                out.to.link.is(link, built) && out.lane == lane && self.work.sends(outlet)
            }),
        }
    }

    fn link_gone(&self, link: LinkId, built: Round) -> Result<(), RunFailure> {
        match link.way {
            Way::In => match self.source(link, built) {
                Some(from) if self.work.expects_from(from.rank) => Err(RunFailure::LaneLost),
                Some(_) | None => Ok(()),
            },
            Way::Out => self
                .ended_unless(|outlet, out| out.to.link.is(link, built) && self.work.sends(outlet)),
        }
    }

    /// The link of this build, if the operation receives on it.
    fn source(&self, link: LinkId, built: Round) -> Option<&Receiving> {
        let mut ins = self.ins.iter();
        let found = ins.find(|known| known.from.link.is(link, built));
        found.map(|known| known.from)
    }

    /// Fails if an outlet is lost that is needed.
    fn ended_unless(&self, is_lost: impl Fn(u16, &Out<'_>) -> bool) -> Result<(), RunFailure> {
        let mut outs = (0..).zip(&self.outs);
        if outs.any(|(outlet, out)| is_lost(outlet, out)) {
            return Err(RunFailure::LaneLost);
        }
        Ok(())
    }

    fn receiving_ended(&self, rank: u32, lane: u16) -> Result<(), RunFailure> {
        if self.work.expects_on(rank, lane) {
            return Err(RunFailure::LaneLost);
        }
        Ok(())
    }

    /// A header of this operation, on a lane that is the operation's from here on.
    fn announced(&mut self, rx: RxLane, header: FrameHeader) -> Result<(), RunFailure> {
        let number = rx.number();
        let mut ins = self.ins.iter_mut();
        let Some(link) = ins.find(|link| rx.comes_over(&link.from.link)) else {
            // Of a link that was replaced since, or that the plan does not use.
            rx.report_link();
            rx.go_home(header.length as usize);
            return Err(RunFailure::LaneLost);
        };
        let from = (link.from.rank, number);
        let announced = self.work.announce(from, &header, &mut self.buffers);
        let not_taken = match (announced, link.lanes.get_mut(usize::from(number))) {
            (Ok(frame), Some(lane)) => {
                lane.announced(rx, frame);
                return Ok(());
            }
            (Ok(_), None) => NotTaken::Misfit(Misfit::OtherLane),
            (Err(not_taken), _) => not_taken,
        };
        tracing::debug!(
            ?not_taken,
            ?header,
            rank = from.0,
            lane = number,
            "a frame that nobody expected"
        );
        let at_fault = link.from;
        rx.go_home(header.length as usize);
        match not_taken {
            NotTaken::Defect(defect) => Err(defect.into()),
            NotTaken::Misfit(_) => {
                at_fault.link.report();
                Err(RunFailure::LaneLost)
            }
        }
    }

    /// Receives what is there, up to the end of a frame. Did anything move?
    fn receive(
        &mut self,
        at: usize,
        number: u16,
        cx: &mut Context<'_>,
    ) -> Result<bool, RunFailure> {
        let link = self.ins.get_mut(at);
        let lane = link.and_then(|link| {
            let lane = link.lanes.get_mut(usize::from(number))?;
            let lacks = link.owed.saturating_sub(link.received);
            Some((lane, link.from, lacks, &mut link.received))
        });
        let Some((lane, from, lacks, received)) = lane else {
            return Ok(false);
        };
        let mut moved = false;
        match lane.poll_receive(cx, &mut self.buffers, lacks, &mut moved) {
            Poll::Pending => return Ok(moved),
            Poll::Ready(Ok(Arrived::Frame(frame))) => {
                *received += frame.length() as u64;
                self.arrived(frame)?;
            }
            Poll::Ready(Ok(Arrived::Header(header))) => {
                let rx = lane.take_rx();
                rx.map_or(Ok(()), |rx| self.headed(rx, header))?;
            }
            Poll::Ready(Err(end)) => {
                end.tell(&from.link, number);
                drop(lane.take_rx());
                // Whoever still needs it, this operation too, is told.
                self.port.registry.lane_ended(&from.link, number);
            }
        }
        Ok(true)
    }

    /// The next header on a lane of this operation, for whomever.
    fn headed(&mut self, rx: RxLane, header: FrameHeader) -> Result<(), RunFailure> {
        if header.seq == self.port.seq {
            return self.announced(rx, header);
        }
        self.port.registry.route(rx, header);
        Ok(())
    }

    /// A frame is there, whole.
    fn arrived(&mut self, frame: IncomingFrame) -> Result<(), RunFailure> {
        self.stats.bytes_received += frame.length() as u64;
        let was_local = self.work.is_local();
        self.work.accept(frame, &mut self.buffers)?;
        if was_local && !self.work.is_local() {
            self.pass.note_left_machine();
        }
        Ok(())
    }

    /// Sends what the lane takes, up to the end of a frame. Did anything move?
    fn send(&mut self, outlet: u16, cx: &mut Context<'_>) -> Result<bool, RunFailure> {
        let Some(out) = self.outs.get_mut(usize::from(outlet)) else {
            return Ok(false);
        };
        let lane = &mut out.work;
        if !lane.is_sending() {
            if !self.work.has_outgoing(outlet) {
                // Where there is something to send the lane is passed on behind the next frame: who
                // gave it away before that would take it back in vain for ever.
                lane.pass_on_if_wanted();
                return Ok(false);
            }
            if !lane.obtain(out.lane, out.to, &self.port.address)? {
                return Ok(false);
            }
            while lane.has_room()
                && let Some(frame) = self.work.next_out(outlet, &mut self.buffers)?
            {
                lane.begin_to_send(frame, &self.buffers)?;
            }
        }
        let mut moved = false;
        match lane.poll_send(cx, &self.buffers, &mut moved) {
            Poll::Pending => return Ok(moved),
            Poll::Ready(Ok(())) => {
                while let Some(frame) = lane.take_left() {
                    left(&mut self.stats, &frame);
                    self.work.has_left(outlet, frame);
                }
                if !lane.is_sending() {
                    lane.pass_on_if_wanted();
                }
            }
            Poll::Ready(Err(end)) => {
                tracing::debug!(rank = out.to.rank, lane = out.lane, %end, "a sending lane ended");
                lane.lose_sending();
                let (to, number) = (out.to, out.lane);
                if let Some(slot) = to.slots.get(usize::from(number)) {
                    slot.end();
                }
                self.port.registry.lane_ended(&to.link, number);
                return Err(RunFailure::LaneLost);
            }
        }
        Ok(true)
    }
}

/// A frame has gone into its lane, whole.
fn left(stats: &mut RunStats, frame: &OutgoingFrame) {
    let header = &frame.header;
    let (seq, step) = (header.seq.0, header.step);
    tracing::debug!(target: "pccl::event", kind = "frame_sent", seq, step);
    stats.bytes_sent += u64::from(header.length);
}

impl Future for Run<'_, '_> {
    type Output = Result<RunStats, RunFailure>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.get_mut().go_on(cx)
    }
}

impl Drop for Run<'_, '_> {
    fn drop(&mut self) {
        for out in &mut self.outs {
            out.work.give_up(&self.buffers);
        }
        for link in &mut self.ins {
            link.lanes.iter_mut().for_each(RxWork::give_up);
        }
    }
}
