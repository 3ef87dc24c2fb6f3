//! Lanes that wait to be accepted, and their listener.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use pccl_core::id::Identity;
use pccl_core::transport::{Incoming, LaneError, Listener};

use crate::MemoryNet;

/// Lanes that may wait; one more is refused.
const BACKLOG: usize = 4096;

/// The lanes opened to one address and not accepted yet.
#[derive(Default)]
pub(crate) struct Queue {
    /// What the listener proves to whoever asks for it.
    pub(crate) proves: Option<Identity>,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    lanes: VecDeque<Incoming>,
    acceptor: Option<Waker>,
}

impl Queue {
    pub(crate) fn proving(proves: Option<Identity>) -> Self {
        Self {
            proves,
            waiting: Mutex::default(),
        }
    }

    /// Adds a lane, or refuses it where too many wait. [`wake_acceptor`](Self::wake_acceptor) is to
    /// follow, outside of all locks.
    pub(crate) fn push(&self, incoming: Incoming) -> Result<(), LaneError> {
        self.with(|waiting| {
            if waiting.lanes.len() >= BACKLOG {
                return Err(LaneError::Refused);
            }
            waiting.lanes.push_back(incoming);
            Ok(())
        })
    }

    pub(crate) fn wake_acceptor(&self) {
        let acceptor = self.with(|waiting| waiting.acceptor.take());
        acceptor.into_iter().for_each(Waker::wake);
    }

    fn poll_pop(&self, cx: &mut Context<'_>, is_frozen: impl Fn() -> bool) -> Poll<Incoming> {
        // Before anything is looked at, so that what comes meanwhile finds it.
        self.with(|waiting| waiting.acceptor = Some(cx.waker().clone()));
        if is_frozen() {
            return Poll::Pending;
        }
        match self.with(|waiting| waiting.lanes.pop_front()) {
            Some(incoming) => Poll::Ready(incoming),
            None => Poll::Pending,
        }
    }

    fn with<T>(&self, look: impl FnOnce(&mut Waiting) -> T) -> T {
        look(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Accepts what was opened to its address. Dropping it frees the port and ends the lanes that wait.
pub(crate) struct MemoryListener {
    pub(crate) net: MemoryNet,
    pub(crate) local: SocketAddr,
    /// Where the network finds this listener; differs from `local` for a wildcard address.
    pub(crate) key: SocketAddr,
    pub(crate) queue: Arc<Queue>,
}

impl Listener for MemoryListener {
    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<Incoming, LaneError>> {
        let is_frozen = || self.net.with(|state| state.is_frozen(self.key.ip()));
        self.queue.poll_pop(cx, is_frozen).map(Ok)
    }
}

impl Drop for MemoryListener {
    fn drop(&mut self) {
        self.net.unlisten(self.key);
    }
}
