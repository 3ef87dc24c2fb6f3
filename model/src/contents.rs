//! What a process holds as shared state: one entry or two, each of which is its hash.

use pccl_core::element::ElementType;
use pccl_core::id::{ContentHash, EntryIndex, Revision};
use pccl_core::shared_state::EntryInfo;

/// The entry that everybody has. It comes last.
const FIRST: &str = "w";

/// A second entry, as the plan of a seat has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SecondPlan {
    /// Before the other entry in the order of names.
    pub name: &'static str,
    /// What is in it at the start: equal numbers, equal content.
    pub content: u8,
    /// Whether peers may differ in it.
    pub may_differ: bool,
}

/// What is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Contents {
    first: ContentHash,
    second: Option<Second>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Second {
    name: &'static str,
    may_differ: bool,
    hash: ContentHash,
}

/// What must be equal everywhere, and of what it is the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Compared(Contents);

impl Compared {
    /// What this hash stands for, whatever the entries are.
    #[must_use]
    pub fn of(hash: ContentHash) -> Self {
        Self(Contents {
            first: hash,
            second: None,
        })
    }
}

impl Contents {
    /// At the start of a run.
    #[must_use]
    pub fn new(first: u8, second: Option<SecondPlan>) -> Self {
        let hash = |content: u8| ContentHash(u128::from(content));
        Self {
            first: hash(first),
            second: second.map(|plan| Second {
                name: plan.name,
                may_differ: plan.may_differ,
                hash: hash(plan.content),
            }),
        }
    }

    /// Computed anew: the same everywhere, where peers may not differ.
    pub fn advance(&mut self, to: Revision) {
        let hash = u128::from(to.0) * 10;
        self.first = ContentHash(hash);
        if let Some(second) = self.second.as_mut().filter(|second| !second.may_differ) {
            second.hash = ContentHash(hash + 5);
        }
    }

    /// What is to be equal.
    #[must_use]
    pub fn compared(&self) -> Compared {
        let mut compared = *self;
        if let Some(second) = compared.second.as_mut().filter(|second| second.may_differ) {
            second.hash = ContentHash(0);
        }
        Compared(compared)
    }

    /// The entries, sorted by name.
    #[must_use]
    pub fn entries(&self) -> Vec<EntryInfo> {
        let info = |name: &str, hash, allow_content_inequality| EntryInfo {
            name: name.into(),
            element: ElementType::F32,
            count: 1,
            hash,
            allow_content_inequality,
        };
        let second = self.second.iter();
        let second = second.map(|second| info(second.name, second.hash, second.may_differ));
        second.chain([info(FIRST, self.first, false)]).collect()
    }

    /// What is in an entry, by its place among the names.
    #[must_use]
    pub fn get(&self, at: EntryIndex) -> Option<ContentHash> {
        let entries = self.second.map(|second| second.hash).into_iter();
        entries.chain([self.first]).nth(at.0 as usize)
    }

    /// Writes an entry; false where there is none.
    pub fn set(&mut self, at: EntryIndex, hash: ContentHash) -> bool {
        match (at.0, &mut self.second) {
            (0, Some(second)) => second.hash = hash,
            (0, None) | (1, Some(_)) => self.first = hash,
            (_, None | Some(_)) => return false,
        }
        true
    }

    /// What the entries are, whatever is in them.
    #[must_use]
    pub fn described(&self) -> Contents {
        let mut described = *self;
        described.first = ContentHash(0);
        if let Some(second) = &mut described.second {
            second.hash = ContentHash(0);
        }
        described
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(may_differ: bool) -> Contents {
        let second = SecondPlan {
            name: "a",
            content: 7,
            may_differ,
        };
        Contents::new(1, Some(second))
    }

    #[test]
    fn an_entry_is_found_by_its_place_among_the_names() {
        let mut two = contents(false);

        let places = two.entries().into_iter().zip(0..);
        assert!(
            places
                .into_iter()
                .all(|(entry, at)| two.get(EntryIndex(at)) == Some(entry.hash))
        );
        assert!(two.entries().is_sorted_by(|one, next| one.name < next.name));
        assert!(two.set(EntryIndex(1), ContentHash(9)) && !two.set(EntryIndex(2), ContentHash(9)));
        assert_eq!(two.get(EntryIndex(1)), Some(ContentHash(9)));
    }

    #[test]
    fn what_may_differ_is_not_compared() {
        let differing = |may_differ| {
            let (one, mut other) = (contents(may_differ), contents(may_differ));
            other.set(EntryIndex(0), ContentHash(8));
            one.compared() != other.compared()
        };

        assert!(differing(false));
        assert!(!differing(true));
        assert_ne!(contents(false).described(), contents(true).described());
    }
}
