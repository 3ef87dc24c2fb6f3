//! Where trains wait until each of their packets has met its fate.

use super::slots::{Slot, Slots};
use super::train::{TRAIN_MAX, Train};

/// Trains that are under way.
#[derive(Debug)]
pub struct Yard {
    /// Places of some sizes, the smallest first: most packets are small, and most bytes are in large ones.
    sizes: [Slots; 3],
    /// A place of the largest size, for what is read next.
    next: Slot,
    waiting: Vec<Waiting>,
    free: Vec<u32>,
}

/// A train that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    size: usize,
    slot: Slot,
    train: Train,
    /// Packets of it that are under way.
    left: usize,
}

/// A packet of a train that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Which train.
    pub train: u32,
    /// Which of its packets.
    pub packet: u16,
}

/// Bytes of the places.
const SIZES: [usize; 3] = [2 << 10, 16 << 10, TRAIN_MAX];

const LARGEST: usize = SIZES.len() - 1;

impl Default for Yard {
    fn default() -> Self {
        let mut sizes = SIZES.map(Slots::new);
        Self {
            next: sizes[LARGEST].take(),
            sizes,
            waiting: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl Yard {
    /// Where the next train can be read to.
    pub fn buffer(&mut self) -> &mut [u8] {
        self.sizes[LARGEST].memory(self.next)
    }

    /// So many bytes were read there. Which train they are, and how many packets; none if it is none.
    pub fn keep(&mut self, length: usize) -> Option<(u32, Train)> {
        let read = self.sizes[LARGEST].memory(self.next).get(..length)?;
        let train = Train::of(read)?;
        let size = SIZES.iter().position(|size| *size >= length)?;
        let length = u32::try_from(length).ok()?;
        let slot = if size == LARGEST {
            let slot = self.next;
            self.next = self.sizes[LARGEST].take();
            slot.with(length)
        } else {
            let (smaller, largest) = self.sizes.split_at_mut(LARGEST);
            let slot = smaller[size].take().with(length);
            let from = largest[0].packet(self.next.with(length));
            smaller[size].memory(slot)[..from.len()].copy_from_slice(from);
            slot
        };
        let waiting = Waiting {
            size,
            slot,
            train,
            left: train.packets(),
        };
        Some((self.put(waiting), train))
    }

    /// A train, and what it was read as.
    pub fn get(&self, train: u32) -> (Train, &[u8]) {
        let waiting = &self.waiting[train as usize];
        (waiting.train, self.sizes[waiting.size].packet(waiting.slot))
    }

    /// So many packets of a train are not under way any more. With the last one it is forgotten.
    pub fn leave(&mut self, train: u32, packets: usize) {
        let waiting = &mut self.waiting[train as usize];
        waiting.left = waiting.left.saturating_sub(packets);
        if waiting.left == 0 {
            self.sizes[waiting.size].give(waiting.slot);
            self.free.push(train);
        }
    }

    fn put(&mut self, waiting: Waiting) -> u32 {
        if let Some(train) = self.free.pop() {
            self.waiting[train as usize] = waiting;
            return train;
        }
        self.waiting.push(waiting);
        u32::try_from(self.waiting.len() - 1).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wan::train::FRONT;

    /// A packet of so many bytes by itself, whose last byte is a mark.
    fn read(yard: &mut Yard, length: usize, mark: u8) -> u32 {
        let buffer = yard.buffer();
        buffer[..length].fill(0);
        buffer[FRONT] = 0x45;
        buffer[length - 1] = mark;
        yard.keep(length).unwrap().0
    }

    #[test]
    fn trains_of_all_sizes_stay_what_they_are_until_their_packets_have_left() {
        let mut yard = Yard::default();
        let lengths = [40, 2000, 2049, 16_000, 17_000, TRAIN_MAX];

        let marks = (0..).zip(lengths.iter().cycle().take(60));
        let trains: Vec<_> = marks
            .map(|(mark, length)| (read(&mut yard, *length, mark), *length, mark))
            .collect();

        for (train, length, mark) in &trains {
            let bytes = yard.get(*train).1;
            assert_eq!((bytes.len(), bytes.last()), (*length, Some(mark)));
        }
        trains.iter().for_each(|(train, ..)| yard.leave(*train, 1));
        assert_eq!(yard.free.len(), 60);
        read(&mut yard, 40, 1);
        assert_eq!(yard.waiting.len(), 60);
    }

    #[test]
    fn what_is_no_packet_takes_no_place() {
        let mut yard = Yard::default();
        yard.buffer()[..100].fill(0);

        assert!(yard.keep(100).is_none());
        assert!(yard.waiting.is_empty());
    }
}
