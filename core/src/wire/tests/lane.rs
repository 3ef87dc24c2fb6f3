//! A lane within one task, for the tests: it hands out bytes in pieces of a given size, and can stall.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use std::sync::{Mutex, MutexGuard};

use crate::transport::{Lane, LaneError, LaneRx, LaneTx};

/// One direction. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Pipe(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    bytes: VecDeque<u8>,
    closed: bool,
}

/// How many bytes one call moves at most.
const PIECE: usize = 5;

impl Pipe {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(super) fn put(&self, bytes: &[u8]) {
        self.state().bytes.extend(bytes);
    }

    pub(super) fn close(&self) {
        self.state().closed = true;
    }
}

impl LaneTx for Pipe {
    fn poll_send(
        &mut self,
        _: &mut Context<'_>,
        parts: &[&[u8]],
    ) -> Poll<Result<usize, LaneError>> {
        let first = parts.iter().find(|part| !part.is_empty());
        let piece = first.map_or(&[][..], |part| &part[..part.len().min(PIECE)]);
        self.put(piece);
        Poll::Ready(Ok(piece.len()))
    }

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<Result<(), LaneError>> {
        self.close();
        Poll::Ready(Ok(()))
    }
}

impl LaneRx for Pipe {
    fn poll_recv(
        &mut self,
        _: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<Result<usize, LaneError>> {
        let mut state = self.state();
        let count = state.bytes.len().min(into.len()).min(PIECE);
        if count == 0 && !state.closed {
            return Poll::Pending;
        }
        for (to, byte) in into.iter_mut().zip(state.bytes.drain(..count)) {
            *to = byte;
        }
        Poll::Ready(Ok(count))
    }
}

/// A lane whose two ends are connected.
pub(super) fn pair() -> (Lane, Lane) {
    let (there, back) = (Pipe::default(), Pipe::default());
    let end = |tx: &Pipe, rx: &Pipe| Lane::new(Box::new(tx.clone()), Box::new(rx.clone()));
    (end(&there, &back), end(&back, &there))
}

/// Goes on with the future as far as it comes, then drops it.
pub(super) fn attempt<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}
