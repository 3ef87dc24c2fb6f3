//! One synchronization of the shared state, from its vote to its end.

use std::sync::PoisonError;

use pccl_core::peer::{Call, CallError, Synchronized};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::calls::{Calls, Made};
use crate::engine::{Caller, Command, MoveOrder, SyncNotice};
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
    let made = calls.make(Call::SyncSharedState(vote), Caller::Sync(events))?;
    let mut session = Session {
        calls,
        made,
        heard,
        moved: Moved::default(),
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

/// A synchronization that was called. Dropping it gives it up: nobody waits for what it was to move.
struct Session<'a> {
    calls: &'a Calls,
    made: Made,
    heard: mpsc::UnboundedReceiver<SyncNotice>,
    moved: Moved,
}

impl Session<'_> {
    async fn run(&mut self, state: &mut SharedState<'_>) -> Result<Synchronized, Error> {
        let mut event = self.next().await?;
        loop {
            event = match event {
                SyncNotice::Move(order) => self.carry_out(state, order).await?,
                SyncNotice::Commit => {
                    self.write(state)?;
                    self.next().await?
                }
                SyncNotice::Drop => {
                    self.moved = Moved::default();
                    self.next().await?
                }
                SyncNotice::Ended(result) => {
                    self.made.is_answered();
                    return result.map_err(Into::into);
                }
            };
        }
    }

    /// Moves what is planned, unless something else is heard meanwhile. Returns what is heard next.
    async fn carry_out(
        &mut self,
        state: &SharedState<'_>,
        order: MoveOrder,
    ) -> Result<SyncNotice, Error> {
        let round = order.plan.round;
        let moved = tokio::select! {
            biased;
            event = self.heard.recv() => return event.ok_or(Error::RuntimeEnded),
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
        self.calls
            .tell(Command::TransfersEnded { round, ok, with })?;
        self.next().await
    }

    async fn next(&mut self) -> Result<SyncNotice, Error> {
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
