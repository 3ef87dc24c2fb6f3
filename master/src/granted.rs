//! How far the master trusts a connection that has said hello: what desk and connection share of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pccl_core::wire::{CONTROL_FRAME_MAX, FIRST_CONTROL_FRAME_MAX};

use crate::gate::Permit;

/// What one connection has been granted so far.
#[derive(Debug)]
pub(crate) struct Granted {
    admitted: AtomicBool,
    /// Held until the machine has admitted it.
    permit: Mutex<Option<Permit>>,
}

impl Granted {
    /// Of a connection that has just said hello.
    pub(crate) fn new(permit: Permit) -> Self {
        permit.greeted();
        Self {
            admitted: AtomicBool::new(false),
            permit: Mutex::new(Some(permit)),
        }
    }

    /// It is a newcomer from here on.
    pub(crate) fn register(&self) {
        if let Some(permit) = &*self.lock() {
            permit.registered();
        }
    }

    /// It takes part in the run from here on. Call it before the peer can learn of it.
    pub(crate) fn admit(&self) {
        self.admitted.store(true, Ordering::Release);
        let permit = self.lock().take();
        drop(permit);
    }

    /// How long the body of its next message may be. A newcomer has nothing to say that is longer than
    /// a hello, so it gets no more memory than a stranger.
    pub(crate) fn message_max(&self) -> usize {
        if self.admitted.load(Ordering::Acquire) {
            CONTROL_FRAME_MAX
        } else {
            FIRST_CONTROL_FRAME_MAX
        }
    }

    /// Nothing that holds the lock can panic.
    fn lock(&self) -> MutexGuard<'_, Option<Permit>> {
        self.permit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
