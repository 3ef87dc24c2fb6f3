//! One synchronization of the shared state, from its vote to its end.

use std::sync::PoisonError;

use pccl_core::id::Round;
use pccl_core::peer::{CallError, Synchronized};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::calls::Calls;
use crate::engine::{Command, MoveOrder, SyncEvent};
use crate::error::Error;
use crate::state::{SharedState, SyncOptions, SyncReport};
use crate::transfer::{Failed, Means, Moved, carry_out};

/// Votes, moves what the master plans, and writes it when everybody has it.
pub(crate) async fn synchronize(
    calls: &Calls,
    state: &mut SharedState<'_>,
    options: SyncOptions,
) -> Result<SyncReport, Error> {
    let since = Instant::now();
    let vote = state.vote(options).await;
    let (events, heard) = mpsc::unbounded_channel();
    let _open = calls.open();
    calls.tell(Command::Sync { vote, events })?;
    let mut session = Session {
        calls,
        heard,
        moved: Moved::default(),
        unreported: None,
    };
    let synchronized = session.run(state).await?;
    state.revision = synchronized.revision.0;
    Ok(SyncReport {
        revision: synchronized.revision.0,
        entries_received: synchronized.fetched.len(),
        bytes_sent: session.moved.bytes_sent,
        bytes_received: session.moved.bytes_received,
        duration: since.elapsed(),
    })
}

/// A synchronization that was called. Dropping it in the middle of a transfer reports the transfer as
/// failed, so that nobody waits for it.
struct Session<'a> {
    calls: &'a Calls,
    heard: mpsc::UnboundedReceiver<SyncEvent>,
    moved: Moved,
    unreported: Option<Round>,
}

impl Session<'_> {
    async fn run(&mut self, state: &mut SharedState<'_>) -> Result<Synchronized, Error> {
        let mut event = self.next().await?;
        loop {
            event = match event {
                SyncEvent::Move(order) => self.carry_out(state, order).await?,
                SyncEvent::Commit => {
                    self.write(state)?;
                    self.next().await?
                }
                SyncEvent::Drop => {
                    self.moved = Moved::default();
                    self.next().await?
                }
                SyncEvent::Ended(result) => return result.map_err(Into::into),
            };
        }
    }

    /// Moves what is planned, unless something else is heard meanwhile. Returns what is heard next.
    async fn carry_out(
        &mut self,
        state: &SharedState<'_>,
        order: MoveOrder,
    ) -> Result<SyncEvent, Error> {
        let round = order.plan.round;
        self.unreported = Some(round);
        let moved = tokio::select! {
            biased;
            event = self.heard.recv() => {
                self.unreported = None;
                return event.ok_or(Error::RuntimeEnded);
            }
            moved = carry_out(means(self.calls), state, order) => moved,
        };
        let (ok, with) = match moved {
            Ok(moved) => {
                self.moved = moved;
                (true, None)
            }
            Err(Failed { with, error }) => {
                tracing::debug!(%error, %round, "a transfer of shared state failed");
                (false, with)
            }
        };
        self.unreported = None;
        self.calls
            .tell(Command::TransfersEnded { round, ok, with })?;
        self.next().await
    }

    async fn next(&mut self) -> Result<SyncEvent, Error> {
        self.heard.recv().await.ok_or(Error::RuntimeEnded)
    }

    /// Writes what was fetched, and keeps none of it. Its lengths were checked when it was asked for;
    /// content that does not fit after all came from a master that contradicts itself.
    fn write(&self, state: &mut SharedState<'_>) -> Result<(), Error> {
        let staging = self.calls.staging.lock();
        let staged = staging.unwrap_or_else(PoisonError::into_inner).take();
        for (entry, content) in staged {
            if !state.replace(entry, &content) {
                return Err(CallError::MasterMisbehaved.into());
            }
        }
        Ok(())
    }
}

fn means(calls: &Calls) -> Means<'_> {
    Means {
        transport: &*calls.transport,
        stall: calls.stall,
        staging: &calls.staging,
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if let Some(round) = self.unreported {
            // Where the engine is gone there is nobody left to tell.
            let _ = self.calls.tell(Command::TransfersEnded {
                round,
                ok: false,
                with: None,
            });
        }
    }
}
