//! What a collective in place has overwritten, to be put back if it fails.

use std::ops::Range;

use super::ZeroedMemory;

/// What a collective in place has overwritten, each byte at the place where it was.
///
/// Keep one per buffer and use it again: its memory, as much as the buffer's, is then allocated once.
#[derive(Debug, Default)]
pub struct Backup {
    pub(super) memory: ZeroedMemory,
    /// By slot: what was saved.
    saved: Vec<Range<usize>>,
}

impl Backup {
    /// Puts back every byte that the last run wrote; then there is nothing left to put back. `data` is
    /// the slice of that run.
    pub fn restore(&mut self, data: &mut [u8]) {
        for range in self.saved.drain(..) {
            if let (Some(target), Some(old)) = (data.get_mut(range.clone()), self.memory.get(range))
            {
                target.copy_from_slice(old);
            }
        }
    }

    /// Memory of so many bytes for another use, until the next run. Its content is what an earlier call left there, or
    /// arbitrary. Nothing is left to put back.
    pub fn scratch(&mut self, bytes: usize) -> &mut [u8] {
        self.begin(bytes, 0);
        self.memory.get_mut(..bytes).unwrap_or_default()
    }

    /// Bytes that it holds on to.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.memory.len()
    }

    /// The same, with memory for a buffer of so many bytes: its first run allocates none.
    #[must_use]
    pub fn sized(mut self, bytes: usize) -> Self {
        self.begin(bytes, 0);
        self
    }

    pub(super) fn begin(&mut self, bytes: usize, slots: usize) {
        if self.memory.len() < bytes {
            // The old memory goes first, so that both are never held; its content is of no use.
            self.memory = ZeroedMemory::default();
            self.memory = ZeroedMemory::new(bytes);
        }
        self.saved.clear();
        self.saved.resize(slots, 0..0);
    }

    /// Room to save a range that adjoins what the slot has saved before.
    pub(super) fn claim(&mut self, slot: usize, range: Range<usize>) -> Option<&mut [u8]> {
        let room = self.memory.get_mut(range.clone())?;
        let saved = self.saved.get_mut(slot)?;
        if saved.start == saved.end {
            *saved = range;
        } else if saved.end == range.start {
            saved.end = range.end;
        } else {
            return None;
        }
        Some(room)
    }
}
