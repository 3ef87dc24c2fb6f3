//! What every call needs to reach the engine.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pccl_core::awaited::Awaited;
use pccl_core::id::{CallId, PeerId};
use pccl_core::peer::{Call, CallError};
use pccl_core::topology::Topology;
use pccl_core::transport::Transport;
use pccl_plane::{Backup, CONCURRENT_DEFAULT};
use tokio::sync::{mpsc, oneshot, watch};

use crate::engine::{Caller, Command};
use crate::error::Error;
use crate::suspects::Suspects;
use crate::transfer::Staging;
use crate::turns::{Open, Turns};

/// A backup of so many bytes is not too large for any reduce.
const SMALL_BACKUP: usize = 1024 * 1024;

/// Backups that are kept for the next collectives in place.
const IDLE_BACKUPS_MAX: usize = CONCURRENT_DEFAULT;

/// A way to the engine, for calls and for collectives that run beside them.
#[derive(Clone)]
pub(crate) struct Calls {
    pub(crate) commands: mpsc::UnboundedSender<Command>,
    pub(crate) view: watch::Receiver<View>,
    pub(crate) backups: Arc<Backups>,
    pub(crate) transport: Arc<dyn Transport>,
    /// Where this peer accepts lanes.
    pub(crate) port: u16,
    pub(crate) call_ids: Arc<AtomicU64>,
    /// A lane of a transfer on which nothing moves for so long has failed.
    pub(crate) stall: Duration,
    /// What synchronizations that failed have fetched.
    pub(crate) staging: Arc<Mutex<Staging>>,
    /// Of a runtime of its own.
    pub(crate) turns: Option<Arc<Turns>>,
    pub(crate) suspects: Arc<Suspects>,
}

/// What the user may read at any time.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    pub(crate) me: PeerId,
    pub(crate) topology: Topology,
}

impl Calls {
    /// This peer.
    pub(crate) fn me(&self) -> PeerId {
        self.view.borrow().me
    }

    /// Tells the engine; fails where its runtime has ended.
    pub(crate) fn tell(&self, command: Command) -> Result<(), Error> {
        let sent = self.commands.send(command);
        sent.map_err(|_| Error::RuntimeEnded)
    }

    /// Something waits for the engine until this is dropped.
    pub(crate) fn open(&self) -> Open {
        Open::new(self.turns.as_ref())
    }

    /// Makes a call with a single answer. Dropping the future gives it up.
    pub(crate) async fn ask<A>(
        &self,
        what: Call,
        caller: impl FnOnce(oneshot::Sender<Result<A, CallError>>) -> Caller,
    ) -> Result<A, Error> {
        let (reply, answer) = oneshot::channel();
        let mut made = self.make(what, caller(reply))?;
        let answer = answer.await.map_err(|_| Error::RuntimeEnded)?;
        made.is_answered();
        answer.map_err(Into::into)
    }

    /// Asks the master who has not made the calls that are open.
    pub(crate) async fn ask_who_is_awaited(&self) -> Result<Awaited, Error> {
        let (reply, answer) = oneshot::channel();
        let _open = self.open();
        self.tell(Command::WhoIsAwaited { reply })?;
        let answer = answer.await.map_err(|_| Error::RuntimeEnded)?;
        answer.map_err(Into::into)
    }

    /// Makes a call.
    pub(crate) fn make(&self, what: Call, caller: Caller) -> Result<Made, Error> {
        let call = CallId(self.call_ids.fetch_add(1, Ordering::Relaxed));
        let open = self.open();
        self.tell(Command::Call { call, what, caller })?;
        Ok(Made {
            call,
            commands: self.commands.clone(),
            is_answered: false,
            _open: open,
        })
    }
}

/// A call that was made. Dropping it gives the call up, unless it is answered.
pub(crate) struct Made {
    call: CallId,
    commands: mpsc::UnboundedSender<Command>,
    is_answered: bool,
    _open: Open,
}

impl Made {
    pub(crate) const fn call(&self) -> CallId {
        self.call
    }

