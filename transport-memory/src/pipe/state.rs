//! What a pipe holds, and what that means for its two ends.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use pccl_core::transport::LaneError;
use tokio::time::Instant;

use super::transit::Transit;
use crate::path::{Flipping, Path, Wire};

/// What is sent at once over a path of limited rate arrives in pieces of so many bytes.
const PIECE: usize = 8 * 1024;

pub(super) struct State {
    path: Path,
    wire: Arc<Wire>,
    number: u64,
    flipping: Option<Flipping>,
    transit: Transit,
    /// Bytes that fill the window.
    occupied: usize,
    /// When the writer learns of how many bytes that they were read.
    acknowledged: VecDeque<(Instant, usize)>,
    sent: u64,
    end: End,
    /// Since when bytes do not arrive.
    unheard_since: Option<Instant>,
    gives_up_after: Option<Duration>,
    reader_gone: bool,
    pub(super) faults: Faults,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
}

/// What has become of the stream's end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The writer goes on.
    Open,
    /// Arrives behind the last byte, and not before this moment.
    Sent(Option<Instant>),
    /// Never arrives.
    Lost,
}

/// What the network, or a host, does to this pipe.
#[derive(Default)]
pub(super) struct Faults {
    pub(super) stalled: bool,
    pub(super) deaf: bool,
    pub(super) hole: bool,
    pub(super) mute: bool,
    pub(super) writer_frozen: bool,
    pub(super) reader_frozen: bool,
    pub(super) writer_reset: bool,
    pub(super) reader_reset: bool,
}

impl State {
    pub(super) fn new(path: Path, wire: Arc<Wire>, number: u64) -> Self {
        Self {
            path,
            wire,
            number,
            flipping: path.flips.map(|flips| Flipping::new(flips, number)),
            transit: Transit::default(),
            occupied: 0,
            acknowledged: VecDeque::new(),
            sent: 0,
            end: End::Open,
            unheard_since: None,
            gives_up_after: None,
            reader_gone: false,
            faults: Faults::default(),
            reader: None,
            writer: None,
        }
    }

    pub(super) fn set_path(&mut self, path: Path) {
        if path.flips != self.path.flips {
            self.flipping = path.flips.map(|flips| Flipping::new(flips, self.number));
        }
        self.path = path;
    }

    pub(super) fn reset(&mut self) {
        self.faults.writer_reset = true;
        self.faults.reader_reset = true;
        self.transit.clear();
    }

    pub(super) fn stall(&mut self) {
        self.faults.stalled = true;
        if self.transit.last_due().is_some() {
            self.unheard_since.get_or_insert_with(Instant::now);
        }
    }

    /// What the writer has given up stays away.
    pub(super) fn resume(&mut self) {
        if self.is_given_up() {
            return;
        }
        self.faults.stalled = false;
        if !self.faults.hole {
            self.unheard_since = None;
        }
    }

    pub(super) fn finish(&mut self) {
        if self.end != End::Open {
            return;
        }
        self.end = match self.faults.hole {
            true => End::Lost,
            false => End::Sent(self.due(0).max(self.transit.last_due())),
        };
    }

    pub(super) fn lose_reader(&mut self) {
        self.reader_gone = true;
        self.transit.clear();
    }

    pub(super) fn give_up_after(&mut self, limit: Duration) {
        let shortest = self.gives_up_after.map_or(limit, |known| known.min(limit));
        self.gives_up_after = Some(shortest);
    }

    /// When the writer's end ends, because bytes do not arrive.
    pub(super) fn given_up_at(&self) -> Option<Instant> {
        let limit = self.gives_up_after.filter(|_| self.path.tells)?;
        Some(self.unheard_since? + limit)
    }

    fn is_given_up(&self) -> bool {
        is_past(self.given_up_at())
    }

    /// Why the writer cannot send, beyond what it has sent.
    fn refusal(&self) -> Option<LaneError> {
        let is_told = !self.faults.deaf && !self.faults.mute;
        if self.is_given_up() {
            Some(LaneError::TimedOut)
        } else if self.faults.writer_reset || (self.reader_gone && is_told) {
            Some(LaneError::Reset)
        } else {
            None
        }
    }

