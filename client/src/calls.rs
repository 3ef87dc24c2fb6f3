//! What every call needs to reach the engine.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pccl_core::id::PeerId;
use pccl_core::topology::Topology;
use pccl_core::transport::Transport;
use tokio::sync::{mpsc, oneshot, watch};

use crate::data::Backup;
use crate::engine::{CallId, Command};
use crate::error::Error;
use crate::turns::{Open, Turns};

/// Backups that are kept for the next collectives in place.
const IDLE_BACKUPS_MAX: usize = 4;

/// A way to the engine, for calls and for collectives that run beside them.
#[derive(Clone)]
pub(crate) struct Calls {
    pub(crate) commands: mpsc::UnboundedSender<Command>,
    pub(crate) view: watch::Receiver<View>,
    pub(crate) backups: Arc<Backups>,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) call_ids: Arc<AtomicU64>,
    /// A transfer that makes no progress for so long has failed.
    pub(crate) stall: Duration,
    /// Of a runtime of its own.
    pub(crate) turns: Option<Arc<Turns>>,
}

/// What the user may read at any time.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    pub(crate) me: PeerId,
    pub(crate) topology: Topology,
}

impl Calls {
    /// Tells the engine; fails where its runtime has ended.
    pub(crate) fn tell(&self, command: Command) -> Result<(), Error> {
        let sent = self.commands.send(command);
        sent.map_err(|_| Error::RuntimeEnded)
    }

    pub(crate) fn next_call(&self) -> CallId {
        CallId(self.call_ids.fetch_add(1, Ordering::Relaxed))
    }

    /// Something waits for the engine until this is dropped.
    pub(crate) fn open(&self) -> Open {
        Open::new(self.turns.as_ref())
    }

    /// Makes a call with a single answer.
    pub(crate) async fn ask<A, E: Into<Error>>(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<A, E>>) -> Command,
    ) -> Result<A, Error> {
        let (reply, answer) = oneshot::channel();
        let _open = self.open();
        self.tell(command(reply))?;
        let answer = answer.await.map_err(|_| Error::RuntimeEnded)?;
        answer.map_err(Into::into)
    }
}

/// Backups that are used again, so that each reduce does not touch fresh memory.
#[derive(Debug, Default)]
pub(crate) struct Backups {
    idle: Mutex<Vec<Backup>>,
}

impl Backups {
    pub(crate) fn take(&self) -> Backup {
        self.lock().pop().unwrap_or_default()
    }

    /// Keeps the memory of a backup, not what it saved.
    pub(crate) fn give_back(&self, mut backup: Backup) {
        backup.restore(&mut []);
        let mut idle = self.lock();
        if idle.len() < IDLE_BACKUPS_MAX {
            idle.push(backup);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Backup>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
