//! What a vote to synchronize offers, in the form in which the master keeps and compares it.
//!
//! Each manifest is read once, when its vote arrives, and leaves two digests: one of its *description*
//! (names, types, counts, flags), one of its *content* (the description, and the hashes of the entries
//! that must be equal everywhere). Where two digests are equal, so is what they are of; elections
//! compare nothing else. They are keyed with a secret of the master, so that no peer can make two
//! manifests collide.
//!
//! A description is held once, however many votes share it, and so are hashes that are all the same:
//! at the limits the votes of a group that agrees take the memory of one.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher24};

use crate::element::ElementType;
use crate::id::{ContentHash, EntryIndex, PeerId, Revision};
use crate::shared_state::{EntryInfo, SyncStrategy, SyncVote};
use crate::ticket::TicketMint;

/// The votes of a group.
pub(super) type Offers = BTreeMap<PeerId, Offer>;

/// Equal where what it was computed from is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Digest(u128);

/// One vote to synchronize.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Offer {
    pub(super) revision: Revision,
    pub(super) strategy: SyncStrategy,
    pub(super) restart: bool,
    pub(super) content: Digest,
    description: Arc<Description>,
    /// One for each entry.
    hashes: Arc<[ContentHash]>,
}

/// Which entries a peer lacks, a bit for each.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Dirty(Vec<u64>);

/// The entries that a peer has, whatever is in them, sorted by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Description {
    digest: Digest,
    /// One after the other: two lists of names are compared from front to back.
    names: String,
    entries: Vec<Entry>,
    /// There is an entry in which peers may differ.
    may_differ: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Entry {
    /// Where in the names its own ends.
    name_ends: usize,
    shape: Shape,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Shape {
    element: ElementType,
    count: u64,
    may_differ: bool,
}

impl Offer {
    /// Reads a vote whose entries are sorted by name. What it shares with those that are known is not
    /// kept another time.
    pub(super) fn read(vote: &SyncVote, mint: &TicketMint, known: &Offers) -> Self {
        let key = mint.derive_key(b"digests of shared state");
        let digest = digest_of_description(&key, &vote.entries);
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

    /// Is there an entry in which peers may differ?
    pub(super) fn may_differ(&self) -> bool {
        self.description.may_differ
    }

    /// Who holds this and has to hold what `elected` does: is there anything to fetch? Both describe
    /// the same entries.
    pub(super) fn lacks(&self, elected: &Self, is_newcomer: bool) -> bool {
        self.content != elected.content || (is_newcomer && self.may_differ())
    }

    /// What is to be fetched: what differs from `source`, which holds the elected content, and as a
    /// newcomer what may differ too. Both describe the same entries.
    pub(super) fn dirty(&self, source: &Self, is_newcomer: bool) -> Dirty {
        let entries = self.description.entries.chunks(64);
        let hashes = self.hashes.chunks(64).zip(source.hashes.chunks(64));
        let word = |(entries, (own, wanted)): (&[Entry], (&[ContentHash], &[ContentHash]))| {
            let pairs = entries.iter().zip(own.iter().zip(wanted)).rev();
            pairs.fold(0_u64, |word, (entry, (own, wanted))| {
                let differs = match entry.shape.may_differ {
                    true => is_newcomer,
                    false => own != wanted,
                };
                word << 1 | u64::from(differs)
            })
        };
        Dirty(entries.zip(hashes).map(word).collect())
    }

    /// The dirty entries, with the hashes that they have here.
    pub(super) fn pick(&self, dirty: &Dirty) -> Arc<Vec<(EntryIndex, ContentHash)>> {
        let count: u32 = dirty.0.iter().map(|word| word.count_ones()).sum();
        let mut picked = Vec::with_capacity(count as usize);
        let chunks = self.hashes.chunks(64).zip((0..).step_by(64));
        for (word, (hashes, first)) in dirty.0.iter().zip(chunks) {
            let mut left = *word;
            while left != 0 {
                let bit = left.trailing_zeros();
                if let Some(hash) = hashes.get(bit as usize) {
                    picked.push((EntryIndex(first + bit), *hash));
                }
                left &= left - 1;
            }
        }
        Arc::new(picked)
    }

    /// How many entries this one lacks, has besides, or describes otherwise.
    pub(super) fn differing_entries(&self, elected: &Self) -> u32 {
        let (mut theirs, mut own) = (elected.description.named(), self.description.named());
        let (mut their_next, mut own_next) = (theirs.next(), own.next());
        let mut differing = 0_u32;
        loop {
            let (order, is_same) = match (&their_next, &own_next) {
                (None, None) => return differing,
                (Some(_), None) => (Ordering::Less, false),
                (None, Some(_)) => (Ordering::Greater, false),
                (Some((theirs, one)), Some((own, other))) => {
                    let order = theirs.cmp(own);
                    (order, order.is_eq() && one == other)
                }
            };
            differing = differing.saturating_add(u32::from(!is_same));
            if order.is_le() {
                their_next = theirs.next();
            }
            if order.is_ge() {
                own_next = own.next();
            }
        }
    }
}

impl Description {
    fn new(digest: Digest, infos: &[EntryInfo]) -> Self {
        let mut names = String::with_capacity(infos.iter().map(|info| info.name.len()).sum());
        let mut entries = Vec::with_capacity(infos.len());
        for info in infos {
            names.push_str(&info.name);
            entries.push(Entry {
                name_ends: names.len(),
                shape: Shape {
                    element: info.element,
                    count: info.count,
                    may_differ: info.allow_content_inequality,
                },
            });
        }
        Self {
            digest,
            names,
            entries,
            may_differ: infos.iter().any(|info| info.allow_content_inequality),
        }
    }

    fn named(&self) -> impl Iterator<Item = (&[u8], Shape)> {
        let mut begin = 0;
        self.entries.iter().map(move |entry| {
            let name = self.names.as_bytes().get(begin..entry.name_ends);
            begin = entry.name_ends;
            (name.unwrap_or_default(), entry.shape)
        })
    }
}

/// Every entry is written with its lengths first, so that no two lists of entries are one text.
fn digest_of_description(key: &[u8; 16], entries: &[EntryInfo]) -> Digest {
    let mut hasher = SipHasher24::new_with_key(key);
    hasher.write(b"description");
    hasher.write(&(entries.len() as u64).to_le_bytes());
    for entry in entries {
        hasher.write(&(entry.name.len() as u64).to_le_bytes());
        hasher.write(entry.name.as_bytes());
        let may_differ = u8::from(entry.allow_content_inequality);
        hasher.write(&[entry.element as u8, may_differ]);
        hasher.write(&entry.count.to_le_bytes());
    }
    Digest(hasher.finish128().as_u128())
}

/// The description says which entries have a hash here.
fn digest_of_content(key: &[u8; 16], description: Digest, entries: &[EntryInfo]) -> Digest {
    let mut hasher = SipHasher24::new_with_key(key);
    hasher.write(b"content");
    hasher.write(&description.0.to_le_bytes());
    for entry in entries.iter().filter(|e| !e.allow_content_inequality) {
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
        fn a_merge_counts_as_a_comparison_of_each_with_each_does(
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
            let counted = one.iter().filter(differs).count() + other.iter().filter(lacks).count();
            let merged = offer(one.clone()).differing_entries(&offer(other.clone()));
            prop_assert_eq!(merged as usize, counted);
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
            let picked = source.pick(&own.dirty(&source, is_newcomer));
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
