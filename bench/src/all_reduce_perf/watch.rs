//! Which lanes carry bytes: a transport that looks on.
//!
//! How many lanes an edge has is asked for, how many of them a reduce uses is the library's choice. So
//! every lane that is opened to another peer counts what it sends; one addition for each system call.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, ready};

use pccl_core::id::Identity;
use pccl_core::transport::{Endpoint, Lane, Transport};
use pccl_transport_memory::{Intercepted, Interceptor, claim_local, on_send};

/// The lanes of another transport, of which those that are opened, except to the master (as `host:port`), are
/// counted in the [`Watch`].
///
/// `far`: lanes to peers deny that both their ends are on this machine, so that reduces use as many of them as
/// between machines.
pub(crate) fn watched(
    below: impl Transport,
    master: String,
    far: bool,
) -> (Intercepted<Watcher>, Watch) {
    let watch = Watch::default();
    let by = Watcher {
        master,
        far,
        watch: watch.clone(),
    };
    (Intercepted::over(Arc::new(below), by), watch)
}

/// What stands between the library and its lanes.
#[derive(Debug)]
pub(crate) struct Watcher {
    master: String,
    far: bool,
    watch: Watch,
}

impl Interceptor for Watcher {
    fn opened(&self, lane: Lane, to: &Endpoint, _: Option<Identity>) -> Lane {
        if to.to_string() == self.master {
            return lane;
        }
        let tx = match self.far {
            true => claim_local(lane.tx, false),
            false => lane.tx,
        };
        self.watch.count(Lane { tx, ..lane })
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

    /// A [`Meter`](pccl_transport_memory::Meter) would count what is received as well, on the way that is measured.
    fn count(&self, lane: Lane) -> Lane {
        let opened = Arc::new(Opened {
            is_local: lane.tx.is_local(),
            is_proven: lane.proven.is_some(),
            sent: AtomicU64::new(0),
        });
        self.opened().push(Arc::clone(&opened));
        let tx = on_send(lane.tx, move |tx, cx, parts| {
            let sent = ready!(tx.poll_send(cx, parts))?;
            opened.sent.fetch_add(sent as u64, Ordering::Relaxed);
            Poll::Ready(Ok(sent))
        });
        Lane { tx, ..lane }
    }

    fn opened(&self) -> MutexGuard<'_, Vec<Arc<Opened>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
