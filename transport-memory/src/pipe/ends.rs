//! The two ends of a pipe, as halves of a lane.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pccl_core::transport::{LaneError, LaneRx, LaneTx};
use tokio::time::{Instant, Sleep, sleep_until};

use super::Pipe;
use super::state::is_past;

/// The sending end. Dropping it ends the stream after what was sent.
pub(super) struct PipeTx {
    pipe: Arc<Pipe>,
    /// What the other half of this end reads from.
    back: Arc<Pipe>,
    alarm: Alarm,
}

impl PipeTx {
    pub(super) fn new(pipe: &Arc<Pipe>, back: &Arc<Pipe>) -> Self {
        Self {
            pipe: Arc::clone(pipe),
            back: Arc::clone(back),
            alarm: Alarm::default(),
        }
    }
}

impl LaneTx for PipeTx {
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[&[u8]],
    ) -> Poll<Result<usize, LaneError>> {
        let (outcome, reader, until, is_news) = self.pipe.with(|state| {
            let was_unheard = state.is_unheard();
            let outcome = state.put(parts);
            let is_news = state.is_unheard() && !was_unheard;
            if outcome.is_pending() {
                state.writer = Some(cx.waker().clone());
                return (outcome, None, state.writer_waits_until(), is_news);
            }
            (outcome, state.reader.take(), None, is_news)
        });
        reader.into_iter().for_each(Waker::wake);
        if is_news {
            // The other half of this end gives up at the same moment.
            self.back.wake_reader();
        }
        self.alarm.set(cx, until);
        outcome
    }

    fn give_up_after(&mut self, limit: Duration) {
        self.pipe.with(|state| state.give_up_after(limit));
        self.back.wake_reader();
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LaneError>> {
        let (outcome, reader) = self.pipe.with(|state| {
            let outcome = state.close();
            if outcome.is_pending() {
                state.writer = Some(cx.waker().clone());
                return (outcome, None);
            }
            (outcome, state.reader.take())
        });
        reader.into_iter().for_each(Waker::wake);
        outcome
    }
}

impl Drop for PipeTx {
    fn drop(&mut self) {
        self.pipe.disturb(super::State::finish);
    }
}

/// The receiving end. Dropping it loses what is under way and fails what the writer sends after.
pub(super) struct PipeRx {
    pipe: Arc<Pipe>,
    /// What the other half of this end writes to.
    out: Arc<Pipe>,
    alarm: Alarm,
}

impl PipeRx {
    pub(super) fn new(pipe: &Arc<Pipe>, out: &Arc<Pipe>) -> Self {
        Self {
            pipe: Arc::clone(pipe),
            out: Arc::clone(out),
            alarm: Alarm::default(),
        }
    }
}

impl LaneRx for PipeRx {
    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<Result<usize, LaneError>> {
        let gives_up_at = self.out.with(|state| state.given_up_at());
        let (outcome, writer, until) = self.pipe.with(|state| {
            let outcome = state.take(into, is_past(gives_up_at));
            if outcome.is_pending() {
                state.reader = Some(cx.waker().clone());
                return (outcome, None, state.reader_waits_until());
            }
            (outcome, state.writer.take(), None)
        });
        writer.into_iter().for_each(Waker::wake);
        if outcome.is_pending() {
            // Asked again: whoever changes it from here on finds the waker.
            let gives_up_at = self.out.with(|state| state.given_up_at());
            let moments = [until, gives_up_at.filter(|_| !is_past(gives_up_at))];
            self.alarm.set(cx, moments.into_iter().flatten().min());
        }
        outcome
    }
}

impl Drop for PipeRx {
    fn drop(&mut self) {
        self.pipe.disturb(super::State::lose_reader);
    }
}

/// Wakes whoever waits at a moment. It needs a runtime only where there is such a moment.
#[derive(Default)]
struct Alarm(Option<Pin<Box<Sleep>>>);

impl Alarm {
    fn set(&mut self, cx: &mut Context<'_>, at: Option<Instant>) {
        let Some(at) = at else {
            return;
        };
        let sleep = self.0.get_or_insert_with(|| Box::pin(sleep_until(at)));
        sleep.as_mut().reset(at);
        if sleep.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
    }
}
