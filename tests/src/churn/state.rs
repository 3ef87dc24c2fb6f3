//! The shared state of a peer: what the results of all steps have made of it, and blocks whose content follows from
//! the revision.

use std::time::Duration;

use pccl::{Communicator, Error, Overlapped, SharedState, SyncOptions, SyncReport, SyncStrategy};
use tokio::time::sleep;

use super::numbers::{Key, fill, hash_of, is_contribution};
use super::reduces::Failed;

/// Entries whose content follows from the revision. Each step writes one of them.
const BLOCKS: u64 = 4;

/// Whoever writes the blocks; no peer has this number.
const NOBODY: u64 = u64::MAX;

/// Larger numbers of the history start again at zero.
const HISTORY_MAX: f32 = 1e6;

/// What all peers hold alike.
pub(crate) struct State {
    seed: u64,
    pub(crate) revision: u64,
    /// Sums of results: it follows from who took part in which step.
    history: Vec<f32>,
    blocks: Vec<Vec<f32>>,
}

impl State {
    /// The state at the beginning of a run, of so many bytes in all.
    pub(crate) fn new(seed: u64, bytes: usize) -> Self {
        let of_block = (bytes / 8 / BLOCKS as usize).max(1);
        let mut state = Self {
            seed,
            revision: 0,
            history: vec![0.0; (bytes / 8).max(1)],
            blocks: vec![vec![0.0; of_block]; BLOCKS as usize],
        };
        for block in 0..BLOCKS {
            state.write_block(block, 0);
        }
        state
    }

    /// Makes the state that of the group.
    pub(super) fn synchronize(&mut self, comm: &mut Communicator) -> Result<SyncReport, Error> {
        let mut shared = self.shared()?;
        let report = comm.sync_shared_state(&mut shared, SyncStrategy::EnforcePopular)?;
        self.revision = report.revision;
        Ok(report)
    }

    /// As [`synchronize`](Self::synchronize), without blocking and in this way.
    pub(crate) async fn synchronize_async(
        &mut self,
        comm: &mut Communicator,
        options: SyncOptions,
    ) -> Result<SyncReport, Error> {
        let mut shared = self.shared()?;
        let report = comm.sync_shared_state_async(&mut shared, options).await?;
        self.revision = report.revision;
        Ok(report)
    }

    /// The same. If the content is here already, this peer works for so long while others fetch it.
    pub(crate) async fn synchronize_overlapped(
        &mut self,
        comm: &mut Communicator,
        options: SyncOptions,
        work: Duration,
    ) -> Result<SyncReport, Failed> {
        let mut shared = self.shared()?;
        let seen = |shared: &SharedState<'_>| shared.get("history").map(hash_of::<f32>);
        let working = async |shared: &SharedState<'_>| {
            let before = seen(shared);
            sleep(work).await;
            (before == seen(shared)).then_some(shared.revision)
        };
        let call = comm.sync_shared_state_overlapped_async(&mut shared, options, working);
        let Overlapped { work, synced } = call.await;
        let report = synced?;
        let held = report.entries_received == 0;
        if work != held.then_some(Some(report.revision)) {
            let what = format!("work beside {report:?} on another content: {work:?}");
            return Err(Failed::Wrong(what));
        }
        self.revision = report.revision;
        Ok(report)
    }

    fn shared(&mut self) -> Result<SharedState<'_>, Error> {
        let mut shared = SharedState::at(self.revision);
        shared.entry("history", &mut self.history)?;
        for (number, block) in self.blocks.iter_mut().enumerate() {
            shared.entry(format!("block {number}"), block)?;
        }
        Ok(shared)
    }

    /// Adds the result of a reduce to the history.
    pub(crate) fn add(&mut self, result: &[f32]) {
        let length = self.history.len();
        let at = (self.revision as usize).wrapping_mul(7919) % length;
        let window = self.history.iter_mut().skip(at);
        for (element, added) in window.zip(result) {
            let sum = *element + added;
            *element = if sum.abs() < HISTORY_MAX { sum } else { 0.0 };
        }
    }

    /// The step is done.
    pub(crate) fn advance(&mut self) {
        self.revision += 1;
        self.write_block(self.revision % BLOCKS, self.revision);
    }

    /// A hash of the content, bit for bit.
    pub(crate) fn hash(&self) -> String {
        let hashes = self.blocks.iter().chain([&self.history]);
        let hashes: String = hashes.map(|entry| hash_of(entry)).collect();
        hash_of(hashes.as_bytes())
    }

    /// The first block that does not have the content of this revision.
    pub(crate) fn wrong_block(&self) -> Option<u64> {
        let mut blocks = (0..).zip(&self.blocks);
        let wrong = blocks.find(|(block, content)| {
            let key = self.key_of(*block, written_last(*block, self.revision));
            !is_contribution(content, key, NOBODY)
        });
        wrong.map(|(block, _)| block)
    }

    fn write_block(&mut self, block: u64, revision: u64) {
        let key = self.key_of(block, revision);
        if let Some(content) = self.blocks.get_mut(block as usize) {
            fill(content, key, NOBODY);
        }
    }

    const fn key_of(&self, block: u64, revision: u64) -> Key {
        Key {
            seed: self.seed,
            revision,
            tag: block,
        }
    }
}

/// The revision whose step has written this block last, or 0.
const fn written_last(block: u64, revision: u64) -> u64 {
    let since = (revision + BLOCKS - block) % BLOCKS;
    revision.saturating_sub(since)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_blocks_follow_from_the_revision() {
        let mut state = State::new(1, 1 << 16);
        for _ in 0..10 {
            assert_eq!(state.wrong_block(), None, "revision {}", state.revision);
            state.advance();
        }
        state.revision -= 1;
        assert_eq!(state.wrong_block(), Some(10 % BLOCKS));
    }

    #[test]
    fn the_hash_is_that_of_the_whole_content() {
        let (mut one, mut other) = (State::new(1, 1 << 16), State::new(1, 1 << 16));
        assert_eq!(one.hash(), other.hash());
        one.add(&[1.0]);
        assert_ne!(one.hash(), other.hash());
        other.add(&[1.0]);
        assert_eq!(one.hash(), other.hash());
        one.advance();
        assert_ne!(one.hash(), other.hash());
    }
}
