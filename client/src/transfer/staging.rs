//! What was fetched of the shared state and is not the user's yet.
//!
//! It outlives the attempt that fetched it: where a synchronization fails, the next one fetches what is
//! missing.
//!
//! **Invariant:** only content that the newest plan asks for is kept, by its hash, and nothing once a
//! synchronization has succeeded.

use std::collections::BTreeMap;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use pccl_core::id::{ContentHash, EntryIndex};
use pccl_core::wire::StateRange;
use pccl_kernels::{Content, PartHashes};

use super::room::{Room, Supply};

/// So many bytes of an entry arrive before they are hashed: enough for several threads, and some milliseconds of work
/// for a single one.
const HASHED_AT_ONCE: usize = 16 * 1024 * 1024;

/// Content by entry.
#[derive(Debug, Default)]
pub(crate) struct Staging {
    entries: BTreeMap<EntryIndex, Staged>,
    /// Memory that is prepared while a transfer runs.
    supply: Supply,
}

/// The content of one entry, as far as it has arrived.
#[derive(Debug)]
struct Staged {
    hash: ContentHash,
    /// In its whole length. Shared while it is checked, when all of it has arrived.
    content: Arc<Room>,
    /// Starts and ends of what has arrived; no two of them touch.
    arrived: BTreeMap<usize, usize>,
    /// The hashes of what has arrived: bytes are hashed while others are on their way.
    parts: PartHashes,
    /// Bytes that have arrived since parts were hashed.
    unhashed: usize,
    /// The content has the hash.
    is_checked: bool,
}

/// The content of an entry that is whole, and what to compare it with.
pub(super) struct ToCheck {
    pub(super) content: Arc<Room>,
    /// What of it is hashed.
    pub(super) parts: PartHashes,
    /// What all of it has to have.
    pub(super) hash: ContentHash,
}

impl Staged {
    fn new(hash: ContentHash, length: usize) -> Self {
        Self {
            hash,
            content: Arc::new(Room::new(length)),
            arrived: BTreeMap::new(),
            parts: PartHashes::new(),
            unhashed: 0,
            is_checked: false,
        }
    }

    fn is_whole(&self) -> bool {
        self.missing().next().is_none()
    }

    /// In their order.
    fn missing(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let starts = std::iter::once(0).chain(self.arrived.values().copied());
        let ends = self.arrived.keys().copied();
        let gaps = starts.zip(ends.chain(std::iter::once(self.content.length())));
        gaps.map(|(start, end)| start..end)
            .filter(|gap| !gap.is_empty())
    }

    fn note(&mut self, range: Range<usize>) {
        let Range { mut start, mut end } = range;
        let touching: Vec<(usize, usize)> = self
            .arrived
            .range(..=end)
            .map(|(from, to)| (*from, *to))
            .filter(|(_, to)| *to >= start)
            .collect();
        for (from, to) in touching {
            self.arrived.remove(&from);
            (start, end) = (start.min(from), end.max(to));
        }
        self.arrived.insert(start, end);
    }

    /// Hashes what has arrived, if it is enough. The rest is hashed when all of it is there.
    fn hash(&mut self, arrived: usize) {
        self.unhashed += arrived;
        if self.unhashed >= HASHED_AT_ONCE {
            self.unhashed = 0;
            let arrived = self.arrived.iter();
            let ranges = arrived.map(|(start, end)| *start..*end);
            self.parts.arrived(&*self.content, ranges);
        }
    }
}

impl Staging {
    /// Gives up what is not wanted, and makes room for what is: the entries of a plan with their hashes
    /// and lengths.
    pub(super) fn want(&mut self, wanted: &[(EntryIndex, ContentHash, usize)]) {
        let mut kept = mem::take(&mut self.entries);
        for (entry, hash, length) in wanted {
            let kept = kept.remove(entry);
            let fits = |staged: &Staged| staged.hash == *hash && staged.content.length() == *length;
            let staged = kept.filter(fits);
            let staged = staged.unwrap_or_else(|| Staged::new(*hash, *length));
            self.entries.insert(*entry, staged);
        }
    }

