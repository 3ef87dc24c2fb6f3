//! The connection to the master: what is to be written, and what is told once it is written.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::time::Duration;

use pccl_core::id::PeerId;
use pccl_core::messages::ToMaster;
use pccl_core::session::{CannotResume, Unacknowledged};
use pccl_core::transport::{Lane, LaneError, LaneRx, LaneTx, close, recv_some};
use pccl_core::wire::{
    CONTROL_FRAME_MAX, ControlReader, EncodeError, SessionFrame, SessionTerms, encode_control,
};
use tokio::time::{Instant, sleep_until};

use super::returning::{Attempts, Returned, Returning, Shown};

/// A written buffer keeps at most this much memory.
const KEEP_BYTES: usize = 64 * 1024;

/// Bytes of messages that are kept until the master has received them. A master that acknowledges nothing for longer
/// cannot be returned to.
const UNACKNOWLEDGED_MAX: usize = 16 * 1024 * 1024;

/// A vote to start waits so long for the vote on the outcome, and up to a tick of the clock more, a millisecond. Within a
/// machine a small plan takes a tenth of it.
const HELD_MAX: Duration = Duration::from_millis(1);

/// The session at the master, over one connection after the other.
pub(super) struct Control {
    pub(super) wire: Wire,
    pub(super) reader: ControlReader,
    pub(super) queue: SendQueue,
    /// How to go on over another connection; `None` until the master has said it.
    terms: Option<SessionTerms>,
    /// To go on over another connection.
    pub(super) attempts: Attempts,
}

/// What the session goes over.
pub(super) enum Wire {
    Up {
        rx: Box<dyn LaneRx>,
        tx: Box<dyn LaneTx>,
        /// Leads to another connection, while nothing is heard over this one.
        beside: Option<Returning>,
    },
    /// The connection has broken.
    Down {
        since: Instant,
        returning: Returning,
        /// It is not closed before there is another one: the master would take that for the end of this peer.
        _broken: (Box<dyn LaneRx>, Box<dyn LaneTx>),
    },
    /// There is none any more.
    Ended,
}

impl Wire {
    fn up(lane: Lane) -> Self {
        let Lane { rx, tx, .. } = lane;
        Self::Up {
            rx,
            tx,
            beside: None,
        }
    }
}

impl Control {
    pub(super) fn new(lane: Lane) -> Self {
        Self {
            wire: Wire::up(lane),
            reader: ControlReader::with_cap(CONTROL_FRAME_MAX),
            queue: SendQueue::default(),
            terms: None,
            attempts: Attempts::default(),
        }
    }

    /// Takes what the master has said of the connection before its latest message.
    pub(super) fn take_notes(&mut self) -> Result<(), CannotResume> {
        self.terms = self.reader.take_terms().or(self.terms);
        match self.reader.take_acknowledged() {
            Some(received) => self.queue.acknowledge(received),
            None => Ok(()),
        }
    }

    /// Appends a message; before a sign of life also the number of messages that have arrived.
    pub(super) fn push(&mut self, message: &ToMaster) -> Result<(), EncodeError> {
        if matches!(message, ToMaster::Heartbeat { .. }) {
            self.queue.has_received(self.reader.received());
        }
        self.queue.push(message)
    }

    /// More is to be said in a moment: what was pushed leaves with the next message, or when [`HELD_MAX`] is over.
    pub(super) fn hold(&mut self) {
        self.queue.held_until = Some(Instant::now() + HELD_MAX);
    }

    /// What to show the master, if the connection is up and has a session.
    pub(super) fn shown_by(&self, peer: PeerId) -> Option<Shown> {
        let is_up = matches!(self.wire, Wire::Up { .. });
        let terms = self.terms.filter(|_| is_up)?;
        Some(Shown {
            peer,
            token: terms.token,
            received: self.reader.received(),
            // Each attempt takes its own number.
            attempt: 0,
        })
    }

    /// How long the master may be away and still come back: zero, unless it keeps a journal.
    pub(super) fn away_max(&self) -> Duration {
        self.terms.map_or(Duration::ZERO, |terms| terms.away_max)
    }

    /// Nothing is heard over the connection. This leads to another one, and what comes first counts.
    pub(super) fn look_beside(&mut self, returning: Returning) {
        if let Wire::Up { beside, .. } = &mut self.wire {
            *beside = Some(returning);
        }
    }

