//! Rings, links and world sizes, and what can go wrong with a link.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::id::{Epoch, Identity, PeerId, Round, Ticket};
use crate::name::{NamedPeer, PeerName};
use crate::site::{SiteMap, SiteName};

/// The ring of one group in one epoch: a permutation of the group's accepted peers. Data flows from a peer to the
/// next one in the list, and from the last to the first.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Ring(pub Vec<PeerId>);

impl Ring {
    /// Number of peers.
    #[must_use]
    pub fn world_size(&self) -> usize {
        self.0.len()
    }

    /// The rank of `peer`, which is its position. `None` if it is not a member.
    #[must_use]
    pub fn rank_of(&self, peer: PeerId) -> Option<usize> {
        self.0.iter().position(|member| *member == peer)
    }

    /// The peer that receives from `peer`. `None` if `peer` is not a member, or the only one.
    #[must_use]
    pub fn next_of(&self, peer: PeerId) -> Option<PeerId> {
        let rank = self.rank_of(peer)?;
        let after = self.0.get(rank + 1).or_else(|| self.0.first())?;
        (*after != peer).then_some(*after)
    }

    /// The peer that sends to `peer`. `None` if `peer` is not a member, or the only one.
    #[must_use]
    pub fn previous_of(&self, peer: PeerId) -> Option<PeerId> {
        let rank = self.rank_of(peer)?;
        let before = match rank.checked_sub(1) {
            Some(rank) => self.0.get(rank)?,
            None => self.0.last()?,
        };
        (*before != peer).then_some(*before)
    }

    /// Whether the ring consists of these peers, each of them once.
    #[must_use]
    pub fn is_of(&self, peers: &BTreeSet<PeerId>) -> bool {
        let on_ring: BTreeSet<PeerId> = self.0.iter().copied().collect();
        on_ring == *peers && on_ring.len() == self.world_size()
    }

    /// Whether the first of these sends to the second on the ring.
    #[must_use]
    pub fn has_edge(&self, (from, to): (PeerId, PeerId)) -> bool {
        self.next_of(from) == Some(to)
    }

    /// All links of a mesh of these peers, sender first.
    pub fn pairs(&self) -> impl Iterator<Item = (PeerId, PeerId)> + '_ {
        let to_others = |from: PeerId| {
            let others = self.0.iter().filter(move |to| **to != from);
            others.map(move |to| (from, *to))
        };
        self.0.iter().copied().flat_map(to_others)
    }

    /// All directed edges, sender first. A ring of two has two edges, a ring of one has none.
    pub fn edges(&self) -> impl Iterator<Item = (PeerId, PeerId)> + '_ {
        let next = self.0.iter().cycle().skip(1);
        let pairs = self.0.iter().copied().zip(next.copied());
        pairs.filter(|(from, to)| from != to)
    }
}

/// Sizes of the run, in accepted peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct WorldSizes {
    /// Accepted peers of all groups.
    pub global: u32,
    /// Accepted peers of this peer's group.
    pub group: u32,
    /// Groups with at least one accepted peer.
    pub groups: u32,
    /// Accepted peers of the largest group.
    pub largest_group: u32,
}

/// The topology after a successful update, as one peer sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Topology {
    /// The epoch of this ring.
    pub epoch: Epoch,
    /// The ring of this peer's group.
    pub ring: Ring,
    /// The site of each rank of the ring.
    pub sites: SiteMap,
    /// Number of lanes of the ring edge that has the most. A buffer is cut into at most this many stripes. An edge
    /// with fewer lanes carries several stripes on one lane.
    pub lanes: u16,
    /// Whether all peers of the ring have one address, which usually means one machine.
    pub within_machine: bool,
    /// World sizes in this epoch.
    pub world: WorldSizes,
    /// The name of each rank of the ring. Empty if nobody has a name.
    pub names: Vec<PeerName>,
}

impl Topology {
    /// `peer` with its name, if it has one and is a member of the ring.
    #[must_use]
    pub fn named(&self, peer: PeerId) -> NamedPeer {
        let rank = self.ring.rank_of(peer);
        let name = rank.and_then(|rank| self.names.get(rank));
        NamedPeer {
            peer,
            name: name.cloned().unwrap_or_default(),
        }
    }

