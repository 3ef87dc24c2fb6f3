//! Parts of messages about the shared state.

use alloc::string::String;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::{element, lane_order, peer, revision, round};
use crate::id::{ContentHash, EntryIndex};
use crate::shared_state::{
    EntryInfo, EntryMismatch, EntryShape, SyncFailure, SyncPlan, SyncRole, SyncStrategy, SyncVote,
};

fn entry_hash() -> impl Strategy<Value = (EntryIndex, ContentHash)> {
    any::<(u32, u128)>().prop_map(|(entry, hash)| (EntryIndex(entry), ContentHash(hash)))
}

fn entry_info() -> impl Strategy<Value = EntryInfo> {
    (".{0,20}", element(), any::<(u64, u128, bool)>()).prop_map(
        |(name, element, (count, hash, allow_content_inequality)): (String, _, _)| EntryInfo {
            name,
            element,
            count,
            hash: ContentHash(hash),
            allow_content_inequality,
        },
    )
}

pub(super) fn sync_vote() -> impl Strategy<Value = SyncVote> {
    let strategy = select(
        &[
            SyncStrategy::EnforcePopular,
            SyncStrategy::SendOnly,
            SyncStrategy::ReceiveOnly,
        ][..],
    );
    (revision(), strategy, any::<bool>(), vec(entry_info(), 0..6)).prop_map(
        |(revision, strategy, restart, entries)| SyncVote {
            revision,
            strategy,
            restart,
            entries,
        },
    )
}

pub(super) fn sync_plan() -> impl Strategy<Value = SyncPlan> {
    let role = prop_oneof![
        vec(lane_order(), 0..4).prop_map(|to| SyncRole::Distribute { to }),
        (vec(lane_order(), 0..4), vec(entry_hash(), 0..6)).prop_map(|(from, entries)| {
            SyncRole::Request {
                from,
                entries: entries.into(),
            }
        }),
    ];
    (round(), revision(), role).prop_map(|(round, revision, role)| SyncPlan {
        round,
        revision,
        role,
    })
}

pub(super) fn sync_failure() -> impl Strategy<Value = SyncFailure> {
    prop_oneof![
        peer().prop_map(|peer| SyncFailure::TransferFailed { peer }),
        Just(SyncFailure::TimedOut),
        Just(SyncFailure::NobodyToSend),
        (peer(), peer()).prop_map(|(one, other)| SyncFailure::SendersDiffer { one, other }),
        (revision(), revision())
            .prop_map(|(reached, offered)| SyncFailure::RevisionLost { reached, offered }),
        (peer(), revision(), revision()).prop_map(|(sender, reached, offered)| {
            SyncFailure::SenderBehind {
                sender,
                reached,
                offered,
            }
        }),
        (revision(), revision())
            .prop_map(|(expected, offered)| SyncFailure::RevisionSkipped { expected, offered }),
    ]
}

pub(super) fn entry_mismatch() -> impl Strategy<Value = EntryMismatch> {
    let shape = || {
        (element(), any::<u64>(), any::<bool>()).prop_map(
            |(element, count, allow_content_inequality)| EntryShape {
                element,
                count,
                allow_content_inequality,
            },
        )
    };
    let shapes = (option::of(shape()), option::of(shape()));
    (any::<String>(), shapes).prop_map(|(name, (own, theirs))| EntryMismatch { name, own, theirs })
}
