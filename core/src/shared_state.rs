//! Shared state in messages: votes, plans and failures of synchronizations.

mod fetch_list;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

pub use fetch_list::FetchList;
use serde::{Deserialize, Serialize};

use crate::element::ElementType;
use crate::id::{ContentHash, PeerId, Revision, Round};
use crate::topology::LaneOrder;

/// How a peer takes part in a synchronization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SyncStrategy {
    /// The most popular content wins. This peer may be its source, or be overwritten.
    EnforcePopular,
    /// This peer's content wins, or the call fails. It is never overwritten.
    SendOnly,
    /// This peer takes the content of the others. Its own content is never chosen, and it never serves.
    ReceiveOnly,
}

/// The description of one named entry of the shared state, by a peer that holds it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EntryInfo {
    /// The name: unique within the state, at most [`MAX_ENTRY_NAME_BYTES`](crate::wire::MAX_ENTRY_NAME_BYTES) bytes.
    pub name: String,
    /// Type of the elements.
    pub element: ElementType,
    /// Number of elements.
    pub count: u64,
    /// Hash of the content.
    pub hash: ContentHash,
    /// Whether peers may hold different content. If so, the content is not compared, and only a newcomer receives it.
    pub allow_content_inequality: bool,
}

/// Maximum number of entries that a [`Misdeed::StateMismatch`](crate::messages::Misdeed::StateMismatch) names.
pub const MISMATCHES_NAMED_MAX: usize = 4;

/// The description of an entry without its name and content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EntryShape {
    /// Type of the elements.
    pub element: ElementType,
    /// Number of elements.
    pub count: u64,
    /// Whether peers may hold different content.
    pub allow_content_inequality: bool,
}

impl EntryShape {
    /// Size of the content in bytes, saturating at `u64::MAX`.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.count.saturating_mul(self.element.size() as u64)
    }
}

impl fmt::Display for EntryShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} elements", self.count, self.element)?;
        match self.allow_content_inequality {
            true => f.write_str(" that may differ"),
            false => Ok(()),
        }
    }
}

/// An entry that a peer and the others describe differently. In its text, *it* is the peer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EntryMismatch {
    /// The name.
    pub name: String,
    /// The peer's description. `None`: the peer has no such entry.
    pub own: Option<EntryShape>,
    /// The description of the others. `None`: they have no such entry.
    pub theirs: Option<EntryShape>,
}

impl fmt::Display for EntryMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match (&self.own, &self.theirs) {
            (Some(own), Some(theirs)) => write!(f, "its {name:?} has {own}, and theirs {theirs}"),
            (Some(own), None) => write!(f, "it alone has {name:?} ({own})"),
            (None, Some(theirs)) => write!(f, "it lacks {name:?} ({theirs})"),
            (None, None) => write!(f, "nobody has {name:?}"),
        }
    }
}

impl EntryInfo {
    /// The description without name and content.
    #[must_use]
    pub const fn shape(&self) -> EntryShape {
        EntryShape {
            element: self.element,
            count: self.count,
            allow_content_inequality: self.allow_content_inequality,
        }
    }

    /// Whether the two describe the same entry, whatever its content.
    #[must_use]
    pub fn same_key(&self, other: &Self) -> bool {
        self.name == other.name && self.shape() == other.shape()
    }
}

/// A vote to synchronize the shared state.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SyncVote {
    /// The revision of this peer's content.
    pub revision: Revision,
    /// How the peer takes part.
    pub strategy: SyncStrategy,
    /// Whether this peer agrees to continue from whatever revision the group still holds. If every peer of the group
    /// agrees, the revision rule is that of a first synchronization.
    pub restart: bool,
    /// The entries, sorted by name. Names are distinct.
    pub entries: Vec<EntryInfo>,
}

/// One peer's part in bringing the group to one content.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SyncPlan {
    /// The attempt. Reports carry it.
    pub round: Round,
    /// The revision that all peers will hold.
    pub revision: Revision,
    /// This peer's part.
    pub role: SyncRole,
}

/// A peer's part in moving shared state.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SyncRole {
    /// This peer holds the elected content. It serves these peers, if any.
    Distribute {
        /// One order per peer that fetches from this one.
        to: Vec<LaneOrder>,
    },
    /// This peer fetches the entries that differ. If there are none, it only adopts the revision.
    Request {
        /// The lanes to the peers that serve. Each of them holds all entries to fetch. Empty if there are none.
        from: Vec<LaneOrder>,
        /// The entries to fetch, with the hash that each must have on arrival.
        entries: FetchList,
    },
}

/// Why a synchronization failed. No content was changed on any peer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SyncFailure {
    /// A transfer between two peers failed, or one of them was lost. Call again.
    TransferFailed {
        /// The peer that reported it, or that was lost.
        peer: PeerId,
    },
    /// The transfers did not end in time. Call again.
    TimedOut,
    /// All peers that voted are receive-only.
    NobodyToSend,
    /// Two send-only peers hold different content or revisions.
    SendersDiffer {
        /// One of them.
        one: PeerId,
        /// The other one.
        other: PeerId,
    },
    /// No peer holds the revision that the group has reached, and not all peers agreed to restart from an older one.
    /// Restore a newer checkpoint, or call again with a restart allowed on all peers.
    RevisionLost {
        /// The revision that the group held last.
        reached: Revision,
        /// The newest revision that a peer offers.
        offered: Revision,
    },
    /// A send-only peer holds an older revision than the group has reached, while other peers hold the newest. Only
    /// its content may win, so change its strategy, restore a newer checkpoint on it, or call again with a restart
    /// allowed on all peers.
    SenderBehind {
        /// The send-only peer with the newest revision.
        sender: PeerId,
        /// The revision that the group held last.
        reached: Revision,
        /// The revision that this peer offers.
        offered: Revision,
    },
    /// The peers of the group offer a revision beyond the next one: the program did `revision += 1` more than once
    /// between two synchronizations.
    RevisionSkipped {
        /// The newest legal revision.
        expected: Revision,
        /// The oldest revision that a peer offers.
        offered: Revision,
    },
}

impl SyncFailure {
    /// Whether the same call may succeed if it is repeated without a change.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::TransferFailed { .. } | Self::TimedOut => true,
            Self::NobodyToSend
            | Self::SendersDiffer { .. }
            | Self::RevisionLost { .. }
            | Self::SenderBehind { .. }
            | Self::RevisionSkipped { .. } => false,
        }
    }
}

impl fmt::Display for SyncFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TransferFailed { peer } => {
                write!(f, "a transfer with {peer} failed; synchronize again")
            }
            Self::TimedOut => f.write_str("the transfers did not end in time; synchronize again"),
            Self::NobodyToSend => {
                f.write_str("every peer of the group is receive-only; let one of them send")
            }
            Self::SendersDiffer { one, other } => {
                write!(
                    f,
                    "the send-only peers {} and {} hold different content; let one of them send",
                    one.0, other.0
                )
            }
            Self::RevisionLost { reached, offered } => write!(
                f,
                "the group reached {reached} but nobody holds more than {offered}; \
                 restore a newer checkpoint, or allow a restart on every peer"
            ),
            Self::SenderBehind {
                sender,
                reached,
                offered,
            } => write!(
                f,
                "the group reached {reached} but the send-only {sender} holds {offered}; \
                 restore a newer checkpoint there, or do not let it be send-only"
            ),
            Self::RevisionSkipped { expected, offered } => write!(
                f,
                "the next revision is {} but the group offers {} or later; a revision counts \
                 synchronizations: add one to it between two of them, however many steps lie in between",
                expected.0, offered.0
            ),
        }
    }
}
