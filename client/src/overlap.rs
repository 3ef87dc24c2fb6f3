//! A synchronization beside which a peer that holds the content works on, so that a newcomer may fetch for as long as
//! the others work.

use std::mem;
use std::panic::resume_unwind;
use std::thread;

use pccl_core::id::Revision;

use crate::communicator::Communicator;
use crate::error::Error;
use crate::state::{SharedState, SyncOptions, SyncReport};
use crate::sync::{Settled, settle};

/// What [`Communicator::sync_shared_state_overlapped`] did.
#[derive(Debug)]
#[must_use = "the synchronization may have failed"]
pub struct Overlapped<R> {
    /// What the work returned. `None` if it was not done: this peer had to fetch, the synchronization failed before it
    /// was known whether it has to, or there was no thread.
    pub work: Option<R>,
    /// How the synchronization ended, possibly after the work.
    pub synced: Result<SyncReport, Error>,
}

impl Communicator {
    /// As [`sync_shared_state`](Self::sync_shared_state), but if this peer holds the content that the group will have,
    /// this thread does `work` while other peers fetch it.
    ///
    /// The work begins when all peers have called. A thread of the call sends the content to the peers that fetch it.
    /// The call blocks until both have ended. A peer that has to fetch, such as a newcomer, does no work: it returns
    /// when every peer has the content. If all peers hold the same content, the work is done after the synchronization.
    ///
    /// `work` reads the content by [`SharedState::get`]. It does not change meanwhile, and [`SharedState::revision`] is
    /// that of the group. No collective of this communicator can begin before the call has ended, because the peers
    /// that fetch are members of the group, too; those of another communicator, such as one of the peers of a site, go
    /// on. This fits training that shares its state between long local phases: a newcomer fetches during the local
    /// steps of the others, makes none, and joins the next reduce with a [weight](crate::Reduce::weighted_avg) of zero.
    ///
    /// ```no_run
    /// use pccl::{Communicator, Error, Next, Overlapped, Reduce, SharedState, SyncStrategy};
    ///
    /// # fn local_steps(weights: &[f32]) -> Vec<f32> { weights.to_vec() }
    /// # fn outer_step(weights: &mut [f32], change: &[f32]) {}
    /// fn round(comm: &mut Communicator, weights: &mut [f32], revision: &mut u64) -> Result<(), Error> {
    ///     comm.update_topology()?;
    ///     let strategy = SyncStrategy::EnforcePopular;
    ///     let mut state = SharedState::at(*revision);
    ///     state.entry("weights", weights)?;
    ///     let Overlapped { mut work, mut synced } =
    ///         comm.sync_shared_state_overlapped(&mut state, strategy, |state| {
    ///             local_steps(state.get("weights").expect("an entry of this state"))
    ///         });
    ///     // A peer that fetched may have died. The work is kept.
    ///     while work.is_some() && synced.as_ref().is_err_and(|e| e.next() == Next::CallAgain) {
    ///         synced = comm.sync_shared_state(&mut state, strategy);
    ///     }
    ///     if synced?.entries_received > 0 {
    ///         work = None;
    ///     }
    ///     *revision = state.revision;
    ///     let weight = u32::from(work.is_some());
    ///     let mut change = work.unwrap_or_else(|| vec![0.0; weights.len()]);
    ///     match comm.all_reduce(&mut change, Reduce::weighted_avg(weight)) {
    ///         // The peers that have worked are gone. In the next round the others work.
    ///         Err(Error::NoWeight { .. }) => return Ok(()),
    ///         reduced => reduced?,
    ///     };
    ///     outer_step(weights, &change);
    ///     *revision += 1;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// If the synchronization fails after the work has begun, the memory and the revision are as they were, and the
    /// work goes on to its end. The next synchronization may elect other content, if peers have left. Then its
    /// [`SyncReport::entries_received`] is not zero, and the work was done on content that is gone.
    ///
    /// # How long it may take
    /// The content may move for as long as some of it moves in each minute (the master's `--stalled`). The peers that
    /// have fetched wait for this peer in their next call, and the master evicts a peer for which at least as many
    /// others have waited for ten minutes. If the work takes longer than the fetch and ten minutes, the operator has to
    /// raise the master's `--late`.
    ///
    /// # Errors
    /// In [`Overlapped::synced`]: as [`sync_shared_state`](Self::sync_shared_state), and [`Error::NoResources`] if no
    /// thread could be started.
    ///
    /// # Panics
    /// Inside an async task. A panic of `work` goes on after the synchronization has ended, and the revision is that of
    /// the call.
    #[track_caller]
    pub fn sync_shared_state_overlapped<R>(
        &mut self,
        state: &mut SharedState<'_>,
        options: impl Into<SyncOptions>,
        work: impl FnOnce(&SharedState<'_>) -> R,
    ) -> Overlapped<R> {
        const INSTEAD: &str = "sync_shared_state_overlapped_async";
        let settling = settle(&self.calls, state, options.into());
        let holding = match self.runtime.block_on(INSTEAD, settling) {
            Ok(Settled::Held(holding)) => holding,
            Ok(Settled::Ended(report)) => {
                state.revision = report.revision;
                let work = held_before(&report).then(|| work(state));
                let synced = Ok(report);
                return Overlapped { work, synced };
            }
            Err(error) => return failed(error),
        };
        let mut advanced = Advanced::to(holding.revision(), state);
        let read: &SharedState<'_> = advanced.state;
        let overlapped = thread::scope(|scope| {
            let runtime = &self.runtime;
            let serving = thread::Builder::new()
                .name("pccl-sync".into())
                .spawn_scoped(scope, move || {
                    runtime.block_on_beside(INSTEAD, holding.serve(read))
                });
            match serving {
                Ok(serving) => Overlapped {
                    work: Some(work(read)),
                    synced: serving.join().unwrap_or_else(|panic| resume_unwind(panic)),
                },
                Err(error) => failed(Error::NoResources(error.kind())),
            }
        });
        advanced.keep_if(&overlapped.synced);
        overlapped
    }

    /// As [`sync_shared_state_overlapped`](Self::sync_shared_state_overlapped), without blocking, except for the
    /// hashing. The task that polls the future polls `work` and sends the content. Work that computes belongs on another
    /// thread, for which `work` waits: if a poll of it takes longer than the
    /// [`stall_timeout`](crate::Builder::stall_timeout) of a peer that fetches, the synchronization fails. Dropping the
    /// future, or a panic of `work`, gives up both.
    ///
    /// # Errors
    /// In [`Overlapped::synced`]: as [`sync_shared_state`](Self::sync_shared_state).
    pub async fn sync_shared_state_overlapped_async<R>(
        &mut self,
        state: &mut SharedState<'_>,
        options: impl Into<SyncOptions>,
        work: impl AsyncFnOnce(&SharedState<'_>) -> R,
    ) -> Overlapped<R> {
        let settling = settle(&self.calls, state, options.into());
        let holding = match self.runtime.inside(settling).await {
            Ok(Settled::Held(holding)) => holding,
            Ok(Settled::Ended(report)) => {
                state.revision = report.revision;
                let work = match held_before(&report) {
                    true => Some(work(state).await),
                    false => None,
                };
                let synced = Ok(report);
                return Overlapped { work, synced };
            }
            Err(error) => return failed(error),
        };
        let mut advanced = Advanced::to(holding.revision(), state);
        let read: &SharedState<'_> = advanced.state;
        let serving = self.runtime.inside(holding.serve(read));
        // What others wait for comes first.
        let (synced, work) = tokio::join!(serving, work(read));
        advanced.keep_if(&synced);
        let work = Some(work);
        Overlapped { work, synced }
    }
}

const fn failed<R>(error: Error) -> Overlapped<R> {
    Overlapped {
        work: None,
        synced: Err(error),
    }
}

/// Whether this peer held the elected content before the synchronization.
const fn held_before(report: &SyncReport) -> bool {
    report.entries_received == 0
}

/// A state that has the revision of the elected content until the synchronization has ended, and the one before if it
/// does not succeed.
struct Advanced<'s, 'a> {
    state: &'s mut SharedState<'a>,
    to_keep: u64,
}

impl<'s, 'a> Advanced<'s, 'a> {
    const fn to(elected: Revision, state: &'s mut SharedState<'a>) -> Self {
        let to_keep = mem::replace(&mut state.revision, elected.0);
        Self { state, to_keep }
    }

    fn keep_if(&mut self, synced: &Result<SyncReport, Error>) {
        if let Ok(report) = synced {
            self.to_keep = report.revision;
        }
    }
}

impl Drop for Advanced<'_, '_> {
    fn drop(&mut self) {
        self.state.revision = self.to_keep;
    }
}
