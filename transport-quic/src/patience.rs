//! Giving up a connection whose other end does not acknowledge what it is sent.
//!
//! QUIC ends a connection of which it has heard nothing for the idle time-out, which is later than who
//! sends has to know it. So this end asks, with datagrams that carry nothing and that the other end has
//! to acknowledge, and counts acknowledgements. Packets with which the other end asks whether this one lives
//! are not counted; but what it sends of its own brings acknowledgements of long ago, so while it sends, a
//! path that loses packets in this direction alone is noticed only when it gives up itself.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use pccl_core::transport::LaneError;
use tokio::time::sleep;

use crate::shared::SharedConnection;

/// Questions within the limit. Questions are counted and not the time, because a runtime may stand still
/// between two calls of its user, and acknowledgements wait in the socket meanwhile.
const QUESTIONS: u32 = 4;

/// How long the other end may acknowledge nothing; `None`: nobody minds, beyond the idle time-out.
#[derive(Default)]
pub(crate) struct Patience(Mutex<Option<Duration>>);

impl Patience {
    fn limit(&self) -> Option<Duration> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the shorter one. Is it the first?
    fn shorten(&self, limit: Duration) -> bool {
        let mut present = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = present.is_none();
        *present = Some(present.map_or(limit, |present| present.min(limit)));
        is_first
    }
}

/// Ends the connection where nothing is acknowledged for so long, or a shorter time that it was told.
pub(crate) fn give_up_after(shared: &Arc<SharedConnection>, limit: Duration) {
    if shared.patience.shorten(limit) {
        shared.runtime.spawn(ask(Arc::downgrade(shared)));
    }
}

async fn ask(shared: Weak<SharedConnection>) {
    let (mut seen, mut unanswered) = (0, 0);
    loop {
        let Some(limit) = shared.upgrade().and_then(|shared| shared.patience.limit()) else {
            return;
        };
        sleep(limit / QUESTIONS).await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        if shared.connection.close_reason().is_some() {
            return;
        }
        let acknowledged = shared.connection.stats().frame_rx.acks;
        if std::mem::replace(&mut seen, acknowledged) != acknowledged {
            unanswered = 0;
        } else if unanswered >= QUESTIONS {
            tracing::debug!(from = %shared.from, ?limit, "nothing is acknowledged any more");
            return shared.give_up(LaneError::TimedOut);
        }
        unanswered += 1;
        // Where it is not sent the data that is under way is question enough.
        let _ = shared.connection.send_datagram(Bytes::new());
    }
}
