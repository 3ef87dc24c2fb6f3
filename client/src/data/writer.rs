//! The task that sends on one lane.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pccl_core::transport::{Lane, LaneError, LaneRx, LaneTx, recv_some};
use pccl_core::wire::FrameHeader;
use tokio::sync::mpsc;

use super::Shared;
use super::edge::EdgeState;
use super::pool::Frame;
use super::registry::Signal;

/// A frame to be sent.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) header: FrameHeader,
    pub(super) frame: Frame,
    pub(super) receipt: Receipt,
}

/// Tells an operation what became of its frame: dropped before [`sent`](Self::sent), it says that the
/// frame did not go out, however that came about.
#[derive(Debug)]
pub(super) struct Receipt {
    signals: mpsc::UnboundedSender<Signal>,
    stopped: Arc<AtomicBool>,
    sent: bool,
}

impl Receipt {
    pub(super) fn new(signals: mpsc::UnboundedSender<Signal>, stopped: Arc<AtomicBool>) -> Self {
        Self {
            signals,
            stopped,
            sent: false,
        }
    }

    fn is_wanted(&self) -> bool {
        !self.stopped.load(Ordering::Acquire)
    }

    fn sent(mut self, header: &FrameHeader) {
        self.sent = true;
        // Fails only where the operation has ended.
        let _ = self.signals.send(Signal::Sent {
            lane: header.stripe,
            bytes: header.length,
        });
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        if !self.sent {
            let _ = self.signals.send(Signal::Unsent);
        }
    }
}

/// Sends the frames of all operations on one lane, each whole: a frame that has begun is finished, so
/// that the receiver always finds the next header.
pub(super) struct Writer {
    tx: Box<dyn LaneTx>,
    rx: Box<dyn LaneRx>,
    orders: mpsc::UnboundedReceiver<Order>,
    edge: Arc<EdgeState>,
    stall: Duration,
}

impl Writer {
    pub(super) fn new(
        lane: Lane,
        orders: mpsc::UnboundedReceiver<Order>,
        edge: Arc<EdgeState>,
        shared: &Shared,
    ) -> Self {
        Self {
            tx: lane.tx,
            rx: lane.rx,
            orders,
            edge,
            stall: shared.config.stall,
        }
    }

    /// Sends until the lane ends, in either direction.
    pub(super) async fn run(self) {
        let Self {
            mut tx,
            mut rx,
            mut orders,
            edge,
            stall,
        } = self;
        let end = tokio::select! {
            end = send_orders(tx.as_mut(), &mut orders, &edge, stall) => end,
            end = wait_for_end(rx.as_mut()) => end,
        };
        tracing::debug!(%end, "a sending lane ended");
        edge.report();
    }
}

/// Sends until the lane ends, or until nobody can order any more.
async fn send_orders(
    tx: &mut dyn LaneTx,
    orders: &mut mpsc::UnboundedReceiver<Order>,
    edge: &EdgeState,
    stall: Duration,
) -> LaneError {
    while let Some(order) = orders.recv().await {
        if !order.receipt.is_wanted() {
            continue;
        }
        if let Err(error) = send_frame(tx, &order, edge, stall).await {
            return error;
        }
        let (seq, step) = (order.header.seq.0, order.header.step);
        tracing::debug!(target: "pccl::event", kind = "ring_frame_sent", seq, step);
        order.receipt.sent(&order.header);
    }
    LaneError::Closed
}

/// Sends header and payload. Every piece of progress has `stall` of time.
async fn send_frame(
    tx: &mut dyn LaneTx,
    order: &Order,
    edge: &EdgeState,
    stall: Duration,
) -> Result<(), LaneError> {
    let head = order.header.encode();
    let (mut head, mut body) = (head.as_slice(), order.frame.payload());
    while !head.is_empty() || !body.is_empty() {
        let progress = poll_fn(|cx| tx.poll_send(cx, &[head, body]));
        let sent = match tokio::time::timeout(stall, progress).await {
            Ok(sent) => sent?,
            Err(_) => return Err(LaneError::TimedOut),
        };
        if sent == 0 {
            return Err(LaneError::Closed);
        }
        edge.moved();
        let of_head = sent.min(head.len());
        head = head.get(of_head..).unwrap_or_default();
        body = body.get(sent - of_head..).unwrap_or_default();
    }
    Ok(())
}

/// Nothing is ever sent back on this edge, so whatever is received is the end.
async fn wait_for_end(rx: &mut dyn LaneRx) -> LaneError {
    match recv_some(rx, &mut [0]).await {
        Ok(0) => LaneError::Closed,
        Ok(_) => LaneError::Failed,
        Err(error) => error,
    }
}
