//! The offer of a vote to synchronize, in the form in which the master stores and compares it.
//!
//! Each manifest is read once, when its vote arrives, and reduced to two digests: one of its *description* (names,
//! types, counts, flags), and one of its *content* (the description, and the hashes of the entries that must be equal
//! on all peers). Equal digests mean equal contents; elections compare only digests. They are keyed with a secret of
//! the master, so that no peer can make two manifests collide.
//!
//! A description is stored once, however many votes share it, and so are equal hashes. At the limits, the votes of a
//! group that agrees take the memory of one.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher24};

use serde::{Deserialize, Serialize};

use crate::id::{ContentHash, PeerId, Revision};
use crate::messages::Misdeed;
use crate::shared_state::{
    EntryInfo, EntryMismatch, EntryShape, FetchList, MISMATCHES_NAMED_MAX, SyncStrategy, SyncVote,
};
use crate::ticket::TicketMint;

/// The votes of a group.
pub(super) type Offers = BTreeMap<PeerId, Offer>;

/// Equal if and only if the inputs are, except for collisions, which no peer can produce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) struct Digest(u128);

/// One vote to synchronize.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Offer {
    pub(super) revision: Revision,
    pub(super) strategy: SyncStrategy,
    pub(super) restart: bool,
    pub(super) content: Digest,
    description: Arc<Description>,
    /// One for each entry.
    hashes: Arc<[ContentHash]>,
}

/// The entries of a peer, without their content. The names are kept to tell where two descriptions differ.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Description {
    digest: Digest,
    /// In the order of the names.
    entries: Vec<(String, EntryShape)>,
    /// Entries in which peers may differ: one bit for each, in the order of the names.
    may_differ: Vec<u64>,
}

impl Offer {
    /// Reads a vote whose entries are sorted by name. Parts that it shares with known offers are not stored again.
    pub(super) fn read(vote: &SyncVote, mint: &TicketMint, known: &Offers) -> Self {
        let key = mint.derive_key(b"digests of shared state");
        let entry_key = mint.derive_key(b"digests of entries");
        let digest = digest_of_description(&key, &entry_key, &vote.entries);
        let content = digest_of_content(&key, digest, &vote.entries);
        let alike = |offer: &&Self| offer.description.digest == digest;
        let description = known.values().find(alike).map_or_else(
            || Arc::new(Description::new(digest, &vote.entries)),
            |offer| Arc::clone(&offer.description),
        );
        let hashes = || vote.entries.iter().map(|entry| entry.hash);
        let same = known.values().find(|offer| offer.content == content);
        let same = same.filter(|offer| offer.hashes.iter().copied().eq(hashes()));
        Self {
            revision: vote.revision,
            strategy: vote.strategy,
            restart: vote.restart,
            content,
            description,
            hashes: same.map_or_else(|| hashes().collect(), |offer| Arc::clone(&offer.hashes)),
        }
    }

    pub(super) fn description(&self) -> Digest {
        self.description.digest
    }

    /// Whether there is an entry in which peers may differ.
    pub(super) fn may_differ(&self) -> bool {
        self.description.may_differ.iter().any(|word| *word != 0)
    }

    /// Whether a peer with this offer lacks part of the content of `elected`. Both must describe the same entries.
    pub(super) fn lacks(&self, elected: &Self, is_newcomer: bool) -> bool {
        self.content != elected.content
            || rule!(is_newcomer && self.may_differ(); NewcomerLacksWhatMayDiffer => false)
    }

    /// The entries to fetch, one bit for each: those that differ from `source`, which holds the elected content, and,
    /// for a newcomer, those that may differ. Both must describe the same entries.
    pub(super) fn dirty(&self, source: &Self, is_newcomer: bool) -> Arc<[u64]> {
        let hashes = self.hashes.chunks(64).zip(source.hashes.chunks(64));
        let word = |((own, wanted), may_differ): ((&[ContentHash], &[ContentHash]), &u64)| {
            let pairs = own.iter().zip(wanted);
            let differs = bits(pairs.map(|(own, wanted)| own != wanted));
            let lacks_anyway = if rule!(is_newcomer; PrivateEntriesOverwritten => true) {
                *may_differ
            } else {
                0
            };
            rule!(differs & !may_differ | lacks_anyway; AllEntriesFetched => u64::MAX)
        };
        hashes.zip(&self.description.may_differ).map(word).collect()
    }

    /// The marked entries, with their hashes in this offer.
    pub(super) fn pick(&self, marks: Arc<[u64]>) -> FetchList {
        FetchList::marked(marks, Arc::clone(&self.hashes))
    }

    /// Number of bytes of the marked entries.
    pub(super) fn bytes_of(&self, marks: &[u64]) -> u64 {
        let is_marked = |at: usize| {
            marks
                .get(at / 64)
                .is_some_and(|word| word >> (at % 64) & 1 == 1)
        };
        let entries = self.description.entries.iter().enumerate();
        let marked = entries.filter(|(at, _)| is_marked(*at));
        marked.fold(0, |sum, (_, (_, shape))| sum.saturating_add(shape.bytes()))
    }

