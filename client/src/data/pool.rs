//! Frame buffers that are used again and again, so that no frame allocates.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pccl_core::wire::FRAME_HEADER_BYTES;

/// How much memory a buffer grows by before the bytes for it have arrived.
const GROWTH_BYTES: usize = 64 * 1024;

/// Keeps the buffers of frames that are done with.
///
/// Its lock is held for a push or a pop, never while anything waits.
#[derive(Debug)]
pub(super) struct Pool {
    idle: Mutex<Vec<Vec<u8>>>,
    idle_max: usize,
}

impl Pool {
    /// A pool that keeps at most `idle_max` unused buffers; more than that are freed.
    pub(super) fn new(idle_max: usize) -> Arc<Self> {
        Arc::new(Self {
            idle: Mutex::new(Vec::with_capacity(idle_max)),
            idle_max,
        })
    }

    /// An empty frame, in a buffer that was used before where there is one.
    pub(super) fn take(self: &Arc<Self>) -> Frame {
        let reused = self.lock().pop();
        Frame {
            bytes: reused.unwrap_or_default(),
            length: 0,
            pool: Arc::clone(self),
        }
    }

    fn give_back(&self, buffer: Vec<u8>) {
        let mut idle = self.lock();
        if idle.len() < self.idle_max {
            idle.push(buffer);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The payload of one frame. Dropping it returns the buffer to the pool.
#[derive(Debug)]
pub(super) struct Frame {
    /// Longer than the payload where the buffer was used for more before.
    bytes: Vec<u8>,
    length: usize,
    pool: Arc<Pool>,
}

impl Frame {
    /// The payload.
    pub(super) fn payload(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// The payload, to be changed in place.
    pub(super) fn payload_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(..self.length).unwrap_or_default()
    }

    /// Makes a copy of `bytes` the payload.
    pub(super) fn fill(&mut self, bytes: &[u8]) {
        self.length = bytes.len();
        if self.bytes.len() < bytes.len() {
            self.bytes.clear();
            // With room for what a reader receives beyond a payload of this length.
            self.bytes.reserve_exact(bytes.len() + FRAME_HEADER_BYTES);
            self.bytes.extend_from_slice(bytes);
        } else if let Some(front) = self.bytes.get_mut(..bytes.len()) {
            front.copy_from_slice(bytes);
        }
    }

    /// Room to receive into: the bytes from `filled` on, up to `end`. Memory grows in small portions
    /// only, so whoever announces a long frame has to send it.
    pub(super) fn room(&mut self, filled: usize, end: usize) -> &mut [u8] {
        if self.bytes.len() <= filled {
            let grown = end.min(filled + GROWTH_BYTES);
            self.bytes
                .reserve_exact(grown.saturating_sub(self.bytes.len()));
            self.bytes.resize(grown, 0);
        }
        let end = end.min(self.bytes.len());
        self.bytes.get_mut(filled..end).unwrap_or_default()
    }

    /// Declares the first `length` bytes of what was received the payload, and returns what was
    /// received beyond, up to `filled`.
    pub(super) fn seal(&mut self, length: usize, filled: usize) -> &[u8] {
        self.length = length.min(self.bytes.len());
        self.bytes.get(length..filled).unwrap_or_default()
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        self.pool.give_back(mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_without_growing() {
        let pool = Pool::new(1);
        let mut first = pool.take();
        first.fill(&[7; 100]);
        let memory = first.bytes.as_ptr();
        drop(first);

        let mut second = pool.take();
        second.fill(&[8; 100]);

        assert_eq!(second.bytes.as_ptr(), memory);
        assert_eq!(second.payload(), [8; 100]);
    }

    #[test]
    fn a_pool_keeps_no_more_than_it_may() {
        let pool = Pool::new(1);
        let (first, second) = (pool.take(), pool.take());

        drop(first);
        drop(second);

        assert_eq!(pool.lock().len(), 1);
    }

    #[test]
    fn an_announced_length_is_not_allocated_before_bytes_arrive() {
        let pool = Pool::new(1);
        let mut frame = pool.take();

        let offered = frame.room(0, 1024 * 1024).len();

        assert_eq!(offered, GROWTH_BYTES);
        assert_eq!(frame.bytes.len(), GROWTH_BYTES);
    }

    #[test]
    fn what_was_received_beyond_the_payload_is_told_apart() {
        let pool = Pool::new(1);
        let mut frame = pool.take();
        frame.room(0, 5).copy_from_slice(&[1, 2, 3, 4, 5]);

        let beyond = frame.seal(3, 5).to_vec();

        assert_eq!(frame.payload(), [1, 2, 3]);
        assert_eq!(beyond, [4, 5]);
    }
}
