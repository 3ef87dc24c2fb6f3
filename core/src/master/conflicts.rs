//! How often in a row the collectives of a group have given way to a synchronization.
//!
//! A step of a program may start several concurrent collectives, each of which gives way: that is one conflict. Only
//! a tag that comes again shows that its caller has tried again. A program whose tags never come again is covered by
//! a limit: that many tags count as one conflict.

use alloc::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::id::Tag;

/// Number of different tags that count as one conflict.
const TAGS_MAX: usize = 64;

/// Conflicts in a row.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub(super) struct Conflicts {
    times: u8,
    /// The tags that have given way since the last conflict began.
    tags: BTreeSet<Tag>,
}

impl Conflicts {
    /// Another collective would give way. Returns the number of the conflict in a row, from one.
    pub(super) fn note(&mut self, tag: Tag) -> u8 {
        let is_again = self.tags.contains(&tag) || self.tags.len() >= TAGS_MAX;
        if is_again || self.times == 0 {
            self.times = self.times.saturating_add(1);
            self.tags.clear();
        }
        self.tags.insert(tag);
        self.times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collectives_side_by_side_are_one_conflict_and_the_same_again_is_another() {
        let mut conflicts = Conflicts::default();

        let first = [1, 2, 3].map(|tag| conflicts.note(Tag(tag)));
        let second = [2, 1, 3].map(|tag| conflicts.note(Tag(tag)));

        assert_eq!((first, second), ([1; 3], [2; 3]));
    }

    #[test]
    fn tags_that_never_come_again_do_not_put_the_end_off_for_ever() {
        let mut conflicts = Conflicts::default();

        let times = (0..1000).map(|tag| conflicts.note(Tag(tag)));

        assert_eq!(times.max(), Some(16));
    }
}
