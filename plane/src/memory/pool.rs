//! Frame buffers that are used again and again, so that no frame allocates.

use std::mem;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pccl_core::wire::FRAME_PAYLOAD_MAX;

/// Keeps the frame buffers of operations that have ended, for those to come.
///
/// Its lock is held for a moment when an operation begins, when it needs a buffer that it has not had
/// before, and when it ends; never for a frame.
#[derive(Debug)]
pub(crate) struct Pool {
    state: Mutex<State>,
    idle_max: usize,
    /// Bytes of elements that are on their way encoded, of all operations.
    encoded: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<Vec<u8>>,
    /// Operations that have buffers, or may ask for some.
    users: usize,
}

impl Pool {
    /// A pool that keeps at most `idle_max` unused buffers; more than that are freed.
    pub(crate) fn new(idle_max: usize) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            idle_max,
            encoded: Arc::default(),
        })
    }

    /// Where operations count the bytes of elements that they have on their way encoded: frames with them
    /// wait in memory from here.
    pub(crate) const fn encoded(&self) -> &Arc<AtomicU64> {
        &self.encoded
    }

    /// Frees what is not in use. Is nothing in use?
    pub(crate) fn trim(&self) -> bool {
        let mut state = self.lock();
        state.idle = Vec::new();
        state.users == 0
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Longest buffer that is used again: twice the payload of a frame. Terms of a large sum take more, and would stay
/// forever, as frame buffers.
const REUSED_BYTES_MAX: usize = 2 * FRAME_PAYLOAD_MAX;

/// Buffers that an operation keeps for itself before the list of them has to grow.
const SPARE: usize = 16;

/// The frame buffers of one operation.
#[derive(Debug)]
pub(crate) struct Scratch {
    pool: Arc<Pool>,
    spare: Vec<Vec<u8>>,
}

impl Scratch {
    /// No buffers yet.
    pub(crate) fn new(pool: &Arc<Pool>) -> Self {
        pool.lock().users += 1;
        Self {
            pool: Arc::clone(pool),
            spare: Vec::with_capacity(SPARE),
        }
    }

    /// A buffer of at least `bytes` bytes with whatever was in it. The one that was put back last
    /// comes first: it is the most likely to be in a cache.
    pub(crate) fn take(&mut self, bytes: usize) -> Vec<u8> {
        if bytes > REUSED_BYTES_MAX {
            return vec![0; bytes];
        }
        let spare = self.spare.pop();
        let mut buffer = spare.unwrap_or_else(|| self.pool.lock().idle.pop().unwrap_or_default());
        if buffer.len() < bytes {
            // What it holds is of no use, so it need not be copied.
            buffer.clear();
            buffer.resize(bytes, 0);
        }
        buffer
    }

    /// A buffer is done with. A long one is freed.
    pub(crate) fn put(&mut self, buffer: Vec<u8>) {
        if buffer.len() <= REUSED_BYTES_MAX {
            self.spare.push(buffer);
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        state.users = state.users.saturating_sub(1);
        let room = self.pool.idle_max.saturating_sub(state.idle.len());
        let spare = mem::take(&mut self.spare).into_iter();
        state.idle.extend(spare.take(room));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_longer_than_frames_need_is_not_kept_for_the_next_operation() {
        let pool = Pool::new(4);
        let mut first = Scratch::new(&pool);
        let long = first.take(REUSED_BYTES_MAX + 1);
        let short = first.take(REUSED_BYTES_MAX);

        first.put(long);
        first.put(short);
        drop(first);

        let kept: Vec<usize> = pool.lock().idle.iter().map(Vec::len).collect();
        assert_eq!(kept, [REUSED_BYTES_MAX]);
    }

    #[test]
    fn a_buffer_is_used_again_by_the_next_operation() {
        let pool = Pool::new(1);
        let mut first = Scratch::new(&pool);
        let buffer = first.take(100);
        let memory = buffer.as_ptr();
        first.put(buffer);
        drop(first);

        let second = Scratch::new(&pool).take(100);

        assert_eq!(second.as_ptr(), memory);
        assert_eq!(second.len(), 100);
    }

    #[test]
    fn a_pool_keeps_no_more_than_it_may_and_nothing_once_trimmed() {
        let pool = Pool::new(1);
        let mut scratch = Scratch::new(&pool);
        let (one, other) = (scratch.take(10), scratch.take(10));
        scratch.put(one);
        scratch.put(other);

        let none_used_before = pool.trim();
        drop(scratch);
        let kept = pool.lock().idle.len();
        let none_used = pool.trim();

        assert_eq!((none_used_before, none_used), (false, true));
        assert_eq!(kept, 1);
        assert_eq!(pool.lock().idle.len(), 0);
    }
}
