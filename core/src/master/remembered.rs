//! What the master remembers of each group for its whole life: the revision that was reached, and its content. It
//! outlives the group's last member, so that the first peer after an outage cannot set the group back.

use alloc::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::manifest::Digest;
use crate::id::{GroupId, Revision};

/// Maximum number of remembered groups without members.
const GROUPS_REMEMBERED_MAX: usize = 65_536;

/// The content of a group after its last successful synchronization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Reached {
    pub(super) revision: Revision,
    pub(super) content: Digest,
}

/// The content that each group has reached.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub(super) struct Remembered {
    groups: BTreeMap<GroupId, Reached>,
}

impl Remembered {
    pub(super) fn of(&self, group: GroupId) -> Option<Reached> {
        self.groups.get(&group).copied()
    }

    #[cfg(feature = "mutants")]
    pub(super) fn forget(&mut self, group: GroupId) {
        self.groups.remove(&group);
    }

    /// Remembers a group. If there are too many, one without members is forgotten: the one with the lowest revision,
    /// because setting it back undoes the fewest steps. The number of peers limits the number of groups with members.
    pub(super) fn keep(
        &mut self,
        group: GroupId,
        reached: Reached,
        has_members: impl Fn(GroupId) -> bool,
    ) {
        self.groups.insert(group, reached);
        if self.groups.len() <= GROUPS_REMEMBERED_MAX {
            return;
        }
        let empty = self.groups.iter().filter(|(id, _)| !has_members(**id));
        let lowest = empty.min_by_key(|(id, reached)| (reached.revision, **id));
        if let Some(lowest) = lowest.map(|(id, _)| *id) {
            self.groups.remove(&lowest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::manifest::{Offer, Offers};
    use super::*;
    use crate::shared_state::{SyncStrategy, SyncVote};
    use crate::ticket::TicketMint;

    fn at(revision: u64) -> Reached {
        let vote = SyncVote {
            revision: Revision(revision),
            strategy: SyncStrategy::EnforcePopular,
            restart: false,
            entries: [].into(),
        };
        let offer = Offer::read(&vote, &TicketMint { key: [0; 16] }, &Offers::new());
        Reached {
            revision: offer.revision,
            content: offer.content,
        }
    }

    #[test]
    fn of_too_many_groups_the_one_with_the_lowest_revision_is_forgotten() {
        let max = u32::try_from(GROUPS_REMEMBERED_MAX).unwrap();
        let mut remembered = Remembered::default();
        // The higher its number, the fewer steps a group has made. The very last one has members.
        for id in 0..max {
            let steps = u64::from(max - id);
            remembered.keep(GroupId(id), at(steps), |id| id == GroupId(max - 1));
        }

        for newcomer in max..max + 3 {
            let has_members = |id: GroupId| id.0 == newcomer || id == GroupId(max - 1);
            remembered.keep(GroupId(newcomer), at(0), has_members);
            assert_eq!(remembered.groups.len(), GROUPS_REMEMBERED_MAX);
            assert!(remembered.of(GroupId(newcomer)).is_some());
        }

        // Each newcomer but the last had left when the next one came.
        let forgotten = [max - 2, max, max + 1].map(GroupId);
        assert!(forgotten.iter().all(|id| remembered.of(*id).is_none()));
        assert_eq!(remembered.of(GroupId(max - 1)), Some(at(1)));
    }
}
