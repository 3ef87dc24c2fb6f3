//! Moving entries of the shared state between two peers, over a lane of its own.

use std::time::Duration;

use pccl_core::id::{ContentHash, EntryIndex, PeerId, Round};
use pccl_core::shared_state::SyncRole;
use pccl_core::topology::LaneOrder;
use pccl_core::transport::{Lane, LaneError, LaneRx, LaneTx, close, recv_some, send_all};
use pccl_core::wire::{
    ControlError, ControlReader, ENTRY_HEADER_BYTES, EntryError, EntryHeader, Preamble, Purpose,
    STATE_REQUEST_MAX, StateRequest, recv_control, send_control,
};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::calls::Calls;
use crate::engine::{MoveOrder, dial};
use crate::state::{SharedState, hash_of};
use crate::together::Together;

/// Bytes that are sent or received before progress is noted.
const PIECE_BYTES: usize = 256 * 1024;

/// What was moved, and what arrived.
#[derive(Debug, Default)]
pub(crate) struct Moved {
    pub(crate) staged: Vec<(EntryIndex, Vec<u8>)>,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
}

/// Why a transfer failed. The synchronization fails with it, and is called again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransferError {
    #[error("the lane ended: {0}")]
    Lane(#[from] LaneError),
    #[error("the lane could not be opened")]
    NotOpened,
    #[error("no progress within the time limit")]
    Stalled,
    #[error("{0}")]
    Request(#[from] ControlError),
    #[error("{0}")]
    Entry(#[from] EntryError),
    #[error("the request is for {asked}, not for {expected}")]
    WrongRound { asked: Round, expected: Round },
    #[error("{0} does not exist here")]
    NoSuchEntry(EntryIndex),
    #[error("{0} arrived with another content than announced")]
    WrongContent(EntryIndex),
}

/// A peer's part of a plan that failed.
#[derive(Debug)]
pub(crate) struct Failed {
    /// Who could not be served, where this peer was to serve.
    pub(crate) with: Option<PeerId>,
    pub(crate) error: TransferError,
}

impl From<TransferError> for Failed {
    fn from(error: TransferError) -> Self {
        let with = None;
        Self { with, error }
    }
}

/// Carries out this peer's part of a plan. What arrives is kept aside.
pub(crate) async fn carry_out(
    calls: &Calls,
    state: &SharedState<'_>,
    order: MoveOrder,
) -> Result<Moved, Failed> {
    let mut desk = Desk {
        calls,
        state,
        me: order.me,
        round: order.plan.round,
        expected: order.expected,
    };
    match order.plan.role {
        SyncRole::Distribute { to } => desk.serve_all(&to).await,
        SyncRole::Request {
            from: None,
            entries,
        } => match entries.first() {
            None => Ok(Moved::default()),
            Some(_) => Err(TransferError::NotOpened.into()),
        },
        SyncRole::Request {
            from: Some(from),
            entries,
        } => {
            let lane = desk.lane(&from);
            let lane = lane.open(desk.calls, desk.me).await?;
            Ok(desk.fetch(lane, &entries).await?)
        }
    }
}

/// One plan of one peer.
struct Desk<'a> {
    calls: &'a Calls,
    state: &'a SharedState<'a>,
    me: PeerId,
    round: Round,
    expected: Vec<(PeerId, oneshot::Receiver<Lane>)>,
}

/// Where a lane comes from.
enum Source {
    Dial(LaneOrder),
    Expect(oneshot::Receiver<Lane>),
    Nowhere,
}

impl Source {
    async fn open(self, calls: &Calls, me: PeerId) -> Result<Lane, TransferError> {
        match self {
            Self::Dial(order) => {
                let preamble = Preamble {
                    purpose: Purpose::SharedState,
                    from: me,
                    ticket: order.ticket,
                    lane: 0,
                    lanes: 1,
                };
                let dialled = dial(&*calls.transport, &order, preamble).await;
                dialled.map_err(|_| TransferError::NotOpened)
            }
            Self::Expect(lane) => within(calls.stall, lane)
                .await?
                .map_err(|_| TransferError::NotOpened),
            Self::Nowhere => Err(TransferError::NotOpened),
        }
    }
}

impl<'a> Desk<'a> {
    fn lane(&mut self, order: &LaneOrder) -> Source {
        if order.dial.is_some() {
            return Source::Dial(*order);
        }
        let place = self.expected.iter().position(|(who, _)| *who == order.with);
        match place {
            Some(place) => Source::Expect(self.expected.swap_remove(place).1),
            None => Source::Nowhere,
        }
    }

    /// Serves everybody who asks here, side by side.
    async fn serve_all(&mut self, to: &[LaneOrder]) -> Result<Moved, Failed> {
        let sources: Vec<(PeerId, Source)> = to
            .iter()
            .map(|order| (order.with, self.lane(order)))
            .collect();
        let mut serving = Together::new();
        for (asks, source) in sources {
            let desk = &*self;
            serving.push(async move {
                let with = Some(asks);
                let served = desk.serve(source).await;
                served.map_err(|error| Failed { with, error })
            });
        }
        let mut moved = Moved::default();
        while let Some(served) = serving.next().await {
            moved.bytes_sent += served?;
        }
        Ok(moved)
    }

    async fn serve(&self, source: Source) -> Result<u64, TransferError> {
        let mut lane = source.open(self.calls, self.me).await?;
        let stall = self.calls.stall;
        let mut reader = ControlReader::with_cap(STATE_REQUEST_MAX);
        let asked = recv_control::<StateRequest>(lane.rx.as_mut(), &mut reader);
        let request = within(stall, asked).await??;
        if request.round != self.round {
            return Err(TransferError::WrongRound {
                asked: request.round,
                expected: self.round,
            });
        }
        let mut sent = 0;
        for entry in request.entries {
            let content = self.content(entry)?;
            send_entry(lane.tx.as_mut(), entry, content, stall).await?;
            sent += content.len() as u64;
        }
        within(stall, close(lane.tx.as_mut())).await??;
        // The other end closes when it has read everything; until then nothing may be dropped.
        let mut end = [0; 1];
        within(stall, recv_some(lane.rx.as_mut(), &mut end)).await??;
        Ok(sent)
    }

    /// Fetches the entries one after the other.
    async fn fetch(
        &self,
        mut lane: Lane,
        entries: &[(EntryIndex, ContentHash)],
    ) -> Result<Moved, TransferError> {
        let stall = self.calls.stall;
        let request = StateRequest {
            round: self.round,
            entries: entries.iter().map(|(entry, _)| *entry).collect(),
        };
        within(stall, send_control(lane.tx.as_mut(), &request)).await??;
        let mut moved = Moved::default();
        for (entry, hash) in entries {
            let length = self.content(*entry)?.len();
            let content = recv_entry(lane.rx.as_mut(), *entry, length, stall).await?;
            if hash_of(&content).await != *hash {
                return Err(TransferError::WrongContent(*entry));
            }
            moved.bytes_received += content.len() as u64;
            moved.staged.push((*entry, content));
        }
        within(stall, close(lane.tx.as_mut())).await??;
        Ok(moved)
    }

    fn content(&self, entry: EntryIndex) -> Result<&'a [u8], TransferError> {
        let content = self.state.content(entry);
        content.ok_or(TransferError::NoSuchEntry(entry))
    }
}

