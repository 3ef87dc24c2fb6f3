//! Telling lanes that they are refused.
//!
//! A refusal leaves at once where the other end acknowledges what it is sent. Whoever does not, costs a task and a
//! socket meanwhile.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pccl_core::crowd::Crowd;
use pccl_core::origin::Origin;
use pccl_core::transport::Lane;
use pccl_core::wire::{Reply, refuse};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// The refusals that are under way, a bounded number of them. Clones share the bound.
#[derive(Clone)]
pub(super) struct Refusals {
    limit: Duration,
    under_way: Arc<Mutex<Crowd<oneshot::Sender<()>>>>,
}

impl Refusals {
    /// At most `room` at a time, each for `limit` at most. Beyond that, the oldest one to the address with the most
    /// ends.
    pub(super) fn within(limit: Duration, room: usize) -> Self {
        Self {
            limit,
            under_way: Arc::new(Mutex::new(Crowd::new(room))),
        }
    }

    /// Refuses a lane from this address. A dialler that does not take the refusal sees the end of the connection.
    pub(super) async fn tell(&self, mut lane: Lane, from: Origin, reply: &Reply) {
        let (goes_on, ends) = oneshot::channel();
        drop(self.enter(from, goes_on));
        tokio::select! {
            // What leaves at once leaves.
            biased;
            _ = timeout(self.limit, refuse(lane.tx.as_mut(), reply)) => {}
            _ = ends => {}
        }
    }

    /// Returns the refusal that has to end, if there are too many.
    fn enter(&self, from: Origin, refusal: oneshot::Sender<()>) -> Option<oneshot::Sender<()>> {
        let under_way = self.under_way.lock();
        let mut under_way = under_way.unwrap_or_else(PoisonError::into_inner);
        under_way.retain(|other| !other.is_closed());
        under_way.push(from, refusal)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use pccl_transport_memory::{Path, pair};
    use tokio::task::JoinHandle;
    use tokio::time::sleep;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(5);

    fn origin(last: u8) -> Origin {
        IpAddr::from([192, 0, 2, last]).into()
    }

    fn ended(refusals: &[JoinHandle<()>]) -> usize {
        refusals.iter().filter(|one| one.is_finished()).count()
    }

    #[tokio::test(start_paused = true)]
    async fn of_refusals_that_nobody_takes_so_many_go_on_as_there_is_room_for() {
        let refusals = Refusals::within(LIMIT, 10);
        // The answer does not leave before its first byte was read.
        let narrow = Path {
            window: 1,
            ..Path::NEAR
        };
        let mut diallers = Vec::new();
        let mut refuse = |from: u8| {
            let (ours, theirs) = pair(narrow, narrow);
            diallers.push(theirs);
            let refusals = refusals.clone();
            tokio::spawn(async move {
                let reply = Reply::Refused("it is not for you".into());
                refusals.tell(ours, origin(from), &reply).await;
            })
        };

        let other = refuse(7);
        sleep(Duration::from_millis(1)).await;
        let flood: Vec<_> = (0..30).map(|_| refuse(66)).collect();
        sleep(Duration::from_millis(1)).await;

        assert_eq!(ended(&flood), 30 - 9);
        assert!(!other.is_finished(), "it is of another address");
        sleep(LIMIT).await;
        assert_eq!(ended(&flood), 30);
        assert!(other.is_finished());
    }
}
