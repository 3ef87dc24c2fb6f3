//! Who is whose neighbour: rings, their edges, world sizes, and what can go wrong with an edge.

use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::id::{Epoch, Identity, PeerId, Round, Ticket};

/// The ring of one group in one epoch: a permutation of the group's accepted peers. Data flows from
/// a peer to the next in the list, and from the last to the first.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Ring(pub Vec<PeerId>);

impl Ring {
    /// Number of peers.
    #[must_use]
    pub fn world_size(&self) -> usize {
        self.0.len()
    }

    /// Position of `peer`, or `None` where it is not a member.
    #[must_use]
    pub fn rank_of(&self, peer: PeerId) -> Option<usize> {
        self.0.iter().position(|member| *member == peer)
    }

    /// Who receives from `peer`; `None` for a stranger and in a ring of one.
    #[must_use]
    pub fn next_of(&self, peer: PeerId) -> Option<PeerId> {
        let rank = self.rank_of(peer)?;
        let after = self.0.get(rank + 1).or_else(|| self.0.first())?;
        (*after != peer).then_some(*after)
    }

    /// Who sends to `peer`; `None` for a stranger and in a ring of one.
    #[must_use]
    pub fn previous_of(&self, peer: PeerId) -> Option<PeerId> {
        let rank = self.rank_of(peer)?;
        let before = match rank.checked_sub(1) {
            Some(rank) => self.0.get(rank)?,
            None => self.0.last()?,
        };
        (*before != peer).then_some(*before)
    }

    /// Every directed edge, sender first. A ring of two has two edges, a ring of one has none.
    pub fn edges(&self) -> impl Iterator<Item = (PeerId, PeerId)> + '_ {
        let next = self.0.iter().cycle().skip(1);
        let pairs = self.0.iter().copied().zip(next.copied());
        pairs.filter(|(from, to)| from != to)
    }
}

/// Sizes of the run, counting accepted peers only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct WorldSizes {
    /// Accepted peers of all groups.
    pub global: u32,
    /// Accepted peers of the own group.
    pub group: u32,
    /// Groups that have an accepted peer.
    pub groups: u32,
    /// Accepted peers of the largest group.
    pub largest_group: u32,
}

/// What a peer knows of the run after a successful topology update.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Topology {
    /// The epoch that this ring belongs to.
    pub epoch: Epoch,
    /// The own group's ring.
    pub ring: Ring,
    /// Lanes of the ring edge that has the most. A buffer is cut for so many; an edge with fewer lanes
    /// carries several parts on one.
    pub lanes: u16,
    /// World sizes at this epoch.
    pub world: WorldSizes,
}

/// Which lanes are the edges of a peer's ring: each edge by the round in which it was built. `None`
/// where the ring has no such edge.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct RingEdges {
    /// The edge to the next peer.
    pub next: Option<Round>,
    /// The edge from the previous peer.
    pub previous: Option<Round>,
}

/// Which of a peer's two ring edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Edge {
    /// The edge that this peer sends on.
    ToNext,
    /// The edge that this peer receives on.
    FromPrevious,
}

/// Which ring edges of a peer have lost a lane since they were built. Every vote that may lead to a
/// collective carries it, so that a broken edge between two living peers is rebuilt.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct BrokenEdges {
    /// The edge to the next peer is broken.
    pub to_next: bool,
    /// The edge from the previous peer is broken.
    pub from_previous: bool,
}

impl BrokenEdges {
    /// Both edges are whole.
    pub const NONE: Self = Self {
        to_next: false,
        from_previous: false,
    };

    /// Is any edge broken?
    #[must_use]
    pub const fn any(self) -> bool {
        self.to_next || self.from_previous
    }
}

/// An order to connect lanes with one peer. The same ticket is given to both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LaneOrder {
    /// Who is at the other end.
    pub with: PeerId,
    /// Presented by the end that dials, expected by the other.
    pub ticket: Ticket,
    /// `Some`: dial this address. `None`: the other end will dial; expect it.
    pub dial: Option<SocketAddr>,
    /// How many lanes, at least one; the same for both ends.
    pub lanes: u16,
    /// What the other end has proved to the master, and has to prove on each lane, whatever ticket it
    /// presents. `None`: the run's transport proves nothing.
    pub identity: Option<Identity>,
}

impl LaneOrder {
    /// Whether a lane whose other end has proved this identity, or none, is one of the ordered ones. If it
    /// is not: drop it, before anything is said on it.
    #[must_use]
    pub fn is_with(&self, proven: Option<Identity>) -> bool {
        let expected = self.identity;
        rule!(
            expected.is_none() || expected == proven;
            AnyIdentityTaken => true,
            UnprovenIdentityTaken => proven.is_none() || expected.is_none() || expected == proven
        )
    }
}

/// Why lanes to a peer did not come up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LaneFailure {
    /// Nobody listens at the address, or a firewall refuses.
    Refused,
    /// No answer in time.
    TimedOut,
    /// No route to the address.
    Unreachable,
    /// The connection ended before the lanes were up.
    Closed,
    /// Whoever answered did not speak this protocol or did not accept the ticket.
    BadHandshake,
    /// Whoever is at the address has not proved the identity that the master named.
    Untrusted,
    /// The peer's own machine ran out of something (ports, descriptors, memory).
    Local,
}

impl fmt::Display for LaneFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "the connection was refused",
            Self::TimedOut => "there was no answer in time",
            Self::Unreachable => "there is no route to the address",
            Self::Closed => "the connection ended during the handshake",
            Self::BadHandshake => "the handshake was refused",
            Self::Untrusted => "another process than the expected one answered",
            Self::Local => "the dialling machine ran out of resources",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THEIRS: Identity = Identity([1; 32]);
    const STOLEN: Identity = Identity([2; 32]);

    fn order(identity: Option<Identity>) -> LaneOrder {
        LaneOrder {
            with: PeerId(2),
            ticket: Ticket(3),
            dial: None,
            lanes: 1,
            identity,
        }
    }

    #[test]
    fn a_ticket_is_of_no_use_to_whoever_has_another_key_or_shows_none() {
        let order = order(Some(THEIRS));

        assert!(order.is_with(Some(THEIRS)));
        assert!(!order.is_with(Some(STOLEN)));
        assert!(!order.is_with(None));
    }

    #[test]
    fn where_the_master_names_no_key_the_ticket_is_all_there_is() {
        let order = order(None);

        assert!(order.is_with(None));
        assert!(order.is_with(Some(THEIRS)));
    }

    #[test]
    fn one_broken_edge_is_enough() {
        let any = |to_next, from_previous| {
            let edges = BrokenEdges {
                to_next,
                from_previous,
            };
            edges.any()
        };

        assert!(!BrokenEdges::NONE.any());
        assert!(any(true, false));
        assert!(any(false, true));
        assert!(any(true, true));
    }
}
