//! Going on with the session at the master after its connection has broken.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pccl_core::id::{PeerId, Ticket};
use pccl_core::transport::{Lane, LaneError, Transport};
use pccl_core::wire::HandshakeError;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::time::sleep;

use crate::backoff::Backoff;
use crate::destination::Destination;
use crate::{patience, reaching};

/// How long one attempt takes at most: a handshake over the longest path, and no longer, because the master waits little
/// more than that.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// The longest pause between two attempts. Others may wait for this peer.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Where the master is, and how to get there again.
#[derive(Clone)]
pub(crate) struct Home {
    pub(crate) destination: Destination,
    /// How long one attempt may take.
    pub(crate) answer: Duration,
}

/// The way back to the master.
pub(super) type Returning = Pin<Box<dyn Future<Output = Result<Returned, HandshakeError>> + Send>>;

/// Another connection of the session.
#[derive(Debug)]
pub(super) struct Returned {
    pub(super) lane: Lane,
    /// Number of messages that the master has received.
    pub(super) received: u64,
}

/// Numbers of attempts: they grow over all ways back of a session, also if one of them was given up.
#[derive(Clone, Debug, Default)]
pub(super) struct Attempts(Arc<AtomicU64>);

impl Attempts {
    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// A session, as this peer shows it to the master.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    pub(crate) peer: PeerId,
    pub(crate) token: Ticket,
    /// Number of messages that this peer has received.
    pub(crate) received: u64,
    /// Grows with each attempt of the session, so that the master takes none that was overtaken.
    pub(crate) attempt: u64,
}

impl Home {
    /// Dials until the master answers, or there is none any more. If `may_restart`, one that is gone may come back. It
    /// is the engine that loses patience: when the master has been silent for too long.
    pub(super) fn return_to(
        &self,
        transport: &Arc<dyn Transport>,
        (shown, attempts): (Shown, &Attempts),
        may_restart: bool,
        seed: u64,
    ) -> Returning {
        let (home, transport) = (self.clone(), Arc::clone(transport));
        let attempts = attempts.clone();
        Box::pin(async move {
            let mut random = StdRng::seed_from_u64(seed);
            let mut backoff = Backoff::up_to(LONGEST_PAUSE);
            let may_pass = |reason: &HandshakeError| may_pass(reason, may_restart);
            loop {
                let attempt = attempts.next();
                let shown = Shown { attempt, ..shown };
                let again = home.destination.reach_again(&*transport, shown, may_pass);
                let reason = match patience::within(home.answer.min(ANSWER_MAX), again).await {
                    Some(Ok((lane, received))) => {
                        return Ok(Returned { lane, received });
                    }
                    Some(Err(reason)) => reason,
                    None => LaneError::TimedOut.into(),
                };
                if !may_pass(&reason) {
                    return Err(reason);
                }
                tracing::debug!("the master cannot be reached again yet: {reason}");
                sleep(backoff.uneven_pause(&mut random)).await;
            }
        })
    }
}

/// Whether the master may still be there. If nothing listens at its address, it is not, unless it may come back.
fn may_pass(reason: &HandshakeError, may_restart: bool) -> bool {
    match reason {
        HandshakeError::Lane(LaneError::Refused) => may_restart,
        // While an interface of this machine changes, or too many files are open.
        HandshakeError::Lane(
            LaneError::AddressNotAvailable | LaneError::NoDescriptors | LaneError::Os(_),
        ) => true,
        other => reaching::may_pass(other),
    }
}
