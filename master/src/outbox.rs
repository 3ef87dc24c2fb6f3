//! What is to be sent to one peer: the messages of its session, and the loop that writes them to its connection.
//!
//! The desk appends messages and, after each event, rings once, so that all messages of one event to one peer go out in
//! one write. Nothing goes out before: what is in a journal has to be on the disk first. The entries that a peer is to
//! fetch are encoded by its writer: those of a large group are hundreds of megabytes, and the desk has no time for
//! them.
//!
//! A message stays here until the peer has acknowledged it. If the peer comes back over another connection, the writer
//! of that one begins with the first message that the peer lacks ([`attach`](Outbox::attach)).

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pccl_core::messages::ToPeer;
use pccl_core::session::{CannotResume, Unacknowledged};
use pccl_core::shared_state::{SyncPlan, SyncRole};
use pccl_core::transport::{LaneError, LaneTx, close, send_all};
use pccl_core::wire::{
    CONTROL_FRAME_MAX, ControlReader, EncodeError, QuietPeer, SessionFrame, SessionTerms,
    encode_control,
};
use tokio::sync::Notify;
use tokio::time::sleep;

/// The writer keeps a buffer of at most this size.
const KEEP_BYTES: usize = 64 * 1024;

/// The writer sends about this many bytes at once, if more wait.
const WRITE_BYTES: usize = 256 * 1024;

/// Upper bounds for the encoded size of one entry that a peer is to fetch, and of the rest of a plan.
const LINE_BYTES: usize = 24;
const PLAN_BYTES: usize = 1024;

/// The desk's end of a session.
#[derive(Debug)]
pub(crate) struct Outbox {
    bytes_max: usize,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    messages: Unacknowledged<Stored>,
    /// Bytes of all of them.
    kept_bytes: usize,
    /// The number of the last message that may be sent.
    released: u64,
    /// The number of the last message that the present writer has taken.
    taken: u64,
    /// The number of the last message that any writer has taken. The peer may have received it over a connection that
    /// was replaced.
    offered: u64,
    /// How many messages the peer has said that it has received.
    acknowledged: u64,
    /// Bytes of the messages that it has not taken.
    waiting_bytes: usize,
    /// Bytes that it has taken and not sent yet.
    in_flight: usize,
    /// What the writer sends before the next message.
    notes: Notes,
    /// What it may send once messages are released.
    next_notes: Notes,
    present: Attachment,
    overflowed: bool,
    closing: bool,
}

/// Session frames.
#[derive(Clone, Debug, Default)]
struct Notes {
    /// Before the welcome.
    opened: Option<SessionFrame>,
    /// The number of the peer's messages that have arrived.
    received: Option<SessionFrame>,
    /// From whom nothing is heard.
    quiet: Vec<QuietPeer>,
}

/// The right to write to the connection of a session. The one that was given last is valid.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attachment {
    number: u64,
    bells: Arc<Bells>,
}

#[derive(Debug, Default)]
struct Bells {
    /// A message was appended, or the end was announced.
    changed: Notify,
    /// The end was announced.
    closing: Notify,
    /// There is another attachment.
    replaced: Notify,
}

/// A message.
#[derive(Clone, Debug)]
enum Stored {
    Frame(Box<[u8]>),
    /// Not encoded yet.
    Long(Arc<ToPeer>),
}

/// Why a message was not appended. The peer has missed a message, so its membership has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PushError {
    #[error("the peer does not read what is sent to it")]
    Overflow,
    #[error("{0}")]
    Encode(#[from] EncodeError),
}

/// Why another connection is not attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CannotAttach {
    /// The session is over.
    #[error("{0}")]
    Resume(#[from] CannotResume),
    /// The peer has dialled it before it received, over the connection that it has, what it has acknowledged since. It
    /// is of no more use, and the session goes on.
    #[error("the peer has received more since it dialled")]
    Overtaken,
}

/// What the writer does next.
enum Next {
    /// What is in its buffer.
    Send,
    /// After what is in its buffer.
    SendLong(Arc<ToPeer>),
    Wait,
    End,
    /// Another writer has taken over.
    Replaced,
}

