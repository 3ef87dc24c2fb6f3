//! One synchronization of the shared state, from its vote to its end.
//!
//! ```text
//!  vote ──▶ nothing has to move here, or the peer fetches ──▶ the memory is written ──▶ the end
//!    └────▶ this peer holds the elected content ──▶ it serves others, and its memory can be read ──▶ the end
//! ```

use std::sync::{Arc, PoisonError};

use pccl_core::id::{EntryIndex, Revision};
use pccl_core::peer::{Call, CallError, Synchronized};
use pccl_core::shared_state::SyncRole;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::calls::{Calls, Made};
use crate::engine::{Caller, Command, MoveOrder, SyncNotice};
use crate::error::Error;
use crate::state::{SharedState, SyncOptions, SyncReport};
use crate::transfer::{Failed, Means, Moved, Room, carry_out};

/// Votes, moves what the master plans, and writes it when everybody has it.
pub(crate) async fn synchronize(
    calls: &Calls,
    state: &mut SharedState<'_>,
    options: SyncOptions,
) -> Result<SyncReport, Error> {
    let report = match settle(calls, state, options).await? {
        Settled::Ended(report) => report,
        Settled::Held(holding) => holding.serve(state).await?,
    };
    state.revision = report.revision;
    Ok(report)
}

/// Where a synchronization stands when this peer holds the content that the group will have.
pub(crate) enum Settled<'a> {
    /// Every peer has it. If it had to be fetched, it is written.
    Ended(SyncReport),
    /// It was here before. Others may have to fetch it.
    Held(Holding<'a>),
}

/// A peer that holds the elected content. Nothing is written to its memory until the end.
pub(crate) struct Holding<'a> {
    session: Session<'a>,
    order: MoveOrder,
}

/// Votes, and goes on until this peer holds the content that the group will have.
pub(crate) async fn settle<'a>(
    calls: &'a Calls,
    state: &mut SharedState<'_>,
    options: SyncOptions,
) -> Result<Settled<'a>, Error> {
    let since = Instant::now();
    let vote = state.vote(options).await;
    let (events, heard) = mpsc::unbounded_channel();
    let made = calls.make(Call::SyncSharedState(vote), Caller::Sync(events))?;
    let mut session = Session {
        calls,
        since,
        made,
        heard,
        moved: Moved::default(),
    };
    match session.next().await? {
        SyncNotice::Move(order) if holds_all(&order.plan.role) => {
            Ok(Settled::Held(Holding { session, order }))
        }
        event => session.run(state, event).await.map(Settled::Ended),
    }
}

/// Whether a peer with this role holds all of the elected content.
fn holds_all(role: &SyncRole) -> bool {
    match role {
        SyncRole::Distribute { .. } => true,
        SyncRole::Request { entries, .. } => entries.is_empty(),
    }
}

impl Holding<'_> {
    /// The revision of the elected content.
    pub(crate) fn revision(&self) -> Revision {
        self.order.plan.revision
    }

    /// Serves the peers that fetch here, and waits until every peer has the content.
    pub(crate) async fn serve(self, state: &SharedState<'_>) -> Result<SyncReport, Error> {
        let Self { mut session, order } = self;
        let mut event = session.carry_out(state, order).await?;
        loop {
            event = match event {
                // A call has one plan.
                SyncNotice::Move(_) => return Err(CallError::MasterMisbehaved.into()),
                // Nothing was fetched.
                SyncNotice::Commit => session.next().await?,
                SyncNotice::Drop => session.dropped().await?,
                SyncNotice::Ended(result) => return session.ended(result),
            };
        }
    }
}

/// A synchronization that was called. Dropping it gives it up: nobody waits for what it was to move.
struct Session<'a> {
    calls: &'a Calls,
    since: Instant,
    made: Made,
    heard: mpsc::UnboundedReceiver<SyncNotice>,
    moved: Moved,
}

impl Session<'_> {
    /// From this event on. Writes what is fetched.
    async fn run(
        mut self,
        state: &mut SharedState<'_>,
        mut event: SyncNotice,
    ) -> Result<SyncReport, Error> {
        loop {
            event = match event {
                SyncNotice::Move(order) => self.carry_out(state, order).await?,
                SyncNotice::Commit => {
                    self.write(state)?;
                    self.next().await?
                }
                SyncNotice::Drop => self.dropped().await?,
                SyncNotice::Ended(result) => return self.ended(result),
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

    /// What was moved counts for nothing. Returns what is heard next.
    async fn dropped(&mut self) -> Result<SyncNotice, Error> {
        self.moved = Moved::default();
        self.next().await
    }

    fn ended(&mut self, result: Result<Synchronized, CallError>) -> Result<SyncReport, Error> {
        self.made.is_answered();
        let synchronized = result?;
        // An earlier attempt may have fetched what nobody lacks any more.
        drop(self.staged());
        Ok(SyncReport {
            revision: synchronized.revision.0,
            entries_received: synchronized.fetched.len(),
            bytes_sent: self.moved.bytes_sent,
            bytes_received: self.moved.bytes_received,
            duration: self.since.elapsed(),
        })
    }

    /// Writes what was fetched, and keeps none of it. Its lengths were checked when it was asked for;
    /// content that does not fit after all came from a master that contradicts itself.
    fn write(&self, state: &mut SharedState<'_>) -> Result<(), Error> {
        for (entry, content) in self.staged() {
            if !state.replace(entry, &content) {
                return Err(CallError::MasterMisbehaved.into());
            }
        }
        Ok(())
    }

    /// Takes what was fetched.
    fn staged(&self) -> impl Iterator<Item = (EntryIndex, Arc<Room>)> + use<> {
        let staging = self.calls.staging.lock();
        staging.unwrap_or_else(PoisonError::into_inner).take()
    }
}

fn means(calls: &Calls) -> Means<'_> {
    Means {
        transport: &*calls.transport,
        stall: calls.stall,
        staging: &calls.staging,
    }
}
