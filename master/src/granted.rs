//! The permissions of a connection that has said hello, which desk and connection share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pccl_core::wire::{CONTROL_FRAME_MAX, FIRST_CONTROL_FRAME_MAX};

use crate::gate::Permit;

/// The permissions of one connection.
#[derive(Debug)]
pub(crate) struct Granted {
    admitted: AtomicBool,
    /// Held until the machine has admitted the peer.
    permit: Mutex<Option<Permit>>,
}

impl Granted {
    /// The permissions of a connection that has just said hello.
    pub(crate) fn new(permit: Permit) -> Self {
        permit.greeted();
        Self {
            admitted: AtomicBool::new(false),
            permit: Mutex::new(Some(permit)),
        }
    }

    /// Those of a peer that has no connection.
    pub(crate) const fn away(is_admitted: bool) -> Self {
        Self {
            admitted: AtomicBool::new(is_admitted),
            permit: Mutex::new(None),
        }
    }

    /// From here on it is a newcomer.
    pub(crate) fn register(&self) {
        if let Some(permit) = &*self.lock() {
            permit.registered();
        }
    }

    /// From here on it is a member. Call it before the peer can learn of its admission.
    pub(crate) fn admit(&self) {
        self.admitted.store(true, Ordering::Release);
        let permit = self.lock().take();
        drop(permit);
    }

    /// Maximum length of the body of its next message. A newcomer has no message longer than a hello, so it gets no
    /// more memory than a stranger.
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
