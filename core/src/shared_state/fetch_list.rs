//! The list of entries that a peer fetches, in a form that makes the lists of a whole group cheap.
//!
//! At the documented limits, if each peer of a group lacks a different half of the entries, there are eight million
//! list entries. Written out, they would take the master a quarter of a gigabyte and half a second. So a list marks
//! entries of a content that all lists share, with one bit for each, and produces its entries when it is read.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::hash::{Hash, Hasher};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::{ContentHash, EntryIndex};

/// Entries in their order, each with the hash that its content must have. It is serialized as the plain list, and two
/// lists are equal if their entries are.
#[derive(Clone)]
pub struct FetchList(Form);

#[derive(Clone)]
enum Form {
    /// As it was received.
    Lines(Arc<[(EntryIndex, ContentHash)]>),
    Marked {
        /// A bit for each entry; the first entry of each word is its lowest bit.
        marks: Arc<[u64]>,
        /// One for each entry, marked or not.
        hashes: Arc<[ContentHash]>,
    },
}

impl FetchList {
    /// The marked entries of a content. Marks beyond its end are ignored.
    pub(crate) fn marked(marks: Arc<[u64]>, hashes: Arc<[ContentHash]>) -> Self {
        Self(Form::Marked { marks, hashes })
    }

    /// The entries and their hashes.
    pub fn iter(&self) -> impl Iterator<Item = (EntryIndex, ContentHash)> + '_ {
        let (lines, marks, hashes): (&[_], &[_], &[_]) = match &self.0 {
            Form::Lines(lines) => (lines, &[], &[]),
            Form::Marked { marks, hashes } => (&[], marks, hashes),
        };
        let chunks = hashes.chunks(64).zip((0..).step_by(64)).zip(marks);
        let marked = chunks.flat_map(|((hashes, first), word)| {
            bits(*word).filter_map(move |bit| {
                let hash = hashes.get(bit as usize)?;
                Some((EntryIndex(first + bit), *hash))
            })
        });
        lines.iter().copied().chain(marked)
    }

    /// Whether there is no entry to fetch.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Number of entries to fetch.
    #[must_use]
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// The entries and their hashes, as a list.
    #[must_use]
    pub fn to_vec(&self) -> Vec<(EntryIndex, ContentHash)> {
        self.iter().collect()
    }
}

/// The set bits, the lowest first.
fn bits(word: u64) -> impl Iterator<Item = u32> {
    let without_lowest = |word: &u64| Some(word & word.saturating_sub(1));
    core::iter::successors(Some(word), without_lowest)
        .take_while(|left| *left != 0)
        .map(u64::trailing_zeros)
}

impl Default for FetchList {
    fn default() -> Self {
        Self::from(Vec::new())
    }
}

impl From<Vec<(EntryIndex, ContentHash)>> for FetchList {
    fn from(lines: Vec<(EntryIndex, ContentHash)>) -> Self {
        Self(Form::Lines(lines.into()))
    }
}

impl PartialEq for FetchList {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for FetchList {}

impl Hash for FetchList {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.iter().for_each(|line| line.hash(state));
        state.write_u8(u8::MAX);
    }
}

impl fmt::Debug for FetchList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Serialize for FetchList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_vec().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for FetchList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(crate::cases::cases(256))]

        #[test]
        fn a_marked_list_is_the_list_of_its_lines(
            lacking in prop::collection::vec(any::<bool>(), 0..200),
            beyond: u64,
        ) {
            let hash = |entry: usize| ContentHash(entry as u128 + 1);
            let hashes: Vec<ContentHash> = (0..lacking.len()).map(hash).collect();
            let word = |bits: &[bool]| {
                bits.iter().rev().fold(0_u64, |word, bit| word << 1 | u64::from(*bit))
            };
            let mut marks: Vec<u64> = lacking.chunks(64).map(word).collect();
            if let (Some(last), filled @ 1..) = (marks.last_mut(), lacking.len() % 64) {
                *last |= beyond << filled;
            }
            let lines = lacking.iter().zip(0..).filter(|(lacks, _)| **lacks);
            let lines: Vec<_> = lines.map(|(_, at)| (EntryIndex(at), hash(at as usize))).collect();

            let marked = FetchList::marked(marks.into(), hashes.into());
            let listed = FetchList::from(lines.clone());

            prop_assert_eq!(marked.to_vec(), lines);
            prop_assert_eq!(marked.is_empty(), listed.is_empty());
            prop_assert_eq!(&marked, &listed);
            let bytes = |list| postcard::to_allocvec(list).unwrap();
            prop_assert_eq!(bytes(&marked), bytes(&listed));
            prop_assert_eq!(postcard::from_bytes::<FetchList>(&bytes(&marked)).unwrap(), listed);
        }
    }
}