    /// Another connection is not needed, or not to be had. Returns the way to it, if one was looked for.
    pub(super) fn look_no_further(&mut self) -> Option<Returning> {
        match &mut self.wire {
            Wire::Up { beside, .. } => beside.take(),
            Wire::Down { .. } | Wire::Ended => None,
        }
    }

    /// The connection has broken; this leads to another one.
    pub(super) fn go_back(&mut self, returning: Returning) {
        if let Wire::Up { rx, tx, .. } = std::mem::replace(&mut self.wire, Wire::Ended) {
            let _broken = (rx, tx);
            self.wire = Wire::Down {
                since: Instant::now(),
                returning,
                _broken,
            };
        }
    }

    /// There is no way back to the master.
    pub(super) fn end(&mut self) {
        self.wire = Wire::Ended;
    }

    /// Goes on over another connection.
    pub(super) fn resume(&mut self, returned: Returned) -> Result<(), CannotResume> {
        self.queue.resume(returned.received)?;
        self.reader = ControlReader::resumed(CONTROL_FRAME_MAX, self.reader.received());
        self.wire = Wire::up(returned.lane);
        Ok(())
    }

    /// Writes what is left, ends the lane, and waits until the master has ended it too: what it has
    /// not read by then might be lost.
    pub(super) async fn say_goodbye(&mut self) -> Result<(), LaneError> {
        if let Wire::Down { returning, .. } = &mut self.wire {
            // Whoever leaves on purpose has to say so.
            let returned = returning.await.map_err(|_| LaneError::Closed)?;
            self.resume(returned).map_err(|_| LaneError::Closed)?;
        }
        let Wire::Up { rx, tx, .. } = &mut self.wire else {
            return Err(LaneError::Closed);
        };
        self.queue.flush(tx.as_mut()).await?;
        close(tx.as_mut()).await?;
        let mut rest = [0; 1024];
        while recv_some(rx.as_mut(), &mut rest).await? > 0 {}
        Ok(())
    }
}

/// Messages that are on their way to the master. What is pushed between two flushes, or while the queue is held,
/// leaves in one write.
#[derive(Default)]
pub(super) struct SendQueue {
    /// Frames, by the number of their message.
    messages: Unacknowledged<Box<[u8]>>,
    kept_bytes: usize,
    bytes: Vec<u8>,
    written: usize,
    /// Events that are told when the bytes up to there are written.
    marks: VecDeque<(usize, Mark)>,
    /// Nothing leaves before, unless more is pushed.
    held_until: Option<Instant>,
}

/// A message whose departure is an event.
#[derive(Clone, Copy, Debug)]
struct Mark {
    kind: &'static str,
    tag: u64,
    seq: u64,
}

impl SendQueue {
    pub(super) fn push(&mut self, message: &ToMaster) -> Result<(), EncodeError> {
        self.held_until = None;
        let before = self.bytes.len();
        encode_control(message, &mut self.bytes)?;
        let frame: Box<[u8]> = self.bytes.get(before..).unwrap_or_default().into();
        self.kept_bytes += frame.len();
        self.messages.push(frame);
        while self.kept_bytes > UNACKNOWLEDGED_MAX {
            let Some(forgotten) = self.messages.give_up_oldest() else {
                break;
            };
            self.kept_bytes -= forgotten.len();
        }
        if let Some(mark) = Mark::of(message) {
            self.marks.push_back((self.bytes.len(), mark));
        }
        Ok(())
    }

    fn has_received(&mut self, messages: u64) {
        SessionFrame::Received { messages }.encode(&mut self.bytes);
    }

    fn acknowledge(&mut self, received: u64) -> Result<(), CannotResume> {
        let mut bytes = 0;
        self.messages
            .acknowledge(received, |frame| bytes += frame.len())?;
        self.kept_bytes -= bytes;
        Ok(())
    }

    /// Everything that the master has not received is to be written, to another connection.
    fn resume(&mut self, received: u64) -> Result<(), CannotResume> {
        let lacking = self.messages.after(received)?;
        (self.written, self.bytes) = (0, Vec::new());
        self.held_until = None;
        self.marks.clear();
        for frame in lacking {
            self.bytes.extend_from_slice(frame);
        }
        self.acknowledge(received)
    }