async fn send_entry(
    tx: &mut dyn LaneTx,
    entry: EntryIndex,
    content: &[u8],
    stall: Duration,
) -> Result<(), TransferError> {
    let length = content.len() as u64;
    let header = EntryHeader { entry, length }.encode();
    within(stall, send_all(tx, &header, &[])).await??;
    for piece in content.chunks(PIECE_BYTES) {
        within(stall, send_all(tx, piece, &[])).await??;
    }
    Ok(())
}

/// Memory grows with what arrives, so that an announced length alone costs nothing.
async fn recv_entry(
    rx: &mut dyn LaneRx,
    entry: EntryIndex,
    length: usize,
    stall: Duration,
) -> Result<Vec<u8>, TransferError> {
    let mut header = [0; ENTRY_HEADER_BYTES];
    let arrival = pccl_core::transport::recv_exact(rx, &mut header);
    within(stall, arrival).await??;
    let expected = EntryHeader {
        entry,
        length: length as u64,
    };
    EntryHeader::decode_expecting(&header, expected)?;
    let mut content = Vec::new();
    while content.len() < length {
        let filled = content.len();
        content.resize(length.min(filled + PIECE_BYTES), 0);
        let Some(room) = content.get_mut(filled..) else {
            break;
        };
        let arrived = within(stall, recv_some(rx, room)).await??;
        if arrived == 0 {
            return Err(LaneError::Closed.into());
        }
        content.truncate(filled + arrived);
    }
    Ok(content)
}

async fn within<F: Future>(limit: Duration, future: F) -> Result<F::Output, TransferError> {
    let ended = timeout(limit, future).await;
    ended.map_err(|_| TransferError::Stalled)
}
