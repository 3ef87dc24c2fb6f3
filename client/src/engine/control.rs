//! The connection to the master: what is to be written, and what is told once it is written.

use std::collections::VecDeque;

use pccl_core::messages::ToMaster;
use pccl_core::transport::{Lane, LaneError, LaneRx, LaneTx, close, recv_some};
use pccl_core::wire::{CONTROL_FRAME_MAX, ControlReader, EncodeError, encode_control};
use std::future::poll_fn;

/// A written buffer keeps at most this much memory.
const KEEP_BYTES: usize = 64 * 1024;

/// The control lane.
pub(super) struct Control {
    pub(super) rx: Box<dyn LaneRx>,
    pub(super) reader: ControlReader,
    pub(super) queue: SendQueue,
}

impl Control {
    pub(super) fn new(lane: Lane) -> Self {
        Self {
            rx: lane.rx,
            reader: ControlReader::with_cap(CONTROL_FRAME_MAX),
            queue: SendQueue {
                tx: lane.tx,
                bytes: Vec::new(),
                written: 0,
                marks: VecDeque::new(),
            },
        }
    }

    /// Writes what is left, ends the lane, and waits until the master has ended it too: what it has
    /// not read by then might be lost.
    pub(super) async fn say_goodbye(&mut self) -> Result<(), LaneError> {
        self.queue.flush().await?;
        close(self.queue.tx.as_mut()).await?;
        let mut rest = [0; 1024];
        while recv_some(self.rx.as_mut(), &mut rest).await? > 0 {}
        Ok(())
    }
}

/// Messages that are on their way to the master. What is pushed between two flushes leaves in one
/// write.
pub(super) struct SendQueue {
    tx: Box<dyn LaneTx>,
    bytes: Vec<u8>,
    written: usize,
    /// Events that are told when the bytes up to there are written.
    marks: VecDeque<(usize, Mark)>,
}

/// A message whose departure is an event.
#[derive(Clone, Copy, Debug)]
struct Mark {
    kind: &'static str,
    tag: u64,
    seq: u64,
}

impl SendQueue {
    pub(super) fn push(&mut self, message: &ToMaster) -> Result<(), EncodeError> {
        encode_control(message, &mut self.bytes)?;
        if let Some(mark) = Mark::of(message) {
            self.marks.push_back((self.bytes.len(), mark));
        }
        Ok(())
    }

    /// Writes everything; returns only where that fails. Cancel-safe: what was written is remembered.
    pub(super) async fn flush_for_ever(&mut self) -> LaneError {
        match self.flush().await {
            Ok(()) => std::future::pending().await,
            Err(error) => error,
        }
    }

    async fn flush(&mut self) -> Result<(), LaneError> {
        while let Some(rest) = self.bytes.get(self.written..).filter(|r| !r.is_empty()) {
            let sent = poll_fn(|cx| self.tx.poll_send(cx, &[rest])).await?;
            if sent == 0 {
                return Err(LaneError::Closed);
            }
            self.written += sent;
            self.tell_written();
        }
        self.bytes.clear();
        self.bytes.shrink_to(KEEP_BYTES);
        self.written = 0;
        Ok(())
    }
}

impl SendQueue {
    fn tell_written(&mut self) {
        while let Some((end, mark)) = self.marks.front()
            && *end <= self.written
        {
            mark.tell();
            self.marks.pop_front();
        }
    }
}

impl Mark {
    fn of(message: &ToMaster) -> Option<Self> {
        let (kind, tag, seq) = match message {
            ToMaster::InitiateCollective { tag, .. } => ("collective_initiated", tag.0, 0),
            ToMaster::CompleteCollective { seq, .. } => ("completion_voted", 0, seq.0),
            ToMaster::UpdateTopology { .. } => ("topology_vote_sent", 0, 0),
            ToMaster::OptimizeTopology => ("optimize_vote_sent", 0, 0),
            ToMaster::SyncSharedState(_) => ("sync_vote_sent", 0, 0),
            ToMaster::ProbesDone { round, .. } => ("probes_done", 0, round.0),
            ToMaster::Hello(_)
            | ToMaster::LinkUp { .. }
            | ToMaster::LinkFailed { .. }
            | ToMaster::ArePeersPending
            | ToMaster::Measured { .. }
            | ToMaster::SharedStateDone { .. }
            | ToMaster::Withdraw { .. }
            | ToMaster::Heartbeat { .. }
            | ToMaster::Leave
            | ToMaster::WhoIsAwaited => return None,
        };
        Some(Self { kind, tag, seq })
    }

    fn tell(&self) {
        tracing::debug!(target: "pccl::event", kind = self.kind, tag = self.tag, seq = self.seq);
    }
}
