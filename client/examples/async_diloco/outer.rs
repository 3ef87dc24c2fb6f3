//! The outer state: what all peers hold alike.

use pccl::{Communicator, Error, SharedState, SyncFailure, SyncStrategy};
use pccl_subprocess::tell;

use super::run::process::state_hash;
use super::run::talk::Event;
use super::support::network::Network;
use super::support::optim::Nesterov;
use super::support::recipe::{INITIAL_SEED, late_outer_optimizer};

/// Parameters, outer optimizer and progress of the run.
pub(crate) struct Outer {
    weights: Vec<f32>,
    optimizer: Nesterov,
    /// Rounds whose reduce was started.
    rounds: u64,
    /// Of the last synchronization.
    revision: u64,
    /// Has the content been advanced since?
    advanced: bool,
    /// Sent and received in synchronizations.
    bytes: (u64, u64),
}

impl Outer {
    /// The beginning of a run, the same on all peers that have the same seed, so that they have
    /// nothing to transfer.
    pub(crate) fn new(seed: u64) -> Self {
        let network = Network::new(INITIAL_SEED.wrapping_add(seed));
        Self {
            weights: network.params().to_vec(),
            optimizer: late_outer_optimizer(),
            rounds: 0,
            revision: 0,
            advanced: false,
            bytes: (0, 0),
        }
    }

    pub(crate) fn weights(&self) -> &[f32] {
        &self.weights
    }

    pub(crate) const fn rounds(&self) -> u64 {
        self.rounds
    }

    pub(crate) const fn bytes(&self) -> (u64, u64) {
        self.bytes
    }

    pub(crate) fn hash(&self) -> String {
        state_hash(&self.weights, &self.optimizer.momentum, self.rounds)
    }

    /// One more reduce was started.
    pub(crate) const fn count_round(&mut self) {
        self.rounds += 1;
        self.advanced = true;
    }

    /// Takes the outer step.
    pub(crate) fn apply(&mut self, average: &[f32]) {
        self.optimizer.step(&mut self.weights, average);
        self.advanced = true;
    }

    /// Gives newcomers the state that everybody trains from in this round.
    pub(crate) fn share(&mut self, comm: &mut Communicator) -> Result<(), Error> {
        self.synchronize(comm, SyncStrategy::EnforcePopular)
    }

    /// Gives newcomers the state after the step whose average they lack.
    pub(crate) fn hand_over(
        &mut self,
        comm: &mut Communicator,
        is_newcomer: bool,
    ) -> Result<(), Error> {
        let strategy = if is_newcomer {
            SyncStrategy::ReceiveOnly
        } else {
            SyncStrategy::SendOnly
        };
        match self.synchronize(comm, strategy) {
            // Everybody here is a newcomer: the run begins with them, or whoever had the average has
            // died. They go on from what they share already.
            Err(Error::SyncFailed(SyncFailure::NobodyToSend)) => self.share(comm),
            result => result,
        }
    }

    /// A failure that calling again cures is the same for all peers of the group, so all call again.
    fn synchronize(
        &mut self,
        comm: &mut Communicator,
        strategy: SyncStrategy,
    ) -> Result<(), Error> {
        loop {
            match self.try_to_synchronize(comm, strategy) {
                Err(error @ Error::SyncFailed(_)) if error.is_retryable() => {
                    tell(&Event::Failed {
                        round: self.rounds + 1,
                        error: error.to_string(),
                    });
                }
                result => return result,
            }
        }
    }

    fn try_to_synchronize(
        &mut self,
        comm: &mut Communicator,
        strategy: SyncStrategy,
    ) -> Result<(), Error> {
        // A revision is one step ahead of the last synchronization or equal to it, however many
        // rounds lie in between: it counts what was synchronized, not what was trained. The rounds
        // travel as content.
        let mut state = SharedState::at(self.revision + u64::from(self.advanced));
        let mut rounds = [self.rounds];
        state.entry("weights", &mut self.weights)?;
        state.entry("momentum", &mut self.optimizer.momentum)?;
        state.entry("rounds", &mut rounds)?;
        let report = comm.sync_shared_state(&mut state, strategy)?;
        [self.rounds] = rounds;
        self.revision = report.revision;
        self.advanced = false;
        self.bytes.0 += report.bytes_sent;
        self.bytes.1 += report.bytes_received;
        Ok(())
    }
}
