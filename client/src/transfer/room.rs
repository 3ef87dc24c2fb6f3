//! Memory for content that is being fetched.

use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

/// From this size on, memory comes from the system in large pages. Content of gigabytes is written once, hashed once and
/// copied once: in pages of 4 KiB, a newcomer that fetches over fast links spends more time on getting pages than on
/// receiving (`cargo run --release -p pccl-bench --bin newcomer`).
const LARGE: usize = 4 * 1024 * 1024;

/// Zeroed memory of a fixed length. The system sets it aside as it is written to, so what was only announced costs
/// nothing.
#[derive(Debug)]
pub(crate) struct Room(Kind);

#[derive(Debug)]
enum Kind {
    Heap(Vec<u8>),
    Pages(MmapMut),
}

impl Room {
    pub(super) fn new(length: usize) -> Self {
        let pages = (length >= LARGE).then(|| pages(length)).flatten();
        Self(pages.map_or_else(|| Kind::Heap(vec![0; length]), Kind::Pages))
    }
}

/// `None` if the system refuses.
fn pages(length: usize) -> Option<MmapMut> {
    let pages = MmapMut::map_anon(length).ok()?;
    // Small pages do as well.
    #[cfg(target_os = "linux")]
    let _ = pages.advise(memmap2::Advice::HugePage);
    Some(pages)
}

impl Deref for Room {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Kind::Heap(bytes) => bytes,
            Kind::Pages(bytes) => bytes,
        }
    }
}

impl DerefMut for Room {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Kind::Heap(bytes) => bytes,
            Kind::Pages(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_any_length_is_zeroed_and_can_be_written() {
        for length in [0, 1, LARGE - 1, LARGE, LARGE + 1] {
            let mut room = Room::new(length);
            assert_eq!(room.len(), length);
            assert!(room.iter().all(|byte| *byte == 0), "{length} bytes");

            room.fill(7);

            assert!(room.iter().all(|byte| *byte == 7), "{length} bytes");
        }
    }
}
