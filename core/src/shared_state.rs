//! What peers tell the master about their shared state, and what they may ask for.

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
    /// The most popular content wins; this peer may be its source or be overwritten.
    EnforcePopular,
    /// This peer's content wins, or the call fails. It is never overwritten.
    SendOnly,
    /// This peer takes what the others have. Its content is never chosen, and it never serves.
    ReceiveOnly,
}

/// One named part of the shared state, as its holder describes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EntryInfo {
    /// Unique within the state, at most [`MAX_ENTRY_NAME_BYTES`](crate::wire::MAX_ENTRY_NAME_BYTES).
    pub name: String,
    /// Type of the elements.
    pub element: ElementType,
    /// Number of elements.
    pub count: u64,
    /// Hash of the content.
    pub hash: ContentHash,
    /// Peers may hold different content: it is not compared, and only a newcomer receives it.
    pub allow_content_inequality: bool,
}

/// Most entries that a [`Misdeed::StateMismatch`](crate::messages::Misdeed::StateMismatch) names.
pub const MISMATCHES_NAMED_MAX: usize = 4;

/// What an entry is, whatever its name and its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EntryShape {
    /// Type of the elements.
    pub element: ElementType,
    /// Number of elements.
    pub count: u64,
    /// Peers may hold different content.
    pub allow_content_inequality: bool,
}

impl EntryShape {
    /// Size of the content; the largest number if it is beyond that.
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

/// An entry that a peer and the others do not describe alike. Its text calls the peer *it*.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EntryMismatch {
    /// The name.
    pub name: String,
    /// What it is at the peer; `None`: the peer has no such entry.
    pub own: Option<EntryShape>,
    /// What it is at the others; `None`: they have no such entry.
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
    /// What it is, whatever its name and its content.
    #[must_use]
    pub const fn shape(&self) -> EntryShape {
        EntryShape {
            element: self.element,
            count: self.count,
            allow_content_inequality: self.allow_content_inequality,
        }
    }

    /// Do the two describe the same entry, whatever its content?
    #[must_use]
    pub fn same_key(&self, other: &Self) -> bool {
        self.name == other.name && self.shape() == other.shape()
    }
}

/// A vote to synchronize the shared state.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SyncVote {
    /// The revision of the content that this peer holds.
    pub revision: Revision,
    /// How it takes part.
    pub strategy: SyncStrategy,
    /// This peer agrees to go on from whatever revision the group still holds. When every peer of
    /// the group says so, the revision rule is that of a first synchronization.
    pub restart: bool,
    /// The entries, sorted by name, names distinct.
    pub entries: Vec<EntryInfo>,
}

/// What one peer has to do so that the group holds one content.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SyncPlan {
    /// The attempt; reports carry it.
    pub round: Round,
    /// The revision that everybody will hold.
    pub revision: Revision,
    /// This peer's part.
    pub role: SyncRole,
}

/// A peer's part in moving shared state.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SyncRole {
    /// The content here is the elected one. Serve these peers (maybe none).
    Distribute {
        /// One lane per peer that asks here.
        to: Vec<LaneOrder>,
    },
    /// Fetch what differs (maybe nothing: then only the revision is adopted).
    Request {
        /// The lanes to the peers that serve, each of which holds all that is to be fetched. Empty if
        /// nothing has to move.
        from: Vec<LaneOrder>,
        /// What to fetch, with the hash that the content must have on arrival.
        entries: FetchList,
    },
}

/// Why a synchronization was not carried out. Nobody's content was changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SyncFailure {
    /// A transfer between two peers failed, or one of them was lost. Call again.
    TransferFailed {
        /// The peer that reported it, or that was lost.
        peer: PeerId,
    },
    /// The transfers did not end in time. Call again.
    TimedOut,
    /// Every peer that voted is receive-only.
    NobodyToSend,
    /// Two send-only peers hold different content or revisions.
    SendersDiffer {
        /// One of them.
        one: PeerId,
        /// Another.
        other: PeerId,
    },
    /// Nobody holds the revision that the group has reached, and not everybody agreed to restart
    /// from an older one. Restore a newer checkpoint, or call again with a restart allowed.
    RevisionLost {
        /// What the group last held.
        reached: Revision,
        /// The newest that anybody offers.
        offered: Revision,
    },
    /// A send-only peer, whose content alone may win, holds less than the group has reached, while others
    /// hold that. Let it take part otherwise, restore a newer checkpoint there, or call again with a
    /// restart allowed everywhere.
    SenderBehind {
        /// The send-only peer with the newest revision.
        sender: PeerId,
        /// What the group last held.
        reached: Revision,
        /// What that peer offers.
        offered: Revision,
    },
    /// The peers of the group offer a revision beyond the next one: `revision += 1` was done more than
    /// once between two synchronizations.
    RevisionSkipped {
        /// The newest legal revision.
        expected: Revision,
        /// The oldest that anybody offers.
        offered: Revision,
    },
}

impl SyncFailure {
    /// May the same call succeed when it is simply made again?
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