    /// The site of `peer`. `None` if it is not a member of the ring.
    #[must_use]
    pub fn site_of(&self, peer: PeerId) -> Option<&SiteName> {
        self.sites.name_of(self.ring.rank_of(peer)?)
    }
}

/// The direction of a link, as one of its ends sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Way {
    /// This peer sends.
    Out,
    /// This peer receives.
    In,
}

impl Way {
    /// The direction of the same link, as its other end sees it.
    #[must_use]
    pub const fn other_end(self) -> Self {
        match self {
            Self::Out => Self::In,
            Self::In => Self::Out,
        }
    }
}

/// A link of a peer: a number of lanes to or from another peer, on which bytes flow in one direction. A peer has at
/// most one link in each direction with each other peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LinkId {
    /// Whether this peer sends or receives.
    pub way: Way,
    /// The peer at the other end.
    pub with: PeerId,
}

impl LinkId {
    /// The link on which a peer sends to `peer`.
    #[must_use]
    pub const fn to(peer: PeerId) -> Self {
        let way = Way::Out;
        Self { way, with: peer }
    }

    /// The link on which a peer receives from `peer`.
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

/// An established link, and the round in which its lanes were connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BuiltLink {
    /// The link.
    pub link: LinkId,
    /// The round of its lanes.
    pub built: Round,
}

/// The links of a peer in one epoch, in ascending order, each once.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Layout(pub Vec<BuiltLink>);

impl Layout {
    /// Whether the links are in ascending order, each once.
    #[must_use]
    pub fn is_in_order(&self) -> bool {
        self.0.is_sorted_by(|one, next| one.link < next.link)
    }

    /// The round in which the lanes of a link were connected. `None` if the peer has no such link.
    #[must_use]
    pub fn built(&self, link: LinkId) -> Option<Round> {
        let mut built = self.0.iter().filter(|built| built.link == link);
        built.next().map(|built| built.built)
    }
}

/// The links of a peer that have lost a lane since they were connected, in ascending order. Every vote that may lead
/// to a collective carries it, so that a broken link between two live peers is rebuilt.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct BrokenLinks(pub Vec<LinkId>);

impl BrokenLinks {
    /// No broken links.
    pub const NONE: Self = Self(Vec::new());

    /// Whether any link is broken.
    #[must_use]
    pub const fn any(&self) -> bool {
        !self.0.is_empty()
    }
}

/// An order to connect lanes with one peer. Both ends get the same ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LaneOrder {
    /// The peer at the other end.
    pub with: PeerId,
    /// The ticket. The end that dials presents it, and the other end expects it.
    pub ticket: Ticket,
    /// `Some`: dial this address. `None`: the other end dials; expect it.
    pub dial: Option<SocketAddr>,
    /// Number of lanes, at least one; the same for both ends.
    pub lanes: u16,
    /// The identity that the other end has proved to the master. It must prove it on each lane as well, whatever
    /// ticket it presents. `None`: the run's transport proves nothing.
    pub identity: Option<Identity>,
}

/// An order to connect a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LinkOrder {
    /// Whether this peer sends or receives on the link.
    pub way: Way,
    /// The lanes of the link.
    pub lanes: LaneOrder,
}

impl LinkOrder {
    /// The link to be connected.
    #[must_use]
    pub const fn link(&self) -> LinkId {
        LinkId {
            way: self.way,
            with: self.lanes.with,
        }
    }
}

impl LaneOrder {
    /// Whether a lane is one of the ordered lanes, by the identity that its other end has proved, or none. If not,
    /// drop the lane before sending anything on it.
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
    /// No process listens at the address, or a firewall refuses.
    Refused,
    /// There was no answer in time.
    TimedOut,
    /// There is no route to the address.
    Unreachable,
    /// The connection ended before the lanes were up.
    Closed,
    /// The other end did not speak this protocol, or did not accept the ticket.
    BadHandshake,
    /// The other end has not proved the identity that the master named.
    Untrusted,
    /// This peer's machine ran out of a resource (ports, descriptors, memory).
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
