//! The transport of a scripted peer: it tells where it listens and who it is, and what it has sent to the
//! master has left the process.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pccl::Transport;
use pccl_core::id::Identity;
use pccl_core::transport::{BoxFuture, Endpoint, Lane, LaneError, LaneTx, Listener, Security};

use crate::over::Over;

/// Where a peer listens, and who it is, where that is proved.
pub(crate) type Heard = (Option<SocketAddr>, Option<Identity>);

/// A transport that tells where it listens and who it is.
pub(crate) struct Overheard {
    over: Over,
    inner: Arc<dyn Transport>,
    heard: Arc<Mutex<Heard>>,
}

impl Overheard {
    /// With the transport's defaults.
    pub(crate) fn new(over: Over) -> Self {
        Self {
            over,
            inner: over.transport(),
            heard: Arc::default(),
        }
    }

    pub(crate) fn heard(&self) -> Arc<Mutex<Heard>> {
        Arc::clone(&self.heard)
    }

    fn hear(&self, note: impl FnOnce(&mut Heard)) {
        note(&mut self.heard.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Transport for Overheard {
    fn listen(
        &self,
        on: SocketAddr,
        security: Security,
    ) -> BoxFuture<'_, Result<Box<dyn Listener>, LaneError>> {
        Box::pin(async move {
            let listener = self.inner.listen(on, security).await?;
            self.hear(|heard| heard.0 = Some(listener.local_addr()));
            Ok(listener)
        })
    }

    fn open<'a>(
        &'a self,
        to: &'a Endpoint,
        expect: Option<Identity>,
    ) -> BoxFuture<'a, Result<Lane, LaneError>> {
        Box::pin(async move {
            let lane = self.inner.open(to, expect).await?;
            self.hear(|heard| heard.1 = lane.proven.map(|proven| proven.own));
            let tx: Box<dyn LaneTx> = match to {
                // Peers know each other by addresses.
                Endpoint::Name(_) if self.over == Over::Quic => Box::new(Departing::new(lane.tx)),
                Endpoint::Name(_) | Endpoint::Address(_) => lane.tx,
            };
            Ok(Lane { tx, ..lane })
        })
    }

    fn lanes_per_edge(&self) -> u16 {
        self.inner.lanes_per_edge()
    }
}

/// Turns that other tasks get after bytes were taken and before that is said.
const TURNS: u8 = 3;

/// A sending half of which what it has taken is with the system.
///
/// TCP gives the system what it takes, and the system delivers it though the process is killed. QUIC sends
/// from a task of the process, which has not run when its lane has taken something; a peer that stands still
/// right after its vote has not voted then. Whoever sends comes again with the same bytes in front.
struct Departing {
    tx: Box<dyn LaneTx>,
    /// Bytes, and turns that are left.
    taken: Option<(usize, u8)>,
}

impl Departing {
    const fn new(tx: Box<dyn LaneTx>) -> Self {
        Self { tx, taken: None }
    }
}

impl LaneTx for Departing {
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[&[u8]],
    ) -> Poll<Result<usize, LaneError>> {
        let (bytes, turns) = match self.taken {
            Some(taken) => taken,
            None => (ready!(self.tx.poll_send(cx, parts))?, TURNS),
        };
        if turns == 0 {
            self.taken = None;
            return Poll::Ready(Ok(bytes));
        }
        self.taken = Some((bytes, turns - 1));
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn is_local(&self) -> bool {
        self.tx.is_local()
    }

    fn give_up_after(&mut self, limit: Duration) {
        self.tx.give_up_after(limit);
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LaneError>> {
        self.tx.poll_close(cx)
    }
}
