//! Sending what others ask for.

use std::sync::atomic::{AtomicU64, Ordering};

use pccl_core::id::PeerId;
use pccl_core::topology::LaneOrder;
use pccl_core::transport::{Lane, LaneRx};
use pccl_core::wire::{
    ControlError, ControlReader, STATE_RANGE_MAX, STATE_RANGES_MAX, STATE_REQUEST_MAX, StateRange,
    StateRequest, recv_control,
};

use super::{Desk, Failed, Moved, Source, TransferError, send_moving};
use crate::patience;
use crate::together::Together;

/// What one peer was sent on all its lanes: bytes that have left, and of these whole ranges of content.
#[derive(Debug, Default)]
struct Served {
    moved: AtomicU64,
    content: AtomicU64,
}

impl Served {
    fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }
}

impl Desk<'_> {
    /// Serves everybody who asks here, side by side. If one cannot be served, the others are served nevertheless:
    /// that one may have other holders, and then the synchronization succeeds.
    pub(super) async fn serve_all(&mut self, to: &[LaneOrder]) -> Result<Moved, Failed> {
        let peers = to.iter().map(|order| (order.with, self.sources(order)));
        let peers: Vec<(PeerId, Vec<Source>)> = peers.collect();
        let mut serving = Together::new();
        for (asks, sources) in peers {
            let desk = &*self;
            serving.push(async move {
                let with = Some(asks);
                let served = desk.serve_peer(sources).await;
                served.map_err(|error| Failed { with, error })
            });
        }
        let mut moved = Ok(Moved::default());
        while let Some(served) = serving.next().await {
            moved = moved.and_then(|moved| {
                let bytes_sent = moved.bytes_sent + served?;
                Ok(Moved {
                    bytes_sent,
                    ..moved
                })
            });
        }
        moved
    }

    /// Serves one peer until it has closed a lane: it has everything then, or has told the master that
    /// it gives up.
    async fn serve_peer(&self, sources: Vec<Source>) -> Result<u64, TransferError> {
        let served = Served::default();
        let mut lanes = Together::new();
        for source in sources {
            let served = &served;
            lanes.push(async move {
                let lane = source.open(self.means, self.me).await?;
                self.serve_lane(lane, served).await
            });
        }
        let mut failure = TransferError::NotOpened;
        while let Some(ended) = lanes.next().await {
            match ended {
                Ok(()) => return Ok(served.content.load(Ordering::Relaxed)),
                Err(error) => {
                    tracing::debug!(%error, "a lane that serves shared state ended");
                    failure = error;
                }
            }
        }
        Err(failure)
    }

    /// Answers requests until the lane is closed between two of them.
    async fn serve_lane(&self, mut lane: Lane, served: &Served) -> Result<(), TransferError> {
        let mut reader = ControlReader::with_cap(STATE_REQUEST_MAX);
        while let Some(request) = self.asked(lane.rx.as_mut(), &mut reader, served).await? {
            if request.round != self.round {
                return Err(TransferError::WrongRound {
                    asked: request.round,
                    expected: self.round,
                });
            }
            let count = request.ranges.len();
            if !(1..=STATE_RANGES_MAX).contains(&count) {
                return Err(TransferError::BadCount(count));
            }
            for range in request.ranges {
                self.send(&mut lane, range, served).await?;
            }
        }
        Ok(())
    }

    /// The next request; `None` at the end. A lane that is not used is not given up while others carry
    /// bytes to the same peer: it stands by for one that breaks.
    async fn asked(
        &self,
        rx: &mut dyn LaneRx,
        reader: &mut ControlReader,
        served: &Served,
    ) -> Result<Option<StateRequest>, TransferError> {
        let mut before = served.moved();
        loop {
            let request = recv_control::<StateRequest>(rx, reader);
            match patience::within(self.means.stall, request).await {
                Some(Ok(request)) => return Ok(Some(request)),
                Some(Err(ControlError::Ended)) => return Ok(None),
                Some(Err(error)) => return Err(error.into()),
                None if served.moved() == before => return Err(TransferError::Stalled),
                None => before = served.moved(),
            }
        }
    }

    async fn send(
        &self,
        lane: &mut Lane,
        range: StateRange,
        served: &Served,
    ) -> Result<(), TransferError> {
        let content = part(self.content(range.entry)?, range);
        let content = content.ok_or(TransferError::NoSuchEntry(range.entry))?;
        let stall = self.means.stall;
        let header = range.encode();
        send_moving(lane.tx.as_mut(), [&header, content], stall, |bytes| {
            self.progress.moved();
            served.moved.fetch_add(bytes as u64, Ordering::Relaxed);
        })
        .await?;
        let length = u64::from(range.length);
        served.content.fetch_add(length, Ordering::Relaxed);
        Ok(())
    }
}

/// The bytes of a range that may be asked for.
fn part(content: &[u8], range: StateRange) -> Option<&[u8]> {
    let start = usize::try_from(range.offset).ok()?;
    let end = start.checked_add(usize::try_from(range.length).ok()?)?;
    let may_be = (1..=STATE_RANGE_MAX).contains(&range.length);
    content.get(start..end).filter(|_| may_be)
}
