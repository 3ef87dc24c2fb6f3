//! Asking for what is missing, on several lanes, and checking what arrives.

use std::collections::BTreeSet;
use std::pin::pin;

use pccl_core::id::EntryIndex;
use pccl_core::shared_state::FetchList;
use pccl_core::transport::{Lane, close, recv_exact};
use pccl_core::wire::{STATE_RANGE_HEADER_BYTES, StateRange, StateRequest, encode_control};
use pccl_kernels::ContentHashing;
use tokio::sync::mpsc;

use super::board::{Board, Hands, Next};
use super::{Desk, Moved, Source, TransferError, lock, send_moving, within};
use crate::state::hash_in_turns;
use crate::together::Together;

/// Batches that a lane has asked for at a time: while one arrives the request for the next one is on its
/// way, so that the lane never runs dry.
const BATCHES_UNDER_WAY: usize = 2;

impl Desk<'_> {
    /// Keeps what the plan asks for and was fetched before, and nothing else.
    pub(super) fn want(&self, entries: &FetchList) -> Result<(), TransferError> {
        let wanted = entries.iter().map(|(entry, hash)| {
            let length = self.content(entry)?.len();
            Ok((entry, hash, length))
        });
        let wanted: Vec<_> = wanted.collect::<Result<_, TransferError>>()?;
        lock(self.means.staging).want(&wanted);
        Ok(())
    }

    /// Fetches what is missing of the entries that are wanted, from these holders: where the lanes of each come
    /// from. A holder whose lanes all end costs what was under way on them, as long as another one is left.
    pub(super) async fn fetch(&self, holders: Vec<Vec<Source>>) -> Result<Moved, TransferError> {
        let (whole, arrived) = mpsc::unbounded_channel();
        let count = holders.iter().map(Vec::len).sum::<usize>();
        let count = u16::try_from(count).unwrap_or(u16::MAX);
        let board = Board::new(self.means.staging, count, whole);
        let checked = self.check(arrived);
        let brought = self.bring(holders, &board);
        let (mut checked, mut brought) = (pin!(checked), pin!(brought));
        tokio::select! {
            biased;
            is_right = &mut checked => {
                is_right?;
                brought.await?;
            }
            is_there = &mut brought => {
                is_there?;
                checked.await?;
            }
        }
        Ok(Moved {
            bytes_sent: 0,
            bytes_received: board.received(),
        })
    }

    /// Fetches on all lanes of all holders until everything is there, and every holder that can be reached knows
    /// it: each of them waits until a lane to it is closed.
    async fn bring(
        &self,
        holders: Vec<Vec<Source>>,
        board: &Board<'_>,
    ) -> Result<(), TransferError> {
        let mut untold: BTreeSet<usize> = (0..holders.len()).collect();
        let mut lanes = Together::new();
        let sources = holders.into_iter().enumerate();
        let sources =
            sources.flat_map(|(holder, sources)| sources.into_iter().map(move |s| (holder, s)));
        for (number, (holder, source)) in (0..).zip(sources) {
            lanes.push(async move {
                let fetched = async {
                    let lane = source.open(self.means, self.me).await?;
                    self.fetch_on(number, lane, board).await
                };
                (holder, fetched.await)
            });
        }
        let mut brought = Err(TransferError::NotOpened);
        while let Some((holder, ended)) = lanes.next().await {
            match ended {
                Ok(()) => {
                    brought = Ok(());
                    untold.remove(&holder);
                    if untold.is_empty() {
                        break;
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "a lane that fetches shared state ended");
                    brought = brought.or(Err(error));
                }
            }
        }
        brought
    }

    /// Fetches on one lane until everything is there, on whichever.
    async fn fetch_on(
        &self,
        number: u16,
        mut lane: Lane,
        board: &Board<'_>,
    ) -> Result<(), TransferError> {
        tokio::select! {
            biased;
            () = board.dismissed(number) => Err(TransferError::Slow),
            fetched = self.fetch_all(board.hands(number), &mut lane, board) => fetched,
        }
    }

    async fn fetch_all(
        &self,
        mut hands: Hands<'_, '_>,
        lane: &mut Lane,
        board: &Board<'_>,
    ) -> Result<(), TransferError> {
        let stall = self.means.stall;
        loop {
            while hands.batches() < BATCHES_UNDER_WAY
                && let Some(ranges) = hands.take()
            {
                let round = self.round;
                let mut request = Vec::new();
                encode_control(&StateRequest { round, ranges }, &mut request)?;
                send_moving(lane.tx.as_mut(), [&request, &[]], stall, |_| {}).await?;
            }
            if hands.batches() == 0 {
                match board.next(stall).await {
                    Next::Work => continue,
                    Next::Done => break,
                }
            }
            while let Some(range) = hands.next_range() {
                self.receive(&mut hands, range, lane).await?;
            }
        }
        within(stall, close(lane.tx.as_mut())).await??;
        Ok(())
    }

    async fn receive(
        &self,
        hands: &mut Hands<'_, '_>,
        range: StateRange,
        lane: &mut Lane,
    ) -> Result<(), TransferError> {
        let stall = self.means.stall;
        let mut header = [0; STATE_RANGE_HEADER_BYTES];
        within(stall, recv_exact(lane.rx.as_mut(), &mut header)).await??;
        StateRange::decode_expecting(&header, range)?;
        while !within(stall, hands.receive(lane.rx.as_mut())).await?? {
            self.progress.moved();
        }
        self.progress.moved();
        Ok(())
    }

    /// Compares the entries with their hashes, as they become whole, until all are right.
    async fn check(
        &self,
        mut whole: mpsc::UnboundedReceiver<EntryIndex>,
    ) -> Result<(), TransferError> {
        // Locked for this one statement: the head of a loop is kept until the loop ends.
        let open = lock(self.means.staging).open_entries();
        for _ in 0..open {
            let Some(entry) = whole.recv().await else {
                return Err(TransferError::NotOpened);
            };
            let whole = lock(self.means.staging).begin_check(entry);
            let whole = whole.ok_or(TransferError::NoSuchEntry(entry))?;
            let hashing = ContentHashing::with(&*whole.content, whole.parts);
            let is_right = hash_in_turns(hashing, || self.progress.moved()).await == whole.hash;
            lock(self.means.staging).checked(entry, is_right);
            if !is_right {
                return Err(TransferError::WrongContent(entry));
            }
        }
        Ok(())
    }
}
