//! What every peer keeps of all shards, so that nothing is lost with a peer.

use pccl::{Communicator, Error, SharedState, SyncStrategy};

use super::Training;
use super::optimizer::State;

/// The whole state, as it was before a step.
pub(crate) struct Snapshot {
    pub(crate) state: State,
    /// The revision of the shared state. 0: the training has not begun; 1: before the first step.
    number: u64,
}

impl Snapshot {
    /// What a peer starts with.
    pub(crate) const fn first(state: State) -> Self {
        Self { state, number: 0 }
    }

    /// Whether all peers of the start were there once.
    pub(crate) const fn has_begun(&self) -> bool {
        self.number > 0
    }

    /// Begins the training, on all peers at once.
    pub(crate) const fn begin(&mut self) {
        self.number = 1;
    }

    /// The next one.
    pub(crate) const fn after(&self, state: State) -> Self {
        let number = self.number + 1;
        Self { state, number }
    }

    /// The steps that are done.
    pub(crate) fn step(&self, training: Training) -> u64 {
        let snapshots = self.number.saturating_sub(1);
        let step = snapshots.saturating_mul(training.snapshot_every);
        step.min(training.steps)
    }

    /// Agrees on one snapshot with all peers. Newcomers receive that of the others. Returns the bytes that were sent.
    pub(crate) fn synchronize(&mut self, comm: &mut Communicator) -> Result<u64, Failed> {
        let number = self.number;
        let mut shared = SharedState::at(number);
        shared.entry("weights", &mut self.state.weights)?;
        shared.entry("means", &mut self.state.mean)?;
        shared.entry("squares", &mut self.state.square)?;
        let report = comm.sync_shared_state(&mut shared, SyncStrategy::EnforcePopular)?;
        self.number = report.revision;
        // The most popular content would also mend what must not happen.
        if self.number == number && report.entries_received > 0 {
            return Err(Failed::Diverged { number });
        }
        Ok(report.bytes_sent)
    }
}

/// Why a peer does not come to the next snapshot.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failed {
    /// A call has failed.
    #[error("{0}")]
    Call(#[from] Error),
    /// The participants of a reduction are others than those among whom the batch was divided.
    #[error("samples of the batch are missing")]
    SamplesMissing,
    /// Peers had the same number of snapshots and different bits.
    #[error("this peer's snapshot {number} was not that of the others: is --seed the same?")]
    Diverged { number: u64 },
}

impl Failed {
    /// Do all peers come to it together, so that all go back?
    pub(crate) fn is_shared(&self) -> bool {
        match self {
            Self::Call(error) => error.is_retryable(),
            Self::SamplesMissing => true,
            Self::Diverged { .. } => false,
        }
    }
}
