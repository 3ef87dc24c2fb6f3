//! Refusing connections for which there is no room: with a reason, within limits, and with a rate-limited log line.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pccl_core::transport::Incoming;
use pccl_core::wire::Reply;
use tokio::sync::Semaphore;

use crate::gate::Full;
use crate::greeting::say_and_close;
use crate::seldom::Seldom;

/// Maximum number of connections that are told the reason at the same time. Further ones are closed without an
/// answer.
const APOLOGIES_MAX: usize = 64;

/// Refuses connections. Clones share all limits.
#[derive(Clone, Debug)]
pub(crate) struct Apologies {
    limit: Duration,
    at_once: Arc<Semaphore>,
    seldom: Seldom<()>,
}

impl Apologies {
    /// Each refusal may take up to `limit`.
    pub(crate) fn within(limit: Duration) -> Self {
        Self {
            limit,
            at_once: Arc::new(Semaphore::new(APOLOGIES_MAX)),
            seldom: Seldom::default(),
        }
    }

    /// Tells the other end and the log why the connection is refused.
    pub(crate) async fn turn_away(&self, incoming: Incoming, full: Full) {
        self.log(incoming.from, full);
        let Ok(_one) = self.at_once.try_acquire() else {
            return;
        };
        let reply = Reply::NotYet(full.to_string()).encode();
        say_and_close(incoming.lane, &reply, self.limit).await;
    }

    fn log(&self, from: SocketAddr, full: Full) {
        match self.seldom.another(()) {
            Some(1) => tracing::warn!("a connection from {from} is turned away: {full}"),
            Some(connections) => tracing::warn!(
                "{connections} connections have been turned away, the latest from {from}: {full}"
            ),
            None => tracing::debug!("a connection from {from} is turned away: {full}"),
        }
    }
}