    /// Whether the two have equal content, including entries that may differ.
    pub(super) fn holds_the_same(&self, other: &Self) -> bool {
        let same = Arc::ptr_eq(&self.hashes, &other.hashes) || self.hashes == other.hashes;
        self.content == other.content && same
    }

    /// The misdeed that describes the difference: the number of entries that this offer lacks, has in addition, or
    /// describes differently, and the first of them.
    pub(super) fn mismatch(&self, elected: &Self) -> Misdeed {
        let mut own = self.description.entries.iter().peekable();
        let mut theirs = elected.description.entries.iter().peekable();
        let (mut entries, mut named) = (0_u32, Vec::new());
        loop {
            let order = match (own.peek(), theirs.peek()) {
                (Some((one, _)), Some((other, _))) => one.cmp(other),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return Misdeed::StateMismatch { entries, named },
            };
            let own = own.next_if(|_| order.is_le());
            let theirs = theirs.next_if(|_| order.is_ge());
            if own == theirs {
                continue;
            }
            entries = entries.saturating_add(rule!(
                1;
                RedescribedCountsTwice if order.is_eq() => 2
            ));
            if let Some((name, _)) = own.or(theirs)
                && named.len() < MISMATCHES_NAMED_MAX
            {
                named.push(EntryMismatch {
                    name: name.clone(),
                    own: own.map(|(_, shape)| *shape),
                    theirs: theirs.map(|(_, shape)| *shape),
                });
            }
        }
    }
}

impl Description {
    fn new(digest: Digest, infos: &[EntryInfo]) -> Self {
        let entries = infos.iter().map(|info| (info.name.clone(), info.shape()));
        let flags = |infos: &[EntryInfo]| bits(infos.iter().map(|e| e.allow_content_inequality));
        Self {
            digest,
            entries: entries.collect(),
            may_differ: infos.chunks(64).map(flags).collect(),
        }
    }
}

/// Up to 64 flags as a word, the first one its lowest bit.
fn bits(flags: impl DoubleEndedIterator<Item = bool>) -> u64 {
    flags
        .rev()
        .fold(0, |word, flag| word << 1 | u64::from(flag))
}

/// The digest of one entry without its content. The part after the name has a fixed length, so that no two entries
/// have the same input.
fn digest_of_entry(key: &[u8; 16], entry: &EntryInfo) -> u128 {
    let mut hasher = SipHasher24::new_with_key(key);
    hasher.write(entry.name.as_bytes());
    let may_differ = u8::from(entry.allow_content_inequality);
    hasher.write(&entry.count.to_le_bytes());
    hasher.write(&[entry.element as u8, may_differ]);
    hasher.finish128().as_u128()
}

fn digest_of_description(key: &[u8; 16], entry_key: &[u8; 16], entries: &[EntryInfo]) -> Digest {
    let mut hasher = SipHasher24::new_with_key(key);
    hasher.write(b"description");
    for entry in entries {
        hasher.write(&digest_of_entry(entry_key, entry).to_le_bytes());
    }
    Digest(hasher.finish128().as_u128())
}

