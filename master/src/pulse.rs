//! When something last arrived from a peer, whether or not anybody has had time to look at it.
//!
//! The machine counts a peer as silent when none of its messages has been handled for a while. A long
//! message on a slow link, or a desk with much to do, would look the same; the pulse tells them apart.

use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use pccl_core::transport::{LaneError, LaneRx};
use tokio::time::Instant;

/// When something last arrived.
#[derive(Debug)]
pub(crate) struct Pulse(Mutex<Instant>);

impl Pulse {
    /// Something arrives at this moment.
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Instant::now()))
    }

    pub(crate) fn beat(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    pub(crate) fn last(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A lane whose every arriving byte is noted.
pub(crate) struct Noted<'a> {
    pub(crate) rx: &'a mut dyn LaneRx,
    pub(crate) pulse: &'a Pulse,
}

impl LaneRx for Noted<'_> {
    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<Result<usize, LaneError>> {
        let received = self.rx.poll_recv(cx, into);
        if matches!(received, Poll::Ready(Ok(1..))) {
            self.pulse.beat();
        }
        received
    }
}
