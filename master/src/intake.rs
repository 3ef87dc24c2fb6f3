//! Receiving messages within a memory budget.
//!
//! The memory of a frame grows with the bytes that have arrived, so a connection that sends part of a long message
//! and then stalls would pin it. Long messages therefore share one budget: a connection with a long message reads on
//! once the budget has room for the whole message, and must then bring it at a minimum pace. The share belongs to the
//! message until it was processed.

use std::sync::Arc;
use std::time::Duration;

use pccl_core::messages::ToMaster;
use pccl_core::transport::{LaneError, LaneRx, recv_some};
use pccl_core::wire::{
    CONTROL_FRAME_MAX, CONTROL_HEAD_BYTES, ControlError, ControlHead, ControlReader,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::patience::Patience;
use crate::pulse::Pulse;

/// Number of bytes that are read at a time.
const READ_BYTES: usize = 4 * 1024;

/// A message with a longer body is long, and needs a share of the budget.
const LONG_MESSAGE_BYTES: usize = 64 * 1024;

/// A long message brings [`PACE_BYTES`], or its end, in each [`PACE_TIME`]: 52 kbit/s.
const PACE_BYTES: usize = 64 * 1024;
const PACE_TIME: Duration = Duration::from_secs(10);

/// The memory for the long messages of all connections. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<Semaphore>);

/// A share of a budget. Dropping it returns the memory.
pub(crate) type BudgetShare = OwnedSemaphorePermit;

impl Budget {
    /// A budget of `bytes`, or of the longest message if that is more.
    pub(crate) fn of(bytes: usize) -> Self {
        let bytes = bytes.max(CONTROL_FRAME_MAX);
        Self(Arc::new(Semaphore::new(bytes.min(Semaphore::MAX_PERMITS))))
    }

    /// Waits for room, in the order of requests. `None`: the budget is closed.
    async fn share(&self, bytes: usize) -> Option<BudgetShare> {
        let bytes = u32::try_from(bytes.min(CONTROL_FRAME_MAX)).ok()?;
        Arc::clone(&self.0).acquire_many_owned(bytes).await.ok()
    }
}

/// The frame boundaries of a stream: a length, then a body of that length.
#[derive(Debug, Default)]
struct Frames {
    head: [u8; CONTROL_HEAD_BYTES],
    /// Bytes of the head that have arrived.
    headed: usize,
    /// Length of the body, once the head has arrived.
    length: usize,
    /// Bytes of the body that have not arrived.
    left: usize,
}

impl Frames {
    /// Processes the next bytes.
    fn follow(&mut self, mut bytes: &[u8]) {
        while let Some((first, rest)) = bytes.split_first() {
            if self.left > 0 {
                let of_body = self.left.min(bytes.len());
                self.left -= of_body;
                bytes = bytes.get(of_body..).unwrap_or_default();
                continue;
            }
            if let Some(next) = self.head.get_mut(self.headed) {
                *next = *first;
                self.headed += 1;
            }
            bytes = rest;
            if self.headed == CONTROL_HEAD_BYTES {
                self.headed = 0;
                // The reader refuses a damaged head, and reads nothing after it.
                self.length = ControlHead::decode(self.head).map_or(0, |head| head.length);
                self.left = self.length;
            }
        }
    }

    /// Length of the incomplete body. Zero between two bodies.
    fn under_way(&self) -> usize {
        if self.left > 0 { self.length } else { 0 }
    }
}

/// A long message that is being received.
#[derive(Debug)]
struct Long {
    share: BudgetShare,
    /// Deadline of the current piece of [`PACE_BYTES`].
    pace: Patience,
    /// Bytes of the current piece.
    received: usize,
}

/// The receiving state of one connection, for its whole life.
#[derive(Debug)]
pub(crate) struct Intake {
    reader: ControlReader,
    frames: Frames,
    long: Option<Long>,
    budget: Budget,
    /// Whether a long message came too slowly.
    was_slow: bool,
}

impl Intake {
    pub(crate) fn new(budget: &Budget) -> Self {
        Self {
            reader: ControlReader::new(),
            frames: Frames::default(),
            long: None,
            budget: budget.clone(),
            was_slow: false,
        }
    }

    /// Receives one message, and its share of the budget if it is a long one. `message_max` is called before each
    /// decoding: a longer frame is then an error; a length that was permitted once stays permitted.
    ///
    /// While the connection waits for its share it does not count as silent.
    ///
    /// Cancel-safe: bytes that were read before the future is dropped stay in the reader.
    ///
    /// # Errors
    /// As [`recv_control`](pccl_core::wire::recv_control). [`LaneError::TimedOut`] if a long message arrives too
    /// slowly.
    pub(crate) async fn receive(
        &mut self,
        rx: &mut dyn LaneRx,
        pulse: &Pulse,
        message_max: impl Fn() -> usize,
    ) -> Result<(ToMaster, Option<BudgetShare>), ControlError> {
        loop {
            self.reader.set_cap(message_max());
            if let Some(message) = self.reader.next_message()? {
                return Ok((message, self.long.take().map(|long| long.share)));
            }
            if self.long.is_none() && self.frames.under_way() > LONG_MESSAGE_BYTES {
                self.long = Some(self.begin_long(pulse).await?);
            }
            self.read(rx).await?;
        }
    }

    /// The number of messages that the peer has received, if it has said so since the last call.
    pub(crate) const fn take_acknowledged(&mut self) -> Option<u64> {
        self.reader.take_acknowledged()
    }

    /// Whether the connection ended because a long message came too slowly. Over another one it would do so again.
    pub(crate) const fn was_slow(&self) -> bool {
        self.was_slow
    }

    async fn begin_long(&self, pulse: &Pulse) -> Result<Long, LaneError> {
        let _excused = pulse.excuse();
        let share = self.budget.share(self.frames.under_way()).await;
        Ok(Long {
            share: share.ok_or(LaneError::Failed)?,
            pace: Patience::of(PACE_TIME),
            received: 0,
        })
    }

    async fn read(&mut self, rx: &mut dyn LaneRx) -> Result<(), ControlError> {
        let mut piece = [0; READ_BYTES];
        let reading = recv_some(rx, &mut piece);
        let received = match &mut self.long {
            None => reading.await?,
            Some(long) => match long.pace.wait(reading).await {
                Some(received) => received?,
                None => {
                    self.was_slow = true;
                    return Err(LaneError::TimedOut.into());
                }
            },
        };
        if received == 0 && self.reader.is_empty() {
            return Err(ControlError::Ended);
        }
        if received == 0 {
            return Err(LaneError::Closed.into());
        }
        if let Some(long) = &mut self.long {
            long.arrived(received);
        }
        let piece = piece.get(..received).unwrap_or(&piece);
        self.frames.follow(piece);
        self.reader.feed(piece);
        Ok(())
    }
}

impl Long {
    fn arrived(&mut self, bytes: usize) {
        self.received += bytes;
        if self.received >= PACE_BYTES {
            self.received = 0;
            self.pace = Patience::of(PACE_TIME);
        }
    }
}

#[cfg(test)]
mod tests;
