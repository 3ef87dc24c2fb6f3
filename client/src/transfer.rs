//! Moving entries of the shared state between peers, over lanes of their own. A peer that lacks much fetches from
//! several holders at once: all their lanes work on the same list of what is missing.
//!
//! | file | what it is for |
//! |---|---|
//! | `serving` | sending what others ask for |
//! | `fetching` | asking, on several lanes, and checking what arrives |
//! | `board` | what is left to fetch, and which lane fetches it |
//! | `staging` | what has arrived and is not the user's yet |
//! | `room` | the memory for it |
//!
//! No deadline is absolute: a lane on which nothing moves for the stall time is given up, and a transfer
//! fails where no lane is left.

mod board;
mod fetching;
mod room;
mod serving;
mod staging;
#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pccl_core::id::{EntryIndex, PeerId, Round};
use pccl_core::shared_state::{FetchList, SyncRole};
use pccl_core::topology::LaneOrder;
use pccl_core::transport::{Lane, LaneError, LaneTx, Transport};
use pccl_core::wire::{
    ControlError, EncodeError, Preamble, Purpose, STATE_RANGES_MAX, UnexpectedRange,
};
use tokio::sync::oneshot;

use crate::engine::{MoveOrder, dial};
use crate::patience;
use crate::state::SharedState;
use pccl_plane::Progress;

pub(crate) use room::Room;
pub(crate) use staging::Staging;

/// Bytes that are sent or received before progress is noted.
const PIECE_BYTES: usize = 256 * 1024;

/// How much was moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
}

/// Why a lane, or the last lane of a transfer, failed. The synchronization then fails, and is called
/// again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransferError {
    #[error("the lane ended: {0}")]
    Lane(#[from] LaneError),
    #[error("the lane could not be opened")]
    NotOpened,
    #[error("no progress within the time limit")]
    Stalled,
    #[error("the other lanes have waited for this one for too long")]
    Slow,
    #[error("{0}")]
    Request(#[from] ControlError),
    #[error("{0}")]
    Asking(#[from] EncodeError),
    #[error("{0}")]
    Range(#[from] UnexpectedRange),
    #[error("the request is for {asked}, not for {expected}")]
    WrongRound { asked: Round, expected: Round },
    #[error("the request is for {0} ranges, and may be for one to {STATE_RANGES_MAX}")]
    BadCount(usize),
    #[error("{0} does not exist here, or not so much of it")]
    NoSuchEntry(EntryIndex),
    #[error("{0} arrived with another content than announced")]
    WrongContent(EntryIndex),
}

/// A peer's part of a plan that failed.
#[derive(Debug)]
pub(crate) struct Failed {
    /// The peer that could not be served, if this peer was to serve.
    pub(crate) with: Option<PeerId>,
    pub(crate) error: TransferError,
}

impl From<TransferError> for Failed {
    fn from(error: TransferError) -> Self {
        let with = None;
        Self { with, error }
    }
}

/// What transfers are made with.
#[derive(Clone, Copy)]
pub(crate) struct Means<'a> {
    pub(crate) transport: &'a dyn Transport,
    /// A lane on which nothing moves for so long has failed.
    pub(crate) stall: Duration,
    /// What arrives is kept here, also for the next plan.
    pub(crate) staging: &'a Mutex<Staging>,
}

/// Carries out this peer's part of a plan. What arrives is kept aside.
pub(crate) async fn carry_out(
    means: Means<'_>,
    state: &SharedState<'_>,
    order: MoveOrder,
) -> Result<Moved, Failed> {
    let mut desk = Desk {
        means,
        state,
        me: order.me,
        round: order.plan.round,
        progress: order.progress,
        expected: order.expected,
    };
    match order.plan.role {
        SyncRole::Distribute { to } => {
            desk.want(&FetchList::default())?;
            desk.serve_all(&to).await
        }
        SyncRole::Request { from, entries } => {
            desk.want(&entries)?;
            if from.is_empty() && entries.is_empty() {
                return Ok(Moved::default());
            }
            let holders = from.iter().map(|order| desk.sources(order)).collect();
            Ok(desk.fetch(holders).await?)
        }
    }
}

/// One plan of one peer.
struct Desk<'a> {
    means: Means<'a>,
    state: &'a SharedState<'a>,
    me: PeerId,
    round: Round,
    progress: Progress,
    expected: Vec<(PeerId, oneshot::Receiver<Lane>)>,
}

/// Where a lane comes from.
enum Source {
    Dial { order: LaneOrder, number: u16 },
    Expect(oneshot::Receiver<Lane>),
}

impl Source {
    async fn open(self, means: Means<'_>, me: PeerId) -> Result<Lane, TransferError> {
        let opened = match self {
            Self::Dial { order, number } => {
                let preamble = Preamble {
                    purpose: Purpose::SharedState,
                    from: me,
                    ticket: order.ticket,
                    lane: number,
                    lanes: order.lanes,
                };
                dial(means.transport, &order, preamble).await.ok()
            }
            Self::Expect(lane) => within(means.stall, lane).await?.ok(),
        };
        let mut lane = opened.ok_or(TransferError::NotOpened)?;
        lane.tx.give_up_after(means.stall);
        Ok(lane)
    }
}

impl<'a> Desk<'a> {
    /// Where the lanes of an order come from.
    fn sources(&mut self, order: &LaneOrder) -> Vec<Source> {
        if order.dial.is_some() {
            let order = *order;
            let numbers = 0..order.lanes;
            return numbers
                .map(|number| Source::Dial { order, number })
                .collect();
        }
        let expected = self.expected.extract_if(.., |(who, _)| *who == order.with);
        expected.map(|(_, lane)| Source::Expect(lane)).collect()
    }

    fn content(&self, entry: EntryIndex) -> Result<&'a [u8], TransferError> {
        let content = self.state.content(entry);
        content.ok_or(TransferError::NoSuchEntry(entry))
    }
}

/// Locks; a panic elsewhere leaves nothing half done.
fn lock(staging: &Mutex<Staging>) -> std::sync::MutexGuard<'_, Staging> {
    staging.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends all of both parts. Nothing may stand still for `stall`; `moved` is told how many bytes have
/// left.
async fn send_moving(
    tx: &mut dyn LaneTx,
    [mut head, mut body]: [&[u8]; 2],
    stall: Duration,
    moved: impl Fn(usize),
) -> Result<(), TransferError> {
    while !head.is_empty() || !body.is_empty() {
        let piece = body.get(..PIECE_BYTES).unwrap_or(body);
        let sent = within(stall, poll_fn(|cx| tx.poll_send(cx, &[head, piece]))).await??;
        if sent == 0 {
            return Err(LaneError::Closed.into());
        }
        moved(sent);
        let of_head = sent.min(head.len());
        head = head.get(of_head..).unwrap_or_default();
        body = body.get(sent - of_head..).unwrap_or_default();
    }
    Ok(())
}

async fn within<F: Future>(limit: Duration, future: F) -> Result<F::Output, TransferError> {
    let ended = patience::within(limit, future).await;
    ended.ok_or(TransferError::Stalled)
}
