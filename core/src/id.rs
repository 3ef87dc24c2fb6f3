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
    /// A call of the user, from when it is made until it is answered or given up. Chosen by the driver; no two
    /// calls that are open at one peer have the same.
    CallId(u64), "call"
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

/// Who a process is: the public key that its transport proves it to have. The machines compare it and pass
/// it on; what the bytes mean is the transport's business.
///
/// `Debug` and `Display` show the first 4 bytes in hexadecimal digits, enough to tell the peers of a run
/// apart.
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

/// Which peers a group consists of, in whatever order: two groups of different peers have one number with a chance of
/// one in 2⁶⁴.
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
    /// That of these peers.
    #[must_use]
    pub fn of(peers: &[PeerId]) -> Self {
        let sum = |sum: u64, peer: &PeerId| sum.wrapping_add(mix(peer.0));
        Self(peers.iter().fold(0, sum))
    }
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014): near
/// numbers become numbers that have nothing in common.
const fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// Hash of one entry's content: the first 16 bytes of its BLAKE3 hash, as a little-endian number.
///
/// Equal hashes stand for equal content, in the election and on arrival: what a neighbour sent is
/// taken if it has the hash that the plan names. So it has to be out of anybody's reach to find other
/// content of a given hash, which takes 2¹²⁸ tries. By accident two of n contents have the same hash
/// with a chance of n² / 2¹²⁹.
///
/// 16 of the 32 bytes are kept because the master holds, and sends, one hash for each entry of each
/// peer. What that costs: two contents of the same hash, both chosen by whoever wants them, take 2⁶⁴
/// tries instead of 2¹²⁸. A peer that went to that expense and whose content is then elected could
/// give one of the two to some peers and the other one to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ContentHash(pub u128);

impl ContentHash {
    /// Of content with this BLAKE3 hash.
    #[must_use]
    pub fn from_blake3(hash: [u8; 32]) -> Self {
        let kept = hash.iter().take(16).rev();
        Self(kept.fold(0, |number, byte| number << 8 | u128::from(*byte)))
    }
}

/// Version of the protocol. Peers and master of one run speak the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProtocolVersion(pub u16);

impl ProtocolVersion {
    /// What this crate speaks.
    pub const CURRENT: Self = Self(7);
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
