//! The task that receives on one lane.

use std::sync::Arc;

use pccl_core::id::Seq;
use pccl_core::transport::{Lane, LaneError, LaneRx, LaneTx, recv_some};
use pccl_core::wire::{FRAME_HEADER_BYTES, FrameError, FrameHeader};
use tokio::sync::mpsc;

use super::Shared;
use super::edge::EdgeState;
use super::pool::Frame;
use super::registry::Inbound;

/// Reads frames off a lane and hands each to the operation that it belongs to. Waits for an operation
/// that is yet to come; throws away what belongs to one that is over.
pub(super) struct Reader {
    lane: u16,
    rx: Box<dyn LaneRx>,
    /// Nothing is sent on it, but dropping it would end that direction.
    _tx: Box<dyn LaneTx>,
    edge: Arc<EdgeState>,
    shared: Arc<Shared>,
    /// The header of the next frame, as far as it has arrived.
    head: [u8; FRAME_HEADER_BYTES],
    head_filled: usize,
    /// Where the frames of the last operation went, so that most frames need no search.
    route: Option<(Seq, mpsc::Sender<Inbound>)>,
}

/// Why a lane is of no more use.
#[derive(Debug, thiserror::Error)]
enum ReadEnd {
    #[error(transparent)]
    Lane(#[from] LaneError),
    #[error(transparent)]
    Frame(#[from] FrameError),
}

impl Reader {
    pub(super) fn new(lane: u16, ends: Lane, edge: Arc<EdgeState>, shared: &Arc<Shared>) -> Self {
        Self {
            lane,
            rx: ends.rx,
            _tx: ends.tx,
            edge,
            shared: Arc::clone(shared),
            head: [0; FRAME_HEADER_BYTES],
            head_filled: 0,
            route: None,
        }
    }

    /// Reads until the lane ends.
    pub(super) async fn run(mut self) {
        let end = loop {
            if let Err(end) = self.pass_on_a_frame().await {
                break end;
            }
        };
        tracing::debug!(lane = self.lane, %end, "a receiving lane ended");
        self.edge.report();
        let (lane, built) = (self.lane, self.edge.built());
        for op in self.shared.registry.lane_ended(&self.edge, lane) {
            // Fails where the operation needs nothing any more.
            let _ = op.frames.send(Inbound::Ended { lane, built }).await;
        }
    }

    async fn pass_on_a_frame(&mut self) -> Result<(), ReadEnd> {
        while let Some(rest) = self.head.get_mut(self.head_filled..) {
            if rest.is_empty() {
                break;
            }
            self.head_filled += some(self.rx.as_mut(), rest).await?;
            self.edge.moved();
        }
        let header = FrameHeader::decode(&self.head)?;
        self.head_filled = 0;
        // Found before the payload is read: what belongs to nobody yet stays with its sender.
        let receiver = self.receiver_of(header.seq).await;
        let frame = self.payload(header.length as usize).await?;
        if let Some(receiver) = receiver {
            let lane = self.lane;
            let frame = Inbound::Frame {
                lane,
                header,
                frame,
            };
            if receiver.send(frame).await.is_err() {
                self.route = None;
            }
        }
        Ok(())
    }

    async fn receiver_of(&mut self, seq: Seq) -> Option<mpsc::Sender<Inbound>> {
        match &self.route {
            Some((known, receiver)) if *known == seq => Some(receiver.clone()),
            Some(_) | None => {
                let receiver = self.shared.registry.find(seq).await;
                self.route = receiver.clone().map(|receiver| (seq, receiver));
                receiver
            }
        }
    }

    /// Receives a payload, and as much of the header behind it as comes along, which saves every
    /// other system call.
    async fn payload(&mut self, length: usize) -> Result<Frame, LaneError> {
        let mut frame = self.shared.pool.take();
        let mut filled = 0;
        while filled < length {
            let room = frame.room(filled, length + FRAME_HEADER_BYTES);
            filled += some(self.rx.as_mut(), room).await?;
            self.edge.moved();
        }
        let beyond = frame.seal(length, filled);
        if let Some(head) = self.head.get_mut(..beyond.len()) {
            head.copy_from_slice(beyond);
            self.head_filled = beyond.len();
        }
        Ok(frame)
    }
}

/// Receives at least one byte.
async fn some(rx: &mut dyn LaneRx, into: &mut [u8]) -> Result<usize, LaneError> {
    match recv_some(rx, into).await? {
        0 => Err(LaneError::Closed),
        received => Ok(received),
    }
}
