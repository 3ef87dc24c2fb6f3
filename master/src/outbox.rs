//! The send queue of one peer: a bounded queue of encoded frames, and the loop that writes them.
//!
//! The desk appends frames and, when it has processed an event, rings once. So all messages to a peer that follow
//! from one event go out in one write. But fetch plans are queued unencoded, and the writer encodes them: those of a
//! large group have hundreds of megabytes, and the desk has no time for them.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pccl_core::messages::ToPeer;
use pccl_core::shared_state::{SyncPlan, SyncRole};
use pccl_core::transport::{LaneError, LaneTx, close, send_all};
use pccl_core::wire::{EncodeError, encode_control};
use tokio::sync::Notify;
use tokio::time::sleep;

/// A larger buffer is not kept.
const KEEP_BYTES: usize = 64 * 1024;

/// Maximum number of bytes of one line of a fetch plan, and of the rest of the plan.
const LINE_BYTES: usize = 24;
const PLAN_BYTES: usize = 1024;

/// The desk's end of a connection.
#[derive(Debug)]
pub(crate) struct Outbox {
    bytes_max: usize,
    waiting: Mutex<Waiting>,
    /// Notified if a frame was appended, or the end was announced.
    changed: Notify,
    /// Notified if the end was announced.
    closing: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Comes before `frames`.
    earlier: VecDeque<Part>,
    /// Upper bound of its bytes.
    earlier_bytes: usize,
    frames: Vec<u8>,
    /// Bytes that the writer has taken and not yet sent.
    in_flight: usize,
    overflowed: bool,
    closing: bool,
}

/// A unit of sending.
#[derive(Debug)]
enum Part {
    Frames(Vec<u8>),
    /// Not encoded yet.
    Long(Box<ToPeer>),
}

/// Why a message was not appended. The peer has missed a message: end its membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PushError {
    #[error("the peer does not read what is sent to it")]
    Overflow,
    #[error("{0}")]
    Encode(#[from] EncodeError),
}

/// The next action of the writer.
enum Next {
    Send(Part),
    Wait,
    End,
}

impl Outbox {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            waiting: Mutex::default(),
            changed: Notify::new(),
            closing: Notify::new(),
        }
    }

    /// Appends a message; [`ring`](Self::ring) sends it. After an overflow, messages are dropped silently, because
    /// the stream has a gap. Only the reason for the end may still follow.
    pub(crate) fn push(&self, message: &ToPeer) -> Result<(), PushError> {
        let mut waiting = self.lock();
        let last_word = matches!(message, ToPeer::Kicked(_));
        if waiting.closing || (waiting.overflowed && !last_word) {
            return Ok(());
        }
        if let Some(bytes) = bytes_of_long(message) {
            if waiting.bytes() + bytes > self.bytes_max {
                waiting.overflowed = true;
                return Err(PushError::Overflow);
            }
            waiting.set_aside();
            waiting
                .earlier
                .push_back(Part::Long(Box::new(message.clone())));
            waiting.earlier_bytes += bytes;
            return Ok(());
        }
        let before = waiting.frames.len();
        encode_control(message, &mut waiting.frames)?;
        if !last_word && waiting.bytes() > self.bytes_max {
            waiting.frames.truncate(before);
            waiting.overflowed = true;
            return Err(PushError::Overflow);
        }
        Ok(())
    }

    /// No message will be appended from here on. The connection ends after the queued ones.
    pub(crate) fn close(&self) {
        self.lock().closing = true;
    }

    /// Wakes the writer.
    pub(crate) fn ring(&self) {
        self.changed.notify_one();
        if self.lock().closing {
            self.closing.notify_one();
        }
    }

    /// Sends the appended messages until the end is announced, and then closes the direction. After the announcement
    /// the rest may take up to `farewell`.
    pub(crate) async fn write_to(
        &self,
        tx: &mut dyn LaneTx,
        farewell: Duration,
    ) -> Result<(), LaneError> {
        let overdue = async {
            self.closing.notified().await;
            sleep(farewell).await;
        };
        tokio::select! {
            biased;
            outcome = self.write_all(tx) => outcome,
            () = overdue => Err(LaneError::TimedOut),
        }
    }

    async fn write_all(&self, tx: &mut dyn LaneTx) -> Result<(), LaneError> {
        let mut spare = Vec::new();
        loop {
            match self.next(&mut spare) {
                Next::Send(Part::Frames(frames)) => {
                    send_all(tx, &frames, &[]).await?;
                    spare = frames;
                }
                Next::Send(Part::Long(message)) => {
                    let mut frame = Vec::new();
                    encode_control(&message, &mut frame).map_err(|error| {
                        tracing::error!(%error, "a plan cannot be encoded");
                        LaneError::Failed
                    })?;
                    send_all(tx, &frame, &[]).await?;
                }
                Next::Wait => self.changed.notified().await,
                Next::End => return close(tx).await,
            }
        }
    }

    /// Takes all queued frames, and leaves the empty `spare` in their place.
    fn next(&self, spare: &mut Vec<u8>) -> Next {
        spare.clear();
        spare.shrink_to(KEEP_BYTES);
        let mut waiting = self.lock();
        if let Some(part) = waiting.earlier.pop_front() {
            waiting.in_flight = part.bytes();
            waiting.earlier_bytes -= part.bytes();
            return Next::Send(part);
        }
        waiting.in_flight = waiting.frames.len();
        if !waiting.frames.is_empty() {
            let frames = std::mem::replace(&mut waiting.frames, std::mem::take(spare));
            Next::Send(Part::Frames(frames))
        } else if waiting.closing {
            Next::End
        } else {
            Next::Wait
        }
    }

    /// Nothing that holds the lock can panic.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Upper bound of the bytes that are queued or in flight.
    fn bytes(&self) -> usize {
        self.earlier_bytes + self.frames.len() + self.in_flight
    }

    /// Puts the queued frames before all messages that are appended later.
    fn set_aside(&mut self) {
        if !self.frames.is_empty() {
            self.earlier_bytes += self.frames.len();
            let frames = std::mem::take(&mut self.frames);
            self.earlier.push_back(Part::Frames(frames));
        }
    }
}

impl Part {
    fn bytes(&self) -> usize {
        match self {
            Self::Frames(frames) => frames.len(),
            Self::Long(message) => bytes_of_long(message).unwrap_or_default(),
        }
    }
}

/// Maximum number of bytes of a message that takes long to encode. `None` for all others.
fn bytes_of_long(message: &ToPeer) -> Option<usize> {
    let ToPeer::SharedStatePlan(SyncPlan {
        role: SyncRole::Request { entries, .. },
        ..
    }) = message
    else {
        return None;
    };
    Some(entries.len() * LINE_BYTES + PLAN_BYTES)
}
