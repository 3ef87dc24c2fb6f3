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

#[cfg(test)]
mod tests {
    use pccl_transport_memory::{Path, pair};
    use tokio::task::JoinHandle;
    use tokio::time::sleep;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(1);

    fn ended(visits: &[JoinHandle<()>]) -> usize {
        visits.iter().filter(|visit| visit.is_finished()).count()
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_are_told_at_a_time_why_they_are_refused_and_no_more() {
        let apologies = Apologies::within(LIMIT);
        let mut diallers = Vec::new();
        let visits: Vec<_> = (0..APOLOGIES_MAX + 20)
            .map(|_| {
                // The other end never hangs up.
                let (lane, dialler) = pair(Path::NEAR, Path::NEAR);
                diallers.push(dialler);
                let from = SocketAddr::from(([192, 0, 2, 1], 5000));
                let apologies = apologies.clone();
                tokio::spawn(async move {
                    let incoming = Incoming { lane, from };
                    apologies.turn_away(incoming, Full::Outside).await;
                })
            })
            .collect();

        sleep(LIMIT / 2).await;
        assert_eq!(ended(&visits), 20);
        sleep(LIMIT).await;
        assert_eq!(ended(&visits), visits.len());
    }
}
