//! Admission by proof, and disconnecting peers that are no longer members.
//!
//! Threads that may block read and write the stored invitations, never the thread that serves the connections.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pccl_core::transport::Proven;
use pccl_core::wire::PROOF_BYTES;
use pccl_trust::invitations::State;
use pccl_trust::{
    AdmitError, Admitted, ChannelBinding, Denial, InvitationId, Invitations, Membership, Proof,
    PublicKey,
};
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::security::{Trust, now};
use crate::seldom::Seldom;

/// Interval of the checks for peers to disconnect.
const ROUND: Duration = Duration::from_secs(1);

/// Admission control of one master.
#[derive(Debug)]
pub(crate) struct Doorkeeper {
    trust: Trust,
    inside: Mutex<BTreeMap<u64, Guest>>,
    next: AtomicU64,
    troubles: Seldom<()>,
}

/// An admitted connection.
#[derive(Debug)]
struct Guest {
    key: PublicKey,
    by: InvitationId,
    expelled: Arc<Notify>,
}

/// Why a connection is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unwelcome {
    #[error("{0}")]
    Refused(#[from] Denial),
    /// The log has the reason, for the operator.
    #[error("the master cannot use its invitations for the moment; its log says why")]
    Unavailable,
}

impl Doorkeeper {
    pub(crate) fn new(trust: Trust) -> Arc<Self> {
        Arc::new(Self {
            trust,
            inside: Mutex::default(),
            next: AtomicU64::new(0),
            troubles: Seldom::default(),
        })
    }

    /// Admits the other end of a lane, or says why not. Does not block the thread, but may take seconds.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        lane: Proven,
        proof: [u8; PROOF_BYTES],
    ) -> Result<Inside, Unwelcome> {
        let key = PublicKey::from(lane.identity.0);
        let binding = ChannelBinding::from(lane.binding);
        let proof = Proof::from(proof);
        let trust = self.trust.clone();
        let verified =
            spawn_blocking(move || trust.invitations().verify(&proof, &binding, key, now()));
        match verified.await {
            Ok(Ok(Admitted::First { by } | Admitted::Again { by })) => Ok(self.enter(key, by)),
            Ok(Err(AdmitError::Refused(why))) => Err(why.into()),
            Ok(Err(error)) => {
                self.log(&error);
                Err(Unwelcome::Unavailable)
            }
            Err(error) => {
                tracing::error!(%error, "defect: a proof could not be verified; please report it");
                Err(Unwelcome::Unavailable)
            }
        }
    }

    fn enter(self: &Arc<Self>, key: PublicKey, by: InvitationId) -> Inside {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let expelled = Arc::new(Notify::new());
        let guest = Guest {
            key,
            by,
            expelled: Arc::clone(&expelled),
        };
        self.inside().insert(number, guest);
        Inside {
            door: Arc::clone(self),
            number,
            expelled,
        }
    }

    /// Runs the periodic checks. Never ends.
    pub(crate) async fn keep(self: &Arc<Self>) {
        loop {
            sleep(ROUND).await;
            let door = Arc::clone(self);
            if let Err(error) = spawn_blocking(move || door.look_around()).await {
                tracing::error!(%error, "defect: the invitations could not be read; please report it");
            }
        }
    }

    /// Disconnects peers that are no longer members.
    fn look_around(&self) {
        let mut invitations = self.trust.invitations();
        if let Err(error) = invitations.reload_if_changed() {
            // What was read last goes on to hold for those inside.
            self.log(&error);
        }
        let now = now();
        for guest in self.inside().values() {
            if must_go(&invitations, guest, now) {
                guest.expelled.notify_one();
            }
        }
    }

    /// Rate-limited, because everybody who connects can cause a read of the invitations, and each read may fail.
    fn log(&self, error: &dyn std::error::Error) {
        if self.troubles.another(()).is_some() {
            tracing::error!("nobody can be let in: {error}");
        }
    }

    /// Nothing that holds the lock can panic.
    fn inside(&self) -> MutexGuard<'_, BTreeMap<u64, Guest>> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the connection must end. A member that was forgotten for lack of room may stay.
fn must_go(invitations: &Invitations, guest: &Guest, now: u64) -> bool {
    match invitations.membership(&guest.key) {
        Membership::Banned => true,
        Membership::Member { .. } => false,
        Membership::Stranger => invitations.state(guest.by, now) == Some(State::Revoked),
    }
}

/// An admission. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Inside {
    door: Arc<Doorkeeper>,
    number: u64,
    expelled: Arc<Notify>,
}

impl Inside {
    /// Waits until the connection must end: its invitation was revoked, or its key banned.
    pub(crate) async fn expelled(&self) {
        self.expelled.notified().await;
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.door.inside().remove(&self.number);
    }
}