    /// Writes everything; returns only where that fails. Cancel-safe: what was written is remembered.
    pub(super) async fn flush_for_ever(&mut self, tx: &mut dyn LaneTx) -> LaneError {
        match self.flush(tx).await {
            Ok(()) => std::future::pending().await,
            Err(error) => error,
        }
    }

    async fn flush(&mut self, tx: &mut dyn LaneTx) -> Result<(), LaneError> {
        if let Some(until) = self.held_until {
            // A timer that is over may be armed once more, to the next tick.
            if Instant::now() < until {
                sleep_until(until).await;
            }
            self.held_until = None;
        }
        while let Some(rest) = self.bytes.get(self.written..).filter(|r| !r.is_empty()) {
            let sent = poll_fn(|cx| tx.poll_send(cx, &[rest])).await?;
            if sent == 0 {
                return Err(LaneError::Closed);
            }
            self.written += sent;
            self.tell_written();
        }
        self.bytes.clear();
        self.bytes.shrink_to(KEEP_BYTES);
        self.written = 0;
        Ok(())
    }
}

impl SendQueue {
    fn tell_written(&mut self) {
        while let Some((end, mark)) = self.marks.front()
            && *end <= self.written
        {
            mark.tell();
            self.marks.pop_front();
        }
    }
}

impl Mark {
    fn of(message: &ToMaster) -> Option<Self> {
        let (kind, tag, seq) = match message {
            ToMaster::InitiateCollective { tag, .. } => ("collective_initiated", tag.0, 0),
            ToMaster::CompleteCollective { seq, .. } => ("completion_voted", 0, seq.0),
            ToMaster::UpdateTopology { .. } => ("topology_vote_sent", 0, 0),
            ToMaster::OptimizeTopology => ("optimize_vote_sent", 0, 0),
            ToMaster::SyncSharedState(_) => ("sync_vote_sent", 0, 0),
            ToMaster::ProbesDone { round, .. } => ("probes_done", 0, round.0),
            ToMaster::Hello(_)
            | ToMaster::LinkUp { .. }
            | ToMaster::LinkFailed { .. }
            | ToMaster::ArePeersPending
            | ToMaster::Measured { .. }
            | ToMaster::SharedStateDone { .. }
            | ToMaster::Withdraw { .. }
            | ToMaster::Heartbeat { .. }
            | ToMaster::Leave
            | ToMaster::WhoIsAwaited => return None,
        };
        Some(Self { kind, tag, seq })
    }