    /// The ranges that have not arrived, in their order.
    pub(super) fn missing(&self) -> impl Iterator<Item = (EntryIndex, Range<usize>)> + '_ {
        let entries = self.entries.iter();
        entries.flat_map(|(entry, staged)| staged.missing().map(|range| (*entry, range)))
    }

    /// Entries that are there but for the look at their hash.
    pub(super) fn unchecked(&self) -> Vec<EntryIndex> {
        let entries = self.entries.iter();
        let unchecked = entries.filter(|(_, staged)| !staged.is_checked && staged.is_whole());
        unchecked.map(|(entry, _)| *entry).collect()
    }

    /// How many entries are not known to be right.
    pub(super) fn open_entries(&self) -> usize {
        let open = self.entries.values().filter(|staged| !staged.is_checked);
        open.count()
    }

    /// The memory of the first bytes of a range, at most so many.
    pub(super) fn room(&mut self, range: StateRange, most: usize) -> &mut [u8] {
        let room = self.entries.get_mut(&range.entry).and_then(|staged| {
            let start = usize::try_from(range.offset).ok()?;
            let length = most.min(range.length as usize);
            let range = start..start.checked_add(length)?;
            Some(Arc::get_mut(&mut staged.content)?.first_of(range, &mut self.supply))
        });
        room.unwrap_or_default()
    }

    /// A transfer is over, whole or not: what was prepared for it is given back.
    pub(super) fn rest(&mut self) {
        self.supply = Supply::default();
    }

    /// The first bytes of a range have arrived. Is the entry whole?
    pub(super) fn note(&mut self, range: StateRange, arrived: usize) -> bool {
        let (Some(staged), Ok(start)) = (
            self.entries.get_mut(&range.entry),
            usize::try_from(range.offset),
        ) else {
            return false;
        };
        staged.note(start..start.saturating_add(arrived));
        staged.hash(arrived);
        staged.is_whole()
    }

    /// The content of an entry that is whole, and the hash that it has to have.
    pub(super) fn begin_check(&mut self, entry: EntryIndex) -> Option<ToCheck> {
        let staged = self.entries.get_mut(&entry)?;
        Some(ToCheck {
            content: Arc::clone(&staged.content),
            parts: mem::take(&mut staged.parts),
            hash: staged.hash,
        })
    }

    /// An entry was compared with its hash. Content that is wrong is not kept.
    pub(super) fn checked(&mut self, entry: EntryIndex, is_right: bool) {
        if !is_right {
            self.entries.remove(&entry);
        } else if let Some(staged) = self.entries.get_mut(&entry) {
            staged.is_checked = true;
        }
    }

    /// Hands out the content, to be written. Nothing is kept.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = (EntryIndex, Arc<Room>)> + use<> {
        let entries = mem::take(&mut self.entries).into_iter();
        entries.map(|(entry, staged)| (entry, staged.content))
    }

    /// Bytes of content for which there is room.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        let entries = self.entries.values();
        entries.map(|staged| staged.content.length()).sum()
    }
}

#[cfg(test)]
mod tests {
    use pccl_kernels::{ContentHashing, content_hash};

    use super::*;

    const ENTRY: EntryIndex = EntryIndex(3);
    const HASH: ContentHash = ContentHash(9);

    fn range(offset: u64, length: u32) -> StateRange {
        StateRange {
            entry: ENTRY,
            length,
            offset,
        }
    }

    /// Starts and ends.
    fn missing(staging: &Staging) -> Vec<(usize, usize)> {
        let ranges = staging.missing().map(|(_, range)| range);
        ranges.map(|range| (range.start, range.end)).collect()
    }

    #[test]
    fn what_arrives_in_any_order_leaves_the_rest_missing() {
        let mut staging = Staging::default();
        staging.want(&[(ENTRY, HASH, 100)]);

        let wholes = [
            staging.note(range(40, 20), 20),
            staging.note(range(0, 20), 10),
            staging.note(range(60, 40), 40),
        ];
        assert_eq!(missing(&staging), [(10, 40)]);
        let last = staging.note(range(10, 30), 30);

        assert_eq!((wholes, last), ([false; 3], true));
        assert_eq!(staging.unchecked(), [ENTRY]);
    }

    #[test]
    fn what_is_wanted_again_is_kept_and_everything_else_is_not() {
        let mut staging = Staging::default();
        let other = EntryIndex(4);
        staging.want(&[(ENTRY, HASH, 100), (other, HASH, 50)]);
        staging.room(range(0, 100), 100).fill(7);
        staging.note(range(0, 100), 100);
        staging.checked(ENTRY, true);

        staging.want(&[(ENTRY, HASH, 100)]);
        assert_eq!((staging.bytes(), staging.open_entries()), (100, 0));
        staging.want(&[(ENTRY, ContentHash(1), 100)]);
        assert_eq!(missing(&staging), [(0, 100)]);
        staging.want(&[]);
        assert_eq!(staging.bytes(), 0);
    }

    #[test]
    fn what_arrives_in_two_attempts_is_hashed_on_its_way_and_every_byte_of_it_counts() {
        const PIECE: u32 = 5 << 20;
        const LEN: usize = 4 * PIECE as usize + 9;
        let expected = content_hash(&[7; LEN]);
        for wrong in [None, Some(0), Some(1 << 20), Some(LEN - 1)] {
            let mut staging = Staging::default();

            for number in [2, 0, 3, 1, 4] {
                // The second attempt wants the same.
                staging.want(&[(ENTRY, HASH, LEN)]);
                let length = if number == 4 { 9 } else { PIECE };
                let piece = range(number * u64::from(PIECE), length);
                let room = staging.room(piece, usize::MAX);
                room.fill(7);
                let place = wrong.and_then(|byte| byte.checked_sub(piece.offset as usize));
                if let Some(byte) = place.and_then(|place| room.get_mut(place)) {
                    *byte = 8;
                }
                staging.note(piece, length as usize);
            }
            // It was hashed when the first 20 MiB were there.
            staging.room(range(0, 1), 1).fill(9);

            let ToCheck { content, parts, .. } = staging.begin_check(ENTRY).unwrap();
            let hash = ContentHashing::with(&*content, parts).step();
            assert_eq!(hash == Some(expected), wrong.is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn an_entry_without_content_is_whole_at_once() {
        let mut staging = Staging::default();

        staging.want(&[(ENTRY, HASH, 0)]);

        assert_eq!(staging.unchecked(), [ENTRY]);
    }
}
