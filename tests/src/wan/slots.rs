//! Places of one size: memory that is taken in blocks and never given back, so that no packet allocates.

/// Places for packets of at most so many bytes.
#[derive(Debug)]
pub struct Slots {
    bytes: usize,
    blocks: Vec<Box<[u8]>>,
    free: Vec<Slot>,
}

/// A place for a packet, and the packet's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    index: u32,
    /// Bytes of the packet in it.
    pub length: u32,
}

impl Slot {
    /// The same place with a packet of so many bytes in it.
    pub const fn with(self, length: u32) -> Self {
        Self { length, ..self }
    }
}

/// Places of a block.
const PER_BLOCK: usize = 32;

impl Slots {
    /// For packets of at most so many bytes.
    pub const fn new(bytes: usize) -> Self {
        Self {
            bytes,
            blocks: Vec::new(),
            free: Vec::new(),
        }
    }

    /// A place that nobody has.
    pub fn take(&mut self) -> Slot {
        if self.free.is_empty() {
            self.grow();
        }
        self.free.pop().unwrap_or(Slot {
            index: 0,
            length: 0,
        })
    }

    /// Gives a place back.
    pub fn give(&mut self, slot: Slot) {
        self.free.push(slot);
    }

    /// The whole place.
    pub fn memory(&mut self, slot: Slot) -> &mut [u8] {
        let (block, at) = (
            slot.index as usize / PER_BLOCK,
            slot.index as usize % PER_BLOCK,
        );
        &mut self.blocks[block][at * self.bytes..(at + 1) * self.bytes]
    }

    /// The packet in it.
    pub fn packet(&self, slot: Slot) -> &[u8] {
        let (block, at) = (
            slot.index as usize / PER_BLOCK,
            slot.index as usize % PER_BLOCK,
        );
        let start = at * self.bytes;
        &self.blocks[block][start..start + self.bytes.min(slot.length as usize)]
    }

    fn grow(&mut self) {
        let first = self.blocks.len() * PER_BLOCK;
        self.blocks.push(vec![0; PER_BLOCK * self.bytes].into());
        let new = (first..first + PER_BLOCK).rev();
        let new = new.filter_map(|index| u32::try_from(index).ok());
        self.free.extend(new.map(|index| Slot { index, length: 0 }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_stays_what_it_is_until_its_slot_is_given_back() {
        let mut slots = Slots::new(4);
        let mut taken = Vec::new();

        for number in 0..1000_u32 {
            let slot = slots.take();
            slots.memory(slot).copy_from_slice(&number.to_be_bytes());
            taken.push(slot.with(4));
        }

        for (number, slot) in (0_u32..).zip(&taken) {
            assert_eq!(slots.packet(*slot), number.to_be_bytes());
        }
        let blocks = slots.blocks.len();
        taken.into_iter().for_each(|slot| slots.give(slot));
        (0..1000).for_each(|_| _ = slots.take());
        assert_eq!(slots.blocks.len(), blocks);
    }
}
