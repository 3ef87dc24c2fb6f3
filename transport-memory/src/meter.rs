//! What one end of a lane has carried.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, ready};

use pccl_core::transport::Lane;

use crate::{on_recv, on_send};

/// Counts what passes through the lanes it is [on](Self::on).
#[derive(Debug, Default)]
pub struct Meter {
    sent: AtomicU64,
    received: AtomicU64,
    calls: AtomicU64,
}

impl Meter {
    /// The same lane, counted here. Several may be counted together.
    #[must_use]
    pub fn on(self: &Arc<Self>, lane: Lane) -> Lane {
        let (sends, receives) = (Arc::clone(self), Arc::clone(self));
        let tx = on_send(lane.tx, move |tx, cx, parts| {
            sends.calls.fetch_add(1, Ordering::Relaxed);
            let sent = ready!(tx.poll_send(cx, parts))?;
            sends.sent.fetch_add(sent as u64, Ordering::Relaxed);
            Poll::Ready(Ok(sent))
        });
        let rx = on_recv(lane.rx, move |rx, cx, into| {
            receives.calls.fetch_add(1, Ordering::Relaxed);
            let received = ready!(rx.poll_recv(cx, into))?;
            let counted = received as u64;
            receives.received.fetch_add(counted, Ordering::Relaxed);
            Poll::Ready(Ok(received))
        });
        Lane { tx, rx, ..lane }
    }

    /// Bytes that were sent.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Bytes that were received.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// How often something was to be sent or received, whether or not the lane had or took anything.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
}
