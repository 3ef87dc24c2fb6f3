//! What is left to fetch, and which lane fetches it.
//!
//! A lane takes the next batch of ranges when it is free, so a slow one does not hold up the others. What
//! a lane that ends has not brought goes back to the front. At the end, where there is nothing left to
//! take, lanes wait for those that are still at it; whoever has waited for the stall time takes over from
//! the one that has most left.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::ready;
use std::time::Duration;

use pccl_core::id::EntryIndex;
use pccl_core::transport::{LaneError, LaneRx};
use pccl_core::wire::{STATE_RANGE_MAX, STATE_RANGES_MAX, StateRange};
use tokio::sync::{Notify, mpsc};

use super::PIECE_BYTES;
use super::staging::Staging;
use crate::patience;

/// Least bytes of a batch, where there is enough: a request is little beside its answer.
const BATCH_BYTES_MIN: usize = 256 * 1024;

/// Batches that each lane gets on average, where there is not enough for the largest.
const BATCHES_PER_LANE: usize = 8;

/// Ranges that are asked for at once.
type Batch = VecDeque<StateRange>;

/// The work of all lanes of one transfer.
pub(super) struct Board<'a> {
    staging: &'a Mutex<Staging>,
    state: Mutex<State>,
    /// Something was given back, somebody was dismissed, or everything is there.
    changed: Notify,
    whole: mpsc::UnboundedSender<EntryIndex>,
}

#[derive(Debug, Default)]
struct State {
    to_take: VecDeque<Batch>,
    /// By lane.
    lanes: Vec<Load>,
    /// Bytes that have not arrived.
    left: u64,
    received: u64,
}

/// What one lane has taken and not brought.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    bytes: u64,
    is_dismissed: bool,
}

/// What a lane does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// There is something to take.
    Work,
    /// Everything has arrived.
    Done,
}

impl<'a> Board<'a> {
    /// The work that is left for so many lanes. Entries that are whole are told.
    pub(super) fn new(
        staging: &'a Mutex<Staging>,
        lanes: u16,
        whole: mpsc::UnboundedSender<EntryIndex>,
    ) -> Self {
        let lanes = usize::from(lanes.max(1));
        let staged = lock(staging);
        for entry in staged.unchecked() {
            // Fails only where nobody waits for the transfer any more.
            let _ = whole.send(entry);
        }
        let left: usize = staged.missing().map(|(_, range)| range.len()).sum();
        let batch_bytes =
            (left / (lanes * BATCHES_PER_LANE)).clamp(BATCH_BYTES_MIN, STATE_RANGE_MAX as usize);
        let to_take = cut(&staged, batch_bytes);
        drop(staged);
        Self {
            staging,
            state: Mutex::new(State {
                to_take,
                lanes: vec![Load::default(); lanes],
                left: left as u64,
                received: 0,
            }),
            changed: Notify::new(),
            whole,
        }
    }

    /// Bytes that have arrived.
    pub(super) fn received(&self) -> u64 {
        lock(&self.state).received
    }

    /// The hands of a lane, with nothing in them.
    pub(super) fn hands(&self, lane: u16) -> Hands<'_, 'a> {
        Hands {
            board: self,
            lane: usize::from(lane),
            taken: VecDeque::new(),
        }
    }

    /// Waits until there is something to take or nothing left. Whoever waits for `stall` dismisses the
    /// lane that has most left.
    pub(super) async fn next(&self, stall: Duration) -> Next {
        loop {
            let mut changed = pin!(self.changed.notified());
            // From here on no change is missed.
            changed.as_mut().enable();
            {
                let state = lock(&self.state);
                if state.left == 0 {
                    return Next::Done;
                }
                if !state.to_take.is_empty() {
                    return Next::Work;
                }
            }
            if patience::within(stall, changed).await.is_none() {
                self.dismiss_slowest();
            }
        }
    }

    fn dismiss_slowest(&self) {
        let mut state = lock(&self.state);
        let at_work = state.lanes.iter_mut().filter(|lane| !lane.is_dismissed);
        let slowest = at_work
            .filter(|lane| lane.bytes > 0)
            .max_by_key(|lane| lane.bytes);
        if let Some(slowest) = slowest {
            slowest.is_dismissed = true;
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Waits until the lane is to end, because others have waited for it for too long.
    pub(super) async fn dismissed(&self, lane: u16) {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            let load = lock(&self.state).lanes.get(usize::from(lane)).copied();
            if load.is_some_and(|load| load.is_dismissed) {
                return;
            }
            changed.await;
        }
    }
}

impl Drop for Board<'_> {
    fn drop(&mut self) {
        lock(self.staging).rest();
    }
}

/// What a lane has taken. Dropping it gives the rest back.
pub(super) struct Hands<'b, 'a> {
    board: &'b Board<'a>,
    lane: usize,
    taken: VecDeque<Batch>,
}

impl Hands<'_, '_> {
    /// How many batches were taken and have not arrived.
    pub(super) fn batches(&self) -> usize {
        self.taken.len()
    }

