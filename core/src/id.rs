//! Newtypes for everything that has a number, so that two numbers never change places.

use core::fmt;
use serde::{Deserialize, Serialize};

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($repr:ty), $word:literal) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
        )]
        pub struct $name(pub $repr);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($word, " {}"), self.0)
            }
        }

        impl $name {
            /// The number that follows, saturating at the largest.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }
    };
}

number!(
    /// A peer of a run. Given by the master in the order of arrival, never used twice in a run.
    PeerId(u64), "peer"
);
number!(
    /// A connection that a driver has accepted and that has no [`PeerId`] yet.
    ConnId(u64), "connection"
);
number!(
    /// A peer group: the peers that reduce and share state together. Chosen by the peer.
    GroupId(u32), "group"
);
number!(
    /// One membership with its rings. The ring of an epoch never changes: another ring is another
    /// epoch. Zero is the epoch before the first ring.
    Epoch(u64), "epoch"
);
number!(
    /// One attempt at something that peers do together and report on: connecting a ring, measuring
    /// bandwidth, moving shared state. A report about an earlier round is out of date.
    Round(u64), "round"
);
number!(
    /// The user's name for a collective. Unique among the collectives of a group that run together.
    Tag(u64), "tag"
);
number!(
    /// The master's number for one execution of a collective; every data frame carries it.
    Seq(u64), "operation"
);
number!(
    /// Version of the shared state: grows by exactly one per committed advance.
    Revision(u64), "revision"
);
number!(
    /// Position of an entry in the shared state's entries sorted by name.
    EntryIndex(u32), "entry"
);

/// A one-time permission to open lanes to a peer, minted by the master for one pair and one round.
///
/// `Debug` hides the value: it is a secret between the two peers and the master.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Ticket(pub u128);

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ticket(hidden)")
    }
}

/// Hash of one entry's content (simplehash, widened). Equal content has equal hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ContentHash(pub u64);

/// Version of the protocol. Peers and master of one run speak the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProtocolVersion(pub u16);

impl ProtocolVersion {
    /// What this crate speaks.
    pub const CURRENT: Self = Self(1);
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "protocol version {}", self.0)
    }
}