/// The digest of the content. The description determines which entries have a hash in it.
fn digest_of_content(key: &[u8; 16], description: Digest, entries: &[EntryInfo]) -> Digest {
    let mut hasher = SipHasher24::new_with_key(key);
    hasher.write(b"content");
    hasher.write(&description.0.to_le_bytes());
    for entry in entries
        .iter()
        .filter(|e| rule!(!e.allow_content_inequality; MayDifferCompared => true))
    {
        hasher.write(&entry.hash.0.to_le_bytes());
    }
    Digest(hasher.finish128().as_u128())
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;
    use crate::element::ElementType;
    use crate::id::EntryIndex;

    const MINT: TicketMint = TicketMint { key: [7; 16] };

    fn entry(name: &str, count: u64, may_differ: bool, hash: u128) -> EntryInfo {
        EntryInfo {
            name: name.into(),
            element: ElementType::F32,
            count,
            hash: ContentHash(hash),
            allow_content_inequality: may_differ,
        }
    }

    fn offer_with(mint: &TicketMint, entries: Vec<EntryInfo>, known: &Offers) -> Offer {
        let vote = SyncVote {
            revision: Revision(0),
            strategy: SyncStrategy::EnforcePopular,
            restart: false,
            entries,
        };
        Offer::read(&vote, mint, known)
    }

    fn offer(entries: Vec<EntryInfo>) -> Offer {
        offer_with(&MINT, entries, &Offers::new())
    }

    fn entries() -> impl Strategy<Value = Vec<EntryInfo>> {
        let any = ("[ab]{0,2}", 0..2_u64, any::<bool>(), 0..2_u128);
        let some = prop::collection::vec(any, 0..4);
        some.prop_map(|some| {
            let some = some.into_iter();
            let named = some.map(|(name, count, may_differ, hash)| {
                let info = entry(&name, count, may_differ, hash);
                (name, info)
            });
            named.collect::<BTreeMap<_, _>>().into_values().collect()
        })
    }

    proptest! {
        #![proptest_config(crate::cases::cases(256))]

        #[test]
        fn digests_are_equal_where_what_they_are_of_is(one in entries(), other in entries()) {
            let described = |entries: &[EntryInfo]| -> Vec<EntryInfo> {
                let blank = |e: &EntryInfo| EntryInfo { hash: ContentHash(0), ..e.clone() };
                entries.iter().map(blank).collect()
            };
            let compared = |entries: &[EntryInfo]| -> Vec<ContentHash> {
                let equal = entries.iter().filter(|entry| !entry.allow_content_inequality);
                equal.map(|entry| entry.hash).collect()
            };
            let (a, b) = (offer(one.clone()), offer(other.clone()));
            let alike = described(&one) == described(&other);
            let same = alike && compared(&one) == compared(&other);
            prop_assert_eq!(a.description() == b.description(), alike);
            prop_assert_eq!(a.content == b.content, same);
        }

        #[test]
        fn a_merge_finds_what_a_comparison_of_each_with_each_does(
            one in entries(),
            other in entries(),
        ) {
            let by_name = |entries: &[EntryInfo], name: &str| {
                entries.iter().find(|entry| entry.name == name).cloned()
            };
            let differs = |own: &&EntryInfo| {
                by_name(&other, &own.name).is_none_or(|theirs| !own.same_key(&theirs))
            };
            let lacks = |theirs: &&EntryInfo| by_name(&one, &theirs.name).is_none();
            let differing = one.iter().filter(differs).chain(other.iter().filter(lacks));
            let names: BTreeSet<&str> = differing.map(|entry| &*entry.name).collect();
            let shape = |entries: &[EntryInfo], name: &str| {
                by_name(entries, name).map(|entry| entry.shape())
            };
            let named = names.iter().take(MISMATCHES_NAMED_MAX).map(|name| EntryMismatch {
                name: (*name).into(),
                own: shape(&one, name),
                theirs: shape(&other, name),
            });
            let mismatch = offer(one.clone()).mismatch(&offer(other.clone()));
            let (entries, named) = (names.len() as u32, named.collect());
            prop_assert_eq!(mismatch, Misdeed::StateMismatch { entries, named });
        }

        #[test]
        fn who_lacks_something_has_something_to_fetch(
            entries in entries(),
            hashes in prop::collection::vec(0..2_u128, 4),
            is_newcomer: bool,
        ) {
            let other = entries.iter().zip(hashes).map(|(entry, hash)| EntryInfo {
                hash: ContentHash(hash),
                ..entry.clone()
            });
            let (own, source) = (offer(entries.clone()), offer(other.collect()));
            let picked = source.pick(own.dirty(&source, is_newcomer));
            let wanted = entries.iter().zip(source.hashes.iter()).zip(0..);
            let wanted = wanted.filter(|((own, hash), _)| match own.allow_content_inequality {
                true => is_newcomer,
                false => own.hash != **hash,
            });
            let wanted: Vec<_> = wanted.map(|((_, hash), at)| (EntryIndex(at), *hash)).collect();
            prop_assert_eq!(own.lacks(&source, is_newcomer), !wanted.is_empty());
            prop_assert_eq!(picked.to_vec(), wanted);
        }
    }

    #[test]
    fn what_is_equal_is_kept_once() {
        let entries = vec![entry("a", 1, false, 1), entry("b", 1, true, 2)];
        let first = offer(entries.clone());
        let known = Offers::from([(PeerId(1), first.clone())]);

        let again = offer_with(&MINT, entries.clone(), &known);
        let mut other = entries;
        other[1].hash = ContentHash(3);
        let other = offer_with(&MINT, other, &known);

        assert!(Arc::ptr_eq(&first.description, &again.description));
        assert!(Arc::ptr_eq(&first.hashes, &again.hashes));
        assert!(Arc::ptr_eq(&first.description, &other.description));
        assert_eq!((first.content, first == other), (other.content, false));
    }

    #[test]
    fn another_master_has_other_digests() {
        let entries = || vec![entry("a", 1, false, 1)];
        let mints = [0, 1, 2].map(|key| TicketMint { key: [key; 16] });

        let offers = mints.map(|mint| offer_with(&mint, entries(), &Offers::new()));

        let digests = offers
            .iter()
            .flat_map(|offer| [offer.content, offer.description()]);
        assert_eq!(digests.collect::<BTreeSet<_>>().len(), 6);
    }
}