    /// Takes one more batch: what to ask for.
    pub(super) fn take(&mut self) -> Option<Vec<StateRange>> {
        let mut state = lock(&self.board.state);
        let batch = state.to_take.pop_front()?;
        if let Some(load) = state.lanes.get_mut(self.lane) {
            load.bytes += bytes_of(&batch);
        }
        let ranges = batch.iter().copied().collect();
        self.taken.push_back(batch);
        Some(ranges)
    }

    /// What arrives next; `None`: the batch has arrived, or none was taken.
    pub(super) fn next_range(&mut self) -> Option<StateRange> {
        let batch = self.taken.front()?;
        let next = batch.front().copied();
        if next.is_none() {
            self.taken.pop_front();
        }
        next
    }

    /// Receives some of the next range, straight to where it belongs. True: all of it is there.
    pub(super) async fn receive(&mut self, rx: &mut dyn LaneRx) -> Result<bool, LaneError> {
        let Some(range) = self.taken.front().and_then(|batch| batch.front()).copied() else {
            return Ok(true);
        };
        let (arrived, is_whole) = poll_fn(|cx| {
            let mut staging = lock(self.board.staging);
            let room = staging.room(range, PIECE_BYTES);
            if room.is_empty() {
                // Nobody else writes to it, so this does not happen.
                return std::task::Poll::Ready(Err(LaneError::Failed));
            }
            let arrived = ready!(rx.poll_recv(cx, room))?;
            let is_whole = arrived > 0 && staging.note(range, arrived);
            std::task::Poll::Ready(Ok((arrived, is_whole)))
        })
        .await?;
        if arrived == 0 {
            return Err(LaneError::Closed);
        }
        Ok(self.arrived(range, arrived, is_whole))
    }

    fn arrived(&mut self, range: StateRange, arrived: usize, is_whole: bool) -> bool {
        let rest = StateRange {
            entry: range.entry,
            length: range.length - u32::try_from(arrived).unwrap_or(range.length),
            offset: range.offset + arrived as u64,
        };
        if let Some(batch) = self.taken.front_mut() {
            batch.pop_front();
            if rest.length > 0 {
                batch.push_front(rest);
            }
        }
        if is_whole {
            let _ = self.board.whole.send(range.entry);
        }
        let mut state = lock(&self.board.state);
        state.received += arrived as u64;
        state.left -= arrived as u64;
        let is_last = state.left == 0;
        if let Some(load) = state.lanes.get_mut(self.lane) {
            load.bytes -= arrived as u64;
        }
        drop(state);
        if is_last {
            self.board.changed.notify_waiters();
        }
        rest.length == 0
    }
}

impl Drop for Hands<'_, '_> {
    fn drop(&mut self) {
        let mut state = lock(&self.board.state);
        if let Some(load) = state.lanes.get_mut(self.lane) {
            load.bytes = 0;
        }
        let rest = self.taken.drain(..).rev().filter(|batch| !batch.is_empty());
        rest.for_each(|batch| state.to_take.push_front(batch));
        drop(state);
        self.board.changed.notify_waiters();
    }
}

fn bytes_of(batch: &Batch) -> u64 {
    batch.iter().map(|range| u64::from(range.length)).sum()
}

/// What is missing, in batches of so many bytes and a bounded number of ranges.
fn cut(staging: &Staging, batch_bytes: usize) -> VecDeque<Batch> {
    let mut batches = VecDeque::new();
    let mut batch = Batch::new();
    let mut room = batch_bytes;
    for (entry, mut missing) in staging.missing() {
        while !missing.is_empty() {
            let length = missing.len().min(room);
            batch.push_back(StateRange {
                entry,
                // At most the longest range, which fits.
                length: u32::try_from(length).unwrap_or(STATE_RANGE_MAX),
                offset: missing.start as u64,
            });
            missing.start += length;
            room -= length;
            if room == 0 || batch.len() == STATE_RANGES_MAX {
                batches.push_back(std::mem::take(&mut batch));
                room = batch_bytes;
            }
        }
    }
    if !batch.is_empty() {
        batches.push_back(batch);
    }
    batches
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use pccl_core::id::ContentHash;

    use super::*;

    #[test]
    fn many_small_entries_share_a_request_and_a_large_one_takes_several() {
        let mut staging = Staging::default();
        let wanted = |index| {
            (
                EntryIndex(index),
                ContentHash(0),
                if index == 0 { 1_000 } else { 10 },
            )
        };
        let wanted: Vec<_> = (0..5_000).map(wanted).collect();
        staging.want(&wanted);

        let batches = cut(&staging, 400);
        let many = cut(&staging, 1_000_000);

        assert!(batches.iter().all(|batch| bytes_of(batch) <= 400));
        assert_eq!(
            batches.iter().map(bytes_of).sum::<u64>(),
            1_000 + 4_999 * 10
        );
        assert_eq!(batches[2].len(), 21);
        assert_eq!(
            [many[0].len(), many[1].len()],
            [STATE_RANGES_MAX, 5_000 - STATE_RANGES_MAX]
        );
    }
}
