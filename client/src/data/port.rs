//! Running one operation in the caller's task, over the plane's lanes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pccl_core::element::CollectiveSpec;
use pccl_core::id::{Round, Seq};
use pccl_core::topology::Edge;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::Shared;
use super::buffers::RingBuffers;
use super::edge::EdgeState;
use super::registry::{Inbound, Signal};
use super::work::{Misfit, Place, RingWork};
use super::writer::{Order, Receipt};

/// What a finished operation moved, in bytes of payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RingStats {
    /// Sent to the next rank.
    pub(crate) bytes_sent: u64,
    /// Received from the previous rank.
    pub(crate) bytes_received: u64,
}

/// Why an operation did not finish. The caller restores its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RingFailure {
    /// A lane that was still needed broke, stalled or carried what it should not. The edge was
    /// reported; the master decides what becomes of the operation.
    #[error("a lane of the ring was lost")]
    LaneLost,
    /// The plane was told to stop the operation, or is gone.
    #[error("the operation was stopped")]
    Stopped,
}

impl From<Misfit> for RingFailure {
    fn from(Misfit: Misfit) -> Self {
        Self::LaneLost
    }
}

/// One operation's connection to the lanes, made by [`DataPlane::begin`](super::DataPlane::begin).
///
/// From then on its frames arrive here, so it should be run soon: while it is not polled, frames of
/// other operations that share its lanes wait behind its own.
#[derive(Debug)]
pub(crate) struct RingPort {
    pub(super) seq: Seq,
    pub(super) spec: CollectiveSpec,
    /// `None`: this peer is in no ring.
    pub(super) place: Option<Place>,
    pub(super) shared: Arc<Shared>,
    pub(super) stopped: Arc<AtomicBool>,
    /// `None` once run.
    pub(super) inlet: Option<Inlet>,
    pub(super) outlet: Outlet,
}

/// Where frames and signals come from. Dropping it makes the lanes' readers throw away what else
/// arrives.
#[derive(Debug)]
pub(super) struct Inlet {
    pub(super) edge: Option<Arc<EdgeState>>,
    /// Lanes that had ended when the operation began.
    pub(super) ended: Vec<u16>,
    pub(super) frames: mpsc::Receiver<Inbound>,
    pub(super) signals: mpsc::UnboundedReceiver<Signal>,
}

/// Where frames go.
#[derive(Debug)]
pub(super) struct Outlet {
    pub(super) edge: Option<Arc<EdgeState>>,
    pub(super) queues: Vec<mpsc::UnboundedSender<Order>>,
    pub(super) signals: mpsc::UnboundedSender<Signal>,
}

impl RingPort {
    /// Runs this rank's part until the whole result is in the buffers and everything that others need
    /// has gone into the lanes. A second call ends as stopped.
    ///
    /// Memory: besides the backup of an operation in place, at most 12 frames per lane (4 in the
    /// lane's queue, 4 waiting for it, 4 just received), whatever the size of the buffers. What waits
    /// beyond that, because the next rank is slow, is set aside in the memory of the result.
    ///
    /// Dropping the future gives the operation up; what was written then is in the backup.
    ///
    /// # Errors
    /// [`RingFailure::LaneLost`], also where a buffer is not as long as the spec says or the element
    /// type is not supported (the caller checks both before it asks for the collective);
    /// [`RingFailure::Stopped`]. What was written to an in-place buffer is in its backup.
    pub(crate) async fn run(
        &mut self,
        mut buffers: RingBuffers<'_>,
    ) -> Result<RingStats, RingFailure> {
        buffers.begin();
        let (Some(inlet), false) = (self.inlet.take(), self.is_stopped()) else {
            return Err(RingFailure::Stopped);
        };
        let place = self.place.ok_or(RingFailure::LaneLost)?;
        let bytes = self.spec.count.checked_mul(self.spec.element.size() as u64);
        if !bytes.is_some_and(|bytes| buffers.hold(bytes)) {
            return Err(RingFailure::LaneLost);
        }
        if place.world == 1 || self.spec.count == 0 {
            buffers.keep_contribution();
            return Ok(RingStats::default());
        }
        let frame_bytes = self.shared.config.frame_bytes;
        let pool = Arc::clone(&self.shared.pool);
        let work = RingWork::new(self.seq, &self.spec, place, frame_bytes, pool);
        let run = Run {
            work: work.ok_or(RingFailure::LaneLost)?,
            port: self,
            buffers,
            stats: RingStats::default(),
        };
        run.run(inlet).await
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }
}

/// A run in progress.
struct Run<'a, 'b> {
    work: RingWork,
    port: &'a RingPort,
    buffers: RingBuffers<'b>,
    stats: RingStats,
}

