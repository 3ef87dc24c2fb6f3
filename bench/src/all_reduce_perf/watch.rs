//! Which lanes carry bytes: a transport that looks on.
//!
//! How many lanes an edge has is asked for, how many of them a reduce uses is the library's choice. So
//! every lane that is opened to another peer counts what it sends; one addition for each system call.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use pccl_core::id::Identity;
use pccl_core::transport::{
    BoxFuture, Endpoint, Lane, LaneError, LaneTx, Listener, Security, Transport,
};

/// Lanes of another transport. Those that are opened, except to the master, are counted.
#[derive(Debug)]
pub(crate) struct Watched<T> {
    inner: T,
    /// As `host:port`.
    master: String,
    /// Do lanes deny that both their ends are on this machine?
    far: bool,
    watch: Watch,
}

impl<T: Transport> Watched<T> {
    /// `far`: lanes to peers deny that both their ends are on this machine, so that reduces use as many
    /// of them as between machines.
    pub(crate) fn new(inner: T, master: String, far: bool) -> Self {
        Self {
            inner,
            master,
            far,
            watch: Watch::default(),
        }
    }

    pub(crate) fn watch(&self) -> Watch {
        self.watch.clone()
    }
}

impl<T: Transport> Transport for Watched<T> {
    fn listen(
        &self,
        on: std::net::SocketAddr,
        security: Security,
    ) -> BoxFuture<'_, Result<Box<dyn Listener>, LaneError>> {
        self.inner.listen(on, security)
    }

    fn open<'a>(
        &'a self,
        to: &'a Endpoint,
        expect: Option<Identity>,
    ) -> BoxFuture<'a, Result<Lane, LaneError>> {
        Box::pin(async move {
            let lane = self.inner.open(to, expect).await?;
            if to.to_string() == self.master {
                return Ok(lane);
            }
            let is_local = lane.tx.is_local() && !self.far;
            let tx = self.watch.count(lane.tx, is_local, lane.proven.is_some());
            Ok(Lane { tx, ..lane })
        })
    }

    fn lanes_per_edge(&self) -> u16 {
        self.inner.lanes_per_edge()
    }
}

/// Lanes that were opened so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch(Arc<Mutex<Vec<Arc<Opened>>>>);

#[derive(Debug)]
struct Opened {
    is_local: bool,
    is_proven: bool,
    sent: AtomicU64,
}

impl Watch {
    /// Bytes that each lane has sent so far.
    pub(crate) fn sent(&self) -> Vec<u64> {
        let opened = self.opened();
        let sent = opened.iter().map(|lane| lane.sent.load(Ordering::Relaxed));
        sent.collect()
    }

    /// Lanes that have sent anything since [`sent`](Self::sent) was `before`.
    pub(crate) fn used_since(&self, before: &[u64]) -> usize {
        let before = before.iter().copied().chain(std::iter::repeat(0));
        let lanes = self.sent().into_iter().zip(before);
        lanes.filter(|(sent, before)| sent > before).count()
    }

    /// Have all lanes both their ends on this machine, as they say? No, while there are none.
    pub(crate) fn are_all_local(&self) -> bool {
        let opened = self.opened();
        !opened.is_empty() && opened.iter().all(|lane| lane.is_local)
    }

    /// Is it proved of all lanes who is at their other ends? No, while there are none.
    pub(crate) fn are_all_proven(&self) -> bool {
        let opened = self.opened();
        !opened.is_empty() && opened.iter().all(|lane| lane.is_proven)
    }

    fn count(&self, tx: Box<dyn LaneTx>, is_local: bool, is_proven: bool) -> Box<dyn LaneTx> {
        let lane = Arc::new(Opened {
            is_local,
            is_proven,
            sent: AtomicU64::new(0),
        });
        self.opened().push(Arc::clone(&lane));
        Box::new(CountingTx { tx, lane })
    }

    fn opened(&self) -> MutexGuard<'_, Vec<Arc<Opened>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct CountingTx {
    tx: Box<dyn LaneTx>,
    lane: Arc<Opened>,
}

impl LaneTx for CountingTx {
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[&[u8]],
    ) -> Poll<Result<usize, LaneError>> {
        let sent = ready!(self.tx.poll_send(cx, parts))?;
        self.lane.sent.fetch_add(sent as u64, Ordering::Relaxed);
        Poll::Ready(Ok(sent))
    }

    fn is_local(&self) -> bool {
        self.lane.is_local
    }

    fn give_up_after(&mut self, limit: std::time::Duration) {
        self.tx.give_up_after(limit);
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LaneError>> {
        self.tx.poll_close(cx)
    }
}
