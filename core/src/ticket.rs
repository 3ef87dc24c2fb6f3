//! Minting tickets: a ticket is the secret that a peer presents when it opens a lane to another peer.
//!
//! The master has the only [`TicketMint`] of a run. It gives the same ticket to both ends of a lane. The end that
//! dials presents it in its [`Preamble`](crate::wire::Preamble), and the other end compares. Nothing is stored: a
//! ticket is a function of what it permits. So the mint is a plain value, and two masters with the same key and
//! history mint the same tickets.

use core::fmt;
use core::hash::Hasher;

use serde::{Deserialize, Serialize};
use siphasher::sip128::{Hasher128, SipHasher24};

use crate::id::{PeerId, Round, Ticket};

/// Mints tickets with SipHash-2-4-128, a pseudorandom function: without the key nobody can compute the ticket of a
/// round and pair from other tickets.
///
/// `Debug` hides the key. The serialized form includes it, for example in a [`log`](crate::log) of the master.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TicketMint {
    /// 128 random bits, known only to the master.
    pub key: [u8; 16],
}

impl TicketMint {
    /// The ticket with which `from` may open lanes to `to` in `round`. It is always the same for the same arguments,
    /// and different for the opposite direction.
    #[must_use]
    pub fn mint(&self, round: Round, from: PeerId, to: PeerId) -> Ticket {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        for number in [round.0, from.0, to.0] {
            hasher.write(&number.to_le_bytes());
        }
        Ticket(hasher.finish128().as_u128())
    }

    /// The token of a peer's [session](crate::session): what it has to show to go on over another connection.
    #[must_use]
    pub fn session(&self, peer: PeerId) -> Ticket {
        let mut hasher = SipHasher24::new_with_key(&self.derive_key(b"sessions"));
        hasher.write(&peer.0.to_le_bytes());
        Ticket(hasher.finish128().as_u128())
    }

    /// A secret for another purpose than tickets. Its input is longer than that of any ticket, so that tickets, which
    /// peers know, reveal nothing about it.
    pub(crate) fn derive_key(&self, purpose: &[u8]) -> [u8; 16] {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write(b"pccl: no ticket, but the key of ");
        hasher.write(purpose);
        hasher.finish128().as_bytes()
    }
}

impl fmt::Debug for TicketMint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TicketMint(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::format;

    use super::*;

    const MINT: TicketMint = TicketMint { key: [7; 16] };

    #[test]
    fn both_ends_of_a_lane_get_the_same_ticket() {
        let first = MINT.mint(Round(3), PeerId(1), PeerId(2));
        let again = MINT.clone().mint(Round(3), PeerId(1), PeerId(2));

        assert_eq!(first, again);
    }

    #[test]
    fn no_two_rounds_pairs_directions_or_keys_share_a_ticket() {
        let other_key = TicketMint { key: [8; 16] };
        let mut tickets = BTreeSet::new();
        let mut minted = 0;

        for mint in [&MINT, &other_key] {
            for round in 0..8 {
                for from in 0..8 {
                    for to in 0..8 {
                        tickets.insert(mint.mint(Round(round), PeerId(from), PeerId(to)));
                        minted += 1;
                    }
                }
            }
        }

        assert_eq!(tickets.len(), minted);
    }

    #[test]
    fn the_key_does_not_appear_in_logs() {
        assert_eq!(format!("{MINT:?}"), "TicketMint(hidden)");
    }
}
