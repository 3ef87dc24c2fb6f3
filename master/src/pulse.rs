//! The time of the last arrival from a connection, whether or not it was processed.
//!
//! The machine counts a peer as silent if it has processed none of its messages for a while. A long message on a slow
//! link, or a busy desk, would look the same; the pulse tells them apart.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use pccl_core::rhythm::Rhythm;
use pccl_core::transport::{LaneError, LaneRx};
use tokio::time::Instant;

/// The time of the last arrival.
#[derive(Debug)]
pub(crate) struct Pulse(Mutex<Heard>);

#[derive(Debug)]
struct Heard {
    rhythm: Rhythm<Instant>,
    /// Whether the connection is not read, because the master is not ready for more.
    excused: bool,
}

impl Pulse {
    /// Starts with an arrival at this moment.
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Heard {
            rhythm: Rhythm::new(Instant::now()),
            excused: false,
        }))
    }

    pub(crate) fn beat(&self) {
        self.lock().rhythm.heard(Instant::now());
    }

    /// The peer has answered after this time.
    pub(crate) fn answered_after(&self, round_trip: Duration) {
        self.lock().rhythm.answered_after(round_trip);
    }

    /// The peer was heard over another connection before.
    pub(crate) fn follow(&self, before: &Self) {
        let before = before.lock().rhythm.clone();
        self.lock().rhythm.follow(&before);
    }

    /// After how long a silence the peer is given up, if the limit of the run is `silence`.
    pub(crate) fn limit(&self, silence: Duration) -> Duration {
        self.lock().rhythm.limit(silence)
    }

    pub(crate) fn last(&self) -> Instant {
        let heard = self.lock();
        if heard.excused {
            Instant::now()
        } else {
            heard.rhythm.last()
        }
    }

    /// While the guard lives, the connection waits for the master, and does not count as silent.
    pub(crate) fn excuse(&self) -> Excused<'_> {
        self.lock().excused = true;
        Excused(self)
    }

    /// Nothing that holds the lock can panic.
    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Marks that the master keeps the connection waiting.
pub(crate) struct Excused<'a>(&'a Pulse);

impl Drop for Excused<'_> {
    fn drop(&mut self) {
        let mut heard = self.0.lock();
        heard.excused = false;
        heard.rhythm.excuse(Instant::now());
    }
}

/// A lane on which every arrival is noted.
pub(crate) struct Noted {
    pub(crate) rx: Box<dyn LaneRx>,
    pub(crate) pulse: Arc<Pulse>,
}

impl LaneRx for Noted {
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