    fn tell(&self) {
        tracing::debug!(target: "pccl::event", kind = self.kind, tag = self.tag, seq = self.seq);
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::task::{Context, Poll};

    use pccl_core::element::ElementType;
    use pccl_core::id::{ContentHash, Revision};
    use pccl_core::messages::ToPeer;
    use pccl_core::shared_state::{EntryInfo, SyncStrategy, SyncVote};
    use pccl_core::wire::{ControlHead, DecodeError, HandshakeError};

    use super::*;

    /// Half a lane that has broken.
    struct Broken;

    impl LaneTx for Broken {
        fn poll_send(
            &mut self,
            _: &mut Context<'_>,
            _: &[&[u8]],
        ) -> Poll<Result<usize, LaneError>> {
            Poll::Ready(Err(LaneError::Reset))
        }

        fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<Result<(), LaneError>> {
            Poll::Ready(Err(LaneError::Reset))
        }
    }

    impl LaneRx for Broken {
        fn poll_recv(
            &mut self,
            _: &mut Context<'_>,
            _: &mut [u8],
        ) -> Poll<Result<usize, LaneError>> {
            Poll::Ready(Err(LaneError::Reset))
        }
    }

    fn lane() -> Lane {
        Lane::new(Box::new(Broken), Box::new(Broken))
    }

    /// Also over another connection.
    #[test]
    fn a_message_that_the_master_announces_longer_than_messages_are_is_not_waited_for() {
        let length = CONTROL_FRAME_MAX + 1;
        let cap = CONTROL_FRAME_MAX;
        let sound = ControlHead::of_message(&[]).unwrap();
        let head = ControlHead { length, ..sound }.encode();
        let mut control = Control::new(lane());

        control.reader.feed(&head);
        let first = control.reader.next_message::<ToPeer>();
        let returned = Returned {
            lane: lane(),
            received: 0,
        };
        control.resume(returned).unwrap();
        control.reader.feed(&head);
        let again = control.reader.next_message::<ToPeer>();

        let too_long = Err(DecodeError::TooLong { length, cap });
        assert_eq!((first, again), (too_long.clone(), too_long));
    }

    /// A megabyte and more.
    fn long_vote() -> ToMaster {
        let entry = |_| EntryInfo {
            name: "n".repeat(255),
            element: ElementType::F32,
            count: 1,
            hash: ContentHash(1),
            allow_content_inequality: false,
        };
        ToMaster::SyncSharedState(SyncVote {
            revision: Revision(1),
            strategy: SyncStrategy::EnforcePopular,
            restart: false,
            entries: (0..4096).map(entry).collect(),
        })
    }

    #[test]
    fn of_messages_that_the_master_does_not_acknowledge_a_bounded_number_of_bytes_is_kept() {
        let mut queue = SendQueue::default();
        let vote = long_vote();

        for _ in 0..20 {
            queue.push(&vote).unwrap();
            queue.bytes.clear();
        }

        let kept: usize = queue.messages.iter().map(|frame| frame.len()).sum();
        assert_eq!(kept, queue.kept_bytes);
        assert!(kept <= UNACKNOWLEDGED_MAX, "{kept}");
        assert!(kept > UNACKNOWLEDGED_MAX / 2, "{kept}");
        assert_eq!(queue.resume(0), Err(CannotResume::Forgotten));
    }

    /// Notes each write, and when it was.
    struct Noted(Vec<(Instant, usize)>);

    impl LaneTx for Noted {
        fn poll_send(
            &mut self,
            _: &mut Context<'_>,
            parts: &[&[u8]],
        ) -> Poll<Result<usize, LaneError>> {
            let bytes = parts.iter().map(|part| part.len()).sum();
            self.0.push((Instant::now(), bytes));
            Poll::Ready(Ok(bytes))
        }

        fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<Result<(), LaneError>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_vote_that_is_held_leaves_with_the_next_message_and_alone_when_its_time_is_over() {
        let (began, mut tx) = (Instant::now(), Noted(Vec::new()));
        let mut control = Control::new(lane());
        let vote = ToMaster::OptimizeTopology;

        control.push(&vote).unwrap();
        control.queue.flush(&mut tx).await.unwrap();
        control.push(&vote).unwrap();
        control.hold();
        control.push(&vote).unwrap();
        control.queue.flush(&mut tx).await.unwrap();
        control.push(&vote).unwrap();
        control.hold();
        control.queue.flush(&mut tx).await.unwrap();

        let writes = tx.0.iter().map(|(at, bytes)| (*at - began, *bytes));
        let one = tx.0[0].1;
        let expected = [
            (Duration::ZERO, one),
            (Duration::ZERO, 2 * one),
            (HELD_MAX, one),
        ];
        assert!(writes.eq(expected), "{:?}", tx.0);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_held_leaves_at_once_over_another_connection() {
        let (began, mut tx) = (Instant::now(), Noted(Vec::new()));
        let mut control = Control::new(lane());
        control.push(&ToMaster::OptimizeTopology).unwrap();
        control.hold();

        let returned = Returned {
            lane: lane(),
            received: 0,
        };
        control.resume(returned).unwrap();
        control.queue.flush(&mut tx).await.unwrap();

        assert_eq!(tx.0.len(), 1);
        assert_eq!(began, tx.0[0].0);
    }

    #[tokio::test]
    async fn a_peer_that_leaves_while_it_comes_back_waits_for_that() {
        let mut control = Control::new(lane());
        let returned = Returned {
            lane: lane(),
            received: 0,
        };
        control.go_back(Box::pin(ready(Ok(returned))));

        assert_eq!(control.say_goodbye().await, Err(LaneError::Reset));

        let is_back = matches!(control.wire, Wire::Up { .. });
        assert!(is_back, "it has come back");
    }

    #[tokio::test]
    async fn a_peer_that_has_found_no_way_back_does_not_look_for_one_when_it_leaves() {
        let mut control = Control::new(lane());
        let refused = HandshakeError::Refused(String::new());
        control.go_back(Box::pin(ready(Err(refused))));
        if let Wire::Down { returning, .. } = &mut control.wire {
            assert!(returning.await.is_err());
        }

        control.end();

        assert_eq!(control.say_goodbye().await, Err(LaneError::Closed));
    }
}
