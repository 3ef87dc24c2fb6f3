//! Newtypes for everything that has a number, so that two numbers are never confused.

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
    /// A peer of a run. The master assigns ids in the order of arrival, and never reuses one in a run.
    PeerId(u64), "peer"
);
number!(
    /// A connection that a driver has accepted and that has no [`PeerId`] yet.
    ConnId(u64), "connection"
);
number!(
    /// A peer group: the peers that reduce and share state together. The peer chooses it.
    GroupId(u32), "group"
);
number!(
    /// A version of the membership with its rings. The ring of an epoch never changes: another ring is another epoch.
    /// Zero is the epoch before the first ring.
    Epoch(u64), "epoch"
);
number!(
    /// One attempt at something that peers do together and report on: connecting a ring, measuring bandwidth, moving
    /// shared state. A report about an earlier round is stale.
    Round(u64), "round"
);
number!(
    /// The user's number for a collective. Unique among the concurrent collectives of a group.
    Tag(u64), "tag"
);
number!(
    /// The master's number for one execution of a collective. Every data frame carries it.
    Seq(u64), "operation"
);
number!(
    /// A call of the user, until it is answered or given up. The driver chooses it; no two open calls of a peer have
    /// the same.
    CallId(u64), "call"
);
number!(
    /// The version of the shared state. It grows by exactly one per committed step.
    Revision(u64), "revision"
);
number!(
    /// The position of an entry in the shared state, whose entries are sorted by name.
    EntryIndex(u32), "entry"
);

/// A one-time permission to open lanes to a peer, which the master mints for one pair and one round.
///
/// `Debug` hides the value: it is a secret of the two peers and the master.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Ticket(pub u128);

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ticket(hidden)")
    }
}

/// The identity of a process: the public key that its transport proves. The machines compare identities and pass them
/// on; only the transport interprets the bytes.
///
/// `Debug` and `Display` show the first 4 bytes in hexadecimal, enough to distinguish the peers of a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Identity(pub [u8; 32]);

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .take(4)
            .try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("…")
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({self})")
    }
}

/// The members of a group, in any order. Two different groups have the same number with a probability of one in 2⁶⁴.
///
/// ```
/// use pccl_core::id::{Membership, PeerId};
///
/// let before = Membership::of(&[PeerId(1), PeerId(2), PeerId(3)]);
///
/// assert_eq!(before, Membership::of(&[PeerId(3), PeerId(1), PeerId(2)]));
/// assert_ne!(before, Membership::of(&[PeerId(1), PeerId(2)]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Membership(pub u64);

impl Membership {
    /// The membership of these peers.
    #[must_use]
    pub fn of(peers: &[PeerId]) -> Self {
        let sum = |sum: u64, peer: &PeerId| sum.wrapping_add(mix(peer.0));
        Self(peers.iter().fold(0, sum))
    }
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014): it
/// maps near numbers to unrelated numbers.
const fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// Hash of one entry's content: the first 16 bytes of its BLAKE3 hash, as a little-endian number.
///
/// Equal hashes count as equal content, in the election and on arrival: a peer accepts content if it has the hash of
/// the plan. So nobody must be able to find other content of a given hash, which takes 2¹²⁸ tries. By accident two of
/// n contents have the same hash with a probability of n² / 2¹²⁹.
///
/// 16 of the 32 bytes are kept, because the master holds and sends one hash for each entry of each peer. The price:
/// an attacker who chooses both contents finds two of the same hash in 2⁶⁴ tries, not 2¹²⁸. If such a peer's content
/// is then elected, the peer could give one of the two to some peers and the other one to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ContentHash(pub u128);

impl ContentHash {
    /// The hash of content with this BLAKE3 hash.
    #[must_use]
    pub fn from_blake3(hash: [u8; 32]) -> Self {
        let kept = hash.iter().take(16).rev();
        Self(kept.fold(0, |number, byte| number << 8 | u128::from(*byte)))
    }
}

/// Version of the protocol. All peers and the master of a run have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProtocolVersion(pub u16);

impl ProtocolVersion {
    /// The version of this crate.
    pub const CURRENT: Self = Self(16);
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "protocol version {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_hash_is_the_first_half_of_a_hash_in_little_endian() {
        let mut hash = [0xff; 32];
        hash[..16].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);

        let kept = ContentHash::from_blake3(hash);

        assert_eq!(kept, ContentHash(0x100f_0e0d_0c0b_0a09_0807_0605_0403_0201));
    }
}
