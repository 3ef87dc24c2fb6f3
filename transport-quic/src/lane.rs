//! The two halves of a lane: one bidirectional stream, split.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pccl_core::transport::{Lane, LaneError, LaneRx, LaneTx};
use quinn::{RecvStream, SendStream, StoppedError, VarInt};

use crate::error::{of_reading, of_writing};
use crate::patience::give_up_after;
use crate::shared::{LaneSlot, SharedConnection};

/// Maximum number of bytes that one call takes. Each part of them is copied into its own memory, which is freed when
/// all of it has arrived.
const TAKEN_AT_ONCE: usize = 256 << 10;

/// Makes a lane of a stream.
pub(crate) fn split(shared: &Arc<SharedConnection>, tx: SendStream, rx: RecvStream) -> Lane {
    let slot = Arc::new(LaneSlot::take(shared));
    let tx = QuicTx {
        stream: tx,
        slot: Arc::clone(&slot),
        closing: None,
        has_arrived: false,
    };
    let rx = QuicRx { stream: rx, slot };
    Lane::new(Box::new(tx), Box::new(rx)).with_proof(Some(shared.proven))
}

/// Resolves when all sent bytes have arrived, or when they cannot arrive any more.
type Arrival = Pin<Box<dyn Future<Output = Result<Option<VarInt>, StoppedError>> + Send>>;

struct QuicTx {
    stream: SendStream,
    slot: Arc<LaneSlot>,
    /// Set once the direction was finished.
    closing: Option<Arrival>,
    has_arrived: bool,
}

impl QuicTx {
    /// Takes as much of one part as fits.
    fn poll_part(&mut self, cx: &mut Context<'_>, part: &[u8]) -> Poll<Result<usize, LaneError>> {
        Pin::new(&mut self.stream)
            .poll_write(cx, part)
            .map_err(|error| of_writing(error).unwrap_or_else(|lost| self.slot.shared.why(&lost)))
    }
}

impl LaneTx for QuicTx {
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[&[u8]],
    ) -> Poll<Result<usize, LaneError>> {
        let mut taken = 0;
        for part in parts.iter().filter(|part| !part.is_empty()) {
            let fits = part.len().min(TAKEN_AT_ONCE - taken);
            let Some(part) = part.get(..fits).filter(|part| !part.is_empty()) else {
                break;
            };
            match self.poll_part(cx, part) {
                Poll::Ready(Ok(written)) => {
                    taken += written;
                    if written < fits {
                        break;
                    }
                }
                // What was taken counts; the next call says the rest.
                Poll::Ready(Err(_)) | Poll::Pending if taken > 0 => break,
                other => return other,
            }
        }
        Poll::Ready(Ok(taken))
    }

    fn is_local(&self) -> bool {
        self.slot.shared.is_local
    }

    fn give_up_after(&mut self, limit: Duration) {
        give_up_after(&self.slot.shared, limit);
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LaneError>> {
        if self.has_arrived {
            return Poll::Ready(Ok(()));
        }
        let closing = self.closing.get_or_insert_with(|| {
            // It fails where the direction has ended already.
            let _ = self.stream.finish();
            Box::pin(self.stream.stopped())
        });
        let arrived = ready!(closing.as_mut().poll(cx));
        self.closing = None;
        Poll::Ready(match arrived {
            Ok(None) => {
                self.has_arrived = true;
                Ok(())
            }
            // The other end reads no more.
            Ok(Some(_)) => Err(LaneError::Reset),
            Err(StoppedError::ConnectionLost(lost)) => Err(self.slot.shared.why(&lost)),
            Err(StoppedError::ZeroRttRejected) => Err(LaneError::Failed),
        })
    }
}

impl Drop for QuicTx {
    /// Keeps the connection until all sent bytes have arrived: a connection without handles ends at once, and loses
    /// them.
    fn drop(&mut self) {
        let shared = &self.slot.shared;
        if self.has_arrived || shared.connection.close_reason().is_some() {
            return;
        }
        // It fails where the direction has ended already.
        let _ = self.stream.finish();
        let arrival = self.stream.stopped();
        let connection = shared.connection.clone();
        shared.runtime.spawn(async move {
            // Nobody is left who would want to know.
            let _ = arrival.await;
            drop(connection);
        });
    }
}

struct QuicRx {
    stream: RecvStream,
    slot: Arc<LaneSlot>,
}

impl LaneRx for QuicRx {
    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<Result<usize, LaneError>> {
        let received = ready!(self.stream.poll_read(cx, into));
        let received = received
            .map_err(|error| of_reading(error).unwrap_or_else(|lost| self.slot.shared.why(&lost)));
        if received.is_ok() {
            self.slot.note_reading();
        }
        Poll::Ready(received)
    }
}
