//! Who is connected with whom: rings, links, world sizes, and what can go wrong with a link.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::id::{Epoch, Identity, PeerId, Round, Ticket};
use crate::site::{SiteMap, SiteName};

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

    /// Whether it is a ring of these peers, each of them once.
    #[must_use]
    pub fn is_of(&self, peers: &BTreeSet<PeerId>) -> bool {
        let on_ring: BTreeSet<PeerId> = self.0.iter().copied().collect();
        on_ring == *peers && on_ring.len() == self.world_size()
    }

    /// Whether the first of these sends to the second around the ring.
    #[must_use]
    pub fn has_edge(&self, (from, to): (PeerId, PeerId)) -> bool {
        self.next_of(from) == Some(to)
    }

    /// Every link that a mesh of these peers has, sender first.
    pub fn pairs(&self) -> impl Iterator<Item = (PeerId, PeerId)> + '_ {
        let to_others = |from: PeerId| {
            let others = self.0.iter().filter(move |to| **to != from);
            others.map(move |to| (from, *to))
        };
        self.0.iter().copied().flat_map(to_others)
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
    /// The site of each rank of the ring.
    pub sites: SiteMap,
    /// Lanes of the ring edge that has the most. A buffer is cut for so many; an edge with fewer lanes
    /// carries several parts on one.
    pub lanes: u16,
    /// World sizes at this epoch.
    pub world: WorldSizes,
}

impl Topology {
    /// The site of a member of the ring. `None`: `peer` is not one.
    #[must_use]
    pub fn site_of(&self, peer: PeerId) -> Option<&SiteName> {
        self.sites.name_of(self.ring.rank_of(peer)?)
    }
}

/// In which direction the bytes of a link flow, seen from one of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Way {
    /// This peer sends.
    Out,
    /// This peer receives.
    In,
}

impl Way {
    /// The same link, seen from its other end.
    #[must_use]
    pub const fn other_end(self) -> Self {
        match self {
            Self::Out => Self::In,
            Self::In => Self::Out,
        }
    }
}

/// A link of a peer: some lanes to or from another one, on which bytes flow in one direction. A peer has at most
/// one link of each direction with each other peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LinkId {
    /// Whether this peer sends or receives.
    pub way: Way,
    /// Who is at the other end.
    pub with: PeerId,
}

impl LinkId {
    /// The link on which `peer` is sent to.
    #[must_use]
    pub const fn to(peer: PeerId) -> Self {
        let way = Way::Out;
        Self { way, with: peer }
    }

    /// The link on which `peer` sends.
    #[must_use]
    pub const fn from(peer: PeerId) -> Self {
        let way = Way::In;
        Self { way, with: peer }
    }

    /// The two ends of this link of `me`, the sender first.
    #[must_use]
    pub const fn ends(self, me: PeerId) -> (PeerId, PeerId) {
        match self.way {
            Way::Out => (me, self.with),
            Way::In => (self.with, me),
        }
    }
}

/// A link that stands, and which lanes it is: those of the round in which it was built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BuiltLink {
    /// Which link.
    pub link: LinkId,
    /// When it was built.
    pub built: Round,
}

/// The links that a peer has in one epoch, in the order of their names, each once.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Layout(pub Vec<BuiltLink>);

impl Layout {
    /// Whether they are in order, and each is there once.
    #[must_use]
    pub fn is_in_order(&self) -> bool {
        self.0.is_sorted_by(|one, next| one.link < next.link)
    }

    /// The round in which a link was built. `None`: the peer has no such link.
    #[must_use]
    pub fn built(&self, link: LinkId) -> Option<Round> {
        let mut built = self.0.iter().filter(|built| built.link == link);
        built.next().map(|built| built.built)
    }
}

/// Which links of a peer have lost a lane since they were built, in the order of their names. Every vote that
/// may lead to a collective carries it, so that a broken link between two living peers is rebuilt.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct BrokenLinks(pub Vec<LinkId>);

impl BrokenLinks {
    /// All links are whole.
    pub const NONE: Self = Self(Vec::new());

    /// Whether any link is broken.
    #[must_use]
    pub const fn any(&self) -> bool {
        !self.0.is_empty()
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

/// An order to connect a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LinkOrder {
    /// Whether this peer will send or receive on it.
    pub way: Way,
    /// Its lanes.
    pub lanes: LaneOrder,
}

impl LinkOrder {
    /// The link that is to be connected.
    #[must_use]
    pub const fn link(&self) -> LinkId {
        LinkId {
            way: self.way,
            with: self.lanes.with,
        }
    }
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
    fn both_ends_of_a_link_mean_the_same_by_it() {
        let (here, there) = (PeerId(2), PeerId(7));
        let out = LinkId::to(there);
        let seen_from_there = LinkId {
            way: out.way.other_end(),
            with: here,
        };

        assert_eq!(seen_from_there, LinkId::from(here));
        assert_eq!(out.ends(here), seen_from_there.ends(there));
        assert_eq!(out.ends(here), (here, there));
    }

    #[test]
    fn a_layout_names_each_link_once_and_in_order() {
        let built = |link, round| BuiltLink {
            link,
            built: Round(round),
        };
        let (a, b) = (LinkId::to(PeerId(2)), LinkId::from(PeerId(1)));

        let layout = Layout(alloc::vec![built(a, 4), built(b, 5)]);

        assert!(layout.is_in_order());
        assert_eq!(layout.built(b), Some(Round(5)));
        assert_eq!(layout.built(LinkId::to(PeerId(1))), None);
        assert!(!Layout(alloc::vec![built(b, 5), built(a, 4)]).is_in_order());
        assert!(!Layout(alloc::vec![built(a, 4), built(a, 5)]).is_in_order());
    }
}