    /// Its caller has the answer.
    pub(crate) const fn is_answered(&mut self) {
        self.is_answered = true;
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if !self.is_answered {
            // If the engine is gone there is nobody left to tell.
            let _ = self.commands.send(Command::GiveUp { call: self.call });
        }
    }
}

/// Backups that are used again, so that each reduce does not touch fresh memory.
#[derive(Debug, Default)]
pub(crate) struct Backups {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<Backup>,
    /// How many are in use.
    lent: usize,
    /// Nothing is kept any more.
    ended: bool,
}

impl Backups {
    /// The smallest backup that holds `bytes`; else the largest, whose memory will be replaced. None
    /// that is much too large: else small reduces would take those of large ones, which would get
    /// others, until all are large. It has to be [given back](Self::give_back).
    pub(crate) fn take(&self, bytes: usize) -> Backup {
        let most = bytes.saturating_mul(4).max(SMALL_BACKUP);
        let mut state = self.lock();
        state.lent += 1;
        let sizes = state.idle.iter().map(Backup::bytes).enumerate();
        let fitting = sizes.filter(|(_, size)| *size <= most);
        let best = fitting.min_by_key(|(_, size)| (*size < bytes, size.abs_diff(bytes)));
        best.map_or_else(Backup::default, |(index, _)| state.idle.swap_remove(index))
    }

    /// Keeps the memory of a backup, not what it saved. Of too many the smallest goes.
    pub(crate) fn give_back(&self, mut backup: Backup) {
        backup.restore(&mut []);
        let mut state = self.lock();
        state.lent = state.lent.saturating_sub(1);
        if backup.bytes() > 0 && !state.ended {
            state.idle.push(backup);
        }
        if state.idle.len() > IDLE_BACKUPS_MAX {
            let sizes = state.idle.iter().map(Backup::bytes).enumerate();
            let smallest = sizes.min_by_key(|(_, size)| *size);
            smallest.map(|(index, _)| state.idle.swap_remove(index));
        }
    }

    /// Frees what is not in use. Is nothing in use?
    pub(crate) fn trim(&self) -> bool {
        let mut state = self.lock();
        state.idle = Vec::new();
        state.lent == 0
    }

    /// Frees what is not in use, and what is given back from here on.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        state.idle = Vec::new();
    }

    /// Bytes of what is not in use.
    #[cfg(test)]
    pub(crate) fn kept_bytes(&self) -> usize {
        self.lock().idle.iter().map(Backup::bytes).sum()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps backups of these sizes.
    fn keeping(sizes: &[usize]) -> Backups {
        let backups = Backups::default();
        for size in sizes {
            backups.give_back(Backup::default().sized(*size));
        }
        backups
    }

    #[test]
    fn a_reduce_gets_the_smallest_backup_that_is_large_enough() {
        let backups = keeping(&[300, 100, 50, 200]);

        let taken = [100, 60, 250].map(|bytes| backups.take(bytes).bytes());

        assert_eq!(taken, [100, 200, 300]);
    }

    #[test]
    fn where_none_is_large_enough_the_largest_is_replaced() {
        let backups = keeping(&[50, 200, 100]);

        let taken = backups.take(1000).bytes();

        assert_eq!(taken, 200);
    }

    #[test]
    fn small_reduces_beside_a_large_one_do_not_keep_many_large_backups() {
        let backups = Backups::default();
        let sizes = [
            [SMALL_BACKUP; IDLE_BACKUPS_MAX].as_slice(),
            &[100 * SMALL_BACKUP],
        ]
        .concat();

        for _ in 0..20 {
            let taken: Vec<Backup> = sizes.iter().map(|s| backups.take(*s).sized(*s)).collect();
            taken
                .into_iter()
                .for_each(|backup| backups.give_back(backup));
        }

        assert!(backups.kept_bytes() < 200 * SMALL_BACKUP);
    }

    #[test]
    fn of_too_many_backups_the_largest_are_kept() {
        let many: Vec<usize> = (1..=IDLE_BACKUPS_MAX + 2).collect();
        let backups = keeping(&many);

        assert_eq!(backups.kept_bytes(), many.iter().sum::<usize>() - 1 - 2);
    }
}