impl Outbox {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            waiting: Mutex::default(),
        }
    }

    /// Appends a message. [`ring`](Self::ring) sends it. After an overflow all messages but the reason for the end are
    /// dropped silently, because the stream has a gap.
    pub(crate) fn push(&self, message: &ToPeer) -> Result<(), PushError> {
        let mut waiting = self.lock();
        let last_word = matches!(message, ToPeer::Kicked(_));
        if waiting.closing || (waiting.overflowed && !last_word) {
            return Ok(());
        }
        let stored = Stored::of(message)?;
        let bytes = stored.bytes();
        if !last_word && waiting.unsent_bytes() + bytes > self.bytes_max {
            waiting.overflowed = true;
            return Err(PushError::Overflow);
        }
        waiting.kept_bytes += bytes;
        waiting.waiting_bytes += bytes;
        waiting.messages.push(stored);
        waiting.forget_beyond(self.bytes_max);
        Ok(())
    }

    /// Tells the peer how to resume its session, before its welcome.
    pub(crate) fn open(&self, terms: SessionTerms) {
        self.lock().next_notes.opened = Some(SessionFrame::Opened(terms));
    }

    /// Tells the peer how many of its messages have arrived, before the next message.
    pub(crate) fn has_received(&self, messages: u64) {
        self.lock().next_notes.received = Some(SessionFrame::Received { messages });
    }

    /// Tells the peer from whom nothing is heard, before the next message.
    pub(crate) fn hears_nothing_from(&self, quiet: &[QuietPeer]) {
        self.lock().next_notes.quiet = quiet.to_vec();
    }

    /// The peer has received this many messages.
    ///
    /// # Errors
    /// It cannot have received so many.
    pub(crate) fn acknowledge(&self, received: u64) -> Result<(), CannotResume> {
        self.lock().acknowledge(received)
    }

    /// The right of the first connection.
    pub(crate) fn first_attachment(&self) -> Attachment {
        self.lock().present.clone()
    }

    /// The right of another connection, whose peer has received this many messages. It takes the place of the one
    /// before.
    ///
    /// # Errors
    /// Why it cannot be attached. Nothing has changed.
    pub(crate) fn attach(&self, received: u64) -> Result<Attachment, CannotAttach> {
        let mut waiting = self.lock();
        if received < waiting.acknowledged {
            return Err(CannotAttach::Overtaken);
        }
        let unsent = waiting.messages.after(received)?;
        let unsent: usize = unsent.map(Stored::bytes).sum();
        waiting.acknowledge(received)?;
        waiting.taken = received;
        waiting.waiting_bytes = unsent;
        waiting.in_flight = 0;
        waiting.replace_writer();
        Ok(waiting.present.clone())
    }

    /// No message will be appended. The connection ends after the messages that wait.
    pub(crate) fn close(&self) {
        self.lock().closing = true;
    }

    /// The connection with this right takes no more reports to the desk: it ends, and the session with it, unless
    /// another connection has taken its place.
    pub(crate) fn end(&self, by: &Attachment) {
        let is_present = self.lock().present.number == by.number;
        if is_present {
            self.close();
            self.lock().wake();
        }
    }

    /// The connection is gone, and the peer may come back: no connection may write until then.
    pub(crate) fn detach(&self) {
        self.lock().replace_writer();
    }

    /// Releases all messages, and wakes the writer.
    pub(crate) fn ring(&self) {
        let mut waiting = self.lock();
        waiting.released = waiting.messages.sent();
        let Notes {
            opened,
            received,
            quiet,
        } = std::mem::take(&mut waiting.next_notes);
        waiting.notes.opened = opened.or(waiting.notes.opened);
        waiting.notes.received = received.or(waiting.notes.received);
        if !quiet.is_empty() {
            waiting.notes.quiet = quiet;
        }
        waiting.wake();
    }

    /// Number of messages that may be sent.
    #[cfg(test)]
    pub(crate) fn released(&self) -> u64 {
        self.lock().released
    }

    /// What a journal keeps of it: the messages that the peer has not acknowledged. `None` if the peer has missed one,
    /// so that its membership is about to end.
    pub(crate) fn kept(&self) -> Option<Unacknowledged<ToPeer>> {
        let waiting = self.lock();
        let decoded = waiting
            .messages
            .try_map(|stored| stored.message().ok_or(()));
        decoded.ok()
    }

    /// The messages of a session that a journal has kept. All of them may have been sent.
    ///
    /// # Errors
    /// A message cannot be encoded. That is a defect.
    pub(crate) fn restored(
        bytes_max: usize,
        kept: &Unacknowledged<ToPeer>,
    ) -> Result<Self, EncodeError> {
        let messages = kept.try_map(Stored::of)?;
        let sent = messages.sent();
        let mut waiting = Waiting {
            kept_bytes: messages.iter().map(Stored::bytes).sum(),
            messages,
            released: sent,
            taken: sent,
            offered: sent,
            ..Waiting::default()
        };
        waiting.forget_beyond(bytes_max);
        Ok(Self {
            bytes_max,
            waiting: Mutex::new(waiting),
        })
    }

    /// Sends `first`, then appended messages until the end is announced, then closes the direction. After the
    /// announcement, the rest may take `farewell`.
    ///
    /// # Errors
    /// The error of the lane; [`LaneError::Closed`] if another attachment has taken the place of this one.
    pub(crate) async fn write_to(
        &self,
        tx: &mut dyn LaneTx,
        by: &Attachment,
        first: &[u8],
        farewell: Duration,
    ) -> Result<(), LaneError> {
        let overdue = async {
            by.bells.closing.notified().await;
            sleep(farewell).await;
        };
        tokio::select! {
            biased;
            () = by.bells.replaced.notified() => Err(LaneError::Closed),
            outcome = self.write_all(tx, by, first) => outcome,
            () = overdue => Err(LaneError::TimedOut),
        }
    }

    async fn write_all(
        &self,
        tx: &mut dyn LaneTx,
        by: &Attachment,
        first: &[u8],
    ) -> Result<(), LaneError> {
        if !first.is_empty() {
            send_all(tx, first, &[]).await?;
        }
        let mut frames = Vec::new();
        loop {
            let next = self.next(by, &mut frames);
            if !frames.is_empty() {
                send_all(tx, &frames, &[]).await?;
            }
            match next {
                Next::Send => {}
                Next::SendLong(message) => {
                    let mut frame = Vec::new();
                    encode_control(&*message, &mut frame).map_err(|error| {
                        tracing::error!(%error, "a plan cannot be encoded");
                        LaneError::Failed
                    })?;
                    send_all(tx, &frame, &[]).await?;
                }
                Next::Wait => by.bells.changed.notified().await,
                Next::End => return close(tx).await,
                Next::Replaced => return Err(LaneError::Closed),
            }
        }
    }

    /// Puts the next frames into the empty buffer.
    fn next(&self, by: &Attachment, frames: &mut Vec<u8>) -> Next {
        frames.clear();
        frames.shrink_to(KEEP_BYTES);
        let mut waiting = self.lock();
        if waiting.present.number != by.number {
            return Next::Replaced;
        }
        waiting.in_flight = 0;
        let Notes {
            opened,
            received,
            quiet,
        } = std::mem::take(&mut waiting.notes);
        let quiet = quiet.into_iter().map(SessionFrame::Quiet);
        for note in [opened, received].into_iter().flatten().chain(quiet) {
            note.encode(frames);
        }
        while frames.len() < WRITE_BYTES && waiting.taken < waiting.released {
            let Some(next) = waiting.messages.get(waiting.taken + 1).cloned() else {
                break;
            };
            let bytes = next.bytes();
            waiting.taken += 1;
            waiting.offered = waiting.offered.max(waiting.taken);
            waiting.waiting_bytes -= bytes;
            waiting.in_flight += bytes;
            match next {
                Stored::Frame(frame) => frames.extend_from_slice(&frame),
                Stored::Long(message) => return Next::SendLong(message),
            }
        }
        if !frames.is_empty() {
            Next::Send
        } else if waiting.closing && waiting.taken == waiting.messages.sent() {
            Next::End
        } else {
            Next::Wait
        }
    }

    /// Nothing that holds the lock can panic.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Upper bound of the bytes that wait and the bytes in flight.
    const fn unsent_bytes(&self) -> usize {
        self.waiting_bytes + self.in_flight
    }

    fn wake(&self) {
        let bells = &self.present.bells;
        bells.changed.notify_one();
        if self.closing {
            bells.closing.notify_one();
        }
    }

    /// Another writer begins, or none: the one before ends wherever it is.
    fn replace_writer(&mut self) {
        let number = self.present.number + 1;
        let bells = Arc::default();
        let before = std::mem::replace(&mut self.present, Attachment { number, bells });
        before.bells.replaced.notify_one();
        (self.notes, self.next_notes) = (Notes::default(), Notes::default());
    }

    fn acknowledge(&mut self, received: u64) -> Result<(), CannotResume> {
        if received > self.offered {
            return Err(CannotResume::NeverSent);
        }
        self.acknowledged = self.acknowledged.max(received);
        let mut bytes = 0;
        let forget = |message: &Stored| bytes += message.bytes();
        self.messages.acknowledge(received, forget)?;
        self.kept_bytes -= bytes;
        Ok(())
    }

    /// If all messages take more than this, the oldest ones that were sent are forgotten: a peer that has not received
    /// them cannot resume its session.
    fn forget_beyond(&mut self, bytes_max: usize) {
        while self.kept_bytes > bytes_max && self.kept_bytes > self.waiting_bytes {
            match self.messages.give_up_oldest() {
                Some(message) => self.kept_bytes -= message.bytes(),
                None => return,
            }
        }
    }
}

impl Stored {
    fn of(message: &ToPeer) -> Result<Self, EncodeError> {
        if bytes_of_long(message).is_some() {
            return Ok(Self::Long(Arc::new(message.clone())));
        }
        let mut frame = Vec::new();
        encode_control(message, &mut frame)?;
        Ok(Self::Frame(frame.into()))
    }

    /// `None`: a frame that this process has encoded cannot be decoded, which is a defect.
    fn message(&self) -> Option<ToPeer> {
        match self {
            Self::Frame(frame) => {
                let mut reader = ControlReader::with_cap(CONTROL_FRAME_MAX);
                reader.feed(frame);
                reader.next_message().ok().flatten()
            }
            Self::Long(message) => Some(ToPeer::clone(message)),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Frame(frame) => frame.len(),
            Self::Long(message) => bytes_of_long(message).unwrap_or_default(),
        }
    }
}

/// Upper bound of the encoded size of a message that takes long to encode. `None` for all others.
fn bytes_of_long(message: &ToPeer) -> Option<usize> {
    let ToPeer::SharedStatePlan(SyncPlan {
        role: SyncRole::Request { entries, .. },
        ..
    }) = message
    else {
        return None;
    };
    Some(entries.len() * LINE_BYTES + PLAN_BYTES)
}
