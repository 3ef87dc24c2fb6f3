//! Memory of any length, in large pages if it is long.

use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

/// From this length on, memory has pages of its own.
const LARGE: usize = 4 * 1024 * 1024;

/// Zeroed memory of a fixed length. From 4 MiB on, it asks the system for large pages (on Linux). The system hands out a
/// large page several times as fast as the same bytes in small pages, and the processor finds it faster.
///
/// Long memory costs nothing before it is written to.
///
/// ```
/// let mut memory = pccl_plane::ZeroedMemory::new(5 << 20);
/// memory[7] = 1;
/// assert_eq!((memory.len(), memory[7], memory[8]), (5 << 20, 1, 0));
/// ```
#[derive(Debug)]
pub struct ZeroedMemory(Place);

#[derive(Debug)]
enum Place {
    Heap(Vec<u8>),
    Pages(MmapMut),
}

impl ZeroedMemory {
    /// Memory of so many bytes. If the system has none to give, the process aborts, as it does for a vector.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let pages = (bytes >= LARGE).then(|| Self::in_pages(bytes)).flatten();
        pages.unwrap_or_else(|| Self(Place::Heap(vec![0; bytes])))
    }

    /// Memory of so many bytes, in pages of its own. `None` if the system refuses.
    #[must_use]
    pub fn in_pages(bytes: usize) -> Option<Self> {
        let pages = MmapMut::map_anon(bytes).ok()?;
        // Small pages do as well.
        #[cfg(target_os = "linux")]
        let _ = pages.advise(memmap2::Advice::HugePage);
        Some(Self(Place::Pages(pages)))
    }

    /// Takes all pages at once, so that later writes wait for none. Does nothing if the memory has no pages of
    /// its own, or the system is not Linux.
    pub fn populate(&mut self) {
        match &self.0 {
            Place::Heap(_) => {}
            // A system that refuses hands out pages when they are written to.
            #[cfg(target_os = "linux")]
            Place::Pages(pages) => drop(pages.advise(memmap2::Advice::PopulateWrite)),
            #[cfg(not(target_os = "linux"))]
            Place::Pages(_) => {}
        }
    }
}

impl Default for ZeroedMemory {
    /// No memory at all.
    fn default() -> Self {
        Self::new(0)
    }
}

impl Deref for ZeroedMemory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Place::Heap(bytes) => bytes,
            Place::Pages(bytes) => bytes,
        }
    }
}

impl DerefMut for ZeroedMemory {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Place::Heap(bytes) => bytes,
            Place::Pages(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_any_length_is_zeroed_and_holds_what_is_written() {
        for bytes in [0, 1, LARGE - 1, LARGE, LARGE + 4097] {
            let mut memory = ZeroedMemory::new(bytes);
            if bytes % 2 == 1 {
                memory.populate();
            }
            assert!(memory.len() == bytes && memory.iter().all(|byte| *byte == 0));

            let last = bytes.saturating_sub(1);
            memory.iter_mut().for_each(|byte| *byte = 7);
            assert!(memory.iter().all(|byte| *byte == 7) && memory.get(last) == memory.first());
        }
    }

    #[test]
    fn large_memory_has_pages_of_its_own() {
        assert!(matches!(ZeroedMemory::new(LARGE - 1).0, Place::Heap(_)));
        assert!(matches!(ZeroedMemory::new(LARGE).0, Place::Pages(_)));
    }
}
