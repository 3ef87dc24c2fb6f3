//! Memory for content that is being fetched.
//!
//! Content of gigabytes comes over fast links about as fast as the system can hand out memory: on a virtual machine a
//! page that nobody has touched costs more time than to receive what it holds, to hash it and to copy it. So large
//! content has segments of large pages, and a thread prepares the next ones while others are filled
//! (`cargo run --release -p pccl-bench --bin newcomer`).

use std::ops::{Deref, Range};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use pccl_kernels::{Content, copy};
use pccl_plane::ZeroedMemory;

/// Length of a segment: whole large pages, and whole parts of a hash.
const SEGMENT: usize = 64 * 1024 * 1024;

/// Zeroed memory of a fixed length. A segment is made when bytes of it are about to arrive, so what was only announced
/// costs nothing.
#[derive(Debug)]
pub(crate) struct Room {
    length: usize,
    segments: Vec<Option<ZeroedMemory>>,
}

/// Segments that are prepared for all rooms of a transfer: two at a time, so 128 MiB.
#[derive(Debug, Default)]
pub(super) enum Supply {
    /// Nobody has needed any yet.
    #[default]
    Idle,
    /// By a thread, which ends when this is dropped.
    Running(Receiver<ZeroedMemory>),
    /// The system has refused a thread.
    Off,
}

impl Supply {
    /// A segment, if one is prepared. Starts the thread.
    fn take(&mut self) -> Option<ZeroedMemory> {
        match self {
            Self::Idle => {
                // The first one is not waited for.
                *self = prepare().map_or(Self::Off, Self::Running);
                None
            }
            Self::Running(prepared) => prepared.try_recv().ok(),
            Self::Off => None,
        }
    }
}

impl Room {
    pub(super) fn new(length: usize) -> Self {
        Self {
            length,
            segments: (0..length.div_ceil(SEGMENT)).map(|_| None).collect(),
        }
    }

    /// The first bytes of a range: those in one segment, which is made if it is not there. Empty if the range does not
    /// lie in this memory.
    pub(super) fn first_of(&mut self, range: Range<usize>, supply: &mut Supply) -> &mut [u8] {
        if range.end > self.length {
            return &mut [];
        }
        let (index, place) = Self::place(range);
        let Some(segment) = self.segments.get_mut(index) else {
            return &mut [];
        };
        let length = (self.length - index * SEGMENT).min(SEGMENT);
        let is_of_many = length == SEGMENT && self.length > SEGMENT;
        let segment = segment.get_or_insert_with(|| {
            let prepared = is_of_many.then(|| supply.take()).flatten();
            prepared.unwrap_or_else(|| ZeroedMemory::new(length))
        });
        segment.get_mut(place).unwrap_or_default()
    }

    /// Copies all of it into memory of the same length. False if a segment was never made, or the lengths differ.
    /// Whether the bytes of a segment have arrived is known to the staging alone.
    pub(crate) fn copy_to(&self, into: &mut [u8]) -> bool {
        let is_whole = self.segments.iter().all(Option::is_some);
        if !is_whole || into.len() != self.length {
            return false;
        }
        let segments = self.segments.iter().flatten().map(Deref::deref);
        copy(into.chunks_mut(SEGMENT).zip(segments).collect());
        true
    }

    /// The segment in which a range begins, and where in it the range lies.
    fn place(range: Range<usize>) -> (usize, Range<usize>) {
        let index = range.start / SEGMENT;
        let start = range.start % SEGMENT;
        let end = start.saturating_add(range.len()).min(SEGMENT);
        (index, start..end)
    }
}

impl Content for Room {
    fn length(&self) -> usize {
        self.length
    }

    fn part(&self, range: Range<usize>) -> &[u8] {
        let (index, place) = Self::place(range);
        let segment = self.segments.get(index).and_then(Option::as_ref);
        segment
            .and_then(|segment| segment.get(place))
            .unwrap_or_default()
    }
}

/// A thread that prepares segments, one or two ahead of those that are taken. It ends when the receiver is dropped.
fn prepare() -> Option<Receiver<ZeroedMemory>> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let (sender, receiver) = sync_channel(1);
    let thread = thread::Builder::new().name("pccl-pages".into());
    let prepare = move || {
        while let Some(mut segment) = ZeroedMemory::in_pages(SEGMENT) {
            segment.populate();
            if sender.send(segment).is_err() {
                break;
            }
        }
    };
    thread.spawn(prepare).ok()?;
    Some(receiver)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes the content in pieces of this length, each as far as it is given at once.
    fn fill(room: &mut Room, piece: usize, byte: impl Fn(usize) -> u8) {
        let mut supply = Supply::default();
        let mut start = 0;
        while start < room.length() {
            let end = room.length().min(start + piece);
            let first = room.first_of(start..end, &mut supply);
            assert!(!first.is_empty() && first.iter().all(|byte| *byte == 0));
            (start..)
                .zip(&mut *first)
                .for_each(|(place, at)| *at = byte(place));
            start += first.len();
        }
    }

    #[test]
    fn content_of_any_length_is_given_back_in_its_order() {
        let byte = |place: usize| (place / 1000 % 251) as u8;
        for length in [0, 1, 4 << 20, SEGMENT, 3 * SEGMENT + 5] {
            let mut room = Room::new(length);
            fill(&mut room, 10_000_000, byte);

            let mut copied = vec![0; length];
            assert!(room.copy_to(&mut copied), "{length} bytes");

            assert!(
                (0..).zip(&copied).all(|(place, at)| *at == byte(place)),
                "{length} bytes"
            );
            let end = length.min(1 << 20);
            assert!(room.part(0..end) == &copied[..end]);
            assert!(!room.copy_to(&mut vec![0; length + 1]));
        }
    }

    #[test]
    fn what_lies_beyond_the_end_is_nowhere_and_a_segment_that_is_missing_is_not_copied() {
        let mut room = Room::new(SEGMENT + 10);
        let length_of = |room: &mut Room, range| room.first_of(range, &mut Supply::Off).len();

        assert_eq!(length_of(&mut room, 0..5), 5);
        assert_eq!(length_of(&mut room, SEGMENT - 1..SEGMENT + 5), 1);
        for range in [2 * SEGMENT..2 * SEGMENT + 1, usize::MAX - 1..usize::MAX] {
            assert_eq!(length_of(&mut room, range), 0);
        }
        assert_eq!(length_of(&mut room, SEGMENT..SEGMENT + 11), 0);
        assert!(!room.copy_to(&mut vec![0; SEGMENT + 10]));
        assert_eq!(length_of(&mut room, SEGMENT..SEGMENT + 10), 10);
        assert!(room.copy_to(&mut vec![0; SEGMENT + 10]));
    }

    #[test]
    fn segments_are_prepared_until_nobody_takes_them_any_more() {
        let mut supply = Supply::default();

        assert!(supply.take().is_none());
        let Supply::Running(prepared) = &supply else {
            return; // Not on this system.
        };
        // Waits for the thread, which prepares as many as are taken.
        for _ in 0..3 {
            assert_eq!(prepared.recv().unwrap().len(), SEGMENT);
        }
    }
}
