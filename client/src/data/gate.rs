//! How many operations run at a time; the others wait, in the order of their numbers.
//!
//! An operation runs while fewer than the limit of lower numbers have not ended. The master gives the
//! numbers, so all peers let the same operations run first, whatever the order in which their users
//! have called and wait. A neighbour may be ahead and send frames of an operation that waits here. It
//! has finished one with a lower number then, whose frames all came before on the same lanes: that one
//! ends here too, and so on. So waiting operations never lock each other up.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use pccl_core::id::Seq;

/// Lets operations run.
#[derive(Debug)]
pub(super) struct Gate {
    limit: usize,
    /// Operations that have begun and not ended, with whom to wake.
    open: Mutex<BTreeMap<Seq, Option<Waker>>>,
    /// How many those are, to be read for every frame.
    count: AtomicUsize,
}

/// An operation's place in the order. Dropping it says that the operation has ended.
#[derive(Debug)]
pub(super) struct Pass {
    gate: Arc<Gate>,
    seq: Seq,
}

impl Gate {
    /// At most `limit` operations at a time, at least one.
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit: limit.max(1),
            open: Mutex::default(),
            count: AtomicUsize::new(0),
        })
    }

    /// An operation begins.
    pub(super) fn begin(self: &Arc<Self>, seq: Seq) -> Pass {
        self.open().insert(seq, None);
        self.count.fetch_add(1, Ordering::Relaxed);
        Pass {
            gate: Arc::clone(self),
            seq,
        }
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<Seq, Option<Waker>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pass {
    /// How many operations may run at this moment, at least one.
    pub(super) fn running(&self) -> usize {
        let open = self.gate.count.load(Ordering::Relaxed);
        open.clamp(1, self.gate.limit)
    }

    /// Waits until the operation may run.
    pub(super) fn poll_may_run(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut open = self.gate.open();
        let before = open.range(..self.seq).take(self.gate.limit).count();
        if before < self.gate.limit {
            return Poll::Ready(());
        }
        if let Some(waker) = open.get_mut(&self.seq) {
            *waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut open = self.gate.open();
        open.remove(&self.seq);
        self.gate.count.fetch_sub(1, Ordering::Relaxed);
        // Only the last of those that may run can have been waiting.
        let next = open.values_mut().nth(self.gate.limit - 1);
        let waker = next.and_then(Option::take);
        drop(open);
        waker.into_iter().for_each(Waker::wake);
    }
}