impl Run<'_, '_> {
    async fn run(mut self, mut inlet: Inlet) -> Result<RingStats, RingFailure> {
        for lane in inlet.ended.clone() {
            self.lane_ended(lane)?;
        }
        for lane in 0..self.work.stripes() {
            self.send_on(lane)?;
        }
        let stall = self.port.shared.config.stall;
        let stalled = sleep_until(Instant::now() + stall);
        tokio::pin!(stalled);
        let mut moves = self.moves(&inlet);
        while !self.work.is_done() {
            tokio::select! {
                biased;
                signal = inlet.signals.recv() => self.signalled(signal, &inlet)?,
                inbound = inlet.frames.recv() => self.arrived(inbound, &inlet)?,
                () = &mut stalled => {
                    // Behind the frames of other operations one may wait for long.
                    if self.moves(&inlet) == moves {
                        return Err(self.stalled(&inlet));
                    }
                }
            }
            moves = self.moves(&inlet);
            stalled.as_mut().reset(Instant::now() + stall);
            if self.port.is_stopped() {
                return Err(RingFailure::Stopped);
            }
        }
        Ok(self.stats)
    }

    fn signalled(&mut self, signal: Option<Signal>, inlet: &Inlet) -> Result<(), RingFailure> {
        match signal {
            Some(Signal::Sent { lane, bytes }) => {
                self.stats.bytes_sent += u64::from(bytes);
                self.work.sent(lane);
                self.send_on(lane)
            }
            Some(Signal::Unsent) if self.port.is_stopped() => Err(RingFailure::Stopped),
            Some(Signal::Unsent) => Err(RingFailure::LaneLost),
            Some(Signal::EdgeGone { edge, built }) => self.edge_gone(edge, built, inlet),
            Some(Signal::Stop) | None => Err(RingFailure::Stopped),
        }
    }

    fn arrived(&mut self, inbound: Option<Inbound>, inlet: &Inlet) -> Result<(), RingFailure> {
        let built = inlet.edge.as_ref().map(|edge| edge.built());
        match inbound {
            Some(Inbound::Frame {
                lane,
                header,
                frame,
            }) => {
                let accepted = self.work.accept(lane, &header, frame, &mut self.buffers);
                accepted.inspect_err(|Misfit| {
                    tracing::debug!(?header, lane, "a frame that nobody expected");
                    report(inlet.edge.as_ref());
                })?;
                self.stats.bytes_received += u64::from(header.length);
                self.send_on(lane)
            }
            Some(Inbound::Ended { lane, built: of }) if Some(of) == built => self.lane_ended(lane),
            Some(Inbound::Ended { .. }) => Ok(()),
            None => Err(RingFailure::Stopped),
        }
    }

    fn lane_ended(&self, lane: u16) -> Result<(), RingFailure> {
        if self.work.expects(lane) {
            Err(RingFailure::LaneLost)
        } else {
            Ok(())
        }
    }

    fn edge_gone(&self, edge: Edge, built: Round, inlet: &Inlet) -> Result<(), RingFailure> {
        let (mine, needed) = match edge {
            Edge::ToNext => (&self.port.outlet.edge, self.work.sends_any()),
            Edge::FromPrevious => (&inlet.edge, self.work.expects_any()),
        };
        if needed && mine.as_ref().is_some_and(|mine| mine.built() == built) {
            Err(RingFailure::LaneLost)
        } else {
            Ok(())
        }
    }

    /// Hands the lane as many frames as it may have.
    fn send_on(&mut self, lane: u16) -> Result<(), RingFailure> {
        let outlet = &self.port.outlet;
        while let Some((header, frame)) = self.work.next_out(lane, &self.buffers)? {
            let receipt = Receipt::new(outlet.signals.clone(), Arc::clone(&self.port.stopped));
            let order = Order {
                header,
                frame,
                receipt,
            };
            let queue = outlet.queues.get(usize::from(lane));
            if queue.is_none_or(|queue| queue.send(order).is_err()) {
                report(outlet.edge.as_ref());
                return Err(RingFailure::LaneLost);
            }
        }
        Ok(())
    }

    /// How often bytes have moved on the edges that are waited for.
    fn moves(&self, inlet: &Inlet) -> (u64, u64) {
        let sending = self
            .port
            .outlet
            .edge
            .as_ref()
            .filter(|_| self.work.sending());
        let receiving = inlet.edge.as_ref().filter(|_| self.work.expects_any());
        let moves = |edge: Option<&Arc<EdgeState>>| edge.map_or(0, |edge| edge.moves());
        (moves(sending), moves(receiving))
    }

    /// Nothing has moved for too long: reports the edges that were waited for.
    fn stalled(&self, inlet: &Inlet) -> RingFailure {
        tracing::debug!(seq = %self.port.seq, "an operation stalled");
        if self.work.sending() {
            report(self.port.outlet.edge.as_ref());
        }
        if self.work.expects_any() {
            report(inlet.edge.as_ref());
        }
        RingFailure::LaneLost
    }
}

fn report(edge: Option<&Arc<EdgeState>>) {
    if let Some(edge) = edge {
        edge.report();
    }
}