    /// Takes what fits of `parts`; `Pending` where nothing does.
    pub(super) fn put(&mut self, parts: &[&[u8]]) -> Poll<Result<usize, LaneError>> {
        if self.faults.writer_frozen {
            return Poll::Pending;
        }
        if let Some(error) = self.refusal() {
            return Poll::Ready(Err(error));
        }
        if self.end != End::Open {
            return Poll::Ready(Err(LaneError::Closed));
        }
        if parts.iter().all(|part| part.is_empty()) {
            return Poll::Ready(Ok(0));
        }
        self.acknowledge();
        let before = self.sent;
        for part in parts {
            let room = self.path.window.max(1).saturating_sub(self.occupied);
            self.send(&part[..room.min(part.len())]);
        }
        match (self.sent - before) as usize {
            0 => Poll::Pending,
            taken => Poll::Ready(Ok(taken)),
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        let carries = self.path.carries.saturating_sub(self.sent);
        let carried = match self.faults.hole {
            true => 0,
            false => usize::try_from(carries).map_or(bytes.len(), |most| most.min(bytes.len())),
        };
        self.occupied += bytes.len();
        self.sent += bytes.len() as u64;
        for piece in bytes[..carried].chunks(PIECE) {
            let due = self.due(piece.len());
            self.transit.put(piece, due, self.flipping.as_mut());
        }
        self.faults.hole |= carried < bytes.len();
        if !bytes.is_empty() && (self.faults.hole || self.faults.stalled) {
            self.unheard_since.get_or_insert_with(Instant::now);
        }
    }

    /// When bytes arrive that are sent at this moment. `None`: at once.
    fn due(&self, bytes: usize) -> Option<Instant> {
        match (self.path.bytes_per_second, self.path.delay) {
            (None, Duration::ZERO) => None,
            (None, delay) => Some(Instant::now() + delay),
            (Some(rate), delay) => Some(self.wire.book(bytes, rate) + delay),
        }
    }

    /// Counts what the writer has learnt by now.
    fn acknowledge(&mut self) {
        while let Some((at, bytes)) = self.acknowledged.front()
            && *at <= Instant::now()
        {
            self.occupied -= bytes;
            self.acknowledged.pop_front();
        }
    }

    /// Moves what has arrived to the front of `into`; `Pending` where nothing has.
    pub(super) fn take(
        &mut self,
        into: &mut [u8],
        has_given_up: bool,
    ) -> Poll<Result<usize, LaneError>> {
        if self.faults.reader_frozen {
            return Poll::Pending;
        }
        if has_given_up {
            return Poll::Ready(Err(LaneError::TimedOut));
        }
        if self.faults.reader_reset {
            return Poll::Ready(Err(LaneError::Reset));
        }
        if self.faults.stalled {
            return Poll::Pending;
        }
        match self.transit.take(into) {
            0 if self.has_ended() => Poll::Ready(Ok(0)),
            0 => Poll::Pending,
            taken => {
                self.was_read(taken);
                Poll::Ready(Ok(taken))
            }
        }
    }

    fn has_ended(&self) -> bool {
        match self.end {
            End::Open | End::Lost => false,
            End::Sent(due) => self.transit.is_empty() && (due.is_none() || is_past(due)),
        }
    }

    fn was_read(&mut self, bytes: usize) {
        match self.path.delay {
            Duration::ZERO => self.occupied -= bytes,
            delay => self.acknowledged.push_back((Instant::now() + delay, bytes)),
        }
    }

    /// What the writer does when it has asked for the end of the stream.
    pub(super) fn close(&mut self) -> Poll<Result<(), LaneError>> {
        if self.faults.writer_frozen {
            return Poll::Pending;
        }
        if self.is_given_up() {
            return Poll::Ready(Err(LaneError::TimedOut));
        }
        if self.faults.writer_reset {
            return Poll::Ready(Err(LaneError::Reset));
        }
        self.finish();
        Poll::Ready(Ok(()))
    }

    /// When the writer may go on, if it waits.
    pub(super) fn writer_waits_until(&self) -> Option<Instant> {
        if self.faults.writer_frozen {
            return None;
        }
        let learns = self.acknowledged.front().map(|(at, _)| *at);
        [learns, self.given_up_at()].into_iter().flatten().min()
    }

    /// When the reader may go on, if it waits for this pipe.
    pub(super) fn reader_waits_until(&self) -> Option<Instant> {
        if self.faults.stalled || self.faults.reader_frozen {
            return None;
        }
        let end = match self.end {
            End::Open | End::Lost => None,
            End::Sent(due) => due,
        };
        self.transit.next_due().or(end)
    }

    /// Whether the writer waits for the moment to give up.
    pub(super) fn is_unheard(&self) -> bool {
        self.given_up_at().is_some()
    }
}

pub(super) fn is_past(moment: Option<Instant>) -> bool {
    moment.is_some_and(|moment| moment <= Instant::now())
}
