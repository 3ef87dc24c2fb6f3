//! Giving up a connection whose other end does not acknowledge.
//!
//! QUIC ends a silent connection after its idle timeout, which is later than a sender needs to know. So this end
//! sends empty datagrams, which the other end has to acknowledge, and counts acknowledgements. Keep-alive packets of
//! the other end do not count. But packets with data of the other end repeat old acknowledgements. So while the other
//! end sends, a path that loses packets in this direction only is detected when the other end gives up itself.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use pccl_core::transport::LaneError;
use tokio::time::sleep;

use crate::shared::SharedConnection;

/// Number of probes within the limit. Probes are counted, not time, because a runtime may stand still between two
/// calls of its user while acknowledgements wait in the socket.
const QUESTIONS: u32 = 4;

/// How long the other end may acknowledge nothing. `None`: only the idle timeout applies.
#[derive(Default)]
pub(crate) struct Patience(Mutex<Option<Duration>>);

impl Patience {
    fn limit(&self) -> Option<Duration> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the shorter limit. Returns whether it is the first one.
    fn shorten(&self, limit: Duration) -> bool {
        let mut present = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = present.is_none();
        *present = Some(present.map_or(limit, |present| present.min(limit)));
        is_first
    }
}

/// Closes the connection if nothing is acknowledged for `limit`, or for a shorter limit of another call.
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
